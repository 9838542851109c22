// From what an agent asks for to a call with its decision: the checks of a proposal, in order. It reads the run and
// the directory, and changes neither.

import { canonical, digestOf, sha256 } from '../../shared/bytes/json.ts'
import type { Shadowed } from '../../shared/evidence/journal.ts'
import type { DigestInput, ToolRef } from '../../shared/evidence/statement.ts'
import { callDigest } from '../../shared/evidence/statement.ts'
import type { Failure } from '../../shared/failures.ts'
import { failure } from '../../shared/failures.ts'
import { approvalId, callId } from '../../shared/ids.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { FileRef, InputFile } from '../../shared/plan/call-files.ts'
import type { Plan } from '../../shared/plan/plan.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Decision, DryRun } from '../../shared/wire/calls.ts'
import type { Change } from '../../shared/wire/explanation.ts'
import { askRecord } from '../approvals/card.ts'
import { coverage, mayStand } from '../approvals/standing.ts'
import type { Answered, AskRecord, CallRecord, Proposal } from '../call/lifecycle.ts'
import type { RunRecord, RunRow } from '../call/run.ts'
import { hasMetSecret, type RunFolder, sharedSecret } from '../call/shared-folder.ts'
import type { Used } from '../call/usage.ts'
import type { AgentPrincipal, Loaded, LoadedTool } from '../directory/directory.ts'
import type { Decided, Situation, Told } from './decide.ts'
import { authorize, decide, decideAgain, isListed, longestStanding, notEnabled } from './decide.ts'
import { shadowOf } from './shadow.ts'
import type { Snapshot } from './snapshot.ts'
import { snapshotOf } from './snapshot.ts'

export type Asked = {
  agent: string
  tool: string
  args: Record<string, unknown>
  files: readonly InputFile[]
}

/** `ask` may hold answers that stand from before; `permitted` is then what policy says with them. */
export type NewCall = {
  proposal: Proposal
  decision: Decision
  ask: AskRecord | null
  snapshot: Snapshot
  permitted?: Decision
}

/**
 * new: a call, to be stored whatever was decided. refused: no call comes of it, but it counts against the run.
 * closed: the run takes no more.
 */
export type Prepared =
  | ({ kind: 'new' } & NewCall)
  | { kind: 'refused'; failure: Failure }
  | { kind: 'closed'; failure: Failure }

/** What was used before the call, as the set in force and the shadow set can see it. */
type UsedBefore = { used: Used | 'uncounted' | null; shadowUsed: Used | 'uncounted' | null; now: number }

export function prepare(
  directory: Loaded,
  row: RunRow,
  { agent, tool: name, args, files }: Asked,
  { used, shadowUsed, now }: UsedBefore,
): Prepared {
  const { record, folder } = row
  const { budget } = record
  const closed = (code: Failure['code'], detail: string): Prepared => ({
    kind: 'closed',
    failure: failure(code, detail),
  })
  const refused = (why: Failure): Prepared => ({ kind: 'refused', failure: why })
  if (row.cancelled) return closed('run_cancelled', 'the run was cancelled')
  if (row.denied >= budget.max_denied_per_run)
    return closed('run_ended', `the run has had ${row.denied} refused proposals, which is its limit`)
  if (row.calls >= LIMITS.calls_per_run)
    return closed('run_ended', 'the run holds as many calls as a run may')

  const principal = agentOf(directory, record)
  const tool = directory.tools.get(name)
  if (principal === undefined)
    return closed('run_ended', `the agent whose run this is was removed; \`${agent}\` makes its own`)
  if (tool === undefined) return refused(unknownTool(name))
  const argsText = canonical(args)
  const fit = fits(tool, args, argsText)
  if (!fit.ok) return refused(isListed(principal, name) ? fit.error : unknownTool(name))
  const folderMetSecret = hasMetSecret(folder)
  const situation = { agent: principal, tool, args, files, answers: [], run: record, folderMetSecret, now }
  const deciding = { ...situation, used: used === 'uncounted' ? null : used }
  const decided = decide(directory, deciding)
  if (!decided.ok) return refused(isListed(principal, name) ? decided.error : unknownTool(name))

  const amount = spentBy(tool, args)
  const { plan } = decided.value
  const counted = used === 'uncounted' ? uncounted(decided.value.decision) : decided.value.decision
  const decision =
    row.allowed >= budget.max_calls_per_run ? spent(counted, budget.max_calls_per_run) : counted
  const n = row.calls + 1
  const beside =
    directory.shadow === null ? null : shadowOf(directory.shadow, situation, shadowUsed, decision)
  const before = used === 'uncounted' || (used?.session ?? null) === null ? (beside?.used ?? used) : used // the fuller one
  const proposal = proposalOf(row, n, {
    args,
    argsSha256: sha256(argsText),
    plan,
    tool,
    pool: principal.spec.pool ?? 'default',
    now,
    ...(files.length > 0 ? { files } : {}),
    ...(amount > 0 ? { spent: amount } : {}),
    ...(folderMetSecret ? { folderMetSecret } : {}),
    ...(before === null || before === 'uncounted' ? {} : { before }),
    ...(beside === null ? {} : { shadow: beside.shadow }),
  })
  const ask = decision.effect === 'ask' ? askAbout(directory, row, n, deciding, { plan, decision }) : null
  const snapshot = snapshotOf(directory, { agent: principal, tool, run: record })
  return { kind: 'new', proposal, decision, ask, snapshot }
}

