// Promise: `countersign verify --export` accepts a tombstone that the edge signed in place of evidence that
// a retention rule has removed, and nothing else in its place.

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { partsAt, verifyExport, verifyParts } from '../../../cli/calls/verify-export.ts'
import { sha256 } from '../../../shared/bytes/json.ts'
import type { Bundle } from '../../../shared/evidence/bundle.ts'
import { type Signer, seal } from '../../../shared/evidence/dsse.ts'
import { entryHash, GENESIS, type JournalEntry } from '../../../shared/evidence/journal.ts'
import { TOMBSTONE_TYPE, type Tombstone } from '../../../shared/evidence/removal.ts'
import type { ExportLine } from '../../../shared/wire/exports.ts'
import {
  EDGE,
  executedBundle,
  exportedRun,
  exportFile,
  KEYS,
  REMOVAL,
  runLine,
  STRANGER,
  tombstoneOf,
  WORKER,
} from '../../shared/evidence.ts'
import { type Changes, withChanges } from '../../shared/tamper.ts'

const ULID = '01KA5XJ3M0000000000000000A'
const RUN = `run_${ULID}`
const [FIRST, SECOND] = [`call_${ULID}_1`, `call_${ULID}_2`]
/** Signs with a key of its own, under the id of the edge's key. */
const FORGER: Signer = { ...STRANGER, kid: EDGE.kid }
const REMOVED = { at_ms: 1_763_000_000_000, rule: 3, days: 30 }

type Event = Pick<JournalEntry, 'kind' | 'call' | 'body'>
function journalOf(...events: Event[]): JournalEntry[] {
  const journal: JournalEntry[] = []
  for (const event of events) {
    const entry = { seq: journal.length + 1, at_ms: 1, ...event, prev: journal.at(-1)?.hash ?? GENESIS.hash }
    journal.push({ ...entry, hash: entryHash(entry) })
  }
  return journal
}
const ALLOWED: Event = { kind: 'allowed', call: FIRST, body: {} }
const DENIED: Event = { kind: 'denied', call: FIRST, body: { attestation: 'att_1' } }
const ASKED: Event = { kind: 'approval_requested', call: SECOND, body: {} }
/** The journal of two calls: the first was denied, the second waits. */
const journal = journalOf(ALLOWED, DENIED, ASKED)
const at = (seq: number) => ({ seq, hash: journal[seq - 1]?.hash ?? '' })

const ofCall = (more: object = {}) =>
  ({
    of: 'call',
    tenant: 'default',
    call: FIRST,
    state: 'denied',
    digest: sha256('call'),
    attestation: 'att_1',
    removed: { ...REMOVED, statement_sha256: sha256('statement'), entry: at(2), head: at(2) },
    ...more,
  }) as Tombstone
const ofJournal = (seq: number) =>
  ({ of: 'journal', tenant: 'default', run: RUN, head: at(seq), removed: REMOVED }) as Tombstone
const line = (tombstone: Tombstone, signer: Signer = EDGE): ExportLine => ({
  kind: 'tombstone',
  envelope: seal(TOMBSTONE_TYPE, tombstone, signer),
})
const RUN_LINE = runLine({ seq: 3, head: at(3).hash })
const run: ExportLine = RUN_LINE
const executed = executedBundle()
const lineOf = (entry: JournalEntry | undefined) => ({ kind: 'entry', run: RUN, entry }) as ExportLine
const entries = (...some: readonly number[]) => some.map((seq) => lineOf(journal[seq - 1]))

/** Verifies a part with these lines; returns the names of the checks that fail, and what it is about. */
const verify = (lines: readonly ExportLine[]) => verifyEditions([lines])

