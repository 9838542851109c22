// Promise: the exchange that a statement names is the one that its plan allows and that its outcome
// needs; each field is compared.

import { describe, expect, test } from 'vitest'
import { sha256 } from '../../shared/bytes/json.ts'
import { contradictions } from '../../shared/evidence/contradictions.ts'
import {
  ISOLATE,
  statementOf,
  UPSTREAM_CLIENT,
  type UpstreamExchange,
} from '../../shared/evidence/statement.ts'
import type { Outcome } from '../../shared/plan/plan.ts'
import { EXCHANGE, executedBundle, statementIn, UPSTREAM_PLAN } from './evidence.ts'

const { facts, attestation_id } = statementIn(executedBundle()).predicate
const UNSENT = { era: null, request_sha256: null, response_sha256: null }
const NOTHING = { bytes: 0, sha256: sha256(''), kept: 0, truncated: false }

/** The places that contradict, of those below the execution. */
function placesOf(
  outcome: Outcome,
  change: Partial<UpstreamExchange> = {},
  executor: string = UPSTREAM_CLIENT,
): string[] {
  const statement = statementOf({
    attestation_id,
    state: 'succeeded',
    error: null,
    facts,
    grant: null,
    execution: {
      outcome,
      stdout: NOTHING,
      stderr: NOTHING,
      connections: [],
      executor,
      sandbox_enforcement: 'remote',
      profile_sha256: null,
      argv_sha256: null,
      limits: UPSTREAM_PLAN.limits,
      upstream: { ...EXCHANGE, ...change },
      started_at_ms: 1,
      ended_at_ms: 2,
    },
  })
  const found = contradictions(statement, { grant: null, plan: UPSTREAM_PLAN })
  return found
    .filter(({ at }) => at.startsWith('/predicate/execution'))
    .map(({ at }) => at.slice('/predicate/execution'.length))
}

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
