// A standing answer covers similar calls: same agent, session, device, channel, tool, policies and
// reach. It applies for its time, while its operator may give it and nobody revokes it.

import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { Call } from '../../../shared/wire/calls.ts'
import type { RunSpec } from '../../../shared/wire/runs.ts'
import { eventually } from '../../support/eventually.ts'
import { refusalOf, unwrap } from '../../support/fixtures.ts'
import { objectId } from '../../support/stack/object-file.ts'
import { sharedStack, sharedState } from '../../support/stack/stack.ts'
import { newTenant } from '../../support/tenants.ts'
import { grantOf, PeerWorker } from '../../support/worker/peer-worker.ts'

const fixtures = await newTenant(sharedStack(), 'standing')
const agent = await fixtures.agent()
const approver = await fixtures.operator(['approver'])
const peer = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool)
const tool = await fixtures.tool({ capabilities: ['network'] })

type AnswerScope = { scope?: 'once' | 'session' | 'timeboxed'; ttl_s?: number; reason?: string }

const propose = async (
  run: RunSpec,
  { by = agent.client, of = tool, args = {} as Record<string, unknown> } = {},
): Promise<Call> => unwrap(await by('proposeCallInNewRun', { body: { tool: of, args, run } }))
const answer = (call: Call, decision: 'approve' | 'deny', given: AnswerScope = {}, by = approver.client) =>
  by('answerApproval', { params: { id: call.approval?.id ?? '' }, body: { decision, ...given } })
const session = (): RunSpec => ({ session: fixtures.name() })
const standingIn = async ({ session }: RunSpec) =>
  unwrap(await fixtures.root('listStanding', {})).items.filter((standing) => standing.session === session)
const read = async (call: Call) =>
  unwrap(await agent.client('readCall', { params: { run: call.run, call: call.id } }))
const journalOf = async ({ run }: Call) =>
  unwrap(await agent.client('readJournal', { params: { run }, query: {} })).items

/** A session with a standing approval. */
async function approved(given: AnswerScope = { scope: 'session' }, run = session()): Promise<RunSpec> {
  unwrap(await answer(await propose(run), 'approve', given))
  return run
}

test('after a standing approval the next call runs without asking, and its evidence names the standing approval', async () => {
  const run = session()
  const first = await propose(run)
  const card = unwrap(await approver.client('readApproval', { params: { id: first.approval?.id ?? '' } }))
  expect(card.prompt.standing?.covers).toContain(
    `every call of \`${tool}\` version 1 by agent \`${agent.name}\` in session \`${run.session}\``,
  )
  expect(card.prompt.standing?.most_s).toBe(43_200)
  unwrap(await answer(first, 'approve', { scope: 'session', reason: 'as often as you like' }))
  const [standing, ...more] = await standingIn(run)
  expect(more).toEqual([])
  expect(standing).toMatchObject({
    by: approver.name,
    channel: 'api',
    assurance: 'key',
    digest: first.digest,
    live: true,
    scope: 'session',
  })

  const second = await propose(run, { args: { text: 'another' } })
  expect(second).toMatchObject({
    state: 'granted',
    decision: { effect: 'ask' },
    approval: { status: 'approved' },
  })
  expect(second.decision.reason).toContain(`approved by standing approvals: \`${standing?.id}\``)
  const [entry] = await journalOf(second)
  expect(entry).toMatchObject({
    kind: 'approved',
    body: { answers: [{ by: approver.name, scope: 'session', standing: standing?.id }] },
  })
  const claim = unwrap(await peer.claim(second.id))
  expect(grantOf(claim.grant).facts.approval).toMatchObject({
    scope: 'session',
    answers: [{ by: approver.name, standing: standing?.id }],
  })
  unwrap(await peer.settle(claim))
})

