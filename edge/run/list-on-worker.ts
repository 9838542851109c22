// Lists the tools of an MCP server that a worker starts. The list is the output of a call in a run of
// its own: policy decides the call (L1), a worker runs it in tier C, and journal, attestation and log
// hold it, like any call. Its agent is one of the edge's own, so no agent can read unaccepted texts.

import { type Json, type JsonBounds, parseJson } from '../../shared/bytes/json.ts'
import { failure } from '../../shared/failures.ts'
import { splitId } from '../../shared/ids.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Call } from '../../shared/wire/calls.ts'
import type { UpstreamWithTools } from '../../shared/wire/upstreams.ts'
import { type Env, runObject, tenantUpstreams } from '../bindings.ts'
import { runOwner } from '../call/run.ts'
import { directoryAt } from '../directory/directory.ts'
import type { LoadedDirectory } from '../directory/loaded-directory.ts'
import { listerOf } from '../directory/own-agents.ts'
import { quoteReadable } from '../platform/visible-text.ts'
import { runRecord } from './find-run.ts'

const BOUNDS: JsonBounds = { bytes: LIMITS.output_bytes, depth: LIMITS.json_depth, nodes: 200_000 }

/** `by`: the operator who asks. If the list fails, the reason is stored with the upstream, too. */
export async function listOnWorker(
  env: Env,
  { tenant, version }: Pick<LoadedDirectory, 'tenant' | 'version'>,
  upstream: string,
  by: string,
): Promise<Result<UpstreamWithTools>> {
  const directory = await directoryAt(env, tenant, version)
  const listing = directory.listings.get(listerOf(upstream))
  if (listing === undefined) return err(failure('not_found', 'no such upstream'))
  const { agent, tool } = listing
  const { version: revision, name } = tool.tool
  const record = runRecord(env, agent, {}, null)
  const run = runObject(env, tenant, record.id)
  const proposed = await run.propose({
    version: directory.version,
    agent: runOwner(agent),
    tool: name,
    args: {},
    files: [],
    origin: { reason: `The operator ${by} reads the tools of this upstream.` },
    key: null,
    create: record,
    join: false,
    waitMs: LIMITS.upstream_listing_ms,
  })
  const upstreams = tenantUpstreams(env, tenant)
  const listed = proposed.ok ? toolsIn(proposed.value) : err(proposed.error.detail)
  if (listed.ok) return upstreams.sawList(upstream, revision, listed.value)
  if (proposed.ok) {
    const { n } = splitId(proposed.value.id)
    await run.cancel(null, n, { kind: 'operator', name: by }) // refused if it has ended
  }
  await upstreams.couldNotList(upstream, revision, listed.error)
  const why = failure('unavailable', `the upstream could not be read: ${listed.error}`)
  const started = proposed.ok && proposed.value.result?.error?.code === 'upstream_unavailable'
  return err(started ? { ...why, todo: NOT_SERVING } : why)
}

/** A worker has run the command, which was not an MCP server. */
const NOT_SERVING =
  'the worker runs this command in a sandbox on its host: install the program there; if it fetches itself when it starts, name the hosts that it fetches from (`hosts`), and store the upstream again'

function toolsIn({ id, state, result, decision }: Call): Result<readonly Json[], string> {
  if (state === 'denied' || state === 'awaiting_approval')
    return err(`policy does not let the edge list its tools by itself (${decision.reason})`)
  if (state === 'granted') return err('no worker of its pool took the call in time')
  if (state === 'running') return err('the worker did not answer in time')
  if (result?.error?.code === 'quota_exceeded')
    return err(
      `its list of tools is longer than ${LIMITS.output_bytes} bytes, or listing them exceeded another limit`,
    )
  if (state !== 'succeeded' || result === undefined)
    return err(
      `the call ${id} ended ${state}: ${result?.error?.detail ?? 'it has no result'}${lastWords(result)}`,
    )
  const parsed = parseJson(Buffer.from(result.output), BOUNDS)
  return parsed.ok && Array.isArray(parsed.value)
    ? ok(parsed.value)
    : err('the worker returned no list of tools')
}

/** The end of what the server wrote to standard error, which is untrusted. */
function lastWords(result: Call['result']): string {
  const written = result?.stderr.trimEnd().slice(-LAST_CHARS).toWellFormed() ?? ''
  return written === '' ? '' : `; its error output ends with ${quoteReadable(written)}`
}
const LAST_CHARS = 400
