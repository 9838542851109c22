// The life of a call: one union of states, and one pure function from (record, event) to the next
// status and the effects to perform. No other code sets `state`.
//
//   proposed ─▶ denied
//            ─▶ awaiting_approval ─▶ granted | rejected | expired | cancelled
//            ─▶ granted ─▶ running ─▶ succeeded | failed | timed_out | cancelled | indeterminate
//                       ─▶ lapsed | cancelled
//                       ─▶ released, if the agent's own program executes it
//   every call of a restored backup that had not ended ─▶ indeterminate

import type { Envelope } from '../../shared/evidence/dsse.ts'
import type { ShadowDecision } from '../../shared/evidence/journal.ts'
import type { CallOrigin } from '../../shared/evidence/origin.ts'
import type { CallState, ToolRef } from '../../shared/evidence/statement.ts'
import { type Failure, failure } from '../../shared/failures.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { InputFile, OutputFiles } from '../../shared/plan/call-files.ts'
import type { Plan } from '../../shared/plan/plan.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Approval, Edit } from '../../shared/wire/approvals.ts'
import type { Decision } from '../../shared/wire/calls.ts'
import type { Removed } from '../../shared/wire/retention.ts'
import { approvedDecision } from './decision-of-record.ts'
import { endAfterRestore, endedStatus, expire, refuse } from './endings.ts'
import type { Used } from './usage.ts'

/** `since_ms`: when the operator who answered was created. */
export type RecordedAnswer = Omit<Approval['answers'][number], 'assurance'> & { since_ms: number }
export type ApprovalRecord = Readonly<{
  id: string
  prompt: Approval['prompt']
  requestedAt: number
  expiresAt: number
  answers: readonly RecordedAnswer[]
  enough?: true
  /** Changes that operators made to the arguments when they approved. */
  edits?: readonly Edit[]
  /** Operators whose links were revoked. */
  linksRevoked?: 'all' | readonly string[]
}>

/**
 * Everything that is fixed when the call is proposed; the digest covers what runs (L3). An operator who
 * changes the arguments of a waiting call replaces the whole proposal.
 */
export type Proposal = Readonly<{
  n: number
  tool: ToolRef
  args: Record<string, unknown>
  plan: Plan | null
  digest: string
  argsSha256: string
  planSha256: string | null
  idempotent: boolean
  /** Input files of the call. */
  files?: readonly InputFile[]
  pool: string
  createdAt: number
  /**
   * The origin of the proposal, besides the call; secrets are masked. The digest doesn't cover it.
   */
  origin?: CallOrigin
  /** The value of the argument that the tool declares as spent. */
  spent?: number
  /** The shared folder of the run may have held a secret. */
  folderMetSecret?: true
  /**
   * The use before this call, as far as policy read it: later calls must not count when this one is
   * decided again.
   */
  before?: Used
  /** The decision of the shadow set. Only operators may read it. */
  shadow?: ShadowDecision
  /** The agent's own proposal, if an operator has changed it since. */
  asked?: { readonly digest: string; readonly argsSha256: string }
  /** How often the installation had been restored from a backup; absent if never. */
  restores?: number
}>

export type LiveCall = { decision: Decision; approval: ApprovalRecord | null }
export type EndedCall = LiveCall & {
  at: number
  error: string | null
  detail: string | null
  finished: FinishedExecution | null
  attestation: AttestationRecord | null
  cancelRequested: boolean
  /** Time from claim to end by the edge's clock; absent if nothing ran. */
  took?: number
}
/** The facts of a finished execution. Its output is stored separately. */
export type FinishedExecution = {
  exit_code: number | null
  truncated: boolean
  detail: string
  files?: OutputFiles
}
export type AttestationRecord = {
  id: string
  execution_sha256: string
  executor: string
  sandbox_enforcement: string
  cgroup?: boolean
}
export type Running = LiveCall & {
  worker: string
  process?: string | null
  fence: number
  claimedAt: number
  deadline: number
  leaseUntil: number
  cancelRequested: boolean
  grant: Envelope
}

