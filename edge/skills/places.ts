// Who of those that call skills at the same time is let in: first come, first served, as long as others have their share. Tenants share all places,
// and in each of them those who call share its own. One share more than there are tenants is kept free, so that whoever comes next waits for
// nobody; where there are more of them than places, the last one goes to none who holds one.

/** In a tenant, somebody: whatever they call, and however often, they have one share. */
export type Caller = { readonly tenant: string; readonly who: string }

/** Of one tenant. */
type Group = { readonly held: Map<string, number>; readonly waiting: Map<string, (() => void)[]> }
const heldIn = ({ held }: Group): number => [...held.values()].reduce((sum, each) => sum + each, 0)

export class Places {
  readonly #all: number
  /** Those that hold one or wait, by turns: who has just been let in is behind the others, among tenants and within each. */
  readonly #groups = new Map<string, Group>()

  constructor(all: number) {
    this.#all = all
  }

  /** Does `work` of this caller when there is a place. */
  async take<T>(caller: Caller, work: () => Promise<T>): Promise<T> {
    const group = this.#groups.get(caller.tenant) ?? { held: new Map(), waiting: new Map() }
    this.#groups.set(caller.tenant, group)
    if (!this.#enters(group, caller.who)) await new Promise<void>((resolve) => wait(group, caller.who, resolve))
    try {
      return await work()
    } finally {
      this.#leave(group, caller)
    }
  }

  #enters(group: Group, who: string): boolean {
    const free = this.#all - [...this.#groups.values()].reduce((sum, each) => sum + heldIn(each), 0)
    const [inUse, own] = [heldIn(group), group.held.get(who) ?? 0]
    const share = Math.ceil(this.#all / (this.#groups.size + 1))
    if (free === 0 || (inUse > 0 && (free === 1 || inUse >= share))) return false
    const callers = new Set([...group.held.keys(), ...group.waiting.keys(), who]).size
    if (own > 0 && (own >= Math.ceil(share / callers) || inUse + 1 >= share)) return false
    group.held.set(who, own + 1)
    return true
  }

  #leave(group: Group, { tenant, who }: Caller): void {
    const own = (group.held.get(who) ?? 1) - 1
    if (own === 0) group.held.delete(who)
    else group.held.set(who, own)
    if (group.held.size + group.waiting.size === 0) this.#groups.delete(tenant)
    while ([...this.#groups].some(([name, next]) => this.#admits(name, next)));
  }

  /** One of those that wait. */
  #admits(tenant: string, group: Group): boolean {
    const who = [...group.waiting.keys()].find((next) => this.#enters(group, next))
    if (who === undefined) return false
    const [first, ...rest] = group.waiting.get(who) ?? []
    group.waiting.delete(who)
    if (rest.length > 0) group.waiting.set(who, rest)
    this.#groups.delete(tenant)
    this.#groups.set(tenant, group)
    first?.()
    return true
  }
}

function wait({ waiting }: Group, who: string, resolve: () => void): void {
  const line = waiting.get(who)
  if (line === undefined) waiting.set(who, [resolve])
  else line.push(resolve)
}
