// Finds the attributes that a policy can read, in its syntax tree. Cedar names attributes
// literally, so an attribute that appears nowhere can't change the decision and is not passed to
// the engine. Anything this can't follow counts as read whole.

import type { CedarValueJson, PolicyJson } from '@cedar-policy/cedar-wasm/web'

/** The part of a value that is read: all of it, or parts of some of its attributes. */
export type Reading = 'whole' | ReadonlyMap<string, Reading>
export type Reads = {
  readonly context: Reading
  /** Whether more of the resource is read than its identity. */
  readonly resource: boolean
}

export function readsOf(policy: PolicyJson): Reads {
  const readings: Reading[] = []
  let resource = policy.resource.op === 'in' || (policy.resource.op === 'is' && 'in' in policy.resource)
  const walk = (node: unknown): void => {
    const path = pathOf(node)
    if (path !== undefined) readings.push(along(path))
    else if (typeof node === 'object' && node !== null) {
      // A literal entity, or one found in an attribute of another, may be the resource.
      if (isVar(node, 'resource') || '__entity' in node || '.' in node || 'getTag' in node) resource = true
      for (const [operator, part] of Object.entries(node)) walk(operator === 'in' ? readByIn(part) : part)
    }
  }
  walk(policy.conditions)
  return { context: joined(readings), resource }
}

/** `x in Role::"a"` reads the entity on the left; a literal entity on the right is only a name. */
function readByIn(part: unknown): unknown {
  if (isLiteral(part)) return undefined
  return typeof part === 'object' &&
    part !== null &&
    'left' in part &&
    'right' in part &&
    isLiteral(part.right)
    ? part.left
    : part
}

function isLiteral(node: unknown): boolean {
  if (typeof node !== 'object' || node === null) return false
  if ('Set' in node) return Array.isArray(node.Set) && node.Set.every(isLiteral)
  return 'Value' in node && typeof node.Value === 'object' && node.Value !== null && '__entity' in node.Value
}

const isVar = (node: unknown, name: string): boolean =>
  typeof node === 'object' && node !== null && 'Var' in node && node.Var === name

/**
 * The path `['args', 'amount']` for `context.args.amount`, `context.args has amount` and `context
 * has args.amount`; undefined if the expression does not begin at the context.
 */
export function pathOf(node: unknown): string[] | undefined {
  if (isVar(node, 'context')) return []
  if (typeof node !== 'object' || node === null) return undefined
  const step: unknown = '.' in node ? node['.'] : 'has' in node ? node.has : undefined
  if (typeof step !== 'object' || step === null || !('left' in step && 'attr' in step)) return undefined
  const before = pathOf(step.left)
  const names: unknown[] = [step.attr].flat()
  return before !== undefined && names.every((name) => typeof name === 'string')
    ? [...before, ...names]
    : undefined
}

/** Every record of a tree, in source order. */
export function* nodesIn(tree: unknown): Generator<Readonly<Record<string, unknown>>> {
  const left = [tree]
  while (left.length > 0) {
    const node = left.pop()
    if (typeof node !== 'object' || node === null) continue
    if (!Array.isArray(node)) yield node as Record<string, unknown> // neither null nor a list
    for (const inner of Object.values(node).reverse()) left.push(inner)
  }
}

const along = ([first, ...rest]: readonly string[]): Reading =>
  first === undefined ? 'whole' : new Map([[first, along(rest)]])

/** The union of several readings. */
function joined(all: readonly Reading[]): Reading {
  const byName = new Map<string, Reading[]>()
  for (const reading of all) {
    if (reading === 'whole') return 'whole'
    for (const [name, inner] of reading) {
      const same = byName.get(name)
      if (same === undefined) byName.set(name, [inner])
      else same.push(inner)
    }
  }
  return new Map([...byName].map(([name, inner]) => [name, joined(inner)]))
}

/** Whether this attribute of the context, or anything in it, is read. */
export const isRead = (reading: Reading, [first, ...rest]: readonly string[]): boolean =>
  reading === 'whole' ||
  first === undefined ||
  (reading.has(first) && isRead(reading.get(first) ?? 'whole', rest))

/** The part of an attribute of the context that is read; undefined if nothing of it is. */
export const readingOf = ({ context }: Reads, name: string): Reading | undefined =>
  context === 'whole' ? context : context.get(name)

/** The reads of many policies. */
export const together = (all: readonly Reads[]): Reads => ({
  context: joined(all.map(({ context }) => context)),
  resource: all.some((reads) => reads.resource),
})

/**
 * The part of a value that is read. A decimal or an entity only looks like a record; it is never
 * cut.
 */
export function readPart(reading: Reading, value: CedarValueJson): CedarValueJson {
  if (reading === 'whole' || typeof value !== 'object' || value === null || Array.isArray(value)) return value
  if ('__extn' in value || '__entity' in value) return value
  const part: Record<string, CedarValueJson> = {}
  for (const [name, inner] of reading) {
    const there = Object.hasOwn(value, name) ? value[name] : undefined
    if (there !== undefined) part[name] = readPart(inner, there)
  }
  return part
}

/** The attributes of the context that a human's yes changes. */
const APPROVAL = ['approval', 'allow_sensitive_tools']
export const readsApproval = ({ context }: Reads): boolean =>
  context === 'whole' || APPROVAL.some((name) => context.has(name))
