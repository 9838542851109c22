// Verbs on standing answers: listed from the tenant's index, revoked in the session that stores
// them.

import { failure } from '../../shared/failures.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Standing } from '../../shared/wire/approvals.ts'
import type { Env } from '../bindings.ts'
import { sessionObject, tenantObject } from '../bindings.ts'
import { stillCounts } from '../decision/decide.ts'
import type { LoadedDirectory } from '../directory/loaded-directory.ts'
import { namedAgent } from '../http/intake.ts'
import type { Verbs } from './verb.ts'

export const standingRoutes: Verbs<'listStanding' | 'revokeStanding' | 'resetSession'> = {
  async listStanding({ env, caller: { directory } }) {
    return ok({ items: await listStandingAnswers(env, directory) })
  },

  async revokeStanding({ env, caller: { directory, principal }, params }) {
    const revoked = await revokeStandingAnswer(env, directory, params.id, principal.name)
    return revoked.ok ? ok({ done: true }) : revoked
  },

  async resetSession({ env, caller, params: { session }, body }) {
    const agent = namedAgent(caller, body.agent)
    if (!agent.ok) return agent
    const { tenant, name } = agent.value
    const isAgent = caller.principal.kind === 'Agent'
    const only = isAgent ? 'approve' : undefined // an agent can't revoke an operator's denial
    // The list has all answers. A session without any gets no request, which would make its object for good.
    const listed = await tenantObject(env, tenant).standing()
    const its = listed.filter((standing) => standing.agent === name && standing.session === session)
    if (!its.some(({ decision }) => decision === (only ?? decision))) return ok({ ended: 0 })
    const by = isAgent ? `agent ${name}` : caller.principal.name
    await tenantObject(env, tenant).recordAhead(['session.reset', by, { agent: name, session }])
    return ok({ ended: await sessionObject(env, { tenant, agent: name, session }).reset(only) })
  },
}

/** All standing answers, newest first. `live`: the answer still covers its tool and policy set. */
export async function listStandingAnswers(
  env: Env,
  directory: LoadedDirectory,
): Promise<(Standing & { live: boolean })[]> {
  const all = await tenantObject(env, directory.tenant).standing()
  return all.map((standing) => ({ ...standing, live: isLive(directory, standing) }))
}

export async function revokeStandingAnswer(
  env: Env,
  { tenant }: LoadedDirectory,
  id: string,
  by: string,
): Promise<Result<Standing>> {
  const standing = await tenantObject(env, tenant).readStanding(id)
  if (standing === undefined) return err(failure('not_found', 'no standing answer has this id'))
  const { agent, session } = standing
  await tenantObject(env, tenant).recordAhead(['standing.revoked', by, { standing: id, agent, session }])
  await sessionObject(env, { tenant, ...standing }).revoke([id])
  return ok(standing)
}

/** An answer whose tool or policy set was replaced is live again once that is restored. */
function isLive(
  directory: LoadedDirectory,
  { tool, policy_set, agent, agent_since_ms, by, by_since_ms }: Standing,
): boolean {
  const same =
    directory.tools.get(tool.name)?.tool.digest === tool.digest && directory.policies.digest === policy_set
  return (
    same &&
    directory.agents.get(agent)?.since === agent_since_ms &&
    stillCounts(directory, { by, since_ms: by_since_ms })
  )
}
