// Promise: a worker starts an MCP server in tier C, lists its tools, and calls one of them as it was
// accepted, once. A server that lies, changes, stalls, floods, asks back or forks gains nothing, and
// is gone when its call has ended.

import { readdirSync, readFileSync } from 'node:fs'
import { beforeAll, describe, expect, test } from 'vitest'
import { sha256 } from '../../../shared/bytes/json.ts'
import { callId } from '../../../shared/ids.ts'
import { LIMITS } from '../../../shared/limits.ts'
import type { Call } from '../../../shared/wire/calls.ts'
import type { StdioUpstream } from '../../../shared/wire/upstreams.ts'
import { eventually } from '../../support/eventually.ts'
import { Fixtures, refusalOf, toolSpec, unwrap } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'
import { newTenant } from '../../support/tenants.ts'
import { verifiedExecution } from '../../support/upstreams/protected-upstream.ts'

const SERVER = readFileSync('test/support/upstreams/stdio-server.py', 'utf8')
const stack = sharedStack()
const fixtures = new Fixtures('st', stack)
const { root } = fixtures
let agent: Awaited<ReturnType<Fixtures['agent']>>

const commandOf = (mode = ''): string[] => ['/usr/bin/python3', '-c', SERVER, mode]
let count = 0

/** Registers a server and lists its tools on the worker. */
async function register(mode = '', spec: Partial<StdioUpstream> = {}) {
  const name = `st${++count}`
  const body = { kind: 'stdio' as const, command: commandOf(mode), ...spec }
  unwrap(await root('putUpstream', { params: { name }, body }))
  return { name, listed: await root('refreshUpstream', { params: { name }, body: {} }) }
}
async function accept(name: string, tool: string): Promise<string> {
  const params = { name, tool: `${name}_${tool}` }
  const { tool: shown } = unwrap(await root('readUpstreamTool', { params }))
  const body = { definition: shown.seen ?? '', sensitive: false, capabilities: [], idempotent: true }
  unwrap(await root('acceptUpstreamTool', { params, body }))
  return params.tool
}
const stateOf = async (name: string, tool: string) =>
  unwrap(await root('readUpstream', { params: { name } })).tools.find((one) => one.name === `${name}_${tool}`)
    ?.state
/** Command lines of this machine's processes that contain a word. */
const commandLinesWith = (word: string): string[] =>
  readdirSync('/proc')
    .filter((name) => /^[0-9]+$/.test(name))
    .flatMap((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, 'latin1')
      } catch {
        return [] // it has ended
      }
    })
    .filter((line) => line.includes(word))
const propose = (tool: string, args: Record<string, unknown> = { text: 'hi' }) =>
  agent.client('proposeCallInNewRun', { body: { tool, args }, wait: 30 })

let server: string
async function called(tool: string, args?: Record<string, unknown>): Promise<Call> {
  return unwrap(await propose(await accept(server, tool), args))
}
async function attested({ run, id }: Call) {
  const { execution } = await verifiedExecution(agent.client, { run, call: id })
  if (execution.upstream === undefined) throw new Error('the statement names no exchange')
  return { execution, exchange: execution.upstream }
}

beforeAll(async () => {
  agent = await fixtures.agent({ tools: ['*'], pool: 'default', budget: { max_denied_per_run: 100 } })
  const { name, listed } = await register('', { limits: { timeout_ms: 3_000 } })
  expect(unwrap(listed).tools).toHaveLength(15)
  server = name
})

