// The MCP endpoint: checks one request in a fixed order, and serves it by its method.

import { type Failure, failure } from '../../shared/failures.ts'
import { LIMITS } from '../../shared/limits.ts'
import { identityOf } from '../bindings.ts'
import { runOwner } from '../call/run.ts'
import { requirePermission } from '../decision/decide.ts'
import { problem } from '../http/problem.ts'
import { requestId } from '../http/request-id.ts'
import { logError } from '../platform/error-log.ts'
import type { McpContext } from './context.ts'
import { type McpMessage, type McpRequest, readMessage } from './envelope.ts'
import { acceptedOf, checkOrigin } from './headers.ts'
import { listen } from './listen.ts'
import { pageOf } from './page.ts'
import { INSTRUCTIONS, LEGACY, MODERN, RPC, SERVER_INFO, TASKS } from './protocol.ts'
import {
  errorAnswer,
  failureError,
  invalidParams,
  jsonAnswer,
  type RpcError,
  refusedRequest,
  resultFor,
  resultMessage,
  rpcError,
} from './rpc.ts'
import { findRunFor, newSession, sessionNonce } from './run-handle.ts'
import { seal, unseal } from './sealed.ts'
import { answerTask } from './tasks.ts'
import { callTool } from './tool-call.ts'
import { toolListOf } from './tool-list.ts'

type AdmittedRequest = Omit<McpContext, 'accepted' | 'publicUrl'>

/** `admitted`: a request whose key, headers and body size have been checked. */
export async function answerMcp(admitted: AdmittedRequest, body: Uint8Array): Promise<Response> {
  const { request, env } = admitted
  const { publicUrl } = identityOf(env)
  const refuse = (why: Failure) =>
    refusedRequest(why, problem(why, { request_id: requestId(request), publicUrl }))
  const foreign = checkOrigin(request, publicUrl)
  if (foreign !== undefined) return refuse(foreign)
  const accepted = acceptedOf(request.headers)
  if (!accepted.json && !accepted.stream)
    return refuse(failure('not_acceptable', 'the `Accept` header names no type that this endpoint can send'))
  if (!/^application\/json(?:;\s*charset=utf-8)?$/i.test(request.headers.get('content-type') ?? ''))
    return refuse(failure('unsupported_media_type', 'the body must be JSON'))
  if (request.headers.has('idempotency-key'))
    return refuse(
      failure(
        'invalid_request',
        'a header would merge all calls of a client; name the key in `_meta`: `dev.countersign/idempotencyKey`',
      ),
    )
  const message = readMessage(body, request.headers)
  if (!message.ok) return errorAnswer(message.error.id, message.error.error)
  const context = { ...admitted, publicUrl, accepted }
  try {
    return await answerMessage(context, message.value)
  } catch (error) {
    const request_id = requestId(request)
    logError(error, { request_id })
    const internal = failure('internal', `an internal error of the edge, logged as ${request_id}`)
    return errorAnswer(message.value.kind === 'request' ? message.value.id : null, failureError(internal))
  }
}

async function answerMessage(context: McpContext, message: McpMessage): Promise<Response> {
  if (message.kind === 'request') return answerRequest(context, message)
  if (
    message.kind === 'notification' &&
    message.era === 'legacy' &&
    message.method === 'notifications/cancelled'
  )
    await cancelRequest(context, message.params['requestId'])
  return new Response(null, { status: 202, headers: { 'cache-control': 'no-store' } })
}

async function answerRequest(context: McpContext, request: McpRequest): Promise<Response> {
  const { id, era, method } = request
  switch (method) {
    case 'tools/list':
      return listTools(context, request)
    case 'tools/call':
      return callTool(context, request)
    // Many legacy clients request these lists although the server does not declare them.
    case 'prompts/list':
      return emptyList(request, 'prompts')
    case 'resources/list':
      return emptyList(request, 'resources')
    case 'resources/templates/list':
      return emptyList(request, 'resourceTemplates')
  }
  const answer = era === 'modern' ? modernMethod(context, request) : legacyMethod(context, request)
  return (
    answer ??
    errorAnswer(
      id,
      rpcError(era === 'modern' ? 404 : 200, RPC.noMethod, 'this server does not have this method'),
    )
  )
}

