// A call's life: one union of states, one pure function from (record, event) to what is next. It
// owns every change of state and performs none of the effects it returns. No other code sets
// `state`.
//
//   proposed ─▶ denied
//            ─▶ awaiting_approval ─▶ granted | rejected | expired | cancelled
//            ─▶ granted ─▶ running ─▶ succeeded | failed | timed_out | cancelled | indeterminate
//                       ─▶ lapsed | cancelled

import type { Envelope } from '../../shared/evidence/dsse.ts'
import type { Shadowed } from '../../shared/evidence/journal.ts'
import type { CallState, ToolRef } from '../../shared/evidence/statement.ts'
import { type Failure, failure } from '../../shared/failures.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { InputFile, OutputFiles } from '../../shared/plan/call-files.ts'
import type { Plan } from '../../shared/plan/plan.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Approval, Edit } from '../../shared/wire/approvals.ts'
import type { Decision } from '../../shared/wire/calls.ts'
import { answered } from './decision-of-record.ts'
import { due, ended, refuse } from './endings.ts'
import type { Used } from './usage.ts'

/** `since_ms`: since when its giver is an operator. */
export type Answered = Omit<Approval['answers'][number], 'assurance'> & { since_ms: number }
export type AskRecord = Readonly<{
  id: string
  prompt: Approval['prompt']
  requestedAt: number
  expiresAt: number
  answers: readonly Answered[]
  enough?: true
  /** What operators have changed before saying yes. */
  edits?: readonly Edit[]
  /** Whose links were taken back. */
  linksRevoked?: 'all' | readonly string[]
}>

/**
 * Everything fixed when the call is proposed: the digest covers it (L3). An operator who changes
 * the arguments makes another one in its place, while it is asked about.
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
  /** What it brings beside its arguments. */
  files?: readonly InputFile[]
  pool: string
  createdAt: number
  /** What the argument that the tool names as spent holds. */
  spent?: number
  /** A secret may have lain in the folder that calls of the run share. */
  folderMetSecret?: true
  /**
   * What run and session had used before, where policy read it: later calls don't make this one
   * look late.
   */
  before?: Used
  /** What a set that is not in force would have decided: told to operators alone. */
  shadow?: Shadowed
  /** What the agent proposed, where an operator has changed it since. */
  asked?: { readonly digest: string; readonly argsSha256: string }
}>

export type Live = { decision: Decision; approval: AskRecord | null }
export type Ended = Live & {
  at: number
  error: string | null
  detail: string | null
  finished: Finished | null
  attestation: Attested | null
  cancelRequested: boolean
  /** By the edge's clock, from claim to end; absent where nothing ran. */
  took?: number
}
/** What is known of a finished execution besides its output, which is kept apart. */
export type Finished = { exit_code: number | null; truncated: boolean; detail: string; files?: OutputFiles }
export type Attested = {
  id: string
  execution_sha256: string
  executor: string
  sandbox_enforcement: string
  cgroup?: boolean
}
export type Running = Live & {
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
  | 'succeeded'
  | 'failed'
  | 'timed_out'
  | 'indeterminate'

export type Status =
  | ({ state: 'awaiting_approval'; approval: AskRecord } & Omit<Live, 'approval'>)
  | ({ state: 'granted'; until: number; fence: number } & Live)
  | ({ state: 'running' } & Running)
  | ({ state: EndState; fence: number } & Ended)

/** A call with other arguments, and what is asked about it. */
export type Revised = { proposal: Proposal; decision: Decision; prompt: AskRecord['prompt'] }

/** One call as it is stored: what was proposed, and where it stands. */
export type CallRecord = { proposal: Proposal; status: Status }

/** Who asked for a call's end. */
export type Canceller = { readonly kind: 'agent' | 'operator'; readonly name: string }

export type Event =
  /**
   * `ask` may hold answers that stand from before; `permitted` is what policy says with them, where
   * that is an allow.
   */
  | { kind: 'proposed'; decision: Decision; ask: AskRecord | null; permitted?: Decision }
  /**
   * A human answered; `decision` is the current policy's, asked again with the answers there now
   * are.
   */
  | { kind: 'answered'; answer: Answered; decision: Decision }
  /**
   * The same, to other arguments: `decision` is on those without an answer, `permitted` with this
   * one.
   */
  | { kind: 'edited'; answer: Answered; revised: Revised; edit: Edit; permitted: Decision }
  /**
   * `process`: the worker's process that claimed; only this process may repeat the claim.
   * `decision` is the policy's of now, `onRecord` the decision that the grant names.
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
  | {
      kind: 'settled'
      worker: string
      fence: number
      state: 'succeeded' | 'failed' | 'timed_out' | 'cancelled'
      error: string | null
      /** It was refused before anything of it began. */
      refused: boolean
      finished: Finished
      attestation: Attested
    }
  | { kind: 'cancel'; by: Canceller }
  /** Of one operator, or of all: the question stays. */
  | { kind: 'links_revoked'; by: string; of: string | null }
  /**
   * Time has come: expiry, lapse, lost lease. Whether it has is judged here, by the edge's clock
   * (L9); `folderGone`: why the run's folder is; `unclaimable`: why no worker could claim it.
   */
  | { kind: 'due'; leaseUntil?: number; folderGone?: string; unclaimable?: string }

