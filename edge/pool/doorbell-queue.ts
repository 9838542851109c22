// Which calls of one pool wait for a worker, and whose doorbell is next. Each agent has a few doorbells out at a time, of its runs in turn,
// so that a call waits behind a few of every other agent, however many runs and calls those have. In memory: it is what runs say, and they
// say it again. It rings nothing.

import { LIMITS } from '../../shared/limits.ts'

/** Nothing but names: whoever reads Redis learns no argument, no secret, no result (L7). */
export type Ring = {
  agent: string
  run: string
  call: string
  until: number
  /** The one worker that can claim it, by its own queue; null: any of the pool. */
  worker: string | null
}

/** `outSince`: null while it waits its turn. */
type Waiting = { ring: Ring; outSince: number | null }
type Bounds = { readonly out: number; readonly perRun: number; readonly all: number }

/** What is out longer than this was lost, or is claimed without our having heard of it, if nothing lies in its queue any more. */
const OUT_MS = 5_000

const BOUNDS: Bounds = {
  out: LIMITS.doorbells_per_agent,
  perRun: LIMITS.waiting_calls_per_run,
  all: LIMITS.waiting_calls_per_pool,
}

/** What waits of one agent. */
class Share {
  size = 0
  readonly runs = new Map<string, Map<string, Waiting>>()
  /** Those whose turn is to come. The run whose turn is next comes first. */
  readonly turns = new Map<string, Set<Waiting>>()
  /** Those whose doorbell is out and holds a place. */
  readonly out = new Set<Waiting>()

  outIn(worker: string | null): Waiting[] {
    return [...this.out].filter(({ ring }) => ring.worker === worker)
  }

  add(ring: Ring): void {
    const waiting: Waiting = { ring, outSince: null }
    entry(this.runs, ring.run, () => new Map<string, Waiting>()).set(ring.call, waiting)
    entry(this.turns, ring.run, () => new Set<Waiting>()).add(waiting)
    this.size += 1
  }

  remove(waiting: Waiting): void {
    const { run, call } = waiting.ring
    const calls = this.runs.get(run)
    calls?.delete(call)
    if (calls?.size === 0) this.runs.delete(run)
    this.#unturn(waiting)
    this.out.delete(waiting)
    this.size -= 1
  }

  /** Goes out. Its run is the last to have a turn again. */
  turn(worker: string | null, now: number): Ring | undefined {
    for (const [run, turns] of this.turns) {
      for (const waiting of turns) {
        if (waiting.ring.worker !== worker || waiting.ring.until <= now) continue
        this.#unturn(waiting)
        if (this.turns.delete(run)) this.turns.set(run, turns)
        waiting.outSince = now
        this.out.add(waiting)
        return waiting.ring
      }
    }
    return undefined
  }

  #unturn(waiting: Waiting): void {
    const turns = this.turns.get(waiting.ring.run)
    turns?.delete(waiting)
    if (turns?.size === 0) this.turns.delete(waiting.ring.run)
  }
}

export class Rings {
  readonly #bounds: Bounds
  readonly #agents = new Map<string, Share>()
  #size = 0

  constructor(bounds: Bounds = BOUNDS) {
    this.#bounds = bounds
  }

  /** A call waits, or waits still. What is to be rung now: it again if it is out, and whichever of its agent are next. */
  waits(ring: Ring, now: number): Ring[] {
    const known = this.#agents.get(ring.agent)?.runs.get(ring.run)?.get(ring.call)
    if (known === undefined && this.#size >= 2 * this.#bounds.all) return [] // what has run full must not grow; the next ring is soon enough
    const share = entry(this.#agents, ring.agent, () => new Share())
    if (known === undefined) {
      share.add(ring)
      this.#size += 1
    } else known.ring = ring
    const again = known === undefined || known.outSince === null ? [] : [ring]
    return [...again, ...this.#next(share, ring.worker, now)]
  }

  /** A call waits no more, whatever it does. */
  left({ agent, run, call }: Pick<Ring, 'agent' | 'run' | 'call'>, now: number): Ring[] {
    const share = this.#agents.get(agent)
    const waiting = share?.runs.get(run)?.get(call)
    if (share === undefined || waiting === undefined) return []
    this.#remove(share, waiting)
    return this.#next(share, waiting.ring.worker, now)
  }

  /** Whether doorbells of this agent are out for long in this queue: then it should be asked whether any lies there. */
  stuck({ agent, worker }: Ring, now: number): boolean {
    return this.#agents.get(agent)?.outIn(worker).some(isOld(now)) ?? false
  }

  /** None lies there: whatever was out for long was heard or lost, and holds up nobody. Where some do, workers are busy, and all wait. */
  heard({ agent, worker }: Ring, now: number): Ring[] {
    const share = this.#agents.get(agent)
    if (share === undefined) return []
    for (const waiting of share.outIn(worker).filter(isOld(now))) share.out.delete(waiting)
    return this.#next(share, worker, now)
  }

  /**
   * Whether one more call of this run would be too many. A run has a share of what may wait. Once the pool is full, each agent has an equal
   * one: who has less gets in still.
   */
  full({ agent, run }: Pick<Ring, 'agent' | 'run'>, now: number): boolean {
    const full = (): boolean => {
      const share = this.#agents.get(agent)
      if ((share?.runs.get(run)?.size ?? 0) >= this.#bounds.perRun || this.#size >= 2 * this.#bounds.all)
        return true
      const agents = this.#agents.size + (share === undefined ? 1 : 0)
      return this.#size >= this.#bounds.all && (share?.size ?? 0) >= this.#bounds.all / agents
    }
    if (!full()) return false
    this.#forget(now)
    return full()
  }

  #next(share: Share, worker: string | null, now: number): Ring[] {
    const next: Ring[] = []
    for (let free = this.#bounds.out - share.outIn(worker).length; free > 0; free -= 1) {
      const ring = share.turn(worker, now)
      if (ring === undefined) break
      next.push(ring)
    }
    return next
  }

  #remove(share: Share, waiting: Waiting): void {
    share.remove(waiting)
    this.#size -= 1
    if (share.size === 0) this.#agents.delete(waiting.ring.agent)
  }

  /** What nobody claimed in time has lapsed, whether or not its run said so. */
  #forget(now: number): void {
    for (const share of this.#agents.values())
      for (const calls of share.runs.values())
        for (const waiting of calls.values()) if (waiting.ring.until <= now) this.#remove(share, waiting)
  }
}

const isOld =
  (now: number) =>
  ({ outSince }: Waiting): boolean =>
    outSince !== null && now - outSince >= OUT_MS

function entry<V>(map: Map<string, V>, key: string, make: () => V): V {
  const known = map.get(key)
  if (known !== undefined) return known
  const made = make()
  map.set(key, made)
  return made
}