test('an accepted tool runs in tier C, and the statement names what was sent and answered', async () => {
  const call = await called('echo', { text: 'a question' })
  expect(call).toMatchObject({ state: 'succeeded', plan: { tier: 'C' } })
  expect(call.result).toMatchObject({ output: 'a question', stderr: 'echoing\n' })
  const { execution, exchange } = await attested(call)
  const { tool } = unwrap(
    await root('readUpstreamTool', { params: { name: server, tool: `${server}_echo` } }),
  )
  const request = `{"id":"${call.id}","jsonrpc":"2.0","method":"tools/call","params":{"arguments":{"text":"a question"},"name":"echo"}}`
  const answer = `{"jsonrpc":"2.0","id":"${call.id}","result":{"content":[{"type":"text","text":"a question"}],"_meta":{"steer":"model"}}}`
  expect(exchange).toEqual({
    name: server,
    origin: 'stdio',
    era: 'legacy',
    definition_sha256: tool.pinned,
    request_sha256: sha256(request),
    response_sha256: sha256(answer),
  })
  expect(execution).toMatchObject({ sandbox_enforcement: 'strict', outcome: { kind: 'returned' } })
})

/** The run in which the tools of a server were listed. */
const listingOf = (name: string): Promise<string> =>
  eventually('the run is in the list', async () => {
    const { items } = unwrap(await root('listRuns', { query: { agent: `countersign.${name}` } }))
    return items[0]?.id
  })

test('the list of tools is a call of the edge’s own agent, decided, attested and in the log', async () => {
  const run = await listingOf(server)
  const { items } = unwrap(await root('readJournal', { params: { run } }))
  expect(items.map(({ kind }) => kind)).toEqual(['allowed', 'claimed', 'succeeded'])
  const call = callId(run, 1)
  const { execution } = await verifiedExecution(root, { run, call })
  expect(execution).toMatchObject({ outcome: { kind: 'returned' }, sandbox_enforcement: 'strict' })
  expect(execution.upstream).toBeUndefined()
})

test('U02 an agent can neither name the tool that lists a server nor be named like its principal', async () => {
  expect(refusalOf(await propose(`countersign_list_${server}`, {}))).toBe('404 not_found')
  for (const name of ['countersign', `countersign.${server}`])
    expect(refusalOf(await root('putAgent', { params: { name }, body: { tools: ['*'] } }))).toBe(
      '400 invalid_request',
    )
})

const endings: readonly [string, string, Call['state'], string | undefined, boolean][] = [
  ['reports an error', 'fails', 'failed', 'upstream_error', true],
  ['answers with structured content', 'structured', 'succeeded', undefined, true],
  ['answers with content that does not fit', 'misfit', 'failed', 'invalid_output', true],
  ['never answers', 'never', 'indeterminate', 'no_answer', false],
  ['exits without an answer', 'exits', 'indeterminate', 'no_answer', false],
  ['answers 100 MB, more than `net_bytes`', 'floods', 'failed', 'quota_exceeded', false],
  ['answers twice', 'twice', 'succeeded', undefined, true],
  ['writes something else to standard output', 'junk', 'indeterminate', 'no_answer', false],
  ['answers another request', 'other', 'indeterminate', 'no_answer', false],
  ['pings us', 'pings', 'succeeded', undefined, true],
]
test.each(endings)(
  'U07 if a server %s, the call ends by what is known of it',
  async (_, tool, state, code, answered) => {
    const call = await called(tool)
    expect([call.state, call.result?.error?.code]).toEqual([state, code])
    const { exchange } = await attested(call)
    expect(exchange.request_sha256).not.toBeNull()
    expect(exchange.response_sha256 !== null).toBe(answered)
  },
)

test('U08 a server that asks for sampling gets no answer, and its call fails', async () => {
  const call = await called('asks')
  expect([call.state, call.result?.error?.code]).toEqual(['failed', 'upstream_wants_input'])
  expect(call.result?.error?.detail).toContain('sampling/createMessage')
})

test('D1 a process that a server leaves behind is gone when its call has ended', async () => {
  const mark = `fork-${process.pid}`
  const { name } = await register('', { command: [...commandOf(), mark] })
  const call = unwrap(await propose(await accept(name, 'forks')))
  expect(call).toMatchObject({ state: 'succeeded', result: { output: 'forked' } })
  expect(commandLinesWith(mark)).toEqual([])
})

