// What operators may do with policies: each set is a version for good, one of them is in force, and every change says which it changes.

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

/** RFC 9110 §13.1.1: `*`, or tags of versions. A weak tag, or one of another kind, names no version and so matches none. */
const IfMatch = z
  .string()
  .max(1_000)
  .regex(
    /^(?:\*|(?:W\/)?"[\x21\x23-\x7e]*"(?:\s*,\s*(?:W\/)?"[\x21\x23-\x7e]*")*)$/,
    'send the `ETag` of the set in force, as it came: "7"',
  )
  .transform((text) =>
    text === '*'
      ? undefined
      : [...text.matchAll(/(?<!W\/)"([0-9]{1,9})"/g)].map(([, version]) => Number(version)),
  )
const expecting = z.strictObject({ 'if-match': IfMatch.optional() })

const PolicyVersion = z.strictObject({
  version: z.int(),
  digest: z.string(),
  note: z.string(),
  author: z.string(),
  created_at_ms: Time,
  active: z.boolean(),
  /** Whether it shadows the one in force. */
  shadow: z.boolean(),
  /** How many named texts it has. */
  policy_count: z.int(),
  /** The last time, if there was one. */
  activated_at_ms: Time.nullable(),
  activated_by: z.string().nullable(),
})
export type PolicyVersion = z.infer<typeof PolicyVersion>

/** What is no mistake but probably not meant: a rule that never applies, by file, line and column; or a `/note` that is not kept. */
export const Warnings = z.array(
  z.strictObject({ at: z.string(), message: z.string(), hint: z.string().optional() }),
)

const CheckedVersion = z.strictObject({ ...PolicyVersion.shape, warnings: Warnings })

const PolicyChange = z.strictObject({
  /** The policy's `@id`, or its text's name and its number there. */
  policy: z.string(),
  /** The name of the text that it is in; where it is removed, was in. */
  in: z.string(),
  change: z.enum(['added', 'removed', 'changed']),
  before: z.string().nullable(),
  after: z.string().nullable(),
})
export type PolicyChange = z.infer<typeof PolicyChange>

const Finding = z.strictObject({
  /** The text's name, line and column, where it has a place. */
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
      'The set in force, and the floor above it; its `ETag` is what `If-Match` takes. `policy_set` is how decisions name the two together',
    status: 200,
    result: z.strictObject({
      ...PolicyVersion.shape,
      policies: Texts,
      floor: Texts,
      policy_set: z.string(),
      /** What was in force before, and can be again. */
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
      'A new version of the tenant’s policy set; what the newest says already makes no other, and a new `note` of its author replaces its own until it has been in force. Putting it in force asks for `policy.activate` too. Without `If-Match` it takes the place of whatever is in force',
    headers: expecting,
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
    summary: 'Versions of the policy set, newest first; `before` is the last of the page before',
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
    summary: 'One version: its texts, and when and by whom it was put in force, the last time first',
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
    summary: 'Put a version in force, an older one too; it is checked as if it were put now',
    headers: expecting,
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
    summary: 'What a version would change: policy by policy, against the one in force or another',
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
      'What putting a set would find, and what would come of the calls that cases describe. Nothing is stored, runs or asks anybody. ' +
      'A file’s tools and agents stand beside the tenant’s, its operators in their place; without `policies` it is about the set in force',
    body: z.strictObject({ policies: PutTexts.optional(), cases: SentCases.optional() }),
    status: 200,
    result: z.strictObject({
      /** Why the set would not be stored; then no case is decided. */
      refusal: z.strictObject({ code: z.string(), detail: z.string() }).nullable(),
      findings: z.array(Finding),
      results: z.array(CaseResult),
    }),
    failures: ['invalid_schema', 'limit_reached'],
  },
})
