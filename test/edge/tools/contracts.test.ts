// A tool is a contract with a version and a digest: an equal contract keeps its version, any change
// makes a new one, and a call proposed under the old one does not run under the new one (P08, G08).

import { expect, test } from 'vitest'
import { digestOf } from '../../../shared/bytes/json.ts'
import { Fixtures, refusalOf, toolSpec, unwrap } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'
import { PeerWorker } from '../../support/worker/peer-worker.ts'
import { processPlan } from '../../support/worker/process-plan.ts'

const fixtures = new Fixtures('tools', sharedStack())
const agent = await fixtures.agent()
const peer = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool)

const put = async (name: string, change: Parameters<typeof toolSpec>[0] = {}) =>
  unwrap(await fixtures.root('putTool', { params: { name }, body: toolSpec(change) }))
const approve = (id: string) =>
  fixtures.root('answerApproval', { params: { id }, body: { decision: 'approve' } })
const stateOf = async ({ run, id }: { run: string; id: string }) =>
  unwrap(await agent.client('readCall', { params: { run, call: id } })).state

test('registering an equal contract keeps the version of a tool, and any change makes a new one', async () => {
  const name = fixtures.name()
  const first = await put(name)
  expect(first).toMatchObject({ name, version: 1 })
  expect(await put(name)).toEqual(first)
  const digests = [first.digest]
  for (const change of [
    { description: 'another' },
    { sensitive: true },
    { idempotent: true },
    { capabilities: ['network' as const] },
    { executor: { argv: ['false'] } },
    { executor: { env: { A: 'b' } } },
    { limits: { pids: 5 } },
    { egress: { mode: 'strict' as const, hosts: ['example.com'] } },
    { input_schema: { type: 'object', maxProperties: 3 } },
  ]) {
    const next = await put(name, change)
    expect(next.version).toBe(digests.length + 1)
    expect(digests).not.toContain(next.digest)
    digests.push(next.digest)
  }
  const back = await put(name)
  expect(back.version).toBe(digests.length + 1)
})

test('another order of members in a contract makes no new version', async () => {
  const name = fixtures.name()
  const spec = toolSpec()
  const reversed = Object.fromEntries(Object.entries(spec).reverse()) as typeof spec // the same members in another order
  unwrap(await fixtures.root('putTool', { params: { name }, body: spec }))
  expect(unwrap(await fixtures.root('putTool', { params: { name }, body: reversed })).version).toBe(1)
})

test('concurrent changes of a tool never give two versions the same number', async () => {
  const name = fixtures.name()
  const puts = await Promise.all(
    Array.from({ length: 10 }, (_, i) => put(name, { description: `number ${i}` })),
  )
  expect(puts.map(({ version }) => version).sort((a, b) => a - b)).toEqual(
    Array.from({ length: 10 }, (_, i) => i + 1),
  )
  expect(new Set(puts.map(({ digest }) => digest)).size).toBe(10)
})

test('P08 G08 an approval asked for under one version does not run under the next', async () => {
  const name = await fixtures.tool({ capabilities: ['network'], executor: { argv: ['echo', 'as approved'] } })
  const call = await fixtures.proposeForApproval(agent.client, name)
  await put(name, { capabilities: ['network'], executor: { argv: ['echo', 'something else'] } })
  expect(unwrap(await approve(call.approval.id)).status).toBe('denied')
  expect(await stateOf(call)).toBe('denied')
  const read = unwrap(await agent.client('readCall', { params: { run: call.run, call: call.id } }))
  expect([read.decision.reason, processPlan(read.plan).executor.argv]).toEqual([
    'the tool has changed since the call was proposed',
    ['echo', 'as approved'],
  ])
})

test('P08 an approval asked for a tool that was withdrawn is refused', async () => {
  const name = await fixtures.tool({ capabilities: ['network'] })
  const call = await fixtures.proposeForApproval(agent.client, name)
  unwrap(await fixtures.root('deleteTool', { params: { name } }))
  expect(unwrap(await approve(call.approval.id)).status).toBe('denied')
})

