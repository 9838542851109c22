// Calls that make a run of their own share objects. Each run keeps its own chain, budget, keys, limits
// and end, and a key finds its run in whichever object it is.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, expect, test } from 'vitest'
import { sharedRunId } from '../../../edge/run/run-id.ts'
import { digestOf, sha256 } from '../../../shared/bytes/json.ts'
import { type JournalEntry, verifyChain } from '../../../shared/evidence/journal.ts'
import { LIMITS } from '../../../shared/limits.ts'
import type { Call } from '../../../shared/wire/calls.ts'
import { eventually } from '../../support/eventually.ts'
import { Fixtures, refusalOf, unwrap } from '../../support/fixtures.ts'
import { advanceAlarm, fileOf, runFileOf } from '../../support/stack/object-file.ts'
import { startTestStack } from '../../support/stack/stack.ts'
import { installation } from '../../support/tenants.ts'
import { timedKey } from '../../support/timed-key.ts'
import { PeerWorker } from '../../support/worker/peer-worker.ts'

// The tests read the rows of ended calls, so nothing is sealed.
const stack = await startTestStack({ worker: 'idle', sealAfterS: LIMITS.seal_after_s })
afterAll(() => stack.stop())
const fixtures = new Fixtures('shared', stack.dev)
const { operator } = stack
const peer = await PeerWorker.enrol(stack.url, operator, fixtures.pool)
const [tool, sensitive] = [await fixtures.tool(), await fixtures.tool({ capabilities: ['network'] })]
const forbidden = await fixtures.tool()
const tools = [tool, sensitive]
const agent = await fixtures.agent({ tools })

const headers = (key: string) => ({ 'idempotency-key': key })

type Client = typeof agent.client
const propose = async (name = tool, run?: Record<string, unknown>, key?: string, by: Client = agent.client) =>
  unwrap(
    await by('proposeCallInNewRun', {
      body: { tool: name, args: {}, ...(run === undefined ? {} : { run }) },
      ...(key === undefined ? {} : { headers: headers(key) }),
    }),
  )
const runOf = async ({ run }: Call) => unwrap(await agent.client('readRun', { params: { run } }))
const journalOf = async ({ run }: Call): Promise<JournalEntry[]> =>
  unwrap(await operator('readJournal', { params: { run } })).items

/**
 * The file of the object that has this run. The edge may keep running, because the file is only
 * read.
 */
function fileWith({ run }: Call): string {
  const db = runFileOf(run, stack.state.dir)
  const file = db.location() ?? ''
  db.close()
  return file
}
/** Runs `change` on the objects of these calls while the edge is down. */
async function whileStopped(change: () => void): Promise<void> {
  await stack.edge.stop()
  change()
  const started = await stack.edge.start()
  if (!started.ok) throw new Error(started.error)
}

test('calls in runs of their own share an object, and another agent’s calls do not', async () => {
  const calls = await Promise.all([propose(), propose(), propose(tool, undefined, timedKey())])
  const other = await fixtures.agent({ tools })
  const foreign = await propose(tool, undefined, undefined, other.client)
  expect(new Set(calls.map(({ run }) => run)).size).toBe(3)
  expect(new Set(calls.map(fileWith)).size).toBe(1)
  expect(fileWith(foreign)).not.toBe(fileWith(calls[0]))
  expect(refusalOf(await other.client('readRun', { params: { run: calls[0].run } }))).toBe('404 not_found')
})

test('each run of an object has its own numbers, chain, budget and list of calls', async () => {
  const [first, second] = [await propose(tool, { budget: { max_calls_per_run: 2 } }), await propose()]
  const again = (call: Call) =>
    agent.client('proposeCall', { params: { run: call.run }, body: { tool, args: {} } })
  const [third, fourth] = [unwrap(await again(first)), unwrap(await again(first))]
  expect([first.id, second.id, third.id].map((id) => id.split('_')[2])).toEqual(['1', '1', '2'])
  expect(fourth.decision.code).toBe('budget_spent')
  expect([(await runOf(first)).used, (await runOf(second)).used]).toEqual([
    { calls: 2, denied: 1 },
    { calls: 1, denied: 0 },
  ])
  expect(unwrap(await again(second)).state).toBe('granted')
  for (const call of [first, second]) {
    const entries = await journalOf(call)
    expect(entries.map(({ seq }) => seq)).toEqual(entries.map((_, i) => i + 1))
    expect(new Set(entries.map((entry) => entry.call?.split('_')[1]))).toEqual(new Set([call.run.slice(4)]))
    expect(verifyChain(entries)).toMatchObject({ ok: true })
  }
})

const snapshotOf = async ({ run, id }: Call) =>
  unwrap(await operator('readSnapshot', { params: { run, call: id } }))