export type EndState =
  | 'denied'
  | 'rejected'
  | 'expired'
  | 'cancelled'
  | 'lapsed'
  | 'released'
  | 'succeeded'
  | 'failed'
  | 'timed_out'
  | 'indeterminate'

export type Status =
  | ({ state: 'awaiting_approval'; approval: ApprovalRecord } & Omit<LiveCall, 'approval'>)
  | ({ state: 'granted'; until: number; fence: number } & LiveCall)
  | ({ state: 'running' } & Running)
  | ({ state: EndState; fence: number } & EndedCall)

/** A proposal with changed arguments, its decision, and the card to approve. */
export type RevisedProposal = { proposal: Proposal; decision: Decision; prompt: ApprovalRecord['prompt'] }

/** A stored call. `removed`: what the retention rule of the tenant has removed of it since it ended. */
export type CallRecord = { proposal: Proposal; status: Status; removed?: Removed }

/** The principal who cancels a call. */
export type Canceller = { readonly kind: 'agent' | 'operator'; readonly name: string }

export type Event =
  /** `ask` may hold standing answers; `permitted` is the decision with them, if it allows. */
  | { kind: 'proposed'; decision: Decision; ask: ApprovalRecord | null; permitted?: Decision }
  /** A human answered; `decision` is the current policy's with all answers given so far. */
  | { kind: 'answered'; answer: RecordedAnswer; decision: Decision }
  /**
   * A human approved changed arguments: `revised.decision` is the decision without an answer,
   * `permitted` the one with this answer.
   */
  | { kind: 'edited'; answer: RecordedAnswer; revised: RevisedProposal; edit: Edit; permitted: Decision }
  /**
   * `process`: the worker's process that claimed; only this process may repeat the claim.
   * `decision` is the current policy's, `onRecord` the decision that the grant names.
   */
  | {
      kind: 'claimed'
      worker: string
      process?: string | null
      deadline: number
      grant: Envelope
      decision: Decision
      onRecord: Decision
    }
  /**
   * The agent's own program, which executes the call, asked for the answer. Decisions as for
   * `claimed`.
   */
  | { kind: 'released'; decision: Decision; onRecord: Decision }
  | {
      kind: 'settled'
      worker: string
      fence: number
      /** `indeterminate`: an upstream did not answer. */
      state: 'succeeded' | 'failed' | 'timed_out' | 'cancelled' | 'indeterminate'
      error: string | null
      /** The worker refused the call before any of it ran. */
      refused: boolean
      finished: FinishedExecution
      attestation: AttestationRecord
    }
  | { kind: 'cancel'; by: Canceller }
  /** Revokes the links of one operator, or of all if `of` is null. The approval still waits. */
  | { kind: 'links_revoked'; by: string; of: string | null }
  /**
   * A deadline may have passed: expiry, lapse, lost lease. The lifecycle judges it by the edge's
   * clock (L9). `folderGone`: why the run's folder is lost; `unclaimable`: why no worker could
   * claim.
   */
  | { kind: 'due'; leaseUntil?: number; folderGone?: string; unclaimable?: string }
  /** The call is from a backup that was restored. */
  | { kind: 'restored' }

/** An effect that the run performs after it has stored the new record. */
export type Effect = 'ring' | 'mirror' | 'attest' | 'notify'
/** `proposal` replaces the stored one. */
export type Step = {
  status: Status
  effects: readonly Effect[]
  journal: { kind: string; body: Record<string, unknown> }
  proposal?: Proposal
}

const LIVE: ReadonlySet<CallState> = new Set(['awaiting_approval', 'granted', 'running'])
export const hasEnded = (status: Status): status is Extract<Status, EndedCall> => !LIVE.has(status.state)
/** Whether an ended call had been claimed: a cancelled call may or may not have run. */
export const wasClaimed = (status: Status): boolean => 'took' in status && status.took !== undefined

