// Who an explanation is for, and what they may know: an operator all of it, an agent nothing of others. Reads the directory, and decides
// nothing.

import type { AgentPrincipal, Loaded, LoadedTool } from '../../directory/directory.ts'
import { idOf } from '../../policy/slices.ts'
import type { ApprovalContext } from '../approval-context.ts'
import type { Reader } from './wording.ts'

/** A directory's names of principals, groups and roles, in lower case: made when first something is to be told. */
const named = new WeakMap<Loaded, ReadonlySet<string>>()

/** A shorter name is in too many words to be looked for within them. */
const SHORTEST_WITHIN = 3

function namesIn(directory: Loaded): ReadonlySet<string> {
  const known = named.get(directory)
  if (known !== undefined) return known
  const groups = [...directory.agents.values()].flatMap(({ spec }) => spec.groups ?? [])
  const roles = [...directory.operators.values()].flatMap(({ entities }) =>
    entities.flatMap(({ parents }) => parents.map((parent) => idOf(parent).id)),
  )
  const all = [...directory.agents.keys(), ...directory.operators.keys(), ...roles, ...groups]
  const names = new Set(all.map((name) => name.toLowerCase()))
  named.set(directory, names)
  return names
}

/** However it is written, and whatever stands around it. */
function namesOther(directory: Loaded, own: string, text: string): boolean {
  const lower = text.toLowerCase()
  const words = new Set(lower.split(/[^\w.-]+/))
  return [...namesIn(directory)].some(
    (name) => name !== own && (words.has(name) || (name.length >= SHORTEST_WITHIN && lower.includes(name))),
  )
}

/** `reach`: the most that humans could say as things are, in each manner. */
export function readerOf(
  directory: Loaded,
  kind: Reader['kind'],
  agent: AgentPrincipal,
  { tool }: LoadedTool,
  reach: () => readonly [ApprovalContext, ...ApprovalContext[]],
): Reader {
  let most: ReturnType<typeof reach> | undefined
  const program = tool.executor.kind === 'process' ? tool.executor : undefined
  return {
    kind,
    redaction: directory.redaction.unmarked,
    names: (text) => namesOther(directory, agent.name.toLowerCase(), text),
    byArguments: [
      ...(program?.argv[0]?.startsWith('{') === true ? ['plan.program'] : []),
      ...(tool.egress.named_by === undefined ? [] : ['plan.egress_hosts']),
      ...(program?.timeout_ms === undefined ? [] : ['plan.timeout_ms']),
    ],
    reach: () => {
      most ??= reach()
      return most
    },
  }
}
