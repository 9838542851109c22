// Verbs of protect mode: upstreams and their tools.

import { ok } from '../../shared/result.ts'
import type { Env } from '../bindings.ts'
import { tenantUpstreams } from '../bindings.ts'
import { listerOf } from '../directory/own-agents.ts'
import type { Identified } from '../http/intake.ts'
import { listOnWorker } from '../run/list-on-worker.ts'
import type { Verbs } from './verb.ts'

type RouteNames =
  | 'listUpstreams'
  | 'putUpstream'
  | 'readUpstream'
  | 'refreshUpstream'
  | 'removeUpstream'
  | 'readUpstreamJournal'
  | 'readUpstreamTool'
  | 'acceptUpstreamTool'
  | 'withdrawUpstreamTool'

export const upstreamRoutes: Verbs<RouteNames> = {
  async listUpstreams({ env, caller }) {
    return ok({ items: await upstreamsOf(env, caller).list() })
  },
  async putUpstream({ env, caller, params, body }) {
    return upstreamsOf(env, caller).put(params.name, body, caller.principal.name)
  },
  async readUpstream({ env, caller, params }) {
    return upstreamsOf(env, caller).read(params.name)
  },
  async refreshUpstream({ env, caller, params }) {
    const { directory, principal } = caller
    return directory.listings.has(listerOf(params.name))
      ? listOnWorker(env, directory, params.name, principal.name)
      : upstreamsOf(env, caller).refresh(params.name)
  },
  async removeUpstream({ env, caller, params }) {
    return upstreamsOf(env, caller).remove(params.name, caller.principal.name)
  },
  async readUpstreamJournal({ env, caller, query }) {
    return ok({ items: await upstreamsOf(env, caller).entries(query.after) })
  },
  async readUpstreamTool({ env, caller, params }) {
    return upstreamsOf(env, caller).diff(params.name, params.tool)
  },
  async acceptUpstreamTool({ env, caller, params, body }) {
    return upstreamsOf(env, caller).accept(params.name, params.tool, body, caller.principal.name)
  },
  async withdrawUpstreamTool({ env, caller, params }) {
    return upstreamsOf(env, caller).withdraw(params.name, params.tool, caller.principal.name)
  },
}

const upstreamsOf = (env: Env, { directory }: Identified) => tenantUpstreams(env, directory.tenant)