/** The refusal of an answer to an approval that no longer waits for one. */
export function refusalToAnswer({ state, approval }: Status): Failure {
  if (state === 'expired') return failure('approval_expired', 'not enough people answered in time')
  if (state === 'cancelled' && approval?.enough !== true)
    return failure('approval_cancelled', 'the call was cancelled before enough people had answered')
  return failure('already_answered', `the call is ${state}`)
}

/** Applies one event. A refusal changes nothing and names the current state (L4, P05, P11). */
export function step(record: CallRecord | Proposal, event: Event, now: number): Result<Step> {
  if (!('status' in record))
    return event.kind === 'proposed'
      ? ok(propose(event, now))
      : refuse('conflict', 'the call is not stored yet')
  const { status, proposal } = record
  if (hasEnded(status)) {
    const answers = event.kind === 'answered' || event.kind === 'edited'
    return answers
      ? err(refusalToAnswer(status))
      : refuse('already_ended', `the call has ended: ${status.state}`)
  }
  switch (event.kind) {
    case 'proposed':
      return refuse('conflict', 'the call was already proposed')
    case 'answered':
      return answer(status, event, now)
    case 'edited':
      return edit(record, event, now)
    case 'claimed':
      return claim(status, event, now)
    case 'released':
      return release(record, event, now)
    case 'settled':
      return settle(status, event, now)
    case 'cancel':
      return cancel(status, event.by, now)
    case 'links_revoked':
      return revokeLinks(status, event)
    case 'due':
      return expire(status, proposal, event, now)
    case 'restored':
      return ok(endAfterRestore(status, now))
  }
}

function propose({ decision, ask, permitted }: Extract<Event, { kind: 'proposed' }>, now: number): Step {
  const summary = {
    effect: decision.effect,
    code: decision.code,
    policies: decision.policies,
    reason: decision.reason,
    policy_set: decision.policy_set,
  }
  if (decision.effect === 'deny' || (decision.effect === 'ask' && ask === null)) {
    const status = endedStatus('denied', { decision, approval: null }, now, {
      error: decision.code,
      detail: decision.reason,
    })
    return { status, effects: ['attest'], journal: { kind: 'denied', body: summary } }
  }
  if (decision.effect === 'ask' && ask !== null) {
    const { answers } = ask
    const body = answers.length === 0 ? summary : { ...summary, answers }
    const denial = answers.find(({ decision }) => decision === 'deny')
    if (denial !== undefined) {
      const status = endedStatus('rejected', { decision, approval: ask }, now, {
        error: 'denied',
        detail: denialReason(denial),
      })
      return {
        status,
        effects: ['mirror', 'attest'],
        journal: { kind: 'rejected', body: { ...body, approval: ask.id } },
      }
    }
    if (permitted?.effect === 'allow') {
      const status = granted(approvedDecision(decision, permitted), ask, now)
      return {
        status,
        effects: ['mirror', 'ring'],
        journal: { kind: 'approved', body: { ...body, approval: ask.id } },
      }
    }
    return {
      status: { state: 'awaiting_approval', decision, approval: ask },
      effects: ['mirror', 'notify'],
      journal: { kind: 'approval_requested', body: { ...body, approval: ask.id, expires_at: ask.expiresAt } },
    }
  }
  return {
    status: granted(decision, null, now),
    effects: ['ring'],
    journal: { kind: 'allowed', body: summary },
  }
}

const granted = (decision: Decision, approval: ApprovalRecord | null, now: number): Status => ({
  state: 'granted',
  decision,
  approval: approval === null ? null : { ...approval, enough: true },
  until: now + LIMITS.claim_window_ms,
  fence: 0,
})

