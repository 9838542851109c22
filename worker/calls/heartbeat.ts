// Sends a heartbeat every LIMITS.heartbeat_ms: names the calls that run here, so that the edge
// keeps their leases, and ends those that the edge wants stopped. The answers also carry the edge's
// clock and show whether the edge is reachable and accepts this worker.

import type { Code } from '../../shared/failures.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Problem } from '../../shared/routes/client.ts'
import type { Log } from '../host/log.ts'
import { type EdgeLink, isUnreachable } from '../link/client.ts'
import type { ProofSchedule } from '../proof/schedule.ts'
import type { DoorbellIntake } from '../queue/doorbell-intake.ts'
import type { CallsInFlight } from './in-flight.ts'
import type { SettlementSender } from './settlements.ts'

/**
 * refused: the edge knows us but refuses the heartbeat. unwelcome: it knows no worker with our key.
 */
export type EdgeStatus = 'unknown' | 'well' | 'away' | 'refused' | 'unwelcome'

/**
 * The edge's answer to a revoked or unknown worker. Every other refusal may pass by the next
 * heartbeat.
 */
const UNKNOWN_WORKER: Code = 'bad_signature'
/** This many such answers in a row span a lease. A single one ends no running call. */
const DISOWNED_AFTER = 1 + LIMITS.lease_ms / LIMITS.heartbeat_ms

/** The most calls that a heartbeat may name. We allow no higher concurrency than this. */
const NAMED_CALLS_MAX = 1_000

export type Heartbeat = {
  /** Resolves at the first beat that the edge accepted. */
  readonly first: Promise<void>
  /**
   * Announces to the edge, if it answers, that this process stops, so the worker's next process may
   * serve at once.
   */
  readonly stop: () => Promise<void>
}

type Parts = {
  /** This process's random id: the edge lets only one process serve as a worker. */
  readonly process: string
  readonly link: EdgeLink
  readonly running: CallsInFlight
  readonly settling: SettlementSender
  readonly proving: Pick<ProofSchedule, 'proven'>
  readonly intake: DoorbellIntake
  readonly log: Log
}

export function startHeartbeat(parts: Parts): Heartbeat {
  let status: EdgeStatus = 'unknown'
  let beating = false
  let unknownFor = 0
  let resolveFirst: () => void
  const first = new Promise<void>((done) => {
    resolveFirst = done
  })

  const setStatus = (now: EdgeStatus, problem?: Problem): void => {
    if (now === status) return
    logChange(parts.log, status, now, problem)
    status = now
    if (now === 'well') parts.settling.wake()
    parts.intake.closeIf('unwelcome', now === 'unwelcome' || now === 'refused')
  }

  const beat = async (): Promise<void> => {
    beating = true
    const named = [...parts.running.leasedCalls(), ...parts.settling.leasedCalls()].slice(0, NAMED_CALLS_MAX)
    const answer = await sendHeartbeat(parts, named).finally(() => {
      beating = false
    })
    const now = answer.ok ? 'well' : statusFrom(answer.error)
    // An unreachable edge leaves the count as it is.
    if (now !== 'away') unknownFor = now === 'unwelcome' ? unknownFor + 1 : 0
    if (now === 'unwelcome' && unknownFor === DISOWNED_AFTER)
      parts.log.warn('the edge has not known this worker for the length of a lease; running calls are ended')
    // The edge no longer accepts results of these calls.
    if (unknownFor >= DISOWNED_AFTER) parts.running.stopAll('disowned')
    if (!answer.ok) return setStatus(now, answer.error)
    const stop = new Set(answer.value.stop)
    for (const { call, fence } of named) if (stop.has(call)) parts.running.stop(call, fence, 'cancelled')
    setStatus(now)
    resolveFirst()
  }

  let last = Promise.resolve()
  const tick = (): void => {
    if (beating) return // one heartbeat at a time
    last = beat().catch((bug) =>
      parts.log.warn('a heartbeat failed because of a bug in the worker', { reason: String(bug) }),
    )
  }
  const timer = setInterval(tick, LIMITS.heartbeat_ms)
  tick()
  const stop = async (): Promise<void> => {
    clearInterval(timer)
    await last // a heartbeat that arrived after this announcement would occupy the worker again
    await parts.link.request('heartbeat', {
      body: { tiers: [...parts.proving.proven.tiers], running: [], process: parts.process, leaving: true },
    })
  }
  return { first, stop }
}

function statusFrom(problem: Problem): EdgeStatus {
  if (isUnreachable(problem) || problem.status >= 500) return 'away'
  return problem.code === UNKNOWN_WORKER ? 'unwelcome' : 'refused'
}

async function sendHeartbeat(
  { link, proving, process }: Parts,
  running: { call: string; fence: number }[],
): ReturnType<typeof link.request<'heartbeat'>> {
  const sentAt = link.clock.mark()
  const answer = await link.request('heartbeat', {
    body: { tiers: [...proving.proven.tiers], running, process },
  })
  if (answer.ok) link.clock.learn(answer.value.now_ms, sentAt)
  return answer
}

function logChange(log: Log, before: EdgeStatus, now: EdgeStatus, problem?: Problem): void {
  const why = { code: problem?.code, detail: problem?.detail }
  if (now === 'away')
    log.warn('the edge does not answer; running calls continue, and the worker retries', why)
  if (now === 'refused')
    log.warn(
      'the edge refuses heartbeats; running calls continue, no new ones start, and the worker retries',
      why,
    )
  if (now === 'unwelcome')
    log.warn(
      'the edge does not accept this worker; ask an operator whether it was revoked, or enrol again',
      why,
    )
  if (now === 'well' && before !== 'unknown') log.say('the edge answers again')
}
