// The smallest changes that turn one atomic condition: a number to the bound, a list to contain a
// member, a boolean to its negation, an approval to the number or role that is required. Pure;
// works on Cedar's syntax tree and one question.

import { LIMITS } from '../../../shared/limits.ts'
import type { Op } from '../../../shared/wire/explanation.ts'
import { pathOf } from '../../policy/attribute-reads.ts'
import type { CedarValueJson, Expr } from '../../policy/engine.ts'
import type { Operands, Search, Ways } from './alternatives.ts'
import { CHARS_AN_ITEM, DONE, NONE, paidFor, read, spend } from './alternatives.ts'
import type { Fact, Flip } from './facts.ts'
import { changedBy, GROUPS, membership, nameOf, rank, same, textOf, valueAt } from './facts.ts'

type Value = CedarValueJson | undefined
type Relation = '<' | '<=' | '>' | '>=' | '==' | '!='
const NEGATED: Readonly<Record<Relation, Relation>> = {
  '<': '>=',
  '<=': '>',
  '>': '<=',
  '>=': '<',
  '==': '!=',
  '!=': '==',
}
const MIRRORED: Readonly<Record<Relation, Relation>> = {
  '<': '>',
  '<=': '>=',
  '>': '<',
  '>=': '<=',
  '==': '==',
  '!=': '!=',
}
/** Cedar compares decimals with functions and everything else with operators. */
const RELATIONS: Readonly<Record<string, Relation>> = {
  '<': '<',
  '<=': '<=',
  '>': '>',
  '>=': '>=',
  '==': '==',
  '!=': '!=',
  lessThan: '<',
  lessThanOrEqual: '<=',
  greaterThan: '>',
  greaterThanOrEqual: '>=',
}
const CONSTRUCTORS = ['decimal', 'datetime', 'ip', 'duration']

/** Comparisons: `a < b` and the like, and for decimals `a.lessThan(b)`. */
export function waysOfComparison(
  at: Search,
  op: string,
  [left, right]: readonly Expr[],
  target: boolean,
): Ways {
  const relation = Object.hasOwn(RELATIONS, op) ? RELATIONS[op] : undefined
  if (relation === undefined || left === undefined || right === undefined) return NONE
  return compared(at, target ? relation : NEGATED[relation], left, right)
}

export function waysOfAtom(at: Search, op: string, operands: Operands, expr: Expr, target: boolean): Ways {
  if (Object.hasOwn(RELATIONS, op)) return waysOfComparison(at, op, [operands.left, operands.right], target)
  switch (op) {
    case 'Value':
      return (operands as unknown) === target ? DONE : NONE // a literal's operand is the value itself
    case '.':
      return boolean(at, expr, target)
    case 'has':
      return has(at, expr, target)
    case 'in':
    case 'is':
      return belongs(at, op, operands, target)
    case 'contains':
      return contained(at, operands, target)
    case 'containsAny':
    case 'containsAll':
      return containedMany(at, op === 'containsAll', operands, target)
    case 'isEmpty':
      return empty(at, operands.arg, target)
    case 'like':
      return like(at, operands, target)
    default:
      return NONE
  }
}

// ── Present values ──

/** The attribute of the context that an expression names. */
const factOf = (expr: Expr): Fact | undefined => {
  const [op] = read(expr)
  const path = op === '.' ? pathOf(expr) : undefined
  return path === undefined || path.length === 0 ? undefined : path
}

/**
 * The value of a literal, an attribute or an arithmetic expression; `undefined` for other
 * expressions, for missing attributes, and if the budget is spent.
 */
function resolve(at: Search, expr: Expr): Value {
  return at.steps < 0 ? undefined : paidFor(at, evaluateExpr(at, expr))
}

function evaluateExpr(at: Search, expr: Expr): Value {
  const { question } = at
  const [op, operands, listed] = read(expr)
  const number = (inner: Expr): number => {
    const value = resolve(at, inner)
    return typeof value === 'number' ? value : Number.NaN
  }
  const whole = (result: number): Value => (Number.isSafeInteger(result) ? result : undefined)
  switch (op) {
    case 'Value':
      return operands as unknown as CedarValueJson // a literal's operand is the value itself
    case 'Set': {
      const items = listed.map((item) => resolve(at, item))
      return items.every((item) => item !== undefined) ? items : undefined
    }
    case 'neg':
      return whole(-number(operands.arg))
    case '+':
      return whole(number(operands.left) + number(operands.right))
    case '-':
      return whole(number(operands.left) - number(operands.right))
    case '*':
      return whole(number(operands.left) * number(operands.right))
    case '.': {
      const fact = factOf(expr)
      return fact === undefined ? undefined : valueAt(question.context, fact)
    }
    case 'Var':
      return (operands as unknown) === 'principal' || (operands as unknown) === 'resource'
        ? { __entity: question[operands as unknown as 'principal'] }
        : undefined
    default: {
      const [first] = CONSTRUCTORS.includes(op) ? listed : []
      const arg = first === undefined ? undefined : resolve(at, first)
      return arg === undefined ? undefined : { __extn: { fn: op, arg } }
    }
  }
}

