// tools/call: find the tool and the run, propose or join, wait, answer. Every call ends in the same
// commands of the RunObject as a call of our own API.

import { waitUntil } from 'cloudflare:workers'
import { randomUUID } from 'node:crypto'
import { digestOf } from '../../shared/bytes/json.ts'
import type { CallOrigin } from '../../shared/evidence/origin.ts'
import { type Failure, failure } from '../../shared/failures.ts'
import { PATTERNS } from '../../shared/ids.ts'
import { LIMITS } from '../../shared/limits.ts'
import { err, ok, type Result } from '../../shared/result.ts'
import type { Call } from '../../shared/wire/calls.ts'
import { identityOf, tenantObject } from '../bindings.ts'
import { type RunOwner, runOwner } from '../call/run.ts'
import { isListed, requirePermission } from '../decision/decide.ts'
import { preferredWait } from '../http/intake.ts'
import { callOf, type FoundCall } from '../run/find-run.ts'
import { followCall, watchApproval } from './call-follower.ts'
import type { McpContext } from './context.ts'
import { isObject, type McpRequest } from './envelope.ts'
import { answerHeld, type LastMessage } from './held-answer.ts'
import { isPending, pendingForm, resultOfCall, resultOfRefusal } from './outcome.ts'
import { RESULT_TOOL } from './protocol.ts'
import {
  errorAnswer,
  errorMessage,
  failureError,
  invalidParams,
  jsonAnswer,
  type RpcError,
  resultFor,
  resultMessage,
} from './rpc.ts'
import { findRunFor } from './run-handle.ts'
import { seal, unseal } from './sealed.ts'
import { createdTask } from './tasks.ts'

type Params = {
  readonly name: string
  readonly args: Record<string, unknown>
  readonly requestState: string | undefined
}
/** A call that this request waits for. */
type PendingCall = {
  readonly found: FoundCall
  readonly call: Call
  readonly joined: boolean
  /** How often the call was answered with a `requestState` before. */
  readonly round: number
  /** Whether the client can find the call only through this request. */
  readonly onlyLead: boolean
  /** The run's id for this request, if the client can cancel the request by id. */
  readonly request: string | null
}

const UNKNOWN_CALL = failure('not_found', 'you have no call with this id')
const UNKNOWN_STATE = invalidParams(
  'this `requestState` belongs to no pending call of yours with these arguments; call the tool without it',
)

export async function callTool(context: McpContext, request: McpRequest): Promise<Response> {
  const params = readParams(request)
  if (!params.ok) return errorAnswer(request.id, params.error)
  const { name, requestState } = params.value
  if (!isKnown(context, name))
    return errorAnswer(request.id, invalidParams(`Unknown tool: ${name.slice(0, 64)}`))
  if (requestState !== undefined) return resume(context, request, params.value, requestState)
  return name === RESULT_TOOL
    ? readResult(context, request, params.value)
    : propose(context, request, params.value)
}

/** `inputResponses` answer nothing, because no tool asks; they only have to be well-formed. */
function readParams({ era, params }: McpRequest): Result<Params, RpcError> {
  const { name, arguments: args = {}, requestState, inputResponses = {} } = params
  if (typeof name !== 'string') return err(invalidParams('`name` must be the name of a tool'))
  if (!isObject(args)) return err(invalidParams('`arguments` must be an object'))
  if (era === 'modern' && !(isObject(inputResponses) && Object.values(inputResponses).every(isObject)))
    return err(invalidParams('`inputResponses` must be an object of objects'))
  if (requestState === undefined) return ok({ name, args, requestState })
  return typeof requestState === 'string' && era === 'modern'
    ? ok({ name, args, requestState })
    : err(UNKNOWN_STATE)
}

/** A tool that does not exist and one outside the agent's allowlist get the same answer (M06). */
function isKnown({ directory, agent }: McpContext, name: string): boolean {
  const tool = directory.tools.get(name)
  return name === RESULT_TOOL || (tool !== undefined && isListed(agent, name))
}

