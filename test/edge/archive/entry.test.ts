// Promise: an entry holds the rows of a run exactly, and is read only if every byte of it is as it was
// written, in the entry of its object.

import { createHash, randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { archiveOf, bornAt } from '../../../edge/archive/archive-of.ts'
import {
  type EntryPart,
  type Index,
  mayHave,
  nameOf,
  namesOf,
  openIndex,
  openPart,
  type Page,
  type Row,
  sealIndex,
  sealPart,
} from '../../../edge/archive/entry.ts'
import { newRunId, runIdFor, sharedRunId } from '../../../edge/run/run-id.ts'
import { objectOfRun } from '../../../shared/ids.ts'
import type { Result } from '../../../shared/result.ts'

const RUN = 'run_01M7VMMT9DN1A8YZA1RAK51MCM'
const GOLDEN = join(import.meta.dirname, '../../golden/archive-entry-2.json')

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
const opened = <T>(result: Result<T, string>): T => {
  if (!result.ok) throw new Error(result.error)
  return result.value
}
const flips = ({ digest, bytes }: EntryPart): EntryPart[] =>
  [...bytes.keys()].map((at) => ({
    digest,
    bytes: Uint8Array.from(bytes, (byte, i) => (i === at ? byte ^ 0x10 : byte)),
  }))

const PART = sealPart(PAGES)
const INDEX: Index = {
  migration: 4,
  next: 3,
  parts: [
    { digest: PART.digest, first: 0, weight: 5, names: namesOf([RUN]), ranges: null },
    { digest: 'other', first: 2, weight: 0, names: '', ranges: { calls: [2 ** 33, 2 ** 33 + 7] } },
  ],
}

test('a part returns every kind of value exactly', () => {
  expect(comparable(opened(openPart(PART)).pages)).toEqual(comparable(PAGES))
})

test('an index returns exactly what it was made of', () => {
  expect(opened(openIndex(RUN, sealIndex(RUN, INDEX)))).toEqual(INDEX)
})

test('a part or an index with any flipped byte is refused', () => {
  for (const flipped of flips(PART))
    expect(openPart(flipped)).toMatchObject({ ok: false, error: 'the digest of a part does not match' })
  for (const flipped of flips(sealIndex(RUN, INDEX)))
    expect(openIndex(RUN, flipped)).toMatchObject({ ok: false, error: 'its digest does not match' })
})

test('the index of another object is refused', () => {
  const other = openIndex(RUN.replace('MCM', 'MCN'), sealIndex(RUN, INDEX))
  expect(other).toMatchObject({ ok: false, error: 'it belongs to another object' })
})

test('an index of another format is refused', () => {
  const bytes = Buffer.from(JSON.stringify([3, RUN, 4, 1, []]))
  const digest = createHash('sha256').update(bytes).digest('base64url')
  expect(openIndex(RUN, { digest, bytes })).toMatchObject({ ok: false, error: 'its format is 3' })
})

test('short hashes find every text that is among them, and hardly any other', () => {
  const texts = Array.from({ length: 1_000 }, (_, i) => `text ${i}`)
  const names = namesOf([...texts, 'text 1'])
  expect(names.length).toBe(6_000)
  expect(texts.filter((text) => !mayHave(names, nameOf(text)))).toEqual([])
  expect(
    Array.from({ length: 1_000 }, (_, i) => `other ${i}`).filter((text) => mayHave(names, nameOf(text))),
  ).toEqual([])
})

test('entries of format 2 stay readable', () => {
  const { pages, index, part, of } = JSON.parse(readFileSync(GOLDEN, 'utf8'))
  const bytesOf = ({ digest, bytes }: { digest: string; bytes: string }): EntryPart => ({
    digest,
    bytes: Buffer.from(bytes, 'base64'),
  })
  expect(opened(openPart(bytesOf(part))).pages).toEqual(pages)
  expect(opened(openIndex(of, bytesOf(index))).parts.map(({ digest }) => digest)).toEqual([part.digest])
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
