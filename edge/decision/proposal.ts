// Turns a proposal into a call with its decision: the checks of a proposal, in order. It reads the
// run and the directory and changes neither.

import { canonical, digestOf, sha256 } from '../../shared/bytes/json.ts'
import { toSignableText } from '../../shared/bytes/signable-text.ts'
import { identityOfActor } from '../../shared/evidence/actor.ts'
import type { CallOrigin } from '../../shared/evidence/origin.ts'
import { originMember } from '../../shared/evidence/origin.ts'
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
import type { ApprovalRecord, CallRecord, Proposal, RecordedAnswer } from '../call/lifecycle.ts'
import type { RunOwner, RunRecord, RunRow } from '../call/run.ts'
import { hasMetSecret, type RunFolder, sharedSecret } from '../call/shared-folder.ts'
import type { Used } from '../call/usage.ts'
import { agentNamed, toolNamed } from '../directory/directory.ts'
import type { AgentPrincipal, LoadedDirectory, LoadedTool } from '../directory/loaded-directory.ts'
import { secretNeedsOf } from '../tools/stdio-server.ts'
import type { DecidedPlan, ExplanationReader, Situation } from './decide.ts'
import { authorize, decide, decideAgain, isListed, longestStanding, notEnabled } from './decide.ts'
import { shadowOf } from './shadow.ts'
import type { Snapshot } from './snapshot.ts'
import { snapshotOf } from './snapshot.ts'

export type ResolvedProposal = {
  agent: RunOwner
  tool: string
  args: Record<string, unknown>
  files: readonly InputFile[]
  /** As received. Neither decides anything nor is covered by the digest. */
  origin: CallOrigin
  /** The agent's own program asks before it executes the call. */
  advice?: true
}

const NOT_EXECUTED: Failure = {
  ...failure(
    'invalid_request',
    'Countersign does not execute this tool, so only the hook of the program that does can ask about it',
  ),
  todo: 'call a tool that `GET /v1/tools` lists',
}

/** `ask` may contain standing answers; `permitted` is then policy's decision with them. */
export type NewCall = {
  proposal: Proposal
  decision: Decision
  ask: ApprovalRecord | null
  snapshot: Snapshot
  permitted?: Decision
}

/**
 * new: a call to store, whatever its decision. refused: no call, but it counts against the run's
 * limit of refusals. closed: the run accepts no more proposals.
 */
export type PreparedProposal =
  | ({ kind: 'new' } & NewCall)
  | { kind: 'refused'; failure: Failure }
  | { kind: 'closed'; failure: Failure }

/** Usage before the call, as the active set and the shadow set can see it. */
type UsedBefore = { used: Used | 'uncounted' | null; shadowUsed: Used | 'uncounted' | null; now: number }

export function prepareProposal(
  directory: LoadedDirectory,
  row: RunRow,
  { tool: name, args, files, origin, advice }: ResolvedProposal,
  { used, shadowUsed, now }: UsedBefore,
): PreparedProposal {
  const { record, folder } = row
  const { budget } = record
  const closed = (code: Failure['code'], detail: string): PreparedProposal => ({
    kind: 'closed',
    failure: failure(code, detail),
  })
  const refused = (why: Failure): PreparedProposal => ({ kind: 'refused', failure: why })
  if (row.cancelled) return closed('run_cancelled', 'the run was cancelled')
  if (row.denied >= budget.max_denied_per_run)
    return closed(
      'run_ended',
      `the run has reached its limit of ${row.denied} refused proposals; start a new run`,
    )
  if (row.calls >= LIMITS.calls_per_run)
    return closed('run_ended', 'the run has reached the limit of calls; start a new run')

  const principal = agentOf(directory, record)
  const tool = toolNamed(directory, record.agent, name)
  if (principal === undefined)
    return closed('run_ended', 'the agent that created this run was removed; create another run')
  const withheld = directory.quarantine.get(name)
  if (withheld !== undefined)
    return refused(isListed(principal, name) ? failure('tool_changed', withheld) : unknownTool(name))
  if (tool === undefined) return refused(unknownTool(name))
  if ((tool.tool.executor.kind === 'none') !== (advice === true))
    return refused(isListed(principal, name) ? NOT_EXECUTED : unknownTool(name))
  const argsText = canonical(args)
  const fit = checkArguments(tool, args, argsText)
  if (!fit.ok) return refused(isListed(principal, name) ? fit.error : unknownTool(name))
  const folderMetSecret = hasMetSecret(folder)
  const actor = origin.actor ?? null
  const situation = {
    agent: principal,
    tool,
    args,
    files,
    answers: [],
    run: record,
    folderMetSecret,
    actor,
    now,
  }
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
  const recorded = recordedOrigin(origin, directory)
  const proposal = proposalOf(row, n, {
    args,
    argsSha256: sha256(argsText),
    plan,
    tool,
    pool: principal.spec.pool ?? 'default',
    now,
    ...(files.length > 0 ? { files } : {}),
    ...originMember(recorded),
    ...(amount > 0 ? { spent: amount } : {}),
    ...(folderMetSecret ? { folderMetSecret } : {}),
    ...(before === null || before === 'uncounted' ? {} : { before }),
    ...(beside === null ? {} : { shadow: beside.shadow }),
  })
  const ask =
    decision.effect === 'ask'
      ? approvalFor(directory, row, n, deciding, { plan, decision, origin: recorded })
      : null
  const snapshot = snapshotOf(directory, { agent: principal, tool, run: record })
  return { kind: 'new', proposal, decision, ask, snapshot }
}

