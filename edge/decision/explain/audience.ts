// The reader of an explanation and what they may know: an operator everything, an agent no names of
// others. Reads the directory.

import type { AgentPrincipal, LoadedDirectory, LoadedTool } from '../../directory/loaded-directory.ts'
import { idOf } from '../../policy/slices.ts'
import type { ApprovalContext } from '../approval-context.ts'
import type { Reader } from './wording.ts'

/**
 * All names of principals, groups and roles of a directory, in lower case; computed on first use.
 */
const namesOfDirectory = new WeakMap<LoadedDirectory, ReadonlySet<string>>()

/** A shorter name occurs inside too many words, so it is only compared with whole words. */
const SHORTEST_WITHIN = 3

function namesIn(directory: LoadedDirectory): ReadonlySet<string> {
  const known = namesOfDirectory.get(directory)
  if (known !== undefined) return known
  const groups = [...directory.agents.values()].flatMap(({ spec }) => spec.groups ?? [])
  const roles = [...directory.operators.values()].flatMap(({ entities }) =>
    entities.flatMap(({ parents }) => parents.map((parent) => idOf(parent).id)),
  )
  const all = [...directory.agents.keys(), ...directory.operators.keys(), ...roles, ...groups]
  const names = new Set(all.map((name) => name.toLowerCase()))
  namesOfDirectory.set(directory, names)
  return names
}

/** Whether a text contains a name other than the agent's own, ignoring case. */
function namesOther(directory: LoadedDirectory, own: string, text: string): boolean {
  const lower = text.toLowerCase()
  const words = new Set(lower.split(/[^\w.-]+/))
  return [...namesIn(directory)].some(
    (name) => name !== own && (words.has(name) || (name.length >= SHORTEST_WITHIN && lower.includes(name))),
  )
}

/** `reach`: the contexts with the most answers that humans could still give. */
export function readerOf(
  directory: LoadedDirectory,
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
