// Ways to bring something about: alternatives, each a set of flips, and how they combine. And what a search for them may cost. Pure.

import { LIMITS } from '../../../shared/limits.ts'
import type { CedarValueJson, Expr } from '../../policy/engine.ts'
import type { Flip, Question } from './facts.ts'
import { ancestorsIn, factsIn, fuse } from './facts.ts'

/** None: it can't be done. One that is empty: it is so already. */
export type Ways = readonly (readonly Flip[])[]
export const NONE: Ways = []
export const DONE: Ways = [[]]
export const isDone = (all: Ways): boolean => all.some((way) => way.length === 0)

/** One question, what may still be spent on it, and the facts met on the way that nobody who asks can change. */
export type Search = {
  readonly question: Question
  readonly fixed: Set<string>
  steps: number
  /** What an entity of the question is in, itself included. */
  readonly ancestors: ReturnType<typeof ancestorsIn>
}
export const search = (question: Question): Search => ({
  question,
  fixed: new Set(),
  steps: LIMITS.explanation_steps,
  ancestors: ancestorsIn(question),
})

/** Items of a list that are looked at in the time that a node of a policy takes, and characters in the time of an item. */
const ITEMS_A_STEP = 16
export const CHARS_AN_ITEM = 4_096

/** Lists and texts come from arguments, so what is done with them is paid for by their length; what can't be paid for is not done. */
export function spend(at: Search, items: number): boolean {
  at.steps -= items / ITEMS_A_STEP
  return at.steps >= 0
}

/** A value, once what it takes to look at it as often as its length tells is paid for. */
export function paidFor(at: Search, value: CedarValueJson | undefined): CedarValueJson | undefined {
  const items = Array.isArray(value)
    ? value.length
    : typeof value === 'string'
      ? value.length / CHARS_AN_ITEM
      : 0
  return spend(at, 1 + items) ? value : undefined
}

/** Fewer facts first, then less that is asked of them. */
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

/** A node has one member, named by what it does; which operands it has follows from that. */
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

/** What a node does, to what; and to which others, where it is a function or a set. */
export function read(expr: Expr): readonly [op: string, operands: Operands, items: readonly Expr[]] {
  const [[op, operands] = ['', []]] = Object.entries(expr)
  return [op, operands as unknown as Operands, Array.isArray(operands) ? (operands as Expr[]) : []] // the engine's own tree: see above
}
