// Promise: while 300 calls run, runs are sealed, a retention rule removes what is older than seconds,
// backups are taken, and the keys of edge and worker are replaced, `kill -9` of worker, Redis and
// workerd at random moments loses no call and runs none twice (L2, L4, L5). `countersign log verify`,
// with the keys from before the storm, finds every acknowledged call once and every grant used at most
// once. Of a call whose evidence the rule no longer keeps, exactly a tombstone is left. A restored
// backup has every call that was acknowledged before it began, and runs none again. Each call appends a
// line to a file of its run on the worker's host, and the test counts executions by these lines.

import { existsSync, globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { payloadBytes } from '../../shared/evidence/dsse.ts'
import type { JournalEntry } from '../../shared/evidence/journal.ts'
import type { Call } from '../../shared/wire/calls.ts'
import type { ExportLine } from '../../shared/wire/exports.ts'
import { attested, endsIn, journalLeft, logHolds } from '../support/auditor.ts'
import { countersign } from '../support/countersign.ts'
import { eventually } from '../support/eventually.ts'
import { unwrap } from '../support/fixtures.ts'
import { HurtStack, insist, revive } from '../support/stack/hurt-stack.ts'
import { timedKey } from '../support/timed-key.ts'

/** `npm run test:chaos` makes 3,000. */
const CALLS = Number(process.env['COUNTERSIGN_STORM'] ?? '300')
/** Runs that live for the whole storm. Half of the calls are in them. */
const LONG_RUNS = 8
const CALLS_OF_SHORT_RUN = 10
const PROPOSED_WITHIN_MS = CALLS * 100
/** Each part dies at least this often. */
const STRIKES = Math.ceil(CALLS / 60)
/** Another seed gives another storm: `STORM_SEED=7 npm test -- test/faults/storm`. */
const SEED = Number(process.env['STORM_SEED'] ?? 1)
const SEAL_AFTER_S = 1
/** A day of the retention rule. */
const DAY_MS = 5_000
const KEPT_DAYS = { outputs: 1, arguments: 1, evidence: 2 }
const FOR_EVER = { outputs: null, arguments: null, evidence: null }
const INDETERMINATE_WITHIN_MS = 20_000
const AT_ONCE = 32

/** mulberry32, so that a seed always gives the same storm. */
function dice(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

const PARTS = ['worker', 'redis', 'edge'] as const
type Part = (typeof PARTS)[number]
type Struck = { readonly parts: readonly Part[]; readonly at: number; back: number }

const state = mkdtempSync(join(tmpdir(), 'countersign-storm-'))
/** The folder of somebody who audits the log from elsewhere. */
const elsewhere = mkdtempSync(join(tmpdir(), 'countersign-auditor-'))
let hurt: HurtStack
beforeAll(async () => {
  const limits = { retention_day_ms: DAY_MS, removal_retry_ms: 1_000 }
  hurt = await HurtStack.start({ state, sealAfterS: SEAL_AFTER_S, limits })
})
afterAll(async () => {
  await hurt?.stop()
  for (const folder of [state, elsewhere]) rmSync(folder, { recursive: true, force: true })
})

/**
 * One call of a client. `mark` is the line that it appends. A call without a run makes its own.
 */
type Wanted = {
  readonly mark: string
  readonly key: string
  readonly run: string | undefined
  readonly tool: string
  readonly args: Record<string, string>
  readonly at: number
}

/** Of four blocks of ten calls, two are in long runs, one is in a short run, and in one each makes a run. */
function wanted(n: number, long: readonly string[], short: readonly string[], random: () => number): Wanted {
  const mark = `call-${String(n).padStart(4, '0')}`
  const block = Math.floor(n / CALLS_OF_SHORT_RUN)
  const run = [long[n % LONG_RUNS], short[Math.floor(block / 4)], undefined, long[n % LONG_RUNS]][block % 4]
  const call = { mark, run, at: random() * PROPOSED_WITHIN_MS, key: n % 2 === 0 ? mark : timedKey() }
  const kind = n % 10
  if (kind < 3) return { ...call, tool: 'text_stats', args: { text: `${mark}\n` } }
  const args = { mark: `${mark}\n` }
  if (kind < 5) return { ...call, tool: 'mark_quickly', args }
  if (kind < 8)
    return { ...call, tool: 'mark_slowly', args: { ...args, seconds: (0.2 + random()).toFixed(2) } }
  return { ...call, tool: 'mark_asking', args }
}

/** Proposes under its key until the edge acknowledges it. */
async function proposed({ key, run, tool, args }: Wanted): Promise<Call> {
  const request = { body: { tool, args }, headers: { 'idempotency-key': key }, wait: 1 }
  return unwrap(
    await insist(
      () =>
        run === undefined
          ? hurt.agent('proposeCallInNewRun', request)
          : hurt.agent('proposeCall', { ...request, params: { run } }),
      90_000,
    ),
  )
}

/** Approves waiting calls until the storm is over. */
async function approveAll(over: AbortSignal): Promise<number> {
  let approved = 0
  while (!over.aborted) {
    const pending = await insist(
      () => hurt.operator('listApprovals', { query: { status: 'pending' } }),
      90_000,
    )
    for (const { id } of unwrap(pending).items) {
      const answer = await insist(
        () => hurt.operator('answerApproval', { params: { id }, body: { decision: 'approve' } }),
        90_000,
      )
      // The response to an accepted answer got lost, or the inbox is behind: neither loses a call.
      if (!answer.ok && answer.error.code !== 'already_answered')
        throw new Error(JSON.stringify(answer.error))
      approved += 1
    }
    await sleep(100)
  }
  return approved
}

/** Sets the retention rule again and again. At the end it keeps all that is left, which is then checked. */
async function prune(over: AbortSignal): Promise<void> {
  while (!over.aborted) {
    await keep(KEPT_DAYS)
    await sleep(2_000)
  }
  await keep(FOR_EVER)
}

const keep = async (body: typeof KEPT_DAYS | typeof FOR_EVER) =>
  unwrap(await insist(() => hurt.operator('putRetention', { body }), 90_000))

/** No call is lost for it: the worker first finishes those that run. */
async function replaceWorkerKey(): Promise<void> {
  await hurt.stack.worker.stop()
  await hurt.rotateWorkerKey()
  await revive(hurt.stack.worker)
}

/** Kills the parts, and replaces both keys in between. */
async function strikeAll(random: () => number, onWorkerKey: () => void): Promise<Struck[]> {
  const single = PARTS.flatMap((part) => Array.from({ length: STRIKES - 1 }, (): Part[] => [part]))
  const order = single.map((parts) => ({ parts, at: random() })).toSorted((a, b) => a.at - b.at)
  const strikes: Part[][] = [
    ...order.map(({ parts }) => parts),
    ['worker', 'edge'],
    ['worker', 'redis', 'edge'],
    ['redis', 'edge'],
  ]
  const early = Math.floor(strikes.length / 5)
  // The edge reads its keys when it starts.
  const midst = strikes.findIndex((parts, n) => n >= strikes.length / 2 && parts.includes('edge'))
  const struck: Struck[] = []
  for (const [n, parts] of strikes.entries()) {
    await sleep(200 + random() * 1_600)
    if (n === early) await replaceWorkerKey().then(onWorkerKey)
    if (n === midst) expect(await ofState('keys', 'rotate')).toMatchObject({ code: 0 })
    const strike: Struck = { parts, at: Date.now(), back: 0 }
    struck.push(strike)
    const back = await Promise.all(parts.map((part) => hurt.stack[part].restart()))
    for (const started of back) if (!started.ok) throw new Error(started.error)
    strike.back = Date.now()
  }
  return struck
}

/** A backup, of how many, in how many tries, and the calls that were acknowledged before it began. */
type Backup = {
  readonly dir: string
  readonly nth: number
  readonly tries: number
  readonly at: number
  readonly known: ReadonlyMap<string, Call>
}

const ofState = (...args: readonly string[]) =>
  countersign([...args, '--json'], { env: { COUNTERSIGN_STATE: state } })

/** The share of calls that are acknowledged before the last backup, and the share proposed after it. */
const BEFORE_BACKUP = 0.6
const AFTER_BACKUP = 0.1

/**
 * Takes backups until most calls are acknowledged. A backup fails if the edge dies while it is taken,
 * and does not count. The last one is taken after `since`: without the worker's new key, that worker
 * would have to enrol again after the restore.
 */
async function backUp(
  known: ReadonlyMap<string, Call>,
  random: () => number,
  since: () => number,
): Promise<Backup> {
  let last: Backup | undefined
  for (
    let tries = 1;
    known.size < CALLS * BEFORE_BACKUP || last === undefined || last.at < since();
    tries++
  ) {
    await sleep(1_000 + random() * 5_000)
    const nth = (last?.nth ?? 0) + 1
    const dir = join(state, `backup-${tries}`)
    const backup = { dir, nth, tries, at: Date.now(), known: new Map(known) }
    const { code } = await ofState('backup', backup.dir)
    expect(existsSync(join(backup.dir, 'manifest.json'))).toBe(code === 0)
    const stale = code === 0 ? last : backup
    if (stale !== undefined) rmSync(stale.dir, { recursive: true, force: true })
    if (code === 0) last = backup
  }
  return last
}

/** Objects of runs that were sealed, by the files of the archives. */
const sealedObjects = (): number =>
  globSync(join(state, 'edge/objects/countersign-archive/*.sqlite'))
    .filter((file) => !file.endsWith('metadata.sqlite'))
    .reduce((sum, file) => {
      const db = new DatabaseSync(file, { readOnly: true })
      const isMade = db.prepare("select 1 from sqlite_schema where name = 'entries'").get() !== undefined
      const row = isMade
        ? db.prepare('select count(*) as n from entries where digest is not null').get()
        : undefined
      db.close()
      return sum + Number(row?.['n'] ?? 0)
    }, 0)

/** Waits until the call has ended, and returns it. */
const end = (call: Call): Promise<Call> =>
  eventually(
    `call ${call.id} ends`,
    async () => {
      const now = await hurt.read(call, 5)
      return now.ended_at_ms === undefined ? undefined : now
    },
    60_000,
  )

/** Some at a time, in order. */
async function each<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const done: R[] = []
  for (let i = 0; i < items.length; i += AT_ONCE)
    done.push(...(await Promise.all(items.slice(i, i + AT_ONCE).map(work))))
  return done
}

/**
 * Returns the journals of these runs, and the calls whose evidence was removed. Fails unless all evidence
 * verifies, each of the latter is exactly a tombstone, and the log has the end of each call once.
 */
async function verified(
  runs: readonly string[],
  given: readonly Call[],
): Promise<{ entries: JournalEntry[]; gone: Call[] }> {
  const calls = await storedCalls(given)
  const [gone, kept] = [calls.filter(isTombstone), calls.filter((call) => !isTombstone(call))]
  const ofRun = Map.groupBy(calls, ({ run }) => run)
  const entries = (await each(runs, (run) => journalLeft(hurt, run, ofRun.get(run) ?? []))).flat()
  const ends = new Map(endsIn(entries).map(({ call, hash }) => [call ?? '', hash]))
  for (const { id, removed } of gone) {
    const hash = removed?.evidence?.entry.hash ?? ''
    expect(ends.get(id) ?? hash).toBe(hash) // the journal goes after its calls
    ends.set(id, hash)
  }
  expect([...ends.keys()].toSorted()).toEqual(calls.map(({ id }) => id).toSorted())
  const rules = await tenantJournal()
  await logHolds(hurt, [...[...ends.values()].map((hash) => ({ hash })), ...rules])
  await each(kept, (call) => attested(hurt, call))
  await each(gone, buried)
  return { entries, gone }
}

/** The changes of the retention rule, which are leaves of the log, too. */
async function tenantJournal(): Promise<JournalEntry[]> {
  const entries: JournalEntry[] = []
  for (;;) {
    const query = { after: entries.length }
    const { items } = unwrap(await insist(() => hurt.operator('readTenantJournal', { query })))
    if (items.length === 0) return entries
    entries.push(...items)
  }
}

const withFirstKeys = ['--keys', 'keys.json', '--pinned', 'first.json'] as const

/** Runs a command of somebody who remembers in `memory` which heads of the log they have seen. */
const audit = (memory: string, ...args: readonly string[]) =>
  countersign([...args, '--json'], {
    cwd: elsewhere,
    env: { COUNTERSIGN_STATE: state, XDG_STATE_HOME: join(elsewhere, memory) },
  })

/**
 * Exports all evidence, and verifies it with the keys from before the storm. Fails unless it has each of
 * these calls once, as itself or as a tombstone, and no grant twice. Returns the keys that signed it.
 */
async function audited(memory: string, calls: readonly Call[]): Promise<Set<string>> {
  const folder = `evidence-${memory}`
  await audit(memory, 'keys', 'list', '-o', 'keys.json')
  for (const command of ['export', 'verify']) {
    const { code, out } = await audit(memory, 'log', command, folder, ...withFirstKeys)
    expect([command, code, out]).toEqual([command, 0, expect.stringContaining('no grant was used twice')])
  }
  const files = globSync(join(elsewhere, folder, 'runs/**/*.jsonl'))
  const lines = files.flatMap((file) => readFileSync(file, 'utf8').trimEnd().split('\n'))
  const [ids, grants, kids]: [string[], string[], Set<string>] = [[], [], new Set()]
  for (const line of lines.map((text) => JSON.parse(text) as ExportLine)) {
    if (line.kind === 'tombstone')
      ids.push(...callsIn(JSON.parse(`${Buffer.from(payloadBytes(line.envelope))}`)))
    if (line.kind !== 'call') continue
    ids.push(line.call)
    if (line.evidence?.grant) grants.push(line.evidence.grant.payload)
    for (const { keyid } of line.evidence?.envelope.signatures ?? []) kids.add(keyid)
  }
  expect(ids.toSorted()).toEqual(calls.map(({ id }) => id).toSorted())
  expect(new Set(grants).size).toBe(grants.length)
  return kids
}

/** The call of a tombstone; none if it stands for a journal. */
const callsIn = ({ call }: { readonly call?: string }): string[] => (call === undefined ? [] : [call])

const isTombstone = ({ removed }: Call): boolean => removed?.evidence !== undefined

/** The call has ended, was removed after its days, and has nothing of what is gone. */
async function buried({
  run,
  id,
  ended_at_ms = 0,
  result,
  approval,
  origin,
  plan,
  removed,
}: Call): Promise<void> {
  const params = { run, call: id }
  const read = await insist(() => hurt.agent('readAttestation', { params }))
  expect([read.ok ? 200 : read.error.code, result?.output, approval, origin, plan]).toEqual([
    'removed',
    '',
    undefined,
    undefined,
    undefined,
  ])
  expect((removed?.evidence?.at_ms ?? 0) - ended_at_ms).toBeGreaterThanOrEqual(2 * DAY_MS)
}

const marksOf = (runs: readonly string[]): string[] => runs.flatMap((run) => hurt.marks(run))

/** All calls of these runs that still exist. */
async function storedCalls(ids: readonly Call[]): Promise<Call[]> {
  const read = await each(ids, ({ run, id }) =>
    insist(() => hurt.agent('readCall', { params: { run, call: id } })),
  )
  return read.flatMap((call) => {
    if (!call.ok && call.error.code !== 'not_found') throw new Error(JSON.stringify(call.error))
    return call.ok ? [call.value] : []
  })
}

test(
  `Q04 L2 while worker, Redis and workerd are killed with -9, each of ${CALLS} calls ends once, attested, and none runs twice, also after a restore (seed ${SEED})`,
  async () => {
    const random = dice(SEED)
    const long = await Promise.all(Array.from({ length: LONG_RUNS }, () => hurt.run()))
    const short = await Promise.all(
      Array.from({ length: Math.ceil(CALLS / (4 * CALLS_OF_SHORT_RUN)) }, () => hurt.run()),
    )
    // Half of the calls are kept by legal holds; the others are removed, at the latest after the strikes.
    for (const subject of long)
      unwrap(await hurt.operator('putHold', { params: { subject }, body: { reason: 'a case' } }))
    await audit('memory', 'keys', 'list', '-o', 'first.json')
    const first = await audit('memory', 'log', 'checkpoint', '--keys', 'first.json')
    expect(first).toMatchObject({ code: 0 })
    const all = Array.from({ length: CALLS }, (_, n) => wanted(n, long, short, random))
    const known = new Map<string, Call>()
    const over = new AbortController()
    const approving = approveAll(over.signal)
    let newKeyAt = Number.POSITIVE_INFINITY
    const backingUp = backUp(known, random, () => newKeyAt)
    const removed = new AbortController()
    const pruning = prune(removed.signal)
    const [struck, calls] = await Promise.all([
      strikeAll(random, () => {
        newKeyAt = Date.now()
      }),
      Promise.all(
        all.map(async (call, n) => {
          await sleep(call.at)
          if (n >= CALLS * (1 - AFTER_BACKUP)) await backingUp
          const made = await proposed(call)
          known.set(call.mark, made)
          return made
        }),
      ),
    ])

    await each(calls, end)
    await eventually(
      'evidence is removed',
      async () => (await storedCalls(calls)).filter(isTombstone).length > CALLS / 30,
      60_000,
    )
    removed.abort()
    await pruning
    const ended = await each(calls, end)
    over.abort()
    expect(await approving).toBeGreaterThanOrEqual(CALLS / 5)
    const killed = (part: Part) => struck.filter(({ parts }) => parts.includes(part)).length
    for (const part of PARTS) expect(killed(part)).toBeGreaterThanOrEqual(STRIKES)
    const backup = await backingUp
    for (const some of [backup.known.size, CALLS - backup.known.size])
      expect(some).toBeGreaterThanOrEqual(CALLS * AFTER_BACKUP)

    // No call is lost, and no repeated proposal made a second one. Each ended once in journal and log,
    // and is attested.
    expect(new Set(ended.map(({ id }) => id)).size).toBe(CALLS)
    const runs = [...new Set([...long, ...short, ...ended.map(({ run }) => run)])]
    const { entries, gone } = await verified(runs, ended)
    expect(new Set([...entries.map(({ call }) => call), ...gone.map(({ id }) => id)]).size).toBe(CALLS)
    for (const some of [gone.length, CALLS - gone.length]) expect(some).toBeGreaterThan(CALLS / 30)

    const { keys } = unwrap(await insist(() => hurt.operator('keys', { query: {} })))
    expect(keys.map(({ role, status }) => `${role} ${status}`).toSorted()).toEqual([
      'edge active',
      'edge retired',
      'worker active',
      'worker retired',
    ])
    expect([...(await audited('memory', ended))].toSorted()).toEqual(keys.map(({ kid }) => kid).toSorted())

    // None ran twice, succeeded calls ran, and calls with an unknown end are indeterminate.
    const marks = marksOf(runs)
    const ran = new Map([...Map.groupBy(marks, (mark) => mark)].map(([mark, lines]) => [mark, lines.length]))
    expect([...ran].filter(([, times]) => times > 1)).toEqual([])
    const outcomes = ended.map(({ state: end, result }, n) => ({
      ...all[n],
      end,
      error: result?.error?.code,
      ran: ran.get(all[n]?.mark ?? '') ?? 0,
    }))
    // If the worker died between the claim of a run's first call and making its folder, the others are refused.
    const isFolderless = (id: string | undefined) =>
      hurt.marks(id ?? '').length === 0 &&
      ended.some(({ run, state }) => run === id && state === 'indeterminate')
    const isExpected = ({ end, error, run }: (typeof outcomes)[number]) =>
      end === 'succeeded' ||
      end === 'indeterminate' ||
      (end === 'failed' && error === 'workspace_lost' && isFolderless(run))
    expect(outcomes.filter((outcome) => !isExpected(outcome))).toEqual([])
    const marking = outcomes.filter(({ tool }) => tool !== 'text_stats')
    expect(marking.filter(({ end, ran: times }) => end === 'succeeded' && times !== 1)).toEqual([])
    expect(outcomes.filter(({ tool, end }) => tool === 'text_stats' && end !== 'succeeded')).toEqual([]) // idempotent: tried again

    // A call is indeterminate only if its worker died while it ran, and becomes so in time. A journal that
    // was removed no longer says when the call was claimed.
    const buriedIds = new Set(gone.map(({ id }) => id))
    const lost = ended.filter(({ id, state }) => state === 'indeterminate' && !buriedIds.has(id))
    for (const { id, ended_at_ms = 0 } of lost) {
      const claimed = entries.findLast(({ call, kind }) => call === id && kind === 'claimed')?.at_ms ?? 0
      const deadly = struck.find(
        ({ parts, at, back }) => parts.includes('worker') && claimed <= back && at <= ended_at_ms,
      )
      expect(deadly, `${id} was claimed at ${claimed} and lost, and no worker died`).toBeDefined()
      // If the edge was restarted in between, it has renewed each lease.
      const since = struck
        .filter(({ parts, back }) => parts.includes('edge') && back <= ended_at_ms)
        .map(({ back }) => back)
      expect(ended_at_ms - Math.max(deadly?.at ?? 0, ...since)).toBeLessThan(INDETERMINATE_WITHIN_MS)
    }

    // After the restore, each call that was acknowledged before the backup is there once, with the end
    // that it had or as indeterminate. Its key finds it, and nothing runs again.
    await hurt.stop()
    const sealed = sealedObjects()
    expect(sealed).toBeGreaterThan(0)
    const restored = await ofState('restore', backup.dir, '--replace', '--accept-rollback', 'a storm')
    expect(restored).toMatchObject({ code: 0 })
    const port = Number(new URL(hurt.stack.url).port) // which the log is named by
    hurt = await HurtStack.start({ state, port, sealAfterS: SEAL_AFTER_S })
    await keep(FOR_EVER) // the backup has the rule of its time
    const stored = await storedCalls(ended)
    const after = new Map(stored.map((call) => [call.id, call]))
    expect([...backup.known.values()].filter(({ id }) => !after.has(id))).toEqual([])
    for (const call of ended) {
      const now = after.get(call.id)
      if (now === undefined || now.state === call.state) continue
      expect(now).toMatchObject({ state: 'indeterminate', result: { error: { code: 'restored' } } })
      expect(call.ended_at_ms).toBeGreaterThan(backup.at)
    }
    const kept = all.filter(({ mark }) => backup.known.has(mark))
    expect((await each(kept, proposed)).map(({ id }) => id)).toEqual(
      kept.map(({ mark }) => known.get(mark)?.id),
    )
    await audited('no-memory', stored)
    const rolledBack = await audit('memory', 'log', 'checkpoint', ...withFirstKeys)
    expect(rolledBack).toMatchObject({
      code: 1,
      out: expect.stringMatching(/the log was (?:rolled back|forked)/),
    })
    expect(marksOf(runs).toSorted()).toEqual(marks.toSorted())
    console.log(
      `storm of ${CALLS} calls: worker killed ${killed('worker')} times, Redis ${killed('redis')}, edge ${killed('edge')}; ${keys.length - 2} keys replaced; ${sealed} objects sealed; ${gone.length} calls removed; ${backup.nth} backups in ${backup.tries} tries, 1 restore with ${stored.length} calls, ${backup.known.size} of them acknowledged before; ${lost.length} calls indeterminate; ${marks.length} executions`,
    )
  },
  240_000 + CALLS * 300,
)
