// Answers that stand for further calls: listed from the tenant's index, taken back in their session.

import { failure } from '../../shared/failures.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Standing } from '../../shared/wire/approvals.ts'
import type { Env } from '../bindings.ts'
import { sessionObject, tenantObject } from '../bindings.ts'
import { stillCounts } from '../decision/decide.ts'
import type { Loaded } from '../directory/directory.ts'
import { agentAskedFor } from '../http/intake.ts'
import type { Verbs } from './verb.ts'

export const standingRoutes: Verbs<'listStanding' | 'revokeStanding' | 'resetSession'> = {
  async listStanding({ env, caller: { directory } }) {
    return ok({ items: await standingOf(env, directory) })
  },

  async revokeStanding({ env, caller: { directory }, params }) {
    const taken = await takeBack(env, directory, params.id)
    return taken.ok ? ok({ done: true }) : taken
  },

  async resetSession({ env, caller, params: { session }, body }) {
    const agent = agentAskedFor(caller, body.agent)
    if (!agent.ok) return agent
    const { tenant, name } = agent.value
    const gone = caller.principal.kind === 'Agent' ? 'approve' : undefined // an operator's no is not an agent's to take back
    return ok({ ended: await sessionObject(env, { tenant, agent: name, session }).reset(gone) })
  },
}

/** All that stands, newest first; `live` where it still covers what it was given for. */
export async function standingOf(env: Env, directory: Loaded): Promise<(Standing & { live: boolean })[]> {
  const all = await tenantObject(env, directory.tenant).standing()
  return all.map((standing) => ({ ...standing, live: isLive(directory, standing) }))
}

export async function takeBack(env: Env, { tenant }: Loaded, id: string): Promise<Result<Standing>> {
  const standing = await tenantObject(env, tenant).readStanding(id)
  if (standing === undefined) return err(failure('not_found', 'nothing stands under this id'))
  await sessionObject(env, { tenant, ...standing }).revoke([id])
  return ok(standing)
}

/** A tool or a policy set that comes back brings it back: whoever wants it gone takes it back. */
function isLive(
  directory: Loaded,
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