test('the snapshot of a call has the budget of its run and the tool of the call', async () => {
  const twin = await fixtures.tool({}, `${tool}-twin`)
  const small = { budget: { max_calls_per_run: 2 } }
  const by = await fixtures.agent({ tools: [tool, twin] })
  const calls = [
    await propose(tool, undefined, undefined, by.client),
    await propose(tool, small, undefined, by.client),
    await propose(twin, small, undefined, by.client),
    await propose(tool, small, undefined, by.client),
  ]
  const snapshots = await Promise.all(calls.map(snapshotOf))
  expect(snapshots.map(digestOf)).toEqual(calls.map(({ decision }) => decision.snapshot))
  expect(snapshots.map((one) => one.tool.name)).toEqual([tool, tool, twin, tool])
  expect(snapshots.slice(1).map(({ budget }) => budget.max_calls_per_run)).toEqual([2, 2, 2])
  expect(snapshots[0]?.budget.max_calls_per_run).toBeGreaterThan(2)
})

test('a call has its snapshot, even if an earlier call with the same snapshot could not be stored', async () => {
  const by = await fixtures.agent({ tools: [tool, sensitive] })
  const { run } = await propose(sensitive, undefined, undefined, by.client)
  await whileStopped(() => {
    const db = runFileOf(run, stack.state.dir)
    db.exec(
      "create trigger full before insert on journal when new.body like '%a full disk%' begin select raise(abort, 'full'); end",
    )
    db.close()
  })
  const body = { tool, args: {} }
  const failed = await by.client('proposeCall', { params: { run }, body: { ...body, reason: 'a full disk' } })
  expect(refusalOf(failed)).toBe('500 internal')
  const stored = unwrap(await by.client('proposeCall', { params: { run }, body }))
  expect(digestOf(await snapshotOf(stored))).toBe(stored.decision.snapshot)
})

test('G12 a key belongs to one run of an object', async () => {
  const [first, second] = [await propose(), await propose()]
  const key = timedKey()
  const inRun = async ({ run }: Call) =>
    unwrap(
      await agent.client('proposeCall', { params: { run }, body: { tool, args: {} }, headers: headers(key) }),
    )
  const [one, two] = [await inRun(first), await inRun(second)]
  expect([one.run, two.run]).toEqual([first.run, second.run])
  expect([(await inRun(first)).id, (await inRun(second)).id]).toEqual([one.id, two.id])
})

test('twenty simultaneous requests with one key that names its time make one call', async () => {
  const key = timedKey()
  const calls = await Promise.all(Array.from({ length: 20 }, () => propose(tool, undefined, key)))
  expect(new Set(calls.map(({ id }) => id)).size).toBe(1)
  expect((await runOf(calls[0] as Call)).used.calls).toBe(1)
  const other = { tool: sensitive, args: {} }
  expect(refusalOf(await agent.client('proposeCallInNewRun', { body: other, headers: headers(key) }))).toBe(
    '409 idempotency_key_reused',
  )
})

const callsToday = async (): Promise<number> =>
  unwrap(await installation(stack.dev)('readTenant', { params: { tenant: 'default' } })).use?.calls_today ?? 0

/** Two keys of one millisecond that lead to one run's id. `of`: a call of the agent. */
function clashingKeys(of: Call): [string, string] {
  const db = runFileOf(of.run, stack.state.dir)
  const record = db.prepare(
    "select record ->> '$.agent' as name, record ->> '$.agentSince' as since from run",
  )
  const { name, since } = record.get() ?? {}
  db.close()
  const at = Date.now()
  const byId = new Map<string, string>()
  for (;;) {
    const key = timedKey(at)
    // The MAC depends only on the rest of the id, so ids clash in the same way with any key of the edge.
    const id = sharedRunId('default', { name: String(name), since: Number(since) }, key, Buffer.alloc(32), at)
    const other = byId.get(id)
    if (other !== undefined) return [other, key]
    byId.set(id, key)
  }
}

test('L2 two keys that lead to one id make a run each, and each finds its own call', async () => {
  const by = await fixtures.agent({ tools: [...tools, forbidden] })
  const call = (key: string, run?: Record<string, unknown>) => propose(tool, run, key, by.client)
  const [first, second] = clashingKeys(await propose(tool, undefined, undefined, by.client))
  const counted = await callsToday()
  const calls = [await call(first), await call(second)] as const
  expect(calls.map(({ id, run }) => [id.split('_')[2], run.charAt(4)])).toEqual([
    ['1', '4'],
    ['1', '3'],
  ])
  expect((await callsToday()) - counted).toBe(2)
  const again = [await call(second), await call(first), await call(second)]
  expect(again.map(({ id }) => id)).toEqual([calls[1].id, calls[0].id, calls[1].id])
  // Also with other settings, and when both are sent at once.
  const [third, fourth] = clashingKeys(calls[0])
  const both = () =>
    Promise.all([call(third), call(fourth, { budget: { max_calls_per_run: 1 } }), call(third)])
  const made = await both()
  expect(new Set(made.map(({ run }) => run)).size).toBe(2)
  expect((await both()).map(({ id }) => id)).toEqual(made.map(({ id }) => id))
})

