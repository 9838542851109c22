// An issuer of tokens as a tenant's object hands it out and as an isolate caches it, and the
// audiences that name this edge. Pure.

import { PATTERNS } from '../../shared/ids.ts'
import type { IssuerSpec } from '../../shared/wire/issuers.ts'

/**
 * `agents`: when each agent that a rule names had been created, at the time the issuer was stored.
 * An agent that is created again under the same name inherits no rule.
 */
export type HeldIssuer = {
  readonly name: string
  readonly spec: IssuerSpec
  readonly agents: Readonly<Record<string, number>>
}

export type TrustedIssuer = HeldIssuer & { readonly audiences: ReadonlySet<string> }

/** The audiences that count unless the issuer has others: the API, the MCP endpoint, the tenant. */
export const audiencesFor = (publicUrl: string, tenant: string, { audiences }: IssuerSpec): string[] =>
  audiences ?? [publicUrl, `${publicUrl}/mcp`, `${publicUrl}/t/${tenant}`]

/** The tenant that one of our audiences names. */
export function tenantInAudience(publicUrl: string, audience: string): string | undefined {
  const name = audience.startsWith(`${publicUrl}/t/`) ? audience.slice(publicUrl.length + 3) : ''
  return PATTERNS.tenant.test(name) ? name : undefined
}
