// Decides a call that nobody proposes: `POST /v1/decisions` and AuthZEN's evaluations. It stores
// nothing, uses no budget and attests nothing.

import { failure } from '../../shared/failures.ts'
import type { InputFile } from '../../shared/plan/call-files.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { DryRun } from '../../shared/wire/calls.ts'
import type { RunSpec } from '../../shared/wire/runs.ts'
import type { Env } from '../bindings.ts'
import { agentQuestions, logObject, sessionName, sessionObject } from '../bindings.ts'
import type { RunRecord } from '../call/run.ts'
import type { Counters, Used } from '../call/usage.ts'
import { NOTHING } from '../call/usage.ts'
import { decide, isListed } from '../decision/decide.ts'
import { unknownTool } from '../decision/proposal.ts'
import type { AgentPrincipal, LoadedDirectory } from '../directory/loaded-directory.ts'
import type { Identified } from '../http/intake.ts'
import { runRecord } from '../run/find-run.ts'
import { readsAgent, readsSession } from '../run/usage-ledger.ts'

type HypotheticalCall = {
  readonly agent: AgentPrincipal
  readonly tool: string
  readonly args: Record<string, unknown>
  readonly files: readonly InputFile[]
  readonly run: RunSpec
}

/** About a tool outside its allowlist, an agent learns only that it has no such tool. */
export async function dryRun(
  env: Env,
  { directory, principal, actor }: Identified,
  { agent, tool: name, args, files, run }: HypotheticalCall,
): Promise<Result<DryRun>> {
  const tool = directory.tools.get(name)
  const maySeeTool = principal.kind === 'Operator' || isListed(agent, name)
  if (tool === undefined) return err(unknownTool(name))
  const fitting = tool.check(args)
  if (!fitting.ok) return maySeeTool ? fitting : err(unknownTool(name))
  const record = runRecord(env, agent, run, null)
  const used = await usedBefore(env, directory, record, name)
  if (!used.ok) return used
  const situation = {
    agent,
    tool,
    args,
    files,
    answers: [],
    run: record,
    folderMetSecret: false,
    actor: actor ?? null,
    used: used.value,
    now: Date.now(),
  }
  const decided = decide(directory, situation, principal.kind === 'Operator' ? 'operator' : 'agent')
  if (!decided.ok) return maySeeTool ? decided : err(unknownTool(name))
  return ok({ ...decided.value, digest: null })
}

/** A new run has used nothing, but its session and its agent may have. */
async function usedBefore(
  env: Env,
  directory: LoadedDirectory,
  run: RunRecord,
  tool: string,
): Promise<Result<Used>> {
  try {
    const session = readsSession(directory) ? await usedBySession(env, run, tool) : null
    return ok({
      run: NOTHING,
      session,
      agent: readsAgent(directory) ? await agentQuestions(env, run).asked() : null,
    })
  } catch {
    return err(failure('unavailable', 'the usage of this session or agent could not be read; try again'))
  }
}

/** A session that no call has used gets no request, which would make its object for good. */
async function usedBySession(env: Env, run: RunRecord, tool: string): Promise<Counters> {
  const isUsed = run.session !== run.id && (await logObject(env, run.tenant).knows(sessionName(run)))
  return isUsed ? sessionObject(env, run).look(tool) : NOTHING
}
