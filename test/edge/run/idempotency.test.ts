// One `Idempotency-Key` belongs to one request: a repetition returns the same call, and another
// request with the key is a conflict, however many arrive at once.

import { expect, test } from 'vitest'
import { Fixtures, refusalOf, unwrap } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'

const fixtures = new Fixtures('idempotency', sharedStack())
const agent = await fixtures.agent()
const tool = await fixtures.tool()
const sensitive = await fixtures.tool({ capabilities: ['network'] })
const body = { tool, args: { text: 'a' } }

const key = (): Record<string, string> => ({ 'idempotency-key': fixtures.name() })
const REUSED = '409 idempotency_key_reused'

test('G12 POST /v1/calls: twenty simultaneous requests with one key make one call', async () => {
  const headers = key()
  const calls = await Promise.all(
    Array.from({ length: 20 }, () => agent.client('proposeCallInNewRun', { body, headers })),
  )
  expect(new Set(calls.map((call) => unwrap(call).id)).size).toBe(1)
  const run = unwrap(await agent.client('readRun', { params: { run: unwrap(calls[0] ?? refuse()).run } }))
  expect([run.used.calls, run.journal.seq]).toEqual([1, 1])
})

test('G12 POST /v1/runs/{run}/calls: twenty simultaneous requests with one key make one call', async () => {
  const run = unwrap(await agent.client('createRun', { body: {} }))
  const headers = key()
  const propose = () => agent.client('proposeCall', { params: { run: run.id }, body, headers })
  const calls = await Promise.all(Array.from({ length: 20 }, propose))
  expect(new Set(calls.map((call) => unwrap(call).id)).size).toBe(1)
  expect(unwrap(await agent.client('readRun', { params: { run: run.id } })).used.calls).toBe(1)
})

test('G12 POST /v1/runs: twenty simultaneous requests with one key make one run', async () => {
  const headers = key()
  const runs = await Promise.all(
    Array.from({ length: 20 }, () => agent.client('createRun', { body: { session: 's' }, headers })),
  )
  expect(new Set(runs.map((run) => unwrap(run).id)).size).toBe(1)
  expect(refusalOf(await agent.client('createRun', { body: { session: 't' }, headers }))).toBe(REUSED)
})

test('G12 the key with another payload is a conflict and does not change the first call', async () => {
  const run = unwrap(await agent.client('createRun', { body: {} }))
  const [first, second] = [key(), key()]
  const inRun = unwrap(await agent.client('proposeCall', { params: { run: run.id }, body, headers: first }))
  const alone = unwrap(
    await agent.client('proposeCallInNewRun', { body: { ...body, run: { session: 's' } }, headers: second }),
  )
  for (const other of [
    { tool, args: { text: 'b' } },
    { tool, args: {} },
    { tool: sensitive, args: { text: 'a' } },
  ]) {
    expect(
      refusalOf(await agent.client('proposeCall', { params: { run: run.id }, body: other, headers: first })),
    ).toBe(REUSED)
    expect(
      refusalOf(
        await agent.client('proposeCallInNewRun', {
          body: { ...other, run: { session: 's' } },
          headers: second,
        }),
      ),
    ).toBe(REUSED)
  }
  expect(
    refusalOf(
      await agent.client('proposeCallInNewRun', {
        body: { ...body, run: { session: 't' } },
        headers: second,
      }),
    ),
  ).toBe(REUSED)
  expect(unwrap(await agent.client('readCall', { params: { run: run.id, call: inRun.id } })).digest).toBe(
    inRun.digest,
  )
  expect(unwrap(await agent.client('readRun', { params: { run: alone.run } })).used.calls).toBe(1)
})

test('G12 a repetition may order its members differently, but not change a value', async () => {
  const headers = key()
  const first = unwrap(
    await agent.client('proposeCallInNewRun', { body: { tool, args: { a: 1, text: 'x' } }, headers }),
  )
  expect(
    unwrap(await agent.client('proposeCallInNewRun', { body: { args: { text: 'x', a: 1 }, tool }, headers }))
      .id,
  ).toBe(first.id)
  expect(
    refusalOf(
      await agent.client('proposeCallInNewRun', { body: { tool, args: { a: '1', text: 'x' } }, headers }),
    ),
  ).toBe(REUSED)
})

