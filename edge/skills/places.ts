// Who of those that call skills at the same time is let in: first come, first served, as long as others have their share. Tenants share all places,
// in each of them those who call share its own, and of those each shares it among the skills that it calls. On every level one is kept free, so
// that whoever comes next waits for nobody; where there are more of them than places, the last one goes to none who holds one.

import { Leases, Waiting } from './turns.ts'

/** Those that wait may be many, and wait for a call of somebody else to end. */
const LOOK_MS = 5

/** Of what, who and what for: a tenant, somebody in it, and a skill. */
export type Caller = readonly [tenant: string, who: string, skill: string]

/** One of a level, as long as it holds a place or waits; the next level's by turns: who has just been let in is behind the others. */
class Line {
  readonly name: string
  held = 0
  readonly waiting: Waiting[] = []
  readonly next = new Map<string, Line>()

  constructor(name: string) {
    this.name = name
  }

  get isOver(): boolean {
    return this.held === 0 && this.waiting.length === 0 && this.next.size === 0
  }
}

export class Places {
  readonly #all: number
  readonly #root = new Line('')
  readonly #taken = new Leases<readonly Line[]>()

  constructor(all: number) {
    this.#all = all
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
      this.#linesOf(caller).at(-1)?.waiting.push(own)
      await own.isHeard(LOOK_MS, () => this.#takeBack())
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
    for (const [above, line] of [2, 1, 0].map((index) => [lines[index], lines[index + 1]])) if (line?.isOver) above?.next.delete(line.name)
    while (this.#admits([this.#root]));
  }

  /** One of those that wait behind these lines. */
  #admits(lines: readonly Line[]): boolean {
    const last = lines.at(-1) ?? this.#root
    if (last.waiting.length > 0 && this.#enters(lines)) {
      const [first] = last.waiting.splice(0, 1)
      if (first !== undefined) this.#taken.call(first, lines)
      return true
    }
    const admitted = [...last.next.values()].find((line) => this.#admits([...lines, line]))
    if (admitted === undefined) return false
    last.next.delete(admitted.name)
    last.next.set(admitted.name, admitted)
    return true
  }
}

/** Of so many that share it: as if one more tenant were there, and all but one of what a tenant or one in it has. */
const shareOf = (share: number, by: number, ofAll: boolean): number =>
  ofAll ? Math.ceil(share / (by + 1)) : Math.max(1, Math.min(Math.ceil(share / by), share - 1))
