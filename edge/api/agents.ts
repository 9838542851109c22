// Verbs of agents: runs, calls, files, tools and dry-run decisions. Operators read runs through the
// same verbs.

import type { CallOrigin } from '../../shared/evidence/origin.ts'
import { failure } from '../../shared/failures.ts'
import { splitId } from '../../shared/ids.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Env } from '../bindings.ts'
import { logObject, runObject } from '../bindings.ts'
import type { Canceller } from '../call/lifecycle.ts'
import { type RunOwner, runOwner } from '../call/run.ts'
import { authorize, isListed } from '../decision/decide.ts'
import type { AgentPrincipal } from '../directory/loaded-directory.ts'
import type { Identified } from '../http/intake.ts'
import { idempotencyKey, identifyByBearer, namedAgent, originOfCaller, waitMs } from '../http/intake.ts'
import { fileResponse, streamHeaders } from '../http/response-headers.ts'
import type { RunQuery } from '../log/call-index-store.ts'
import { callOf, runOf, runRecord, sharedRunRecord } from '../run/find-run.ts'
import { pieceAsJson, streamCall } from './call-event-stream.ts'
import { dryRun } from './dry-run.ts'
import type { Incoming, Verbs } from './verb.ts'

type RouteNames =
  | 'createRun'
  | 'putFile'
  | 'listFiles'
  | 'proposeCall'
  | 'proposeCallInNewRun'
  | 'listCalls'
  | 'readCallById'
  | 'listRuns'
  | 'readRun'
  | 'cancelRun'
  | 'readCall'
  | 'readFile'
  | 'readAttestation'
  | 'readSnapshot'
  | 'explainCall'
  | 'cancelCall'
  | 'readJournal'
  | 'streamEvents'
  | 'followCall'
  | 'listTools'
  | 'decide'

