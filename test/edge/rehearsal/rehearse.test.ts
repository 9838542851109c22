// Promise: a rehearsal reports what a policy set would have decided about past calls, as they were
// then. It reports the calls that it can't decide, and changes nothing.

import { dirname } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { inBatches } from '../../../edge/platform/deadline.ts'
import { LIMITS } from '../../../shared/limits.ts'
import type { Rehearsal } from '../../../shared/routes/rehearsals.ts'
import type { Call } from '../../../shared/wire/calls.ts'
import { costOf, countRequests } from '../../support/counted-requests.ts'
import { countersign } from '../../support/countersign.ts'
import { eventually } from '../../support/eventually.ts'
import { Fixtures, refusalOf, unwrap } from '../../support/fixtures.ts'
import { logHashes, logHead } from '../../support/log-reader.ts'
import { restartWithLimits, writeLimits } from '../../support/stack/other-limits.ts'
import { startTestStack } from '../../support/stack/stack.ts'
import { PeerWorker } from '../../support/worker/peer-worker.ts'

const stack = await startTestStack({ worker: 'idle' })
afterAll(stack.stop)
const fixtures = new Fixtures('rehearse', stack.dev)
const { root } = fixtures
const peer = await PeerWorker.enrol(fixtures.url, root, fixtures.pool)

const forbid = (id: string, tool: string, when: string, advice = '') =>
  `@id("${id}") @reason("${id}") ${advice} forbid (principal, action == Action::"tool.execute/${tool}", resource) when { ${when} };`
const NO_YES = '!context.approval.granted'
const DEFAULTS = unwrap(await root('readPolicies', {})).policies

const [ann, ben, gone] = [
  await fixtures.agent(),
  await fixtures.agent({ tools: ['plain', 'asking', 'denying'], budget: { max_denied_per_run: 1_000 } }),
  await fixtures.agent(),
]
for (const name of ['plain', 'asking', 'denying', 'versioned', 'counted']) await fixtures.tool({}, name)
await fixtures.tool({ capabilities: ['network'] }, 'net')
const BASE = {
  ...DEFAULTS,
  base: `${forbid('asks', 'asking', NO_YES)}\n${forbid('denies', 'denying', 'true')}`,
}
unwrap(await root('putPolicies', { body: { policies: BASE } }))

const propose = async (by = ann, tool = 'plain', args = {}) =>
  unwrap(await by.client('proposeCallInNewRun', { body: { tool, args } }))
const answer = async ({ approval }: Call, decision: 'approve' | 'deny', by = root) =>
  unwrap(await by('answerApproval', { params: { id: approval?.id ?? '' }, body: { decision } }))

const inLog = async () => unwrap(await root('listEndedCalls', { query: { last: LIMITS.page } })).items
const logged = (calls: readonly Call[]) =>
  eventually('the log has them', async () => {
    const known = new Set((await inLog()).map(({ call }) => call))
    return calls.every(({ id }) => known.has(id))
  })

/** The version of a set that is not in force. */
const candidate = async (more: string, base: Record<string, string> = BASE) =>
  String(
    unwrap(await root('putPolicies', { body: { policies: { ...base, candidate: more }, activate: false } }))
      .version,
  )
const rehearse = async (version: string, body: { days?: number; limit?: number } = {}) =>
  unwrap(await root('rehearsePolicyVersion', { params: { version }, body }))
const flipsOf = ({ flips }: Rehearsal) =>
  flips.map(({ call, from, now, to }) => [call, `${from} ${now} ${to}`])
const expectFlips = (result: Rehearsal, flips: readonly (readonly [Call, string])[]) =>
  expect(new Map(flipsOf(result).map(([call, kind]) => [call, kind]))).toEqual(
    new Map(flips.map(([{ id }, kind]) => [id, kind])),
  )

let calls: Record<
  'ran' | 'text' | 'approved' | 'rejected' | 'asked' | 'denied' | 'unlisted' | 'revoked' | 'first' | 'second',
  Call
>