/** The same for several editions of the part, whose digests decide in which order they are read. */
async function verifyEditions(editions: readonly (readonly ExportLine[])[]) {
  const dir = mkdtempSync(join(tmpdir(), 'countersign-verify-'))
  onTestFinished(() => rmSync(dir, { recursive: true }))
  mkdirSync(join(dir, RUN))
  for (const lines of editions) {
    const text = exportFile(RUN, lines)
    writeFileSync(join(dir, RUN, `0.0.0-${sha256(text)}.jsonl`), text)
  }
  const verified = await verifyExport(dir, KEYS)
  if (!verified.ok) throw new Error(verified.error.detail)
  const faults = verified.value.checks().filter((check) => !check.ok)
  return {
    failed: faults.map(({ name }) => name.split(' ').slice(0, 4).join(' ')),
    details: faults.map(({ detail }) => detail?.split(': ').at(-1)),
    about: verified.value.about(),
  }
}

test('a run whose journal and calls were removed verifies by its tombstones, which are counted', async () => {
  const { failed, about } = await verify([run, line(ofJournal(2)), ...entries(3), line(ofCall())])
  expect(failed).toEqual([])
  expect(about['removed']).toBe('the evidence of 1 calls, by retention rule 3')
})

test('a call that was removed before its journal verifies by the entry that is still there', async () => {
  expect((await verify([run, ...entries(1, 2, 3), line(ofCall())])).failed).toEqual([])
})

test('J01 evidence counts as removed only if the edge signed its removal', async () => {
  const { failed } = await verify([run, line(ofJournal(2)), ...entries(3), line(ofCall())])
  expect(failed).toEqual([])
  const signed = 'an edge key signed'
  const whole = 'each journal is whole,'
  const named = 'the attestations are exactly'
  const cases: [readonly ExportLine[], string[]][] = [
    [
      [run, line(ofJournal(2), STRANGER), ...entries(3), line(ofCall())],
      [whole, whole, signed, named],
    ],
    [[run, line(ofJournal(2)), ...entries(3), line(ofCall(), FORGER)], [signed]],
    [
      [run, ...entries(1, 2, 3), line(ofCall(), FORGER)],
      [signed, named],
    ],
    [
      [run, ...entries(1, 2, 3), line(ofCall({ tenant: 'acme' }))],
      [signed, named],
    ],
    [[run, ...entries(1, 2, 3), line(ofJournal(3))], [named]],
    [[run, line(ofJournal(1)), ...entries(2, 3)], [named]],
    [
      [run, ...entries(3), line(ofCall())],
      [whole, whole, named],
    ],
    [
      [run, line(ofJournal(1)), ...entries(3), line(ofCall())],
      [whole, whole, named],
    ],
    [[run, line(ofJournal(2)), line(ofCall())], [whole]],
    [
      [run, ...entries(1, 2, 3), { kind: 'tombstone', envelope: tombstoneOf(executed) }],
      [signed, named],
    ],
  ]
  for (const [lines, expected] of cases) expect((await verify(lines)).failed).toEqual(expected)
})

test('an entry that was removed between two exports is checked in whichever order their files are read', async () => {
  const [first, second, third] = journalOf(DENIED, DENIED, ASKED)
  const [before, after] = [second, third].map((entry) => ({ seq: entry?.seq ?? 0, hash: entry?.hash ?? '' }))
  const runWith = (created_at_ms: number, head = after): ExportLine =>
    ({
      kind: 'run',
      run: { ...RUN_LINE.run, created_at_ms, journal: { seq: head?.seq, head: head?.hash } },
    }) as ExportLine
  const tombstones = [
    ofCall({ removed: { ...ofCall().removed, entry: before, head: before } }),
    { ...ofJournal(2), head: before } as Tombstone,
  ].map((tombstone) => line(tombstone))
  // The time changes the digests of the files, and these their order.
  for (let time = 1; time <= 8; time++)
    expect(
      (
        await verifyEditions([
          [runWith(time, before), lineOf(first), lineOf(second)],
          [runWith(time), ...tombstones, lineOf(third)],
        ])
      ).failed,
    ).toEqual(['no call has a'])
})

