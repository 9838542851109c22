// Whom a channel's settings come to among the operators there are: told to whoever puts a channel or goes away. Pure. It refuses nothing, because an
// operator may be made after the channel that names them.

import type { Channel, ChannelShown } from '../../shared/channels.ts'
import { rolesOf } from '../consent.ts'
import type { Loaded } from '../directory.ts'

/** The channels through which somebody is asked in another's stead: those that write to the other by name, and know where to write to them. */
export function reachedThrough({ operators }: Loaded, channels: readonly Channel[], operator: string, to: string): string[] {
  const away = operators.get(operator)
  const roles = away === undefined ? [] : rolesOf(away)
  const asks = ({ recipients }: ChannelShown): boolean =>
    recipients?.operators.includes(operator) === true || roles.some((role) => recipients?.roles.includes(role) === true)
  return channels.filter(({ channel }) => asks(channel) && knows(channel, to)).map(({ name }) => name)
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
    ...(channel.recipients?.roles ?? []).filter((role) => !roles.has(role)).map((role) => `no operator has the role \`${role}\``),
    ...[...new Set(named)].filter((name) => !operators.has(name)).map((name) => `there is no operator \`${name}\``),
  ]
}

const peopleIn = (channel: ChannelShown): string[] =>
  channel.kind === 'email' ? Object.keys(channel.addresses) : channel.kind === 'slack' ? Object.values(channel.users) : []
