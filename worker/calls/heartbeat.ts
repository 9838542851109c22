// Owns the pulse: every LIMITS.heartbeat_ms it says which calls run here, so that the edge keeps their leases, and hears which of them to
// end. It is also how the worker learns the edge's clock, and that the edge is away, back, refuses us for now, or knows us no more.

import type { Code } from '../../shared/failures.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Problem } from '../../shared/routes/client.ts'
import type { Log } from '../host/log.ts'
import { type Link, unreachable } from '../link/client.ts'
import type { Proving } from '../proof/schedule.ts'
import type { DoorbellIntake } from '../queue/doorbell-intake.ts'
import type { Running } from './in-flight.ts'
import type { Settling } from './settlements.ts'

/** refused: the edge answers and knows us, and takes no heartbeat. unwelcome: it knows no worker that signs like us. */
export type Pulse = 'unknown' | 'well' | 'away' | 'refused' | 'unwelcome'

/** What the edge says to a worker that was revoked or that it never had; every other refusal may be over with the next beat. */
const UNKNOWN_TO_IT: Code = 'bad_signature'
/** Said so often in a row, it has stood for as long as a lease: no one word of an edge ends what runs. */
const DISOWNED_AFTER = 1 + LIMITS.lease_ms / LIMITS.heartbeat_ms

/** As many as a heartbeat may name; more than any concurrency that we allow. */
const SPOKEN_FOR_MAX = 1_000

export type Heartbeat = {
  /** Resolves at the first beat that the edge accepted. */
  readonly first: Promise<void>
  /** Announces to the edge, if it answers, that this process stops, so the worker's next process may serve at once. */
  readonly stop: () => Promise<void>
}

type Parts = {
  /** The random id of this process: the edge lets only one process serve as a worker. */
  readonly process: string
  readonly link: Link
  readonly running: Running
  readonly settling: Settling
  readonly proving: Pick<Proving, 'proven'>
  readonly intake: DoorbellIntake
  readonly log: Log
}

export function startHeartbeat(parts: Parts): Heartbeat {
  let pulse: Pulse = 'unknown'
  let beating = false
  let unknownFor = 0
  let welcome: () => void
  const first = new Promise<void>((done) => {
    welcome = done
  })

  const feel = (now: Pulse, problem?: Problem): void => {
    if (now === pulse) return
    tell(parts.log, pulse, now, problem)
    pulse = now
    if (now === 'well') parts.settling.wake()
    parts.intake.closeIf('unwelcome', now === 'unwelcome' || now === 'refused')
  }

  const beat = async (): Promise<void> => {
    beating = true
    const spokenFor = [...parts.running.spokenFor(), ...parts.settling.spokenFor()].slice(0, SPOKEN_FOR_MAX)
    const answer = await ask(parts, spokenFor).finally(() => {
      beating = false
    })
    const now = answer.ok ? 'well' : pulseAt(answer.error)
    if (now !== 'away') unknownFor = now === 'unwelcome' ? unknownFor + 1 : 0 // no answer is no word that we are known
    if (now === 'unwelcome' && unknownFor === DISOWNED_AFTER)
      parts.log.warn('the edge has not known this worker for the length of a lease; what runs is ended')
    if (unknownFor >= DISOWNED_AFTER) parts.running.stopAll('disowned') // the edge takes no result of what runs here
    if (!answer.ok) return feel(now, answer.error)
    const stop = new Set(answer.value.stop)
    for (const { call, fence } of spokenFor) if (stop.has(call)) parts.running.stop(call, fence, 'cancelled')
    feel(now)
    welcome()
  }

  let last = Promise.resolve()
  const tick = (): void => {
    if (beating) return // an edge that takes its time gets no second question
    last = beat().catch((bug) =>
      parts.log.warn('a heartbeat failed by a fault of ours', { reason: String(bug) }),
    )
  }
  const timer = setInterval(tick, LIMITS.heartbeat_ms)
  tick()
  const stop = async (): Promise<void> => {
    clearInterval(timer)
    await last // one that arrived after the announcement would take the worker again
    await parts.link.ask('heartbeat', {
      body: { tiers: [...parts.proving.proven.tiers], running: [], process: parts.process, leaving: true },
    })
  }
  return { first, stop }
}

function pulseAt(problem: Problem): Pulse {
  if (unreachable(problem) || problem.status >= 500) return 'away'
  return problem.code === UNKNOWN_TO_IT ? 'unwelcome' : 'refused'
}

async function ask(
  { link, proving, process }: Parts,
  running: { call: string; fence: number }[],
): ReturnType<typeof link.ask<'heartbeat'>> {
  const asked = link.clock.mark()
  const answer = await link.ask('heartbeat', { body: { tiers: [...proving.proven.tiers], running, process } })
  if (answer.ok) link.clock.learn(answer.value.now_ms, asked)
  return answer
}

function tell(log: Log, before: Pulse, now: Pulse, problem?: Problem): void {
  const why = { code: problem?.code, detail: problem?.detail }
  if (now === 'away') log.warn('the edge does not answer; running calls go on, and it is asked again', why)
  if (now === 'refused')
    log.warn(
      'the edge takes no heartbeat; running calls go on, nothing new is taken, and it is asked again',
      why,
    )
  if (now === 'unwelcome')
    log.warn('the edge does not accept this worker; ask an operator, or enrol anew', why)
  if (now === 'well' && before !== 'unknown') log.say('the edge answers again')
}