test('a server that stops reading holds up neither the worker nor other calls', async () => {
  const { name } = await register('deaf', { limits: { timeout_ms: 4_000 } })
  const deaf = await accept(name, 'echo')
  const [large, echo] = [propose(deaf, { text: 'x'.repeat(400_000) }), await accept(server, 'echo')]
  const ended = large.then(() => 'the deaf one')
  expect(await Promise.race([ended, propose(echo).then(() => 'the other one')])).toBe('the other one')
  expect(unwrap(await large)).toMatchObject({
    state: 'indeterminate',
    result: { error: { code: 'no_answer' } },
  })
})

test('if a server works in the folder of a run, the calls of the run share files but no process', async () => {
  const { name } = await register('', { workspace: 'run' })
  const counts = await accept(name, 'count')
  const first = unwrap(await propose(counts, {}))
  const again = unwrap(
    await agent.client('proposeCall', {
      params: { run: first.run },
      body: { tool: counts, args: {} },
      wait: 30,
    }),
  )
  expect([first.result?.output, again.result?.output]).toEqual(['1', '2'])
})

describe('U01 the definition is compared in the process that is called', () => {
  test('a server that shows another definition is not called, and its tool is quarantined alone', async () => {
    const { name } = await register('changing')
    const echo = await accept(name, 'echo')
    const call = unwrap(await propose(echo))
    expect([call.state, call.result?.error?.code]).toEqual(['failed', 'tool_changed'])
    expect((await attested(call)).exchange).toMatchObject({ era: null, request_sha256: null })
    expect(await stateOf(name, 'echo')).toBe('changed')
    expect(refusalOf(await propose(echo))).toBe('409 tool_changed')
    expect(unwrap(await root('readUpstream', { params: { name: server } })).tools[0]?.state).not.toBe(
      'changed',
    )
  })

  test('with another command every tool has to be accepted again', async () => {
    const { name } = await register()
    const echo = await accept(name, 'echo')
    const body = { kind: 'stdio' as const, command: [...commandOf(), 'more'] }
    unwrap(await root('putUpstream', { params: { name }, body }))
    expect(await stateOf(name, 'echo')).toBe('changed')
    expect(refusalOf(await propose(echo))).toBe('409 tool_changed')
  })
})

test('U04 if a server lists two tools under one name, neither can be accepted', async () => {
  const { listed } = await register('doubling')
  expect(unwrap(listed)).toMatchObject({ tools: [], refused: [{}, {}] })
})

test.each([
  ['lists more than an output may have', 'long', '1048576 bytes'],
  ['exits at once', 'dies', 'exit 7'],
  ['writes a banner first', 'banner', 'not JSON'],
  ['asks for roots first (U08)', 'asks-first', 'roots/list'],
  ['never answers', 'silent', 'its time was over'],
])('a server that %s can’t be listed, and the upstream says why', async (_, mode, why) => {
  const { name, listed } = await register(mode, { limits: { timeout_ms: 2_000 } })
  expect(refusalOf(listed)).toBe('503 unavailable')
  expect(unwrap(await root('readUpstream', { params: { name } })).fault).toContain(why)
})

test('a server that does not exit when it has answered is killed after 500 ms (`stdio_exit_ms`), and its answer counts', async () => {
  expect(LIMITS.stdio_exit_ms).toBe(500)
  const { name, listed } = await register('deaf', {
    command: [...commandOf('deaf'), 'lingering'],
    limits: { timeout_ms: 30_000 },
  })
  expect(unwrap(listed).tools.length).toBeGreaterThan(0)
  const run = await listingOf(name)
  const { execution } = await verifiedExecution(root, { run, call: callId(run, 1) })
  const took = Number(execution.ended_at_ms) - Number(execution.started_at_ms)
  expect([took >= 500, took < 30_000]).toEqual([true, true])
  expect(commandLinesWith('lingering')).toEqual([])
})

