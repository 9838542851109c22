// The actor behind an agent, in words for approvers. Their label says that an issuer asserts it.
// Pure.

import type { Actor } from '../../shared/evidence/actor.ts'
import { quoteReadable } from '../platform/visible-text.ts'
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
