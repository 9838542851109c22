// Ways to bring something about: alternatives, each a set of flips, and how they combine. And what a search for them may cost. Pure.

import { LIMITS } from '../../shared/limits.ts'
import type { Expr } from '../policy.ts'
import type { Flip, Question } from './facts.ts'
import { bySize, factsIn, fuse } from './facts.ts'

/** None: it can't be done. One that is empty: it is so already. */
export type Ways = readonly (readonly Flip[])[]
export const NONE: Ways = []
export const DONE: Ways = [[]]
export const isDone = (all: Ways): boolean => all.some((way) => way.length === 0)

/** One question, what may still be spent on it, and the facts met on the way that nobody who asks can change. */
export type Search = { readonly question: Question; readonly fixed: Set<string>; steps: number }
export const search = (question: Question): Search => ({ question, fixed: new Set(), steps: LIMITS.explanation_steps })

const smallest = (all: Ways): Ways => (all.length < 2 ? all : [...all].sort(bySize).slice(0, LIMITS.explanation_width))

export const either = (one: Ways, other: Ways): Ways => (isDone(one) || isDone(other) ? DONE : smallest([...one, ...other]))

export function both(at: Search, one: Ways, other: Ways): Ways {
  at.steps -= one.length * other.length
  if (at.steps < 0) return NONE
  const all: (readonly Flip[])[] = []
  for (const a of one)
    for (const b of other) {
      const fused = a.length === 0 ? b : b.length === 0 ? a : fuse([...a, ...b])
      if (fused !== undefined && factsIn(fused) <= LIMITS.explanation_facts) all.push(fused)
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
