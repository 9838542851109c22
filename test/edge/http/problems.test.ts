// A refusal has one shape (RFC 9457), one stable code, and a sentence that says what to do. Reading
// changes nothing.

import { expect, test } from 'vitest'
import { z } from 'zod'
import { FAILURES } from '../../../shared/failures.ts'
import { ulid } from '../../../shared/ids.ts'
import { ROUTES } from '../../../shared/routes/all.ts'
import type { Route } from '../../../shared/routes/route.ts'
import { Fixtures, unwrap } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'

const fixtures = new Fixtures('problems', sharedStack())
const agent = await fixtures.agent()
const tool = await fixtures.tool()

const Problem = z.strictObject({
  type: z.url(),
  title: z.string().min(1),
  status: z.int(),
  code: z.enum(Object.keys(FAILURES) as [keyof typeof FAILURES]), // a table with entries
  detail: z.string().regex(/[^.]$/),
  todo: z.string().regex(/[^.]$/),
  retry: z.boolean(),
  request_id: z.uuid(),
  errors: z.array(z.strictObject({ at: z.string(), message: z.string() })).optional(),
})

type Ask = { method?: string; key?: string; body?: string; type?: string }
async function ask(path: string, { method = 'GET', key, body, type = 'application/json' }: Ask = {}) {
  return fetch(new URL(path, fixtures.url), {
    method,
    headers: {
      ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
      ...(body === undefined ? {} : { 'content-type': type }),
    },
    ...(body === undefined ? {} : { body }),
  })
}

const REFUSALS: ReadonlyArray<readonly [string, () => Promise<Response>, number, keyof typeof FAILURES]> = [
  ['no such route', () => ask('/v2/calls'), 404, 'not_found'],
  ['no such page', () => ask('/admin'), 404, 'not_found'],
  ['a slash too many', () => ask('/v1/tools/', { key: agent.key }), 404, 'not_found'],
  ['a path in capitals', () => ask('/V1/tools', { key: agent.key }), 404, 'not_found'],
  [
    'the wrong method',
    () => ask('/v1/calls', { method: 'PUT', key: agent.key, body: '{}' }),
    405,
    'method_not_allowed',
  ],
  [
    'an unknown method',
    () => ask('/v1/tools', { method: 'PURGE', key: agent.key }),
    405,
    'method_not_allowed',
  ],
  ['no key', () => ask('/v1/tools'), 401, 'unauthenticated'],
  ['an agent at an operator’s route', () => ask('/v1/operators', { key: agent.key }), 403, 'forbidden'],
  [
    'an operator at an agent’s route',
    () => ask('/v1/calls', { method: 'POST', key: fixtures.rootKey, body: '{}' }),
    403,
    'forbidden',
  ],
  [
    'a body that is not JSON',
    () => ask('/v1/calls', { method: 'POST', key: agent.key, body: 'x' }),
    400,
    'not_json',
  ],
  [
    'another type of body',
    () => ask('/v1/calls', { method: 'POST', key: agent.key, body: '{}', type: 'text/plain' }),
    415,
    'unsupported_media_type',
  ],
  [
    'fields of the wrong type',
    () => ask('/v1/calls', { method: 'POST', key: agent.key, body: '{"tool":5}' }),
    400,
    'invalid_request',
  ],
  [
    'an unknown query parameter',
    () => ask('/v1/approvals?status=all&extra=1', { key: fixtures.rootKey }),
    400,
    'invalid_request',
  ],
  ['no such run', () => ask(`/v1/runs/run_${ulid(0)}`, { key: agent.key }), 404, 'not_found'],
  [
    'an unsigned worker’s request',
    () => ask('/v1/worker/claims', { method: 'POST', body: '{}' }),
    401,
    'bad_signature',
  ],
  [
    'a malformed enrolment token',
    () => ask('/v1/worker/enrol', { method: 'POST', body: '{"token":"x","x":"A","name":"a","tiers":[]}' }),
    400,
    'invalid_request',
  ],
]

