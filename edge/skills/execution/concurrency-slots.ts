// Who of those that call skills at the same time is let in: first come, first served, as long as others have their share. Tenants share all places,
// in each of them those who call share its own, and of those each shares it among the skills that it calls. On every level one is kept free, so
// that whoever comes next waits for nobody; where there are more of them than places, the last one goes to none who holds one. How many may
// wait is shared as well: each keeps an object open.

import { LIMITS } from '../../../shared/limits.ts'
import { Leases, Waiting } from './cpu-turns.ts'

/** Those that wait may be many, and wait for a call of somebody else to end: whoever has others before them looks more rarely. */
const [LOOK_MS, LOOK_MOST_MS] = [5, 250]

/** Of what, who and what for: a tenant, somebody in it, and a skill. */
export type Caller = readonly [tenant: string, who: string, skill: string]

/** One of a level, as long as it holds a place or waits; the next level's by turns: who has just been let in is behind the others. */
class Line {
  readonly name: string
  held = 0
  readonly waiting: Waiting[] = []
  /** Those that wait in it, and in all that are of it. */
  waits = 0
  readonly next = new Map<string, Line>()

  constructor(name: string) {
    this.name = name
  }

  get isOver(): boolean {
    return this.held === 0 && this.waiting.length === 0 && this.next.size === 0
  }
}

/** How many may wait in all, of one tenant, and of one in it. */
type Bounds = { readonly all: number; readonly tenant: number; readonly who: number }
const BOUNDS: Bounds = {
  all: LIMITS.waiting_skill_calls,
  tenant: LIMITS.waiting_skill_calls_per_tenant,
  who: LIMITS.waiting_skill_calls_per_agent,
}

export class Places {
  readonly #all: number
  readonly #bounds: Bounds
  readonly #root = new Line('')
  readonly #taken = new Leases<readonly Line[]>()

  constructor(all: number, bounds: Bounds = BOUNDS) {
    this.#all = all
    this.#bounds = bounds
  }

  /**
   * Whether one more of this caller would be too many. Where those of all tenants are, or of all in one, are as many as may, who has less than an
   * equal share of it gets in still.
   */
  full([tenant, who]: Caller): boolean {
    const { all, tenant: ofTenant, who: ofWho } = this.#bounds
    const own = this.#root.next.get(tenant)
    return (
      (own?.next.get(who)?.waits ?? 0) >= ofWho ||
      isFull(own, who, ofTenant) ||
      isFull(this.#root, tenant, all)
    )
  }

  /** The same, and undefined where it would have to wait and too many do. */
  async takeOrLeave<T>(caller: Caller, ms: number, work: () => Promise<T>): Promise<T | undefined> {
    return this.full(caller) ? undefined : this.take(caller, ms, work)
  }

  /** Does `work` of this caller when there is a place, which is somebody else's if it has not ended after so many milliseconds. */
  async take<T>(caller: Caller, ms: number, work: () => Promise<T>): Promise<T> {
    const own = new Waiting()
    await this.#enter(own, caller, ms)
    try {
      return await work()
    } finally {
      this.#leave(own)
    }
  }

  async #enter(own: Waiting, caller: Caller, ms: number): Promise<void> {
    this.#takeBack()
    const lines = this.#linesOf(caller)
    if (this.#enters(lines)) return this.#taken.give(own, lines, ms)
    do {
      const lines = this.#linesOf(caller)
      const { waiting } = lines.at(-1) ?? this.#root
      waiting.push(own)
      for (const line of lines) line.waits += 1
      await own.isHeard(
        () => Math.min(LOOK_MS * (1 + waiting.indexOf(own)), LOOK_MOST_MS),
        () => this.#takeBack(),
      )
    } while (!this.#taken.comes(own, ms))
  }

  /** What the dead hold. */
  #takeBack(): void {
    for (const dead of this.#taken.overdue()) this.#leave(dead)
  }

  /** The root first, of which everybody is. */
  #linesOf(caller: Caller): readonly Line[] {
    const lines = [this.#root]
    let last = this.#root
    for (const name of caller) {
      const line = last.next.get(name) ?? new Line(name)
      last.next.set(name, line)
      lines.push(line)
      last = line
    }
    return lines
  }

  #enters(lines: readonly Line[]): boolean {
    let share = this.#all
    if (this.#root.held >= share) return false
    for (const [index, line] of lines.slice(1).entries()) {
      const above = lines[index] ?? this.#root
      const own = shareOf(share, above.next.size, index === 0)
      if (line.held > 0 && (line.held >= own || above.held + 1 >= share)) return false
      share = own
    }
    for (const line of lines) line.held += 1
    return true
  }

  #leave(own: Waiting): void {
    const lines = this.#taken.end(own)
    if (lines === undefined) return
    for (const line of lines) line.held -= 1
    for (const [above, line] of [2, 1, 0].map((index) => [lines[index], lines[index + 1]]))
      if (line?.isOver) above?.next.delete(line.name)
    while (this.#admits([this.#root]));
  }

  /** One of those that wait behind these lines. */
  #admits(lines: readonly Line[]): boolean {
    const last = lines.at(-1) ?? this.#root
    if (last.waiting.length > 0 && this.#enters(lines)) {
      const [first] = last.waiting.splice(0, 1)
      if (first !== undefined) this.#taken.call(first, lines)
      for (const line of lines) line.waits -= 1
      return true
    }
    const admitted = [...last.next.values()].find((line) => this.#admits([...lines, line]))
    if (admitted === undefined) return false
    last.next.delete(admitted.name)
    last.next.set(admitted.name, admitted)
    return true
  }
}

/** Of what may wait in a line, all that may do, and whoever is next in it has a share of their own. */
function isFull(line: Line | undefined, name: string, most: number): boolean {
  if (line === undefined || line.waits < most) return false
  const own = line.next.get(name)
  return line.waits >= 2 * most || (own?.waits ?? 0) >= most / (line.next.size + (own === undefined ? 1 : 0))
}

/** Of so many that share it: as if one more tenant were there, and all but one of what a tenant or one in it has. */
const shareOf = (share: number, by: number, ofAll: boolean): number =>
  ofAll ? Math.ceil(share / (by + 1)) : Math.max(1, Math.min(Math.ceil(share / by), share - 1))