beforeAll(async () => {
  const ran = await propose()
  await peer.run(ran.id)
  const text = await propose(ben, 'plain', { text: 'refund' })
  await peer.run(text.id)
  const approved = await propose(ann, 'asking')
  await answer(approved, 'approve')
  await peer.run(approved.id)
  const rejected = await propose(ben, 'asking')
  await answer(rejected, 'deny')
  const asked = await propose(ann, 'net')
  unwrap(await ann.client('cancelCall', { params: { run: asked.run, call: asked.id } }))
  const denied = await propose(ben, 'denying')
  const unlisted = await propose(ben, 'net')
  const revoked = await propose(gone)
  await peer.run(revoked.id)
  unwrap(await root('deleteAgent', { params: { name: gone.name } }))
  const first = await propose(ann, 'versioned')
  await peer.run(first.id)
  await fixtures.tool({ sensitive: true }, 'versioned')
  const second = await propose(ann, 'versioned')
  await answer(second, 'approve')
  await peer.run(second.id)
  calls = { ran, text, approved, rejected, asked, denied, unlisted, revoked, first, second }
  expect([denied.state, unlisted.state, first.state, second.state]).toEqual([
    'denied',
    'denied',
    'granted',
    'awaiting_approval',
  ])
  await logged(Object.values(calls))
})

test('rehearsing the set in force, or an equal one, flips no decision, and calls of revoked agents are counted separately', async () => {
  const { version } = unwrap(await root('readPolicies', {}))
  const revoked = [{ reason: 'the agent has been revoked since', count: 1 }]
  for (const same of [String(version), await candidate('')]) {
    const result = await rehearse(same)
    expect(result).toMatchObject({
      version: Number(same),
      against: version,
      looked_at: 10,
      complete: true,
      summary: [],
      flips: [],
    })
    expect(result.unrehearsable).toEqual(revoked)
    expect([result.approvals, result.approvals_per_day]).toEqual([{ now: 4, to: 4 }, null])
  }
})

test('a rehearsal reports flips between allow, ask and deny, only for the calls that the change affects', async () => {
  const { ran, text, approved, rejected, denied } = calls
  const denying = await rehearse(await candidate(forbid('not-now', 'plain', 'context.args has text')))
  expectFlips(denying, [[text, 'allow allow deny']])
  expect(denying.flips[0]).toMatchObject({
    agent: ben.name,
    tool: 'plain',
    policies: ['not-now'],
    reason: 'not-now',
  })
  const asking = await rehearse(await candidate(forbid('ask-first', 'plain', NO_YES)))
  expectFlips(asking, [
    [ran, 'allow allow ask'],
    [text, 'allow allow ask'],
  ])
  expect(asking.summary).toEqual([{ from: 'allow', now: 'allow', to: 'ask', count: 2 }])
  expect([asking.approvals, asking.approvals_per_day]).toEqual([{ now: 4, to: 6 }, null])
  expectFlips(await rehearse(await candidate(forbid('asks', 'asking', 'true'), DEFAULTS)), [
    [approved, 'ask ask deny'],
    [rejected, 'ask ask deny'],
    [denied, 'deny deny allow'],
  ])
  expectFlips(await rehearse(await candidate(forbid('denies', 'denying', NO_YES), DEFAULTS)), [
    [approved, 'ask ask allow'],
    [rejected, 'ask ask allow'],
    [denied, 'deny deny ask'],
  ])
})

test('a rehearsal uses the real answers, and reports where they would not have sufficed', async () => {
  const { approved } = calls
  const two = forbid('two', 'asking', 'context.approval.count < 2')
  await fixtures.operator(['approver'])
  expectFlips(await rehearse(await candidate(two)), [[approved, 'ask ask ask_more']])
})

test('a rehearsal uses the version that the tool had at the call', async () => {
  const { first, second } = calls
  const result = await rehearse(await candidate(forbid('versions', 'versioned', 'resource.version == 1')))
  expectFlips(result, [[first, 'allow allow deny']])
  expectFlips(
    await rehearse(await candidate(forbid('versions', 'versioned', 'context.is_sensitive_action'))),
    [[second, 'ask ask deny']],
  )
})

