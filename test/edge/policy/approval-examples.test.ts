// Promise: answers count only for the exact question that was asked, silence never approves, and an
// approval can't override policy.

import { expect, test } from 'vitest'
import type { Call } from '../../../shared/wire/calls.ts'
import { eventually } from '../../support/eventually.ts'
import { Fixtures, refusalOf, unwrap } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'
import { PeerWorker } from '../../support/worker/peer-worker.ts'

const fixtures = new Fixtures('seeds-approvals', sharedStack())
const agent = await fixtures.agent()
const peer = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool)
const harmless = await fixtures.tool()
const sensitive = await fixtures.tool({ capabilities: ['network'], input_schema: { type: 'object' } })
const answer = (id: string, body: Record<string, unknown> = {}) =>
  fixtures.root('answerApproval', { params: { id }, body: { decision: 'approve', ...body } })
const read = async ({ run, id }: Call) =>
  unwrap(await agent.client('readCall', { params: { run, call: id } }))
const asksOf = async (name: string) =>
  unwrap(await fixtures.root('listApprovals', { query: { status: 'all' } })).items.filter(
    ({ prompt }) => prompt.agent === name,
  )

test('calls of a run are listed in the order of their proposal, each with its own result, whatever order they end in', async () => {
  const run = unwrap(await agent.client('createRun', { body: {} })).id
  const calls: Call[] = []
  for (let i = 0; i < 4; i++)
    calls.push(
      unwrap(
        await agent.client('proposeCall', {
          params: { run },
          body: { tool: harmless, args: { text: `${i}` } },
        }),
      ),
    )
  const waiting = calls.map(({ id }) => agent.client('readCall', { params: { run, call: id }, wait: 20 }))
  for (const [i, { id }] of [...calls.entries()].reverse()) await peer.run(id, { stdout: `result ${i}` })
  const told = (await Promise.all(waiting)).map((one) => unwrap(one))
  expect(told.map(({ id, result }) => [id, result?.output])).toEqual(
    calls.map(({ id }, i) => [id, `result ${i}`]),
  )
  const { items } = unwrap(await agent.client('readJournal', { params: { run } }))
  expect(items.map(({ seq }) => seq)).toEqual(items.map((_, i) => i + 1))
  expect(items.filter(({ kind }) => kind === 'allowed').map(({ call }) => call)).toEqual(
    calls.map(({ id }) => id),
  )
})

test('an answer to another approval, to another digest or to none has no effect', async () => {
  const [one, two] = [
    await fixtures.proposeForApproval(agent.client, sensitive),
    await fixtures.proposeForApproval(agent.client, sensitive, { other: true }),
  ]
  expect(refusalOf(await answer(one.approval.id, { digest: two.digest }))).toBe('409 outdated')
  expect(refusalOf(await answer(`${one.approval.id}7`))).toBe('404 not_found')
  expect(refusalOf(await answer('apr_00000000000000000000000000_1'))).toBe('404 not_found')
  expect(refusalOf(await answer(''))).toMatch(/^40[45] /)
  expect([(await read(one)).state, (await read(two)).state]).toEqual([
    'awaiting_approval',
    'awaiting_approval',
  ])
  unwrap(await answer(two.approval.id, { digest: two.digest }))
  expect([(await read(one)).state, (await read(two)).state]).toEqual(['awaiting_approval', 'granted'])
})

test('a waiting proposal can’t be replaced by the same idempotency key, from another run or session, or by another tool', async () => {
  const name = await fixtures.tool({ capabilities: ['network'], input_schema: { type: 'object' } })
  const headers = { 'idempotency-key': fixtures.name() }
  const propose = (args: Record<string, unknown>, session = 'here') =>
    agent.client('proposeCallInNewRun', { body: { tool: name, args, run: { session } }, headers })
  const call = unwrap(await propose({ to: 'a' }))
  const id = call.approval?.id ?? ''
  const { digest, prompt } = unwrap(await fixtures.root('readApproval', { params: { id } }))
  expect(refusalOf(await propose({ to: 'b' }))).toBe('409 idempotency_key_reused')
  expect(refusalOf(await propose({ to: 'a' }, 'elsewhere'))).toBe('409 idempotency_key_reused')
  expect(unwrap(await fixtures.root('readApproval', { params: { id } }))).toMatchObject({
    digest,
    prompt,
    status: 'pending',
  })
  await fixtures.tool(
    { capabilities: ['network'], input_schema: { type: 'object' }, description: 'something else' },
    name,
  )
  expect(unwrap(await answer(id)).status).toBe('denied')
  expect(await read(call)).toMatchObject({ state: 'denied', result: { error: { code: 'denied' } } })
})

