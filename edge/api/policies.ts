// Verbs of operators on policies: store, activate, read, compare and check sets. A set under which
// its author could not activate another one is refused before it reaches the tenant's object.

import type { Failure, FieldError } from '../../shared/failures.ts'
import { failure } from '../../shared/failures.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Finding, PolicyVersion } from '../../shared/routes/policies.ts'
import type { Env } from '../bindings.ts'
import { tenantObject } from '../bindings.ts'
import { authorize } from '../decision/decide.ts'
import type { LoadedDirectory } from '../directory/loaded-directory.ts'
import type { Identified } from '../http/intake.ts'
import { headersOf } from '../http/response-headers.ts'
import { compileWithFloor, FLOOR } from '../policy/built-in.ts'
import { checkPolicies } from '../policy/check.ts'
import { changesBetween } from '../policy/diff.ts'
import type { PolicySet, PolicyTexts } from '../policy/engine.ts'
import { allWarnings } from '../policy/lint.ts'
import type { CheckedSet } from '../rehearsal/cases.ts'
import { decideCases, withCaseFixtures } from '../rehearsal/cases.ts'
import type { Verbs } from './verb.ts'

type RouteNames =
  | 'readPolicies'
  | 'putPolicies'
  | 'listPolicyVersions'
  | 'readPolicyVersion'
  | 'activatePolicyVersion'
  | 'diffPolicyVersions'
  | 'checkPolicies'

export const policyRoutes: Verbs<RouteNames> = {
  async readPolicies({ env, caller }) {
    const { policyVersion, policies } = caller.directory
    const set = await tenantOf(env, caller).policyVersion(policyVersion)
    if (set === undefined) return err(noVersion(policyVersion))
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
    const compiled = compileForUse(caller, policies, activate)
    if (!compiled.ok) return compiled
    const put = await tenantOf(env, caller).putPolicies({
      policies,
      note,
      author,
      activate,
      expected: headers['if-match'],
    })
    if (!put.ok) return put
    const warnings = allWarnings(put.value.warnings, compiled.value, caller.directory)
    return ok({ ...put.value, warnings: [...noteWarnings(note, author, put.value), ...warnings] })
  },

  async listPolicyVersions({ env, caller, query }) {
    return ok({ items: await tenantOf(env, caller).policyVersions(query.before) })
  },

  async readPolicyVersion({ env, caller, params }) {
    const set = await tenantOf(env, caller).policyVersion(params.version)
    return set === undefined
      ? err(noVersion(params.version))
      : ok({ ...set.about, policies: set.texts, activations: set.activations })
  },

  async activatePolicyVersion({ env, caller, params: { version }, headers }) {
    const set = await tenantOf(env, caller).policyVersion(version)
    if (set === undefined) return err(noVersion(version))
    const compiled = compileForUse(caller, set.texts, true)
    if (!compiled.ok) return compiled
    const put = await tenantOf(env, caller).activatePolicies(
      version,
      caller.principal.name,
      headers['if-match'],
    )
    return put.ok
      ? ok({ ...put.value, warnings: allWarnings(put.value.warnings, compiled.value, caller.directory) })
      : put
  },

  async diffPolicyVersions({
    env,
    caller,
    params: { version },
    query: { against = caller.directory.policyVersion },
  }) {
    const [after, before] = await Promise.all(
      [version, against].map((each) => tenantOf(env, caller).policyVersion(each)),
    )
    if (after === undefined) return err(noVersion(version))
    if (before === undefined) return err(noVersion(against))
    return ok({ version, against, changes: changesBetween(before.texts, after.texts) })
  },

  async checkPolicies({ env, caller, body: { policies, cases } }) {
    const texts =
      policies ?? (await tenantOf(env, caller).policyVersion(caller.directory.policyVersion))?.texts
    if (texts === undefined) return err(noVersion(caller.directory.policyVersion))
    const around = cases === undefined ? ok(caller.directory) : withCaseFixtures(caller.directory, cases)
    if (!around.ok) return around
    const checked = checkWithTools(texts, around.value)
    const findings = findingsOf(caller, checked, around.value)
    if (!checked.ok)
      return ok({
        refusal: { code: checked.error.code, detail: checked.error.detail },
        findings,
        results: [],
      })
    const under = { ...around.value, policies: checked.value.set }
    const results = cases === undefined ? ok([]) : await decideCases(under, texts, cases, checkWithTools)
    return results.ok ? ok({ refusal: null, findings, results: results.value }) : results
  },
}

/** Warns that the note is dropped, because the set already exists as a version with a note. */
function noteWarnings(
  note: string,
  by: string,
  { version, author, note: kept }: PolicyVersion,
): FieldError[] {
  if (note === '' || note === kept) return []
  const why =
    author === by
      ? 'keeps the note under which it was in force'
      : `keeps the note of its author \`${author}\``
  return [
    {
      at: '/note',
      message: `the note was dropped: this set already exists as version ${version}, which ${why}`,
    },
  ]
}

const tenantOf = (env: Env, { directory }: Identified) => tenantObject(env, directory.tenant)
const noVersion = (version: number): Failure =>
  failure('not_found', `no version ${version} of the policy set`)

/** Compiles a tenant's set under the floor. */
function compileUnderFloor(texts: PolicyTexts): Result<PolicySet> {
  if (Object.keys(texts).length > LIMITS.policies)
    return err(failure('limit_reached', `a set holds at most ${LIMITS.policies} policies`))
  return compileWithFloor(texts)
}

/**
 * Also checks the set against the tenant's tools, as storing it would. The tenant's object repeats
 * the check, because tools may change in between.
 */
function checkWithTools(texts: PolicyTexts, { tools }: LoadedDirectory): Result<CheckedSet> {
  const set = compileUnderFloor(texts)
  if (!set.ok) return set
  const warnings = checkPolicies(
    texts,
    [...tools.values()].map(({ tool }) => tool),
  )
  return warnings.ok ? ok({ set: set.value, warnings: warnings.value }) : warnings
}

/**
 * Compiles a set. If it is to be enforced, this operator must be able to activate it and to undo
 * that.
 */
function compileForUse(caller: Identified, texts: PolicyTexts, enforce: boolean): Result<PolicySet> {
  const set = compileUnderFloor(texts)
  if (!set.ok || !enforce) return set
  if (!mayActivate(caller))
    return err(
      failure(
        'forbidden',
        'policy does not grant you `policy.activate`; store the set with `activate: false` and ask another operator to activate it',
      ),
    )
  return mayActivate(caller, set.value) ? set : err(failure('invalid_policy', LOCKED_OUT))
}

/** A set under which nobody could activate another one would lock everybody out. */
const LOCKED_OUT =
  'under this set you could not activate another one; permit `policy.activate`, and scope each rule to the actions whose context it reads'

const mayActivate = ({ directory, principal }: Identified, policies = directory.policies): boolean =>
  authorize({ ...directory, policies }, principal, 'policy.activate').allowed

function findingsOf(caller: Identified, checked: Result<CheckedSet>, around: LoadedDirectory): Finding[] {
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