test('threads reach the verdict that one process reaches, on any number of objects and files', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'countersign-threads-'))
  onTestFinished(() => rmSync(dir, { recursive: true }))
  const good = [run, ...entries(1, 2, 3), line(ofCall())]
  const forged = [run, ...entries(1, 2, 3), line(ofCall(), FORGER)]
  const write = (object: string, from: string, next: string | null, lines: readonly ExportLine[]) => {
    const text = exportFile(object, lines, from, next)
    mkdirSync(join(dir, object), { recursive: true })
    writeFileSync(join(dir, object, `${from}-${sha256(text)}.jsonl`), text)
  }
  for (let i = 0; i < 5; i++) write(`good-${i}`, '0.0.0', null, good)
  write('split', '0.0.0', '0.2.0', [run, ...entries(1, 2)])
  write('split', '0.2.0', null, [run, ...entries(3), line(ofCall())])
  write('forged', '0.0.0', null, forged)
  const verdictOf = async (alone: number) => {
    const verified = await verifyParts(partsAt(dir), KEYS, alone)
    if (!verified.ok) throw new Error(verified.error.detail)
    const { value } = verified
    return { checks: value.checks(), about: value.about(), ends: value.ends }
  }
  const here = await verdictOf(Number.POSITIVE_INFINITY)
  expect(here.checks.flatMap(({ name, ok }) => (ok ? [] : [name]))).toEqual([
    'an edge key signed each removal of evidence',
    'the attestations are exactly those that the journals name',
  ])
  expect([here.about['files'], here.ends.size]).toEqual(['8', 1])
  expect(await verdictOf(0)).toEqual(here)
})

describe('a call in an export is checked like one in a bundle', () => {
  type Line = { readonly bundle: Bundle; readonly output?: string; readonly snapshot?: object }
  const linesOf = ({ bundle, output, snapshot }: Line) =>
    exportedRun(bundle, output, snapshot as typeof executed.snapshot) // maybe another
  const FAULT = 'each attestation is signed,'
  const journalled = (at: number, changes: Changes): Line => ({
    bundle: {
      ...executed,
      journal: executed.journal.with(at, withChanges(executed.journal[at], changes) as never),
    },
  }) // an entry with another member

  test('a call whose journal and policy snapshot fit its statement verifies', async () => {
    expect((await verify(linesOf({ bundle: executed }))).failed).toEqual([])
  })

  test.each<[string, Line, string]>([
    [
      'that somebody else approved',
      journalled(2, { 'body.by': 'eve' }),
      'the journal has the answers that the facts name, each given in time',
    ],
    [
      'that was claimed under other policies',
      journalled(3, { 'body.policy_set': sha256('others') }),
      'the journal has the claim under this grant',
    ],
    [
      'with an end of another execution',
      journalled(4, { 'body.execution_sha256': sha256('other') }),
      'the last entry ends the call and names this attestation',
    ],
    [
      'with a changed policy snapshot',
      { bundle: executed, snapshot: { ...executed.snapshot, groups: ['admins'] } },
      'the policy snapshot is the one that the facts name',
    ],
    [
      'that ended long before its worker says',
      journalled(4, { at_ms: 1_763_000_000_000 - 60_000 }),
      'it ran within the time of its grant',
    ],
    ['without its output', { bundle: executed, output: '' }, 'its output is missing or was changed'],
    ['with another output', { bundle: executed, output: '5\n' }, 'its output is missing or was changed'],
    [
      'whose output nobody but the worker says was removed',
      { bundle: { ...executed, removed: tombstoneOf(executed, { outputs: REMOVAL }, WORKER) }, output: '' },
      'the edge signed the removal of what is missing',
    ],
  ])('J01 T01 a call %s fails', async (_name, line, check) => {
    expect(await verify(linesOf(line))).toMatchObject({
      failed: [FAULT, 'the attestations are exactly'],
      details: [check, expect.stringContaining('only in a journal')],
    })
  })

  test('an output whose removal the edge signed may be missing, and may not be another', async () => {
    const bundle = { ...executed, removed: tombstoneOf(executed, { outputs: REMOVAL }) }
    expect((await verify(linesOf({ bundle, output: '' }))).failed).toEqual([])
    expect((await verify(linesOf({ bundle, output: '5\n' }))).failed).toContain(FAULT)
  })
})