test('cancelling a run leaves the other runs of its object', async () => {
  const [first, second] = [await propose(sensitive), await propose(sensitive)]
  unwrap(await agent.client('cancelRun', { params: { run: first.run } }))
  const stateOf = async ({ run, id }: Call) =>
    unwrap(await agent.client('readCall', { params: { run, call: id } })).state
  expect([await stateOf(first), await stateOf(second)]).toEqual(['cancelled', 'awaiting_approval'])
  expect([(await runOf(first)).state, (await runOf(second)).state]).toEqual(['cancelled', 'open'])
})

test('each run of an object has its own files and output', async () => {
  const taking = await fixtures.tool({ input_files: true, executor: { tiers: ['B', 'C'] } })
  const { client: by } = await fixtures.agent({ tools: [taking] })
  const proposed = () => propose(taking, undefined, undefined, by)
  const calls = [await proposed(), await proposed()]
  const put = ({ run }: Call, text: string) =>
    by('putFile', { params: { run, sha256: sha256(text) }, body: Buffer.from(text) })
  const filesOf = async ({ run }: Call) =>
    unwrap(await by('listFiles', { params: { run } })).items.map((file) => file.sha256)
  const [first, second] = calls as [Call, Call]
  unwrap(await put(first, 'of both'))
  unwrap(await put(first, 'of one'))
  unwrap(await put(second, 'of both'))
  expect([(await filesOf(first)).length, await filesOf(second)]).toEqual([2, [sha256('of both')]])
  const names = { tool: taking, args: {}, files: [{ path: 'in', sha256: sha256('of one') }] }
  const proposeIn = ({ run }: Call) => by('proposeCall', { params: { run }, body: names })
  expect(refusalOf(await proposeIn(second))).toBe('422 no_such_file')
  unwrap(await proposeIn(first))
  for (const [i, call] of calls.entries()) await peer.run(call.id, { stdout: `of ${i}` })
  const ended = calls.map(async ({ run, id }) => unwrap(await by('readCall', { params: { run, call: id } })))
  expect((await Promise.all(ended)).map(({ result }) => result?.output)).toEqual(['of 0', 'of 1'])
})

test('the log has the end of each run of an object once, even after the edge was killed', async () => {
  const ends = async () => {
    const items = unwrap(await operator('listEndedCalls', { query: { last: LIMITS.page } })).items
    return items.map(({ call }) => call)
  }
  const denied = async () => Promise.all(Array.from({ length: 12 }, () => propose(forbidden)))
  const known = await denied()
  await eventually('they are in the log', async () => (await ends()).includes(known.at(-1)?.id ?? ''))
  const fresh = await denied()
  const back = await stack.edge.restart() // before the log had them
  if (!back.ok) throw new Error(back.error)
  const ids = [...known, ...fresh].map(({ id }) => id)
  await eventually('all are in the log', async () => {
    const have = await ends()
    return ids.every((id) => have.includes(id))
  })
  expect((await ends()).filter((id) => ids.includes(id)).length).toBe(ids.length)
  const listed = unwrap(await operator('listRuns', { query: {} })).items.map(({ id }) => id)
  expect(fresh.every(({ run }) => listed.includes(run))).toBe(true)
  const db = runFileOf(fresh[0]?.run ?? '', stack.state.dir)
  const behind = () => db.prepare('select count(*) as n from run where logged < seq').get()?.['n']
  await eventually('each run knows what the log has of it', () => behind() === 0)
  db.close()
})

/**
 * Makes the row of a call unreadable while the edge is down, and the alarm of its object due. The log
 * lacks what these runs have done.
 */
const damage = (call: Call, change: string, unlogged: readonly Call[]): Promise<void> =>
  whileStopped(() => {
    const db = runFileOf(call.run, stack.state.dir)
    const placeOf = ({ run }: Call) =>
      Number(db.prepare("select id from run where record ->> '$.id' = ?").get(run)?.['id'])
    const n = (placeOf(call) - 1) * 2 ** 32 + 1
    expect(db.prepare(`update calls set record = '{', ${change} where n = ?`).run(n).changes).toBe(1)
    for (const each of unlogged) db.prepare('update run set logged = -1 where id = ?').run(placeOf(each))
    db.close()
    advanceAlarm(fileWith(call))
  })
