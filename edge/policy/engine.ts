// Wraps the Cedar engine; no other file imports it. A set of policy texts is compiled once. Each
// request is answered with allow or deny and the policies that determined it. An engine that does
// not answer denies (L6, G13).

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
import wasm from '../../node_modules/@cedar-policy/cedar-wasm/web/cedar_wasm_bg.wasm'
import { digestOf } from '../../shared/bytes/json.ts'
import type { FieldError } from '../../shared/failures.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Reads } from './attribute-reads.ts'
import { readPart, readsApproval, readsOf, together } from './attribute-reads.ts'
import { hintFor } from './error-hints.ts'
import type { Scope, Subject } from './slices.ts'
import { idOf, scopeOf, slicer } from './slices.ts'
import type { Statement } from './statements.ts'
import { splitStatements } from './statements.ts'
import { bytePlace, invalidPolicies, place, readTexts, SHOWN } from './text-limits.ts'

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
  readonly reads: Reads
  readonly source: Source
  /** The cost of validating the rule against one action that its scope covers. */
  readonly weight: Weight
  /**
   * Scope and conditions as Cedar's syntax tree, for explanations. In a slice the action always
   * matches.
   */
  readonly applies: Pick<PolicyJson, 'principal' | 'action' | 'resource' | 'conditions'>
}
/**
 * `parts`: nodes of the syntax tree. `steps`: nodes where the validator may find a mistake.
 * `patterns`: characters of `like` patterns.
 */
type Weight = {
  readonly scope: Scope
  readonly parts: number
  readonly steps: number
  readonly patterns: number
}
/**
 * A policy's text, its file, the whole text of that file, and the offset where the policy begins.
 */
type Source = { readonly file: string; readonly whole: string; readonly at: number; readonly text: string }

/**
 * The policies of a set that can apply to a subject. `yesPermits`: a human's yes may make one of
 * its permits apply. `patterns`: characters of `like` patterns. `within`: a larger slice that the
 * engine evaluates instead of this one.
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
  /**
   * A cache of verdicts by the exact request. A verdict depends on the set and the request alone,
   * and each set has its own cache.
   */
  readonly answers: Map<string, Verdict>
}
/** A subject with the set and the slice that decide about it. */
export type Matter = { readonly set: PolicySet; readonly slice: Slice; readonly subject: Subject }
export type Verdict = {
  readonly allowed: boolean
  readonly policies: readonly string[]
  readonly errors: readonly string[]
}

/**
 * Attestations name the policies that determined a decision, so a policy id must fit into a
 * statement.
 */
const NAME = /^[\w.:/-](?:[\w.:/ -]{0,126}[\w.:/-])?$/

/**
 * Names for decisions that no policy determined. A tenant's policy can't use them; the floor's own
 * ids are taken already.
 */
const RESERVED: ReadonlySet<string> = new Set([
  'run.budget',
  'session.budget',
  'tool.egress',
  'tool.executables',
  'tool.workspace',
  'vault.secrets',
  'skill.state',
])

/**
 * Compiled sets by the digest of their files, most recently used last. A tenant's directory changes
 * more often than its policies.
 */
const compiled = new Map<string, PolicySet>()
const SETS_KEPT = 16