async function propose(context: McpContext, request: McpRequest, { name, args }: Params): Promise<Response> {
  const { env, directory, agent, request: http, path } = context
  const { id, era, meta } = request
  const handle = findRunFor({ env, agent }, { era, ours: meta.ours }, http.headers, path)
  if (!handle.ok) return errorAnswer(id, handle.error)
  const { run, create, oneClient } = handle.value
  const may = create === null ? ok(true) : requirePermission(directory, agent, 'run.create')
  if (!may.ok) return toolResult(request, may.error)
  const key = meta.ours.idempotencyKey ?? null
  const requestKey = oneClient ? JSON.stringify(id) : null
  const hold = holdMs(context, request)
  const input = {
    version: directory.version,
    agent: runOwner(agent),
    tool: name,
    args,
    files: [],
    origin: { ...context.origin, ...originOf(request) },
    key,
    create,
    join: true,
    waitMs: Math.min(hold, LIMITS.mcp_quick_ms),
  }
  const proposed = await run.proposeOrJoin(input, requestKey)
  if (!proposed.ok) return refuse(request, proposed.error)
  const { call, joined } = proposed.value
  const awaited = {
    found: { run, n: Number(call.id.split('_').at(-1)) },
    call,
    joined,
    round: 0,
    onlyLead: era === 'modern',
    request: requestKey,
  }
  const offered = pageOffered(context, request, awaited) === undefined ? hold : 0
  return answerAwaited(context, request, { name, args, requestState: undefined }, awaited, offered)
}

/**
 * The approval page, for an agent whose operator wants its user to approve. It is offered once, with
 * the first answer, and it asks for a sign-in. The client's own answer to the offer is ignored: only
 * an operator's answer on the page counts (0102).
 */
function pageOffered(
  { agent }: McpContext,
  { meta }: McpRequest,
  { call: { state, approval, tool }, round, onlyLead }: PendingCall,
): Record<string, unknown> | undefined {
  const isFirst = onlyLead && round === 0
  if (agent.spec.mcp?.elicit !== true || !meta.opensUrls || meta.tasks || !isFirst) return undefined
  if (state !== 'awaiting_approval' || approval === undefined) return undefined
  const message = `\`${tool}\` needs an approval. Open the approval page?`
  const params = { mode: 'url', message, url: approval.page }
  return { approval: { method: 'elicitation/create', params } }
}

/** Only reads: a retry with a `requestState` never proposes, even if the call has ended. */
async function resume(
  context: McpContext,
  request: McpRequest,
  params: Params,
  requestState: string,
): Promise<Response> {
  const { env, agent } = context
  const state = unseal(identityOf(env).mcpKey, 'wait', agent, requestState, Date.now())
  if (state === undefined || state.tool !== params.name || state.args !== digestOf(params.args))
    return errorAnswer(request.id, UNKNOWN_STATE)
  return awaitCall(context, request, params, state.call, state.round)
}

async function readResult(context: McpContext, request: McpRequest, params: Params): Promise<Response> {
  const { call, wait_s } = params.args
  if (typeof call !== 'string' || !PATTERNS.call.test(call)) return toolResult(request, UNKNOWN_CALL)
  const wait = wait_s === undefined ? undefined : waitOf(wait_s)
  return awaitCall(context, request, params, call, 0, wait)
}

async function awaitCall(
  context: McpContext,
  request: McpRequest,
  params: Params,
  callId: string,
  round: number,
  wait?: number,
): Promise<Response> {
  const { env, directory, agent } = context
  const may = requirePermission(directory, agent, 'run.read')
  if (!may.ok) return toolResult(request, may.error)
  const found = callOf(env, agent.tenant, callId)
  const hold = wait ?? holdMs(context, request)
  const call = found.ok
    ? await found.value.run.readForClient(runOwner(agent), found.value.n, Math.min(hold, LIMITS.mcp_quick_ms))
    : found
  if (!found.ok || !call.ok) return toolResult(request, UNKNOWN_CALL)
  const awaited = {
    found: found.value,
    call: call.value,
    joined: false,
    round,
    onlyLead: false,
    request: null,
  }
  return answerAwaited(context, request, params, awaited, hold)
}

