// Promise: an entry holds the rows of a run exactly, and is read only if every byte of it is as it was
// written, for its run and at its place.

import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { archiveOf, bornAt } from '../../../edge/archive/archive-of.ts'
import { type EntryPart, entryOf, openPart, type Page, type Row } from '../../../edge/archive/entry.ts'
import { newRunId, runIdFor, sharedRunId } from '../../../edge/run/run-id.ts'
import { sha256 } from '../../../shared/bytes/json.ts'
import { objectOfRun } from '../../../shared/ids.ts'
import { LIMITS } from '../../../shared/limits.ts'

const RUN = 'run_01M7VMMT9DN1A8YZA1RAK51MCM'
const MIGRATION = 4
const GOLDEN = join(import.meta.dirname, '../../golden/archive-entry-1.json')

const bytes = (...values: number[]): ArrayBuffer => new Uint8Array(values).buffer
const base64 = (text: string): string => Buffer.from(text).toString('base64')
const envelope = (payload: string): string =>
  JSON.stringify({ payloadType: 'application/x', payload, signatures: [{ keyid: 'k', sig: 'c2ln' }] })

const ROWS: readonly Row[] = [
  { n: 1, text: 'a "quoted"\nline', blob: bytes(), nothing: null },
  { n: 2, text: envelope(base64(JSON.stringify({ is: 'ü'.repeat(60) }))), blob: null, nothing: null },
  {
    n: 3,
    text: envelope(Buffer.alloc(90, 0xff).toString('base64')),
    blob: bytes(0, 255, 254),
    nothing: null,
  },
  // No encoder of base64 writes this: bits after its last byte are set.
  { n: 4, text: envelope(`${'QUJD'.repeat(30)}QUJE/x==`), blob: bytes(0xc3, 0xa9), nothing: null },
  { n: 2 ** 52, text: 'not an envelope: "payload":"short"', blob: bytes(10), nothing: null },
]
const PAGES: readonly Page[] = [
  { table: 'a', rows: ROWS },
  { table: 'b', rows: ROWS.slice(0, 1) },
]

const opened = (parts: readonly EntryPart[]): Page[] =>
  parts.flatMap((part, i) => {
    const open = openPart(RUN, i, parts.length, part)
    if (!open.ok) throw new Error(open.error)
    expect(open.value.migration).toBe(MIGRATION)
    return open.value.pages
  })
/** Buffers for ArrayBuffers, which vitest does not compare by content. */
const comparable = (pages: readonly Page[]): unknown =>
  pages.map(({ table, rows }) => [
    table,
    rows.map((row) =>
      Object.entries(row).map(([name, value]) => [
        name,
        value instanceof ArrayBuffer ? Buffer.from(value) : value,
      ]),
    ),
  ])
const only = (parts: Iterable<EntryPart>): EntryPart => {
  const [part, ...more] = parts
  if (part === undefined || more.length > 0) throw new Error('the entry does not have one part')
  return part
}
const PART = only(entryOf(RUN, MIGRATION, PAGES))

test('an entry holds every kind of value exactly', () => {
  expect(comparable(opened([PART]))).toEqual(comparable(PAGES))
})

test('a long entry has parts of bounded size (`archive_part_chars`), and no row is missing', () => {
  const rows = Array.from({ length: 400 }, (_, n) => ({ n, text: randomBytes(500).toString('hex') }))
  const pages = rows.map((row) => ({ table: 'a', rows: [row] }))
  const parts = [...entryOf(RUN, MIGRATION, pages)]
  expect(opened(parts)).toEqual(pages)
  const sizes = parts.map((part, i) => {
    const open = openPart(RUN, i, parts.length, part)
    return open.ok ? JSON.stringify(open.value.pages).length : 0
  })
  expect(parts.length).toBeGreaterThan(5)
  const missing = openPart(RUN, 0, 1, parts[0] ?? PART)
  expect(missing).toMatchObject({ ok: false, error: 'parts of it are missing' })
  expect(openPart(RUN, 0, 2, PART)).toMatchObject({ ok: false, error: 'parts of it are missing' })
  expect(Math.max(...sizes)).toBeLessThan(1.5 * LIMITS.archive_part_chars)
})

test('an entry with any flipped byte is refused', () => {
  for (let at = 0; at < PART.bytes.byteLength; at++) {
    const flipped = Uint8Array.from(PART.bytes, (byte, i) => (i === at ? byte ^ 0x10 : byte))
    expect(openPart(RUN, 0, 1, { ...PART, bytes: flipped })).toMatchObject({
      ok: false,
      error: 'its digest is another one',
    })
  }
  expect(openPart(RUN, 0, 1, { ...PART, digest: sha256('other') }).ok).toBe(false)
})

test('a part of another run, or at another place, is refused', () => {
  expect(openPart(RUN.replace('MCM', 'MCN'), 0, 1, PART)).toMatchObject({
    ok: false,
    error: 'it belongs elsewhere',
  })
  expect(openPart(RUN, 1, 2, PART)).toMatchObject({ ok: false, error: 'it belongs elsewhere' })
})

test('entries of format 1 stay readable', () => {
  const { pages, digest, entry } = JSON.parse(readFileSync(GOLDEN, 'utf8'))
  const part = { digest, bytes: Buffer.from(entry, 'base64') }
  expect(opened([part])).toEqual(pages)
})

test('the archive of a run is that of its day, or of its key', () => {
  const key = randomBytes(32)
  const at = Date.UTC(2026, 10, 20, 23, 59, 59, 999)
  expect([bornAt(newRunId('t', key, at)), archiveOf(newRunId('t', key, at))]).toEqual([at, '2026-11-20'])
  expect(archiveOf(newRunId('t', key, at + 1))).toBe('2026-11-21')
  const keyed = runIdFor('t', { name: 'a', since: 1 }, 'k', key)
  expect([bornAt(keyed), archiveOf(keyed)]).toEqual([null, `keyed-${keyed.slice(-1)}`])
})

test('runs that share an object have its archive, which is that of the day of the earliest', () => {
  const key = randomBytes(32)
  const owner = { name: 'a', since: 1 }
  const begin = Date.UTC(2026, 10, 20, 12) - (Date.UTC(2026, 10, 20, 12) % 2 ** 20)
  for (const at of [begin, begin + 2 ** 20 - 1]) {
    const name = objectOfRun(sharedRunId('t', owner, null, key, at))
    expect([bornAt(name), archiveOf(name)]).toEqual([begin, '2026-11-20'])
  }
})
