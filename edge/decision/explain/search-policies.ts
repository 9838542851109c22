// Searches for changes to a question with which the policies would allow it, by walking Cedar's
// syntax tree. Pure and bounded. The results are proposals that `explain` has the engine verify;
// for expressions that the search does not understand there are none.

import type { Expr, Rule } from '../../policy/engine.ts'
import { idOf } from '../../policy/slices.ts'
import type { Search, Ways } from './alternatives.ts'
import { both, DONE, either, isDone, NONE, read } from './alternatives.ts'
import { waysOfAtom, waysOfComparison } from './search-conditions.ts'

type Applies = Rule['applies']

/** Changes with which no forbid applies and a permit does. */
export function waysToAllow(at: Search, forbids: readonly Applies[], permits: readonly Applies[]): Ways {
  const lifted = forbids.reduce<Ways>(
    (ways, forbid) => (ways.length === 0 ? NONE : both(at, ways, waysOfPolicy(at, forbid, false))),
    DONE,
  )
  if (lifted.length === 0) return NONE
  const permitted = permits.reduce<Ways>(
    (ways, permit) => (isDone(ways) ? ways : either(ways, waysOfPolicy(at, permit, true))),
    NONE,
  )
  return both(at, lifted, permitted)
}

/** Changes with which a policy, its scope and conditions, applies (`target`) or does not. */
function waysOfPolicy(at: Search, { principal, resource, conditions }: Applies, target: boolean): Ways {
  const scopes = [scoped('principal', principal), scoped('resource', resource)].filter(
    (scope) => scope !== undefined,
  )
  const parts = [
    ...scopes.map((scope) => [scope, target] as const),
    ...conditions.map(({ kind, body }) => [body, (kind === 'when') === target] as const),
  ]
  const join = (one: Ways, other: Ways): Ways => (target ? both(at, one, other) : either(one, other))
  return parts.reduce<Ways>((ways, [expr, to]) => join(ways, waysTo(at, expr, to)), target ? DONE : NONE)
}

/** A scope as an equal condition; `undefined` if it restricts nothing. */
function scoped(name: 'principal' | 'resource', scope: Applies['principal' | 'resource']): Expr | undefined {
  const left: Expr = { Var: name }
  const value = (uid: Parameters<typeof idOf>[0]): Expr => ({ Value: { __entity: idOf(uid) } })
  if (scope.op === 'is') {
    const within = scope.in !== undefined && 'entity' in scope.in ? { in: value(scope.in.entity) } : {}
    return { is: { left, entity_type: scope.entity_type, ...within } }
  }
  if (scope.op === 'All' || !('entity' in scope)) return undefined
  const right = value(scope.entity)
  return scope.op === '==' ? { '==': { left, right } } : { in: { left, right } }
}

/** Recurses as deep as a policy may be (`policy_depth`, `policy_conditions`). */
function waysTo(at: Search, expr: Expr, target: boolean): Ways {
  if (at.steps-- <= 0) return NONE
  const to = (inner: Expr, value: boolean): Ways => waysTo(at, inner, value)
  const [op, operands, items] = read(expr)
  switch (op) {
    case '&&':
    case '||': {
      const first = to(operands.left, target)
      if ((op === '&&') === target)
        return first.length === 0 ? NONE : both(at, first, to(operands.right, target))
      return isDone(first) ? DONE : either(first, to(operands.right, target))
    }
    case '!':
      return to(operands.arg, !target)
    case 'if-then-else': {
      const { if: condition, then: yes, else: no } = operands
      return either(
        both(at, to(condition, true), to(yes, target)),
        both(at, to(condition, false), to(no, target)),
      )
    }
    default:
      return items.length === 2
        ? waysOfComparison(at, op, items, target)
        : waysOfAtom(at, op, operands, expr, target)
  }
}
