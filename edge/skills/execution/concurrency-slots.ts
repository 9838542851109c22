// Fair sharing of the slots in which skill calls run. Callers are admitted in order of arrival, as
// long as each keeps to its share: the slots are shared among tenants, a tenant's among those who
// call in it, and theirs among the skills that they call. Every level keeps one slot free for a
// newcomer. The queue is bounded too, because each waiting call keeps an object open.

import { LIMITS } from '../../../shared/limits.ts'
import { Waiter, WaiterLeases } from './cpu-turns.ts'

/** Many callers may wait, each for another call to end, so those further back poll less often. */
const [POLL_MS, POLL_MAX_MS] = [5, 250]

/**
 * The caller that takes a slot, and the skill it is for. `who` is an agent, or the author who tries
 * a skill.
 */
export type SlotCaller = readonly [tenant: string, who: string, skill: string]

/**
 * A node of the tree tenant → caller → skill. It exists only while it holds a slot or waits for
 * one.
 */
class Sharer {
  readonly name: string
  held = 0
  readonly waiting: Waiter[] = []
  /** Number of waiters in this node and below it. */
  waits = 0
  /** Children in the order in which they are served: the one admitted last moves to the end. */
  readonly next = new Map<string, Sharer>()

  constructor(name: string) {
    this.name = name
  }

  get isIdle(): boolean {
    return this.held === 0 && this.waiting.length === 0 && this.next.size === 0
  }
}

/** How many calls may wait in total, per tenant, and per caller in a tenant. */
type Bounds = { readonly all: number; readonly tenant: number; readonly who: number }
const BOUNDS: Bounds = {
  all: LIMITS.waiting_skill_calls,
  tenant: LIMITS.waiting_skill_calls_per_tenant,
  who: LIMITS.waiting_skill_calls_per_agent,
}

export class ConcurrencySlots {
  readonly #all: number
  readonly #bounds: Bounds
  readonly #root = new Sharer('')
  readonly #taken = new WaiterLeases<readonly Sharer[]>()

  constructor(all: number, bounds: Bounds = BOUNDS) {
    this.#all = all
    this.#bounds = bounds
  }

  /**
   * Whether one more call of this caller would exceed a bound on waiting calls. At the total or the
   * tenant bound, a caller that has less than an equal share is still let in.
   */
  isFull([tenant, who]: SlotCaller): boolean {
    const { all, tenant: ofTenant, who: ofWho } = this.#bounds
    const own = this.#root.next.get(tenant)
    return (
      (own?.next.get(who)?.waits ?? 0) >= ofWho ||
      isFull(own, who, ofTenant) ||
      isFull(this.#root, tenant, all)
    )
  }

  /** Like `take`, but returns undefined at once if the queue has no room for this caller. */
  async takeUnlessFull<T>(caller: SlotCaller, ms: number, work: () => Promise<T>): Promise<T | undefined> {
    return this.isFull(caller) ? undefined : this.take(caller, ms, work)
  }

  /**
   * Runs `work` in a slot. After `ms` milliseconds the slot goes to somebody else, ended or not.
   */
  async take<T>(caller: SlotCaller, ms: number, work: () => Promise<T>): Promise<T> {
    const own = new Waiter()
    await this.#enter(own, caller, ms)
    try {
      return await work()
    } finally {
      this.#leave(own)
    }
  }

  async #enter(own: Waiter, caller: SlotCaller, ms: number): Promise<void> {
    this.#reclaimExpired()
    const path = this.#pathOf(caller)
    if (this.#admit(path)) return this.#taken.set(own, path, ms)
    do {
      const path = this.#pathOf(caller)
      const { waiting } = path.at(-1) ?? this.#root
      waiting.push(own)
      for (const sharer of path) sharer.waits += 1
      await own.untilCalled(
        () => Math.min(POLL_MS * (1 + waiting.indexOf(own)), POLL_MAX_MS),
        () => this.#reclaimExpired(),
      )
    } while (!this.#taken.resume(own, ms))
  }

  #reclaimExpired(): void {
    for (const dead of this.#taken.expired()) this.#leave(dead)
  }

  /** The nodes from the root down to the caller's skill; missing ones are created. */
  #pathOf(caller: SlotCaller): readonly Sharer[] {
    const path = [this.#root]
    let last = this.#root
    for (const name of caller) {
      const sharer = last.next.get(name) ?? new Sharer(name)
      last.next.set(name, sharer)
      path.push(sharer)
      last = sharer
    }
    return path
  }

  /** Takes a slot for this path if every level's share allows it; returns whether it did. */
  #admit(path: readonly Sharer[]): boolean {
    let share = this.#all
    if (this.#root.held >= share) return false
    for (const [index, sharer] of path.slice(1).entries()) {
      const above = path[index] ?? this.#root
      const own = shareOf(share, above.next.size, index === 0)
      if (sharer.held > 0 && (sharer.held >= own || above.held + 1 >= share)) return false
      share = own
    }
    for (const sharer of path) sharer.held += 1
    return true
  }

  #leave(own: Waiter): void {
    const path = this.#taken.release(own)
    if (path === undefined) return
    for (const sharer of path) sharer.held -= 1
    for (const [above, sharer] of [2, 1, 0].map((index) => [path[index], path[index + 1]]))
      if (sharer?.isIdle) above?.next.delete(sharer.name)
    while (this.#admitNext([this.#root]));
  }

  /** Admits one waiter at or below the end of this path; returns whether there was one to admit. */
  #admitNext(path: readonly Sharer[]): boolean {
    const last = path.at(-1) ?? this.#root
    if (last.waiting.length > 0 && this.#admit(path)) {
      const [first] = last.waiting.splice(0, 1)
      if (first !== undefined) this.#taken.call(first, path)
      for (const sharer of path) sharer.waits -= 1
      return true
    }
    const admitted = [...last.next.values()].find((sharer) => this.#admitNext([...path, sharer]))
    if (admitted === undefined) return false
    last.next.delete(admitted.name)
    last.next.set(admitted.name, admitted)
    return true
  }
}

/** Whether the node has reached its bound and its child `name` has an equal share of it already. */
function isFull(sharer: Sharer | undefined, name: string, most: number): boolean {
  if (sharer === undefined || sharer.waits < most) return false
  const own = sharer.next.get(name)
  return (
    sharer.waits >= 2 * most || (own?.waits ?? 0) >= most / (sharer.next.size + (own === undefined ? 1 : 0))
  )
}

/**
 * An equal share for each of `by` sharers. Tenants share as if there were one more of them; inside
 * a tenant nobody gets more than all but one of its slots.
 */
const shareOf = (share: number, by: number, isTenant: boolean): number =>
  isTenant ? Math.ceil(share / (by + 1)) : Math.max(1, Math.min(Math.ceil(share / by), share - 1))
