// The Tasks extension: a call that has not ended, as a task that its client reads and cancels. A
// task is the call itself. Its id is sealed, so the edge stores nothing, and an id works only for
// its own agent.

import { failure } from '../../shared/failures.ts'
import { LIMITS } from '../../shared/limits.ts'
import { err, ok, type Result } from '../../shared/result.ts'
import type { Call } from '../../shared/wire/calls.ts'
import { type Env, identityOf } from '../bindings.ts'
import { runOwner } from '../call/run.ts'
import { requirePermission } from '../decision/decide.ts'
import type { AgentPrincipal } from '../directory/loaded-directory.ts'
import { preferredWait } from '../http/intake.ts'
import { callOf, type FoundCall } from '../run/find-run.ts'
import type { McpContext } from './context.ts'
import type { McpRequest } from './envelope.ts'
import { isPending, resultOfCall, statusLine } from './outcome.ts'
import { RPC, TASKS } from './protocol.ts'
import {
  errorAnswer,
  failureError,
  invalidParams,
  jsonAnswer,
  type RpcError,
  type Result as RpcResult,
  resultFor,
  resultMessage,
  rpcError,
} from './rpc.ts'
import { seal, unseal } from './sealed.ts'

const PREFIX = 'task_'
const NO_TASK = invalidParams('you have no task with this id, or it has expired')
const MISSING = rpcError(400, RPC.missingCapability, 'declare the Tasks extension in this request', {
  requiredCapabilities: { extensions: { [TASKS]: {} } },
})

/** The time for an approval and a claim, and then for fetching the answer. */
const lifetimeOf = ({ approval, created_at_ms }: Call): number =>
  (approval?.expires_at ?? created_at_ms) - created_at_ms + LIMITS.claim_window_ms + LIMITS.mcp_task_ms

export function createdTask(env: Env, agent: AgentPrincipal, call: Call): RpcResult {
  const until = call.created_at_ms + lifetimeOf(call)
  const id = `${PREFIX}${seal(identityOf(env).mcpKey, 'task', agent, { call: call.id, until })}`
  return { resultType: 'task', ...stateOf(id, call) }
}

const iso = (ms: number): string => new Date(ms).toISOString()

function stateOf(taskId: string, call: Call): Record<string, unknown> {
  const { state, created_at_ms, running, ended_at_ms } = call
  return {
    taskId,
    status: isPending(call) ? 'working' : state === 'cancelled' ? 'cancelled' : 'completed',
    statusMessage: statusLine(call),
    createdAt: iso(created_at_ms),
    lastUpdatedAt: iso(ended_at_ms ?? running?.since_ms ?? created_at_ms),
    ttlMs: lifetimeOf(call),
    pollIntervalMs: state === 'awaiting_approval' ? 4_000 : 2_000,
  }
}

/** The whole task: with the result, once the call has ended. */
export function detailedTask({ agent, publicUrl }: McpContext, taskId: string, call: Call): RpcResult {
  const chars = agent.spec.mcp?.output_chars ?? LIMITS.mcp_output_chars
  const state = stateOf(taskId, call)
  if (state['status'] !== 'completed') return state
  return { ...state, result: resultFor('modern', resultOfCall(call, { publicUrl, joined: false, chars })) }
}

/** The call of a task of this agent. A foreign, changed or expired id is unknown. */
export function callOfTask({ env, agent }: McpContext, taskId: unknown): Result<FoundCall, RpcError> {
  if (typeof taskId !== 'string' || !taskId.startsWith(PREFIX)) return err(NO_TASK)
  const sealed = unseal(identityOf(env).mcpKey, 'task', agent, taskId.slice(PREFIX.length), Date.now())
  const found = sealed === undefined ? undefined : callOf(env, agent.tenant, sealed.call)
  return found?.ok === true ? ok(found.value) : err(NO_TASK)
}

/** Serves tasks/get, tasks/update and tasks/cancel. */
export async function answerTask(context: McpContext, request: McpRequest): Promise<Response> {
  const { id, era, method, params, meta } = request
  if (!meta.tasks) return errorAnswer(id, MISSING)
  const { agent, directory } = context
  const found = callOfTask(context, params['taskId'])
  if (!found.ok) return errorAnswer(id, found.error)
  const may = requirePermission(directory, agent, method === 'tasks/cancel' ? 'run.cancel' : 'run.read')
  if (!may.ok) return errorAnswer(id, failureError(may.error))
  const { run, n } = found.value
  if (method === 'tasks/get') {
    const wait = Math.min(preferredWait(context.request) ?? 0, LIMITS.mcp_hold_task_s) * 1000
    const call = await run.readForClient(runOwner(agent), n, wait)
    if (!call.ok) return errorAnswer(id, NO_TASK)
    if (!isPending(call.value)) await run.answered(runOwner(agent), n, null, true)
    return jsonAnswer(
      resultMessage(id, resultFor(era, detailedTask(context, String(params['taskId']), call.value))),
    )
  }
  if (method === 'tasks/cancel') {
    const cancelled = await run.cancel(runOwner(agent), n, { kind: 'agent', name: agent.name })
    if (!cancelled.ok && cancelled.error.code === failure('not_found', '').code)
      return errorAnswer(id, NO_TASK)
  }
  // Cancelling an ended call changes nothing, and so does tasks/update: we never ask for input.
  return jsonAnswer(resultMessage(id, resultFor(era, {})))
}
