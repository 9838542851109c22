// What remains of a rule for one tool: its tree, in which all that the tool's contract settles is replaced by what it comes to. What
// calls can still make of it stays as it is written. Pure: it asks no engine, and what it does not know it leaves.

import type { Capability } from '../../shared/wire/tools.ts'
import { pathOf } from './attribute-reads.ts'
import type { Rule } from './engine.ts'

/** What of a contract rules can tell before there is a call. */
export type Traits = {
  readonly name: string
  readonly groups: readonly string[]
  readonly capabilities: readonly Capability[]
}

/** A settled test, or what a call has still to settle. */
type Remainder = unknown
/** Whether the whole rests on a part (1), on its contrary (-1), or on both or neither (0). */
type Sign = 1 | -1 | 0

/**
 * What remains of a rule for a tool; and at its weakest, where the tool may be either of two: forbids that forbid less, permits that
 * permit more.
 */
export function remainder({ applies, effect }: Rule, is: Traits, or: Traits = is): Remainder {
  const { principal, action, resource, conditions } = applies
  const scope = [asTest('principal', principal), asTest('action', action), asTest('resource', resource)]
  const parts = [
    ...scope,
    ...conditions.map(({ kind, body }) => (kind === 'when' ? body : { '!': { arg: body } })),
  ]
  const whole = parts.reduce<unknown>((left, right) => ({ '&&': { left, right } }), { Value: true })
  return reduced(whole, effect === 'forbid' ? 1 : -1, { is, or })
}

type Constraint = Rule['applies']['principal' | 'action' | 'resource']

/** An end of a scope as the test that it is. */
function asTest(name: string, constraint: Constraint): unknown {
  const left = { Var: name }
  if (constraint.op === 'is') return { is: { left, ...constraint } }
  if (constraint.op === 'All' || 'slot' in constraint) return { Value: true }
  const entity = (one: unknown): unknown => ({ Value: { __entity: plainly(one) } })
  return {
    [constraint.op]: {
      left,
      right: 'entities' in constraint ? { Set: constraint.entities.map(entity) } : entity(constraint.entity),
    },
  }
}

type Tool = { readonly is: Traits; readonly or: Traits }
type Node = Readonly<Record<string, unknown>>
type Operands = { readonly left?: unknown; readonly right?: unknown; readonly arg?: unknown }

const isNode = (value: unknown): value is Node =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

function reduced(node: unknown, sign: Sign, tool: Tool): Remainder {
  if (Array.isArray(node)) return node.map((item) => reduced(item, 0, tool))
  if (!isNode(node)) return node
  const settled = atItsWeakest(settle(node, tool.is), settle(node, tool.or), sign)
  if (settled !== undefined) return settled
  const [op = '', operands] = Object.entries(node)[0] ?? []
  if (!isNode(operands)) return node
  const { left, right, arg }: Operands = operands
  if (op === '!') {
    const inner = reduced(arg, opposite(sign), tool)
    return typeof inner === 'boolean' ? !inner : { '!': { arg: inner } }
  }
  if (op === '&&' || op === '||') {
    const decisive = op === '||'
    const first = reduced(left, sign, tool)
    if (first === decisive) return decisive
    const second = reduced(right, sign, tool)
    if (typeof first === 'boolean') return second
    return second === decisive
      ? decisive
      : typeof second === 'boolean'
        ? first
        : { [op]: { left: first, right: second } }
  }
  if (op === 'if-then-else') {
    const first = reduced(operands['if'], 0, tool)
    if (typeof first === 'boolean') return reduced(first ? operands['then'] : operands['else'], sign, tool)
    const [whether, otherwise] = [
      reduced(operands['then'], sign, tool),
      reduced(operands['else'], sign, tool),
    ]
    return { [op]: [first, whether, otherwise] }
  }
  return {
    [op]: Object.fromEntries(
      Object.entries(operands).map(([name, inner]) => [name, reduced(inner, 0, tool)]),
    ),
  }
}

const opposite = (sign: Sign): Sign => (sign === 1 ? -1 : sign === -1 ? 1 : 0)

/** Where it can't be told which of two makes the whole weaker, it is the second. */
function atItsWeakest(one: Settled, other: Settled, sign: Sign): Settled {
  if (typeof one !== 'boolean' || typeof other !== 'boolean' || sign === 0) return other
  return sign === 1 ? one && other : one || other
}

type Settled = boolean | readonly string[] | undefined