/** What the objects do once the new record is stored. */
export type Effect = 'ring' | 'mirror' | 'attest' | 'notify'
/** `proposal`: what takes the place of the one before. */
export type Step = {
  status: Status
  effects: readonly Effect[]
  journal: { kind: string; body: Record<string, unknown> }
  proposal?: Proposal
}

const LIVE: ReadonlySet<CallState> = new Set(['awaiting_approval', 'granted', 'running'])
export const hasEnded = (status: Status): status is Extract<Status, Ended> => !LIVE.has(status.state)
/** Whether an ended call was claimed before it ended: a cancelled call may have run or not. */
export const wasClaimed = (status: Status): boolean => 'took' in status && status.took !== undefined

/** Why an approval that does not wait for answers takes none. */
export function whyNotAsked({ state, approval }: Status): Failure {
  if (state === 'expired') return failure('approval_expired', 'not enough people answered in time')
  if (state === 'cancelled' && approval?.enough !== true)
    return failure('approval_cancelled', 'the call was cancelled before enough people had answered')
  return failure('already_answered', `the call is ${state}`)
}

/** Applies one event. A refusal changes nothing and names what is (L4). */
export function step(record: CallRecord | Proposal, event: Event, now: number): Result<Step> {
  if (!('status' in record))
    return event.kind === 'proposed'
      ? ok(propose(event, now))
      : refuse('conflict', 'the call is not stored yet')
  const { status, proposal } = record
  if (hasEnded(status)) {
    const answers = event.kind === 'answered' || event.kind === 'edited'
    return answers ? err(whyNotAsked(status)) : refuse('already_ended', `the call has ended: ${status.state}`)
  }
  switch (event.kind) {
    case 'proposed':
      return refuse('conflict', 'the call was proposed before')
    case 'answered':
      return answer(status, event, now)
    case 'edited':
      return edit(record, event, now)
    case 'claimed':
      return claim(status, event, now)
    case 'settled':
      return settle(status, event, now)
    case 'cancel':
      return cancel(status, event.by, now)
    case 'links_revoked':
      return revokeLinks(status, event)
    case 'due':
      return due(status, proposal, event, now)
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
    const status = ended('denied', { decision, approval: null }, now, {
      error: decision.code,
      detail: decision.reason,
    })
    return { status, effects: ['attest'], journal: { kind: 'denied', body: summary } }
  }
  if (decision.effect === 'ask' && ask !== null) {
    const { answers } = ask
    const said = answers.length === 0 ? summary : { ...summary, answers }
    const no = answers.find(({ decision }) => decision === 'deny')
    if (no !== undefined) {
      const status = ended('rejected', { decision, approval: ask }, now, {
        error: 'denied',
        detail: noInWords(no),
      })
      return {
        status,
        effects: ['mirror', 'attest'],
        journal: { kind: 'rejected', body: { ...said, approval: ask.id } },
      }
    }
    if (permitted?.effect === 'allow') {
      const status = granted(answered(decision, permitted), ask, now)
      return {
        status,
        effects: ['mirror', 'ring'],
        journal: { kind: 'approved', body: { ...said, approval: ask.id } },
      }
    }
    return {
      status: { state: 'awaiting_approval', decision, approval: ask },
      effects: ['mirror', 'notify'],
      journal: { kind: 'approval_requested', body: { ...said, approval: ask.id, expires_at: ask.expiresAt } },
    }
  }
  return {
    status: granted(decision, null, now),
    effects: ['ring'],
    journal: { kind: 'allowed', body: summary },
  }
}