/** Waits until the log has everything of the other runs in the object of this call. */
const othersLogged = (call: Call): Promise<unknown> =>
  eventually('the log has everything of the other runs', () => {
    const db = runFileOf(call.run, stack.state.dir)
    const behind = db.prepare("select 1 from run where logged < seq and record ->> '$.id' <> ?").all(call.run)
    db.close()
    return behind.length === 0
  })
/** How often the edge has reported a row that it can't read. */
const damageReports = (): number =>
  readFileSync(join(stack.state.log, 'edge.log'), 'utf8')
    .split('\n')
    .filter((line) => /in JSON/.test(line)).length

test('a due call that can’t be read delays no other run of its object, and is tried less and less often', async () => {
  const by = await fixtures.agent({ tools: [sensitive] })
  const inOwnRun = (name: string) => propose(name, undefined, undefined, by.client)
  const [broken, waiting, denied] = [
    await inOwnRun(sensitive),
    await inOwnRun(sensitive),
    await inOwnRun(forbidden),
  ]
  await othersLogged(broken)
  const reported = damageReports()
  await damage(broken, 'due_at = 1', [denied])
  await othersLogged(broken)
  unwrap(await by.client('cancelRun', { params: { run: waiting.run } }))
  await othersLogged(broken)
  await sleep(5_000)
  const tries = damageReports() - reported
  expect(tries).toBeGreaterThan(1)
  expect(tries).toBeLessThan(5) // after 2, 4 and 8 s
})

test('an ended call that can’t be read keeps the ends of no other run of its object out of the log', async () => {
  const by = await fixtures.agent({ tools: [sensitive] })
  const inOwnRun = (name: string) => propose(name, undefined, undefined, by.client)
  await inOwnRun(sensitive) // so that the object has an alarm
  const [first, broken, ...more] = [
    await inOwnRun(forbidden),
    await inOwnRun(forbidden),
    await inOwnRun(forbidden),
    await inOwnRun(forbidden),
  ]
  await othersLogged(broken)
  await damage(broken, 'unmirrored = 0', [first, broken, ...more])
  await othersLogged(broken)
  await inOwnRun(forbidden)
  await othersLogged(broken)
})

test('an approval of one run of an object expires, and the others wait', async () => {
  const short = await fixtures.tool({ capabilities: ['network'], approval_ttl_s: 2 })
  const by = await fixtures.agent({ tools: [short, sensitive] })
  const [first, second] = [
    await propose(short, undefined, undefined, by.client),
    await propose(sensitive, undefined, undefined, by.client),
  ]
  const stateOf = async ({ run, id }: Call) =>
    unwrap(await by.client('readCall', { params: { run, call: id } })).state
  await eventually('the approval expires', async () => (await stateOf(first)) === 'expired')
  expect(await stateOf(second)).toBe('awaiting_approval')
})

test('L2 a key finds its run after a restart, when its object is full, and when an earlier edge received it', async () => {
  const [before, random, others] = [timedKey(), fixtures.name(), await fixtures.agent({ tools })]
  const call = (key: string) => propose(tool, undefined, key, others.client)
  const [shared, alone] = [await call(before), await call(random)]
  expect(fileWith(alone)).not.toBe(fileWith(shared))
  const full = fileWith(shared)
  await whileStopped(() => {
    const db = new DatabaseSync(full)
    const last = db.prepare('select * from run order by id desc limit 1').get() ?? {}
    const { record } = last
    db.prepare(`insert into run select ?, replace(record, ?, ?), cancelled, calls, allowed, denied, seq, head, folder, seq
      from run order by id desc limit 1`).run(
      LIMITS.runs_per_object,
      JSON.parse(String(record)).id,
      `run_4${'0'.repeat(25)}`,
    )
    db.close()
  })
  const during = timedKey()
  const elsewhere = await call(during)
  expect(fileWith(elsewhere)).not.toBe(full)
  expect([(await call(before)).id, (await call(random)).id, (await call(during)).id]).toEqual([
    shared.id,
    alone.id,
    elsewhere.id,
  ])
  expect((await propose(tool, undefined, undefined, others.client)).state).toBe('granted')
  await whileStopped(() => {
    const db = fileOf('tenant', stack.state.dir)
    db.exec('update meta set runs_share_since = null') // as an earlier edge left it
    db.close()
  })
  const key = timedKey()
  const own = await propose(tool, undefined, key)
  expect([own.run.charAt(4), (await propose(tool, undefined, key)).id]).toEqual(['3', own.id])
  const later = await propose(tool, undefined, timedKey(Date.now() + 2 * 3600_000))
  expect(later.run.charAt(4)).toBe('4')
})
