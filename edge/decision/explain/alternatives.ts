// Alternatives: sets of changes ("flips") of which each is enough, how they combine, and the budget
// of a search for them. Pure.

import { LIMITS } from '../../../shared/limits.ts'
import type { CedarValueJson, Expr } from '../../policy/engine.ts'
import type { Flip, Question } from './facts.ts'
import { ancestorsIn, factsIn, fuse } from './facts.ts'

/** No alternative: impossible. An empty alternative: already the case. */
export type Ways = readonly (readonly Flip[])[]
export const NONE: Ways = []
export const DONE: Ways = [[]]
export const isDone = (all: Ways): boolean => all.some((way) => way.length === 0)

/** A search: its question, its remaining steps, and the facts it met that nobody can change. */
export type Search = {
  readonly question: Question
  readonly fixed: Set<string>
  steps: number
  /** The ancestors of an entity of the question, itself included. */
  readonly ancestors: ReturnType<typeof ancestorsIn>
}
export const search = (question: Question): Search => ({
  question,
  fixed: new Set(),
  steps: LIMITS.explanation_steps,
  ancestors: ancestorsIn(question),
})

/**
 * Costs: this many list items take as long as one node of a policy, and this many characters as
 * long as one item.
 */
const ITEMS_A_STEP = 16
export const CHARS_AN_ITEM = 4_096

/** Charges for work on lists and texts, which come from arguments. `false`: the budget is spent. */
export function spend(at: Search, items: number): boolean {
  at.steps -= items / ITEMS_A_STEP
  return at.steps >= 0
}

/** The value, after charging for its length; `undefined` if the budget is spent. */
export function paidFor(at: Search, value: CedarValueJson | undefined): CedarValueJson | undefined {
  const items = Array.isArray(value)
    ? value.length
    : typeof value === 'string'
      ? value.length / CHARS_AN_ITEM
      : 0
  return spend(at, 1 + items) ? value : undefined
}

/** Sorted by the number of facts, then by the number of flips. */
export function bySize(all: Ways): Ways {
  const sized = all.map((way) => ({ way, facts: factsIn(way) }))
  return sized.sort((a, b) => a.facts - b.facts || a.way.length - b.way.length).map(({ way }) => way)
}
const smallest = (all: Ways): Ways => (all.length < 2 ? all : bySize(all).slice(0, LIMITS.explanation_width))

export const either = (one: Ways, other: Ways): Ways =>
  isDone(one) || isDone(other) ? DONE : smallest([...one, ...other])

export function both(at: Search, one: Ways, other: Ways): Ways {
  at.steps -= one.length * other.length
  if (at.steps < 0) return NONE
  const all: (readonly Flip[])[] = []
  for (const a of one)
    for (const b of other) {
      const fused = a.length === 0 ? b : b.length === 0 ? a : fuse([...a, ...b])
      if (fused === undefined || fused.length > LIMITS.explanation_flips) continue
      if (factsIn(fused) <= LIMITS.explanation_facts) all.push(fused)
    }
  return smallest(all)
}

/**
 * A node of the syntax tree has one member, named by its operator, which determines the operands.
 */
export type Operands = {
  left: Expr
  right: Expr
  arg: Expr
  if: Expr
  then: Expr
  else: Expr
  in?: Expr
  entity_type: string
  pattern: ('Wildcard' | { Literal: string })[]
}

/** The operator and operands of a node, and its items if it is a function call or a set. */
export function read(expr: Expr): readonly [op: string, operands: Operands, items: readonly Expr[]] {
  const [[op, operands] = ['', []]] = Object.entries(expr)
  return [op, operands as unknown as Operands, Array.isArray(operands) ? (operands as Expr[]) : []] // the engine's own tree: see above
}