/** Whether these arguments may be the tool's. */
export function fits(tool: LoadedTool, args: Record<string, unknown>, text: string): Result<unknown> {
  return Buffer.byteLength(text) <= LIMITS.arguments_bytes
    ? tool.check(args)
    : err(failure('invalid_arguments', `the arguments are larger than ${LIMITS.arguments_bytes} bytes`))
}

/** The agent whose run it is; none where it was removed, whoever has its name now. */
const agentOf = ({ agents }: Loaded, { agent, agentSince }: RunRecord): AgentPrincipal | undefined => {
  const present = agents.get(agent)
  return present?.since === agentSince ? present : undefined
}

/** The question to humans. */
export function askAbout(
  directory: Loaded,
  { record }: RunRow,
  n: number,
  situation: Situation,
  { plan, decision }: Decided,
): AskRecord {
  const { agent, tool, args, now } = situation
  return askRecord({
    id: approvalId(record.id, n),
    agent: agent.name,
    tool: tool.tool,
    args,
    plan,
    decision,
    needs: needed(directory, situation),
    standing:
      plan === null || !mayStand(plan)
        ? null
        : {
            covers: coverage(record, tool.tool, plan, directory.redaction),
            most_s: longestStanding(directory, situation, plan),
          },
    now,
    redaction: directory.redaction,
  })
}

/** Also of a tool that is none of the agent's: what it takes is not told. */
export const unknownTool = (name: string): Failure => ({
  ...failure('not_found', `no tool \`${name}\` is registered for you`),
  todo: '`GET /v1/tools` lists the tools that this agent may call',
})

const namesOf = (files: readonly FileRef[] = []): string =>
  canonical(files.map(({ path, sha256 }) => [path, sha256]))

/** The same proposal once more is the call that it made, for who may still read it. */
export function sameAgain(
  directory: Loaded,
  known: CallRecord,
  { agent, tool, args, files }: Omit<Asked, 'files'> & { files: readonly FileRef[] },
): Result<CallRecord> {
  const { argsSha256 } = known.proposal.asked ?? known.proposal
  if (
    known.proposal.tool.name !== tool ||
    argsSha256 !== digestOf(args) ||
    namesOf(known.proposal.files) !== namesOf(files)
  )
    return err(failure('idempotency_key_reused', 'the key stands for another call'))
  const principal = directory.agents.get(agent)
  const may = principal !== undefined && authorize(directory, principal, 'run.read').allowed
  return may ? ok(known) : err(failure('forbidden', 'policy does not permit `run.read`'))
}

/**
 * The answers of humans that would allow the call, the least first; each one is enough. They include names that an agent may not read. The
 * result comes from memory, because the call was just decided.
 */
function needed(directory: Loaded, situation: Situation): readonly (readonly Change[])[] {
  const decided = decide(directory, situation, 'operator')
  return decided.ok ? byHumans(decided.value.decision) : []
}

export const byHumans = ({ explanation }: Decision): readonly (readonly Change[])[] =>
  (explanation?.changes ?? []).filter((together) => together.every(({ by }) => by === 'human'))

function spent({ effect, policy_set, snapshot, explanation: why }: Decision, max: number): Decision {
  const [id, reason] = ['run.budget', `the run’s budget of ${max} calls is spent`]
  const words = 'a larger budget; or a new run'
  const larger = {
    fact: 'budget.max_calls',
    is: max,
    needs: { op: '>' as const, value: max },
    by: 'operator' as const,
    words,
  }
  const besides = effect === 'allow' ? [[]] : (why?.changes ?? [])
  const policies = [{ id, effect: 'forbid' as const, reason, advice: null }]
  const explanation = {
    policies,
    plans: [],
    changes: besides.map((change) => [larger, ...change]),
    fixed: why?.fixed ?? [],
  }
  return { effect: 'deny', code: 'budget_spent', policies: [id], reason, policy_set, snapshot, explanation }
}

