// The URL of one operator's link to one approval. The caller checks whether they may answer.

import type { Approval } from '../../shared/wire/approvals.ts'
import type { Env } from '../bindings.ts'
import { identityOf } from '../bindings.ts'
import type { LoadedDirectory } from '../directory/loaded-directory.ts'
import { isRevoked, linkFor } from './link.ts'

/** `null` if the link was revoked or there is no such operator. */
export function linkOf(
  env: Env,
  { tenant, operators }: LoadedDirectory,
  approval: Approval,
  name: string,
): string | null {
  const operator = operators.get(name)
  if (operator === undefined || isRevoked(approval, name)) return null
  const { linkKey, publicUrl } = identityOf(env)
  const { id, digest, expires_at } = approval
  const link = linkFor(linkKey, {
    tenant,
    approval: id,
    approver: name,
    approverKey: operator.keyHash,
    expiresAt: expires_at,
    digest,
  })
  return `${publicUrl}/approve/${link}`
}