test('a call whose agent disconnects goes on waiting, and is denied when its approval expires', async () => {
  const urgent = await fixtures.tool({ capabilities: ['network'], approval_ttl_s: 8 })
  const run = unwrap(await agent.client('createRun', { body: {} })).id
  const disconnect = new AbortController()
  const waiting = agent.client('proposeCall', {
    params: { run },
    body: { tool: urgent, args: {} },
    wait: 20,
    signal: disconnect.signal,
  })
  const [asked] = await eventually('it asks', async () => {
    const found = (await asksOf(agent.name)).filter(({ prompt }) => prompt.tool === urgent)
    return found.length === 1 && found
  })
  disconnect.abort()
  await expect(waiting).rejects.toThrow()
  const id = asked?.call ?? ''
  expect(unwrap(await agent.client('readCall', { params: { run, call: id } })).state).toBe(
    'awaiting_approval',
  )
  expect(refusalOf(await peer.claim(id))).toBe('409 not_claimable')
  const ended = await eventually(
    'it is over',
    async () => {
      const call = unwrap(await agent.client('readCall', { params: { run, call: id } }))
      return call.ended_at_ms !== undefined && call
    },
    40_000,
  )
  expect(ended).toMatchObject({
    state: 'expired',
    attestation: { executor: 'edge' },
    result: { error: { code: 'approval_expired' } },
  })
})

test('a call that can’t be allowed asks nobody: neither for an unknown tool, nor for one that policy forbids in any case', async () => {
  const quiet = await fixtures.agent()
  const rule = `@id("quarantined") forbid (principal, action == Action::"tool.execute/${sensitive}", resource);`
  await fixtures.withPolicies({ quarantined: rule }, async () => {
    const denied = unwrap(await quiet.client('proposeCallInNewRun', { body: { tool: sensitive, args: {} } }))
    expect([denied.state, denied.approval, denied.decision.policies]).toEqual([
      'denied',
      undefined,
      ['quarantined'],
    ])
  })
  expect(
    refusalOf(
      await quiet.client('proposeCallInNewRun', { body: { tool: 'seeds-approvals-unknown', args: {} } }),
    ),
  ).toBe('404 not_found')
  // Checked after both calls, so that a question of theirs would be visible.
  const { approval } = await fixtures.proposeForApproval(quiet.client, sensitive)
  await eventually('its question is listed', async () =>
    (await asksOf(quiet.name)).some(({ id }) => id === approval.id),
  )
  expect((await asksOf(quiet.name)).map(({ id }) => id)).toEqual([approval.id])
})

test('secrets in a question are masked in storage and on every surface', async () => {
  const secrets = ['hunter2-hunter2', 'ghp_0123456789abcdefghijABCDEFGHIJ', 'correct-horse-battery']
  const [password, token, query] = secrets
  const call = await fixtures.proposeForApproval(agent.client, sensitive, {
    password,
    note: `use ${token}`,
    url: `https://example.com/?api_key=${query}`,
  })
  const { id } = call.approval
  await eventually('it is listed', async () => (await asksOf(agent.name)).some((one) => one.id === id))
  const link = await fixtures.link(fixtures.root, id)
  const told = JSON.stringify([
    await asksOf(agent.name),
    unwrap(await fixtures.root('readApproval', { params: { id } })),
    unwrap(await fixtures.root('readArguments', { params: { id } })),
    unwrap(await agent.client('readJournal', { params: { run: call.run } })),
    await (await fetch(link)).text(),
  ])
  expect(secrets.filter((secret) => told.includes(secret))).toEqual([])
  expect(told).toContain('«redacted')
})

test('an approval can’t override what policy forbids, whoever gives it', async () => {
  const rules = {
    history: `@id("history") forbid (principal, action == Action::"tool.execute/process_run", resource)
      when { context.args.command == "git" && context.args has args && context.args.args.containsAny(["--cached", "--hard"]) };`,
    ignore: `@id("ignore") forbid (principal, action == Action::"tool.execute/file_write", resource)
      when { context.args.path == ".gitignore" || context.args.path like "*/.gitignore" };`,
  }
  const propose = async (tool: string, args: Record<string, unknown>) =>
    unwrap(await agent.client('proposeCallInNewRun', { body: { tool, args } }))
  await fixtures.withPolicies(rules, async () => {
    for (const [tool, args] of [
      ['process_run', { command: 'git', args: ['rm', '--cached', 'src'] }],
      ['process_run', { command: 'git', args: ['reset', '--hard'] }],
      ['file_write', { path: '.gitignore', text: 'src/' }],
      ['file_write', { path: 'deep/.gitignore', text: '*' }],
    ] as const)
      expect([args, (await propose(tool, args)).state]).toEqual([args, 'denied'])
    const asked = await propose('process_run', { command: 'git', args: ['status'] })
    expect(asked.state).toBe('awaiting_approval')
    // Nor can an approval with other arguments.
    const hard = { command: 'git', args: ['reset', '--hard'] }
    expect(refusalOf(await answer(asked.approval?.id ?? '', { arguments: hard }))).toBe('403 denied')
    expect((await read(asked)).state).toBe('awaiting_approval')
  })
})
