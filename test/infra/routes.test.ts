// Access to routes. The golden table lists every route with every kind of caller and whether that
// caller is admitted. The list of routes open to anyone may only shrink.

import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ROOT } from '../../infra/state.ts'
import { type Code, FAILURES } from '../../shared/failures.ts'
import { ROUTES } from '../../shared/routes/all.ts'
import { REFUSAL, type Route } from '../../shared/routes/route.ts'
import { Fixtures, unwrap } from '../support/fixtures.ts'
import { sharedStack } from '../support/stack/stack.ts'
import { PeerWorker } from '../support/worker/peer-worker.ts'

const fixtures = new Fixtures('routes', sharedStack())
const GOLDEN = join(ROOT, 'test/golden/routes.json')
type Table = Record<string, Record<string, string>>
const golden = JSON.parse(readFileSync(GOLDEN, 'utf8')) as Table // written by `UPDATE_GOLDEN=1` and reviewed by hand
const routes = Object.entries(ROUTES) as [string, Route][]

const agent = await fixtures.agent()
const operators = {
  admin: await fixtures.operator(['admin']),
  approver: await fixtures.operator(['approver']),
  auditor: await fixtures.operator(['auditor']),
  'no role': await fixtures.operator([]),
}
const peer = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool)

type Sign = (request: { method: string; url: URL; body: Uint8Array }) => Record<string, string>
const bearer =
  (key: string): Sign =>
  () => ({ authorization: `Bearer ${key}` })
const revoked = await fixtures.operator(['admin'])
unwrap(await fixtures.root('deleteOperator', { params: { name: revoked.name } }))
const CALLERS: Readonly<Record<string, Sign>> = {
  nobody: () => ({}),
  // A key of the right tenant and form, with an existing id and a wrong secret.
  'wrong key': bearer(`${fixtures.rootKey.slice(0, -1)}${fixtures.rootKey.endsWith('0') ? '1' : '0'}`),
  'revoked key': bearer(revoked.key),
  agent: bearer(agent.key),
  ...Object.fromEntries(Object.entries(operators).map(([role, { key }]) => [role, bearer(key)])),
  worker: peer.credentials(),
  installation: bearer(sharedStack().installation_key),
}

/** Requests a route with ids that do not exist, so that an admitted caller changes nothing. */
async function ask(route: Route, sign: Sign): Promise<number> {
  const body = Buffer.from(route.body === undefined ? '' : '{"not":"what it takes"}')
  const url = new URL(
    route.path
      .replace('{token}', 'x')
      .replace('{id}', 'apr_x')
      .replace(/\{(\w+)\}/g, '0-not-there'),
    fixtures.url,
  )
  const abort = new AbortController()
  const answer = await fetch(url, {
    method: route.method,
    headers: {
      ...(route.body === undefined ? {} : { 'content-type': 'application/json' }),
      ...sign({ method: route.method, url, body }),
    },
    ...(route.body === undefined ? {} : { body: new Uint8Array(body) }),
    signal: abort.signal,
  })
  abort.abort()
  // A hook's refusal has status 200, and names its code in a header.
  const refusal = answer.headers.get(REFUSAL) as Code | null // the edge sent it
  return refusal === null ? answer.status : FAILURES[refusal].status
}

/** A caller counts as admitted if the route looked at the request, whatever it answered. */
const verdict = (status: number): string =>
  status === 401 ? 'who?' : status === 403 ? 'no' : status >= 500 ? `broken: ${status}` : 'in'

/** Requests every route as every caller from the running edge. */
async function measured(): Promise<Table> {
  const seen: Table = {}
  for (const [, route] of routes) {
    const row: Record<string, string> = {}
    for (const [caller, sign] of Object.entries(CALLERS)) row[caller] = verdict(await ask(route, sign))
    seen[`${route.method} ${route.path}`] = row
  }
  return seen
}

test('each route admits exactly the kinds of callers in the golden table', async () => {
  const seen = await measured()
  if (process.env['UPDATE_GOLDEN'] === '1') writeFileSync(GOLDEN, `${JSON.stringify(seen, null, 2)}\n`)
  expect(seen).toEqual(golden)
})

/**
 * Routes whose callers are authenticated otherwise than by these keys: by a link's token, a
 * browser's session or Slack's signature.
 */
const otherwise = (callers: Route['callers']): boolean =>
  callers.some((caller) => ['anyone', 'link', 'slack', 'console'].includes(caller))

/** Routes open to anyone, with the reason. This list may only get shorter. */
const OPEN: Readonly<Record<string, string>> = {
  'POST /v1/worker/enrol': 'the one-time token in the body is the key',
  'GET /.well-known/countersign/keys.json': 'public keys, for offline verification',
  'GET /.well-known/authzen-configuration': 'addresses of routes, for AuthZEN clients',
  'GET /log/{tenant}/checkpoint': 'a log is for everybody to watch; it holds hashes alone',
  'GET /log/{tenant}/tile/{tile}': 'as above',
  'GET /log/{tenant}/proof/{call}': 'as above; ids of calls can’t be guessed',
  'GET /attestation/v1': 'the format of evidence; the predicate type of an attestation has this path',
  'GET /schemas/{name}': 'as above',
  'GET /log/{tenant}/witnesses': 'for auditors: the heads that witnesses have cosigned',
  'GET /.well-known/oauth-protected-resource': 'the issuers that operators advertise',
  'GET /.well-known/oauth-protected-resource/mcp': 'as above',
  'GET /openapi.json': 'what the API is, not what it holds',
  'GET /docs': 'as above',
  'GET /metrics': 'counters for a scraper in the same network',
  'GET /healthz': 'whether the process answers',
  'GET /readyz': 'whether its parts answer',
}

