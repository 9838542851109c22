// Promise: anybody with the public keys can verify a tenant's whole log with all runs, live or from an
// exported folder, and finds each call that is missing, ran twice or has a second end.

import { cpSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { sha256 } from '../../../shared/bytes/json.ts'
import { entryHash, GENESIS, type JournalEntry } from '../../../shared/evidence/journal.ts'
import type { ExportLine } from '../../../shared/wire/exports.ts'
import { countersign } from '../../support/countersign.ts'
import { eventually } from '../../support/eventually.ts'
import { unwrap } from '../../support/fixtures.ts'
import { logHead } from '../../support/log-reader.ts'
import { sharedStack } from '../../support/stack/stack.ts'
import { newTenant } from '../../support/tenants.ts'
import { PeerWorker } from '../../support/worker/peer-worker.ts'

const dev = sharedStack()
const fixtures = await newTenant(dev, 'log-acme')
const agent = await fixtures.agent()
const tool = await fixtures.tool()
const peer = await PeerWorker.enrol(dev.url, fixtures.root, fixtures.pool)
const folder = mkdtempSync(join(tmpdir(), 'countersign-log-'))
afterAll(() => rmSync(folder, { recursive: true }))
const [dir, keys, note] = [join(folder, 'log'), join(folder, 'keys.json'), join(folder, 'first')]

const online = { COUNTERSIGN_URL: dev.url, COUNTERSIGN_KEY: fixtures.rootKey, XDG_STATE_HOME: folder }
const log = (...argv: string[]) => countersign(['log', ...argv, '--keys', keys, '--json'], { env: online })
const offline = (...argv: string[]) =>
  countersign(['log', ...argv, '--keys', keys, '--json'], { env: { XDG_STATE_HOME: folder } })
type Answer = {
  readonly verified: boolean
  readonly about: Record<string, string>
  readonly checks: { name: string; ok: boolean }[]
}
const answerOf = ({ out }: { readonly out: string }): Answer => JSON.parse(out) as Answer
/** The names of the checks that failed. */
const failed = (done: { readonly out: string }): string[] => [
  ...new Set(answerOf(done).checks.flatMap(({ name, ok: holds }) => (holds ? [] : [name]))),
]

const calls: string[] = []
let run: string
beforeAll(async () => {
  writeFileSync(keys, JSON.stringify(unwrap(await fixtures.root('keys', { query: { tenant: 'log-acme' } }))))
  run = unwrap(await agent.client('createRun', { body: {} })).id
  const params = { run }
  for (let i = 0; i < 2; i++) {
    const call = unwrap(await agent.client('proposeCall', { params, body: { tool, args: {} } }))
    await peer.run(call.id, { stdout: 'out' })
    calls.push(call.id)
  }
  const alone = unwrap(await agent.client('proposeCallInNewRun', { body: { tool, args: {} } }))
  await agent.client('cancelCall', { params: { run: alone.run, call: alone.id } })
  unwrap(
    await fixtures.root('putRetention', {
      body: { outputs: 30, arguments: 30, evidence: null },
    }),
  )
  await eventually(
    'the log has three ends, and agent, tool, token, worker and rule',
    async () => (await logHead(fixtures.root, 'log-acme')).size === 8,
  )
})

test('the log is exported and verified, again offline, and again from the edge', {
  timeout: 120_000,
}, async () => {
  const exported = await log('export', dir)
  expect([exported.code, answerOf(exported)]).toMatchObject([
    0,
    { verified: true, about: { leaves: '8', calls: '3', 'seen before': 'nothing' } },
  ])
  const whole = await offline('verify', dir)
  expect([whole.code, answerOf(whole)]).toMatchObject([0, { about: { leaves: '8', calls: '3' } }])
  expect(answerOf(whole).about['seen before']).toMatch(/^8 leaves/)
  const live = await log('verify')
  expect([live.code, answerOf(live)]).toMatchObject([0, { about: { leaves: '8', calls: '3' } }])
  const one = await log('verify', '--run', run)
  expect([one.code, answerOf(one)]).toMatchObject([
    0,
    { about: { leaves: '8', calls: '2', 'other leaves': '6' } },
  ])
  const none = await log('verify', '--until', '2020-01-01')
  expect([none.code, answerOf(none)]).toMatchObject([0, { about: { calls: '0', 'other leaves': '3' } }])
})

test('anybody can check the head of the log, that it only grew, and that it has a call', {
  timeout: 120_000,
}, async () => {
  const first = await log('checkpoint', '-o', note)
  expect([first.code, answerOf(first).about]).toMatchObject([0, { leaves: '8' }])
  expect(readFileSync(note, 'utf8').split('\n')[1]).toBe('8')
  expect((await log('consistency', note)).code).toBe(0)
  const changed = join(folder, 'changed')
  writeFileSync(changed, readFileSync(note, 'utf8').replace('\n8\n', '\n7\n'))
  expect(failed(await log('consistency', changed))).toEqual([
    'the edge signed the checkpoint of the tenant’s log',
  ])
  const proven = await log('prove', calls[0] ?? '')
  expect([proven.code, answerOf(proven).about]).toMatchObject([0, { call: calls[0], leaves: '8' }])
  expect(await log('prove', 'call_01KA5XJ3M0000000000000000A_1')).toMatchObject({ code: 1 })
  expect(await log('prove', 'call_1')).toMatchObject({ code: 2 })
  expect(await countersign(['log', 'checkpoint'], { env: online })).toMatchObject({ code: 2 })
})

/** Verifies a copy of the folder after a change to the only file of the run with two calls. */
async function afterChange(change: (lines: ExportLine[]) => ExportLine[]): Promise<string[]> {
  const copy = mkdtempSync(join(folder, 'copy-'))
  cpSync(dir, copy, { recursive: true })
  const name = readdirSync(join(copy, 'runs', run))[0] ?? ''
  const path = join(copy, 'runs', run, name)
  const lines = readFileSync(path, 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as ExportLine)
  const text = `${change(lines)
    .map((line) => JSON.stringify(line))
    .join('\n')}\n`
  writeFileSync(path, text)
  renameSync(path, join(dirname(path), `0.0.0-${sha256(text)}.jsonl`))
  return failed(await offline('verify', copy))
}

/** Changes the journal as somebody who can write the store would: with hashes that fit again. */
const rechained =
  (change: (entries: Omit<JournalEntry, 'hash' | 'prev' | 'seq'>[]) => object[]) =>
  (lines: ExportLine[]): ExportLine[] => {
    const old = lines.flatMap((line) => (line.kind === 'entry' ? [line.entry] : []))
    const entries: JournalEntry[] = []
    for (const given of change(old) as JournalEntry[]) {
      const { seq, hash: prev } = entries.at(-1) ?? GENESIS
      const entry = { ...given, seq: seq + 1, prev }
      entries.push({ ...entry, hash: entryHash(entry) })
    }
    const { seq, hash: head } = entries.at(-1) ?? GENESIS
    return lines.flatMap((line): ExportLine[] => {
      if (line.kind === 'entry') return []
      if (line.kind !== 'run') return [line]
      const own = entries.map((entry) => ({ kind: 'entry', run, entry }) as const)
      return [{ ...line, run: { ...line.run, journal: { ...line.run.journal, seq, head } } }, ...own]
    })
  }

const LOGGED = 'the log has each end of a call, and each entry of the tenant’s journals, once'
const REST = 'the log has no other leaves'
const CALLS = 'each attestation is signed, and its call, policy snapshot and journal fit it'
const GRANTS = 'no call ran without its grant, and no grant was used twice'
const ENDS = 'no call has a second end, or an entry after its end'

test('a folder in which a call is missing, was claimed twice or has two ends is not verified', {
  timeout: 120_000,
}, async () => {
  const claims = <T extends { readonly kind: string }>(entries: readonly T[]): T[] =>
    entries.filter(({ kind }) => kind === 'claimed')
  expect(await afterChange((lines) => lines)).toEqual([])
  expect(await afterChange(rechained((entries) => entries))).toEqual([])
  // The last call is gone, from the journal too.
  const shorter = await afterChange((lines) =>
    rechained((entries) => entries.slice(0, 3))(lines).filter(
      (line) => !(line.kind === 'call' && line.call === calls[1]),
    ),
  )
  expect(shorter).toEqual([REST])
  const twice = await afterChange(
    rechained((entries) => entries.toSpliced(1, 0, ...claims(entries).slice(0, 1))),
  )
  expect(twice).toEqual(expect.arrayContaining([GRANTS, LOGGED, REST]))
  const unclaimed = await afterChange(
    rechained((entries) => entries.filter((entry) => entry !== claims(entries)[0])),
  )
  expect(unclaimed).toEqual(expect.arrayContaining([CALLS, LOGGED, REST]))
  const again = await afterChange(rechained((entries) => [...entries, ...entries.slice(-1)]))
  expect(again).toEqual(expect.arrayContaining([LOGGED, CALLS, ENDS]))
  const later = await afterChange(rechained((entries) => [...entries, { ...entries[0], body: {} }]))
  expect(later).toEqual(expect.arrayContaining([CALLS, ENDS]))
})

test('a folder that lacks a run is verified only with --part', { timeout: 120_000 }, async () => {
  const copy = mkdtempSync(join(folder, 'copy-'))
  cpSync(dir, copy, { recursive: true })
  rmSync(join(copy, 'runs', run), { recursive: true })
  expect(failed(await offline('verify', copy))).toEqual([REST])
  expect((await offline('verify', copy, '--part')).code).toBe(0)
  rmSync(join(copy, 'log/tile'), { recursive: true })
  expect(await offline('verify', copy)).toMatchObject({ code: 1, out: expect.stringContaining('unreadable') })
})
