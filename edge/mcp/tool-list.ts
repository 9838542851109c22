// The list of tools of one agent: its allowlist without the tools that no call could be allowed
// for. Hiding decides nothing: a call of a hidden tool is decided and denied like any other.

import { sha256 } from '../../shared/bytes/json.ts'
import { isListed } from '../decision/decide.ts'
import type { AgentPrincipal, LoadedDirectory } from '../directory/loaded-directory.ts'
import { possibleTools } from '../policy/possible-tools.ts'
import type { ListedTool } from './page.ts'
import { RESULT_TOOL } from './protocol.ts'
import { definitionText, RESULT_TEXT } from './tools.ts'

export type ToolList = {
  /** Sorted by name, so that the text of an unchanged list stays in a model's prompt cache. */
  readonly tools: readonly ListedTool[]
  readonly digest: string
}

/** Keyed by version of the directory, then by agent. */
const lists = new WeakMap<LoadedDirectory, Map<string, ToolList>>()

export function toolListOf(directory: LoadedDirectory, agent: AgentPrincipal): ToolList {
  const ofAgents = lists.get(directory) ?? new Map<string, ToolList>()
  lists.set(directory, ofAgents)
  const known = ofAgents.get(agent.name) ?? makeList(directory, agent)
  ofAgents.set(agent.name, known)
  return known
}

function makeList(directory: LoadedDirectory, agent: AgentPrincipal): ToolList {
  // A tool without an executor only answers a hook: nothing here could call it.
  const own = [...directory.tools.values()].filter(
    ({ tool }) => tool.executor.kind !== 'none' && isListed(agent, tool.name),
  )
  const { name, spec } = agent
  const possible = possibleTools(
    directory.policies,
    { name, groups: spec.groups ?? [] },
    own.map(({ tool, capabilities }) => ({ name: tool.name, groups: tool.groups ?? [], capabilities })),
  )
  const tools: ListedTool[] = own
    .filter(({ tool }) => possible.has(tool.name))
    .map((tool) => ({ name: tool.tool.name, text: definitionText(tool) }))
  tools.push({ name: RESULT_TOOL, text: RESULT_TEXT })
  tools.sort((a, b) => (a.name < b.name ? -1 : 1))
  return { tools, digest: sha256(tools.map(({ text }) => text).join('\n')) }
}