function answer(
  status: Status,
  { answer, decision }: Extract<Event, { kind: 'answered' }>,
  now: number,
): Result<Step> {
  if (status.state !== 'awaiting_approval') return err(refusalToAnswer(status))
  if (now >= status.approval.expiresAt)
    return refuse('approval_expired', 'not enough people answered in time')
  if (
    status.approval.answers.some(
      ({ by, since_ms, standing }) =>
        by === answer.by && since_ms === answer.since_ms && standing === undefined,
    )
  )
    return refuse('already_answered', 'you have already answered')
  const approval = { ...status.approval, answers: withAnswer(status.approval.answers, answer) }
  const body = { approval: approval.id, ...answer }
  const journal = { kind: answer.decision === 'approve' ? 'approved' : 'rejected', body }
  if (answer.decision === 'deny') {
    const next = endedStatus('rejected', { decision: status.decision, approval }, now, {
      error: 'denied',
      detail: denialReason(answer),
    })
    return ok({ status: next, effects: ['mirror', 'attest'], journal })
  }
  if (decision.effect === 'deny') {
    // The current policy denies, whatever the human answered (L1, L3).
    const next = endedStatus('denied', { decision, approval }, now, {
      error: 'denied',
      detail: decision.reason,
    })
    return ok({
      status: next,
      effects: ['mirror', 'attest'],
      journal: { kind: 'denied', body: { ...body, policies: decision.policies } },
    })
  }
  if (decision.effect === 'ask')
    return ok({ status: { ...status, approval }, effects: ['mirror', 'notify'], journal })
  return ok({
    status: granted(approvedDecision(status.decision, decision), approval, now),
    effects: ['mirror', 'ring'],
    journal,
  })
}

function revokeLinks(status: Status, { by, of }: Extract<Event, { kind: 'links_revoked' }>): Result<Step> {
  if (status.state !== 'awaiting_approval') return err(refusalToAnswer(status))
  const { linksRevoked = [] } = status.approval
  const all = of === null || linksRevoked === 'all'
  const approval = {
    ...status.approval,
    linksRevoked: all ? ('all' as const) : [...new Set([...linksRevoked, of])],
  }
  const journal = { kind: 'links_revoked', body: { approval: approval.id, by, of } }
  return ok({ status: { ...status, approval }, effects: ['mirror', 'notify'], journal })
}

/**
 * L3: answers to the former arguments no longer count. The former proposal has not run, and never
 * will.
 */
function edit(
  { status, proposal: before }: CallRecord,
  event: Extract<Event, { kind: 'edited' }>,
  now: number,
): Result<Step> {
  if (status.state !== 'awaiting_approval') return err(refusalToAnswer(status))
  if (now >= status.approval.expiresAt)
    return refuse('approval_expired', 'not enough people answered in time')
  const { answer, edit, permitted } = event
  const { decision, prompt, proposal } = event.revised
  if (permitted.effect === 'deny') return refuse('denied', permitted.reason)
  const approval = {
    ...status.approval,
    prompt,
    answers: [answer],
    edits: [...(status.approval.edits ?? []), edit],
  }
  const { digest, argsSha256 } = proposal
  const body = {
    approval: approval.id,
    ...answer,
    from: before.digest,
    digest,
    args_sha256: argsSha256,
    changes: edit.changes,
    more: edit.more,
  }
  const journal = { kind: 'edited', body }
  if (permitted.effect === 'ask')
    return ok({
      status: { state: 'awaiting_approval', decision, approval },
      effects: ['mirror', 'notify'],
      journal,
      proposal,
    })
  return ok({
    status: granted(approvedDecision(decision, permitted), approval, now),
    effects: ['mirror', 'ring'],
    journal,
    proposal,
  })
}

/** Somebody's answer to this call replaces the standing answer that they had given before. */
export const withAnswer = (answers: readonly RecordedAnswer[], answer: RecordedAnswer): RecordedAnswer[] => [
  ...answers.filter(({ by }) => by !== answer.by),
  answer,
]

const denialReason = ({ reason }: RecordedAnswer): string =>
  reason === '' ? 'an operator denied the call' : reason

