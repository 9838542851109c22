// What a policy can read, found in its syntax tree: Cedar names attributes literally, so an attribute that appears nowhere
// can't matter and need not be handed over. Whatever this can't follow counts as reading everything.

import type { PolicyJson } from '@cedar-policy/cedar-wasm/web'

export type Reads = {
  /** Every name and string in the conditions. */
  readonly words: ReadonlySet<string>
  /** `context` as a whole is read, not attribute by attribute. */
  readonly wholeContext: boolean
  /** More of the resource is read than its identity. */
  readonly resource: boolean
}

export function readsOf(policy: PolicyJson): Reads {
  const words = new Set<string>()
  let wholeContext = false
  let resource = policy.resource.op === 'in' || (policy.resource.op === 'is' && 'in' in policy.resource)
  const walk = (node: unknown, accessed: boolean): void => {
    if (typeof node === 'string') words.add(node)
    if (typeof node !== 'object' || node === null) return
    for (const [key, inner] of Object.entries(node)) {
      if (key === 'Var' && inner === 'context' && !accessed) wholeContext = true
      if (key === 'Var' && inner === 'resource') resource = true
      words.add(key)
      if ((key === '.' || key === 'has') && typeof inner === 'object' && inner !== null) {
        const { left, ...rest } = inner as { left?: unknown } // an access or a test: its left side is what is read from
        walk(left, true)
        walk(rest, false)
      } else walk(inner, false)
    }
  }
  walk(policy.conditions, false)
  return { words, wholeContext, resource }
}

/** The reads of many policies. */
export function together(all: readonly Reads[]): Reads {
  return {
    words: new Set(all.flatMap(({ words }) => [...words])),
    wholeContext: all.some((reads) => reads.wholeContext),
    resource: all.some((reads) => reads.resource),
  }
}

/** What a human's yes changes in the context. */
const APPROVAL = ['approval', 'allow_sensitive_tools']
export const readsApproval = ({ words, wholeContext }: Reads): boolean => wholeContext || APPROVAL.some((name) => words.has(name))
