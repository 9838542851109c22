// Owns the measured subjects: the tools, the agent and the runs that the bench creates through the
// API, and the resulting requests. Each client has its own run, as agents at work would; one run
// that holds many calls and calls that each make a run are measured in addition.

import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import type { Result } from '../../shared/result.ts'
import type { Client, Output } from '../../shared/routes/client.ts'
import { bearer, client } from '../../shared/routes/client.ts'
import { PublicJwk } from '../../shared/wire/issuers.ts'
import type { ProcessToolSpec } from '../../shared/wire/tools.ts'
import { FRESH_KEY, type Request } from './connection.ts'
import type { Load } from './load.ts'

export const CLIENTS = 32

/** The requests of one HTTP subject, and the expected answer. */
export type SubjectRequests = Pick<Load, 'requests' | 'expect'>

export type Subjects = {
  readonly healthz: SubjectRequests
  readonly denial: SubjectRequests
  readonly dry_run: SubjectRequests
  /** The same by the same agent with a JSON Web Token in place of its key. */
  readonly dry_run_by_token: SubjectRequests
  readonly tier_b: SubjectRequests
  readonly tier_c: SubjectRequests
  /** The same in the run that is filled. */
  readonly denial_in_full_run: SubjectRequests
  readonly tier_c_in_full_run: SubjectRequests
  /** The same, where each call makes its own run: without a key, and with one as our clients send. */
  readonly denial_new_run: SubjectRequests
  readonly denial_keyed_run: SubjectRequests
  readonly tier_c_new_run: SubjectRequests
  readonly tier_c_keyed_run: SubjectRequests
  /** A finished call of tier C: the floor starts its plan. */
  readonly example: Output<'proposeCall'>
}

const LIMITS = {
  timeout_ms: 10_000,
  cpu_ms: 2_000,
  memory_bytes: 64 * 1024 * 1024,
  pids: 8,
  output_bytes: 4_096,
}

/** The cheapest program there is, so that only the overhead is measured. */
export const doesNothing = (tier: 'B' | 'C'): ProcessToolSpec => ({
  description: 'Does nothing, successfully.',
  input_schema: { type: 'object', properties: {}, additionalProperties: false },
  capabilities: [],
  executor: { kind: 'process', tiers: [tier], argv: ['true'], stdin: 'none' },
  egress: { mode: tier === 'C' ? 'strict' : 'none', hosts: [] },
  workspace: 'call',
  limits: LIMITS,
})

const BUDGET = { max_calls_per_run: 1_000_000, max_denied_per_run: 1_000_000, execution_timeout_ms: 10_000 }
/** Tier B reaches the worker's host, so policy allows it only to this group. */
const AGENT = { tools: ['bench_b', 'bench_c'], groups: ['worker-host-access'], budget: BUDGET }
/** A tool as `npm start` registers it, which this agent may not call. */
export const FORBIDDEN = { tool: 'process_run', args: { command: 'rm', args: ['-r', 'build'] } }

export async function makeSubjects(url: string, operator: Client): Promise<Subjects> {
  for (const [name, tier] of [
    ['bench_b', 'B'],
    ['bench_c', 'C'],
  ] as const)
    done(await operator('putTool', { params: { name }, body: doesNothing(tier) }))
  const { policies } = done(await operator('readPolicies', {}))
  const { 'tier-b': _asksEachTime, ...unasked } = policies // the bench has nobody to approve
  done(
    await operator('putPolicies', {
      body: { policies: unasked, note: 'the bench runs tier B without approval' },
    }),
  )
  const { key = '' } = done(await operator('putAgent', { params: { name: 'bench' }, body: AGENT }))
  const agent = client(url, bearer(key))
  const run = async (): Promise<string> => done(await agent('createRun', { body: {} })).id
  const runs = await Promise.all(Array.from({ length: CLIENTS }, run))
  const full = await run()

  const token = await tokenFor(url, operator)

  const post = (path: string, body: unknown, credential = key): Request => ({
    method: 'POST',
    path,
    headers: { authorization: `Bearer ${credential}`, 'content-type': 'application/json', prefer: 'wait=10' },
    body: JSON.stringify(body),
  })
  const propose = (to: readonly string[], body: unknown, contains: readonly string[]): SubjectRequests => ({
    requests: to.map((id) => post(`/v1/runs/${id}/calls`, body)),
    expect: { status: 200, contains: [...contains, '"attestation":{'] },
  })
  const own = (body: unknown, contains: readonly string[], keyed: boolean): SubjectRequests => {
    const { headers, ...request } = post('/v1/calls', body)
    return {
      requests: [{ ...request, headers: keyed ? { ...headers, 'idempotency-key': FRESH_KEY } : headers }],
      expect: { status: 200, contains: [...contains, '"attestation":{'] },
    }
  }
  const denied = ['"state":"denied"']
  const succeeded = ['"state":"succeeded"']
  const c = { tool: 'bench_c', args: {} }
  return {
    healthz: {
      requests: [{ method: 'GET', path: '/healthz', headers: {}, body: '' }],
      expect: { status: 200, contains: ['"ok":true'] },
    },
    denial: propose(runs, FORBIDDEN, denied),
    dry_run: {
      requests: [post('/v1/decisions', c)],
      expect: { status: 200, contains: ['"effect":"allow"'] },
    },
    dry_run_by_token: {
      requests: [post('/v1/decisions', c, token)],
      expect: { status: 200, contains: ['"effect":"allow"'] },
    },
    tier_b: propose(runs, { tool: 'bench_b', args: {} }, succeeded),
    tier_c: propose(runs, c, succeeded),
    denial_in_full_run: propose([full], FORBIDDEN, denied),
    tier_c_in_full_run: propose([full], c, succeeded),
    denial_new_run: own(FORBIDDEN, denied, false),
    denial_keyed_run: own(FORBIDDEN, denied, true),
    tier_c_new_run: own(c, succeeded, false),
    tier_c_keyed_run: own(c, succeeded, true),
    example: done(await agent('proposeCall', { params: { run: await run() }, body: c, wait: 20 })),
  }
}

/** A token of the agent that is valid for as long as a bench can take. */
async function tokenFor(url: string, operator: Client): Promise<string> {
  const { privateKey, publicKey } = await generateKeyPair('ES256', { extractable: true })
  const jwk = PublicJwk.parse({ ...(await exportJWK(publicKey)), kid: 'bench' })
  const issuer = 'https://bench.example'
  const rules = [{ claims: { sub: 'bench' }, agent: 'bench' }]
  done(
    await operator('putIssuer', {
      params: { name: 'bench' },
      body: { issuer, jwks: { keys: [jwk] }, rules, advertise: false },
    }),
  )
  return new SignJWT({ iss: issuer, sub: 'bench', aud: url })
    .setProtectedHeader({ alg: 'ES256', kid: 'bench' })
    .setIssuedAt()
    .setExpirationTime('12h')
    .sign(privateKey)
}

export function done<T>(answer: Result<T, { code: string; detail: string }>): T {
  if (!answer.ok)
    throw new Error(`the edge refused the bench's set-up: ${answer.error.code}: ${answer.error.detail}`)
  return answer.value
}
