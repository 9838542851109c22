// Whom a channel asks, and whether a message is still of use: asked when it is made, and again whenever it is about to leave. It sends nothing.

import type { ChannelShown } from '../../shared/channels.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Approval } from '../../shared/wire.ts'
import type { DeliveryRow } from '../channel-store.ts'
import { rolesOf } from '../consent.ts'
import { authorize } from '../decide.ts'
import type { Loaded, Principal } from '../directory.ts'

/** `null`: whoever reads it. */
export function recipientsOf({ operators }: Loaded, shown: ChannelShown): readonly string[] | null {
  if (shown.recipients === undefined) return null
  const named = [...operators.values()].filter((operator) => isNamed(shown, operator))
  return named.slice(0, LIMITS.channel_recipients).map(({ name }) => name)
}

const isNamed = ({ recipients }: ChannelShown, operator: Principal | undefined): boolean =>
  operator !== undefined &&
  recipients !== undefined &&
  (recipients.operators.includes(operator.name) || rolesOf(operator).some((role) => recipients.roles.includes(role)))

/** Why it is not to be sent, or nothing. `ref`: the message that stands, where one does and can be changed. */
export function useless(
  { kind, recipient, insteadOf }: DeliveryRow,
  ref: string | null,
  approval: Approval,
  directory: Loaded,
  shown: ChannelShown,
  now: number,
): string | undefined {
  if (kind === 'asked' && now >= approval.expires_at) return 'the approval had expired'
  if (recipient === null || (kind === 'ended' && ref !== null)) return undefined // what stands is told of its end, whoever it was for
  // The channel may have become another one since: a link goes to whom it is for now, or to nobody.
  if (!isNamed(shown, directory.operators.get(insteadOf ?? recipient))) return 'the channel is not for the recipient any more'
  const operator = directory.operators.get(recipient)
  if (operator === undefined) return 'the recipient is no operator any more'
  // A standing answer is one that was given to other calls: they may say more to this one.
  if (kind === 'asked' && ref === null && approval.answers.some(({ by, standing }) => by === recipient && standing === undefined))
    return 'the recipient had answered'
  return authorize(directory, operator, 'approval.decide').allowed ? undefined : 'policy does not let the recipient answer approvals'
}
