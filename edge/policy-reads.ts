// What a policy can read, found in its syntax tree: Cedar names attributes literally, so an attribute that appears nowhere
// can't matter and need not be handed over. Whatever this can't follow counts as read whole.

import type { CedarValueJson, PolicyJson } from '@cedar-policy/cedar-wasm/web'

/** How much of a value is read: all of it, or what is in some of its attributes. */
export type Reading = 'whole' | ReadonlyMap<string, Reading>
export type Reads = {
  readonly context: Reading
  /** More of the resource is read than its identity. */
  readonly resource: boolean
}

export function readsOf(policy: PolicyJson): Reads {
  const readings: Reading[] = []
  let resource = policy.resource.op === 'in' || (policy.resource.op === 'is' && 'in' in policy.resource)
  const walk = (node: unknown): void => {
    const path = pathOf(node)
    if (path !== undefined) readings.push(along(path))
    else if (typeof node === 'object' && node !== null) {
      // An entity that is named, or found in an attribute of another, may be the resource.
      if (isVar(node, 'resource') || '__entity' in node || '.' in node || 'getTag' in node) resource = true
      for (const [operator, part] of Object.entries(node)) walk(operator === 'in' ? lookedInto(part) : part)
    }
  }
  walk(policy.conditions)
  return { context: joined(readings), resource }
}

/** Of `x in Role::"a"`, the entity on the left is looked into; one that is written on the right is only a name. */
function lookedInto(part: unknown): unknown {
  if (isWritten(part)) return undefined
  return typeof part === 'object' && part !== null && 'left' in part && 'right' in part && isWritten(part.right) ? part.left : part
}

function isWritten(node: unknown): boolean {
  if (typeof node !== 'object' || node === null) return false
  if ('Set' in node) return Array.isArray(node.Set) && node.Set.every(isWritten)
  return 'Value' in node && typeof node.Value === 'object' && node.Value !== null && '__entity' in node.Value
}

const isVar = (node: unknown, name: string): boolean => typeof node === 'object' && node !== null && 'Var' in node && node.Var === name

/**
 * `['args', 'amount']` for `context.args.amount`, for `context.args has amount` and for `context has args.amount`; undefined where the way
 * does not begin at the context.
 */
export function pathOf(node: unknown): string[] | undefined {
  if (isVar(node, 'context')) return []
  if (typeof node !== 'object' || node === null) return undefined
  const step: unknown = '.' in node ? node['.'] : 'has' in node ? node.has : undefined
  if (typeof step !== 'object' || step === null || !('left' in step && 'attr' in step)) return undefined
  const before = pathOf(step.left)
  const names: unknown[] = [step.attr].flat()
  return before !== undefined && names.every((name) => typeof name === 'string') ? [...before, ...names] : undefined
}

/** Every record of a tree, as they are written. */
export function* nodesIn(tree: unknown): Generator<Readonly<Record<string, unknown>>> {
  const left = [tree]
  while (left.length > 0) {
    const node = left.pop()
    if (typeof node !== 'object' || node === null) continue
    if (!Array.isArray(node)) yield node as Record<string, unknown> // what is neither null nor a list
    for (const inner of Object.values(node).reverse()) left.push(inner)
  }
}

const along = ([first, ...rest]: readonly string[]): Reading => (first === undefined ? 'whole' : new Map([[first, along(rest)]]))

/** What is read by any of them. */
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
  reading === 'whole' || first === undefined || (reading.has(first) && isRead(reading.get(first) ?? 'whole', rest))

/** The reads of many policies. */
export const together = (all: readonly Reads[]): Reads => ({
  context: joined(all.map(({ context }) => context)),
  resource: all.some((reads) => reads.resource),
})

/** Of a value, what is read of it. A value that only looks like a record (a decimal, an entity) has no attributes to leave out. */
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

/** What a human's yes changes in the context. */
const APPROVAL = ['approval', 'allow_sensitive_tools']
export const readsApproval = ({ context }: Reads): boolean => context === 'whole' || APPROVAL.some((name) => context.has(name))
