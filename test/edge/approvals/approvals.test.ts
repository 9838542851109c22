// An approval is one question with one outcome, whoever answers, cancels or comes late, and the
// inbox shows the outcome.

import { expect, test } from 'vitest'
import { answersOf } from '../../../edge/pages/approval-page.tsx'
import type { Approval } from '../../../shared/wire/approvals.ts'
import type { Call } from '../../../shared/wire/calls.ts'
import { eventually } from '../../support/eventually.ts'
import { refusalOf, unwrap } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'
import { newTenant } from '../../support/tenants.ts'
import { PeerWorker } from '../../support/worker/peer-worker.ts'

const fixtures = await newTenant(sharedStack(), 'approvals')
const agent = await fixtures.agent()
const sensitive = await fixtures.tool({ capabilities: ['network'] })
const urgent = await fixtures.tool({ capabilities: ['network'], approval_ttl_s: 1 })
const peer = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool)
const approver = await fixtures.operator(['approver'])
const SAID = {
  by: 'ann',
  decision: 'deny',
  channel: 'api',
  assurance: 'key',
  scope: 'once',
  at_ms: 0,
} as const

const read = async ({ run, id }: { run: string; id: string }): Promise<Call> =>
  unwrap(await agent.client('readCall', { params: { run, call: id } }))
const kindsOf = async ({ run }: { run: string }) =>
  unwrap(await agent.client('readJournal', { params: { run } })).items.map(({ kind }) => kind)
const answer = (id: string, decision: 'approve' | 'deny', by = approver, reason = '') =>
  by.client('answerApproval', { params: { id }, body: { decision, reason } })

test('an approved call runs once, and the inbox names the approver', async () => {
  const call = await fixtures.proposeForApproval(agent.client, sensitive)
  expect(unwrap(await answer(call.approval.id, 'approve', approver, 'looks right'))).toMatchObject({
    status: 'approved',
    digest: call.digest,
    call: call.id,
    answers: [
      {
        by: approver.name,
        decision: 'approve',
        channel: 'api',
        assurance: 'key',
        scope: 'once',
        reason: 'looks right',
      },
    ],
  })
  expect(await read(call)).toMatchObject({ state: 'granted', approval: { status: 'approved' } })
  await peer.run(call.id)
  expect(await read(call)).toMatchObject({ state: 'succeeded', approval: { status: 'approved' } })
  expect(await kindsOf(call)).toEqual(['approval_requested', 'approved', 'claimed', 'succeeded'])
})

test('V02 G09 a reason is stored without secrets and invisible characters; inbox, journal and agent get it in that form', async () => {
  const call = await fixtures.proposeForApproval(agent.client, sensitive)
  const token = `ghp_${'a'.repeat(36)}`
  const { answers } = unwrap(
    await answer(call.approval.id, 'deny', approver, `use ${token}\u202e, not \u200bthat\nplease`),
  )
  const kept = expect.stringMatching(
    /^use «redacted, mark [0-9a-f]{16}»\\u\{202e\}, not \\u\{200b\}that\nplease$/,
  )
  expect(answers).toMatchObject([{ reason: kept }])
  const told = await read(call)
  expect(told).toMatchObject({ state: 'rejected', result: { error: { detail: kept } } })
  const journal = JSON.stringify(unwrap(await agent.client('readJournal', { params: { run: call.run } })))
  for (const text of [JSON.stringify([answers, told]), journal])
    for (const raw of [token, '\u202e', '\u200b']) expect(text).not.toContain(raw)
})

test('pages escape the invisible characters of reasons stored by older versions', () => {
  const shown = answersOf({ answers: [{ ...SAID, reason: 'a \u202e b' }] } as Approval) // only `answers` is rendered
  expect(shown).toContain('a \\u{202e} b')
  expect(shown).not.toContain('\u202e')
})

