// Selects the values that a path matches, in the order of RFC 9535.

import type { Json, Operand, Operator, Path, Segment, Selector, Test } from './path.ts'

/** In filters, `$` means `root` and `@` means `value`. */
export function select({ from, segments }: Path, value: Json, root: Json): Json[] {
  return segments.reduce(
    (values, segment) => values.flatMap((one) => children(segment, one, root)),
    [from === '$' ? root : value],
  )
}

function children({ deep, selectors }: Segment, value: Json, root: Json): Json[] {
  const here = selectors.flatMap((selector) => chosen(selector, value, root))
  return deep ? [...here, ...inside(value).flatMap((one) => children({ deep, selectors }, one, root))] : here
}

function inside(value: Json): Json[] {
  if (Array.isArray(value)) return value
  return typeof value === 'object' && value !== null ? Object.values(value) : []
}

function chosen(selector: Selector, value: Json, root: Json): Json[] {
  switch (selector.kind) {
    case 'name':
      return isObject(value) && Object.hasOwn(value, selector.name) ? [value[selector.name] ?? null] : []
    case 'index': {
      const found = Array.isArray(value) ? value.at(selector.index) : undefined
      return found === undefined ? [] : [found]
    }
    case 'slice':
      return Array.isArray(value) ? sliced(value, selector) : []
    case 'all':
      return inside(value)
    case 'filter':
      return inside(value).filter((one) => holds(selector.test, one, root))
  }
}

const isObject = (value: Json): value is { [name: string]: Json } =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

function sliced(
  list: Json[],
  { start, end, step }: { start: number | undefined; end: number | undefined; step: number },
): Json[] {
  if (step === 0) return []
  const within = (at: number): number => (at < 0 ? list.length + at : at)
  const up = step > 0
  const [low, high] = up ? [0, list.length] : [-1, list.length - 1]
  const bounded = (at: number): number => Math.min(Math.max(within(at), low), high)
  const from = start === undefined ? (up ? 0 : list.length - 1) : bounded(start)
  const to = end === undefined ? (up ? list.length : -1) : bounded(end)
  const found: Json[] = []
  for (let at = from; up ? at < to : at > to; at += step) found.push(list[at] ?? null)
  return found
}

function holds(test: Test, value: Json, root: Json): boolean {
  switch (test.kind) {
    case 'or':
      return test.of.some((one) => holds(one, value, root))
    case 'and':
      return test.of.every((one) => holds(one, value, root))
    case 'not':
      return !holds(test.of, value, root)
    case 'exists':
      return select(test.path, value, root).length > 0
    case 'compare':
      return compares(test.operator, operandOf(test.left, value, root), operandOf(test.right, value, root))
  }
}

/** Undefined if there is no value. */
function operandOf(operand: Operand, value: Json, root: Json): Json | undefined {
  if (operand.kind === 'value') return operand.value
  const found = select(operand.path, value, root)
  if (operand.kind === 'count') return found.length
  const [only, other] = found
  const single = other === undefined ? only : undefined
  if (operand.kind !== 'length' || single === undefined) return single
  return typeof single === 'string'
    ? [...single].length
    : typeof single === 'object' && single !== null
      ? inside(single).length
      : undefined
}

function compares(operator: Operator, left: Json | undefined, right: Json | undefined): boolean {
  switch (operator) {
    case '==':
      return equal(left, right)
    case '!=':
      return !equal(left, right)
    case '<':
      return less(left, right)
    case '>':
      return less(right, left)
    case '<=':
      return less(left, right) || equal(left, right)
    case '>=':
      return less(right, left) || equal(left, right)
  }
}

const less = (left: Json | undefined, right: Json | undefined): boolean =>
  (typeof left === 'number' && typeof right === 'number' && left < right) ||
  (typeof left === 'string' && typeof right === 'string' && left < right)

function equal(left: Json | undefined, right: Json | undefined): boolean {
  if (typeof left !== 'object' || typeof right !== 'object' || left === null || right === null)
    return left === right
  if (Array.isArray(left) !== Array.isArray(right)) return false
  const [a, b] = [Object.entries(left), new Map(Object.entries(right))]
  return a.length === b.size && a.every(([name, value]) => b.has(name) && equal(value, b.get(name)))
}
