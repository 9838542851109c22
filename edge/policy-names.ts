// What a set names that there is not: agents, groups, tools, and values that an attribute never has. Such a policy holds and never applies. It
// judges one set among what there is, refuses nothing, and reads policies as trees.

import type { FieldError } from '../shared/failures.ts'
import { EgressMode, Tier, Workspace } from '../shared/plan.ts'
import { Assurance, Capability } from '../shared/wire.ts'
import type { PolicySet, Rule } from './policy.ts'
import { placeOf, textsIn } from './policy-intent.ts'
import { pathOf } from './policy-reads.ts'

type Grouped = { readonly groups?: readonly string[] | undefined }
type There = {
  readonly agents: ReadonlyMap<string, { readonly spec: Grouped }>
  readonly tools: ReadonlyMap<string, { readonly tool: Grouped }>
}
/** By what policies call each kind. */
type Names = Readonly<Record<string, { readonly word: string; readonly all: ReadonlySet<string> }>>

/** Whose values are few, and ours. */
const CLOSED: Readonly<Record<string, readonly string[]>> = {
  'plan.tier': Tier.options,
  'plan.egress_mode': EgressMode.options,
  'plan.workspace': Workspace.options,
  'approval.assurance': [...Assurance.options, 'none'],
  capabilities: Capability.options,
}
const COUNTERS = ['approval.count', 'approval.independent.count']
const HOLDS_AGAINST = ['==', '!=', 'contains', 'containsAny', 'containsAll']

export function namesNothing({ rules }: PolicySet, there: There): FieldError[] {
  const names = namesOf(there)
  return [...rules.values()].flatMap((rule) => (rule.source.file.startsWith('floor.') ? [] : [...new Map(unmet(rule, names)).values()]))
}

/** Where the rules of a set name this tool as a resource. */
export const placesOfTool = ({ rules }: PolicySet, tool: string): FieldError[] =>
  [...rules.values()].flatMap(({ applies, source }) => {
    const named = [...nodesIn(applies)].some(({ type, id }) => type === 'Tool' && id === tool)
    return named ? [{ at: placeIn(source, tool), message: `it is about \`Tool::"${tool}"\`` }] : []
  })

/** Every action that the rules of a set name, in their scopes and their conditions. */
export const actionsIn = ({ rules }: PolicySet): string[] =>
  [...rules.values()].flatMap(({ applies }) =>
    [...nodesIn(applies)].flatMap(({ type, id }) => (type === 'Action' && typeof id === 'string' ? [id] : [])),
  )

const namesOf = ({ agents, tools }: There): Names => ({
  Agent: { word: 'agent', all: new Set(agents.keys()) },
  Group: { word: 'group of agents', all: new Set([...agents.values()].flatMap(({ spec }) => spec.groups ?? [])) },
  Tool: { word: 'tool', all: new Set(tools.keys()) },
  ToolGroup: { word: 'group of tools', all: new Set([...tools.values()].flatMap(({ tool }) => tool.groups ?? [])) },
})

/** Every record of a tree. Policies are no deeper than `policy_depth`. */
function* nodesIn(node: unknown): Generator<Readonly<Record<string, unknown>>> {
  if (typeof node !== 'object' || node === null) return
  if (!Array.isArray(node)) yield node as Record<string, unknown> // what is neither null nor a list
  for (const inner of Object.values(node)) yield* nodesIn(inner)
}

/** By what is said, so that it is said once. */
function unmet({ applies, source }: Rule, names: Names): [string, FieldError][] {
  const found: [string, FieldError][] = []
  const say = (text: string, message: string, hint?: string): void => {
    found.push([message, { at: placeIn(source, text), message, ...(hint === undefined ? {} : { hint }) }])
  }
  const there = (kind: string, id: string): void => {
    const known = Object.hasOwn(names, kind) ? names[kind] : undefined
    if (known !== undefined && !known.all.has(id)) say(id, `there is no ${known.word} \`${id}\`: this never applies`, near(id, known.all))
  }
  for (const node of nodesIn(applies)) {
    if (typeof node['type'] === 'string' && typeof node['id'] === 'string') there(node['type'], node['id'])
    for (const op of HOLDS_AGAINST) {
      const operands = node[op]
      if (typeof operands !== 'object' || operands === null || !('left' in operands && 'right' in operands)) continue
      const name = (pathOf(operands.left) ?? pathOf(operands.right) ?? []).join('.')
      const texts = [operands.left, operands.right].flatMap(textsIn)
      if (name === 'tool_name') for (const text of texts) there('Tool', text)
      const closed = Object.hasOwn(CLOSED, name) ? (CLOSED[name] ?? []) : texts
      for (const text of texts)
        if (!closed.includes(text))
          say(text, `\`${name}\` never holds \`${text}\`; there are ${closed.map((one) => `\`${one}\``).join(', ')}`, near(text, closed))
      if (COUNTERS.includes(name) && (op === '==' || op === '!='))
        say(
          name,
          `\`${name} ${op}\` is asked of nobody where more can answer than that: every one of them is supposed to`,
          'write `>=` or `<`',
        )
    }
  }
  return found
}

function near(text: string, all: Iterable<string>): string | undefined {
  const same = [...all].find((one) => one.toLowerCase() === text.toLowerCase())
  return same === undefined ? undefined : `did you mean \`${same}\`?`
}

const placeIn = (source: Rule['source'], text: string): string => {
  const quoted = source.text.indexOf(JSON.stringify(text))
  return placeOf(source, Math.max(0, quoted === -1 ? source.text.indexOf(text) : quoted))
}
