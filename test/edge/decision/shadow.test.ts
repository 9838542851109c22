// A shadow set is evaluated and counted for each call but never affects it. Operators see the
// differences, agents do not. Neither its errors nor a restart of the edge changes that.

import { afterAll, afterEach, expect, test } from 'vitest'
import type { JournalEntry } from '../../../shared/evidence/journal.ts'
import { verifyChain } from '../../../shared/evidence/journal.ts'
import type { ShadowCount } from '../../../shared/routes/rehearsals.ts'
import type { Call } from '../../../shared/wire/calls.ts'
import { eventually } from '../../support/eventually.ts'
import { Fixtures, refusalOf, unwrap } from '../../support/fixtures.ts'
import { startTestStack } from '../../support/stack/stack.ts'
import { PeerWorker } from '../../support/worker/peer-worker.ts'

const stack = await startTestStack({ worker: 'idle' })
afterAll(stack.stop)
const fixtures = new Fixtures('shadow', stack.dev)
const { root } = fixtures
const peer = await PeerWorker.enrol(fixtures.url, root, fixtures.pool)
const agent = await fixtures.agent()
for (const name of ['plain', 'asking', 'denying']) await fixtures.tool({}, name)

const forbid = (id: string, tool: string, when: string) =>
  `@id("${id}") forbid (principal, action == Action::"tool.execute/${tool}", resource) when { ${when} };`
const DEFAULTS = unwrap(await root('readPolicies', {})).policies
const BASE = {
  ...DEFAULTS,
  base: `${forbid('asks', 'asking', '!context.approval.granted')}\n${forbid('denies', 'denying', 'true')}`,
}
unwrap(await root('putPolicies', { body: { policies: BASE } }))

const candidate = async (more: string, base: Record<string, string> = BASE) =>
  unwrap(await root('putPolicies', { body: { policies: { ...base, candidate: more }, activate: false } }))
    .version
const shadow = async (version: number | null) => unwrap(await root('putPolicyShadow', { body: { version } }))
const readShadow = async () => unwrap(await root('readPolicyShadow', {}))
afterEach(() => shadow(null))

const propose = async (tool: string, args = {}, run = {}) =>
  unwrap(await agent.client('proposeCallInNewRun', { body: { tool, args, run } }))
/** The end of the call, at which it is counted. */
const end = async ({ id, run, state }: Call) => {
  if (state === 'granted') await peer.run(id)
  if (state === 'awaiting_approval') unwrap(await agent.client('cancelCall', { params: { run, call: id } }))
}
const inOrder = (counts: readonly ShadowCount[]) =>
  counts.map(({ from, to, count }) => `${from} ${to} ${count}`).sort()
const counted = (calls: number) =>
  eventually(`${calls} calls are counted`, async () => {
    const now = await readShadow()
    return now.calls >= calls && now
  })
const journal = async (by: typeof root, run: string) =>
  unwrap(await by('readJournal', { params: { run } })).items

/**
 * Decides differently about each tool: denies the calls that run, allows those that need an
 * approval, and asks about those that are denied.
 */
const DIFFERENT = [
  forbid('other-plain', 'plain', 'context.args has text'),
  forbid('other-denying', 'denying', '!context.approval.granted'),
].join('\n')

test('a shadow set counts its differences exactly and never affects a decision', async () => {
  const before = (await readShadow()).version
  const version = await candidate(DIFFERENT, DEFAULTS)
  expect([before, await shadow(version)]).toMatchObject([
    null,
    { version, by: 'root', calls: 0, differ: 0, counts: [], latest: [] },
  ])
  const [active] = unwrap(await root('listPolicyVersions', {})).items.filter((each) => each.shadow)
  expect(active).toMatchObject({ version, active: false, shadow: true })
  const calls = [
    await propose('plain'),
    await propose('plain', { text: 'x' }),
    await propose('plain', { text: 'y' }),
    await propose('asking'),
    await propose('denying'),
  ]
  expect(calls.map(({ state }) => state)).toEqual([
    'granted',
    'granted',
    'granted',
    'awaiting_approval',
    'denied',
  ])
  const { policy_set } = unwrap(await root('readPolicies', {}))
  expect(new Set(calls.map(({ decision }) => decision.policy_set))).toEqual(new Set([policy_set]))
  for (const call of calls) await end(call)
  const now = await counted(5)
  expect(inOrder(now.counts)).toEqual(['allow allow 1', 'allow deny 2', 'ask allow 1', 'deny ask 1'])
  expect([now.calls, now.differ]).toEqual([5, 4])
  expect(new Map(now.latest.map(({ call, from, to }) => [call, `${from} ${to}`]))).toEqual(
    new Map(
      calls.slice(1).map(({ id }, i) => [id, ['allow deny', 'allow deny', 'ask allow', 'deny ask'][i]]),
    ),
  )
  await propose('denying')
  expect((await counted(6)).differ).toBe(5)
})

test('a call that is proposed twice with one idempotency key counts once for the shadow set', async () => {
  await shadow(await candidate(DIFFERENT))
  const headers = { 'idempotency-key': fixtures.name() }
  for (let i = 0; i < 3; i++)
    unwrap(await agent.client('proposeCallInNewRun', { body: { tool: 'denying', args: {} }, headers }))
  await propose('denying')
  expect((await counted(2)).calls).toBe(2)
})

