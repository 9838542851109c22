// Why a decision is as it is, and what would change it: for the agent that asked, and for operators. Pure over a compiled set, the question
// and its verdict. What would change a denial is proposed by `explain/alternatives`, and told only where the engine, asked about the
// changed question, allows it.

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
import { byWhom, tell } from './explain/wording.ts'

/** What a decision was made on: the last question with the approvals there are, its answer, and the plans that were refused. */
export type Grounds = {
  readonly matter: Matter
  readonly context: Record<string, CedarValueJson>
  readonly verdict: Verdict
  readonly refused: Explanation['plans']
}

/** Of the call: its arguments as they came, and whether others fit the tool. */
export type Subject = {
  readonly args: Record<string, unknown>
  readonly fits: (args: Record<string, unknown>) => boolean
}

type Found = { readonly alternatives: readonly (readonly Flip[])[]; readonly fixed: readonly string[] }

/** With the verdict it goes: the same question to the same set is not searched twice. */
const found = new WeakMap<Verdict, Found>()

function changesOf({ matter, context, verdict }: Grounds): Found {
  const known = found.get(verdict) ?? look(matter, { ...matter.subject, context }, verdict)
  found.set(verdict, known)
  return known
}

/** An error is nobody's to argue with (L6): it is mended, not met. */
function look({ set, slice }: Matter, question: Question, verdict: Verdict): Found {
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

/** More than are told: not each may fit the tool. */
const KEPT = 2 * LIMITS.explanation_changes

/** Of changes as small as each other, first what the agent can do by itself; to do without comes after to do otherwise. */
const EFFORT = { agent: 0, human: 1, time: 2, operator: 3 } as const
const effort = (flips: readonly Flip[]): number =>
  flips.reduce(
    (sum, { fact, op }) => sum + EFFORT[changedBy(fact) ?? 'operator'] + (op === 'absent' ? 0.5 : 0),
    0,
  )

const applying = (rules: readonly Rule[], effect: Rule['effect']) =>
  rules.filter((rule) => rule.effect === effect).map(({ applies }) => applies)

/** What the reader may know of why. `null`: it was not policy that decided. */
export function explain(
  decision: Decision,
  grounds: Grounds | null,
  subject: Subject,
  reader: Reader,
): Explanation {
  const rules = grounds?.matter.set.rules
  const erring = (grounds?.verdict.errors.length ?? 0) > 0 // then no policy determined it, whatever the engine lists
  const policies = (erring ? [] : decision.policies).map((id) =>
    noteOf(id, rules?.get(id), decision.reason, reader),
  )
  const told =
    grounds === null ? { changes: [], fixed: [] } : changesFor(grounds, subject, reader, decision.effect)
  const errors = reader.kind === 'operator' ? { errors: [...(grounds?.verdict.errors ?? [])] } : {}
  return { policies, plans: [...(grounds?.refused ?? [])], ...told, ...errors }
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
    const told = flips.map((flip) => tell(question, flip, reader))
    changes.set(told.map(({ words }) => words).join(), told) // two that are told alike are one to the reader
  }
  return { changes: [...changes.values()], fixed: [...fixed] }
}

/** Nobody is asked where everybody's yes would not do: of exactly two yeses that policy may want, humans who are more can't be told. */
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

/** Where any value of a kind would do, the one that stood for it proves nothing about the tool. */
const VAGUE: ReadonlySet<string> = new Set(['!=', 'like', 'not like', 'present', 'not empty'])

function fits(flips: readonly Flip[], { args, fits }: Subject): boolean {
  const own = flips.filter(({ fact }) => fact[0] === 'args')
  return own.length === 0 || own.some(({ op }) => VAGUE.has(op)) || fits(appliedTo(args, own))
}

/** What is no policy, a budget or a tool's own list, is named as policies are, and its reason is the decision's. */
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