test('P08 G08 a tool that changed after the approval and before the claim is not handed out', async () => {
  const name = await fixtures.tool({ capabilities: ['network'] })
  const call = await fixtures.proposeForApproval(agent.client, name)
  unwrap(await approve(call.approval.id))
  await put(name, { capabilities: ['network'], description: 'poisoned' })
  expect(refusalOf(await peer.claim(call.id))).toBe('409 not_claimable')
  expect(await stateOf(call)).toBe('cancelled')
})

test('P08 a policy that has changed to deny refuses the approval and also the approved call', async () => {
  const name = await fixtures.tool({ capabilities: ['network'] })
  const [asked, approved] = [
    await fixtures.proposeForApproval(agent.client, name),
    await fixtures.proposeForApproval(agent.client, name),
  ]
  unwrap(await approve(approved.approval.id))
  const denying = `@id("${fixtures.name()}") forbid (principal, action == Action::"tool.execute/${name}", resource);`
  await fixtures.withPolicies({ denying }, async () => {
    expect(unwrap(await approve(asked.approval.id)).status).toBe('denied')
    expect(refusalOf(await peer.claim(approved.id))).toBe('409 not_claimable')
  })
  expect([await stateOf(asked), await stateOf(approved)]).toEqual(['denied', 'cancelled'])
})

test('P08 no pending call runs for an agent that was revoked or may no longer call the tool', async () => {
  const name = await fixtures.tool({ capabilities: ['network'] })
  const [gone, narrowed] = [await fixtures.agent(), await fixtures.agent()]
  const [first, second] = [
    await fixtures.proposeForApproval(gone.client, name),
    await fixtures.proposeForApproval(narrowed.client, name),
  ]
  unwrap(await fixtures.root('deleteAgent', { params: { name: gone.name } }))
  unwrap(
    await fixtures.root('putAgent', {
      params: { name: narrowed.name },
      body: { tools: [], pool: fixtures.pool },
    }),
  )
  for (const { approval } of [first, second]) expect(unwrap(await approve(approval.id)).status).toBe('denied')
})

test('P08 other arguments make another call that needs its own approval', async () => {
  const name = await fixtures.tool({ capabilities: ['network'], executor: { argv: ['echo', '{text}'] } })
  const [one, two] = [
    await fixtures.proposeForApproval(agent.client, name, { text: 'a' }),
    await fixtures.proposeForApproval(agent.client, name, { text: 'b' }),
  ]
  expect(one.digest).not.toBe(two.digest)
  unwrap(await approve(one.approval.id))
  expect([await stateOf(one), await stateOf(two)]).toEqual(['granted', 'awaiting_approval'])
  const claim = unwrap(await peer.claim(one.id))
  expect([claim.plan.executor.argv, claim.args, claim.facts_digest]).toEqual([
    ['echo', 'a'],
    { text: 'a' },
    one.digest,
  ])
  expect(refusalOf(await peer.claim(two.id))).toBe('409 not_claimable')
})

test('the digest of a call covers tenant, run, call, tool, arguments and plan', async () => {
  const name = fixtures.name()
  const tool = await put(name)
  const args = { text: 'a', n: [1, { b: null }] }
  const call = unwrap(await agent.client('proposeCallInNewRun', { body: { tool: name, args } }))
  const seen = {
    tenant: 'default',
    run: call.run,
    call: call.id,
    tool: { name, version: tool.version, digest: tool.digest },
    arguments: args,
    plan: call.plan,
  }
  expect(digestOf(seen)).toBe(call.digest)
})