/**
 * The origin as it is journalled, signed and shown. Secrets in the agent's words are masked before
 * any part of them is stored (V02), with marks that tell the agent nothing about other secrets.
 */
function recordedOrigin({ reason, via, ...rest }: CallOrigin, { redaction }: LoadedDirectory): CallOrigin {
  // A mark may be longer than its secret.
  const masked = (text: string, chars: number) => toSignableText(String(redaction.unmarked.of(text)), chars)
  return {
    ...rest,
    ...(via === undefined
      ? {}
      : {
          via: {
            ...via,
            ...(via.client === undefined ? {} : { client: masked(via.client, LIMITS.mcp_client_chars) }),
          },
        }),
    ...(reason === undefined ? {} : { reason: masked(reason, LIMITS.reason_chars) }),
  }
}

/** Checks the size of the arguments, and their fit to the tool's schema. */
export function checkArguments(
  tool: LoadedTool,
  args: Record<string, unknown>,
  text: string,
): Result<unknown> {
  return Buffer.byteLength(text) <= LIMITS.arguments_bytes
    ? tool.check(args)
    : err(failure('invalid_arguments', `the arguments are larger than ${LIMITS.arguments_bytes} bytes`))
}

/**
 * The agent that created the run; `undefined` if it was removed, even if another one has its name.
 */
const agentOf = (
  directory: LoadedDirectory,
  { agent, agentSince }: RunRecord,
): AgentPrincipal | undefined => {
  const present = agentNamed(directory, agent)
  return present?.since === agentSince ? present : undefined
}

/** Builds the approval that asks humans about the call. */
export function approvalFor(
  directory: LoadedDirectory,
  { record }: RunRow,
  n: number,
  situation: Situation,
  { plan, decision, origin }: DecidedPlan & { readonly origin: CallOrigin },
): ApprovalRecord {
  const { agent, tool, args, now } = situation
  return askRecord({
    id: approvalId(record.id, n),
    agent: agent.name,
    tool: tool.tool,
    args,
    plan,
    decision,
    origin,
    needs: needed(directory, situation),
    standing:
      plan === null || !mayStand(plan)
        ? null
        : {
            covers: coverage(record, tool.tool, plan, origin.actor, directory.redaction),
            most_s: longestStanding(directory, situation, plan),
          },
    now,
    redaction: directory.redaction,
  })
}

/**
 * Also for tools that exist but are not the agent's, so that it learns nothing about their schema.
 */
export const unknownTool = (name: string): Failure => ({
  ...failure('not_found', `no tool \`${name}\` is available to you`),
  todo: '`GET /v1/tools` lists the tools that this agent may call',
})

const namesOf = (files: readonly FileRef[] = []): string =>
  canonical(files.map(({ path, sha256 }) => [path, sha256]))

const actorIn = ({ actor }: CallOrigin = {}): string =>
  canonical(actor === undefined ? null : identityOfActor(actor))

/**
 * Idempotent replay: returns the existing call if payload and actor match (G12) and the agent may
 * still read it. Policy may have decided the call for its actor alone (L1). The rest of the origin
 * is not compared: an agent that repeats a call may word its reason differently.
 */
export function replayProposal(
  directory: LoadedDirectory,
  known: CallRecord,
  { agent, tool, args, files, origin }: Omit<ResolvedProposal, 'files'> & { files: readonly FileRef[] },
): Result<CallRecord> {
  const { argsSha256 } = known.proposal.asked ?? known.proposal
  if (
    known.proposal.tool.name !== tool ||
    argsSha256 !== digestOf(args) ||
    namesOf(known.proposal.files) !== namesOf(files) ||
    actorIn(known.proposal.origin) !== actorIn(origin)
  )
    return err(failure('idempotency_key_reused', 'the idempotency key was already used for another call'))
  const principal = agentNamed(directory, agent.name)
  const may = principal !== undefined && authorize(directory, principal, 'run.read').allowed
  return may ? ok(known) : err(failure('forbidden', 'policy does not permit `run.read`'))
}

/**
 * The sets of answers that would allow the call, smallest first; each is enough. They include names
 * that an agent may not read. Cheap, because the call was just decided and the verdict is cached.
 */
function needed(directory: LoadedDirectory, situation: Situation): readonly (readonly Change[])[] {
  const decided = decide(directory, situation, 'operator')
  return decided.ok ? byHumans(decided.value.decision) : []
}

