// Promise: an API key works until the moment it is revoked or replaced, and all wrong keys get the
// same refusal.

import { expect, test } from 'vitest'
import { mintKey } from '../../../shared/ids.ts'
import { bearer, client } from '../../../shared/routes/client.ts'
import { Fixtures, refusalOf, unwrap } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'

const fixtures = new Fixtures('keys', sharedStack())
const REFUSED = '401 unauthenticated'

test('a revoked agent is refused on the next request and on all later ones', async () => {
  for (let i = 0; i < 20; i++) {
    const agent = await fixtures.agent()
    expect(unwrap(await agent.client('listTools', {})).items).toBeDefined()
    unwrap(await fixtures.root('deleteAgent', { params: { name: agent.name } }))
    const answers = await Promise.all(Array.from({ length: 8 }, () => agent.client('listTools', {})))
    expect(new Set(answers.map(refusalOf))).toEqual(new Set([REFUSED]))
  }
})

test('a revoked operator is refused on the next request', async () => {
  const operator = await fixtures.operator(['admin'])
  unwrap(await operator.client('listOperators', {}))
  unwrap(await fixtures.root('deleteOperator', { params: { name: operator.name } }))
  expect(refusalOf(await operator.client('listOperators', {}))).toBe(REFUSED)
})

test('after a rotation the old key is refused at once, and the new key belongs to the same agent', async () => {
  const agent = await fixtures.agent()
  const tool = await fixtures.tool()
  const call = unwrap(await agent.client('proposeCallInNewRun', { body: { tool, args: {} } }))
  const { key } = unwrap(await fixtures.root('rotateAgentKey', { params: { name: agent.name } }))
  expect(refusalOf(await agent.client('listTools', {}))).toBe(REFUSED)
  const renewed = client(fixtures.url, bearer(key ?? ''))
  expect(unwrap(await renewed('readCall', { params: { run: call.run, call: call.id } })).id).toBe(call.id)
  expect(refusalOf(await fixtures.root('rotateAgentKey', { params: { name: fixtures.name() } }))).toBe(
    '404 not_found',
  )
})

test('rotating an operator’s key keeps the roles and ends the old key', async () => {
  const operator = await fixtures.operator(['admin'])
  const { key, roles } = unwrap(await fixtures.root('rotateOperatorKey', { params: { name: operator.name } }))
  expect(roles).toEqual(['admin'])
  expect(refusalOf(await operator.client('listOperators', {}))).toBe(REFUSED)
  unwrap(await client(fixtures.url, bearer(key ?? ''))('listOperators', {}))
  expect(refusalOf(await fixtures.root('rotateOperatorKey', { params: { name: fixtures.name() } }))).toBe(
    '404 not_found',
  )
})

test('an agent that is created again under a deleted name has a new key, and the old key stays refused', async () => {
  const agent = await fixtures.agent()
  unwrap(await fixtures.root('deleteAgent', { params: { name: agent.name } }))
  const { key } = unwrap(
    await fixtures.root('putAgent', { params: { name: agent.name }, body: { tools: [] } }),
  )
  expect(key).not.toBe(agent.key)
  expect(refusalOf(await agent.client('listTools', {}))).toBe(REFUSED)
})

test('a key is shown once, when it is created', async () => {
  const agent = await fixtures.agent()
  expect(
    unwrap(await fixtures.root('putAgent', { params: { name: agent.name }, body: { tools: ['*'] } })),
  ).not.toHaveProperty('key')
  const lists = JSON.stringify([
    unwrap(await fixtures.root('listAgents', {})),
    unwrap(await fixtures.root('listOperators', {})),
  ])
  for (const secret of [agent.key, fixtures.rootKey]) expect(lists).not.toContain(secret.split('_').at(-1))
})

test('an event stream sends nothing after the key that opened it is revoked', async () => {
  const agent = await fixtures.agent()
  const run = unwrap(await agent.client('createRun', { body: {} }))
  const stream = await fetch(new URL(`/v1/runs/${run.id}/events`, fixtures.url), {
    headers: { authorization: `Bearer ${agent.key}` },
  })
  expect(stream.status).toBe(200)
  unwrap(await fixtures.root('deleteAgent', { params: { name: agent.name } }))
  unwrap(await fixtures.root('cancelRun', { params: { run: run.id } })) // an event that this reader must not receive
  expect(await stream.text()).not.toContain('cancelled')
})

