// Cedar: the only importer of the engine. Texts go in once, as a compiled set; requests come out as allow or deny with
// the policies that determined it. It knows nothing of calls, runs or tenants. No answer is a refusal (L6).

import type { CedarValueJson, EntityJson, TypeAndId } from '@cedar-policy/cedar-wasm/web'
import * as cedar from '@cedar-policy/cedar-wasm/web'
import wasm from '../node_modules/@cedar-policy/cedar-wasm/web/cedar_wasm_bg.wasm'
import type { FieldError } from '../shared/failures.ts'
import { failure } from '../shared/failures.ts'
import { digestOf } from '../shared/json.ts'
import { LIMITS } from '../shared/limits.ts'
import type { Result } from '../shared/result.ts'
import { err, ok } from '../shared/result.ts'
import type { Reads } from './policy-reads.ts'
import { readPart, readsApproval, readsOf, together } from './policy-reads.ts'

cedar.initSync({ module: wasm })

export type { CedarValueJson, EntityJson, TypeAndId }
export type PolicyTexts = Readonly<Record<string, string>>
/** `byApproval`: whether a human's yes may change what this policy says. */
export type Rule = {
  readonly reason: string | null
  readonly advice: string | null
  readonly effect: 'permit' | 'forbid'
  readonly byApproval: boolean
}

/** A policy set that the engine holds ready, under a name of its own. */
export type PolicySet = {
  readonly id: string
  readonly digest: string
  readonly rules: ReadonlyMap<string, Rule>
  readonly reads: Reads
  /** What was answered to which question, to the letter: nothing but the two goes into an answer, and a changed set begins anew. */
  readonly answers: Map<string, Verdict>
}
export type Question = {
  principal: TypeAndId
  action: string
  resource: TypeAndId
  context: Record<string, CedarValueJson>
  entities: EntityJson[]
}
export type Verdict = { readonly allowed: boolean; readonly policies: readonly string[]; readonly errors: readonly string[] }

/** Statements name the policies that determined a decision: what they can't hold can't be a name. */
const NAME = /^[\w.:/-](?:[\w.:/ -]{0,126}[\w.:/-])?$/

/**
 * Compiles the floor and a tenant's set as one. `slot` names where the engine keeps it: a tenant's new set takes the
 * place of its old one. Each policy is known by the `@id` it carries, or by its file's name and number.
 */
export function compile(slot: string, files: PolicyTexts): Result<PolicySet> {
  const texts: Record<string, string> = {}
  const rules = new Map<string, Rule>()
  const errors: FieldError[] = []
  const reads: Reads[] = []
  for (const [file, text] of Object.entries(files)) {
    const parts = cedar.policySetTextToParts(text)
    if (parts.type === 'failure') {
      errors.push(
        ...parts.errors.map(({ message, help, sourceLocations }) => ({
          at: place(file, text, sourceLocations?.[0]?.start),
          message: help === null ? message : `${message}: ${help}`,
        })),
      )
      continue
    }
    if (parts.policy_templates.length > 0) errors.push({ at: file, message: 'templates are not supported; write the policy out' })
    for (const [index, policy] of parts.policies.entries()) {
      const read = cedar.policyToJson(policy)
      if (read.type === 'failure') {
        errors.push(...read.errors.map(({ message }) => ({ at: file, message })))
        continue
      }
      const notes = read.json.annotations ?? {}
      const found = readsOf(read.json)
      reads.push(found)
      const id = notes['id'] ?? `${file}/${index + 1}`
      if (!NAME.test(id)) errors.push({ at: file, message: 'an id has 1 to 128 characters: letters, digits, blanks and `_.:/-`' })
      if (rules.has(id)) errors.push({ at: file, message: `the id \`${id}\` is taken; name each policy once` })
      texts[id] = policy
      const { effect } = read.json
      rules.set(id, { reason: notes['reason'] ?? null, advice: notes['advice'] ?? null, effect, byApproval: readsApproval(found) })
    }
  }
  if (rules.size > LIMITS.policies) errors.push({ at: 'policies', message: `more than ${LIMITS.policies} policies, the floor's included` })
  if (errors.length > 0) return err(failure('invalid_policy', `${errors.length} mistakes in the policies`, errors))
  // A name of its own for each set: who still holds an older one must not be answered by a newer.
  const digest = digestOf(texts)
  const id = `${slot} ${digest}`
  const answer = cedar.preparsePolicySet(id, { staticPolicies: texts })
  if (answer.type === 'failure') {
    return err(
      failure(
        'invalid_policy',
        'the policy set does not parse',
        answer.errors.map(({ message }) => ({ at: 'policies', message })),
      ),
    )
  }
  return ok({ id, digest, rules, reads: together(reads), answers: new Map() })
}

function place(file: string, text: string, offset: number | undefined): string {
  if (offset === undefined) return file
  const before = text.slice(0, offset).split('\n')
  return `${file}:${before.length}:${(before.at(-1)?.length ?? 0) + 1}`
}

/** Of a context, what the set can read: handing over the rest costs time and changes nothing. */
export function readable(set: PolicySet, context: Record<string, CedarValueJson>): Record<string, CedarValueJson> {
  return readPart(set.reads.context, context) as Record<string, CedarValueJson> // part of a record is a record
}

/** Whether a denial stands whatever humans answer: a forbid determined it that reads nothing of approvals. */
export const standsRegardless = (set: PolicySet, { policies, errors }: Verdict): boolean =>
  errors.length === 0 && policies.some((id) => set.rules.get(id)?.effect === 'forbid' && set.rules.get(id)?.byApproval === false)

const ANSWERS_KEPT = 1_000
const LONGEST_KEPT = 2_048

/** One question. The engine is asked once for each: what policies read repeats far more than calls do. */
export function ask(set: PolicySet, question: Question): Verdict {
  const text = JSON.stringify(question)
  const known = set.answers.get(text)
  if (known !== undefined) return known
  const verdict = evaluate(set, question)
  if (set.answers.size >= ANSWERS_KEPT) set.answers.clear()
  if (text.length <= LONGEST_KEPT) set.answers.set(text, verdict)
  return verdict
}

/** Cedar skips a policy that errs, a forbid too: so any error is a denial. */
function evaluate(set: PolicySet, question: Question): Verdict {
  const answer = cedar.statefulIsAuthorized({
    principal: question.principal,
    action: { type: 'Action', id: question.action },
    resource: question.resource,
    context: question.context,
    entities: question.entities,
    preparsedPolicySetId: set.id,
  })
  if (answer.type === 'failure') return { allowed: false, policies: [], errors: answer.errors.map(({ message }) => message) }
  const { decision, diagnostics } = answer.response
  const errors = diagnostics.errors.map(({ policyId, error }) => `${policyId}: ${error.message}`)
  return { allowed: decision === 'allow' && errors.length === 0, policies: diagnostics.reason, errors }
}
