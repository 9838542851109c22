// Partial evaluation of a rule for one tool: every test that the tool's contract decides is
// replaced by its value; tests that depend on the call stay as written. Pure and independent of the
// engine; tests that it doesn't understand stay too.

import type { Capability } from '../../shared/wire/tools.ts'
import { pathOf } from './attribute-reads.ts'
import type { Rule } from './engine.ts'

/** The parts of a tool's contract that rules can test; with `agent`, for this agent alone. */
export type Traits = {
  readonly name: string
  readonly groups: readonly string[]
  readonly capabilities: readonly Capability[]
  readonly agent?: { readonly name: string; readonly groups: readonly string[] }
}

/** A boolean, or the syntax tree of the tests that depend on the call. */
type Residual = unknown
/** The polarity of a part: the whole grows with it (1), shrinks with it (-1), or neither (0). */
type Sign = 1 | -1 | 0

/**
 * The residual of a rule for the tool `is`. With `or`, the tool may be either of the two, and the
 * residual is the weaker one: a forbid forbids less, a permit permits more.
 */
export function residualOf({ applies, effect }: Rule, is: Traits, or: Traits = is): Residual {
  const { principal, action, resource, conditions } = applies
  const scope = [
    scopeAsTest('principal', principal),
    scopeAsTest('action', action),
    scopeAsTest('resource', resource),
  ]
  const parts = [
    ...scope,
    ...conditions.map(({ kind, body }) => (kind === 'when' ? body : { '!': { arg: body } })),
  ]
  const whole = parts.reduce<unknown>((left, right) => ({ '&&': { left, right } }), { Value: true })
  return reduce(whole, effect === 'forbid' ? 1 : -1, { is, or })
}

type Constraint = Rule['applies']['principal' | 'action' | 'resource']