test('an approval with too few answers ends cancelled or expired; until then its card says that one yes is not enough', async () => {
  const name = await fixtures.tool({
    input_schema: { type: 'object', properties: { sum: { type: 'integer' } }, required: ['sum'] },
    approval_ttl_s: 3,
  })
  const rule = `@id("two-above-ten") forbid (principal, action == Action::"tool.execute/${name}", resource) when { context.args.sum > 10 } unless { context.approval.count >= 2 };`
  await fixtures.withPolicies({ 'two-above-ten': rule }, async () => {
    const [stopped, late] = [
      await fixtures.proposeForApproval(agent.client, name, { sum: 11 }),
      await fixtures.proposeForApproval(agent.client, name, { sum: 12 }),
    ]
    for (const call of [stopped, late]) {
      const pending = unwrap(await answer(call.approval.id, 'approve'))
      expect(pending).toMatchObject({ status: 'pending' })
      expect(pending.prompt.on_yes).toMatch(
        /^policy requires approval\.count ≥ 2.*any other approval does not let it run$/,
      )
    }
    const cancelled = unwrap(
      await agent.client('cancelCall', { params: { run: stopped.run, call: stopped.id } }),
    )
    expect(cancelled).toMatchObject({ state: 'cancelled', approval: { status: 'cancelled' } })
    const expired = await eventually('it expires', async () => {
      const call = await read(late)
      return call.state === 'expired' && call
    })
    expect(expired).toMatchObject({
      approval: { status: 'expired' },
      result: { error: { detail: 'not enough people answered in time' } },
    })
  })
})

test('an approval lists its possible answers, deny first, and nobody answering counts as a denial', async () => {
  const record = async (tool: string) => {
    const { approval } = await fixtures.proposeForApproval(agent.client, tool)
    return unwrap(await approver.client('readApproval', { params: { id: approval.id } }))
  }
  const { subject, options, expires_at, requested_at } = await record(sensitive)
  expect([subject, expires_at - requested_at]).toEqual([`tool:${sensitive}`, 900_000])
  expect(options).toEqual([
    { decision: 'deny', scope: 'once', default: true },
    { decision: 'approve', scope: 'once' },
    { decision: 'deny', scope: 'session' },
    { decision: 'approve', scope: 'timeboxed', ttl_s: 3_600 },
    { decision: 'approve', scope: 'timeboxed', ttl_s: 600 },
    { decision: 'approve', scope: 'session' },
  ])
  // If policy requires an approval for each call, no standing approval is offered.
  const each = await record(await fixtures.tool({ capabilities: ['secrets_read'] }))
  expect(each.options.filter(({ decision }) => decision === 'approve')).toEqual([
    { decision: 'approve', scope: 'once' },
  ])
})

test('a denied call is rejected with the reason and does not run', async () => {
  const call = await fixtures.proposeForApproval(agent.client, sensitive)
  unwrap(await answer(call.approval.id, 'deny', approver, 'not today'))
  expect(await read(call)).toMatchObject({
    state: 'rejected',
    approval: { status: 'denied' },
    result: { error: { code: 'denied', detail: 'not today' } },
  })
  expect(refusalOf(await peer.claim(call.id))).toMatch(/^409/)
})

test('a call does not run while its approval is pending', async () => {
  const call = await fixtures.proposeForApproval(agent.client, sensitive)
  expect(refusalOf(await peer.claim(call.id))).toBe('409 not_claimable')
})

test('the inbox lists pending and ended approvals, newest first; pending ones with the reader’s personal link', async () => {
  const calls = [
    await fixtures.proposeForApproval(agent.client, sensitive),
    await fixtures.proposeForApproval(agent.client, sensitive),
    await fixtures.proposeForApproval(agent.client, sensitive),
  ]
  const ids = calls.map(({ approval }) => approval.id)
  const listed = (status: 'pending' | 'ended' | 'all', by = approver) =>
    by
      .client('listApprovals', { query: { status } })
      .then((list) => unwrap(list).items.filter(({ id }) => ids.includes(id)))
  await eventually('all three are listed', async () => (await listed('pending')).length === 3)
  expect((await listed('pending')).map(({ id }) => id)).toEqual(ids.toReversed())
  const [mine, theirs] = [
    await listed('pending'),
    await listed('pending', await fixtures.operator(['approver'])),
  ]
  for (const [i, { url }] of mine.entries())
    expect([typeof url, url === theirs[i]?.url]).toEqual(['string', false])
  unwrap(await answer(ids[0] ?? '', 'deny'))
  await eventually('one has ended', async () => (await listed('ended')).length === 1)
  expect((await listed('ended'))[0]).toMatchObject({ id: ids[0], status: 'denied' })
  expect((await listed('ended'))[0]).not.toHaveProperty('url')
  expect([(await listed('pending')).length, (await listed('all')).length]).toEqual([2, 3])
})