test('the journal shows the shadow decision to operators and only a salted digest to agents, and both verify', async () => {
  const version = await candidate(DIFFERENT)
  const { since_ms } = await shadow(version)
  const call = await propose('plain', { text: 'x' })
  const whole = await journal(root, call.run)
  const own = await journal(agent.client, call.run)
  expect(whole[0]?.shadow).toMatchObject({
    version,
    since_ms,
    from: 'allow',
    to: 'deny',
    code: 'denied',
    policies: ['other-plain'],
  })
  expect(whole.map(({ shadow: _, ...entry }) => entry)).toEqual(own)
  expect(own.map(({ body }) => typeof body['shadow_sha256'])).toEqual(['string'])
  for (const entries of [whole, own]) expect(verifyChain(entries)).toMatchObject({ ok: true })
  const bent = whole.map(
    (entry): JournalEntry => (entry.shadow ? { ...entry, shadow: { ...entry.shadow, to: 'allow' } } : entry),
  )
  expect(verifyChain(bent)).toMatchObject({
    ok: false,
    error: { seq: 1, reason: '`shadow` is not what was journalled' },
  })
  await peer.run(call.id)
  const at = { params: { run: call.run, call: call.id } }
  const seen = [
    await journal(agent.client, call.run),
    await agent.client('readCall', at),
    await agent.client('readAttestation', at),
  ]
  expect(JSON.stringify(seen)).not.toMatch(/other-plain|since_ms/)
  expect(refusalOf(await agent.client('readPolicyShadow', {}))).toBe('403 forbidden')
  expect(refusalOf(await agent.client('putPolicyShadow', { body: { version: null } }))).toBe('403 forbidden')
  expect((await readShadow()).version).toBe(version)
})

test('without a shadow set the journal has no shadow decision', async () => {
  const call = await propose('plain', { text: 'x' })
  const [first] = await journal(root, call.run)
  expect([first?.shadow, first?.body['shadow_sha256']]).toEqual([undefined, undefined])
  await end(call)
})

test('an error in a shadow set counts as its denial and does not affect the call', async () => {
  await shadow(await candidate(forbid('errs', 'plain', '9223372036854775807 + context.weekday > 0')))
  const call = await propose('plain')
  expect(call.state).toBe('granted')
  expect((await journal(root, call.run))[0]?.shadow).toMatchObject({
    from: 'allow',
    to: 'deny',
    code: 'policy_error',
  })
  await end(call)
  expect(inOrder((await counted(1)).counts)).toEqual(['allow deny 1'])
})

test('usage that only the shadow set reads is counted for it and known to later rehearsals', async () => {
  const capped = await candidate(forbid('cap', 'plain', 'context.budget.session.calls >= 2'))
  await shadow(capped)
  const session = fixtures.name()
  const calls = [
    await propose('plain', {}, { session }),
    await propose('plain', {}, { session }),
    await propose('plain', {}, { session }),
  ]
  for (const call of calls) {
    expect(call.state).toBe('granted')
    await end(call)
  }
  const now = await counted(3)
  expect(now.latest.map(({ call }) => call)).toEqual([calls[2]?.id])
  const { flips } = unwrap(
    await root('rehearsePolicyVersion', { params: { version: String(capped) }, body: {} }),
  )
  expect(flips.map(({ call, to }) => [call, to])).toEqual([[calls[2]?.id, 'deny']])
})

test('the counters of a shadow set survive a crash of the edge', async () => {
  const version = await candidate(DIFFERENT)
  const { since_ms } = await shadow(version)
  const [one, two, three] = [
    await propose('plain', { text: 'x' }),
    await propose('plain', { text: 'x' }),
    await propose('plain'),
  ]
  await end(one)
  await counted(1)
  await end(two)
  expect(await stack.edge.restart()).toMatchObject({ ok: true }) // kill -9 and restart
  expect(await counted(2)).toMatchObject({ version, since_ms, calls: 2, differ: 2 }) // including what the log had not received before
  await end(three)
  await end(await propose('plain', { text: 'x' }))
  expect(await counted(4)).toMatchObject({ calls: 4, differ: 3 })
})

test('setting the same shadow again keeps its counters, another one resets them, and activation ends it', async () => {
  const [first, second] = [await candidate(DIFFERENT), await candidate(forbid('other', 'plain', 'true'))]
  await shadow(first)
  await propose('denying')
  const { since_ms } = await counted(1)
  expect(await shadow(first)).toMatchObject({ version: first, since_ms, calls: 1 })
  expect(await shadow(second)).toMatchObject({ version: second, calls: 0 })
  unwrap(await root('activatePolicyVersion', { params: { version: String(second) } }))
  expect(await readShadow()).toMatchObject({ version: null, calls: 0 })
  expect(refusalOf(await root('putPolicyShadow', { body: { version: second } }))).toBe('409 conflict')
  expect(refusalOf(await root('putPolicyShadow', { body: { version: 999_999 } }))).toBe('404 not_found')
  const auditor = await fixtures.operator(['auditor'])
  expect(refusalOf(await auditor.client('putPolicyShadow', { body: { version: first } }))).toBe(
    '403 forbidden',
  )
  expect(unwrap(await auditor.client('readPolicyShadow', {})).version).toBeNull()
  unwrap(await root('putPolicies', { body: { policies: BASE } }))
})

test('a set that could not be activated can’t be a shadow either', async () => {
  await fixtures.tool({}, 'passing')
  const version = await candidate(forbid('about-passing', 'passing', 'true'))
  await shadow(version)
  await shadow(null)
  unwrap(await root('deleteTool', { params: { name: 'passing' } }))
  expect(refusalOf(await root('putPolicyShadow', { body: { version } }))).toBe('422 invalid_policy')
  expect((await readShadow()).version).toBeNull()
})
