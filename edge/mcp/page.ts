// Pages of a list that is sorted by name. Pure.

import { LIMITS } from '../../shared/limits.ts'

export type ListedTool = { readonly name: string; readonly text: string }

/** One page: the tools after `after`, and the last name if there are more. */
export function pageOf(
  tools: readonly ListedTool[],
  after: string | null,
): { readonly texts: readonly string[]; readonly last: string | null } {
  const from = after === null ? 0 : tools.findIndex(({ name }) => name > after)
  const page = from < 0 ? [] : tools.slice(from, from + LIMITS.mcp_tools_page)
  const last = page.at(-1)?.name ?? null
  return { texts: page.map(({ text }) => text), last: last === tools.at(-1)?.name ? null : last }
}
