// The recipients of a channel, and whether a message to one is still of use, which is checked when
// it is made and before each attempt. Also the names in a channel's settings that match nobody:
// they are warnings, because an operator may be added after the channel that names them. Pure.

import { LIMITS } from '../../shared/limits.ts'
import type { Approval } from '../../shared/wire/approvals.ts'
import type { Channel, ChannelShown } from '../../shared/wire/channels.ts'
import { rolesOf } from '../decision/approval-context.ts'
import { authorize } from '../decision/decide.ts'
import type { LoadedDirectory, Principal } from '../directory/loaded-directory.ts'
import type { DeliveryRow } from './store.ts'

/** `null`: the unnamed readers of the channel. */
export function recipientsOf({ operators }: LoadedDirectory, shown: ChannelShown): readonly string[] | null {
  if (shown.recipients === undefined) return null
  const named = [...operators.values()].filter((operator) => isNamed(shown, operator))
  return named.slice(0, LIMITS.channel_recipients).map(({ name }) => name)
}

/** The recipients of a notice. It has no personal link, so a webhook gets it once. */
export const readersOf = (directory: LoadedDirectory, shown: ChannelShown): readonly string[] | null =>
  shown.kind === 'webhook' ? null : recipientsOf(directory, shown)

const isNamed = ({ recipients }: ChannelShown, operator: Principal | undefined): boolean =>
  operator !== undefined &&
  recipients !== undefined &&
  (recipients.operators.includes(operator.name) ||
    rolesOf(operator).some((role) => recipients.roles.includes(role)))

/**
 * Why a message should not be sent, or `undefined`. `ref`: the earlier message that it would
 * replace.
 */
export function reasonToDrop(
  { kind, recipient, insteadOf }: DeliveryRow,
  ref: string | null,
  approval: Approval,
  directory: LoadedDirectory,
  shown: ChannelShown,
  now: number,
): string | undefined {
  if (kind === 'asked' && now >= approval.expires_at) return 'the approval has expired'
  // An existing message always gets its outcome, regardless of its recipient.
  if (recipient === null || (kind === 'ended' && ref !== null)) return undefined
  // The channel may have changed: a link goes only to a current recipient.
  if (!isNamed(shown, directory.operators.get(insteadOf ?? recipient)))
    return 'the recipient is no longer a recipient of the channel'
  const operator = directory.operators.get(recipient)
  if (operator === undefined) return 'the recipient is no longer an operator'
  // A standing answer was given to another call, so its operator may still answer this one.
  if (
    kind === 'asked' &&
    ref === null &&
    approval.answers.some(({ by, standing }) => by === recipient && standing === undefined)
  )
    return 'the recipient has already answered'
  return authorize(directory, operator, 'approval.decide').allowed
    ? undefined
    : 'policy does not let the recipient answer approvals'
}

/** The same for a notice: the channel may have changed, or no longer accept notices. */
export function reasonToDropNotice(
  { recipient }: DeliveryRow,
  { operators }: LoadedDirectory,
  shown: ChannelShown,
): string | undefined {
  if (shown.notices !== true) return 'the channel no longer accepts notices'
  return recipient === null || isNamed(shown, operators.get(recipient))
    ? undefined
    : 'the recipient is no longer a recipient of the channel'
}

/**
 * The channels through which a delegate is asked: those that have the absent operator as a
 * recipient and know an address of the delegate.
 */
export function reachedThrough(
  { operators }: LoadedDirectory,
  channels: readonly Channel[],
  operator: string,
  to: string,
): string[] {
  const away = operators.get(operator)
  return channels
    .filter(({ channel }) => isNamed(channel, away) && knowsAddress(channel, to))
    .map(({ name }) => name)
}

function knowsAddress(channel: ChannelShown, operator: string): boolean {
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

/** Warnings about names in a channel that match nobody, most of them typing errors. */
export function unknownIn({ operators }: LoadedDirectory, channel: ChannelShown): string[] {
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