/** Whether somebody can change the fact; if not, notes it as fixed. */
function changeable(at: Search, fact: Fact | undefined): fact is Fact {
  if (fact === undefined) return false
  if (fact[0] === 'allow_sensitive_tools' || changedBy(fact) !== null) return true
  at.fixed.add(nameOf(fact))
  return false
}

// ── Changes ──

const one = (flip: Flip): Ways => [[flip]]
const ONE_APPROVAL: Flip = { fact: ['approval', 'count'], op: '>=', value: 1, sample: 1 }

function boolean(at: Search, expr: Expr, target: boolean): Ways {
  const value = resolve(at, expr)
  if (value === target) return DONE
  const fact = factOf(expr)
  if (!changeable(at, fact)) {
    if (fact === undefined) noteEntity(at, expr)
    return NONE
  }
  if (nameOf(fact) === 'allow_sensitive_tools' || nameOf(fact) === 'approval.granted')
    return target ? one(ONE_APPROVAL) : NONE // an approval can't be withdrawn
  return typeof value === 'boolean' || (value === undefined && fact[0] === 'args')
    ? one({ fact, op: '==', value: target, sample: target })
    : NONE
}

/** Notes an attribute of the tool or the agent as fixed. */
function noteEntity(at: Search, expr: Expr): void {
  const [op, operands] = read(expr)
  if (op === '.' || op === 'has') {
    const [inner, name] = read(operands.left)
    if (inner === 'Var') at.fixed.add(String(name))
    else noteEntity(at, operands.left)
  }
}

function compared(at: Search, relation: Relation, left: Expr, right: Expr): Ways {
  const [mine, theirs] = [resolve(at, left), resolve(at, right)]
  if (mine !== undefined && theirs !== undefined && related(relation, mine, theirs)) return DONE
  for (const side of [left, right]) if (read(side)[0] === 'Var') at.fixed.add(String(read(side)[1]))
  const ways: Ways = [...moved(at, left, relation, theirs), ...moved(at, right, MIRRORED[relation], mine)]
  return ways
}

function related(relation: Relation, left: CedarValueJson, right: CedarValueJson): boolean {
  if (relation === '==' || relation === '!=') return same(left, right) === (relation === '==')
  const [a, b] = [rank(left), rank(right)]
  if (a === undefined || b === undefined) return false
  return relation === '<' ? a < b : relation === '<=' ? a <= b : relation === '>' ? a > b : a >= b
}

/**
 * Changes that move one side of a comparison past the bound: the side itself, or a term of its sum.
 */
function moved(at: Search, expr: Expr, relation: Relation, bound: Value): Ways {
  if (bound === undefined) return NONE
  const [op, operands] = read(expr)
  if ((op === '+' || op === '-') && typeof bound === 'number') {
    const [left, right] = [resolve(at, operands.left), resolve(at, operands.right)]
    const sign = op === '+' ? 1 : -1
    const ofLeft = typeof right === 'number' ? moved(at, operands.left, relation, bound - sign * right) : NONE
    const rest = typeof left === 'number' ? sign * (bound - left) : undefined
    return [...ofLeft, ...moved(at, operands.right, op === '+' ? relation : MIRRORED[relation], rest)]
  }
  const fact = factOf(expr)
  if (!changeable(at, fact)) return NONE
  const flip =
    relation === '==' || relation === '!=' ? equal(at, fact, relation, bound) : bounded(fact, relation, bound)
  if (flip === undefined || (fact[0] === 'approval' && !givable(at, flip))) return NONE
  return one(flip)
}

/** Approvals can be given but not withdrawn, so only an increase is possible. */
const givable = ({ question }: Search, { fact, sample }: Flip): boolean => {
  const [before, after] = [valueAt(question.context, fact), sample]
  return typeof after !== 'number' || (rank(before) ?? 0) < after
}

