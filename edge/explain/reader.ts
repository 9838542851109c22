// Who an explanation is for, and what they may know: an operator all of it, an agent nothing of others. Reads the directory, and decides nothing.

import type { ApprovalContext } from '../consent.ts'
import type { AgentPrincipal, Loaded, LoadedTool } from '../directory.ts'
import { idOf } from './facts.ts'
import type { Reader } from './telling.ts'

/** A directory's names of principals, groups and roles: made when first something is to be told. */
const named = new WeakMap<Loaded, ReadonlySet<string>>()

function namesIn(directory: Loaded): ReadonlySet<string> {
  const known = named.get(directory)
  if (known !== undefined) return known
  const groups = [...directory.agents.values()].flatMap(({ spec }) => spec.groups ?? [])
  const roles = [...directory.operators.values()].flatMap(({ entities }) =>
    entities.flatMap(({ parents }) => parents.map((parent) => idOf(parent).id)),
  )
  const names = new Set([...directory.agents.keys(), ...directory.operators.keys(), ...roles, ...groups])
  named.set(directory, names)
  return names
}

/** `reach`: the most that humans could say as things are. */
export function readerOf(
  directory: Loaded,
  kind: Reader['kind'],
  agent: AgentPrincipal,
  { tool }: LoadedTool,
  reach: () => ApprovalContext,
): Reader {
  return {
    kind,
    names: (text) => [text, ...text.split(/[^\w.-]+/)].some((name) => name !== agent.name && namesIn(directory).has(name)),
    byArguments: [
      ...(tool.egress.named_by === undefined ? [] : ['plan.egress_hosts']),
      ...(tool.executor.timeout_ms === undefined ? [] : ['plan.timeout_ms']),
    ],
    reach,
  }
}
