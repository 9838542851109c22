// The verbs of the MCP endpoint. They add to an admitted request a way to check its caller again.

import { ok } from '../../shared/result.ts'
import type { Env } from '../bindings.ts'
import { authorize } from '../decision/decide.ts'
import type { AgentPrincipal } from '../directory/loaded-directory.ts'
import { type Identified, identifyByBearer, originOfCaller } from '../http/intake.ts'
import { answerMcp } from '../mcp/answer.ts'
import type { Caller } from '../mcp/context.ts'
import type { Verbs } from './verb.ts'

type RouteNames = 'mcp' | 'mcpInSession'
type AdmittedRequest = { env: Env; request: Request; caller: Identified; body: Uint8Array }

export const mcpRoutes: Verbs<RouteNames> = {
  mcp: async (incoming) => ok(await answer(incoming, null)),
  mcpInSession: async (incoming) => ok(await answer(incoming, incoming.params.session)),
}

const callerOf = (caller: Identified): Caller => ({
  directory: caller.directory,
  agent: caller.principal as AgentPrincipal, // the routes admit only agents
  origin: originOfCaller(caller),
})

const answer = ({ env, request, caller, body }: AdmittedRequest, path: string | null): Promise<Response> =>
  answerMcp({ ...callerOf(caller), env, request, path, stillCaller: () => stillCaller(request, env) }, body)

/** The caller by its key or token and the policies of this moment. */
async function stillCaller(request: Request, env: Env): Promise<Caller | null> {
  const still = await identifyByBearer(request, env)
  if (!still.ok) return null
  const { directory, principal } = still.value
  return authorize(directory, principal, 'run.read').allowed ? callerOf(still.value) : null
}
