// What a run and its session have used, as the policies in force can see it. It counts only where they read it, in memory; what is stored
// are the calls themselves. It decides nothing.

import { ulid } from '../shared/ids.ts'
import type { Loaded } from './directory.ts'
import type { Env } from './env.ts'
import { sessionObject } from './env.ts'
import type { Answered, CallRecord } from './lifecycle.ts'
import { hasEnded } from './lifecycle.ts'
import { isRead } from './policy-reads.ts'
import type { Asked, Knowing } from './proposal.ts'
import { spentBy } from './proposal.ts'
import type { RunRecord, RunRow } from './run-record.ts'
import type { RunStore } from './run-store.ts'
import type { Counters, Share, Used } from './usage.ts'
import { countersOf, shareOf, sum } from './usage.ts'

/** A place in the session's count, taken before the decision that it is for. `session` is `null` where it could not be had. */
export type Booked = { place: string; key: string; session: Counters | null; at: number }
/** What the session gives away again after longer (session-object.ts) must not be decided by. */
const BOOKED_MS = 10_000

export const readsSession = ({ policies }: Loaded): boolean => isRead(policies.reads.context, ['budget', 'session'])
/** A set that only shadows must see what it would see in force. */
const someReadSession = (directory: Loaded): boolean =>
  readsSession(directory) || (directory.shadow !== null && readsSession(directory.shadow.directory))

/** A call that is known by its number alone; no agent can send this as its key. */
const KEY_OF = /^§#([0-9]+)$/
const keyOfCall = (n: number): string => `§#${n}`
const callOfKey = (key: string): number | undefined => (KEY_OF.test(key) ? Number(key.slice(2)) : undefined)

export class Ledger {
  readonly #env: Env
  readonly #store: RunStore
  /** Undefined until policy reads it: then what has ended is summed by tool, and what lives is looked at anew. */
  #counted: { ended: Map<string, Share>; live: Map<number, CallRecord> } | undefined

  constructor(env: Env, store: RunStore) {
    this.#env = env
    this.#store = store
  }

  /** Takes a place in the session for what is proposed, where policy reads what is counted there. */
  async book(directory: Loaded, run: RunRecord, { key, tool: name, args }: Asked & { key: string | null }): Promise<Booked | null> {
    const tool = directory.tools.get(name)
    if (!someReadSession(directory) || tool === undefined || !tool.check(args).ok) return null // what does not fit is refused, and takes no place
    if (key !== null && this.#store.callByKey(key) !== undefined) return null
    return this.#place(run, key, name, spentBy(tool, args))
  }

  /** Places of one key are one call. */
  async #place(run: RunRecord, key: string | null, tool: string, spent: number): Promise<Booked> {
    const at = Date.now()
    const place = ulid(at)
    const booked = { place, key: key ?? `§${place}`, at }
    try {
      return { ...booked, session: await sessionObject(this.#env, run).book({ place, run: run.id, key: booked.key, tool, spent }) }
    } catch {
      return { ...booked, session: null } // L6: who can't be asked has not said yes
    }
  }

  /** The same for a call that is known already: when it was proposed, nobody counted. */
  async bookCall(directory: Loaded, run: RunRecord, n: number): Promise<Booked | null> {
    const record = this.#store.call(n)
    if (!readsSession(directory) || record === undefined || hasEnded(record.status) || record.proposal.before?.session != null) return null
    return this.#place(run, keyOfCall(n), record.proposal.tool.name, record.proposal.spent ?? 0)
  }

  /** A place that came to nothing; unsaid, it is given away later. */
  release(run: RunRecord, { place }: Booked): Promise<void> {
    return sessionObject(this.#env, run)
      .release(place)
      .catch(() => undefined)
  }

  /** What it takes to decide a call that is known. */
  knowing(directory: Loaded, row: RunRow, record: CallRecord, answers: readonly Answered[], booked: Booked | null): Knowing {
    return { answers, used: this.used(directory, row, record.proposal.tool.name, booked, record), now: Date.now() }
  }

  /** What was used before this call, or `null` where nobody reads it. A refusal where the session should count, and does not. */
  used({ policies }: Loaded, row: RunRow, tool: string, booked: Booked | null, known?: CallRecord): Used | 'uncounted' | null {
    if (!isRead(policies.reads.context, ['budget'])) return null
    const before = known?.proposal.before
    const session = before?.session ?? (booked !== null && Date.now() - booked.at < BOOKED_MS ? booked.session : null)
    if (session === null && isRead(policies.reads.context, ['budget', 'session'])) return 'uncounted'
    return { run: before?.run ?? this.#run(row, tool, known), session }
  }

  #run(row: RunRow, tool: string, known: CallRecord | undefined): Counters {
    const now = Date.now()
    const { ended, live } = this.#count()
    const shares = [...live.values()].filter(({ proposal }) => proposal.n !== known?.proposal.n).map((record) => shareOf(record, now))
    // Refused proposals are no calls, and yet they were denied: the run's own row knows.
    return { ...countersOf([...ended.values(), ...shares], tool), calls: row.allowed - (known === undefined ? 0 : 1), denied: row.denied }
  }

  #count() {
    if (this.#counted !== undefined) return this.#counted
    this.#counted = { ended: new Map(), live: new Map() }
    for (const record of this.#store.everyCall()) this.note(record)
    return this.#counted
  }

  /** Each new state of a call. A call ends once (L4), so it is summed once. */
  note(record: CallRecord): void {
    if (this.#counted === undefined) return
    const { ended, live } = this.#counted
    if (!hasEnded(record.status)) {
      live.set(record.proposal.n, record)
      return
    }
    live.delete(record.proposal.n)
    const share = shareOf(record, 0)
    const before = ended.get(share.tool)
    ended.set(share.tool, before === undefined ? share : sum(before, share))
  }

  /** What was noted may not have been stored: count again. */
  forget(): void {
    this.#counted = undefined
  }

  /** For the session: what has become of the calls under these keys; `null` where there is none. */
  shares(keys: readonly string[]): Array<{ share: Share; ended: boolean } | null> {
    const now = Date.now()
    return keys.map((key) => {
      const n = callOfKey(key)
      const record = n === undefined ? this.#store.callByKey(key) : this.#store.call(n)
      return record === undefined ? null : { share: shareOf(record, now), ended: hasEnded(record.status) }
    })
  }
}