/**
 * Compiles the floor and a tenant's set as one set, or returns it from the cache. A policy's id is
 * its `@id`, or `<file>/<number>`.
 */
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
    const { parts, written } = parse(text)
    if (parts.type === 'failure') {
      for (const error of parts.errors.slice(0, SHOWN)) {
        const { start, message, hint } = diagnosticOf(error)
        errors.push({
          at: start === undefined ? file : bytePlace(file, text, start),
          message,
          ...(hint === undefined ? {} : { hint }),
        })
      }
      continue
    }
    if (parts.policy_templates.length > 0)
      errors.push({ at: file, message: 'templates are not supported; write the policy out' })
    if (written.length !== parts.policies.length)
      errors.push({ at: file, message: 'these policies can’t be told apart; write them in several files' })
    for (const [index, { at, text: policy, read }] of written.entries()) {
      if (read.type === 'failure') {
        errors.push(...read.errors.map(({ message }) => ({ at: file, message })))
        continue
      }
      const notes = read.json.annotations ?? {}
      const reads = readsOf(read.json)
      const id = nameOf(notes, file, index)
      if (RESERVED.has(id))
        errors.push({
          at: place(file, text, at),
          message: `the id \`${id}\` is the edge’s own; choose another`,
        })
      if (!NAME.test(id))
        errors.push({
          at: file,
          message: 'an id has 1 to 128 characters: letters, digits, spaces and `_.:/-`',
        })
      const namesake = rules.get(id)
      if (namesake !== undefined)
        errors.push({
          at: file,
          message: `the id \`${id}\` is taken by a policy of \`${namesake.source.file}\`; name each policy once`,
        })
      const { effect, principal, action, resource, conditions } = read.json
      const weight = { scope: scopeOf(read.json), parts: 0, steps: 0, patterns: 0 }
      weigh(conditions, weight)
      members.push({ id, text: policy, effect, scope: weight.scope, reads, patterns: weight.patterns })
      rules.set(id, {
        reason: notes['reason'] ?? null,
        advice: notes['advice'] ?? null,
        effect,
        byApproval: readsApproval(reads),
        reads,
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

/**
 * Adds up the cost of a syntax tree. `policy_depth` bounds the recursion. A value or a variable
 * alone is never a mistake, so only operators count as steps.
 */
function weigh(tree: unknown, weight: { parts: number; steps: number; patterns: number }): void {
  weight.parts++
  if (typeof tree !== 'object' || tree === null) return
  if (!('Value' in tree || 'Var' in tree)) weight.steps++
  for (const [name, part] of Object.entries(tree)) {
    if (name === 'pattern' && Array.isArray(part))
      weight.patterns += 1 + part.length // a pattern is a list of single characters
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

/** The engine's answers about a text, and the policies that it found, in the order of the text. */
type ParsedText = {
  readonly parts: ReturnType<typeof cedar.policySetTextToParts>
  readonly written: readonly (Statement & { readonly read: ReturnType<typeof cedar.policyToJson> })[]
}

/** Texts of files, most recently used last: a new version of a set changes few of its files. */
const parsed = new Map<string, ParsedText>()
const TEXTS_KEPT = 64
const LONGEST_TEXT_KEPT = 16_384

function parse(text: string): ParsedText {
  const made = parsed.get(text) ?? parseText(text)
  parsed.delete(text)
  if (text.length <= LONGEST_TEXT_KEPT && made.parts.type === 'success') parsed.set(text, made)
  const [oldest] = parsed.keys()
  if (parsed.size > TEXTS_KEPT && oldest !== undefined) parsed.delete(oldest)
  return made
}

function parseText(text: string): ParsedText {
  const parts = cedar.policySetTextToParts(text)
  const found = new Set(parts.type === 'success' ? parts.policies : [])
  const statements = splitStatements(text).filter((part) => found.has(part.text))
  return { parts, written: statements.map((part) => ({ ...part, read: cedar.policyToJson(part.text) })) }
}

const nameOf = (notes: Readonly<Record<string, string | null>>, file: string, index: number): string =>
  notes['id'] ?? `${file}/${index + 1}`

/**
 * The policies of these files by id, each with its text as written. A file that does not parse
 * counts as one policy.
 */
export function policiesIn(files: PolicyTexts): Map<string, { file: string; text: string }> {
  const found = new Map<string, { file: string; text: string }>()
  for (const [file, text] of Object.entries(files)) {
    const { parts, written } = parse(text)
    if (parts.type === 'failure') found.set(file, { file, text })
    for (const [index, { text: policy, read }] of written.entries())
      found.set(nameOf(read.type === 'success' ? (read.json.annotations ?? {}) : {}, file, index), {
        file,
        text: policy,
      })
  }
  return found
}

/** A message of the engine about a text. `start` is an offset in bytes. */
type Diagnostic = { readonly start: number | undefined; readonly message: string; readonly hint?: string }
export type PolicyDiagnostic = Diagnostic & { readonly policy: string }

/** Removes the name that the engine gave the policy; we report its file and line instead. */
const unnamed = (words: string): string =>
  words.replace(/^failed to parse policies from string: |for policy `[^`]*`, /g, '')

function diagnosticOf({ message, help, sourceLocations }: DetailedError): Diagnostic {
  const [first] = sourceLocations ?? []
  const hint = hintFor(unnamed(message)) ?? help ?? first?.label ?? undefined
  return {
    start: first?.start,
    message: unnamed(message),
    ...(hint === undefined ? {} : { hint: unnamed(hint) }),
  }
}

/** Parses a schema text. Only our own schemas come here, so one that does not parse is a bug. */
export function readSchema(text: string): Schema {
  const read = cedar.schemaToJson(text)
  if (read.type === 'failure')
    throw new Error(
      `the policy schema does not parse: ${read.errors.map(({ message }) => message).join('; ')}`,
    )
  return read.json
}

/** Runs Cedar's strict validator on policies by id and returns its errors and warnings. */
export function validate(
  schema: Schema,
  texts: PolicyTexts,
): { errors: readonly PolicyDiagnostic[]; warnings: readonly PolicyDiagnostic[] } {
  const answer = cedar.validate({
    schema,
    policies: { staticPolicies: texts },
    validationSettings: { mode: 'strict' },
  })
  if (answer.type === 'failure')
    throw new Error(`policies that compile do not parse: ${answer.errors.map(({ message }) => message)}`) // a bug
  const diagnostics = (all: readonly { policyId: string; error: DetailedError }[]): PolicyDiagnostic[] =>
    all.map(({ policyId, error }) => ({ ...diagnosticOf(error), policy: policyId }))
  return { errors: diagnostics(answer.validationErrors), warnings: diagnostics(answer.validationWarnings) }
}

/**
 * Selects the policies that can apply to a subject. The resource's entity is left out if no policy
 * reads it. It stays if it is also the principal or a parent of another entity, because a policy
 * can then read it through them.
 */
export function about(set: PolicySet, subject: Subject): Matter {
  const slice = set.sliceFor(subject)
  const { principal, resource, entities } = subject
  const isResource = (uid: EntityUidJson): boolean => isSame(idOf(uid), resource)
  const needed =
    slice.reads.resource ||
    isSame(principal, resource) ||
    entities.some(({ parents }) => parents.some(isResource))
  return {
    set,
    slice,
    subject: needed ? subject : { ...subject, entities: entities.filter(({ uid }) => !isResource(uid)) },
  }
}

const isSame = (one: TypeAndId, other: TypeAndId): boolean => one.type === other.type && one.id === other.id

/**
 * The part of a context that the slice's policies can read. Passing the rest to the engine costs
 * time and changes nothing.
 */
export function readable(
  { slice }: Matter,
  context: Record<string, CedarValueJson>,
): Record<string, CedarValueJson> {
  return readPart(slice.reads.context, context) as Record<string, CedarValueJson> // part of a record is a record
}

/**
 * Whether no human answer can change a denial: a forbid that does not read approvals determined it,
 * or no permit applies and none reads approvals.
 */
export const isFinalDenial = ({ set: { rules }, slice }: Matter, { policies, errors }: Verdict): boolean =>
  errors.length === 0 &&
  (policies.length === 0 ? !slice.yesPermits : policies.some((id) => rules.get(id)?.byApproval === false))

const ANSWERS_KEPT = 1_000
const LONGEST_KEPT = 2_048

/**
 * Answers one request, from the cache where possible: the part of a call that policies read repeats
 * far more often than calls do. The engine can't be interrupted, so a request that could block the
 * isolate for long is denied without asking it.
 */
export function ask(matter: Matter, context: Record<string, CedarValueJson>): Verdict {
  const { answers } = matter.set
  const text = JSON.stringify([matter.subject, context])
  const known = answers.get(text)
  if (known !== undefined) return known
  const { patterns } = matter.slice
  const looks = patterns * text.length
  if (looks > LIMITS.policy_looks)
    return {
      allowed: false,
      policies: [],
      errors: [`${patterns} characters of patterns are too many for a request of ${text.length}`],
    } // L6
  const verdict = evaluate(matter, context)
  if (answers.size >= ANSWERS_KEPT) answers.clear()
  if (text.length <= LONGEST_KEPT && verdict.errors.length === 0) answers.set(text, verdict)
  return verdict
}

/**
 * Evaluates without the cache, for hypothetical requests. Cedar skips a policy that fails, even a
 * forbid, so any error is a denial.
 */
export function evaluate(matter: Matter, context: Record<string, CedarValueJson>): Verdict {
  try {
    return evaluated(matter, context)
  } catch (thrown) {
    return { allowed: false, policies: [], errors: [`the policy engine failed: ${String(thrown)}`] } // L6
  }
}

/** A name that no policy can mention, so a policy that covers it covers everything. */
const ANY_ACTION = { type: 'Action', id: 'anything' }

/**
 * Whether a permit allows some principal every action on every resource of the type. It tries an
 * action and a resource that don't exist, with an empty context; a permit that reads any of these
 * does not match. `people`: the principals to try, with all their groups.
 */
export const permitsAnything = (text: string, people: readonly EntityJson[], type: string): boolean =>
  people.some(({ uid, ...rest }) => {
    const policies = { staticPolicies: { it: text } }
    const entities = [{ uid, ...rest }]
    const [principal, resource] = [idOf(uid), { type, id: 'anything' }]
    const question = { principal, action: ANY_ACTION, resource, context: {}, entities, policies }
    const answer = cedar.isAuthorized(question)
    return answer.type === 'success' && answer.response.decision === 'allow'
  })

/**
 * Whether the engine still answers. A WebAssembly instance that trapped once stays broken until the
 * isolate restarts.
 */
export function engineAnswers(): boolean {
  const nobody = { type: 'Tenant', id: '' }
  try {
    const policies = { staticPolicies: 'permit (principal, action, resource);' }
    const call = {
      principal: nobody,
      action: { type: 'Action', id: '' },
      resource: nobody,
      context: {},
      entities: [],
      policies,
    }
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
  if (answer.type === 'failure')
    return { allowed: false, policies: [], errors: answer.errors.map(({ message }) => message) }
  const { decision, diagnostics } = answer.response
  const errors = diagnostics.errors.map(({ policyId, error }) => `${policyId}: ${error.message}`).toSorted()
  // The engine lists the policies in any order; sorted, equal decisions have equal records.
  return {
    allowed: decision === 'allow' && errors.length === 0,
    policies: diagnostics.reason.toSorted(),
    errors,
  }
}

/**
 * The engine never frees a parsed policy, so we bound how many it holds for all sets together (2 to
 * 4 KB each). One set holds at most the policies of its separate slices (see `slicer`) and the
 * whole set once.
 */
const HELD_POLICIES = 10_000
/** The slices that the engine holds and their names there, most recently used last. */
const held = new Map<Slice, string>()
const free: string[] = []
let weight = 0
const weightOf = ({ texts }: Slice): number => 1 + Object.keys(texts).length

/**
 * Returns the slice's name in the engine and parses the slice first if needed. A name belongs to
 * one slice at a time, so that no request is answered by another tenant's policies.
 */
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
