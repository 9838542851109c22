// Cedar: the only importer of the engine. Texts go in once, as a compiled set; requests come out as allow or deny with
// the policies that determined it. It knows nothing of calls, runs or tenants. No answer is a refusal (L6).

import type {
  CedarValueJson,
  DetailedError,
  EntityJson,
  EntityUidJson,
  Expr,
  PolicyJson,
  SchemaJson,
  TypeAndId,
} from '@cedar-policy/cedar-wasm/web'
import * as cedar from '@cedar-policy/cedar-wasm/web'
import wasm from '../node_modules/@cedar-policy/cedar-wasm/web/cedar_wasm_bg.wasm'
import type { FieldError } from '../shared/failures.ts'
import { digestOf } from '../shared/json.ts'
import { LIMITS } from '../shared/limits.ts'
import type { Result } from '../shared/result.ts'
import { err, ok } from '../shared/result.ts'
import { meantBy } from './policy-hints.ts'
import type { Part } from './policy-parts.ts'
import { partsOf } from './policy-parts.ts'
import type { Reads } from './policy-reads.ts'
import { readPart, readsApproval, readsOf, together } from './policy-reads.ts'
import type { Scope, Subject } from './policy-slices.ts'
import { idOf, scopeOf, slicer } from './policy-slices.ts'
import { bytePlace, invalidPolicies, place, readTexts, SHOWN } from './policy-text.ts'

cedar.initSync({ module: wasm })

export type { CedarValueJson, EntityJson, Expr }
export type Schema = SchemaJson<string>
export type PolicyTexts = Readonly<Record<string, string>>
/** `byApproval`: whether a human's yes may change what this policy says. */
export type Rule = {
  readonly reason: string | null
  readonly advice: string | null
  readonly effect: 'permit' | 'forbid'
  readonly byApproval: boolean
  readonly source: Source
  /** What it takes to hold it against an action that its scope covers. */
  readonly weight: Weight
  /** When it applies, in Cedar's own syntax tree: what an explanation reads. Its action always does there: a slice has no others. */
  readonly applies: Pick<PolicyJson, 'principal' | 'action' | 'resource' | 'conditions'>
}
/** `parts` of a syntax tree; those of them where something may be wrong; and characters of patterns that texts are looked through for. */
type Weight = { readonly scope: Scope; readonly parts: number; readonly steps: number; readonly patterns: number }
/** A policy's text, the file that it is from, and where in that it begins. */
type Source = { readonly file: string; readonly whole: string; readonly at: number; readonly text: string }

/**
 * The policies of a set that can matter to a subject. `yesPermits`: whether a human's yes may make one of its permits hold. `patterns`:
 * characters that texts are looked through for. `within`: the larger one that the engine is asked in its stead.
 */
export type Slice = {
  readonly texts: PolicyTexts
  readonly reads: Reads
  readonly yesPermits: boolean
  readonly patterns: number
  readonly within: Slice | null
}
export type PolicySet = {
  readonly digest: string
  readonly rules: ReadonlyMap<string, Rule>
  readonly reads: Reads
  readonly sliceFor: (subject: Subject) => Slice
  /** What was answered to which question, to the letter: nothing but the two goes into an answer, and a changed set begins anew. */
  readonly answers: Map<string, Verdict>
}
/** What a set is asked about: the subject, and the slice that can matter to it. */
export type Matter = { readonly set: PolicySet; readonly slice: Slice; readonly subject: Subject }
export type Verdict = { readonly allowed: boolean; readonly policies: readonly string[]; readonly errors: readonly string[] }

/** Statements name the policies that determined a decision: what they can't hold can't be a name. */
const NAME = /^[\w.:/-](?:[\w.:/ -]{0,126}[\w.:/-])?$/

/** What a decision names where it was not a policy that determined it. The floor's ids are taken by the floor. */
const RESERVED: ReadonlySet<string> = new Set([
  'run.budget',
  'session.budget',
  'tool.egress',
  'tool.executables',
  'tool.workspace',
  'vault.secrets',
  'skill.state',
])

/** Sets by the digest of their files, the latest last: a directory changes far more often than its policies do. */
const compiled = new Map<string, PolicySet>()
const SETS_KEPT = 16

/** The floor and a tenant's set as one, made ready once. Each policy is known by the `@id` it carries, or by its file's name and number. */
export function compile(files: PolicyTexts): Result<PolicySet> {
  const name = digestOf(files)
  const known = compiled.get(name)
  const made = known === undefined ? make(files) : ok(known)
  if (!made.ok) return made
  compiled.delete(name)
  compiled.set(name, made.value)
  const [oldest] = compiled.keys()
  if (compiled.size > SETS_KEPT && oldest !== undefined) compiled.delete(oldest)
  return made
}