/** A constraint of a rule's scope, written as a condition. */
function scopeAsTest(name: string, constraint: Constraint): unknown {
  const left = { Var: name }
  if (constraint.op === 'is') return { is: { left, ...constraint } }
  if (constraint.op === 'All' || 'slot' in constraint) return { Value: true }
  const entity = (one: unknown): unknown => ({ Value: { __entity: readEntity(one) } })
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

function reduce(node: unknown, sign: Sign, tool: Tool): Residual {
  if (Array.isArray(node)) return node.map((item) => reduce(item, 0, tool))
  if (!isNode(node)) return node
  const settled = weaker(evaluate(node, tool.is), evaluate(node, tool.or), sign)
  if (settled !== undefined) return settled
  const [op = '', operands] = Object.entries(node)[0] ?? []
  if (!isNode(operands)) return node
  const { left, right, arg }: Operands = operands
  if (op === '!') {
    const inner = reduce(arg, opposite(sign), tool)
    return typeof inner === 'boolean' ? !inner : { '!': { arg: inner } }
  }
  if (op === '&&' || op === '||') {
    const decisive = op === '||'
    const first = reduce(left, sign, tool)
    if (first === decisive) return decisive
    const second = reduce(right, sign, tool)
    if (typeof first === 'boolean') return second
    return second === decisive
      ? decisive
      : typeof second === 'boolean'
        ? first
        : { [op]: { left: first, right: second } }
  }
  if (op === 'if-then-else') {
    const first = reduce(operands['if'], 0, tool)
    if (typeof first === 'boolean') return reduce(first ? operands['then'] : operands['else'], sign, tool)
    const [whether, otherwise] = [reduce(operands['then'], sign, tool), reduce(operands['else'], sign, tool)]
    return { [op]: [first, whether, otherwise] }
  }
  return {
    [op]: Object.fromEntries(Object.entries(operands).map(([name, inner]) => [name, reduce(inner, 0, tool)])),
  }
}

const opposite = (sign: Sign): Sign => (sign === 1 ? -1 : sign === -1 ? 1 : 0)

/** The value that makes the whole rule weaker; the second if that can't be determined. */
function weaker(one: Known, other: Known, sign: Sign): Known {
  if (typeof one !== 'boolean' || typeof other !== 'boolean' || sign === 0) return other
  return sign === 1 ? one && other : one || other
}

type Known = boolean | readonly string[] | undefined

/**
 * The value of a test or of the capability list under this contract; undefined if it depends on the
 * call.
 */
function evaluate(node: Node, is: Traits): Known {
  if (typeof node['Value'] === 'boolean') return node['Value']
  if (isCapabilities(node)) return is.capabilities.toSorted()
  const [op = '', operands] = Object.entries(node)[0] ?? []
  if (!isNode(operands)) return undefined
  const { left, right }: Operands = operands
  switch (op) {
    case '==':
      return isEqual(left, right, is) ?? isEqual(right, left, is)
    case '!=': {
      const equal = isEqual(left, right, is) ?? isEqual(right, left, is)
      return equal === undefined ? undefined : !equal
    }
    case 'in':
      return isIn(left, right, is)
    case 'is':
      return isOfType(left, operands, is)
    case 'contains':
      return isCapabilities(left)
        ? containsCapability(right, is)
        : anyOf(itemsOf(left)?.map((item) => isEqual(right, item, is)))
    case 'containsAny':
      return isCapabilities(left) || isCapabilities(right)
        ? textsOf(isCapabilities(left) ? right : left)?.some(hasCapability(is))
        : undefined
    case 'containsAll':
      if (isCapabilities(left)) return textsOf(right)?.every(hasCapability(is))
      return isCapabilities(right) ? areAllIn(is.capabilities, textsOf(left)) : undefined
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

const hasCapability =
  ({ capabilities }: Traits) =>
  (text: string): boolean =>
    capabilities.some((one) => one === text)
const containsCapability = (node: unknown, is: Traits): boolean | undefined =>
  textsOf({ Set: [node] })?.some(hasCapability(is))
const areAllIn = (all: readonly string[], texts: readonly string[] | undefined): boolean | undefined =>
  texts === undefined ? undefined : all.every((one) => texts.includes(one))

/** The texts of a literal set; undefined if it is something else. */
function textsOf(node: unknown): readonly string[] | undefined {
  const items = itemsOf(node)
  const texts = items?.flatMap((item) =>
    isNode(item) && typeof item['Value'] === 'string' ? [item['Value']] : [],
  )
  return texts?.length === items?.length ? texts : undefined
}

type Entity = { readonly type: unknown; readonly id: unknown }

/** Reads an entity in either of its JSON forms. */
function readEntity(uid: unknown): Entity | undefined {
  const inner = isNode(uid) && '__entity' in uid ? uid['__entity'] : uid
  return isNode(inner) && 'type' in inner && 'id' in inner
    ? { type: inner['type'], id: inner['id'] }
    : undefined
}

const entityIn = (node: unknown): Entity | undefined =>
  isNode(node) && isNode(node['Value']) && '__entity' in node['Value'] ? readEntity(node['Value']) : undefined

/**
 * Whether the variable has this value in every call of the tool; undefined if that depends on the
 * call.
 */
function isEqual(named: unknown, value: unknown, { name, agent }: Traits): boolean | undefined {
  if (pathOf(named)?.join('.') === 'tool_name') {
    const text = isNode(value) ? value['Value'] : undefined
    return typeof text === 'string' ? text === name : undefined
  }
  const entity = entityIn(value)
  if (entity === undefined) return undefined
  if (varOf(named) === 'resource') return entity.type === 'Tool' && entity.id === name
  if (varOf(named) === 'action') return entity.type === 'Action' && entity.id === `tool.execute/${name}`
  if (varOf(named) !== 'principal') return undefined
  return entity.type !== 'Agent' ? false : agent === undefined ? undefined : entity.id === agent.name
}

function isIn(named: unknown, value: unknown, is: Traits): boolean | undefined {
  const items = itemsOf(value)
  if (items !== undefined) return anyOf(items.map((item) => isIn(named, item, is)))
  const entity = entityIn(value)
  if (entity === undefined) return undefined
  if (varOf(named) === 'resource' && entity.type === 'ToolGroup') return is.groups.includes(String(entity.id))
  if (varOf(named) === 'action' && entity.type === 'Action' && entity.id === 'tool.execute') return true
  if (entity.type === 'Upstream') return undefined // the tool may belong to an upstream
  if (entity.type === 'Skill' || (entity.type === 'Action' && entity.id === 'skill.execute')) return undefined // the tool may belong to a skill
  if (varOf(named) === 'principal' && entity.type === 'Group')
    return is.agent?.groups.includes(String(entity.id))
  return isEqual(named, value, is)
}

const TYPE_OF_VARIABLE: Readonly<Record<string, string>> = { principal: 'Agent', resource: 'Tool' }

function isOfType(named: unknown, operands: Node, is: Traits): boolean | undefined {
  const type = TYPE_OF_VARIABLE[String(varOf(named))]
  if (type === undefined) return undefined
  if (operands['entity_type'] !== type) return false
  const within = operands['in']
  return within === undefined
    ? true
    : isIn(
        named,
        isNode(within) && 'entity' in within ? { Value: { __entity: readEntity(within['entity']) } } : within,
        is,
      )
}