export const agentRoutes: Verbs<RouteNames> = {
  async createRun({ env, request, caller, body }) {
    const key = idempotencyKey(request)
    if (!key.ok) return key
    const record = runRecord(env, agentOf(caller), body, key.value === null ? null : `run ${key.value}`)
    return runObject(env, record.tenant, record.id).create(record)
  },

  async putFile({ env, caller, params, body }) {
    if (!takesFiles(caller)) return err(failure('forbidden', 'none of your tools takes files'))
    const run = findRun(env, caller, params.run)
    return run.ok ? run.value.putFile(runOwner(agentOf(caller)), params.sha256, body) : run
  },

  async listFiles({ env, caller, params }) {
    const run = findRun(env, caller, params.run)
    const files = run.ok ? await run.value.listFiles(readerOf(caller)) : run
    return files.ok ? ok({ items: files.value }) : files
  },

  async proposeCall({ env, request, caller, params, body }) {
    const run = findRun(env, caller, params.run)
    const key = idempotencyKey(request)
    if (!run.ok) return run
    if (!key.ok) return key
    return run.value.propose({
      version: caller.directory.version,
      agent: runOwner(agentOf(caller)),
      tool: body.tool,
      args: body.args,
      files: body.files ?? [],
      origin: originOf(body, caller),
      key: key.value,
      create: null,
      join: false,
      waitMs: waitMs(request),
    })
  },

  async proposeCallInNewRun({ env, request, caller, body }) {
    const { tool, args, run = {} } = body
    const key = idempotencyKey(request)
    if (!key.ok) return key
    const input = {
      version: caller.directory.version,
      agent: runOwner(agentOf(caller)),
      tool,
      args,
      files: [],
      origin: originOf(body, caller),
      key: key.value,
      join: false,
      waitMs: waitMs(request),
    }
    const { tenant, runsShareSince } = caller.directory
    const shared = sharedRunRecord(env, agentOf(caller), run, key.value, runsShareSince)
    const proposed =
      shared && (await runObject(env, tenant, shared.id).proposeIfRoom({ ...input, create: shared }))
    if (proposed !== null) return proposed
    const own = runRecord(env, agentOf(caller), run, key.value === null ? null : `call ${key.value}`)
    return runObject(env, tenant, own.id).propose({ ...input, create: own })
  },

  async listCalls({ env, caller, query }) {
    const range = listRange(caller, query)
    if (!range.ok) return range
    const { tool, state } = query
    return ok(await logObject(env, caller.directory.tenant).calls({ ...range.value, tool, state }))
  },

  async listRuns({ env, caller, query }) {
    const range = listRange(caller, query)
    return range.ok ? ok(await logObject(env, caller.directory.tenant).runs(range.value)) : range
  },

  async readCallById({ env, request, caller, params }) {
    const call = findCall(env, caller, { ...params, run: splitId(params.call).run })
    return call.ok ? call.value.run.read(readerOf(caller), call.value.n, waitMs(request)) : call
  },

  async readRun({ env, caller, params }) {
    const run = findRun(env, caller, params.run)
    return run.ok ? run.value.readRun(readerOf(caller)) : run
  },

  async cancelRun({ env, caller, params }) {
    const run = findRun(env, caller, params.run)
    return run.ok ? run.value.cancelRun(readerOf(caller), canceller(caller)) : run
  },

  async readCall({ env, request, caller, params }) {
    const call = findCall(env, caller, params)
    return call.ok ? call.value.run.read(readerOf(caller), call.value.n, waitMs(request)) : call
  },

  async readFile({ env, caller, params: { sha256, ...params } }) {
    const call = findCall(env, caller, params)
    const file = call.ok ? await call.value.run.file(readerOf(caller), call.value.n, sha256) : call
    return file.ok ? ok(fileResponse(file.value)) : file
  },

  async readAttestation({ env, caller, params }) {
    const call = findCall(env, caller, params)
    return call.ok ? call.value.run.attestation(readerOf(caller), call.value.n) : call
  },

  async readSnapshot({ env, caller, params }) {
    const call = findCall(env, caller, params)
    return call.ok ? call.value.run.snapshot(readerOf(caller), call.value.n) : call
  },

  async explainCall({ env, caller, params }) {
    const call = findCall(env, caller, params)
    return call.ok ? call.value.run.explanation(readerOf(caller), call.value.n) : call
  },

  async cancelCall({ env, caller, params }) {
    const call = findCall(env, caller, params)
    return call.ok ? call.value.run.cancel(readerOf(caller), call.value.n, canceller(caller)) : call
  },

  async readJournal({ env, caller, params, query }) {
    const run = findRun(env, caller, params.run)
    if (!run.ok) return run
    const entries = await run.value.journal(readerOf(caller), query.after, 0)
    return entries.ok ? ok({ items: entries.value }) : entries
  },

  async streamEvents({ env, request, caller, params }) {
    const run = findRun(env, caller, params.run)
    if (!run.ok) return run
    const from = Number(/^[0-9]{1,9}$/.exec(request.headers.get('last-event-id') ?? '')?.[0] ?? 0)
    const first = await run.value.journal(readerOf(caller), from, 0)
    if (!first.ok) return first
    return ok(
      eventStream(from, async (after) => {
        const entries = await run.value.journal(readerOf(caller), after, 15_000)
        const may = await mayStillRead(request, env)
        return entries.ok && may ? entries.value : null
      }),
    )
  },

  async followCall({ env, request, caller, params, query, headers }) {
    const call = findCall(env, caller, params)
    if (!call.ok) return call
    const { kind, name } = caller.principal
    const position = headers['last-event-id'] ?? query.after
    return streamCall({
      ...call.value,
      agent: readerOf(caller),
      owner: `${kind} ${name}`,
      position,
      mayRead: () => mayStillRead(request, env),
      formatPiece: pieceAsJson,
    })
  },

  async listTools({ caller: { directory, principal } }) {
    const allowed = principal.kind === 'Agent' ? agentSpec(principal).tools : ['*']
    const tools = [...directory.tools.values()].filter(
      ({ tool }) => tool.executor.kind !== 'none' && (allowed.includes('*') || allowed.includes(tool.name)),
    )
    return ok({
      items: tools
        .map(
          ({
            tool: { name, version, digest, description, input_schema, output_schema, input_files = false },
            capabilities,
            sensitive,
          }) => ({
            name,
            version,
            digest,
            description,
            input_schema,
            ...(output_schema === undefined ? {} : { output_schema }),
            capabilities: [...capabilities],
            sensitive,
            input_files,
          }),
        )
        .sort((a, b) => (a.name < b.name ? -1 : 1)),
    })
  },

  async decide({ env, caller, body: { agent: name, tool, args, files = [], run = {} } }) {
    const agent = namedAgent(caller, name)
    return agent.ok ? dryRun(env, caller, { agent: agent.value, tool, args, files, run }) : agent
  },
}

