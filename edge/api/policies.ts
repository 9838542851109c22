// What operators may do with policies: put a set, put a version in force, read and compare. What gets as far as the tenant's object would
// leave its author able to take it back.

import type { Failure } from '../../shared/failures.ts'
import { failure } from '../../shared/failures.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Verbs } from '../app.ts'
import { authorize } from '../decide.ts'
import type { Env } from '../env.ts'
import { tenantObject } from '../env.ts'
import { headersOf } from '../headers.ts'
import type { Identified } from '../intake.ts'
import { FLOOR, underFloor } from '../policies.ts'
import type { PolicyTexts } from '../policy.ts'
import { compile } from '../policy.ts'
import { changesBetween } from '../policy-diff.ts'

type Names = 'readPolicies' | 'putPolicies' | 'listPolicyVersions' | 'readPolicyVersion' | 'activatePolicyVersion' | 'diffPolicyVersions'

export const policyRoutes: Verbs<Names> = {
  async readPolicies({ env, caller }) {
    const { policyVersion, policies } = caller.directory
    const set = await here(env, caller).policyVersion(policyVersion)
    if (set === undefined) return err(gone(policyVersion))
    const { about, texts, previous } = set
    const body = { ...about, policies: texts, floor: FLOOR, policy_set: policies.digest, previous }
    return ok(new Response(JSON.stringify(body), { headers: { ...headersOf('application/json'), etag: `"${about.version}"` } }))
  },

  async putPolicies({ env, caller, headers, body: { policies, note, activate } }) {
    const author = caller.principal.name
    if (Object.keys(policies).length > LIMITS.policies)
      return err(failure('limit_reached', `a set holds ${LIMITS.policies} policies at the most`))
    const fit = fitToEnforce(caller, policies, activate)
    return fit.ok ? here(env, caller).putPolicies({ policies, note, author, activate, expected: headers['if-match'] }) : fit
  },

  async listPolicyVersions({ env, caller, query }) {
    return ok({ items: await here(env, caller).policyVersions(query.before) })
  },

  async readPolicyVersion({ env, caller, params }) {
    const set = await here(env, caller).policyVersion(params.version)
    return set === undefined ? err(gone(params.version)) : ok({ ...set.about, policies: set.texts, activations: set.activations })
  },

  async activatePolicyVersion({ env, caller, params: { version }, headers }) {
    const set = await here(env, caller).policyVersion(version)
    if (set === undefined) return err(gone(version))
    const fit = fitToEnforce(caller, set.texts, true)
    return fit.ok ? here(env, caller).activatePolicies(version, caller.principal.name, headers['if-match']) : fit
  },

  async diffPolicyVersions({ env, caller, params: { version }, query: { against = caller.directory.policyVersion } }) {
    const [after, before] = await Promise.all([version, against].map((each) => here(env, caller).policyVersion(each)))
    if (after === undefined) return err(gone(version))
    if (before === undefined) return err(gone(against))
    return ok({ version, against, changes: changesBetween(before.texts, after.texts) })
  },
}

const here = (env: Env, { directory }: Identified) => tenantObject(env, directory.tenant)
const gone = (version: number): Failure => failure('not_found', `no version ${version} of the policy set`)

/** Whether a set can be worked with; and, if it is to be enforced, whether this operator may do that, and could undo it. */
function fitToEnforce({ directory, principal }: Identified, texts: PolicyTexts, enforce: boolean): Result<true> {
  const whole = underFloor(texts)
  if (!whole.ok) return whole
  const compiled = compile(whole.value)
  if (!compiled.ok) return compiled
  if (!enforce) return ok(true)
  if (!authorize(directory, principal, 'policy.activate').allowed)
    return err(
      failure('forbidden', 'policy does not permit `policy.activate`; store the set with `activate: false`, and have it activated'),
    )
  // A set under which nobody could put another in force would lock everybody out.
  if (authorize({ ...directory, policies: compiled.value }, principal, 'policy.activate').allowed) return ok(true)
  return err(
    failure(
      'invalid_policy',
      'under this set you could not put another in force any more; permit `policy.activate`, and scope each rule to the actions whose context it reads',
    ),
  )
}
