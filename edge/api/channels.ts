// Verbs of operators on the tenant's channels, deliveries and delegations.

import { ok } from '../../shared/result.ts'
import type { Env } from '../bindings.ts'
import { channelObject } from '../bindings.ts'
import { reachedThrough, unknownIn } from '../channels/recipients.ts'
import type { Identified } from '../http/intake.ts'
import type { Verbs } from './verb.ts'

type RouteNames =
  | 'listChannels'
  | 'putChannel'
  | 'deleteChannel'
  | 'testChannel'
  | 'listDeliveries'
  | 'retryDeliveries'
  | 'collectMessages'
  | 'listDelegations'
  | 'putDelegation'
  | 'deleteDelegation'

const channelsOf = (env: Env, { directory }: Identified) => channelObject(env, directory.tenant)

export const channelRoutes: Verbs<RouteNames> = {
  async listChannels({ env, caller }) {
    return ok({ items: await channelsOf(env, caller).list() })
  },
  async putChannel({ env, caller, params, body }) {
    const put = await channelsOf(env, caller).put(params.name, body, caller.principal.name)
    return put.ok ? ok({ ...put.value, warnings: unknownIn(caller.directory, put.value.channel) }) : put
  },
  async deleteChannel({ env, caller, params }) {
    return channelsOf(env, caller).remove(params.name, caller.principal.name)
  },
  async testChannel({ env, caller, params }) {
    return channelsOf(env, caller).test(params.name, caller.principal.name)
  },
  async listDeliveries({ env, caller, params, query }) {
    const deliveries = await channelsOf(env, caller).deliveries(params.name, query.state, query.after)
    return deliveries.ok ? ok({ items: deliveries.value }) : deliveries
  },
  async retryDeliveries({ env, caller, params }) {
    return channelsOf(env, caller).retry(params.name)
  },
  async listDelegations({ env, caller }) {
    return ok({ items: await channelsOf(env, caller).delegations() })
  },
  async putDelegation({ env, caller, body }) {
    const { directory, principal } = caller
    const channels = channelsOf(env, caller)
    const put = await channels.delegate(directory.tenant, principal.name, body.to, body.for_s)
    return put.ok
      ? ok({
          ...put.value,
          through: reachedThrough(directory, await channels.list(), principal.name, body.to),
        })
      : put
  },
  async deleteDelegation({ env, caller }) {
    return channelsOf(env, caller).back(caller.principal.name)
  },
  async collectMessages({ env, caller, params, body }) {
    const collected = await channelsOf(env, caller).collect(caller.directory.tenant, params.name, body)
    return collected.ok ? ok({ items: collected.value }) : collected
  },
}