test('G12 a repeated request returns the current state of the call', async () => {
  const headers = key()
  const waiting = unwrap(
    await agent.client('proposeCallInNewRun', { body: { tool: sensitive, args: {} }, headers }),
  )
  unwrap(await agent.client('cancelCall', { params: { run: waiting.run, call: waiting.id } }))
  const again = unwrap(
    await agent.client('proposeCallInNewRun', { body: { tool: sensitive, args: {} }, headers }),
  )
  expect([again.id, again.state]).toEqual([waiting.id, 'cancelled'])
})

test('G12 a key is valid for one agent, one run and one route', async () => {
  const headers = key()
  const theirs = await fixtures.agent()
  const [one, two] = [
    unwrap(await agent.client('createRun', { body: {} })),
    unwrap(await agent.client('createRun', { body: {} })),
  ]
  const calls = await Promise.all([
    agent.client('proposeCallInNewRun', { body, headers }),
    theirs.client('proposeCallInNewRun', { body, headers }),
    agent.client('proposeCall', { params: { run: one.id }, body, headers }),
    agent.client('proposeCall', { params: { run: two.id }, body, headers }),
  ])
  expect(new Set(calls.map((call) => unwrap(call).id)).size).toBe(4)
  const run = unwrap(await agent.client('createRun', { body: {}, headers }))
  expect([run.used.calls, calls.map((call) => unwrap(call).run).includes(run.id)]).toEqual([0, false])
})

test('G12 keys that differ in any character are different keys', async () => {
  const name = fixtures.name()
  const keys = [name, name.toUpperCase(), `${name}.`, `"${name} x"`, name.repeat(8)]
  const calls = await Promise.all(
    keys.map((value) => agent.client('proposeCallInNewRun', { body, headers: { 'idempotency-key': value } })),
  )
  expect(new Set(calls.map((call) => unwrap(call).id)).size).toBe(keys.length)
  const quoted = await agent.client('proposeCallInNewRun', {
    body,
    headers: { 'idempotency-key': `"${name}"` },
  })
  expect(unwrap(quoted).id).toBe(unwrap(calls[0] ?? refuse()).id) // the same text as a structured field
})

test.each(['', ' ', 'a b', '"', '"a', 'x'.repeat(256), 'ü', 'a,b c'])(
  'a malformed idempotency key is refused: `%s`',
  async (value) => {
    const answer = await agent
      .client('proposeCallInNewRun', { body, headers: { 'idempotency-key': value } })
      .catch(() => undefined)
    if (answer !== undefined)
      expect(refusalOf(answer)).toBe('400 invalid_request') // fetch itself refuses what no header may hold
    else expect(value).toBe('ü')
  },
)

test('without a key each request makes another call', async () => {
  const calls = await Promise.all(
    Array.from({ length: 5 }, () => agent.client('proposeCallInNewRun', { body })),
  )
  expect(new Set(calls.map((call) => unwrap(call).id)).size).toBe(5)
})

function refuse(): never {
  throw new Error('there is no first answer')
}

test('G12 a repetition returns nothing to an agent that may no longer read; one that may not create runs creates none by a call', async () => {
  const headers = key()
  unwrap(await agent.client('proposeCallInNewRun', { body, headers }))
  const without = (action: string) =>
    `@id("${action}") forbid (principal == Agent::"${agent.name}", action == Action::"${action}", resource);`
  await fixtures.withPolicies({ 'no-read': without('run.read') }, async () => {
    expect(refusalOf(await agent.client('proposeCallInNewRun', { body, headers }))).toBe('403 forbidden')
  })
  await fixtures.withPolicies({ 'no-create': without('run.create') }, async () => {
    expect(refusalOf(await agent.client('proposeCallInNewRun', { body, headers: key() }))).toBe(
      '403 forbidden',
    )
  })
  unwrap(await agent.client('proposeCallInNewRun', { body, headers }))
})

test('only an agent that may call a tool learns about its arguments', async () => {
  const wanting = await fixtures.tool({
    input_schema: {
      type: 'object',
      properties: { secret_name: { type: 'string' } },
      required: ['secret_name'],
    },
  })
  const stranger = await fixtures.agent({ tools: [tool] })
  for (const name of [wanting, fixtures.name()]) {
    for (const route of ['proposeCallInNewRun', 'decide'] as const)
      expect([route, refusalOf(await stranger.client(route, { body: { tool: name, args: {} } }))]).toEqual([
        route,
        '404 not_found',
      ])
  }
  expect(refusalOf(await agent.client('proposeCallInNewRun', { body: { tool: wanting, args: {} } }))).toBe(
    '422 invalid_arguments',
  )
})
