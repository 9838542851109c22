// Routes for policy sets. Each set is an immutable version, exactly one is active, and a change may
// name the version that it expects to replace (`If-Match`).

import { z } from 'zod'
import { Name } from '../fields.ts'
import { LIMITS } from '../limits.ts'
import { CaseResult, SentCases } from '../wire/policy-cases.ts'
import { list, number, routes } from './route.ts'

export const versioned = z.strictObject({
  version: z
    .string()
    .regex(/^[1-9][0-9]{0,8}$/, 'a version is a number, such as 7')
    .transform(Number),
})
const Texts = z.record(z.string(), z.string())
const PutTexts = z.record(Name, z.string().max(LIMITS.policy_bytes))
const Time = z.int().min(0)

/**
 * RFC 9110 §13.1.1: `*`, or tags of versions. A weak tag or a tag of another form matches no
 * version.
 */
const IfMatch = z
  .string()
  .max(1_000)
  .regex(
    /^(?:\*|(?:W\/)?"[\x21\x23-\x7e]*"(?:\s*,\s*(?:W\/)?"[\x21\x23-\x7e]*")*)$/,
    'send the `ETag` of the active set unchanged, such as "7"',
  )
  .transform((text) =>
    text === '*'
      ? undefined
      : [...text.matchAll(/(?<!W\/)"([0-9]{1,9})"/g)].map(([, version]) => Number(version)),
  )
const ifMatch = z.strictObject({ 'if-match': IfMatch.optional() })

const PolicyVersion = z.strictObject({
  version: z.int(),
  digest: z.string(),
  note: z.string(),
  author: z.string(),
  created_at_ms: Time,
  active: z.boolean(),
  /** Whether it shadows the active version. */
  shadow: z.boolean(),
  /** The number of its named texts. */
  policy_count: z.int(),
  /** When it was last activated, if ever. */
  activated_at_ms: Time.nullable(),
  activated_by: z.string().nullable(),
})
export type PolicyVersion = z.infer<typeof PolicyVersion>

/**
 * Probable mistakes that don't prevent storing: a rule that never applies (by file, line and
 * column), or a `/note` that is not stored.
 */
export const Warnings = z.array(
  z.strictObject({ at: z.string(), message: z.string(), hint: z.string().optional() }),
)

const CheckedVersion = z.strictObject({ ...PolicyVersion.shape, warnings: Warnings })

const PolicyChange = z.strictObject({
  /** The policy's `@id`, or its text's name and its number there. */
  policy: z.string(),
  /** The name of the text that contains the policy, or contained it before its removal. */
  in: z.string(),
  change: z.enum(['added', 'removed', 'changed']),
  before: z.string().nullable(),
  after: z.string().nullable(),
})
export type PolicyChange = z.infer<typeof PolicyChange>

const Finding = z.strictObject({
  /** The text's name, line and column, if the finding has a position. */
  at: z.string(),
  message: z.string(),
  hint: z.string().optional(),
  severity: z.enum(['error', 'warning']),
})
export type Finding = z.infer<typeof Finding>

export const POLICIES = routes({
  readPolicies: {
    method: 'GET',
    path: '/v1/policies',
    callers: ['operator'],
    action: 'policy.read',
    summary:
      'Read the active set and the floor above it; send its `ETag` as `If-Match` with a change. Decisions name the two together as `policy_set`',
    status: 200,
    result: z.strictObject({
      ...PolicyVersion.shape,
      policies: Texts,
      floor: Texts,
      policy_set: z.string(),
      /** The version that was active before this one. */
      previous: z.int().nullable(),
    }),
    failures: [],
  },
  putPolicies: {
    method: 'PUT',
    path: '/v1/policies',
    callers: ['operator'],
    action: 'policy.write',
    summary:
      'Store a new version of the tenant’s policy set, unless it equals the newest one; a new `note` by the same author then replaces the old one, until that version has been active. Activating it needs `policy.activate` too. Without `If-Match` it replaces whichever set is active',
    headers: ifMatch,
    body: z.strictObject({
      policies: PutTexts,
      note: z.string().max(LIMITS.reason_chars).default(''),
      activate: z.boolean().default(true),
    }),
    status: 200,
    result: CheckedVersion,
    failures: ['invalid_policy', 'limit_reached', 'version_conflict'],
  },
  listPolicyVersions: {
    method: 'GET',
    path: '/v1/policies/versions',
    callers: ['operator'],
    action: 'policy.read',
    summary:
      'List versions of the policy set, newest first; `before` is the last version of the previous page',
    query: z.strictObject({ before: number(1e9).default(1e9) }),
    status: 200,
    result: list(PolicyVersion),
    failures: [],
  },
  readPolicyVersion: {
    method: 'GET',
    path: '/v1/policies/versions/{version}',
    callers: ['operator'],
    action: 'policy.read',
    params: versioned,
    summary: 'Read a version: its texts, and its activations with time and operator, latest first',
    status: 200,
    result: z.strictObject({
      ...PolicyVersion.shape,
      policies: Texts,
      activations: z.array(z.strictObject({ at_ms: Time, by: z.string() })),
    }),
    failures: ['not_found'],
  },
  activatePolicyVersion: {
    method: 'POST',
    path: '/v1/policies/versions/{version}/activate',
    callers: ['operator'],
    action: 'policy.activate',
    params: versioned,
    summary: 'Activate a version, new or old; it is checked as if it were stored now',
    headers: ifMatch,
    status: 200,
    result: CheckedVersion,
    failures: ['not_found', 'invalid_policy', 'limit_reached', 'version_conflict'],
  },
  diffPolicyVersions: {
    method: 'GET',
    path: '/v1/policies/versions/{version}/diff',
    callers: ['operator'],
    action: 'policy.read',
    params: versioned,
    summary: 'Compare a version with the active one or with `against`, policy by policy',
    query: z.strictObject({ against: number(1e9).optional() }),
    status: 200,
    result: z.strictObject({ version: z.int(), against: z.int(), changes: z.array(PolicyChange) }),
    failures: ['not_found'],
  },
  checkPolicies: {
    method: 'POST',
    path: '/v1/policies/check',
    callers: ['operator'],
    action: 'policy.check',
    summary:
      'Check a set as if it were stored, and decide the calls that cases describe. Nothing is stored or run, and nobody is asked. ' +
      'Tools and agents of the cases are added to the tenant’s, operators replace the tenant’s; without `policies` the active set is checked',
    body: z.strictObject({ policies: PutTexts.optional(), cases: SentCases.optional() }),
    status: 200,
    result: z.strictObject({
      /** The reason why the set would not be stored; if there is one, no case is decided. */
      refusal: z.strictObject({ code: z.string(), detail: z.string() }).nullable(),
      findings: z.array(Finding),
      results: z.array(CaseResult),
    }),
    failures: ['invalid_schema', 'limit_reached'],
  },
})
