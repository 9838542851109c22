// The router: every route of the table, each by the same steps. identify → authorize → parse → one verb → map the result.

import { Hono } from 'hono'
import type { z } from 'zod'
import type { RouteName, Routes } from '../shared/api.ts'
import { ROUTES } from '../shared/api.ts'
import type { Output } from '../shared/client.ts'
import { failure } from '../shared/failures.ts'
import type { Result } from '../shared/result.ts'
import { err, ok } from '../shared/result.ts'
import type { Caller, Route } from '../shared/routes/route.ts'
import { agentRoutes } from './api/agents.ts'
import { openRoutes } from './api/anyone.ts'
import { channelRoutes } from './api/channels.ts'
import { consoleRoutes } from './api/console.ts'
import { consoleCallRoutes } from './api/console-calls.ts'
import { consoleSkillRoutes } from './api/console-skills.ts'
import { linkRoutes } from './api/links.ts'
import { operatorRoutes } from './api/operators.ts'
import { policyRoutes } from './api/policies.ts'
import { rehearsalRoutes } from './api/rehearsals.ts'
import { secretRoutes } from './api/secrets.ts'
import { skillStorageRoutes } from './api/skill-storage.ts'
import { skillTrialRoutes } from './api/skill-trials.ts'
import { skillRoutes } from './api/skills.ts'
import { slackRoutes } from './api/slack.ts'
import { standingRoutes } from './api/standing.ts'
import { tenantRoutes } from './api/tenants.ts'
import { workerRoutes } from './api/workers.ts'
import { permitted } from './decide.ts'
import { SUSPENDED } from './directory.ts'
import type { Env } from './env.ts'
import { headersOf } from './headers.ts'
import { governs } from './installation.ts'
import type { Identified } from './intake.ts'
import {
  claimant,
  headersFit,
  identifyByKey,
  identifyBySignature,
  isSmall,
  parseBody,
  parseHeaders,
  parseParams,
  readBody,
  shaped,
} from './intake.ts'
import { logError } from './log.ts'
import { problem } from './problem.ts'
import { refusal, unrouted, wrongKey } from './unrouted.tsx'

type Part<R extends Route, K extends 'params' | 'query' | 'headers' | 'body'> = R[K] extends z.ZodType ? z.output<R[K]> : undefined

/** What a verb is given: a request that has passed every check of its route. */
export type Incoming<N extends RouteName> = {
  env: Env
  request: Request
  params: Part<Routes[N], 'params'>
  query: Part<Routes[N], 'query'>
  headers: Part<Routes[N], 'headers'>
  body: Part<Routes[N], 'body'>
} & (Routes[N] extends { callers: readonly ('anyone' | 'link' | 'slack' | 'console' | 'installation')[] }
  ? { caller: null }
  : { caller: Identified })

/** A verb answers with the route's result; with a Response where the route is not JSON or has a status to choose. */
export type Verb<N extends RouteName> = (incoming: Incoming<N>) => Promise<Result<Output<N> | Response>>
export type Verbs<N extends RouteName> = { [K in N]: Verb<K> }

const VERBS: Verbs<RouteName> = {
  ...agentRoutes,
  ...operatorRoutes,
  ...channelRoutes,
  ...secretRoutes,
  ...skillRoutes,
  ...skillStorageRoutes,
  ...skillTrialRoutes,
  ...slackRoutes,
  ...policyRoutes,
  ...rehearsalRoutes,
  ...standingRoutes,
  ...tenantRoutes,
  ...workerRoutes,
  ...consoleRoutes,
  ...consoleCallRoutes,
  ...consoleSkillRoutes,
  ...linkRoutes,
  ...openRoutes,
}

export const app = new Hono<{ Bindings: Env }>()