test('policies can name the upstream, by its entity, its id and its sandbox', async () => {
  const echo = await accept(server, 'echo')
  const forbid = (about: string) => [
    `@id("x") forbid (principal, action in Action::"tool.execute", resource) when { ${about} };`,
  ]
  const cases = {
    about: 'a server that a worker starts',
    tools: { plain: {} },
    agents: { coder: { tools: ['*'] } },
    operators: {},
    sets: {
      entity: forbid(`resource in Upstream::"${server}"`),
      id: forbid(`context has upstream_id && context.upstream_id == "${server}" && context.plan.tier == "C"`),
      other: forbid('resource in Upstream::"another"'),
    },
    cases: [
      ...['entity', 'id'].map((set) => ({ set, tool: echo, effect: 'deny' as const })),
      { set: 'other', tool: echo, effect: 'allow' as const },
      { set: 'entity', tool: 'plain', effect: 'allow' as const },
    ].map(({ set, tool, effect }) => ({
      description: `${set} decides ${tool}`,
      request: { agent: 'coder', tool },
      with: [set],
      expect: { effect },
    })),
  }
  const { refusal, results } = unwrap(await root('checkPolicies', { body: { cases } }))
  expect(refusal).toBeNull()
  expect(results.map(({ passed, got }) => (passed ? 'passed' : got))).toEqual(cases.cases.map(() => 'passed'))
})

test('policy decides a list of tools like a call, and a refusal is what the operator gets', async () => {
  const tenant = await newTenant(stack, 'st-listing')
  const { policies } = unwrap(await tenant.root('readPolicies', {}))
  const own =
    '@id("no-lists") @reason("no server is started") forbid (principal == Agent::"countersign.docs", action, resource);'
  const body = { policies: { ...policies, 'own.cedar': own }, activate: true }
  unwrap(await tenant.root('putPolicies', { body }))
  const params = { name: 'docs' }
  unwrap(await tenant.root('putUpstream', { params, body: { kind: 'stdio', command: ['true'] } }))
  expect(refusalOf(await tenant.root('refreshUpstream', { params, body: {} }))).toBe('503 unavailable')
  expect(unwrap(await tenant.root('readUpstream', { params })).fault).toContain('no server is started')
})

test('secrets of the upstream reach its server as files and are masked in its answers', async () => {
  const secret = fixtures.name()
  const name = `st${count + 1}`
  const value = 'correct horse battery staple'
  const body = { value, tools: [`upstream:${name}`] }
  unwrap(await root('putSecret', { params: { name: secret }, body }))
  await register('', { secrets: [secret] })
  const reads = await accept(name, 'secret')
  const call = unwrap(await propose(reads, { text: secret }))
  expect(call.result?.output).toBe(`«secret ${secret}»`)
})

test('an upstream whose calls could not run as it is configured is refused', async () => {
  const put = (spec: Partial<StdioUpstream>) =>
    root('putUpstream', {
      params: { name: 'st-refused' },
      body: { kind: 'stdio', command: ['true'], ...spec },
    })
  const credentials = [{ secret: 'x', host: 'api.example.com:443', header: 'authorization' }]
  expect(refusalOf(await put({ credentials }))).toBe('400 invalid_request')
  expect(refusalOf(await put({ workspace: 'run', secrets: ['x'] }))).toBe('400 invalid_request')
  expect(refusalOf(await put({ command: [] }))).toBe('400 invalid_request')
})

test('U04 a tool of a server that a worker starts can’t be removed like a registered one', async () => {
  const echo = await accept(server, 'echo')
  expect(refusalOf(await root('deleteTool', { params: { name: echo } }))).toBe('409 conflict')
  expect(refusalOf(await root('putTool', { params: { name: echo }, body: toolSpec() }))).toBe('409 conflict')
})