test('the list of approvals and the single approval have equal contents', async () => {
  const call = await fixtures.proposeForApproval(agent.client, sensitive, { text: 'hello' })
  const item = await eventually('it is listed', async () =>
    unwrap(await approver.client('listApprovals', { query: {} })).items.find(
      ({ id }) => id === call.approval.id,
    ),
  )
  expect(unwrap(await approver.client('readApproval', { params: { id: call.approval.id } }))).toEqual(item)
  expect(item.prompt).toMatchObject({ agent: agent.name, tool: sensitive, tool_version: 1, risk: 'medium' })
  expect(item.prompt.policies).toContain('sensitive-needs-approval')
})

test('policy can require two approvers, and one operator does not count twice', async () => {
  const tool = await fixtures.tool({ capabilities: ['network'] })
  const two = `@id("${fixtures.name()}") forbid (principal, action == Action::"tool.execute/${tool}", resource) when { context.approval.count < 2 };`
  await fixtures.withPolicies({ two }, async () => {
    const second = await fixtures.operator(['approver'])
    const call = await fixtures.proposeForApproval(agent.client, tool)
    expect(unwrap(await answer(call.approval.id, 'approve')).status).toBe('pending')
    expect(refusalOf(await answer(call.approval.id, 'approve'))).toBe('409 already_answered')
    expect(refusalOf(await peer.claim(call.id))).toBe('409 not_claimable')
    expect((await read(call)).state).toBe('awaiting_approval')
    expect(unwrap(await answer(call.approval.id, 'approve', second)).status).toBe('approved')
    expect((await peer.claim(call.id)).ok).toBe(true)
  })
})

test('policy can require a role, and the approval of another role is not enough', async () => {
  const tool = await fixtures.tool({ capabilities: ['network'] })
  const role = `@id("${fixtures.name()}") forbid (principal, action == Action::"tool.execute/${tool}", resource) unless { context.approval.roles.contains("security") };`
  await fixtures.withPolicies({ role }, async () => {
    const security = await fixtures.operator(['approver', 'security'])
    const call = await fixtures.proposeForApproval(agent.client, tool)
    expect(unwrap(await answer(call.approval.id, 'approve')).status).toBe('pending')
    expect(unwrap(await answer(call.approval.id, 'approve', security)).status).toBe('approved')
  })
})

test('P09 the approval of an operator who was removed does not count when the call is claimed', async () => {
  const tool = await fixtures.tool({ capabilities: ['network'] })
  const two = `@id("${fixtures.name()}") forbid (principal, action == Action::"tool.execute/${tool}", resource) unless { context.approval.roles.contains("security") };`
  await fixtures.withPolicies({ two }, async () => {
    const security = await fixtures.operator(['approver', 'security'])
    const call = await fixtures.proposeForApproval(agent.client, tool)
    unwrap(await answer(call.approval.id, 'approve', security))
    unwrap(await fixtures.root('deleteOperator', { params: { name: security.name } }))
    expect(refusalOf(await peer.claim(call.id))).toBe('409 not_claimable')
  })
})

