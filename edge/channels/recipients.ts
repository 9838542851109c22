// Whom a channel asks, and whether a message is still of use: asked when it is made, and again whenever it is about to leave; and what of
// its settings comes to nobody, told to whoever puts a channel or goes away. Pure. It refuses no channel: an operator may be made after
// one that names them.

import { LIMITS } from '../../shared/limits.ts'
import type { Approval } from '../../shared/wire/approvals.ts'
import type { Channel, ChannelShown } from '../../shared/wire/channels.ts'
import { rolesOf } from '../decision/approval-context.ts'
import { authorize } from '../decision/decide.ts'
import type { Loaded, Principal } from '../directory/directory.ts'
import type { DeliveryRow } from './store.ts'

/** `null`: whoever reads it. */
export function recipientsOf({ operators }: Loaded, shown: ChannelShown): readonly string[] | null {
  if (shown.recipients === undefined) return null
  const named = [...operators.values()].filter((operator) => isNamed(shown, operator))
  return named.slice(0, LIMITS.channel_recipients).map(({ name }) => name)
}

/** Whom a notice is for; `null`: whoever reads it. It holds no link that is one person's, so a machine is told once. */
export const readersOf = (directory: Loaded, shown: ChannelShown): readonly string[] | null =>
  shown.kind === 'webhook' ? null : recipientsOf(directory, shown)

const isNamed = ({ recipients }: ChannelShown, operator: Principal | undefined): boolean =>
  operator !== undefined &&
  recipients !== undefined &&
  (recipients.operators.includes(operator.name) ||
    rolesOf(operator).some((role) => recipients.roles.includes(role)))

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
  if (!isNamed(shown, directory.operators.get(insteadOf ?? recipient)))
    return 'the channel is not for the recipient any more'
  const operator = directory.operators.get(recipient)
  if (operator === undefined) return 'the recipient is no operator any more'
  // A standing answer is one that was given to other calls: they may say more to this one.
  if (
    kind === 'asked' &&
    ref === null &&
    approval.answers.some(({ by, standing }) => by === recipient && standing === undefined)
  )
    return 'the recipient had answered'
  return authorize(directory, operator, 'approval.decide').allowed
    ? undefined
    : 'policy does not let the recipient answer approvals'
}

/** The same of a notice: its channel may have become another one, or be for skills no more. */
export function uselessNotice(
  { recipient }: DeliveryRow,
  { operators }: Loaded,
  shown: ChannelShown,
): string | undefined {
  if (shown.notices !== true) return 'the channel takes no notices any more'
  return recipient === null || isNamed(shown, operators.get(recipient))
    ? undefined
    : 'the channel is not for the recipient any more'
}

/**
 * The channels through which somebody is asked in another's stead: those that write to the other by name, and know where to write to
 * them.
 */
export function reachedThrough(
  { operators }: Loaded,
  channels: readonly Channel[],
  operator: string,
  to: string,
): string[] {
  const away = operators.get(operator)
  return channels
    .filter(({ channel }) => isNamed(channel, away) && knows(channel, to))
    .map(({ name }) => name)
}

function knows(channel: ChannelShown, operator: string): boolean {
  switch (channel.kind) {
    case 'webhook':
      return true
    case 'email':
      return Object.hasOwn(channel.addresses, operator)
    case 'slack':
      return Object.values(channel.users).includes(operator)
    case 'slack-webhook':
      return false
  }
}

/** What a channel names and nobody is: most of it is mistyped. */
export function unknownIn({ operators }: Loaded, channel: ChannelShown): string[] {
  const roles = new Set([...operators.values()].flatMap(rolesOf))
  const named = [...(channel.recipients?.operators ?? []), ...peopleIn(channel)]
  return [
    ...(channel.recipients?.roles ?? [])
      .filter((role) => !roles.has(role))
      .map((role) => `no operator has the role \`${role}\``),
    ...[...new Set(named)]
      .filter((name) => !operators.has(name))
      .map((name) => `there is no operator \`${name}\``),
  ]
}

const peopleIn = (channel: ChannelShown): string[] =>
  channel.kind === 'email'
    ? Object.keys(channel.addresses)
    : channel.kind === 'slack'
      ? Object.values(channel.users)
      : []
