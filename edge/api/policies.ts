// What operators may do with policies: put a set, put a version in force, read and compare. What gets as far as the tenant's object would
// leave its author able to take it back.

import type { Failure, FieldError } from '../../shared/failures.ts'
import { failure } from '../../shared/failures.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Finding, PolicyVersion } from '../../shared/routes/policies.ts'
import type { Env } from '../bindings.ts'
import { tenantObject } from '../bindings.ts'
import { authorize } from '../decision/decide.ts'
import type { Loaded } from '../directory/directory.ts'
import type { Identified } from '../http/intake.ts'
import { headersOf } from '../http/response-headers.ts'
import { FLOOR, readyUnderFloor } from '../policy/built-in.ts'
import { checkPolicies } from '../policy/check.ts'
import { changesBetween } from '../policy/diff.ts'
import type { PolicySet, PolicyTexts } from '../policy/engine.ts'
import { allWarnings } from '../policy/lint.ts'
import type { Checked } from '../rehearsal/cases.ts'
import { aroundCases, decideCases } from '../rehearsal/cases.ts'
import type { Verbs } from './verb.ts'

type Names =
  | 'readPolicies'
  | 'putPolicies'
  | 'listPolicyVersions'
  | 'readPolicyVersion'
  | 'activatePolicyVersion'
  | 'diffPolicyVersions'
  | 'checkPolicies'

export const policyRoutes: Verbs<Names> = {
  async readPolicies({ env, caller }) {
    const { policyVersion, policies } = caller.directory
    const set = await here(env, caller).policyVersion(policyVersion)
    if (set === undefined) return err(gone(policyVersion))
    const { about, texts, previous } = set
    const body = { ...about, policies: texts, floor: FLOOR, policy_set: policies.digest, previous }
    return ok(
      new Response(JSON.stringify(body), {
        headers: { ...headersOf('application/json'), etag: `"${about.version}"` },
      }),
    )
  },

  async putPolicies({ env, caller, headers, body: { policies, note, activate } }) {
    const author = caller.principal.name
    const fit = fitToEnforce(caller, policies, activate)
    if (!fit.ok) return fit
    const put = await here(env, caller).putPolicies({
      policies,
      note,
      author,
      activate,
      expected: headers['if-match'],
    })
    if (!put.ok) return put
    const warnings = allWarnings(put.value.warnings, fit.value, caller.directory)
    return ok({ ...put.value, warnings: [...unnoted(note, author, put.value), ...warnings] })
  },

  async listPolicyVersions({ env, caller, query }) {
    return ok({ items: await here(env, caller).policyVersions(query.before) })
  },

  async readPolicyVersion({ env, caller, params }) {
    const set = await here(env, caller).policyVersion(params.version)
    return set === undefined
      ? err(gone(params.version))
      : ok({ ...set.about, policies: set.texts, activations: set.activations })
  },

  async activatePolicyVersion({ env, caller, params: { version }, headers }) {
    const set = await here(env, caller).policyVersion(version)
    if (set === undefined) return err(gone(version))
    const fit = fitToEnforce(caller, set.texts, true)
    if (!fit.ok) return fit
    const put = await here(env, caller).activatePolicies(version, caller.principal.name, headers['if-match'])
    return put.ok
      ? ok({ ...put.value, warnings: allWarnings(put.value.warnings, fit.value, caller.directory) })
      : put
  },

  async diffPolicyVersions({
    env,
    caller,
    params: { version },
    query: { against = caller.directory.policyVersion },
  }) {
    const [after, before] = await Promise.all(
      [version, against].map((each) => here(env, caller).policyVersion(each)),
    )
    if (after === undefined) return err(gone(version))
    if (before === undefined) return err(gone(against))
    return ok({ version, against, changes: changesBetween(before.texts, after.texts) })
  },

  async checkPolicies({ env, caller, body: { policies, cases } }) {
    const texts = policies ?? (await here(env, caller).policyVersion(caller.directory.policyVersion))?.texts
    if (texts === undefined) return err(gone(caller.directory.policyVersion))
    const around = cases === undefined ? ok(caller.directory) : aroundCases(caller.directory, cases)
    if (!around.ok) return around
    const checked = checkedAround(texts, around.value)
    const findings = findingsOf(caller, checked, around.value)
    if (!checked.ok)
      return ok({
        refusal: { code: checked.error.code, detail: checked.error.detail },
        findings,
        results: [],
      })
    const under = { ...around.value, policies: checked.value.set }
    const results = cases === undefined ? ok([]) : await decideCases(under, texts, cases, checkedAround)
    return results.ok ? ok({ refusal: null, findings, results: results.value }) : results
  },
}

/** What was sent with a set that is a version already, and stays as it was noted. */
function unnoted(note: string, by: string, { version, author, note: kept }: PolicyVersion): FieldError[] {
  if (note === '' || note === kept) return []
  const why = author === by ? 'has been in force under another' : `is \`${author}\`’s, whose note it keeps`
  return [
    { at: '/note', message: `the note is not kept: this set is version ${version} already, and ${why}` },
  ]
}

const here = (env: Env, { directory }: Identified) => tenantObject(env, directory.tenant)
const gone = (version: number): Failure => failure('not_found', `no version ${version} of the policy set`)

/** A tenant's set as it would be in force under the floor. */
function ready(texts: PolicyTexts): Result<PolicySet> {
  if (Object.keys(texts).length > LIMITS.policies)
    return err(failure('limit_reached', `a set holds ${LIMITS.policies} policies at the most`))
  return readyUnderFloor(texts)
}

/**
 * The same, held against the tools there are: all that putting it would find (the tenant's object checks again, where nothing changes
 * meanwhile).
 */
function checkedAround(texts: PolicyTexts, { tools }: Loaded): Result<Checked> {
  const set = ready(texts)
  if (!set.ok) return set
  const warnings = checkPolicies(
    texts,
    [...tools.values()].map(({ tool }) => tool),
  )
  return warnings.ok ? ok({ set: set.value, warnings: warnings.value }) : warnings
}

/** A set that can be worked with; and that, if it is to be enforced, this operator may enforce, and could undo. */
function fitToEnforce(caller: Identified, texts: PolicyTexts, enforce: boolean): Result<PolicySet> {
  const set = ready(texts)
  if (!set.ok || !enforce) return set
  if (!mayActivate(caller))
    return err(
      failure(
        'forbidden',
        'policy does not permit `policy.activate`; store the set with `activate: false`, and have it activated',
      ),
    )
  return mayActivate(caller, set.value) ? set : err(failure('invalid_policy', LOCKED_OUT))
}

/** A set under which nobody could put another in force would lock everybody out. */
const LOCKED_OUT =
  'under this set you could not put another in force any more; permit `policy.activate`, and scope each rule to the actions whose context it reads'

const mayActivate = ({ directory, principal }: Identified, policies = directory.policies): boolean =>
  authorize({ ...directory, policies }, principal, 'policy.activate').allowed

function findingsOf(caller: Identified, checked: Result<Checked>, around: Loaded): Finding[] {
  if (!checked.ok) {
    const { detail, errors = [{ at: 'policies', message: detail }] } = checked.error
    return errors.map((error) => ({ ...error, severity: 'error' as const }))
  }
  const { set, warnings } = checked.value
  const lockedOut = mayActivate(caller) && !mayActivate(caller, set)
  return [
    ...(lockedOut ? [{ at: 'policies', message: LOCKED_OUT, severity: 'error' as const }] : []),
    ...allWarnings(warnings, set, around).map((warning) => ({ ...warning, severity: 'warning' as const })),
  ]
}