function claim(status: Status, event: Extract<Event, { kind: 'claimed' }>, now: number): Result<Step> {
  if (status.state === 'running') return refuse('already_claimed', 'another claim came first')
  if (status.state !== 'granted') return refuse('not_claimable', `the call is ${status.state}`)
  if (now >= status.until) return refuse('not_claimable', 'the call waited too long')
  if (event.decision.effect !== 'allow') return ok(withdraw(status, event.decision, now))
  const { worker, process = null, deadline, grant } = event
  const { policy_set, snapshot } = event.decision
  const fence = status.fence + 1
  return ok({
    status: {
      state: 'running',
      decision: event.onRecord,
      approval: status.approval,
      worker,
      process,
      fence,
      claimedAt: now,
      deadline,
      leaseUntil: now + LIMITS.lease_ms,
      cancelRequested: false,
      grant,
    },
    effects: ['notify'],
    journal: { kind: 'claimed', body: { worker, fence, deadline_ms: deadline, policy_set, snapshot } },
  })
}

/**
 * L1: the current policy decides, with the answers given so far. If it asks for another approval,
 * nothing runs.
 */
function withdraw({ approval }: LiveCall, decision: Decision, now: number): Step {
  const error = decision.code === 'tool_changed' ? decision.code : 'denied'
  const why = { error, detail: decision.reason }
  const status = endedStatus('cancelled', { decision, approval }, now, why)
  return {
    status,
    effects: ['attest'],
    journal: { kind: 'withdrawn', body: { policies: decision.policies } },
  }
}

/** Once: the program that asks again for the same call asks a new question (L2). */
function release(
  { status, proposal }: CallRecord,
  { decision, onRecord }: Extract<Event, { kind: 'released' }>,
  now: number,
): Result<Step> {
  if (status.state !== 'granted' || proposal.plan !== null)
    return refuse('not_claimable', `the call is ${status.state}`)
  if (status.until <= now) return refuse('not_claimable', 'the agent’s program asked too late')
  if (decision.effect !== 'allow') return ok(withdraw(status, decision, now))
  const { policy_set, snapshot } = decision
  return ok({
    status: endedStatus('released', { decision: onRecord, approval: status.approval }, now, {}),
    effects: ['attest'],
    journal: { kind: 'released', body: { policy_set, snapshot } },
  })
}

function settle(status: Status, event: Extract<Event, { kind: 'settled' }>, now: number): Result<Step> {
  if (status.state !== 'running' || status.worker !== event.worker || status.fence !== event.fence)
    return refuse('stale_fence', `the call is ${status.state}`)
  const { state, error, finished, attestation } = event
  if (state === 'cancelled' && !status.cancelRequested) return refuse('attestation_invalid', NOT_CANCELLED)
  const next = endedStatus(state, status, now, {
    error,
    fence: status.fence,
    cancelRequested: status.cancelRequested,
  })
  return ok({
    status: { ...next, finished, attestation } as Status, // `endedStatus` returns an ended status, which its type doesn't express
    effects: ['notify'],
    journal: {
      kind: state,
      body: {
        worker: event.worker,
        error,
        attestation: attestation.id,
        execution_sha256: attestation.execution_sha256,
      },
    },
  })
}

/** The refusal of a `cancelled` settlement, worded for the worker's operator. */
export const NOT_CANCELLED =
  'the statement says that the call was cancelled, but nobody asked the edge to cancel it'

function cancel(status: Status, by: Canceller, now: number): Result<Step> {
  if (status.state === 'running') {
    if (status.cancelRequested)
      return refuse(
        'conflict',
        'the call is already being cancelled; its worker learns of it at its next heartbeat',
      )
    return ok({
      status: { ...status, cancelRequested: true },
      effects: ['notify'],
      journal: { kind: 'cancel_requested', body: { by } },
    })
  }
  const next = endedStatus('cancelled', status as LiveCall, now, { error: 'cancelled' }) // neither running nor ended, so live
  return ok({
    status: next,
    effects: status.state === 'awaiting_approval' ? ['mirror', 'attest'] : ['attest'],
    journal: { kind: 'cancelled', body: { by } },
  })
}