/** L6: a count that could not be had allows nothing. */
const uncounted = ({ explanation: _, ...decision }: Decision): Decision => ({
  ...decision,
  effect: 'deny',
  code: 'policy_error',
  policies: ['session.budget'],
  reason: 'what this session or agent has used could not be counted, so nothing is allowed; try again',
})

/** What a call spends, by its tool's contract: arguments that fit its schema hold a whole number from 0 on there, or nothing. */
export function spentBy({ tool: { spends } }: LoadedTool, args: Record<string, unknown>): number {
  const value = spends === undefined ? 0 : args[spends.arg]
  return typeof value === 'number' ? value : 0
}

/** With the snapshot of now; none where agent or tool are gone, and the one before stands. */
type Judged = { decision: Decision; snapshot: Snapshot | null }
export type Knowing = { answers: readonly Answered[]; used: Used | 'uncounted' | null; now: number }

/** The policy of now on a call that was proposed before: with the answers there are, and what was used before it. */
export function judgeAgain(
  directory: Loaded,
  { record, folder }: RunRow,
  { proposal, status }: CallRecord,
  { answers, used, now }: Knowing,
  told: Told = 'agent',
): Judged {
  const agent = agentOf(directory, record)
  const tool = directory.tools.get(proposal.tool.name)
  const { snapshot: before } = status.decision
  const gone = (reason: string): Judged => ({
    decision: {
      effect: 'deny',
      code: 'denied',
      policies: [],
      policy_set: directory.policies.digest,
      snapshot: before,
      reason,
    },
    snapshot: null,
  })
  if (agent === undefined) return gone('the agent was revoked')
  if (tool === undefined || tool.tool.digest !== proposal.tool.digest || proposal.plan === null)
    return gone('the tool has changed since') // L3
  const known = used === 'uncounted' ? null : used
  const decision = decideAgain(
    directory,
    { ...asked(record, folder, proposal), agent, tool, answers, used: known, now },
    proposal.plan,
    told,
  )
  const withheld =
    decision.effect === 'deny'
      ? undefined
      : (sharedSecret(proposal.plan) ??
        directory.vault.withholds(tool.tool) ??
        notEnabled(directory, tool.tool))
  if (withheld !== undefined) return gone(withheld)
  return {
    decision: used === 'uncounted' ? uncounted(decision) : decision,
    snapshot: snapshotOf(directory, { agent, tool, run: record }),
  }
}

/** What would be decided of a call if it were proposed now, with the answers that it has: never what was decided, which is on record. */
export function decideAnew(
  directory: Loaded,
  { record, folder }: RunRow,
  { proposal }: CallRecord,
  knowing: Knowing,
  told: Told,
): Result<DryRun> {
  const agent = agentOf(directory, record)
  const tool = directory.tools.get(proposal.tool.name)
  if (agent === undefined || tool === undefined)
    return err(failure('not_found', 'the agent or the tool is there no more'))
  const { answers, used, now } = knowing
  if (used === 'uncounted')
    return err(failure('unavailable', 'what this session or agent has used could not be counted'))
  const decided = decide(
    directory,
    { ...asked(record, folder, proposal), agent, tool, answers, used, now },
    told,
  )
  return decided.ok ? ok({ ...decided.value, digest: proposal.digest }) : decided
}

const asked = (run: RunRecord, folder: RunFolder | null, { args, files = [] }: Proposal) => ({
  args,
  files,
  run,
  folderMetSecret: hasMetSecret(folder),
})

type Parts = {
  args: Record<string, unknown>
  argsSha256: string
  plan: Plan | null
  tool: LoadedTool
  pool: string
  now: number
  files?: readonly InputFile[]
  spent?: number
  folderMetSecret?: true
  before?: Used
  shadow?: Shadowed
  asked?: { readonly digest: string; readonly argsSha256: string }
}

export function proposalOf(
  { record }: RunRow,
  n: number,
  { args, argsSha256, plan, tool: { tool }, pool, now, ...counted }: Parts,
): Proposal {
  const ref = { name: tool.name, version: tool.version, digest: tool.digest }
  return {
    n,
    tool: ref,
    args,
    plan,
    digest: callDigest(digestInput(record, n, ref, args, plan)),
    argsSha256,
    planSha256: plan === null ? null : digestOf(plan),
    idempotent: tool.idempotent ?? false,
    pool,
    createdAt: now,
    ...counted,
  }
}

export const digestInput = (
  run: { tenant: string; id: string },
  n: number,
  tool: ToolRef,
  args: Record<string, unknown>,
  plan: Plan | null,
): DigestInput => ({
  tenant: run.tenant,
  run: run.id,
  call: callId(run.id, n),
  tool,
  arguments: args as DigestInput['arguments'], // they came in through parseJson
  plan,
})