for (const name of Object.keys(ROUTES) as RouteName[]) {
  // the table's own keys
  const route: Route = ROUTES[name]
  const verb = VERBS[name] as unknown as (incoming: unknown) => Promise<Result<unknown>> // one table, many shapes: each verb gets what its own route parsed
  app.on(route.method, route.path.replace(/\{(\w+)\}/g, ':$1'), async (context) => {
    const { raw } = context.req
    const incoming = await admit(route, raw, context.req.param(), context.env)
    const done = incoming.ok ? await verb({ env: context.env, request: raw, ...incoming.value }) : incoming
    if (!done.ok) return route.media === 'text/html' ? refusal(raw, done.error) : problem(done.error)
    if (done.value instanceof Response) return done.value
    return new Response(JSON.stringify(done.value), {
      status: route.status,
      headers: headersOf('application/json'),
    })
  })
}

/** A name given twice could be read twice differently, as in a body (G03). */
function parseQuery(schema: z.ZodType, given: URLSearchParams): Result<unknown> {
  const names = new Set(given.keys())
  if (names.size < given.size) return err(failure('invalid_request', 'the query names a parameter twice; give each once'))
  return shaped(schema, Object.fromEntries(given), 'query')
}

type Admitted = { caller: Identified | null; params: unknown; query: unknown; headers: unknown; body: unknown }

async function admit(route: Route, request: Request, pathParams: Record<string, string>, env: Env): Promise<Result<Admitted>> {
  const fit = headersFit(request)
  if (!fit.ok) return fit
  const known = route.body === undefined || isSmall(request) ? ok(null) : await knock(route, request, env, pathParams)
  if (!known.ok) return known
  const bytes = route.body === undefined ? ok(new Uint8Array()) : await readBody(request, route.body_bytes)
  if (!bytes.ok) return bytes
  const identified = await identify(route, request, bytes.value, env, pathParams)
  if (!identified.ok) return identified
  const params = parseParams(route, pathParams)
  if (!params.ok) return params
  const query = route.query === undefined ? ok(undefined) : parseQuery(route.query, new URL(request.url).searchParams)
  if (!query.ok) return query
  const headers = parseHeaders(route, request)
  if (!headers.ok) return headers
  const body = route.body === undefined ? ok(undefined) : route.raw ? bytes : parseBody(request, bytes.value, route.body)
  if (!body.ok) return body
  return ok({ caller: identified.value, params: params.value, query: query.value, headers: headers.value, body: body.value })
}

/** Who is identified by what the route itself reads: a link's token, Slack's signature, a browser's session. */
const CARRIED: ReadonlySet<Caller> = new Set(['anyone', 'link', 'slack', 'console'])

const KINDS = { Agent: 'agent', Operator: 'operator', Worker: 'worker' } as const

async function identify(
  route: Route,
  request: Request,
  bytes: Uint8Array,
  env: Env,
  pathParams: Record<string, string>,
): Promise<Result<Identified | null>> {
  const { callers, action } = route
  if (callers.includes('installation')) return governs(request, env, action, pathParams['tenant'] ?? '')
  if (callers.some((caller) => CARRIED.has(caller))) return ok(null)
  const identified = callers.includes('worker') ? await identifyBySignature(request, bytes, env) : await identifyByKey(request, env)
  if (!identified.ok) return identified
  const { principal, directory } = identified.value
  if (directory.state === 'suspended' && action === 'worker.claim') return err(SUSPENDED) // running calls may finish
  if (!callers.includes(KINDS[principal.kind])) return err(wrongKey(KINDS[principal.kind], callers))
  // Where the table names no action, the decision is the verb's own work: a proposed call.
  const may = action === null ? ok(true) : permitted(directory, principal, action)
  return may.ok ? identified : may
}

/**
 * Strangers make us hold little (G10): asked before a larger body is read, and again behind it, by the directory of then. A signature
 * covers the body, so that of a worker only its name can be known here.
 */
const knock = (route: Route, request: Request, env: Env, pathParams: Record<string, string>): Promise<Result<unknown>> =>
  route.callers.includes('worker') ? claimant(request, env) : identify(route, request, new Uint8Array(), env, pathParams)

app.notFound((context) => unrouted(context.req.raw))

app.onError((error, context) => {
  const instance = crypto.randomUUID()
  logError(instance, error)
  return refusal(context.req.raw, failure('internal', `something of ours broke: ${instance}`), { 'x-instance': instance })
})
