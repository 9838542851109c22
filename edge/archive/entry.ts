// The format of an entry: the rows of sealed runs as JSON, compressed in parts of bounded size, and an
// index. The index names each part by its digest and says which runs are in it; the index has a digest,
// too. So a read needs only the index and the parts of one run, and refuses every changed, missing or
// foreign part. Pure. A format and its dictionary never change, because later editions read old entries.

import { createHash } from 'node:crypto'
import { deflateRawSync, inflateRawSync } from 'node:zlib'
import { err, ok, type Result } from '../../shared/result.ts'
import { DICTIONARY } from './dictionary.ts'

/** As SQLite returns it. */
export type SqlValue = string | number | null | ArrayBuffer
export type Row = Readonly<Record<string, SqlValue>>
/** Some rows of a table, all with the same columns. */
export type Page = { readonly table: string; readonly rows: readonly Row[] }
/** Bytes, with their SHA-256 in base64url. */
export type EntryPart = { readonly digest: string; readonly bytes: Uint8Array }

/** A part of an entry: whole runs, or a piece of one run. */
export type PartRef = {
  readonly digest: string
  /** The number of its first run. */
  readonly first: number
  /** Counts the changes of the runs whose row of the table `run` is in it. It never decreases. */
  readonly weight: number
  /** `namesOf` the ids of its runs; for a piece, also of the texts by which its rows are found. */
  readonly names: string
  /** For a piece: the first and last key of each table in it. */
  readonly ranges: Ranges | null
}
export type Ranges = Readonly<Record<string, readonly [first: number, last: number]>>
/** `migration`: the version of the tables of these rows. `next`: the number that the next run gets. */
export type Index = {
  readonly migration: number
  readonly next: number
  readonly parts: readonly PartRef[]
}

const FORMAT = 2
const NAME_BYTES = 4
const NAME_CHARS = 6
const dictionary = Buffer.from(DICTIONARY)

type EncodedIndex = readonly [
  format: number,
  object: string,
  migration: number,
  next: number,
  parts: ReadonlyArray<
    readonly [digest: string, first: number, weight: number, names: string, ranges: Ranges | null]
  >,
]
type EncodedPage = readonly [table: string, columns: readonly string[], ...rows: Encoded[][]]
/** `text`: bytes that are UTF-8. `payload`: a text with an envelope's payload, without its base64. */
type Encoded =
  | string
  | number
  | null
  | { readonly text: string }
  | { readonly base64: string }
  | { readonly payload: readonly [before: string, payload: string, after: string] }

const sha256 = (bytes: Uint8Array | string): Buffer => createHash('sha256').update(bytes).digest()
const partOf = (bytes: Uint8Array): EntryPart => ({ digest: sha256(bytes).toString('base64url'), bytes })

/** A short hash. */
export const nameOf = (text: string): string => sha256(text).subarray(0, NAME_BYTES).toString('base64url')
/** The short hashes of texts, among which `mayHave` looks for one. */
export const namesOf = (texts: Iterable<string>): string => [...new Set(texts)].map(nameOf).join('')

/** Whether `names` may have this short hash. The answer is never wrongly no, and rarely wrongly yes. */
export function mayHave(names: string, name: string): boolean {
  for (let at = names.indexOf(name); at >= 0; at = names.indexOf(name, at + 1))
    if (at % NAME_CHARS === 0) return true
  return false
}

export function sealIndex(object: string, { migration, next, parts }: Index): EntryPart {
  const encoded: EncodedIndex = [
    FORMAT,
    object,
    migration,
    next,
    parts.map(({ digest, first, weight, names, ranges }) => [digest, first, weight, names, ranges]),
  ]
  return partOf(Buffer.from(JSON.stringify(encoded)))
}

/** An error says what is wrong with the index of the object. */
export function openIndex(object: string, { digest, bytes }: EntryPart): Result<Index, string> {
  if (partOf(bytes).digest !== digest) return err('its digest does not match')
  const [format, owner, migration, next, parts] = JSON.parse(Buffer.from(bytes).toString()) as EncodedIndex // `sealIndex` wrote it, by its digest
  if (format !== FORMAT) return err(`its format is ${format}`)
  if (owner !== object) return err('it belongs to another object')
  const refs = parts.map(([part, first, weight, names, ranges]) => ({
    digest: part,
    first,
    weight,
    names,
    ranges,
  }))
  return ok({ migration, next, parts: refs })
}

export function sealPart(pages: readonly Page[]): EntryPart {
  const encoded = pages.map(
    ({ table, rows }): EncodedPage => [
      table,
      Object.keys(rows[0] ?? {}),
      ...rows.map((row) => Object.values(row).map(encode)),
    ],
  )
  return partOf(deflateRawSync(JSON.stringify(encoded), { dictionary }))
}

/** `digest`: as the index has it. `chars`: the length of the text that was compressed. */
export function openPart({ digest, bytes }: EntryPart): Result<{ pages: Page[]; chars: number }, string> {
  if (partOf(bytes).digest !== digest) return err('the digest of a part does not match')
  const text = inflateRawSync(bytes, { dictionary }).toString()
  const pages = JSON.parse(text) as EncodedPage[] // `sealPart` wrote it, by its digest
  return ok({ pages: pages.map(openPage), chars: text.length })
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

const EVICTED = 'rows of a sealed run are no longer in memory'

/** The error of a read whose rows other reads have displaced from memory. The next try loads them again. */
export const evicted = (): Error => new Error(EVICTED)

export const isEvicted = (thrown: unknown): boolean =>
  thrown instanceof Error && thrown.message.includes(EVICTED)
