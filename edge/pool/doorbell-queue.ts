// The calls of one pool that wait for a worker, and the order of their doorbells. Each agent has
// only a few doorbells out at a time, taken from its runs in turn, so that a call waits behind a
// few doorbells of every other agent, however many runs and calls those have. In memory only: after
// a restart, runs report their waiting calls again.

import { LIMITS } from '../../shared/limits.ts'

/** Contains only names, so that a reader of Redis learns no argument, secret or result (L7). */
export type Doorbell = {
  agent: string
  run: string
  call: string
  until: number
  /**
   * The only worker that can claim the call, rung through its own queue; null: any worker of the
   * pool.
   */
  worker: string | null
}

/** `outSince`: null until the doorbell is rung. */
type WaitingCall = { doorbell: Doorbell; outSince: number | null }
type Bounds = { readonly out: number; readonly perRun: number; readonly all: number }

/** A doorbell out longer than this was lost or answered without a report, if its queue is empty. */
const OUT_MS = 5_000

const BOUNDS: Bounds = {
  out: LIMITS.doorbells_per_agent,
  perRun: LIMITS.waiting_calls_per_run,
  all: LIMITS.waiting_calls_per_pool,
}

/** The waiting calls of one agent. */
class AgentQueue {
  size = 0
  readonly runs = new Map<string, Map<string, WaitingCall>>()
  /** Calls that have not been rung, by run. The run whose turn is next comes first. */
  readonly queued = new Map<string, Set<WaitingCall>>()
  /** Calls whose doorbell is out and takes one of the agent's slots. */
  readonly out = new Set<WaitingCall>()

  outIn(worker: string | null): WaitingCall[] {
    return [...this.out].filter(({ doorbell }) => doorbell.worker === worker)
  }

  add(doorbell: Doorbell): void {
    const waiting: WaitingCall = { doorbell, outSince: null }
    getOrAdd(this.runs, doorbell.run, () => new Map<string, WaitingCall>()).set(doorbell.call, waiting)
    getOrAdd(this.queued, doorbell.run, () => new Set<WaitingCall>()).add(waiting)
    this.size += 1
  }

  remove(waiting: WaitingCall): void {
    const { run, call } = waiting.doorbell
    const calls = this.runs.get(run)
    calls?.delete(call)
    if (calls?.size === 0) this.runs.delete(run)
    this.#dequeue(waiting)
    this.out.delete(waiting)
    this.size -= 1
  }

  /** Marks the next call's doorbell as out and moves its run to the end of the order. */
  ringNext(worker: string | null, now: number): Doorbell | undefined {
    for (const [run, calls] of this.queued) {
      for (const waiting of calls) {
        if (waiting.doorbell.worker !== worker || waiting.doorbell.until <= now) continue
        this.#dequeue(waiting)
        if (this.queued.delete(run)) this.queued.set(run, calls)
        waiting.outSince = now
        this.out.add(waiting)
        return waiting.doorbell
      }
    }
    return undefined
  }

  #dequeue(waiting: WaitingCall): void {
    const calls = this.queued.get(waiting.doorbell.run)
    calls?.delete(waiting)
    if (calls?.size === 0) this.queued.delete(waiting.doorbell.run)
  }
}

export class DoorbellQueue {
  readonly #bounds: Bounds
  readonly #agents = new Map<string, AgentQueue>()
  #size = 0

  constructor(bounds: Bounds = BOUNDS) {
    this.#bounds = bounds
  }

  /**
   * Reports a call that waits or still waits. Returns the doorbells to ring now: this call's again
   * if it was out already, and the next ones of its agent.
   */
  add(doorbell: Doorbell, now: number): Doorbell[] {
    const known = this.#agents.get(doorbell.agent)?.runs.get(doorbell.run)?.get(doorbell.call)
    // A full queue must not grow; the run reports the call again later.
    if (known === undefined && this.#size >= 2 * this.#bounds.all) return []
    const queue = getOrAdd(this.#agents, doorbell.agent, () => new AgentQueue())
    if (known === undefined) {
      queue.add(doorbell)
      this.#size += 1
    } else known.doorbell = doorbell
    const again = known === undefined || known.outSince === null ? [] : [doorbell]
    return [...again, ...this.#next(queue, doorbell.worker, now)]
  }

  /** Removes a call that no longer waits. Returns the agent's doorbells to ring in its place. */
  remove({ agent, run, call }: Pick<Doorbell, 'agent' | 'run' | 'call'>, now: number): Doorbell[] {
    const queue = this.#agents.get(agent)
    const waiting = queue?.runs.get(run)?.get(call)
    if (queue === undefined || waiting === undefined) return []
    this.#remove(queue, waiting)
    return this.#next(queue, waiting.doorbell.worker, now)
  }

  /**
   * Whether doorbells of this agent have been out for long; the caller should then look into the
   * queue.
   */
  hasStale({ agent, worker }: Doorbell, now: number): boolean {
    return this.#agents.get(agent)?.outIn(worker).some(isStale(now)) ?? false
  }

  /**
   * The queue is empty, so stale doorbells were answered or lost: frees their slots and returns the
   * next ones to ring. (If the queue is not empty, workers are busy, and everybody waits.)
   */
  releaseStale({ agent, worker }: Doorbell, now: number): Doorbell[] {
    const queue = this.#agents.get(agent)
    if (queue === undefined) return []
    for (const waiting of queue.outIn(worker).filter(isStale(now))) queue.out.delete(waiting)
    return this.#next(queue, worker, now)
  }

  /**
   * Whether one more call of this run would exceed a bound. A run has a bound on its waiting calls.
   * Once the pool is full, an agent with less than an equal share is still let in.
   */
  isFull({ agent, run }: Pick<Doorbell, 'agent' | 'run'>, now: number): boolean {
    const full = (): boolean => {
      const queue = this.#agents.get(agent)
      if ((queue?.runs.get(run)?.size ?? 0) >= this.#bounds.perRun || this.#size >= 2 * this.#bounds.all)
        return true
      const agents = this.#agents.size + (queue === undefined ? 1 : 0)
      return this.#size >= this.#bounds.all && (queue?.size ?? 0) >= this.#bounds.all / agents
    }
    if (!full()) return false
    this.#forget(now)
    return full()
  }

  #next(queue: AgentQueue, worker: string | null, now: number): Doorbell[] {
    const next: Doorbell[] = []
    for (let free = this.#bounds.out - queue.outIn(worker).length; free > 0; free -= 1) {
      const doorbell = queue.ringNext(worker, now)
      if (doorbell === undefined) break
      next.push(doorbell)
    }
    return next
  }

  #remove(queue: AgentQueue, waiting: WaitingCall): void {
    queue.remove(waiting)
    this.#size -= 1
    if (queue.size === 0) this.#agents.delete(waiting.doorbell.agent)
  }

  /** Removes calls whose time to be claimed is over, whether or not their run reported it. */
  #forget(now: number): void {
    for (const queue of this.#agents.values())
      for (const calls of queue.runs.values())
        for (const waiting of calls.values()) if (waiting.doorbell.until <= now) this.#remove(queue, waiting)
  }
}

const isStale =
  (now: number) =>
  ({ outSince }: WaitingCall): boolean =>
    outSince !== null && now - outSince >= OUT_MS

function getOrAdd<V>(map: Map<string, V>, key: string, make: () => V): V {
  const known = map.get(key)
  if (known !== undefined) return known
  const value = make()
  map.set(key, value)
  return value
}