test('P11 if approval, denial, cancellation and expiry coincide, exactly one wins, and all records agree', {
  timeout: 60_000,
}, async () => {
  const others = [approver, await fixtures.operator(['approver']), await fixtures.operator(['approver'])]
  const seen = new Set<string>()
  for (let round = 0; round < 4; round++) {
    const calls = await Promise.all(
      Array.from({ length: 20 }, () => fixtures.proposeForApproval(agent.client, urgent)),
    )
    const last = Math.max(...calls.map(({ approval }) => approval.expires_at))
    // Three rounds race each other; in the last one the expiry takes part too.
    if (round === 3) await eventually('the expiry is near', () => Date.now() >= last - 15)
    await Promise.all(
      calls.map(async (call, i) => {
        const racers = [
          () => answer(call.approval.id, i % 3 === 0 ? 'deny' : 'approve', others[i % 3]),
          () => answer(call.approval.id, i % 2 === 0 ? 'approve' : 'deny', others[(i + 1) % 3]),
          async () => agent.client('cancelCall', { params: { run: call.run, call: call.id } }),
        ]
        const [first = racers[0], ...rest] = [...racers.slice(i % 3), ...racers.slice(0, i % 3)]
        const running = first?.()
        // In every fourth race the first request arrives before the others start, so that the
        // fastest verb does not always win.
        if (i % 4 === 0) await running
        await Promise.all([running, ...rest.map((race) => race())])
      }),
    )
    for (const call of calls) {
      const ended = await eventually('it has ended', async () => {
        const now = await read(call)
        return now.ended_at_ms === undefined ? undefined : now
      })
      const kinds = await kindsOf(call)
      const approval = unwrap(await approver.client('readApproval', { params: { id: call.approval.id } }))
      const told = `${kinds.join(' ')} → ${ended.state}, ${approval.status}`
      seen.add(told)
      expect([
        'approval_requested approved cancelled → cancelled, approved',
        'approval_requested rejected → rejected, denied',
        'approval_requested cancelled → cancelled, cancelled',
        'approval_requested expired → expired, expired',
      ]).toContain(told)
      expect(ended.attestation?.executor).toBe('edge')
      expect(refusalOf(await answer(call.approval.id, 'approve'))).toMatch(
        /^4(09 already_answered|10 approval_(expired|cancelled))$/,
      )
    }
  }
  expect(seen.size).toBeGreaterThan(1)
})

test('G01 arguments with members that are named like methods of objects are asked about like any others', async () => {
  const tool = await fixtures.tool({ sensitive: true, input_schema: { type: 'object' } })
  const names = ['toString', 'valueOf', 'toJSON', 'then', 'constructor', 'hasOwnProperty']
  const odd = Object.fromEntries(names.map((name) => [name, 5]))
  const { approval } = await fixtures.proposeForApproval(agent.client, tool, {
    list: ['a', odd, 'b'],
    ...odd,
  })
  const inbox = unwrap(await approver.client('listApprovals', { query: { status: 'pending' } })).items
  expect(inbox.map(({ id }) => id)).toContain(approval.id)
  const page = await fetch(await fixtures.link(approver.client, approval.id))
  expect([page.status, (await page.text()).includes('hasOwnProperty')]).toEqual([200, true])
  unwrap(await answer(approval.id, 'deny'))
})

test('P12 forty approvals of one agent in forty runs are answered separately', async () => {
  const flood = await fixtures.agent()
  const calls = await Promise.all(
    Array.from({ length: 40 }, () => fixtures.proposeForApproval(flood.client, sensitive)),
  )
  const [first, ...rest] = calls
  unwrap(await answer(first?.approval.id ?? '', 'approve'))
  for (const call of rest)
    expect(unwrap(await flood.client('readCall', { params: { run: call.run, call: call.id } })).state).toBe(
      'awaiting_approval',
    )
  await Promise.all(rest.map((call) => answer(call.approval.id, 'deny')))
})

test.each([
  ['an unknown decision', { decision: 'maybe' }],
  ['no decision', {}],
  ['a scope that there is not', { decision: 'approve', scope: 'forever' }],
  ['an approver named in the body', { decision: 'approve', by: 'root' }],
  ['a reason beyond the limit', { decision: 'approve', reason: 'x'.repeat(1_001) }],
])('an invalid answer is refused: %s', async (_name, body) => {
  const call = await fixtures.proposeForApproval(agent.client, sensitive)
  const answered = await approver.client('answerApproval', {
    params: { id: call.approval.id },
    body: body as { decision: 'approve' },
  }) // invalid on purpose
  expect(refusalOf(answered)).toBe('400 invalid_request')
  expect((await read(call)).state).toBe('awaiting_approval')
})
