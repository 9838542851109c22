// The entry of a sealed object: its rows as JSON, compressed in parts of bounded size. Each part names
// its object and place and has a digest, so that no changed, missing or foreign part is read. Pure. A
// format is never changed, nor its dictionary: entries stay, and later editions read them.

import { deflateRawSync, inflateRawSync } from 'node:zlib'
import { sha256 } from '../../shared/bytes/json.ts'
import { LIMITS } from '../../shared/limits.ts'
import { err, ok, type Result } from '../../shared/result.ts'
import { DICTIONARY } from './dictionary.ts'

/** As SQLite returns it. */
export type SqlValue = string | number | null | ArrayBuffer
export type Row = Readonly<Record<string, SqlValue>>
/** Some rows of a table, all with the same columns. */
export type Page = { readonly table: string; readonly rows: readonly Row[] }
export type EntryPart = { readonly digest: string; readonly bytes: Uint8Array }
/** `migration`: that of the tables from which the rows are. */
export type OpenPart = { readonly migration: number; readonly pages: readonly Page[] }

/** The bytes of an entry in an archive: its parts, each with a digest, keys and a share of a page. */
export const sizeOf = (entry: readonly EntryPart[]): number =>
  entry.reduce((sum, { bytes }) => sum + bytes.byteLength + PART_BYTES, 0)
const PART_BYTES = 256

const FORMAT = 1
const dictionary = Buffer.from(DICTIONARY)

type EncodedPage = readonly [table: string, columns: readonly string[], ...rows: Encoded[][]]
type EncodedPart = readonly [
  format: number,
  object: string,
  migration: number,
  part: number,
  last: boolean,
  pages: readonly EncodedPage[],
]
/** `text`: bytes that are UTF-8. `payload`: a text with an envelope's payload, without its base64. */
type Encoded =
  | string
  | number
  | null
  | { readonly text: string }
  | { readonly base64: string }
  | { readonly payload: readonly [before: string, payload: string, after: string] }

/** The parts of an entry, one after the other: between two of them the caller may let others work. */
export function* entryOf(object: string, migration: number, pages: Iterable<Page>): Generator<EntryPart> {
  let [part, size, gathered]: [number, number, string[]] = [0, 0, []]
  const close = (last: boolean): EntryPart => {
    const head = JSON.stringify([FORMAT, object, migration, part++, last])
    const text = `${head.slice(0, -1)},[${gathered.join()}]]`
    const bytes = deflateRawSync(text, { dictionary })
    ;[size, gathered] = [0, []]
    return { digest: sha256(bytes), bytes }
  }
  for (const { table, rows } of pages) {
    if (size > LIMITS.archive_part_chars) yield close(false)
    const page: EncodedPage = [
      table,
      Object.keys(rows[0] ?? {}),
      ...rows.map((row) => Object.values(row).map(encode)),
    ]
    const text = JSON.stringify(page)
    gathered.push(text)
    size += text.length
  }
  yield close(true)
}

/** Opens one of the `parts` of an object's entry; an error says what is wrong with it. */
export function openPart(
  object: string,
  part: number,
  parts: number,
  { digest, bytes }: EntryPart,
): Result<OpenPart, string> {
  if (sha256(bytes) !== digest) return err('its digest is another one')
  const text = inflateRawSync(bytes, { dictionary }).toString()
  const [format, owner, migration, number, last, pages] = JSON.parse(text) as EncodedPart // `entryOf` wrote it, by its digest
  if (format !== FORMAT) return err(`its format is ${format}`)
  if (owner !== object || number !== part) return err('it belongs elsewhere')
  if (last !== (part === parts - 1)) return err('parts of it are missing')
  return ok({ migration, pages: pages.map(openPage) })
}

const openPage = ([table, columns, ...rows]: EncodedPage): Page => ({
  table,
  rows: rows.map((row) => Object.fromEntries(columns.map((column, i) => [column, decode(row[i] ?? null)]))),
})

const PAYLOAD = /"payload":"([A-Za-z0-9+/=]{64,})"/d

function encode(value: SqlValue): Encoded {
  if (value instanceof ArrayBuffer) return encodeBytes(Buffer.from(value))
  const found = typeof value === 'string' ? PAYLOAD.exec(value) : null
  const [from, to] = found?.indices?.[1] ?? [0, 0]
  if (typeof value !== 'string' || to === 0) return value
  // Compressed, the payload takes a third less than its base64.
  const payload = encodeBytes(Buffer.from(value.slice(from, to), 'base64'))
  const encoded =
    'text' in payload ? { payload: [value.slice(0, from), payload.text, value.slice(to)] as const } : value
  return decode(encoded) === value ? encoded : value
}

function encodeBytes(bytes: Buffer): { text: string } | { base64: string } {
  const text = bytes.toString()
  return Buffer.from(text).equals(bytes) ? { text } : { base64: bytes.toString('base64') }
}

function decode(value: Encoded): SqlValue {
  if (value === null || typeof value !== 'object') return value
  if ('text' in value) return arrayBufferOf(Buffer.from(value.text))
  if ('base64' in value) return arrayBufferOf(Buffer.from(value.base64, 'base64'))
  const [before, payload, after] = value.payload
  return before + Buffer.from(payload).toString('base64') + after
}

/** A copy: small Buffers share one ArrayBuffer. */
const arrayBufferOf = (bytes: Buffer): ArrayBuffer => new Uint8Array(bytes).buffer

const DAMAGED = 'the archive entry of '

/** The error of an object that can't be read, because its entry is damaged. */
export const damaged = (object: string, reason: string): Error =>
  new Error(`${DAMAGED}${object} is damaged: ${reason}`)

/** Whether this is that error, also if another object threw it. */
export const isDamaged = (thrown: unknown): boolean =>
  thrown instanceof Error && thrown.message.includes(DAMAGED)