test.each(REFUSALS)(
  'a refusal has one shape, code and status, and is not cached: %s',
  async (_name, send, status, code) => {
    const answer = await send()
    const problem = Problem.parse(await answer.json())
    expect([answer.status, problem.status, problem.code]).toEqual([status, status, code])
    expect(problem.type).toBe(new URL(`/docs#problem-${code}`, fixtures.url).href)
    expect(answer.headers.get('request-id')).toBe(problem.request_id)
    expect([answer.headers.get('content-type'), answer.headers.get('cache-control')]).toEqual([
      'application/problem+json',
      'no-store',
    ])
  },
)

test('405 lists the allowed methods', async () => {
  for (const [path, allowed] of [
    ['/v1/calls', ['GET', 'HEAD', 'POST']],
    ['/v1/tools', ['GET', 'HEAD']],
    ['/v1/tools/a', ['DELETE', 'GET', 'HEAD', 'PUT']],
    ['/approve/x', ['GET', 'HEAD', 'POST']],
    ['/v1/worker/claims', ['POST']],
  ] as const) {
    const answer = await ask(path, { method: 'PATCH' })
    expect([path, answer.status, answer.headers.get('allow')?.split(', ').sort()]).toEqual([
      path,
      405,
      [...allowed],
    ])
  }
})

test('OPTIONS allows no other site’s script to call the API', async () => {
  const answer = await fetch(new URL('/v1/calls', fixtures.url), {
    method: 'OPTIONS',
    headers: {
      origin: 'https://evil.example',
      'access-control-request-method': 'POST',
      'access-control-request-headers': 'authorization',
    },
  })
  expect(answer.status).toBe(405)
  expect([...answer.headers.keys()].filter((name) => name.startsWith('access-control'))).toEqual([])
})

test('no response names the server software, or lets a browser guess its content type', async () => {
  for (const path of [
    '/v1/tools',
    '/healthz',
    '/openapi.json',
    '/metrics',
    '/docs',
    '/nowhere',
    '/approve/x',
  ]) {
    const answer = await ask(path)
    expect([path, answer.headers.get('server'), answer.headers.get('x-powered-by')]).toEqual([
      path,
      null,
      null,
    ])
    expect([path, answer.headers.get('x-content-type-options')]).toEqual([path, 'nosniff'])
    await answer.arrayBuffer()
  }
})

test('HEAD on each readable route has no body and changes nothing', async () => {
  const call = unwrap(await agent.client('proposeCallInNewRun', { body: { tool, args: {} } }))
  const before = unwrap(await agent.client('readRun', { params: { run: call.run } }))
  for (const route of Object.values(ROUTES) as Route[]) {
    if (route.method !== 'GET' || route.media === 'text/event-stream') continue
    const path = route.path
      .replace('{run}', call.run)
      .replace('{call}', call.id)
      .replace(/\{\w+\}/g, 'x')
    const key = route.callers.includes('agent') ? agent.key : fixtures.rootKey
    const [head, get] = [await ask(path, { method: 'HEAD', key }), await ask(path, { key })]
    expect([path, head.status, await head.text()]).toEqual([path, get.status, ''])
    await get.arrayBuffer()
  }
  expect(unwrap(await agent.client('readRun', { params: { run: call.run } }))).toEqual(before)
})

test('HEAD on a route of POST does nothing', async () => {
  const before = unwrap(await fixtures.root('listAgents', {})).items.length
  for (const path of ['/v1/decisions', '/v1/worker/enrol', `/v1/agents/${fixtures.name()}`]) {
    expect((await ask(path, { method: 'HEAD', key: fixtures.rootKey })).status).toBeGreaterThanOrEqual(400)
  }
  expect(unwrap(await fixtures.root('listAgents', {})).items.length).toBe(before)
})