test('a withdrawn tool is unknown to agents, and continues its version numbers if it is registered again', async () => {
  const name = fixtures.name()
  await put(name)
  unwrap(await fixtures.root('deleteTool', { params: { name } }))
  expect(refusalOf(await fixtures.root('deleteTool', { params: { name } }))).toBe('404 not_found')
  expect(refusalOf(await fixtures.root('readTool', { params: { name } }))).toBe('404 not_found')
  expect(refusalOf(await agent.client('proposeCallInNewRun', { body: { tool: name, args: {} } }))).toBe(
    '404 not_found',
  )
  expect(refusalOf(await agent.client('decide', { body: { tool: name, args: {} } }))).toBe('404 not_found')
  expect((await put(name)).version).toBe(2)
})

test('G07 a name with the prefix of Countersign’s own tools is not registered', async () => {
  const put = (name: string) => fixtures.root('putTool', { params: { name }, body: toolSpec() })
  expect(await put('countersign_result')).toMatchObject({
    error: { code: 'conflict', detail: expect.stringContaining('`countersign_result` is reserved') },
  })
  unwrap(await put('countersign'))
})

test('the refusal of an unknown tool says where to list the known ones', async () => {
  const answer = await agent.client('proposeCallInNewRun', { body: { tool: 'no_such_tool', args: {} } })
  expect(answer).toMatchObject({
    ok: false,
    error: { code: 'not_found', todo: expect.stringContaining('/v1/tools') },
  })
})

test.each([
  [
    'G06 a pattern',
    { input_schema: { type: 'object', properties: { a: { pattern: '(a+)+' } } } },
    'invalid_schema',
  ],
  [
    'G06 a schema that calls itself',
    { input_schema: { type: 'object', $ref: '#/$defs/a', $defs: { a: { $ref: '#/$defs/a' } } } },
    'invalid_schema',
  ],
  [
    'a keyword that MCP clients would copy into a header',
    {
      input_schema: {
        type: 'object',
        properties: { a: { items: { type: 'string', 'x-mcp-header': 'Authorization' } } },
      },
    },
    'invalid_schema',
  ],
  ['an invalid schema', { input_schema: { type: 'object', required: 5 } }, 'invalid_schema'],
  [
    'G06 a pattern in the output schema',
    { output_schema: { type: 'object', properties: { a: { pattern: '(a+)+' } } } },
    'invalid_schema',
  ],
  ['no argv', { executor: { argv: [] } }, 'invalid_request'],
  ['S47 NUL in the command line', { executor: { argv: ['a\0b'] } }, 'json_bad_text'],
  ['an environment variable in small letters', { executor: { env: { path: '/tmp' } } }, 'invalid_request'],
  ['a limit above the maximum', { limits: { timeout_ms: 1e12 } }, 'invalid_request'],
  [
    'a host with a scheme',
    { egress: { mode: 'strict' as const, hosts: ['https://example.com'] } },
    'invalid_request',
  ],
  ['a host pattern for everything', { egress: { mode: 'strict' as const, hosts: ['*'] } }, 'invalid_request'],
  ['an unknown tier', { executor: { tiers: ['A' as 'B'] } }, 'invalid_request'],
])('G06 S47 an invalid contract is not registered: %s', async (_name, change, code) => {
  const answer = await fixtures.root('putTool', { params: { name: fixtures.name() }, body: toolSpec(change) })
  expect(answer).toMatchObject({ ok: false, error: { code } })
})

test('G07 a tool’s name with anything but plain characters is refused', async () => {
  for (const name of [
    'Text',
    'a b',
    '1a',
    'a/b',
    'a%2fb',
    'ѕtats',
    'a\u200b',
    '',
    'a.b',
    'x'.repeat(51),
    '-a',
    '.a',
    'a\n',
  ]) {
    const answer = await fetch(new URL(`/v1/tools/${encodeURIComponent(name)}`, fixtures.url), {
      method: 'PUT',
      headers: { authorization: `Bearer ${fixtures.rootKey}`, 'content-type': 'application/json' },
      body: JSON.stringify(toolSpec()),
    })
    expect([name, answer.status === 404 || answer.status === 405]).toEqual([name, true])
  }
})
