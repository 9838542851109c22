// Who is asked beside those who are away. Pure. It moves messages and no rights: whoever stands in for somebody is asked under their own
// name, answers by what policy lets them, and is not asked at all where it lets them nothing.

import type { Delegation } from '../../shared/wire/channels.ts'

export type Asked = { readonly recipient: string; readonly insteadOf: string | null }

/** With those who stand in for them now, and those who stand in for these; each once, and whoever is asked anyway for themselves. */
export function withStandIns(
  recipients: readonly string[],
  delegations: readonly Delegation[],
  now: number,
): Asked[] {
  const asked = new Map<string, string | null>(recipients.map((name) => [name, null]))
  for (const [name, insteadOf] of asked) // grows while it is walked
    for (const { operator, to, until_ms } of delegations)
      if (operator === name && now < until_ms && !asked.has(to)) asked.set(to, insteadOf ?? name)
  return [...asked].map(([recipient, insteadOf]) => ({ recipient, insteadOf }))
}