function modernMethod(context: McpContext, request: McpRequest): Response | Promise<Response> | undefined {
  switch (request.method) {
    case 'server/discover':
      return discover(request)
    case 'subscriptions/listen':
      return listen(context, request)
    case 'prompts/get':
      return errorAnswer(request.id, invalidParams('there is no such prompt: this server has tools only'))
    case 'resources/read':
      return errorAnswer(request.id, noResource(request.params['uri']))
    case 'tasks/get':
    case 'tasks/update':
    case 'tasks/cancel':
      return answerTask(context, request)
    default:
      return undefined
  }
}

function legacyMethod(context: McpContext, request: McpRequest): Response | undefined {
  switch (request.method) {
    case 'initialize':
      return initialize(context, request)
    case 'ping':
    case 'logging/setLevel':
      return jsonAnswer(resultMessage(request.id, {}))
    default:
      return undefined
  }
}

const discover = ({ id }: McpRequest): Response =>
  jsonAnswer(
    resultMessage(
      id,
      resultFor('modern', {
        supportedVersions: [MODERN],
        // The lists are empty, but declared, because they are answered (0100).
        capabilities: {
          tools: { listChanged: true },
          prompts: {},
          resources: {},
          extensions: { [TASKS]: {} },
        },
        instructions: INSTRUCTIONS,
        ttlMs: 300_000,
        cacheScope: 'private',
      }),
    ),
  )

function initialize({ env, agent }: McpContext, { id, params }: McpRequest): Response {
  const asked = params['protocolVersion']
  const result = {
    protocolVersion: LEGACY.find((one) => one === asked) ?? LEGACY[0],
    capabilities: { tools: {} },
    serverInfo: SERVER_INFO,
    instructions: INSTRUCTIONS,
  }
  return jsonAnswer(resultMessage(id, result), 200, { 'mcp-session-id': newSession({ env, agent }) })
}

const noResource = (uri: unknown): RpcError =>
  rpcError(
    200,
    RPC.invalidParams,
    'there is no such resource: this server has tools only',
    typeof uri === 'string' ? { uri: uri.slice(0, LIMITS.upstream_url_chars) } : undefined,
  )

const CACHING = { ttlMs: 60_000, cacheScope: 'private' } as const

const emptyList = ({ id, era }: McpRequest, of: string): Response =>
  jsonAnswer(resultMessage(id, resultFor(era, { [of]: [], ...(era === 'modern' ? CACHING : {}) })))

function listTools({ env, directory, agent }: McpContext, { id, era, params }: McpRequest): Response {
  const { mcpKey } = identityOf(env)
  const { cursor } = params
  const place = typeof cursor === 'string' ? unseal(mcpKey, 'cursor', agent, cursor, Date.now()) : undefined
  if (cursor !== undefined && place === undefined)
    return errorAnswer(
      id,
      invalidParams('this cursor is malformed or not yours; list again without a cursor'),
    )
  const { texts, last } = pageOf(toolListOf(directory, agent).tools, place?.after ?? null)
  const rest = {
    ...(last === null ? {} : { nextCursor: seal(mcpKey, 'cursor', agent, { after: last }) }),
    ...(era === 'modern' ? CACHING : {}),
  }
  // The definitions are JSON already, and each is serialized only once.
  const whole = resultMessage(id, resultFor(era, { tools: [], ...rest }))
  return jsonAnswer(whole.replace('"tools":[]', () => `"tools":[${texts.join()}]`))
}

/** Request ids are unique only within one client's session. */
async function cancelRequest(
  { env, agent, directory, request, path }: McpContext,
  id: unknown,
): Promise<void> {
  const { headers } = request
  const nonce = sessionNonce({ env, agent }, headers)
  if (!nonce.ok || nonce.value === null || (typeof id !== 'string' && typeof id !== 'number')) return
  if (!requirePermission(directory, agent, 'run.cancel').ok) return
  const handle = findRunFor({ env, agent }, { era: 'legacy', ours: {} }, headers, path)
  if (handle.ok && handle.value.oneClient)
    await handle.value.run.cancelRequest(runOwner(agent), JSON.stringify(id), {
      kind: 'agent',
      name: agent.name,
    })
}