function equal(at: Search, fact: Fact, relation: '==' | '!=', value: CedarValueJson): Flip | undefined {
  if (nameOf(fact) === 'approval.granted')
    return (value === true) === (relation === '==') ? ONE_APPROVAL : undefined
  if (relation === '==') return { fact, op: '==', value, sample: value }
  if (nameOf(fact) === 'approval.count') return bounded(fact, '>', value) // answers can only be added
  const present = valueAt(at.question.context, fact)
  if (typeof value === 'boolean') return { fact, op: '==', value: !value, sample: !value }
  const number = typeof value === 'number' ? value + 1 : undefined
  const sample = typeof value === 'string' ? `${value}~` : number
  return sample === undefined || present === undefined ? undefined : { fact, op: '!=', value, sample }
}

const DECIMAL_STEP = 1e-4

function bounded(fact: Fact, relation: '<' | '<=' | '>' | '>=', bound: CedarValueJson): Flip | undefined {
  const strict = relation === '<' || relation === '>'
  const step = strict ? (relation === '<' ? -1 : 1) : 0
  if (typeof bound === 'number') {
    const value = bound + step
    return Number.isSafeInteger(value)
      ? { fact, op: relation === '<' || relation === '<=' ? '<=' : '>=', value, sample: value }
      : undefined
  }
  const at = rank(bound)
  if (
    at === undefined ||
    typeof bound !== 'object' ||
    bound === null ||
    Array.isArray(bound) ||
    !('__extn' in bound)
  )
    return undefined
  const { fn } = bound.__extn as { fn: string } // `rank` has read it
  const arg = fn === 'decimal' ? (at + step * DECIMAL_STEP).toFixed(4) : new Date(at + step).toISOString()
  return { fact, op: relation, value: bound, sample: strict ? { __extn: { fn, arg } } : bound }
}

function has(at: Search, expr: Expr, target: boolean): Ways {
  const fact = pathOf(expr)
  if (fact === undefined) {
    noteEntity(at, expr)
    return NONE
  }
  if ((valueAt(at.question.context, fact) !== undefined) === target) return DONE
  if (!changeable(at, fact) || fact[0] !== 'args') return NONE
  // Its value is open, so try a text and a number.
  return target
    ? ['x', 1].map((sample) => [{ fact, op: 'present', sample }])
    : one({ fact, op: 'absent', sample: undefined })
}

/**
 * `principal in Group::"x"`, `principal is Agent`, `principal is Agent in Group::"x"`: only groups
 * can change.
 */
function belongs(
  at: Search,
  op: 'in' | 'is',
  { left, right, entity_type, in: within }: Operands,
  target: boolean,
): Ways {
  const [kind, operand] = read(left)
  const name: unknown = operand // a variable's operand is its name
  if (kind !== 'Var' || (name !== 'principal' && name !== 'resource')) return NONE
  const { question } = at
  const self = question[name]
  const fixed = (is: boolean): Ways => {
    if (is === target) return DONE
    at.fixed.add(name)
    return NONE
  }
  if (op === 'is') {
    const is = self.type === entity_type
    return is && within !== undefined
      ? belongs(at, 'in', { left, right: within } as Operands, target)
      : fixed(is)
  }
  const wanted = [resolve(at, right)].flat().flatMap((value) => (isEntity(value) ? [value.__entity] : []))
  if (at.steps < 0) return NONE
  const mine = at.ancestors(self)
  const held = wanted.filter((entity) => mine.has(textOf(entity)))
  if (held.length > 0 === target) return DONE
  if (
    name !== 'principal' ||
    self.type !== 'Agent' ||
    (target ? wanted : held).some(({ type }) => type !== 'Group')
  )
    return fixed(held.length > 0)
  const flips = (target ? wanted : held).map(
    ({ id }): Flip => ({ fact: GROUPS, op: target ? 'has' : 'lacks', value: id, sample: id }),
  )
  if (target) return flips.slice(0, LIMITS.explanation_members).map((flip) => [flip])
  return flips.length > LIMITS.explanation_members ? NONE : [flips]
}

const isEntity = (value: Value): value is { __entity: { type: string; id: string } } =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && '__entity' in value

/** `list.contains(value)`, where the list or the value is a fact. */
function contained(at: Search, { left, right }: Operands, target: boolean): Ways {
  const [list, value] = [resolve(at, left), resolve(at, right)]
  if (Array.isArray(list) && value !== undefined && list.some((item) => same(item, value)) === target)
    return DONE
  const [ofList, ofValue] = [factOf(left), factOf(right)]
  const ways: (readonly Flip[])[] = []
  if (value !== undefined && changeable(at, ofList)) {
    if (target) ways.push([{ fact: ofList, op: 'has', value, sample: value }])
    else if (ofList[0] !== 'approval') ways.push([{ fact: ofList, op: 'lacks', value, sample: value }])
  }
  if (Array.isArray(list) && changeable(at, ofValue)) {
    if (target)
      for (const member of list.slice(0, LIMITS.explanation_members))
        ways.push([{ fact: ofValue, op: '==', value: member, sample: member }])
    else if (value !== undefined)
      ways.push(...[equal(at, ofValue, '!=', value)].flatMap((flip) => (flip === undefined ? [] : [[flip]])))
  }
  return ways
}