const WRONG: ReadonlyArray<readonly [string, (key: string) => string | undefined]> = [
  ['no header', () => undefined],
  ['an empty header', () => ''],
  ['only the scheme', () => 'Bearer'],
  ['another scheme', (key) => `Basic ${key}`],
  ['two keys', (key) => `Bearer ${key} ${key}`],
  ['an additional blank', (key) => `Bearer  ${key}`],
  ['the key without a scheme', (key) => key],
  ['the last character changed', (key) => `Bearer ${key.slice(0, -1)}${key.endsWith('0') ? '1' : '0'}`],
  [
    'the first character of the secret changed',
    (key) => `Bearer ${key.slice(0, -52)}${key.at(-52) === '0' ? '1' : '0'}${key.slice(-51)}`,
  ],
  ['the id with another secret', (key) => `Bearer ${key.slice(0, -52)}${'0'.repeat(52)}`],
  ['cut short', (key) => `Bearer ${key.slice(0, -1)}`],
  ['in lower case', (key) => `Bearer ${key.toLowerCase()}`],
  [
    'an agent’s key with the prefix of an operator’s',
    (key) => `Bearer ${key.replace('cs_agent_', 'cs_operator_')}`,
  ],
  [
    'an agent’s key with the prefix of an enrolment token',
    (key) => `Bearer ${key.replace('cs_agent_', 'cs_enrol_')}`,
  ],
  ['the key with another tenant', (key) => `Bearer ${key.replace('_default_', '_other_')}`],
  ['an unknown key of the right form', () => `Bearer ${mintKey('agent', 'default', Date.now()).key}`],
  ['very long', () => `Bearer ${'a'.repeat(5_000)}`],
  ['a path', () => 'Bearer ../../etc/passwd'],
]

test.each(WRONG)('a wrong API key (%s) gets the same refusal as every other', async (_name, wrong) => {
  const agent = await fixtures.agent()
  const authorization = wrong(agent.key)
  const answer = await fetch(new URL('/v1/tools', fixtures.url), {
    headers: authorization === undefined ? {} : { authorization },
  })
  expect([answer.status, answer.headers.get('www-authenticate'), answer.headers.get('content-type')]).toEqual(
    [401, 'Bearer realm="countersign"', 'application/problem+json'],
  )
  expect(await answer.json()).toMatchObject({
    code: 'unauthenticated',
    detail: 'the key is missing, unknown or revoked',
  })
})

test('an API key in the query, a cookie or another header is not accepted', async () => {
  const agent = await fixtures.agent()
  for (const [path, headers] of [
    [`/v1/tools?key=${agent.key}&authorization=Bearer%20${agent.key}`, {}],
    ['/v1/tools', { cookie: `authorization=Bearer ${agent.key}` }],
    ['/v1/tools', { 'x-api-key': agent.key }],
  ] as const) {
    expect((await fetch(new URL(path, fixtures.url), { headers })).status).toBe(401)
  }
})

test('the last admin can neither be deleted nor lose the role', async () => {
  const admins = unwrap(await fixtures.root('listOperators', {})).items.filter(({ roles }) =>
    roles.includes('admin'),
  )
  for (const { name } of admins.filter(({ name }) => name !== 'root'))
    unwrap(await fixtures.root('deleteOperator', { params: { name } }))
  expect(refusalOf(await fixtures.root('deleteOperator', { params: { name: 'root' } }))).toBe('409 conflict')
  expect(
    refusalOf(await fixtures.root('putOperator', { params: { name: 'root' }, body: { roles: ['auditor'] } })),
  ).toBe('409 conflict')
  const second = await fixtures.operator(['admin'])
  unwrap(await second.client('putOperator', { params: { name: 'root' }, body: { roles: ['auditor'] } }))
  expect(
    refusalOf(await second.client('putOperator', { params: { name: second.name }, body: { roles: [] } })),
  ).toBe('409 conflict')
  unwrap(await second.client('putOperator', { params: { name: 'root' }, body: { roles: ['admin'] } }))
})

test('an operator who loses a role loses its permissions at once', async () => {
  const operator = await fixtures.operator(['admin'])
  unwrap(await operator.client('putAgent', { params: { name: fixtures.name() }, body: { tools: [] } }))
  unwrap(
    await fixtures.root('putOperator', { params: { name: operator.name }, body: { roles: ['auditor'] } }),
  )
  expect(
    refusalOf(await operator.client('putAgent', { params: { name: fixtures.name() }, body: { tools: [] } })),
  ).toBe('403 forbidden')
  unwrap(await operator.client('listAgents', {}))
})