/** Answers at once if the call has ended or nobody may wait; otherwise holds the request. */
async function answerAwaited(
  context: McpContext,
  request: McpRequest,
  params: Params,
  awaited: PendingCall,
  hold: number,
): Promise<Response> {
  const { env, agent } = context
  const { call, found, onlyLead, request: requestKey } = awaited
  const last = (now: Call): LastMessage => {
    const received = noteAnswer(runOwner(agent), found, requestKey, now)
    return { message: messageOn(context, request, params, { ...awaited, call: now }), ...received }
  }
  const place = randomUUID()
  const left = hold - LIMITS.mcp_quick_ms
  const mayWait =
    isPending(call) && left > 0 && (await tenantObject(env, agent.tenant).holdRequest(place, agent.name))
  if (!mayWait) {
    const { message, received } = last(call)
    if (received !== undefined) waitUntil(received())
    return jsonAnswer(message)
  }
  const watch = watchApproval(env, agent.tenant, call)
  const following = {
    ...found,
    agent: runOwner(agent),
    watch,
    approval: call.approval,
    token: context.accepted.stream ? request.meta.progressToken : null,
    until: Date.now() + left,
  }
  async function* messages(): AsyncGenerator<string, LastMessage, void> {
    const ended = yield* followCall(following)
    return ended.ok ? last(ended.value) : { message: errorMessage(request.id, failureError(ended.error)) }
  }
  return answerHeld(context, {
    id: request.id,
    messages: messages(),
    gone: async () => (onlyLead ? found.run.abandoned(runOwner(agent), found.n) : undefined),
    released: async () => {
      watch.leave()
      await tenantObject(env, agent.tenant).releaseRequest(place)
    },
  })
}

/** Reports to the run that the client has the answer. Denials and pending calls need no report. */
function noteAnswer(
  agent: RunOwner,
  { run, n }: FoundCall,
  request: string | null,
  call: Call,
): Pick<LastMessage, 'received'> {
  const delivered = !isPending(call) && call.state !== 'denied'
  return delivered || request !== null ? { received: () => run.answered(agent, n, request, delivered) } : {}
}

/** The answer about a call as it is now. */
function messageOn(
  context: McpContext,
  request: McpRequest,
  { name, args }: Params,
  awaited: PendingCall,
): string {
  const { env, agent, publicUrl } = context
  const { id, era, meta } = request
  const { call, joined, round } = awaited
  const form = isPending(call) ? pendingForm(era, meta.tasks, round) : 'result'
  if (form === 'task') return resultMessage(id, resultFor(era, createdTask(env, agent, call)))
  if (form === 'wait') {
    const until = (call.approval?.expires_at ?? Date.now() + LIMITS.claim_window_ms) + LIMITS.mcp_task_ms
    const state = { call: call.id, tool: name, args: digestOf(args), round: round + 1, until }
    const requestState = seal(identityOf(env).mcpKey, 'wait', agent, state)
    const inputRequests = pageOffered(context, request, awaited)
    const offer = inputRequests === undefined ? {} : { inputRequests }
    return resultMessage(id, resultFor(era, { resultType: 'input_required', ...offer, requestState }))
  }
  const chars = agent.spec.mcp?.output_chars ?? LIMITS.mcp_output_chars
  const part = name === RESULT_TOOL ? partIn(args) : 1
  return resultMessage(id, resultFor(era, resultOfCall(call, { publicUrl, joined, chars, part })))
}

/** Recorded only: no decision depends on it. */
const originOf = ({ revision, meta: { client, ours } }: McpRequest): CallOrigin => ({
  ...(ours.reason === undefined ? {} : { reason: ours.reason }),
  via: { protocol: 'mcp', revision, ...(client === null ? {} : { client }) },
})

/** How long to hold this request: as long as it asks for, or the default of its kind of client. */
function holdMs({ request }: McpContext, { era, meta }: McpRequest): number {
  const asked = meta.ours.waitS ?? preferredWait(request)
  const usual =
    era === 'legacy' ? LIMITS.mcp_hold_legacy_s : meta.tasks ? LIMITS.mcp_hold_task_s : LIMITS.mcp_hold_s
  return Math.min(asked ?? usual, LIMITS.mcp_hold_most_s) * 1000
}

const waitOf = (seconds: unknown): number | undefined =>
  Number.isInteger(seconds) && (seconds as number) >= 0 // checked
    ? Math.min(seconds as number, LIMITS.mcp_hold_most_s) * 1000
    : undefined

const partIn = ({ part }: Params['args']): number =>
  Number.isSafeInteger(part) ? Math.max(Number(part), 1) : 1

const toolResult = ({ id, era }: McpRequest, why: Failure): Response =>
  jsonAnswer(resultMessage(id, resultFor(era, resultOfRefusal(why))))

/** A refused proposal. A fault that the model can't correct is a JSON-RPC error. */
function refuse(request: McpRequest, why: Failure): Response {
  if (why.code === 'not_found') return errorAnswer(request.id, invalidParams(why.detail))
  if (why.code !== 'unavailable' && why.code !== 'internal') return toolResult(request, why)
  const error = failureError(why)
  return errorAnswer(request.id, request.era === 'legacy' ? { ...error, status: 200 } : error)
}