test('a rehearsal uses the time of the call', async () => {
  const { ran, text } = calls
  const second = (ms: number): number => Math.floor(ms / 1_000)
  await eventually('another second', () => second(Date.now()) > second(text.created_at_ms))
  const after = await propose()
  await peer.run(after.id)
  await logged([after])
  const at = new Date(after.created_at_ms).toISOString().replace(/\.\d+Z/, '.000Z')
  const result = await rehearse(await candidate(forbid('before', 'plain', `context.now < datetime("${at}")`)))
  expectFlips(result, [
    [ran, 'allow allow deny'],
    [text, 'allow allow deny'],
  ])
})

test('a rehearsal counts the run’s usage at each call, and reports unknown usage instead of guessing', async () => {
  const { id: run } = unwrap(await ann.client('createRun', { body: {} }))
  const made: Call[] = []
  for (let i = 0; i < 4; i++)
    made.push(
      unwrap(await ann.client('proposeCall', { params: { run }, body: { tool: 'counted', args: {} } })),
    )
  for (const { id } of made.toReversed()) await peer.run(id)
  await logged(made)
  const capped = await rehearse(await candidate(forbid('cap', 'counted', 'context.budget.run.calls >= 2')))
  expectFlips(
    capped,
    made.slice(2).map((call) => [call, 'allow allow deny']),
  )
  const own = await rehearse(
    await candidate(forbid('own', 'counted', 'context.budget.run.tool.time_ms >= 1000000')),
  )
  expectFlips(own, [])
  const session = await rehearse(
    await candidate(forbid('session', 'counted', 'context.budget.session.calls >= 2')),
  )
  expectFlips(session, [])
  const [uncounted] = session.unrehearsable.filter(({ reason }) => reason.includes('session'))
  expect(uncounted?.count).toBe(session.looked_at - 1)
  const hour = await rehearse(
    await candidate(forbid('hour', 'counted', 'context.budget.agent.asks_hour >= 2')),
  )
  expect(
    hour.unrehearsable.find(({ reason }) => reason.includes('how many questions the agent'))?.count,
  ).toBe(session.looked_at - 1)
})

test('a rehearsal counts a policy error as a denial', async () => {
  const result = await rehearse(
    await candidate(forbid('errs', 'plain', '9223372036854775807 + context.weekday > 0')),
  )
  expect(result.summary).toEqual([{ from: 'allow', now: 'allow', to: 'deny', count: 3 }])
})

test('a rehearsal distinguishes changes since the call from changes by the candidate', async () => {
  const { approved, rejected, denied } = calls
  await fixtures.withPolicies({ base: null }, async () => {
    const result = await rehearse(await candidate(forbid('denies', 'denying', NO_YES), DEFAULTS))
    expectFlips(result, [
      [approved, 'ask allow allow'],
      [rejected, 'ask allow allow'],
      [denied, 'deny allow ask'],
    ])
    expectFlips(await rehearse(await candidate('')), [
      [approved, 'ask allow ask'],
      [rejected, 'ask allow ask'],
      [denied, 'deny allow deny'],
    ])
  })
})

/** Everything that a rehearsal could have changed. */
async function world() {
  const runs = await Promise.all(
    Object.values(calls).map(async ({ run }) => [
      unwrap(await root('readRun', { params: { run } })),
      unwrap(await root('readJournal', { params: { run } })),
    ]),
  )
  const { size, root: tree } = await logHead(root)
  return [
    runs,
    size,
    tree,
    unwrap(await root('listApprovals', { query: { status: 'all' } })),
    unwrap(await root('readPolicies', {})),
  ]
}

test('a rehearsal changes no journal, budget, log, inbox or policy in force', async () => {
  const version = await candidate(forbid('all', 'plain', NO_YES), DEFAULTS)
  const journal = unwrap(await root('readTenantJournal', { query: {} })).items
  const { hash } = journal.at(-1) ?? { hash: '' }
  await eventually('the log has the candidate', async () => (await logHashes(root)).includes(hash))
  const before = await world()
  for (let i = 0; i < 3; i++) await rehearse(version)
  expect(await world()).toEqual(before)
  const agreed = await propose(ann, 'denying')
  expect(agreed.decision).toMatchObject({ effect: 'deny', policy_set: calls.denied.decision.policy_set })
})

