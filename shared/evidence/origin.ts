// The origin of a proposal: everything known about it besides the call itself. It is journalled and
// signed, and shown to approvers. The call's digest doesn't cover it: it changes nothing about what
// runs. Policies read the actor and nothing else of it (docs/decisions/0061, 0078).

import { z } from 'zod'
import { LIMITS } from '../limits.ts'
import { Actor } from './actor.ts'

export const CallOrigin = z.strictObject({
  /**
   * The agent's own words about what it is doing and why, which nobody has verified. Recorded with
   * secrets masked.
   */
  reason: z.string().min(1).max(LIMITS.reason_chars).optional(),
  /** The actor behind the agent, as the issuer of its token asserts. */
  actor: Actor.optional(),
  /**
   * The protocol of the proposal, if it is not our own API. `client` is what the client calls
   * itself.
   */
  via: z
    .strictObject({
      protocol: z.literal('mcp'),
      revision: z.string().max(16),
      client: z.string().max(LIMITS.mcp_client_chars).optional(),
    })
    .optional(),
})
export type CallOrigin = z.infer<typeof CallOrigin>

/**
 * The origin as a member of a record, a journal entry or a statement. Absent if nothing is known, so
 * that those of calls without an origin keep their bytes.
 */
export function originMember(origin: CallOrigin | undefined): { origin?: CallOrigin } {
  const known = Object.entries(origin ?? {}).filter(([, value]) => value !== undefined)
  return known.length === 0 ? {} : { origin: Object.fromEntries(known) as CallOrigin } // its own members
}