type Member = {
  readonly id: string
  readonly text: string
  readonly effect: Rule['effect']
  readonly scope: Scope
  readonly reads: Reads
  readonly patterns: number
}

function make(files: PolicyTexts): Result<PolicySet> {
  const { unfit } = readTexts(files)
  if (unfit.length > 0) return invalidPolicies(unfit)
  const members: Member[] = []
  const rules = new Map<string, Rule>()
  const errors: FieldError[] = []
  for (const [file, text] of Object.entries(files)) {
    const parts = cedar.policySetTextToParts(text)
    if (parts.type === 'failure') {
      for (const error of parts.errors.slice(0, SHOWN)) {
        const { start, message, hint } = saying(error)
        errors.push({ at: start === undefined ? file : bytePlace(file, text, start), message, ...(hint === undefined ? {} : { hint }) })
      }
      continue
    }
    if (parts.policy_templates.length > 0) errors.push({ at: file, message: 'templates are not supported; write the policy out' })
    const written = inOrder(text, parts.policies)
    if (written.length !== parts.policies.length)
      errors.push({ at: file, message: 'these policies can’t be told apart; write them in several files' })
    for (const [index, { at, text: policy }] of written.entries()) {
      const read = cedar.policyToJson(policy)
      if (read.type === 'failure') {
        errors.push(...read.errors.map(({ message }) => ({ at: file, message })))
        continue
      }
      const notes = read.json.annotations ?? {}
      const reads = readsOf(read.json)
      const id = nameOf(notes, file, index)
      if (RESERVED.has(id)) errors.push({ at: place(file, text, at), message: `the id \`${id}\` is the edge’s own; choose another` })
      if (!NAME.test(id)) errors.push({ at: file, message: 'an id has 1 to 128 characters: letters, digits, blanks and `_.:/-`' })
      const namesake = rules.get(id)
      if (namesake !== undefined)
        errors.push({ at: file, message: `the id \`${id}\` is taken by a policy of \`${namesake.source.file}\`; name each policy once` })
      const { effect, principal, action, resource, conditions } = read.json
      const weight = { scope: scopeOf(read.json), parts: 0, steps: 0, patterns: 0 }
      weigh(conditions, weight)
      members.push({ id, text: policy, effect, scope: weight.scope, reads, patterns: weight.patterns })
      rules.set(id, {
        reason: notes['reason'] ?? null,
        advice: notes['advice'] ?? null,
        effect,
        byApproval: readsApproval(reads),
        source: { file, whole: text, at, text: policy },
        weight,
        applies: { principal, action, resource, conditions },
      })
    }
  }
  if (errors.length > 0) return invalidPolicies(errors)
  const whole = sliceOf(members, null)
  return ok({
    digest: digestOf(whole.texts),
    rules,
    reads: whole.reads,
    sliceFor: slicer(members, sliceOf),
    answers: new Map(),
  })
}

/** Trees are no deeper than `policy_depth`. Nothing is wrong with a value or a variable by itself, only with what is done to it. */
function weigh(tree: unknown, weight: { parts: number; steps: number; patterns: number }): void {
  weight.parts++
  if (typeof tree !== 'object' || tree === null) return
  if (!('Value' in tree || 'Var' in tree)) weight.steps++
  for (const [name, part] of Object.entries(tree)) {
    if (name === 'pattern' && Array.isArray(part))
      weight.patterns += 1 + part.length // of single characters
    else weigh(part, weight)
  }
}

const sliceOf = (members: readonly Member[], within: Slice | null): Slice => ({
  texts: Object.fromEntries(members.map(({ id, text }) => [id, text])),
  reads: together(members.map(({ reads }) => reads)),
  yesPermits: members.some(({ effect, reads }) => effect === 'permit' && readsApproval(reads)),
  patterns: members.reduce((sum, { patterns }) => sum + patterns, 0),
  within,
})

/** The policies that the engine found, as they follow each other in the text. */
function inOrder(text: string, policies: readonly string[]): Part[] {
  const found = new Set(policies)
  return partsOf(text).filter((part) => found.has(part.text))
}

const nameOf = (notes: Readonly<Record<string, string | null>>, file: string, index: number): string =>
  notes['id'] ?? `${file}/${index + 1}`

