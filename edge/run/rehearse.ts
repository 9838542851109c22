// Rehearses policies on the calls of a run inside its object, so that only the decisions leave it.

import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { ok } from '../../shared/result.ts'
import type { Env } from '../bindings.ts'
import { tenantObject } from '../bindings.ts'
import type { CallRecord } from '../call/lifecycle.ts'
import type { RunRow } from '../call/run.ts'
import { usedBefore } from '../call/usage.ts'
import { agentNamed, directoryOf, loadTool, withHypotheticalSecrets } from '../directory/directory.ts'
import type { LoadedDirectory, LoadedTool } from '../directory/loaded-directory.ts'
import { inBatches } from '../platform/deadline.ts'
import { isRead } from '../policy/attribute-reads.ts'
import { candidateOf } from '../rehearsal/candidate.ts'
import type { PastCall, RehearsalOutcome } from '../rehearsal/past-call.ts'
import { rehearseCall } from '../rehearsal/past-call.ts'
import type { RunStore } from './store.ts'

/**
 * Two policy versions, and the numbers of the calls to decide under both. Calls that are not
 * reached before `until` are left out.
 */
export type Script = { version: number; against: number; calls: readonly number[]; until: number }

export async function rehearseRun(
  env: Env,
  store: Pick<RunStore, 'call' | 'everyCall'>,
  row: RunRow,
  script: Script,
): Promise<Result<RehearsalOutcome[]>> {
  const directory = withHypotheticalSecrets(await directoryOf(env, row.record.tenant))
  const inForce = await candidateOf(env, directory, script.against)
  if (!inForce.ok) return inForce
  const candidate = await candidateOf(env, directory, script.version)
  if (!candidate.ok) return candidate
  const calls = script.calls.flatMap((n) => store.call(n) ?? [])
  const tools = await toolsThen(env, directory, calls)
  const agent = agentNamed(directory, row.record.agent)
  const used = counting(row, store, [inForce.value, candidate.value])
  const outcomes = await inBatches(calls, script.until, (call): RehearsalOutcome => {
    const { n, tool: ref } = call.proposal
    const tool = tools.get(ref.digest)
    if (agent === undefined) return { n, not: 'agent' }
    if (tool === undefined) return { n, not: 'tool' }
    return rehearseCall(inForce.value, candidate.value, {
      run: row.record,
      call,
      agent,
      tool,
      used: used(call),
    })
  })
  return ok(outcomes)
}

/** By digest, as each call was proposed with it. */
async function toolsThen(
  env: Env,
  directory: LoadedDirectory,
  calls: readonly CallRecord[],
): Promise<Map<string, LoadedTool>> {
  const refs = new Map(calls.map(({ proposal: { tool } }) => [tool.digest, tool]))
  const present = [...directory.tools.values()].filter(({ tool }) => refs.has(tool.digest))
  for (const { tool } of present) refs.delete(tool.digest)
  const past =
    refs.size === 0 ? [] : await tenantObject(env, directory.tenant).toolVersions([...refs.values()])
  return new Map([...present, ...past.map(loadTool)].map((loaded) => [loaded.tool.digest, loaded]))
}

/**
 * The usage before each call: recorded with it, or counted again from the earlier calls if one of
 * the sets reads it.
 */
function counting(
  row: RunRow,
  store: Pick<RunStore, 'everyCall'>,
  sets: readonly LoadedDirectory[],
): (call: CallRecord) => PastCall['used'] {
  const reads = sets.some(({ policies }) => isRead(policies.reads.context, ['budget']))
  let calls: CallRecord[] | undefined
  return ({ proposal }) => {
    if (proposal.before !== undefined) return proposal.before
    if (!reads || row.calls > LIMITS.rehearsal_run_calls) return 'run_count' // no set reads it, or the run is too long to count
    calls ??= store.everyCall()
    return { run: usedBefore(calls, proposal), session: null, agent: null }
  }
}