test('a rehearsal is limited in days, calls and listed flips, and reports when it is incomplete', async () => {
  const lifted = await candidate('', DEFAULTS)
  const allowed = ({ summary }: Rehearsal) => summary.find(({ to }) => to === 'allow')?.count ?? 0
  const before = allowed(await rehearse(lifted))
  const { id: run } = unwrap(await ben.client('createRun', { body: {} }))
  const made = await Promise.all(
    Array.from({ length: LIMITS.rehearsal_flips + 10 }, async () =>
      unwrap(await ben.client('proposeCall', { params: { run }, body: { tool: 'denying', args: {} } })),
    ),
  )
  const whole = await eventually('all are in the log', async () => {
    const result = await rehearse(lifted)
    return allowed(result) === before + made.length && result
  })
  expect(whole.flips).toHaveLength(LIMITS.rehearsal_flips)
  expect(whole).toMatchObject({ complete: true, out_of_time: false })
  const times = whole.flips.map(({ at_ms }) => at_ms)
  expect(times).toEqual(times.toSorted((a, b) => b - a))
  const part = await rehearse(lifted, { limit: 7 })
  expect(part).toMatchObject({ looked_at: 7, complete: false, out_of_time: false })
  expect(part.flips.map(({ call }) => call)).toEqual(whole.flips.slice(0, 7).map(({ call }) => call))
  expect(await rehearse(lifted, { limit: whole.looked_at })).toMatchObject({
    looked_at: whole.looked_at,
    complete: true,
  })
  for (const body of [
    { days: 0 },
    { days: LIMITS.rehearsal_days + 1 },
    { days: 1.5 },
    { limit: 0 },
    { limit: LIMITS.rehearsal_calls + 1 },
  ])
    expect(refusalOf(await root('rehearsePolicyVersion', { params: { version: lifted }, body }))).toBe(
      '400 invalid_request',
    )
  expect(refusalOf(await root('rehearsePolicyVersion', { params: { version: '999' }, body: {} }))).toBe(
    '404 not_found',
  )
})

test('a rehearsal reports a run that is too long to count again, only if the set reads its usage', async () => {
  const long = await fixtures.agent({ tools: [], budget: { max_denied_per_run: 10_000 } })
  const { id: run } = unwrap(await long.client('createRun', { body: {} }))
  const one = async () =>
    unwrap(await long.client('proposeCall', { params: { run }, body: { tool: 'plain', args: {} } }))
  for (let made = 0; made <= LIMITS.rehearsal_run_calls; made += 25)
    await Promise.all(Array.from({ length: 25 }, one))
  const reading = await candidate(forbid('reads', 'plain', 'context.budget.run.calls >= 1000000'))
  const uncounted = ({ unrehearsable }: Rehearsal) =>
    unrehearsable.find(({ reason }) => reason.includes('too long'))?.count
  await eventually(
    'they are in the log',
    async () => uncounted(await rehearse(reading, { limit: 60 })) === 60,
  )
  const nothing = await candidate('')
  expect(uncounted(await rehearse(nothing, { limit: 60 }))).toBeUndefined()
  const cli = (version: string) =>
    countersign(['policy', 'rehearse', version, '--limit', '60'], {
      env: { COUNTERSIGN_STATE: dirname(stack.state.dev) },
    })
  expect(await cli(reading)).toMatchObject({
    code: 1,
    out: expect.stringMatching(
      /no decision changes\n(.*\n)*inconclusive: 60 of 60 calls can’t be rehearsed\n/,
    ),
  })
  expect(await cli(nothing)).toMatchObject({ code: 0, out: expect.not.stringContaining('inconclusive') })
})

