// Explains a decision to its agent or to an operator: its policies, and the smallest changes that
// would be allowed. Pure over a compiled set, the question and its verdict. The search in explain/
// proposes changes; only those that the engine confirms, asked about the changed question, are
// shown.

import { LIMITS } from '../../shared/limits.ts'
import type { Decision } from '../../shared/wire/calls.ts'
import type { Change, Explanation } from '../../shared/wire/explanation.ts'
import type { CedarValueJson, Matter, Rule, Verdict } from '../policy/engine.ts'
import { ask, evaluate, readable } from '../policy/engine.ts'
import { place } from '../policy/text-limits.ts'
import { bySize, search } from './explain/alternatives.ts'
import type { Flip, Question } from './explain/facts.ts'
import { applied, appliedTo, asksAsMuch, changedBy } from './explain/facts.ts'
import { waysToAllow } from './explain/search-policies.ts'
import type { Reader } from './explain/wording.ts'
import { byWhom, changeFor } from './explain/wording.ts'

/**
 * The last question of a decision, with the given approvals, its verdict, and the refused plans.
 */
export type Grounds = {
  readonly matter: Matter
  readonly context: Record<string, CedarValueJson>
  readonly verdict: Verdict
  readonly refused: Explanation['plans']
}

/** The call's arguments as they came, and the check whether others fit the tool's schema. */
export type Subject = {
  readonly args: Record<string, unknown>
  readonly fits: (args: Record<string, unknown>) => boolean
}

type ProposedChanges = {
  readonly alternatives: readonly (readonly Flip[])[]
  readonly fixed: readonly string[]
}

/** By verdict, so that the same question to the same set is not searched twice. */
const cache = new WeakMap<Verdict, ProposedChanges>()

function changesOf({ matter, context, verdict }: Grounds): ProposedChanges {
  const known = cache.get(verdict) ?? searchChanges(matter, { ...matter.subject, context }, verdict)
  cache.set(verdict, known)
  return known
}

/** There are no changes to propose for an allow or an error (L6). */
function searchChanges({ set, slice }: Matter, question: Question, verdict: Verdict): ProposedChanges {
  if (verdict.allowed || verdict.errors.length > 0) return { alternatives: [], fixed: [] }
  const at = search(question)
  const determining = verdict.policies.map((id) => set.rules.get(id)).filter((rule) => rule !== undefined)
  const concerned = Object.keys(slice.texts).flatMap((id) => set.rules.get(id) ?? [])
  const ways = waysToAllow(at, applying(determining, 'forbid'), applying(concerned, 'permit'))
  const tries = Math.min(
    LIMITS.explanation_tries,
    Math.ceil(LIMITS.explanation_tried_chars / JSON.stringify(question.context).length),
  )
  const proposed = bySize([...ways].sort((a, b) => effort(a) - effort(b))).slice(0, tries)
  let alternatives: (readonly Flip[])[] = []
  for (const way of proposed) {
    if (alternatives.length >= KEPT) break
    if (way.length === 0 || alternatives.some((other) => asksAsMuch(way, other))) continue
    const { context, ...subject } = applied(question, way)
    if (!evaluate({ set, slice, subject }, context).allowed) continue
    alternatives = [...alternatives.filter((other) => !asksAsMuch(other, way)), way]
  }
  return { alternatives, fixed: alternatives.length === 0 ? [...at.fixed] : [] }
}

/** More than are shown, because the tool's schema may refuse some. */
const KEPT = 2 * LIMITS.explanation_changes

/**
 * Orders changes of equal size: first those that the agent can make alone; leaving a value out
 * comes after changing it.
 */
const EFFORT = { agent: 0, human: 1, time: 2, operator: 3 } as const
const effort = (flips: readonly Flip[]): number =>
  flips.reduce(
    (sum, { fact, op }) => sum + EFFORT[changedBy(fact) ?? 'operator'] + (op === 'absent' ? 0.5 : 0),
    0,
  )

const applying = (rules: readonly Rule[], effect: Rule['effect']) =>
  rules.filter((rule) => rule.effect === effect).map(({ applies }) => applies)

/**
 * The explanation as far as the reader may know it. `grounds` is `null` if policy was not what
 * decided.
 */
export function explain(
  decision: Decision,
  grounds: Grounds | null,
  subject: Subject,
  reader: Reader,
): Explanation {
  const rules = grounds?.matter.set.rules
  // After an error no policy determined the decision, whatever the engine lists.
  const erring = (grounds?.verdict.errors.length ?? 0) > 0
  const policies = (erring ? [] : decision.policies).map((id) =>
    noteOf(id, rules?.get(id), decision.reason, reader),
  )
  const changes =
    grounds === null ? { changes: [], fixed: [] } : changesFor(grounds, subject, reader, decision.effect)
  const errors = reader.kind === 'operator' ? { errors: [...(grounds?.verdict.errors ?? [])] } : {}
  return { policies, plans: [...(grounds?.refused ?? [])], ...changes, ...errors }
}

function changesFor(
  grounds: Grounds,
  subject: Subject,
  reader: Reader,
  effect: Decision['effect'],
): Pick<Explanation, 'changes' | 'fixed'> {
  const { alternatives, fixed } = changesOf(grounds)
  const question = { ...grounds.matter.subject, context: grounds.context }
  const changes = new Map<string, Change[]>()
  for (const flips of alternatives) {
    if (changes.size === LIMITS.explanation_changes) break
    if (!fits(flips, subject) || (effect === 'deny' && !wouldBeAsked(grounds, flips, reader))) continue
    const change = flips.map((flip) => changeFor(question, flip, reader))
    changes.set(change.map(({ words }) => words).join(), change) // changes with equal words count once
  }
  return { changes: [...changes.values()], fixed: [...fixed] }
}

/**
 * Whether humans would be asked after these changes: only if the most that they can answer is
 * allowed.
 */
function wouldBeAsked({ matter, context }: Grounds, flips: readonly Flip[], reader: Reader): boolean {
  const given = flips.filter(({ fact }) => fact[0] === 'approval')
  if (given.length === 0 || given.some((flip) => byWhom(flip, reader) !== 'human')) return true
  const rest = flips.filter((flip) => !given.includes(flip))
  const { context: changed, ...subject } = applied({ ...matter.subject, context }, rest)
  const allowed = (approval: ReturnType<Reader['reach']>[0]): boolean =>
    ask(
      { ...matter, subject },
      { ...changed, ...readable(matter, { allow_sensitive_tools: approval.granted, approval }) },
    ).allowed
  return reader.reach().some(allowed)
}

/** If any value of a kind would do, the sample does not show whether the tool accepts it. */
const VAGUE: ReadonlySet<string> = new Set(['!=', 'like', 'not like', 'present', 'not empty'])

function fits(flips: readonly Flip[], { args, fits }: Subject): boolean {
  const own = flips.filter(({ fact }) => fact[0] === 'args')
  return own.length === 0 || own.some(({ op }) => VAGUE.has(op)) || fits(appliedTo(args, own))
}

/**
 * A cause that is not a policy (a budget, a tool's own list) is shown like one, with the decision's
 * reason.
 */
function noteOf(
  id: string,
  rule: Rule | undefined,
  reason: string,
  { kind }: Reader,
): Explanation['policies'][number] {
  if (rule === undefined) return { id, effect: 'forbid', reason, advice: null }
  const {
    effect,
    advice,
    source: { file, whole, at, text },
  } = rule
  return {
    id,
    effect,
    reason: rule.reason,
    advice,
    ...(kind === 'operator' ? { place: place(file, whole, at), text } : {}),
  }
}