test('a call that runs under a standing approval shows the agent its id but not the operator', async () => {
  const call = await propose(await approved())
  expect(call.state).toBe('granted')
  await peer.run(call.id)
  for (const told of [call, await read(call)]) {
    expect(told.decision.reason).toMatch(/approved by standing approvals: `std_/)
    expect(JSON.stringify(told)).not.toContain(approver.name)
  }
})

test('D7 a question in a run that names no session creates no session object until somebody answers for the session', async () => {
  const first = await propose({})
  expect(first.state).toBe('awaiting_approval')
  const name = `standing/${agent.name}/${first.run}`
  const file = join(
    sharedState(),
    'edge/objects/countersign-session',
    `${objectId('countersign-session', name)}.sqlite`,
  )
  expect(existsSync(file)).toBe(false)

  unwrap(await answer(first, 'approve', { scope: 'session' }))
  expect(existsSync(file)).toBe(true)
  const params = { run: first.run }
  const second = unwrap(
    await agent.client('proposeCall', { params, body: { tool, args: { text: 'another' } } }),
  )
  expect(second.state).toBe('granted')
})

test('an approval of one call does not cover another call', async () => {
  const run = await approved({ scope: 'once' })
  expect(await standingIn(run)).toEqual([])
  expect((await propose(run)).state).toBe('awaiting_approval')
})

test('resetting a session revokes its standing approvals and no others', async () => {
  const [run, other] = [await approved(), await approved()]
  const reset = (by = agent.client, whose?: string) =>
    by('resetSession', {
      params: { session: run.session ?? '' },
      body: whose === undefined ? {} : { agent: whose },
    })
  const stranger = await fixtures.agent()
  expect(unwrap(await reset(stranger.client)).ended).toBe(0)
  expect(refusalOf(await reset(stranger.client, agent.name))).toBe('403 forbidden')
  expect((await propose(run)).state).toBe('granted')
  expect(unwrap(await reset()).ended).toBe(1)
  expect([(await propose(run)).state, (await propose(other)).state]).toEqual(['awaiting_approval', 'granted'])
  expect(await standingIn(run)).toEqual([])
  expect(unwrap(await reset(approver.client, agent.name)).ended).toBe(0)
})

test('a timeboxed approval ends on time, even for calls that it had allowed but that have not started', async () => {
  const run = await approved({ scope: 'timeboxed', ttl_s: 2 })
  const second = await propose(run)
  expect(second.state).toBe('granted')
  await eventually('nothing stands', async () => ((await standingIn(run)).length === 0 ? true : undefined))
  expect((await propose(run)).state).toBe('awaiting_approval')
  expect(refusalOf(await peer.claim(second.id))).toBe('409 not_claimable')
  expect(await read(second)).toMatchObject({ state: 'cancelled' })
})

test('a standing approval for one device and channel does not cover another', async () => {
  const run = { ...session(), channel: 'chat', device: 'phone' }
  await approved({ scope: 'session' }, run)
  expect((await propose(run)).state).toBe('granted')
  const others: RunSpec[] = [
    { ...run, channel: 'mail' },
    { ...run, device: 'laptop' },
    { ...session(), channel: 'chat', device: 'phone' },
    { session: run.session },
  ]
  for (const other of others)
    expect([other, (await propose(other)).state]).toEqual([other, 'awaiting_approval'])
  const stranger = await fixtures.agent()
  expect((await propose(run, { by: stranger.client })).state).toBe('awaiting_approval')
})

test('a standing approval of one program does not cover another program of the same tool', async () => {
  const of = await fixtures.tool({
    capabilities: ['process_exec'],
    input_schema: {
      type: 'object',
      properties: { command: { type: 'string' }, at: { type: 'string' } },
      required: ['command', 'at'],
    },
    executor: { argv: ['{command}', '{at}'] },
  })
  const run = session()
  unwrap(
    await answer(await propose(run, { of, args: { command: 'ls', at: '/' } }), 'approve', {
      scope: 'session',
    }),
  )
  expect((await propose(run, { of, args: { command: 'ls', at: '/tmp' } })).state).toBe('granted')
  for (const command of ['rm', '/tmp/ls', './ls', 'LS'])
    expect([command, (await propose(run, { of, args: { command, at: '/tmp' } })).state]).toEqual([
      command,
      'awaiting_approval',
    ])
})

test('D17 a standing approval of an interpreter covers only the same arguments; none is offered in a run’s folder', async () => {
  const contract = {
    capabilities: ['process_exec' as const],
    input_schema: {
      type: 'object',
      properties: { args: { type: 'array', items: { type: 'string' } } },
      required: ['args'],
    },
  }
  const of = await fixtures.tool({ ...contract, executor: { argv: ['sh', '{...args}'] } })
  const run = session()
  const first = await propose(run, { of, args: { args: ['-c', 'id'] } })
  const { prompt } = unwrap(await fixtures.root('readApproval', { params: { id: first.approval?.id ?? '' } }))
  expect(prompt.standing?.covers).toMatch(/with exactly these arguments/)
  expect(prompt.plan).toContain('"sh" is an interpreter: its arguments are a program')
  unwrap(await answer(first, 'approve', { scope: 'session' }))
  expect((await propose(run, { of, args: { args: ['-c', 'id'] } })).state).toBe('granted')
  for (const args of [['-c', 'id; id'], ['-c', 'cat ~/.ssh/id'], ['-c'], []])
    expect([args, (await propose(run, { of, args: { args } })).state]).toEqual([args, 'awaiting_approval'])

  const shared = await fixtures.tool({
    ...contract,
    executor: { argv: ['sh', '{...args}'] },
    workspace: 'run',
  })
  const script = await propose(session(), { of: shared, args: { args: ['build.sh'] } })
  const { options } = unwrap(
    await fixtures.root('readApproval', { params: { id: script.approval?.id ?? '' } }),
  )
  expect(options.map(({ scope }) => scope)).toEqual(['once', 'once'])
  expect(refusalOf(await answer(script, 'approve', { scope: 'session' }))).toBe('403 once_only')
})

test('D17 no standing answer is offered or accepted for a program that calls can write themselves', async () => {
  const of = await fixtures.tool({
    capabilities: ['process_exec'],
    executor: { argv: ['./build.sh'] },
    workspace: 'run',
  })
  const call = await propose(session(), { of })
  const { options, prompt } = unwrap(
    await fixtures.root('readApproval', { params: { id: call.approval?.id ?? '' } }),
  )
  expect([options.map(({ scope }) => scope), prompt.standing]).toEqual([['once', 'once'], undefined])
  const refused = await answer(call, 'approve', { scope: 'session' })
  expect(refused).toMatchObject({
    ok: false,
    error: {
      status: 403,
      code: 'once_only',
      detail: expect.stringContaining('outside of the system’s folders'),
      todo: expect.stringContaining('answer for this call only'),
    },
  })
  unwrap(await answer(call, 'approve', { scope: 'once' }))
})

test('L3 a standing approval does not cover another version of the tool or another policy set', async () => {
  const of = await fixtures.tool({ capabilities: ['network'] })
  const run = session()
  unwrap(await answer(await propose(run, { of }), 'approve', { scope: 'session' }))
  await fixtures.withPolicies(
    { other: '@id("other") permit (principal == Agent::"nobody", action, resource);' },
    async () => {
      expect((await propose(run, { of })).state).toBe('awaiting_approval')
      expect(await standingIn(run)).toMatchObject([{ live: false }])
    },
  )
  expect((await propose(run, { of })).state).toBe('granted')
  await fixtures.tool({ capabilities: ['network'], description: 'says something else' }, of)
  expect((await propose(run, { of })).state).toBe('awaiting_approval')
})

test('after a standing approval is revoked, calls that it had allowed are no longer handed out', async () => {
  const run = await approved()
  const [waiting, running] = [await propose(run), await propose(run)]
  const claim = unwrap(await peer.claim(running.id))
  const [standing] = await standingIn(run)
  const revoke = () => fixtures.root('revokeStanding', { params: { id: standing?.id ?? '' } })
  unwrap(await revoke())
  expect(refusalOf(await revoke())).toBe('404 not_found')
  expect(refusalOf(await peer.claim(waiting.id))).toBe('409 not_claimable')
  expect(await read(waiting)).toMatchObject({ state: 'cancelled', result: { error: { code: 'denied' } } })
  unwrap(await peer.settle(claim)) // a running call continues
  expect((await propose(run)).state).toBe('awaiting_approval')
})

test('with concurrent calls, claims and a revocation, no call is claimed after the revocation returned', async () => {
  for (let round = 0; round < 5; round++) {
    const run = await approved()
    const calls = await Promise.all(Array.from({ length: 12 }, () => propose(run)))
    const [standing] = await standingIn(run)
    let revokedAt = Number.POSITIVE_INFINITY
    const begun: number[] = []
    await Promise.all([
      ...calls.map(async (call) => {
        const claim = await peer.claim(call.id)
        if (claim.ok) begun.push(grantOf(claim.value.grant).issued_at_ms)
      }),
      fixtures.root('revokeStanding', { params: { id: standing?.id ?? '' } }).then((done) => {
        unwrap(done)
        revokedAt = Date.now()
      }),
    ])
    for (const at of begun) expect(at).toBeLessThanOrEqual(revokedAt)
    for (const call of calls) expect(['running', 'cancelled']).toContain((await read(call)).state)
    expect((await propose(run)).state).toBe('awaiting_approval')
  }
})

test('a standing denial denies the next call with its reason, even after a newer approval', async () => {
  const run = session()
  unwrap(await answer(await propose(run), 'deny', { scope: 'session', reason: 'not in this conversation' }))
  const second = await propose(run)
  expect(second).toMatchObject({
    state: 'rejected',
    result: { ok: false, error: { code: 'denied', detail: 'not in this conversation' } },
  })
  expect(second.attestation?.executor).toBe('edge')
  const [standing] = await standingIn(run)
  unwrap(await fixtures.root('revokeStanding', { params: { id: standing?.id ?? '' } }))
  expect((await propose(run)).state).toBe('awaiting_approval')
})

test('P09 an agent that resets its session does not end a standing denial', async () => {
  const run = session()
  unwrap(await answer(await propose(run), 'deny', { scope: 'session', reason: 'not in this conversation' }))
  const reset = async (by = agent.client, body = {}) =>
    unwrap(await by('resetSession', { params: { session: run.session ?? '' }, body })).ended
  expect([await reset(), (await propose(run)).state, (await standingIn(run)).length]).toEqual([
    0,
    'rejected',
    1,
  ])
  expect([await reset(approver.client, { agent: agent.name }), (await propose(run)).state]).toEqual([
    1,
    'awaiting_approval',
  ])
})

test('P09 a standing answer applies only while its operator may answer', async () => {
  const [one, other] = [await fixtures.operator(['approver']), await fixtures.operator(['approver'])]
  const [a, b] = [session(), session()]
  unwrap(await answer(await propose(a), 'approve', { scope: 'session' }, one.client))
  unwrap(await answer(await propose(b), 'approve', { scope: 'session' }, other.client))
  const before = await propose(a)
  expect(before.state).toBe('granted')
  unwrap(await fixtures.root('deleteOperator', { params: { name: one.name } }))
  unwrap(await fixtures.root('putOperator', { params: { name: other.name }, body: { roles: ['auditor'] } }))
  expect([(await propose(a)).state, (await propose(b)).state]).toEqual([
    'awaiting_approval',
    'awaiting_approval',
  ])
  expect(refusalOf(await peer.claim(before.id))).toBe('409 not_claimable')
})

test('a standing approval counts as one of a quorum, and only the other approver is asked', async () => {
  const of = await fixtures.tool({ capabilities: ['network'] })
  const rule = `@id("two") forbid (principal, action == Action::"tool.execute/${of}", resource) unless { context.approval.count >= 2 };`
  const second = await fixtures.operator(['approver'])
  await fixtures.withPolicies({ two: rule }, async () => {
    const run = session()
    const first = await propose(run, { of })
    expect(unwrap(await answer(first, 'approve', { scope: 'session' })).status).toBe('pending')
    expect(unwrap(await answer(first, 'approve', {}, second.client)).status).toBe('approved')
    const next = await propose(run, { of })
    expect(next.state).toBe('awaiting_approval')
    const card = unwrap(await second.client('readApproval', { params: { id: next.approval?.id ?? '' } }))
    expect(card.answers).toMatchObject([{ by: approver.name, standing: expect.stringMatching(/^std_/) }])
    const theirs = await fetch(await fixtures.link(approver.client, next.approval?.id ?? ''))
    expect(await theirs.text()).toContain('Approve once') // they may still answer this call otherwise
    expect(unwrap(await answer(next, 'approve', { scope: 'session' }, second.client)).status).toBe('approved')
    expect((await propose(run, { of })).state).toBe('granted')
  })
})

test('P09 where policy requires an independent approver, an owner’s standing approval is not enough', async () => {
  const of = await fixtures.tool({ capabilities: ['network'] })
  const owner = await fixtures.operator(['approver'])
  const owned = await fixtures.agent({ owners: [owner.name] })
  const rule = `@id("others") forbid (principal, action == Action::"tool.execute/${of}", resource) unless { context.approval.independent.count >= 1 };`
  await fixtures.withPolicies({ others: rule }, async () => {
    const run = session()
    const first = await propose(run, { by: owned.client, of })
    expect(unwrap(await answer(first, 'approve', { scope: 'session' }, owner.client)).status).toBe('pending')
    expect((await propose(run, { by: owned.client, of })).state).toBe('awaiting_approval')
    expect(unwrap(await answer(first, 'approve', { scope: 'session' })).status).toBe('approved')
    expect((await propose(run, { by: owned.client, of })).state).toBe('granted')
  })
})

test('where policy requires an approval for each call, a standing approval is neither offered nor recorded', async () => {
  const of = await fixtures.tool({ capabilities: ['secrets_read'] })
  const run = session()
  const call = await propose(run, { of })
  const card = unwrap(await approver.client('readApproval', { params: { id: call.approval?.id ?? '' } }))
  expect([card.prompt.risk, card.prompt.standing?.most_s]).toEqual(['critical', 0])
  for (const given of [{ scope: 'session' }, { scope: 'timeboxed', ttl_s: 1 }] as const)
    expect(refusalOf(await answer(call, 'approve', given))).toBe('403 once_only')
  expect((await read(call)).state).toBe('awaiting_approval')
  expect(unwrap(await answer(call, 'approve')).answers).toMatchObject([{ scope: 'once' }])
  expect((await propose(run, { of })).state).toBe('awaiting_approval')
  expect(await standingIn(run)).toEqual([])
})

test('policy limits how long a standing approval applies, and can require asking despite one', async () => {
  const of = await fixtures.tool({
    capabilities: ['network'],
    input_schema: { type: 'object', properties: { amount: { type: 'integer' } }, required: ['amount'] },
  })
  const [ten, large] = [fixtures.name(), fixtures.name()]
  const rules = {
    [ten]: `@id("${ten}") forbid (principal, action == Action::"tool.execute/${of}", resource) when { context.approval.standing_s > 600 };`,
    [large]: `@id("${large}") forbid (principal, action == Action::"tool.execute/${of}", resource) when { context.args.amount > 100 && context.approval.standing_s > 0 };`,
  }
  await fixtures.withPolicies(rules, async () => {
    const run = session()
    const call = await propose(run, { of, args: { amount: 1 } })
    const card = unwrap(await approver.client('readApproval', { params: { id: call.approval?.id ?? '' } }))
    expect(card.prompt.standing?.most_s).toBe(600)
    for (const given of [{ scope: 'session' }, { scope: 'timeboxed', ttl_s: 601 }] as const)
      expect(refusalOf(await answer(call, 'approve', given))).toBe('403 once_only')
    unwrap(await answer(call, 'approve', { scope: 'timeboxed', ttl_s: 600 }))
    expect((await propose(run, { of, args: { amount: 100 } })).state).toBe('granted')
    const more = await propose(run, { of, args: { amount: 101 } })
    expect(more.state).toBe('awaiting_approval')
    expect(unwrap(await answer(more, 'approve')).status).toBe('approved') // the same operator may approve this very call
  })
})

test('a late or second answer changes nothing and creates no standing approval', async () => {
  const of = await fixtures.tool({ capabilities: ['network'], approval_ttl_s: 1 })
  const run = session()
  const late = await propose(run, { of })
  await eventually('expired', async () => ((await read(late)).state === 'expired' ? true : undefined))
  expect(refusalOf(await answer(late, 'approve', { scope: 'session' }))).toBe('410 approval_expired')
  const denied = await propose(run)
  unwrap(await answer(denied, 'deny'))
  expect(refusalOf(await answer(denied, 'approve', { scope: 'session' }, fixtures.root))).toBe(
    '409 already_answered',
  )
  expect((await read(denied)).state).toBe('rejected')
  expect(await standingIn(run)).toEqual([])
})

test('P04 only one of thirty concurrent answers with different scopes counts, and only its standing answer exists', async () => {
  const run = session()
  const call = await propose(run)
  const givens: AnswerScope[] = [{ scope: 'once' }, { scope: 'session' }, { scope: 'timeboxed', ttl_s: 60 }]
  const others = await Promise.all([
    approver,
    await fixtures.operator(['approver']),
    await fixtures.operator(['admin']),
  ])
  const answers = await Promise.all(
    Array.from({ length: 30 }, (_, i) =>
      answer(call, i % 2 === 0 ? 'approve' : 'deny', givens[i % 3], others[i % 3]?.client),
    ),
  )
  const taken = answers.filter(({ ok }) => ok)
  expect(taken).toHaveLength(1)
  const [won] = taken.map(unwrap)
  const stands = await standingIn(run)
  expect(stands.map(({ scope, by, decision }) => [scope, by, decision])).toEqual(
    won?.answers
      .filter(({ scope }) => scope !== 'once')
      .map(({ scope, by, decision }) => [scope, by, decision]),
  )
  expect(answers.filter(({ ok }) => !ok).map(refusalOf)).toEqual(
    Array.from({ length: 29 }, () => '409 already_answered'),
  )
})

test('nothing that an agent sends can approve its own call', async () => {
  const run = session()
  const headers = {
    'x-approval': 'approved',
    'x-allow-sensitive-tools': 'true',
    'x-countersign-approval': 'std_00000000000000000000000000',
  }
  expect(
    unwrap(await agent.client('proposeCallInNewRun', { body: { tool, args: {}, run }, headers })).state,
  ).toBe('awaiting_approval')
  const more = { tool, args: {}, run: { ...run, allow_sensitive_tools: true } }
  expect(refusalOf(await agent.client('proposeCallInNewRun', { body: more }))).toBe('400 invalid_request')
  expect(refusalOf(await answer(await propose(run), 'approve', { scope: 'session' }, agent.client))).toBe(
    '403 forbidden',
  )
  expect(refusalOf(await agent.client('listStanding', {}))).toBe('403 forbidden')
  expect(await standingIn(run)).toEqual([])
})

test('a policy that denies overrides a standing approval', async () => {
  const of = await fixtures.tool({
    capabilities: ['network'],
    input_schema: { type: 'object', properties: { amount: { type: 'integer' } }, required: ['amount'] },
  })
  const name = fixtures.name()
  const rule = `@id("${name}") forbid (principal, action == Action::"tool.execute/${of}", resource) when { context.args.amount > 10 };`
  await fixtures.withPolicies({ [name]: rule }, async () => {
    const run = session()
    unwrap(await answer(await propose(run, { of, args: { amount: 1 } }), 'approve', { scope: 'session' }))
    expect((await propose(run, { of, args: { amount: 2 } })).state).toBe('granted')
    expect(await propose(run, { of, args: { amount: 11 } })).toMatchObject({
      state: 'denied',
      decision: { policies: [name] },
    })
  })
})

test.each([
  ['a time with the scope session', { scope: 'session', ttl_s: 60 }],
  ['timeboxed without a time', { scope: 'timeboxed' }],
  ['a time of zero seconds', { scope: 'timeboxed', ttl_s: 0 }],
  ['a time above the limit', { scope: 'timeboxed', ttl_s: 43_201 }],
  ['a scope that there is not', { scope: 'forever' as 'session' }],
] satisfies [string, AnswerScope][])('an invalid scope is refused: %s', async (_name, given) => {
  expect(refusalOf(await answer(await propose(session()), 'approve', given))).toBe('400 invalid_request')
})