/** The policies of files by name, each as it was written. A file that does not parse, or no longer, counts as one. */
export function policiesIn(files: PolicyTexts): Map<string, { file: string; text: string }> {
  const found = new Map<string, { file: string; text: string }>()
  for (const [file, text] of Object.entries(files)) {
    const parts = cedar.policySetTextToParts(text)
    const policies =
      parts.type === 'success'
        ? inOrder(text, parts.policies).map((part) => ({ policy: part.text, read: cedar.policyToJson(part.text) }))
        : []
    if (parts.type === 'failure') found.set(file, { file, text })
    for (const [index, { policy, read }] of policies.entries())
      found.set(nameOf(read.type === 'success' ? (read.json.annotations ?? {}) : {}, file, index), { file, text: policy })
  }
  return found
}

/** What the engine says of a text, where its offset counts bytes. */
type Said = { readonly start: number | undefined; readonly message: string; readonly hint?: string }
export type SaidOf = Said & { readonly policy: string }

/** Without the name that the engine gave the policy: it is told by its place. */
const unnamed = (words: string): string => words.replace(/^failed to parse policies from string: |for policy `[^`]*`, /g, '')

function saying({ message, help, sourceLocations }: DetailedError): Said {
  const [first] = sourceLocations ?? []
  const hint = meantBy(unnamed(message)) ?? help ?? first?.label ?? undefined
  return { start: first?.start, message: unnamed(message), ...(hint === undefined ? {} : { hint: unnamed(hint) }) }
}

/** A schema text as the engine reads it. Ours alone come here: one that does not parse is a bug. */
export function readSchema(text: string): Schema {
  const read = cedar.schemaToJson(text)
  if (read.type === 'failure') throw new Error(`the policy schema does not parse: ${read.errors.map(({ message }) => message).join('; ')}`)
  return read.json
}

/** What Cedar's strict validator says of policies by name: errors, and what is probably not meant. */
export function validate(schema: Schema, texts: PolicyTexts): { errors: readonly SaidOf[]; warnings: readonly SaidOf[] } {
  const answer = cedar.validate({ schema, policies: { staticPolicies: texts }, validationSettings: { mode: 'strict' } })
  if (answer.type === 'failure') throw new Error(`policies that compile do not parse: ${answer.errors.map(({ message }) => message)}`) // a bug
  const said = (all: readonly { policyId: string; error: DetailedError }[]): SaidOf[] =>
    all.map(({ policyId, error }) => ({ ...saying(error), policy: policyId }))
  return { errors: said(answer.validationErrors), warnings: said(answer.validationWarnings) }
}

/**
 * The policies that can apply to a subject. The resource's entity is omitted where they read nothing of it; it is kept where it is also the
 * principal, or has another entity as a member, because a policy can then read it through them.
 */
export function about(set: PolicySet, subject: Subject): Matter {
  const slice = set.sliceFor(subject)
  const { principal, resource, entities } = subject
  const isResource = (uid: EntityUidJson): boolean => isSame(idOf(uid), resource)
  const needed = slice.reads.resource || isSame(principal, resource) || entities.some(({ parents }) => parents.some(isResource))
  return { set, slice, subject: needed ? subject : { ...subject, entities: entities.filter(({ uid }) => !isResource(uid)) } }
}

const isSame = (one: TypeAndId, other: TypeAndId): boolean => one.type === other.type && one.id === other.id

/** Of a context, what can be read in this matter: handing over the rest costs time and changes nothing. */
export function readable({ slice }: Matter, context: Record<string, CedarValueJson>): Record<string, CedarValueJson> {
  return readPart(slice.reads.context, context) as Record<string, CedarValueJson> // part of a record is a record
}

/**
 * Whether a denial stands whatever humans answer: a forbid determined it that reads nothing of approvals, or no permit holds and none
 * reads them.
 */
export const standsRegardless = ({ set: { rules }, slice }: Matter, { policies, errors }: Verdict): boolean =>
  errors.length === 0 && (policies.length === 0 ? !slice.yesPermits : policies.some((id) => rules.get(id)?.byApproval === false))

const ANSWERS_KEPT = 1_000
const LONGEST_KEPT = 2_048

/**
 * One question. The engine is asked once for each: what policies read repeats far more than calls do. And it can't be stopped: what would
 * keep all others waiting is not asked.
 */
export function ask(matter: Matter, context: Record<string, CedarValueJson>): Verdict {
  const { answers } = matter.set
  const text = JSON.stringify([matter.subject, context])
  const known = answers.get(text)
  if (known !== undefined) return known
  const { patterns } = matter.slice
  const looks = patterns * text.length
  if (looks > LIMITS.policy_looks)
    return { allowed: false, policies: [], errors: [`${patterns} characters of patterns are too many for ${text.length} of a question`] } // L6
  const verdict = evaluate(matter, context)
  if (answers.size >= ANSWERS_KEPT) answers.clear()
  if (text.length <= LONGEST_KEPT && verdict.errors.length === 0) answers.set(text, verdict)
  return verdict
}

/** Cedar skips a policy that errs, a forbid too: so any error is a denial. Nothing of it is kept: for what is only supposed. */
export function evaluate(matter: Matter, context: Record<string, CedarValueJson>): Verdict {
  try {
    return evaluated(matter, context)
  } catch (thrown) {
    return { allowed: false, policies: [], errors: [`the engine broke off: ${String(thrown)}`] } // L6: no answer is a refusal
  }
}

/** Types and names that no policy can mention, so a policy that covers them covers everything. */
const ANYTHING = { action: { type: 'Action', id: 'anything' }, resource: { type: 'Lint', id: 'anything' } }

/**
 * Whether a permit allows some principal every action on every resource. It tries an action and a resource that don't exist, with an empty
 * context; a permit that reads any of these does not match. `people`: the principals to try, with all their groups.
 */
export const permitsAnything = (text: string, people: readonly EntityJson[]): boolean =>
  people.some(({ uid, ...rest }) => {
    const policies = { staticPolicies: { it: text } }
    const entities = [{ uid, ...rest }]
    const answer = cedar.isAuthorized({ principal: idOf(uid), ...ANYTHING, context: {}, entities, policies })
    return answer.type === 'success' && answer.response.decision === 'allow'
  })

/** Whether the engine answers at all: a module of WebAssembly that was hurt once stays hurt. */
export function engineAnswers(): boolean {
  const nobody = { type: 'Tenant', id: '' }
  try {
    const policies = { staticPolicies: 'permit (principal, action, resource);' }
    const call = { principal: nobody, action: { type: 'Action', id: '' }, resource: nobody, context: {}, entities: [], policies }
    const answer = cedar.isAuthorized(call)
    return answer.type === 'success' && answer.response.decision === 'allow'
  } catch {
    return false
  }
}

function evaluated({ slice, subject }: Matter, context: Record<string, CedarValueJson>): Verdict {
  const held = hold(slice.within ?? slice)
  if (!held.ok) return { allowed: false, policies: [], errors: held.error }
  const answer = cedar.statefulIsAuthorized({
    principal: subject.principal,
    action: { type: 'Action', id: subject.action },
    resource: subject.resource,
    context,
    entities: [...subject.entities],
    preparsedPolicySetId: held.value,
  })
  if (answer.type === 'failure') return { allowed: false, policies: [], errors: answer.errors.map(({ message }) => message) }
  const { decision, diagnostics } = answer.response
  const errors = diagnostics.errors.map(({ policyId, error }) => `${policyId}: ${error.message}`).toSorted()
  // The engine names them in any order; the same decision says the same.
  return { allowed: decision === 'allow' && errors.length === 0, policies: diagnostics.reason.toSorted(), errors }
}

/**
 * The engine forgets nothing by itself: what it holds parsed, of all sets, is bounded here. 2 to 4 KB each. Of one set they are no more
 * than `slicer` lets stand alone, and the set.
 */
const HELD_POLICIES = 10_000
/** Slices by their names in the engine, the latest asked last. */
const held = new Map<Slice, string>()
const free: string[] = []
let weight = 0
const weightOf = ({ texts }: Slice): number => 1 + Object.keys(texts).length

/** The slice's name in the engine, parsed if need be. A name has one slice at a time: nobody is answered by another's policies. */
function hold(slice: Slice): Result<string, string[]> {
  const known = held.get(slice)
  if (known !== undefined) {
    held.delete(slice)
    held.set(slice, known)
    return ok(known)
  }
  weight += weightOf(slice)
  for (const [oldest, name] of held) {
    if (weight <= HELD_POLICIES) break
    cedar.preparsePolicySet(name, {})
    held.delete(oldest)
    free.push(name)
    weight -= weightOf(oldest)
  }
  const name = free.pop() ?? `slice ${held.size}`
  const answer = cedar.preparsePolicySet(name, { staticPolicies: slice.texts })
  if (answer.type === 'failure') {
    free.push(name)
    weight -= weightOf(slice)
    return err(answer.errors.map(({ message }) => message))
  }
  held.set(slice, name)
  return ok(name)
}
