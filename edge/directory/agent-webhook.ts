// An agent's webhook: its address and its secrets. A secret is derived from the time when it was
// made, so it is stored nowhere, and only its maker's response shows it.

import { createHmac } from 'node:crypto'
import type { CallState } from '../../shared/evidence/statement.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { AgentEventType } from '../../shared/wire/principals.ts'
import type { LoadedDirectory } from './loaded-directory.ts'

/** An event of an agent's call, as its run reports it. */
export type AgentEvent = {
  /** The call and the number of its journal entry: the same however often it is reported. */
  readonly id: string
  readonly type: AgentEventType
  readonly run: string
  readonly call: string
  readonly tool: string
  /** The state of the call when it was reported: at or after the event. */
  readonly state: CallState
  readonly at_ms: number
}

/** From the installation's identity. */
type WebhookKey = { readonly webhookKey: Buffer }
/** One creation of an agent. Another agent of the same name has other secrets. */
type AgentOrigin = { readonly tenant: string; readonly agent: string; readonly since: number }

export const webhookSecret = (
  { webhookKey }: WebhookKey,
  { tenant, agent, since }: AgentOrigin,
  madeAt: number,
): string =>
  `whsec_${createHmac('sha256', webhookKey)
    .update(JSON.stringify([tenant, agent, since, madeAt]))
    .digest('base64')}`

export type AgentWebhookTarget = {
  readonly url: string
  /** The newest secret, and for a while the one before it. */
  readonly keys: readonly string[]
}

/** Whether the agent has a webhook that gets events of this type. */
export function isSubscribed(
  { agents }: LoadedDirectory,
  { agent, since }: Omit<AgentOrigin, 'tenant'>,
  type: AgentEventType,
): boolean {
  const present = agents.get(agent)
  const webhook = present?.since === since ? present.spec.webhook : undefined
  return webhook !== undefined && (webhook.events ?? [type]).includes(type)
}

/** The current webhook of an agent; `undefined` if it has none, or was created again since. */
export function webhookTarget(
  identity: WebhookKey,
  { tenant, agents }: LoadedDirectory,
  { agent, since }: Omit<AgentOrigin, 'tenant'>,
  now: number,
): AgentWebhookTarget | undefined {
  const present = agents.get(agent)
  if (present?.since !== since || present.spec.webhook === undefined) return undefined
  const [newest = 0] = present.webhookSecrets
  const signing = present.webhookSecrets.filter(
    (madeAt) => madeAt === newest || now < newest + LIMITS.webhook_overlap_ms,
  )
  return {
    url: present.spec.webhook.url,
    keys: signing.map((madeAt) => webhookSecret(identity, { tenant, agent, since }, madeAt)),
  }
}
