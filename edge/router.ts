// Serves every route of the table by the same steps: identify → authorize → parse → call one verb →
// map the result to a response.

import { Hono } from 'hono'
import type { z } from 'zod'
import { type Failure, failure } from '../shared/failures.ts'
import { LIMITS } from '../shared/limits.ts'
import type { Result } from '../shared/result.ts'
import { err, ok } from '../shared/result.ts'
import type { RouteName } from '../shared/routes/all.ts'
import { ROUTES } from '../shared/routes/all.ts'
import { ACCESS, REQUEST_ID } from '../shared/routes/authzen.ts'
import type { Caller, Route } from '../shared/routes/route.ts'
import { agentRoutes } from './api/agents.ts'
import { linkRoutes } from './api/approval-links.ts'
import { authzenRoutes } from './api/authzen.ts'
import { channelRoutes } from './api/channels.ts'
import { hookRoutes } from './api/claude-code-hook.ts'
import { consoleCallRoutes } from './api/console/calls.ts'
import { consoleRoutes } from './api/console/console.ts'
import { consoleSkillRoutes } from './api/console/skills.ts'
import { exportRoutes } from './api/exports.ts'
import { issuerRoutes } from './api/issuers.ts'
import { mcpRoutes } from './api/mcp.ts'
import { operatorRoutes } from './api/operators.ts'
import { policyRoutes } from './api/policies.ts'
import { openRoutes } from './api/public.ts'
import { rehearsalRoutes } from './api/rehearsals.ts'
import { retentionRoutes } from './api/retention.ts'
import { secretRoutes } from './api/secrets.ts'
import { skillStorageRoutes } from './api/skill-storage.ts'
import { skillTrialRoutes } from './api/skill-trials.ts'
import { skillRoutes } from './api/skills.ts'
import { slackRoutes } from './api/slack.ts'
import { standingRoutes } from './api/standing-approvals.ts'
import { tenantRoutes } from './api/tenants.ts'
import { upstreamRoutes } from './api/upstreams.ts'
import type { Verbs } from './api/verb.ts'
import { workerRoutes } from './api/workers.ts'
import { isDamaged, isEvicted } from './archive/entry.ts'
import type { Env } from './bindings.ts'
import { identityOf } from './bindings.ts'
import { requirePermission } from './decision/decide.ts'
import { SUSPENDED } from './directory/directory.ts'
import { hookRefusal } from './http/claude-code-hook.ts'
import type { Identified } from './http/intake.ts'
import {
  claimedWorker,
  headersFit,
  identifyByBearer,
  identifyBySignature,
  isSmall,
  parseAs,
  parseBody,
  parseHeaders,
  parseParams,
  readBody,
} from './http/intake.ts'
import { jsonAnswer } from './http/json-answer.ts'
import { problem } from './http/problem.ts'
import { challenge } from './http/protected-resource.ts'
import { requestId, withRequestId } from './http/request-id.ts'
import { authorizeInstallation } from './installation/installation.ts'
import { refusedRequest } from './mcp/rpc.ts'
import { refusal, unrouted, wrongKey } from './pages/unrouted.tsx'
import { logError } from './platform/error-log.ts'

const VERBS: Verbs<RouteName> = {
  ...agentRoutes,
  ...authzenRoutes,
  ...mcpRoutes,
  ...operatorRoutes,
  ...channelRoutes,
  ...exportRoutes,
  ...issuerRoutes,
  ...retentionRoutes,
  ...secretRoutes,
  ...skillRoutes,
  ...skillStorageRoutes,
  ...skillTrialRoutes,
  ...slackRoutes,
  ...policyRoutes,
  ...rehearsalRoutes,
  ...standingRoutes,
  ...tenantRoutes,
  ...upstreamRoutes,
  ...workerRoutes,
  ...consoleRoutes,
  ...consoleCallRoutes,
  ...consoleSkillRoutes,
  ...hookRoutes,
  ...linkRoutes,
  ...openRoutes,
}

const app = new Hono<{ Bindings: Env }>()

/** AuthZEN: every response, refusals included, repeats the request id of its request. */
app.use(`${ACCESS}/*`, async (context, next) => {
  await next()
  const id = context.req.header(REQUEST_ID)
  if (id !== undefined && id.length <= LIMITS.request_id_chars) context.header(REQUEST_ID, id)
})

for (const name of Object.keys(ROUTES) as RouteName[]) {
  // `Object.keys` of the table itself
  const route: Route = ROUTES[name]
  const verb = VERBS[name] as unknown as (incoming: unknown) => Promise<Result<unknown>> // each verb gets what its own route has parsed
  app.on(route.method, patternOf(route), async (context) => {
    const { env } = context
    const { raw } = context.req
    const incoming = await admit(route, raw, context.req.param(), env)
    const done = incoming.ok ? await verb({ env, request: raw, ...incoming.value }) : incoming
    if (!done.ok) return refusalOf(route, raw, done.error, env)
    if (done.value instanceof Response) return done.value
    return jsonAnswer(route, done.value)
  })
}

/** The route's path as Hono writes it. */
function patternOf({ path, rest }: Route): string {
  return `${path.replace(/\{(\w+)\}/g, ':$1')}${rest === true ? '{.+}' : ''}`
}

