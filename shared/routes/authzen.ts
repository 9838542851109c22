// Routes of the AuthZEN Authorization API 1.0. Its paths are those of the specification.

import { z } from 'zod'
import { LIMITS } from '../limits.ts'
import { AccessDecision, Evaluation, Evaluations } from '../wire/authzen.ts'
import { routes } from './route.ts'

export const ACCESS = '/access/v1'
export const REQUEST_ID = 'x-request-id'

/**
 * The specification answers another content type with 400, not with 415, so it is checked among the
 * headers.
 */
const headers = z.object({
  [REQUEST_ID]: z.string().max(LIMITS.request_id_chars).optional(),
  'content-type': z
    .string()
    .regex(/^application\/json(?:;\s*charset=utf-8)?$/i, 'must be `application/json`')
    .prefault(''),
})

export const AUTHZEN = routes({
  evaluateAccess: {
    method: 'POST',
    path: `${ACCESS}/evaluation`,
    callers: ['agent', 'operator'],
    action: 'decision.try',
    summary:
      'Evaluate by AuthZEN whether an agent may call a tool; it decides and binds nothing: no budget is used, nothing is attested',
    headers,
    body: Evaluation,
    status: 200,
    result: AccessDecision,
    failures: ['unavailable'],
  },
  evaluateAccesses: {
    method: 'POST',
    path: `${ACCESS}/evaluations`,
    callers: ['agent', 'operator'],
    action: 'decision.try',
    summary: 'Evaluate several AuthZEN requests at once, with defaults and a rule for when to stop',
    headers,
    body: Evaluations,
    status: 200,
    result: z.union([AccessDecision, z.strictObject({ evaluations: z.array(AccessDecision) })]),
    failures: ['unavailable'],
  },
  authzenConfiguration: {
    method: 'GET',
    path: '/.well-known/authzen-configuration',
    callers: ['anyone'],
    action: null,
    summary: 'Read where the AuthZEN routes are',
    status: 200,
    result: z.strictObject({
      policy_decision_point: z.string(),
      access_evaluation_endpoint: z.string(),
      access_evaluations_endpoint: z.string(),
    }),
    failures: [],
  },
})
