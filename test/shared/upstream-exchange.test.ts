// Promise: the exchange that a statement names is the one that its plan allows and that its outcome
// needs; each field is compared.

import { describe, expect, test } from 'vitest'
import { sha256 } from '../../shared/bytes/json.ts'
import { contradictions } from '../../shared/evidence/contradictions.ts'
import {
  type Execution,
  ISOLATE,
  SANDBOXES,
  statementOf,
  UPSTREAM_CLIENT,
  type UpstreamExchange,
} from '../../shared/evidence/statement.ts'
import { DEFAULT_LIMITS } from '../../shared/limits.ts'
import type { Outcome, Plan, ProcessPlan } from '../../shared/plan/plan.ts'
import { EXCHANGE, executedBundle, statementIn, UPSTREAM_PLAN, upstreamBundle } from './evidence.ts'

const { facts, attestation_id } = statementIn(executedBundle()).predicate
const { connections } = statementIn(upstreamBundle()).predicate.execution
const UNSENT = { era: null, request_sha256: null, response_sha256: null }
const NOTHING = { bytes: 0, sha256: sha256(''), kept: 0, truncated: false }

/** The places that contradict, of those below the execution. */
function placesIn(execution: Partial<Execution>, plan: Plan): string[] {
  const statement = statementOf({
    attestation_id,
    state: 'succeeded',
    error: null,
    facts,
    grant: null,
    execution: {
      outcome: null,
      stdout: NOTHING,
      stderr: NOTHING,
      connections: [],
      executor: UPSTREAM_CLIENT,
      sandbox_enforcement: 'remote',
      profile_sha256: null,
      argv_sha256: null,
      limits: plan.limits,
      started_at_ms: 1,
      ended_at_ms: 2,
      ...execution,
    },
  })
  return contradictions(statement, { grant: null, plan })
    .filter(({ at }) => at.startsWith('/predicate/execution'))
    .map(({ at }) => at.slice('/predicate/execution'.length))
}

const placesOf = (
  outcome: Outcome,
  change: Partial<UpstreamExchange> = {},
  executor: string = UPSTREAM_CLIENT,
): string[] =>
  placesIn({ outcome, executor, connections, upstream: { ...EXCHANGE, ...change } }, UPSTREAM_PLAN)

/** A plan of tier C whose program is a server, and its exchange. */
const ON_WORKER: ProcessPlan = {
  tier: 'C',
  executor: {
    kind: 'process',
    argv: ['docs-mcp'],
    stdin: 'none',
    env: {},
    cwd: '',
    mcp: { method: 'tools/call', upstream: 'docs', tool: 'search', definition: sha256('definition') },
  },
  egress: { mode: 'strict', hosts: [] },
  secrets: [],
  workspace: 'call',
  limits: DEFAULT_LIMITS,
}
const LISTING: ProcessPlan = {
  ...ON_WORKER,
  executor: { ...ON_WORKER.executor, mcp: { method: 'tools/list', upstream: 'docs' } },
}

const placesOnWorker = (
  outcome: Outcome,
  change: Partial<UpstreamExchange> | null,
  plan: ProcessPlan = ON_WORKER,
): string[] =>
  placesIn(
    {
      outcome,
      executor: SANDBOXES.C,
      sandbox_enforcement: 'strict',
      profile_sha256: sha256('profile'),
      argv_sha256: sha256('argv'),
      ...(change === null
        ? {}
        : { upstream: { ...EXCHANGE, origin: 'stdio', era: 'legacy' as const, ...change } }),
    },
    plan,
  )

const RETURNED: Outcome = { kind: 'returned' }
const SILENT: Outcome = { kind: 'no_answer', detail: 'x' }
const REFUSED: Outcome = { kind: 'refused', code: 'upstream_unavailable', detail: 'x' }

describe('T01 a statement about a call of an upstream', () => {
  test.each<[string, Outcome, Partial<UpstreamExchange>]>([
    ['an answer', RETURNED, {}],
    ['a request without an answer', SILENT, { response_sha256: null }],
    ['no request', REFUSED, UNSENT],
    ['a request that was cancelled', { kind: 'cancelled' }, { response_sha256: null }],
  ])('T01 a statement about an upstream’s call with %s is accepted', (_, outcome, change) => {
    expect(placesOf(outcome, change)).toEqual([])
  })

  test.each<[string, Outcome, Partial<UpstreamExchange>, string]>([
    ['another upstream', RETURNED, { name: 'other' }, '/upstream/name'],
    ['another origin', RETURNED, { origin: 'https://evil.example.com' }, '/upstream/origin'],
    ['another definition', RETURNED, { definition_sha256: sha256('x') }, '/upstream/definition_sha256'],
    ['no protocol for a request', RETURNED, { era: null }, '/upstream/era'],
    ['a result without a request', RETURNED, { ...UNSENT }, '/upstream/request_sha256'],
    ['a result without an answer', RETURNED, { response_sha256: null }, '/upstream/response_sha256'],
    ['an answer where none came', SILENT, {}, '/upstream/response_sha256'],
  ])(
    'T01 a statement about an upstream’s call with %s is refused, and the field is named',
    (_, outcome, change, at) => {
      expect(placesOf(outcome, change)).toContain(at)
    },
  )

  test('T01 a statement about an upstream’s call with the ending of a process, or the isolate as executor, is refused', () => {
    expect(placesOf({ kind: 'exit', code: 0 })).toContain('/outcome')
    expect(placesOf(RETURNED, {}, ISOLATE)).toContain('/executor')
  })
})

describe('T01 a worker’s statement about a call of a server that it started', () => {
  test('is accepted with the exchange of its plan, and with none for a list of tools', () => {
    expect(placesOnWorker(RETURNED, {})).toEqual([])
    expect(placesOnWorker(SILENT, { response_sha256: null })).toEqual([])
    expect(placesOnWorker({ kind: 'refused', code: 'tool_changed', detail: 'x' }, UNSENT)).toEqual([])
    expect(placesOnWorker(RETURNED, null, LISTING)).toEqual([])
  })

  test.each<[string, Outcome, Partial<UpstreamExchange> | null, string]>([
    ['without an exchange', RETURNED, null, '/upstream'],
    ['with another upstream', RETURNED, { name: 'other' }, '/upstream/name'],
    ['with the origin of a remote server', RETURNED, { origin: EXCHANGE.origin }, '/upstream/origin'],
    ['with another definition', RETURNED, { definition_sha256: sha256('x') }, '/upstream/definition_sha256'],
    ['with a result that no request has', RETURNED, UNSENT, '/upstream/request_sha256'],
    ['with the exit of a process as its outcome', { kind: 'exit', code: 0 }, {}, '/outcome'],
  ])('%s is refused, and the field is named', (_, outcome, change, at) => {
    expect(placesOnWorker(outcome, change)).toContain(at)
  })

  test('about a list of tools is refused with an exchange', () => {
    expect(placesOnWorker(RETURNED, {}, LISTING)).toContain('/upstream')
  })
})
