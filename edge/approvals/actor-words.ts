// The origin of a proposal in words for approvers: the actor behind the agent, whose label says that
// an issuer asserts it, and the protocol with the client's own name. Pure.

import type { Actor } from '../../shared/evidence/actor.ts'
import type { CallOrigin } from '../../shared/evidence/origin.ts'
import { escapeBackticks, escapeConfusables, quoteReadable } from '../platform/visible-text.ts'
import type { Redaction } from '../secrets/redaction.ts'

export function actorInWords({ issuer, subject, client, acting }: Actor, redaction: Redaction): string {
  const quoted = (text: string): string => `\`${quoteReadable(String(redaction.of(text)))}\``
  const through = [
    ...(acting === undefined ? [] : [`through ${quoted(acting)}`]),
    ...(client === undefined || client === subject ? [] : [`client ${quoted(client)}`]),
    `issuer ${quoted(issuer)}`,
  ]
  return `${quoted(subject)} (${through.join(', ')})`
}

/** As recorded: secrets in the client's name are masked already. */
export function viaInWords({ revision, client }: NonNullable<CallOrigin['via']>): string {
  const named = client === undefined ? '' : `, by a client that calls itself \`${quoteReadable(client)}\``
  return `MCP ${escapeBackticks(escapeConfusables(revision))}${named}`
}
