// What a run and its session have used, as the policies in force can see it. It counts only where they read it, in memory; what is stored
// are the calls themselves. It decides nothing.

import { ulid } from '../../shared/ids.ts'
import type { Env } from '../bindings.ts'
import { agentQuestions, sessionObject } from '../bindings.ts'
import type { Answered, CallRecord } from '../call/lifecycle.ts'
import { hasEnded } from '../call/lifecycle.ts'
import type { RunRecord, RunRow } from '../call/run.ts'
import type { AgentUse, Counters, Share, Used } from '../call/usage.ts'
import { countersOf, shareOf, sum } from '../call/usage.ts'
import type { Asked, Knowing } from '../decision/proposal.ts'
import { spentBy } from '../decision/proposal.ts'
import type { Loaded } from '../directory/directory.ts'
import { isRead } from '../policy/attribute-reads.ts'
import type { RunStore } from './store.ts'

/**
 * A place in the counts that policy reads, taken before the decision that it is for. `null` is what nobody reads, or could not be
 * had. `asks`: it counts among the agent's questions.
 */
export type Booked = {
  place: string
  key: string
  session: Counters | null
  agent: AgentUse | null
  asks: boolean
  at: number
}
/** What the session gives away again after longer (session-object.ts) must not be decided by. */
const BOOKED_MS = 10_000

export const readsSession = ({ policies }: Loaded): boolean =>
  isRead(policies.reads.context, ['budget', 'session'])
export const readsAgent = ({ policies }: Loaded): boolean =>
  isRead(policies.reads.context, ['budget', 'agent'])
/** A set that only shadows must see what it would see in force. */
const inSomeSet = (reads: (directory: Loaded) => boolean, directory: Loaded): boolean =>
  reads(directory) || (directory.shadow !== null && reads(directory.shadow.directory))

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

  /** Takes a place in each count that policy reads, for what is proposed. */
  async book(
    directory: Loaded,
    run: RunRecord,
    { key, tool: name, args }: Omit<Asked, 'files'> & { key: string | null },
  ): Promise<Booked | null> {
    const tool = directory.tools.get(name)
    const [session, agent] = [inSomeSet(readsSession, directory), inSomeSet(readsAgent, directory)]
    if (!(session || agent) || tool === undefined || !tool.check(args).ok) return null // what does not fit is refused, and takes no place
    if (key !== null && this.#store.callByKey(key) !== undefined) return null
    return this.#place(run, key, session ? { tool: name, spent: spentBy(tool, args) } : null, agent)
  }

  /** Places of one key are one call. */
  async #place(
    run: RunRecord,
    key: string | null,
    call: { tool: string; spent: number } | null,
    agent: boolean,
  ): Promise<Booked> {
    const at = Date.now()
    const place = ulid(at)
    const booked = { place, key: key ?? `§${place}`, at, asks: false }
    const nothing = () => null // L6: who can't be asked has not said yes
    const [counted, asked] = await Promise.all([
      call === null
        ? null
        : sessionObject(this.#env, run)
            .book({ place, run: run.id, key: booked.key, ...call })
            .catch(nothing),
      agent ? agentQuestions(this.#env, run).asked().catch(nothing) : null,
    ])
    return { ...booked, session: counted, agent: asked }
  }

  /**
   * It would ask people: from here on it counts as a question, one after the other, and is to be decided by the number that it got.
   * A proposal that is made twice at the same moment counts twice for its hour.
   */
  async asking(run: RunRecord, booked: Booked | null): Promise<Booked | null> {
    if (booked === null || booked.agent === null) return booked
    const agent = await agentQuestions(this.#env, run)
      .mayAsk(booked.place)
      .catch(() => null)
    return { ...booked, agent, asks: true }
  }

  /** The same for a call that is known already: when it was proposed, nobody counted. */
  async bookCall(directory: Loaded, run: RunRecord, n: number): Promise<Booked | null> {
    const record = this.#store.call(n)
    if (record === undefined || hasEnded(record.status)) return null
    const { before, tool, spent = 0 } = record.proposal
    const session = readsSession(directory) && before?.session == null
    const agent = readsAgent(directory) && before?.agent == null
    if (!(session || agent)) return null
    return this.#place(run, keyOfCall(n), session ? { tool: tool.name, spent } : null, agent)
  }

  /** What became of a place: nothing, or this call. Unsaid, a session gives it away later, and an agent's counts for its hour. */
  async settled(run: RunRecord, { place, session, asks }: Booked, record: CallRecord | null): Promise<void> {
    const told: Promise<void>[] = []
    if (record === null && session !== null) told.push(sessionObject(this.#env, run).release(place))
    if (asks && (record === null || shareOf(record, 0).asks === 0))
      told.push(agentQuestions(this.#env, run).asksNobody(place))
    await Promise.allSettled(told)
  }

  /** What it takes to decide a call that is known. */
  knowing(
    directory: Loaded,
    row: RunRow,
    record: CallRecord,
    answers: readonly Answered[],
    booked: Booked | null,
  ): Knowing {
    return {
      answers,
      used: this.used(directory, row, record.proposal.tool.name, booked, record),
      now: Date.now(),
    }
  }

  /** What was used before this call, or `null` where nobody reads it. A refusal where session or agent should be counted, and are not. */
  used(
    { policies }: Loaded,
    row: RunRow,
    tool: string,
    booked: Booked | null,
    known?: CallRecord,
  ): Used | 'uncounted' | null {
    if (!isRead(policies.reads.context, ['budget'])) return null
    const before = known?.proposal.before
    const fresh = booked !== null && Date.now() - booked.at < BOOKED_MS ? booked : null
    const [session, agent] = [
      before?.session ?? fresh?.session ?? null,
      before?.agent ?? fresh?.agent ?? null,
    ]
    if (session === null && isRead(policies.reads.context, ['budget', 'session'])) return 'uncounted'
    if (agent === null && isRead(policies.reads.context, ['budget', 'agent'])) return 'uncounted'
    return { run: before?.run ?? this.#run(row, tool, known), session, agent }
  }

  #run(row: RunRow, tool: string, known: CallRecord | undefined): Counters {
    const now = Date.now()
    const { ended, live } = this.#count()
    const shares = [...live.values()]
      .filter(({ proposal }) => proposal.n !== known?.proposal.n)
      .map((record) => shareOf(record, now))
    // Refused proposals are no calls, and yet they were denied: the run's own row knows.
    return {
      ...countersOf([...ended.values(), ...shares], tool),
      calls: row.allowed - (known === undefined ? 0 : 1),
      denied: row.denied,
    }
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
