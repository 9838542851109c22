// The part of the lifecycle that ends calls, and the changes that passed deadlines cause. Pure;
// only `step` calls it.

import { failure } from '../../shared/failures.ts'
import { LIMITS } from '../../shared/limits.ts'
import { upstreamOfPlan } from '../../shared/plan/plan.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { EndedCall, EndState, Event, LiveCall, Proposal, Running, Status, Step } from './lifecycle.ts'

export const refuse = (code: Parameters<typeof failure>[0], detail: string): Result<never> =>
  err(failure(code, detail))

export const endedStatus = (
  state: EndState,
  from: LiveCall | Running,
  at: number,
  why: { error?: string | null; detail?: string | null; fence?: number; cancelRequested?: boolean },
): Status => ({
  state,
  decision: from.decision,
  approval: from.approval,
  at,
  error: why.error ?? null,
  detail: why.detail ?? null,
  finished: null,
  attestation: null,
  fence: why.fence ?? 0,
  cancelRequested: why.cancelRequested ?? false,
  ...('claimedAt' in from ? { took: Math.max(0, at - from.claimedAt) } : {}),
})

/** Texts for the two ends by deadline. A skill runs at the edge, so its texts name no worker. */
const endTexts = ({ plan }: Proposal): { readonly unclaimed: string; readonly lost: string } =>
  plan === null
    ? { unclaimed: 'the agent’s program did not ask for the answer in time', lost: '' }
    : plan.tier === 'M'
      ? {
          unclaimed: 'the edge could not start it in time',
          lost: 'the edge lost the call while it ran, so nobody knows what the upstream did',
        }
      : plan.tier === 'A'
        ? {
            unclaimed: 'no slot for skills became free in time',
            lost: 'the edge lost the call while it ran, so nobody saw its end',
          }
        : { unclaimed: 'no worker claimed it in time', lost: 'the worker stopped reporting' }

export function expire(
  status: Status,
  proposal: Proposal,
  { leaseUntil = 0, folderGone, unclaimable }: Extract<Event, { kind: 'due' }>,
  now: number,
): Result<Step> {
  if (status.state === 'awaiting_approval' && now >= status.approval.expiresAt) {
    const next = endedStatus('expired', status, now, {
      error: 'approval_expired',
      detail: 'not enough people answered in time',
    })
    return ok({
      status: next,
      effects: ['mirror', 'attest'],
      journal: { kind: 'expired', body: { approval: status.approval.id } },
    })
  }
  if (status.state === 'granted' && folderGone !== undefined) {
    const next = endedStatus('lapsed', status, now, { error: 'workspace_lost', detail: folderGone })
    return ok({
      status: next,
      effects: ['attest'],
      journal: { kind: 'lapsed', body: { error: 'workspace_lost' } },
    })
  }
  if (status.state === 'granted' && now >= status.until) {
    const detail = `${endTexts(proposal).unclaimed}${unclaimable === undefined ? '' : `: ${unclaimable}`}`
    const next = endedStatus('lapsed', status, now, { error: 'never_claimed', detail })
    const body = unclaimable === undefined ? {} : { reason: unclaimable }
    return ok({ status: next, effects: ['attest'], journal: { kind: 'lapsed', body } })
  }
  if (status.state === 'running' && now >= Math.max(status.leaseUntil, leaseUntil)) {
    const mayRepeat = proposal.idempotent && upstreamOfPlan(proposal.plan) === undefined // L2: an upstream may have received it
    if (mayRepeat && !status.cancelRequested && status.fence < MAX_ATTEMPTS) {
      const again: Status = {
        state: 'granted',
        decision: status.decision,
        approval: status.approval,
        until: now + LIMITS.claim_window_ms,
        fence: status.fence,
      }
      return ok({
        status: again,
        effects: ['ring'],
        journal: { kind: 'worker_lost', body: { worker: status.worker, fence: status.fence, retried: true } },
      })
    }
    // L2: nobody saw the end, so the record states no outcome.
    const next = endedStatus('indeterminate', status, now, {
      error: 'worker_lost',
      detail: endTexts(proposal).lost,
      fence: status.fence,
      cancelRequested: status.cancelRequested,
    })
    return ok({
      status: next,
      effects: ['attest'],
      journal: { kind: 'indeterminate', body: { worker: status.worker, fence: status.fence } },
    })
  }
  return refuse('conflict', 'nothing is due')
}

/**
 * L2: what happened after the backup is lost. Its worker may have run the call since, and people may
 * have approved one that waited, so nothing may run it again.
 */
export function endAfterRestore(status: Exclude<Status, EndedCall>, now: number): Step {
  const next = endedStatus('indeterminate', status, now, {
    error: 'restored',
    detail: 'the installation was restored from a backup in which the call had not ended',
    ...('fence' in status ? { fence: status.fence } : {}),
  })
  return {
    status: next,
    effects: status.state === 'awaiting_approval' ? ['mirror', 'attest'] : ['attest'],
    journal: { kind: 'indeterminate', body: { restored: true, was: status.state } },
  }
}

/** The most executions of a call whose tool declares itself idempotent. */
const MAX_ATTEMPTS = 3