export const byHumans = ({ explanation }: Decision): readonly (readonly Change[])[] =>
  (explanation?.changes ?? []).filter((together) => together.every(({ by }) => by === 'human'))

function spent({ effect, policy_set, snapshot, explanation: why }: Decision, max: number): Decision {
  const [id, reason] = ['run.budget', `the run’s budget of ${max} calls is spent`]
  const words = 'a larger budget, or a new run'
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

/** L6: a usage count that can't be read allows nothing. */
const uncounted = ({ explanation: _, ...decision }: Decision): Decision => ({
  ...decision,
  effect: 'deny',
  code: 'policy_error',
  policies: ['session.budget'],
  reason: 'the usage of this session or agent could not be read, so nothing is allowed; try again',
})

/**
 * The amount that a call spends. Arguments that fit the schema have a whole number >= 0 there, or
 * none.
 */
export function spentBy({ tool: { spends } }: LoadedTool, args: Record<string, unknown>): number {
  const value = spends === undefined ? 0 : args[spends.arg]
  return typeof value === 'number' ? value : 0
}

/**
 * With the current snapshot; `null` if the agent or tool was removed, and the earlier one still
 * applies.
 */
type Judgement = { decision: Decision; snapshot: Snapshot | null }
export type JudgementInput = {
  answers: readonly RecordedAnswer[]
  used: Used | 'uncounted' | null
  now: number
}

/**
 * Decides again, by the current policy, on an existing call with its answers and the usage before
 * it.
 */
export function judgeAgain(
  directory: LoadedDirectory,
  { record, folder }: RunRow,
  { proposal, status }: CallRecord,
  { answers, used, now }: JudgementInput,
  reader: ExplanationReader = 'agent',
): Judgement {
  const agent = agentOf(directory, record)
  const tool = toolNamed(directory, record.agent, proposal.tool.name)
  const { snapshot: before } = status.decision
  const gone = (reason: string, code: Decision['code'] = 'denied'): Judgement => ({
    decision: {
      effect: 'deny',
      code,
      policies: [],
      policy_set: directory.policies.digest,
      snapshot: before,
      reason,
    },
    snapshot: null,
  })
  const quarantined = directory.quarantine.get(proposal.tool.name)
  if (agent === undefined) return gone('the agent was revoked')
  if (quarantined !== undefined) return gone(quarantined, 'tool_changed')
  const isExecuted = tool?.tool.executor.kind !== 'none'
  if (
    tool === undefined ||
    tool.tool.digest !== proposal.tool.digest ||
    (proposal.plan === null) === isExecuted
  )
    return gone('the tool has changed since the call was proposed') // L3
  const known = used === 'uncounted' ? null : used
  const decision = decideAgain(
    directory,
    { ...situationOf(record, folder, proposal), agent, tool, answers, used: known, now },
    proposal.plan,
    reader,
  )
  const withheld =
    decision.effect === 'deny'
      ? undefined
      : ((proposal.plan === null ? undefined : sharedSecret(proposal.plan)) ??
        directory.vault.withholds(secretNeedsOf(tool.tool)) ??
        notEnabled(directory, tool.tool))
  if (withheld !== undefined) return gone(withheld)
  return {
    decision: used === 'uncounted' ? uncounted(decision) : decision,
    snapshot: snapshotOf(directory, { agent, tool, run: record }),
  }
}

/**
 * A dry run: the decision if the call were proposed now, with its answers. The recorded one may
 * differ.
 */
export function dryRunAgain(
  directory: LoadedDirectory,
  { record, folder }: RunRow,
  { proposal }: CallRecord,
  knowing: JudgementInput,
  reader: ExplanationReader,
): Result<DryRun> {
  const agent = agentOf(directory, record)
  const tool = toolNamed(directory, record.agent, proposal.tool.name)
  if (agent === undefined || tool === undefined)
    return err(failure('not_found', 'the agent or the tool was removed'))
  const { answers, used, now } = knowing
  if (used === 'uncounted')
    return err(failure('unavailable', 'the usage of this session or agent could not be read; try again'))
  const decided = decide(
    directory,
    { ...situationOf(record, folder, proposal), agent, tool, answers, used, now },
    reader,
  )
  return decided.ok ? ok({ ...decided.value, digest: proposal.digest }) : decided
}

const situationOf = (run: RunRecord, folder: RunFolder | null, { args, files = [], origin }: Proposal) => ({
  args,
  files,
  run,
  actor: origin?.actor ?? null,
  folderMetSecret: hasMetSecret(folder),
})

type ProposalParts = Omit<Proposal, 'n' | 'tool' | 'digest' | 'planSha256' | 'idempotent' | 'createdAt'> & {
  readonly tool: LoadedTool
  readonly now: number
}

export function proposalOf(
  { record }: RunRow,
  n: number,
  { args, argsSha256, plan, tool: { tool }, pool, now, ...counted }: ProposalParts,
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