/** An agent without a valid key or token learns where it can get a token. */
async function refusalOf(
  { media, refusals, callers }: Route,
  request: Request,
  error: Failure,
  env: Env,
): Promise<Response> {
  const { publicUrl } = identityOf(env)
  if (refusals === 'claude-code-hook') return hookRefusal(error)
  if (media === 'text/html') return refusal(request, publicUrl, error)
  const isMcp = refusals === 'json-rpc'
  const isAgentUnknown = error.code === 'unauthenticated' && callers.includes('agent')
  const headers = isAgentUnknown
    ? { 'www-authenticate': await challenge(env, request, isMcp ? '/mcp' : '') }
    : {}
  const refused = problem(error, { request_id: requestId(request), publicUrl }, headers)
  return isMcp ? refusedRequest(error, refused) : refused
}

export const serve = async (request: Request, env: Env, context: ExecutionContext): Promise<Response> =>
  withRequestId(request, await app.fetch(request, env, context))

/**
 * Refuses repeated names: of two values, one reader could take the first and another the last
 * (G03).
 */
function parseQuery(schema: z.ZodType, given: URLSearchParams): Result<unknown> {
  const names = new Set(given.keys())
  if (names.size < given.size)
    return err(failure('invalid_request', 'the query names a parameter twice; give each once'))
  return parseAs(schema, Object.fromEntries(given), 'query')
}

type AdmittedRequest = {
  caller: Identified | null
  params: unknown
  query: unknown
  headers: unknown
  body: unknown
}

async function admit(
  route: Route,
  request: Request,
  pathParams: Record<string, string>,
  env: Env,
): Promise<Result<AdmittedRequest>> {
  const size = headersFit(request)
  if (!size.ok) return size
  const early =
    route.body === undefined || isSmall(request)
      ? ok(null)
      : await authenticateBeforeBody(route, request, env, pathParams)
  if (!early.ok) return early
  const bytes = route.body === undefined ? ok(new Uint8Array()) : await readBody(request, route.body_bytes)
  if (!bytes.ok) return bytes
  const identified = await identify(route, request, bytes.value, env, pathParams)
  if (!identified.ok) return identified
  const params = parseParams(route, pathParams)
  if (!params.ok) return params
  const query =
    route.query === undefined ? ok(undefined) : parseQuery(route.query, new URL(request.url).searchParams)
  if (!query.ok) return query
  const headers = parseHeaders(route, request)
  if (!headers.ok) return headers
  const body =
    route.body === undefined ? ok(undefined) : route.raw ? bytes : parseBody(request, bytes.value, route.body)
  if (!body.ok) return body
  return ok({
    caller: identified.value,
    params: params.value,
    query: query.value,
    headers: headers.value,
    body: body.value,
  })
}

/**
 * Callers that the verb identifies: by a link's token, Slack's signature or a browser's session.
 */
const IDENTIFIED_BY_VERB: ReadonlySet<Caller> = new Set(['anyone', 'link', 'slack', 'console'])

const KINDS = { Agent: 'agent', Operator: 'operator', Worker: 'worker' } as const

async function identify(
  route: Route,
  request: Request,
  bytes: Uint8Array,
  env: Env,
  pathParams: Record<string, string>,
): Promise<Result<Identified | null>> {
  const { callers, action } = route
  if (callers.includes('installation'))
    return authorizeInstallation(request, env, action, pathParams['tenant'] ?? '')
  if (callers.some((caller) => IDENTIFIED_BY_VERB.has(caller))) return ok(null)
  const identified = callers.includes('worker')
    ? await identifyBySignature(request, bytes, env)
    : await identifyByBearer(request, env)
  if (!identified.ok) return identified
  const { principal, directory } = identified.value
  if (directory.state === 'suspended' && action === 'worker.claim') return err(SUSPENDED) // running calls may finish
  if (!callers.includes(KINDS[principal.kind])) return err(wrongKey(KINDS[principal.kind], callers))
  // A route without an action decides in its verb: a proposed call.
  const may = action === null ? ok(true) : requirePermission(directory, principal, action)
  return may.ok ? identified : may
}

/**
 * Strangers can't make us buffer much (G10): the caller of a large body is checked before we read
 * it, and again afterwards against the directory of that moment. A worker's signature covers the
 * body, so at first we only check that the named worker exists.
 */
const authenticateBeforeBody = (
  route: Route,
  request: Request,
  env: Env,
  pathParams: Record<string, string>,
): Promise<Result<unknown>> =>
  route.callers.includes('worker')
    ? claimedWorker(request, env)
    : identify(route, request, new Uint8Array(), env, pathParams)

app.notFound((context) => unrouted(context.req.raw, identityOf(context.env).publicUrl))

app.onError((error, context) => {
  const { raw } = context.req
  const request_id = requestId(raw)
  logError(error, { request_id })
  const internal = isDamaged(error)
    ? failure('archive_damaged', `the run can't be read from its archive, logged as ${request_id}`)
    : isEvicted(error)
      ? failure(
          'unavailable',
          'other reads of sealed runs use all memory that the edge has for them; try again',
        )
      : failure('internal', `an internal error of the edge, logged as ${request_id}`)
  return context.req.path === ROUTES.adviseClaudeCode.path
    ? hookRefusal(internal)
    : refusal(raw, identityOf(context.env).publicUrl, internal)
})