test('a rehearsal decides a run’s calls in batches between which others are served, and stops at its deadline', async () => {
  let served = 0
  const other = setInterval(() => served++, 1)
  const busy = (n: number): number => {
    for (const end = performance.now() + 10; performance.now() < end; );
    return n
  }
  const calls = Array.from({ length: 400 }, (_, n) => n)
  const until = Date.now() + 200
  const done = await inBatches(calls, until, busy)
  expect(Date.now() - until).toBeLessThan(2_000)
  clearInterval(other)
  expect(done).toEqual(calls.slice(0, done.length))
  expect(done.length).toBeLessThanOrEqual(21)
  expect(served).toBeGreaterThan(done.length / 2)
  expect(await inBatches([1, 2], Date.now() - 1, busy)).toEqual([])
  expect(await inBatches([1, 2], Date.now() + 60_000, busy)).toEqual([1, 2])
})

test('a second rehearsal is refused while one runs, and can begin when it has ended', async () => {
  const version = await candidate('')
  const ask = () => root('rehearsePolicyVersion', { params: { version }, body: {} })
  const answers = await Promise.all(Array.from({ length: 6 }, ask))
  const refused = answers.filter(({ ok }) => !ok)
  expect(refused.length).toBeGreaterThan(0)
  expect(refused.length).toBeLessThan(6)
  expect(new Set(refused.map(refusalOf))).toEqual(new Set(['409 conflict']))
  unwrap(await ask())
})

test('admins and auditors may rehearse; approvers and agents may not', async () => {
  const version = await candidate('')
  const ask = async (by: typeof root) => {
    const result = await by('rehearsePolicyVersion', { params: { version }, body: { limit: 1 } })
    return result.ok ? 'told' : refusalOf(result)
  }
  const auditor = await fixtures.operator(['auditor'])
  const approver = await fixtures.operator(['approver'])
  expect([
    await ask(root),
    await ask(auditor.client),
    await ask(approver.client),
    await ask(ann.client),
  ]).toEqual(['told', 'told', '403 forbidden', '403 forbidden'])
})

test('a call that was approved, and cancelled while it ran, is decided again with its answer, like any call that ran', async () => {
  unwrap(await root('putPolicies', { body: { policies: BASE } }))
  const stopped = await propose(ann, 'asking')
  await answer(stopped, 'approve')
  const claim = unwrap(await peer.claim(stopped.id))
  unwrap(await ann.client('cancelCall', { params: { run: stopped.run, call: stopped.id } }))
  unwrap(await peer.settle(claim, { outcome: { kind: 'cancelled' } }))
  await logged([stopped])
  const told = await rehearse(await candidate(forbid('two', 'asking', 'context.approval.count < 2')))
  expect(flipsOf(told)).toContainEqual([stopped.id, 'ask ask ask_more'])
})

test('a rehearsal asks each of the latest `rehearsal_runs` runs for 50 calls at a time (`rehearsal_calls_at_once`), and loses none', async () => {
  expect(LIMITS.rehearsal_calls_at_once).toBe(50)
  unwrap(await root('putPolicies', { body: { policies: BASE } }))
  const version = await candidate('')
  const { id: run } = unwrap(await ben.client('createRun', { body: {} }))
  const body = { tool: 'denying', args: {} }
  const made = [await propose(ben, 'denying'), await propose(ben, 'denying')]
  for (let n = 0; n < 51; n++) made.push(unwrap(await ben.client('proposeCall', { params: { run }, body })))
  await logged(made)
  writeLimits(stack, { rehearsal_runs: 3 })
  await countRequests(stack)
  let result: Rehearsal | undefined
  const { requests } = await costOf(stack, async () => {
    result = await rehearse(version)
  })
  expect(result).toMatchObject({ looked_at: 53, complete: false, out_of_time: false })
  expect(requests.filter((request) => request === 'RUN.rehearse')).toHaveLength(4) // 1, 1, 50 and 1 calls
})

test('a rehearsal ends after `rehearsal_ms`, says so, and the next one can begin', async () => {
  const version = await candidate('')
  await restartWithLimits(stack, { rehearsal_ms: 1 })
  for (let i = 0; i < 2; i++)
    expect(await rehearse(version)).toMatchObject({ complete: false, out_of_time: true })
})
