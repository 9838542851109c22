// Which names a tool may be registered under. The pattern (`PATTERNS.tool`) has been checked; this
// is about names that mean something else already.

import { RESERVED_TOOL_PREFIX } from '../../shared/ids.ts'

/** Returns what is wrong with the name, or `undefined`. */
export const faultInToolName = (name: string): string | undefined =>
  name.startsWith(RESERVED_TOOL_PREFIX)
    ? `\`${name}\` is reserved: names that begin with \`${RESERVED_TOOL_PREFIX}\` are for tools of Countersign itself; choose another name`
    : undefined
