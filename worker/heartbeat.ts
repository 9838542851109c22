// Owns the pulse: every LIMITS.heartbeat_ms it says which calls run here, so that the edge keeps their leases, and hears which of them to
// end. It is also how the worker learns the edge's clock, and that the edge is away, back, or knows us no more.

import type { Problem } from '../shared/client.ts'
import { LIMITS } from '../shared/limits.ts'
import type { Tier } from '../shared/plan.ts'
import { type Link, unreachable } from './link.ts'
import type { Log } from './log.ts'
import type { Running } from './running.ts'
import type { Settling } from './settling.ts'

/** unwelcome: the edge answers, and does not accept us. */
export type Pulse = 'unknown' | 'well' | 'away' | 'unwelcome'

/** As many as a heartbeat may name; more than any concurrency that we allow. */
const SPOKEN_FOR_MAX = 1_000

export type Heartbeat = {
  /** Resolves at the first beat that the edge accepted. */
  readonly first: Promise<void>
  readonly stop: () => void
}

type Parts = {
  readonly link: Link
  readonly running: Running
  readonly settling: Settling
  readonly tiers: () => readonly Tier[]
  readonly log: Log
  readonly changed: (pulse: Pulse) => void
}

export function startHeartbeat(parts: Parts): Heartbeat {
  let pulse: Pulse = 'unknown'
  let beating = false
  let welcome: () => void
  const first = new Promise<void>((done) => {
    welcome = done
  })

  const feel = (now: Pulse, problem?: Problem): void => {
    if (now === pulse) return
    tell(parts.log, pulse, now, problem)
    pulse = now
    parts.changed(now)
  }

  const beat = async (): Promise<void> => {
    if (beating) return // an edge that takes its time gets no second question
    beating = true
    const spokenFor = [...parts.running.spokenFor(), ...parts.settling.spokenFor()].slice(0, SPOKEN_FOR_MAX)
    const answer = await ask(parts, spokenFor).finally(() => {
      beating = false
    })
    if (!answer.ok) return feel(unreachable(answer.error) || answer.error.status >= 500 ? 'away' : 'unwelcome', answer.error)
    const stop = new Set(answer.value.stop)
    for (const { call, fence } of spokenFor) if (stop.has(call)) parts.running.stop(call, fence, 'cancelled')
    feel('well')
    welcome()
  }

  const tick = (): void => void beat().catch((bug) => parts.log.warn('a heartbeat failed by a fault of ours', { reason: String(bug) }))
  const timer = setInterval(tick, LIMITS.heartbeat_ms)
  tick()
  return { first, stop: () => clearInterval(timer) }
}

async function ask({ link, tiers }: Parts, running: { call: string; fence: number }[]): ReturnType<typeof link.ask<'heartbeat'>> {
  const asked = link.clock.mark()
  const answer = await link.ask('heartbeat', { body: { tiers: [...tiers()], running } })
  if (answer.ok) link.clock.learn(answer.value.now_ms, asked)
  return answer
}

function tell(log: Log, before: Pulse, now: Pulse, problem?: Problem): void {
  const why = { code: problem?.code, detail: problem?.detail }
  if (now === 'away') log.warn('the edge does not answer; running calls go on, and it is asked again', why)
  if (now === 'unwelcome') log.warn('the edge does not accept this worker; ask an operator, or enrol anew', why)
  if (now === 'well' && before !== 'unknown') log.say('the edge answers again')
}