test('only the listed routes are open, and each says so in its declaration', () => {
  const open = routes
    .filter(([, { callers }]) => callers.includes('anyone'))
    .map(([, { method, path }]) => `${method} ${path}`)
  expect(open.sort()).toEqual(Object.keys(OPEN).sort())
  const letIn = Object.entries(golden).flatMap(([route, row]) => (row['nobody'] === 'in' ? [route] : []))
  expect(letIn.filter((route) => !(route in OPEN))).toEqual([])
})

test('routes of workers admit only workers, and routes of operators only operators', () => {
  for (const [, { method, path, callers }] of routes) {
    const row = golden[`${method} ${path}`] ?? {}
    if (otherwise(callers)) continue
    if (!callers.includes('worker')) expect([path, row['worker']]).toEqual([path, 'who?'])
    if (!callers.includes('installation')) expect([path, row['installation']]).toEqual([path, 'who?'])
    if (!callers.includes('agent')) expect([path, row['agent'] === 'in']).toEqual([path, false])
    if (!callers.includes('operator'))
      for (const role of Object.keys(operators))
        expect([path, role, row[role] === 'in']).toEqual([path, role, false])
    expect([path, row['no role'] === 'in']).toEqual([path, false])
  }
})

/** Routes that take a body and change nothing. */
const WITHOUT_EFFECT = [
  'POST /v1/approvals/{id}/preview',
  'POST /v1/policies/check',
  'POST /v1/policies/versions/{version}/rehearse',
  'POST /v1/decisions',
  'POST /access/v1/evaluation',
  'POST /access/v1/evaluations',
  'POST /v1/issuers/test',
]

/** Actions of an approver besides reading: answering, revoking answers, and naming a delegate. */
const ANSWERING = [
  'POST /v1/approvals/{id}/decision',
  'DELETE /v1/approvals/{id}/links',
  'DELETE /v1/standing/{id}',
  'POST /v1/sessions/{session}/reset',
  'PUT /v1/delegations/me',
  'DELETE /v1/delegations/me',
]

test('an auditor changes nothing, an approver only answers', () => {
  for (const [route, row] of Object.entries(golden)) {
    if (route in OPEN || route.includes('{token}') || WITHOUT_EFFECT.includes(route)) continue
    if (row['auditor'] === 'in') expect(route).toMatch(/^GET /)
    if (row['approver'] === 'in' && !ANSWERING.includes(route)) expect(route).toMatch(/^GET /)
  }
})

/**
 * Routes without their own Cedar action: policy is asked about the proposed call, or about the
 * approval of the link. A session alone permits nothing.
 */
const deciding = [
  'proposeCall',
  'proposeCallInNewRun',
  'showApproval',
  'followApproval',
  'consoleSignIn',
  'consoleSignOut',
]

test('every route except the open ones has a Cedar action, or asks policy itself', () => {
  for (const [name, { callers, action }] of routes) {
    if (callers.includes('anyone')) expect([name, action]).toEqual([name, null])
    else expect([name, action !== null || deciding.includes(name)]).toEqual([name, true])
  }
})

/** Still permits the tests' operator to restore the policies. */
const KEEPER = `permit (principal == Operator::"root", action in [Action::"policy.read", Action::"policy.write", Action::"policy.activate"], resource);`

test('L1 if policy permits nothing, every route refuses every caller', async () => {
  const none = Object.fromEntries(
    Object.keys(unwrap(await fixtures.root('readPolicies', {})).policies).map((name) => [name, null]),
  )
  const seen = await fixtures.withPolicies({ ...none, keeper: KEEPER }, measured)
  for (const [name, { method, path, callers }] of routes) {
    if (otherwise(callers) || deciding.includes(name)) continue
    if (callers.includes('installation')) continue // a tenant's policies don't apply to these; see test/edge/policy/installation.test.ts
    const letIn = Object.entries(seen[`${method} ${path}`] ?? {}).filter(([, said]) => said === 'in')
    expect([name, letIn]).toEqual([name, []])
  }
})

test('if policy permits everything, a route still admits only the kinds of callers that it names', async () => {
  const seen = await fixtures.withPolicies({ everything: 'permit (principal, action, resource);' }, measured)
  for (const [name, { method, path, callers }] of routes) {
    if (otherwise(callers)) continue
    const row = seen[`${method} ${path}`] ?? {}
    const letIn = Object.keys(row).filter((caller) => row[caller] === 'in')
    const kinds = letIn.map((caller) =>
      caller === 'agent' || caller === 'worker' ? caller : caller in operators ? 'operator' : caller,
    )
    expect([name, [...new Set(kinds)].sort()]).toEqual([name, [...callers].sort()])
  }
})
