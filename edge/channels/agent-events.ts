// Events of agents' calls as the agents' webhooks get them: ids, the state and an address. A
// receiver reads results with the agent's key. Pure.

import type { AgentDelivery } from '../../shared/wire/principals.ts'
import type { AgentEvent } from '../directory/agent-webhook.ts'
import type { DeliveryProgress } from './delivery-state.ts'
import { event as eventBody } from './webhook.ts'

/** No channel's name has a colon. */
export const AGENT_CHANNEL = 'agent:'
export const agentChannel = (agent: string): string => `${AGENT_CHANNEL}${agent}`

type EventOfAgent = { readonly agent: string; readonly event: AgentEvent }

export const bodyOf = ({ agent, event }: EventOfAgent, publicUrl: string): string => {
  const { type, run, call, tool, state, at_ms } = event
  const url = `${publicUrl}/v1/runs/${run}/calls/${call}`
  return eventBody(type, at_ms, { agent, run, call, tool, state, url })
}

export const agentDeliveryOf = (
  { id, state, tries, nextAt, changedAt, why }: DeliveryProgress & { id: string; changedAt: number },
  { type, call }: AgentEvent,
): AgentDelivery => ({
  id,
  type,
  call,
  state,
  tries,
  next_at_ms: nextAt,
  changed_at_ms: changedAt,
  why,
})
