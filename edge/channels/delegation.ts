// Delegation: who else is asked while an operator is away. Pure. It redirects messages and
// transfers no rights: a delegate is asked under their own name and answers with their own
// permissions, and is not asked at all without them.

import type { Delegation } from '../../shared/wire/channels.ts'

export type Addressee = { readonly recipient: string; readonly insteadOf: string | null }

/**
 * The recipients, their delegates, and the delegates of these, each once; `null`: asked for
 * themselves.
 */
export function withDelegates(
  recipients: readonly string[],
  delegations: readonly Delegation[],
  now: number,
): Addressee[] {
  const asked = new Map<string, string | null>(recipients.map((name) => [name, null]))
  for (const [name, insteadOf] of asked) // the loop also visits the entries that it adds
    for (const { operator, to, until_ms } of delegations)
      if (operator === name && now < until_ms && !asked.has(to)) asked.set(to, insteadOf ?? name)
  return [...asked].map(([recipient, insteadOf]) => ({ recipient, insteadOf }))
}