/** What the contract makes of a test, or of the list that it holds; undefined where calls have a say. */
function settle(node: Node, is: Traits): Settled {
  if (typeof node['Value'] === 'boolean') return node['Value']
  if (isCapabilities(node)) return is.capabilities.toSorted()
  const [op = '', operands] = Object.entries(node)[0] ?? []
  if (!isNode(operands)) return undefined
  const { left, right }: Operands = operands
  switch (op) {
    case '==':
      return isOne(left, right, is) ?? isOne(right, left, is)
    case '!=': {
      const equal = isOne(left, right, is) ?? isOne(right, left, is)
      return equal === undefined ? undefined : !equal
    }
    case 'in':
      return isIn(left, right, is)
    case 'is':
      return isOf(left, operands, is)
    case 'contains':
      return isCapabilities(left)
        ? holds(right, is)
        : anyOf(itemsOf(left)?.map((item) => isOne(right, item, is)))
    case 'containsAny':
      return isCapabilities(left) || isCapabilities(right)
        ? textsOf(isCapabilities(left) ? right : left)?.some(can(is))
        : undefined
    case 'containsAll':
      if (isCapabilities(left)) return textsOf(right)?.every(can(is))
      return isCapabilities(right) ? allAmong(is.capabilities, textsOf(left)) : undefined
    default:
      return undefined
  }
}

const anyOf = (tests: readonly (boolean | undefined)[] | undefined): boolean | undefined =>
  tests?.includes(true) ? true : tests?.every((test) => test === false) ? false : undefined

const itemsOf = (node: unknown): readonly unknown[] | undefined =>
  isNode(node) && Array.isArray(node['Set']) ? node['Set'] : undefined
const varOf = (node: unknown): unknown => (isNode(node) ? node['Var'] : undefined)

function isCapabilities(node: unknown): boolean {
  const step = isNode(node) ? node['.'] : undefined
  return (
    isNode(step) &&
    step['attr'] === 'capabilities' &&
    ['context', 'resource'].includes(String(varOf(step['left'])))
  )
}

const can =
  ({ capabilities }: Traits) =>
  (text: string): boolean =>
    capabilities.some((one) => one === text)
const holds = (node: unknown, is: Traits): boolean | undefined => textsOf({ Set: [node] })?.some(can(is))
const allAmong = (all: readonly string[], texts: readonly string[] | undefined): boolean | undefined =>
  texts === undefined ? undefined : all.every((one) => texts.includes(one))

/** Of a list that is written out, the texts; undefined where it is something else. */
function textsOf(node: unknown): readonly string[] | undefined {
  const items = itemsOf(node)
  const texts = items?.flatMap((item) =>
    isNode(item) && typeof item['Value'] === 'string' ? [item['Value']] : [],
  )
  return texts?.length === items?.length ? texts : undefined
}

type Entity = { readonly type: unknown; readonly id: unknown }

/** An entity as policies write it, in either of the forms of its JSON. */
function plainly(uid: unknown): Entity | undefined {
  const inner = isNode(uid) && '__entity' in uid ? uid['__entity'] : uid
  return isNode(inner) && 'type' in inner && 'id' in inner
    ? { type: inner['type'], id: inner['id'] }
    : undefined
}

const entityIn = (node: unknown): Entity | undefined =>
  isNode(node) && isNode(node['Value']) && '__entity' in node['Value'] ? plainly(node['Value']) : undefined

/** Whether what calls of the tool bear under this name is this value. */
function isOne(named: unknown, value: unknown, { name }: Traits): boolean | undefined {
  if (pathOf(named)?.join('.') === 'tool_name') {
    const text = isNode(value) ? value['Value'] : undefined
    return typeof text === 'string' ? text === name : undefined
  }
  const entity = entityIn(value)
  if (entity === undefined) return undefined
  if (varOf(named) === 'resource') return entity.type === 'Tool' && entity.id === name
  if (varOf(named) === 'action') return entity.type === 'Action' && entity.id === `tool.execute/${name}`
  return varOf(named) === 'principal' && entity.type !== 'Agent' ? false : undefined
}

function isIn(named: unknown, value: unknown, is: Traits): boolean | undefined {
  const items = itemsOf(value)
  if (items !== undefined) return anyOf(items.map((item) => isIn(named, item, is)))
  const entity = entityIn(value)
  if (entity === undefined) return undefined
  if (varOf(named) === 'resource' && entity.type === 'ToolGroup') return is.groups.includes(String(entity.id))
  if (varOf(named) === 'action' && entity.type === 'Action' && entity.id === 'tool.execute') return true
  if (entity.type === 'Skill' || (entity.type === 'Action' && entity.id === 'skill.execute')) return undefined // the tool may be one's
  return varOf(named) === 'principal' && entity.type === 'Group' ? undefined : isOne(named, value, is)
}

const TYPES: Readonly<Record<string, string>> = { principal: 'Agent', resource: 'Tool' }

function isOf(named: unknown, operands: Node, is: Traits): boolean | undefined {
  const type = TYPES[String(varOf(named))]
  if (type === undefined) return undefined
  if (operands['entity_type'] !== type) return false
  const within = operands['in']
  return within === undefined
    ? true
    : isIn(
        named,
        isNode(within) && 'entity' in within ? { Value: { __entity: plainly(within['entity']) } } : within,
        is,
      )
}