/**
 * `list.containsAny(list)` and `list.containsAll(list)`, where one list is a fact and the other is
 * known.
 */
function containedMany(at: Search, all: boolean, { left, right }: Operands, target: boolean): Ways {
  const [held, asked] = [resolve(at, left), resolve(at, right)]
  if (!Array.isArray(held) || !Array.isArray(asked)) return NONE
  const isHeld = membership(held)
  const there = asked.filter(isHeld)
  if ((all ? there.length === asked.length : there.length > 0) === target) return DONE
  const missing = asked.filter((item) => !isHeld(item))
  const [holder, asker] = [factOf(left), factOf(right)]
  const each = (fact: Fact, op: Op, items: readonly CedarValueJson[]): readonly Flip[] =>
    items.map((value) => ({ fact, op, value, sample: value }))
  const alternatives = (flips: readonly Flip[]): Ways =>
    flips.slice(0, LIMITS.explanation_members).map((flip) => [flip])
  const together = (flips: readonly Flip[]): Ways =>
    flips.length > LIMITS.explanation_members ? NONE : [flips]
  const ways: (readonly Flip[])[] = []
  if (changeable(at, holder) && (target || holder[0] !== 'approval')) {
    if (target) ways.push(...(all ? together : alternatives)(each(holder, 'has', missing)))
    else ways.push(...(all ? alternatives : together)(each(holder, 'lacks', there)))
  }
  if (changeable(at, asker) && asker[0] !== 'approval') {
    if (all) ways.push(...(target ? together(each(asker, 'lacks', missing)) : NONE))
    else
      ways.push(...(target ? alternatives(each(asker, 'has', held)) : together(each(asker, 'lacks', there))))
  }
  return ways
}

function empty(at: Search, arg: Expr, target: boolean): Ways {
  const list = resolve(at, arg)
  if (Array.isArray(list) && (list.length === 0) === target) return DONE
  const fact = factOf(arg)
  if (!Array.isArray(list) || !changeable(at, fact) || fact[0] === 'approval') return NONE
  return one(target ? { fact, op: 'empty', sample: [] } : { fact, op: 'not empty', sample: ['x'] })
}

function like(at: Search, { left, pattern }: Operands, target: boolean): Ways {
  const [value, fact] = [resolve(at, left), factOf(left)]
  if (!spend(at, pattern.length)) return NONE
  const parts = partsOf(pattern)
  const sample = target ? parts.join('') : ''
  if (!payForMatch(at, value, sample, parts)) return NONE
  if (typeof value === 'string' && matches(value, parts) === target) return DONE
  if (!changeable(at, fact) || fact[0] === 'approval') return NONE
  const text = parts.map((part) => part ?? '*').join('')
  return matches(sample, parts) === target
    ? one({ fact, op: target ? 'like' : 'not like', value: text, sample })
    : NONE
}

/** A pattern; `null` is the wildcard. Joins the engine's single characters into texts. */
type Parts = readonly (string | null)[]

function partsOf(pattern: Operands['pattern']): Parts {
  const parts: (string | null)[] = []
  for (const part of pattern) {
    const before = parts.at(-1)
    if (part === 'Wildcard') parts.push(null)
    else if (typeof before === 'string') parts[parts.length - 1] = before + part.Literal
    else parts.push(part.Literal)
  }
  return parts
}

/**
 * Charges for a match. The worst case is quadratic: the text once per character of the longest
 * part.
 */
function payForMatch(at: Search, value: Value, sample: string, parts: Parts): boolean {
  const longest = parts.reduce((most, part) => Math.max(most, part?.length ?? 0), 1)
  const chars = (typeof value === 'string' ? value.length : 0) + sample.length
  return spend(at, (chars * longest) / CHARS_AN_ITEM)
}

/** Matches in one pass, because a backtracking pattern could stall the edge (G06). */
function matches(text: string, parts: Parts): boolean {
  let [from, anchored] = [0, true]
  for (const [index, part] of parts.entries()) {
    if (part === null) {
      anchored = false
      continue
    }
    const last = index === parts.length - 1
    const found = anchored ? from : last ? text.length - part.length : text.indexOf(part, from)
    if (found < from || !text.startsWith(part, found)) return false
    from = found + part.length
    anchored = true
  }
  return !anchored || from === text.length
}