const granted = (decision: Decision, approval: AskRecord | null, now: number): Status => ({
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
  if (status.state !== 'awaiting_approval') return err(whyNotAsked(status))
  if (now >= status.approval.expiresAt)
    return refuse('approval_expired', 'not enough people answered in time')
  if (
    status.approval.answers.some(
      ({ by, since_ms, standing }) =>
        by === answer.by && since_ms === answer.since_ms && standing === undefined,
    )
  )
    return refuse('already_answered', 'you have answered before')
  const approval = { ...status.approval, answers: withAnswer(status.approval.answers, answer) }
  const body = { approval: approval.id, ...answer }
  const journal = { kind: answer.decision === 'approve' ? 'approved' : 'rejected', body }
  if (answer.decision === 'deny') {
    const next = ended('rejected', { decision: status.decision, approval }, now, {
      error: 'denied',
      detail: noInWords(answer),
    })
    return ok({ status: next, effects: ['mirror', 'attest'], journal })
  }
  if (decision.effect === 'deny') {
    // The policy of now denies, whatever the human says (L1, L3).
    const next = ended('denied', { decision, approval }, now, { error: 'denied', detail: decision.reason })
    return ok({
      status: next,
      effects: ['mirror', 'attest'],
      journal: { kind: 'denied', body: { ...body, policies: decision.policies } },
    })
  }
  if (decision.effect === 'ask')
    return ok({ status: { ...status, approval }, effects: ['mirror', 'notify'], journal })
  return ok({
    status: granted(answered(status.decision, decision), approval, now),
    effects: ['mirror', 'ring'],
    journal,
  })
}

function revokeLinks(status: Status, { by, of }: Extract<Event, { kind: 'links_revoked' }>): Result<Step> {
  if (status.state !== 'awaiting_approval') return err(whyNotAsked(status))
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
 * L3: what was said before was said to something else, and counts no more. What was asked about
 * before never ran, and never can.
 */
function edit(
  { status, proposal: before }: CallRecord,
  event: Extract<Event, { kind: 'edited' }>,
  now: number,
): Result<Step> {
  if (status.state !== 'awaiting_approval') return err(whyNotAsked(status))
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
  const told = {
    approval: approval.id,
    ...answer,
    from: before.digest,
    digest,
    args_sha256: argsSha256,
    changes: edit.changes,
    more: edit.more,
  }
  const journal = { kind: 'edited', body: told }
  if (permitted.effect === 'ask')
    return ok({
      status: { state: 'awaiting_approval', decision, approval },
      effects: ['mirror', 'notify'],
      journal,
      proposal,
    })
  return ok({
    status: granted(answered(decision, permitted), approval, now),
    effects: ['mirror', 'ring'],
    journal,
    proposal,
  })
}

/** What somebody says to this call takes the place of what they had said to all of its kind. */
export const withAnswer = (answers: readonly Answered[], answer: Answered): Answered[] => [
  ...answers.filter(({ by }) => by !== answer.by),
  answer,
]

const noInWords = ({ reason }: Answered): string => (reason === '' ? 'an operator said no' : reason)

function claim(status: Status, event: Extract<Event, { kind: 'claimed' }>, now: number): Result<Step> {
  if (status.state === 'running') return refuse('already_claimed', 'another claim was first')
  if (status.state !== 'granted') return refuse('not_claimable', `the call is ${status.state}`)
  if (now >= status.until) return refuse('not_claimable', 'the call waited too long')
  if (event.decision.effect !== 'allow') {
    // L1: the policy of now, with the approvals there are; where it asks for one that was not
    // given, nothing runs.
    const next = ended('cancelled', { decision: event.decision, approval: status.approval }, now, {
      error: 'denied',
      detail: event.decision.reason,
    })
    return ok({
      status: next,
      effects: ['attest'],
      journal: { kind: 'withdrawn', body: { policies: event.decision.policies } },
    })
  }
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

function settle(status: Status, event: Extract<Event, { kind: 'settled' }>, now: number): Result<Step> {
  if (status.state !== 'running' || status.worker !== event.worker || status.fence !== event.fence)
    return refuse('stale_fence', `the call is ${status.state}`)
  const { state, error, finished, attestation } = event
  if (state === 'cancelled' && !status.cancelRequested) return refuse('attestation_invalid', NOT_CANCELLED)
  const next = ended(state, status, now, {
    error,
    fence: status.fence,
    cancelRequested: status.cancelRequested,
  })
  return ok({
    status: { ...next, finished, attestation } as Status, // `ended` made an ended status; the union can't say so
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

/** Why a report of `cancelled` is refused, in the words of the worker's operator. */
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
  const next = ended('cancelled', status as Live, now, { error: 'cancelled' }) // neither running nor ended: a live status
  return ok({
    status: next,
    effects: status.state === 'awaiting_approval' ? ['mirror', 'attest'] : ['attest'],
    journal: { kind: 'cancelled', body: { by } },
  })
}