/** The proposal's own reason, and the actor behind its agent. */
const originOf = (
  { reason }: Pick<Incoming<'proposeCall'>['body'], 'reason'>,
  caller: Identified,
): CallOrigin => ({ ...(reason === undefined ? {} : { reason }), ...originOfCaller(caller) })

const agentOf = ({ principal }: Identified): AgentPrincipal => principal as AgentPrincipal // the route admits only agents
const agentSpec = (principal: Identified['principal']) => (principal as AgentPrincipal).spec // the caller has checked `kind`

/** Whether a tool of the agent takes files. */
const takesFiles = ({ directory, principal }: Identified): boolean =>
  [...directory.tools.values()].some(
    ({ tool }) => tool.input_files === true && isListed(principal as AgentPrincipal, tool.name),
  ) // as above

/** An agent reads its own runs; null stands for an operator, who reads every agent's. */
const readerOf = (caller: Identified): RunOwner | null =>
  caller.principal.kind === 'Agent' ? runOwner(agentOf(caller)) : null

/**
 * The part of a list that the caller may read. An agent gets its own, and nothing from before it was
 * created: an earlier agent of its name was another one.
 */
function listRange(
  { principal }: Identified,
  { agent, since, limit, cursor }: Incoming<'listRuns'>['query'],
): Result<RunQuery> {
  if (principal.kind !== 'Agent') return ok({ agent, since, limit, before: cursor })
  if (agent !== undefined && agent !== principal.name)
    return err(failure('forbidden', 'an agent can list only its own calls and runs: leave `agent` out'))
  const { name, since: createdAt } = principal as AgentPrincipal // its `kind` says so
  return ok({ agent: name, since: Math.max(since ?? 0, createdAt), limit, before: cursor })
}

/** A stream outlives its request, so the current key and policy count. */
async function mayStillRead(request: Request, env: Env): Promise<boolean> {
  const still = await identifyByBearer(request, env)
  return still.ok && authorize(still.value.directory, still.value.principal, 'run.read').allowed
}

const canceller = ({ principal: { kind, name } }: Identified): Canceller => ({
  kind: kind === 'Agent' ? 'agent' : 'operator',
  name,
})

const findRun = (env: Env, { directory }: Identified, run: string) => runOf(env, directory.tenant, run)
const findCall = (env: Env, { directory }: Identified, { call, run }: Incoming<'readCall'>['params']) =>
  callOf(env, directory.tenant, call, run)

type Entries = ReadonlyArray<{ seq: number; kind: string }>

/** Streams entries until `next` returns `null`. */
function eventStream(from: number, next: (after: number) => Promise<Entries | null>): Response {
  const text = new TextEncoder()
  let after = from
  const stream = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const entries = await next(after)
      if (entries === null) return controller.close()
      // A comment keeps intermediaries from cutting a quiet stream.
      const lines =
        entries.length === 0
          ? ': still here\n\n'
          : entries
              .map((entry) => `id: ${entry.seq}\nevent: ${entry.kind}\ndata: ${JSON.stringify(entry)}\n\n`)
              .join('')
      after = entries.at(-1)?.seq ?? after
      controller.enqueue(text.encode(lines))
    },
  })
  return new Response(stream, { headers: streamHeaders() })
}
