// Counts what a run, its session and its agent have used, for the policies in force. It counts in
// memory, from the stored calls, and only what some policy reads.

import { ulid } from '../../shared/ids.ts'
import type { Env } from '../bindings.ts'
import { agentQuestions, sessionObject } from '../bindings.ts'
import type { CallRecord, RecordedAnswer } from '../call/lifecycle.ts'
import { hasEnded } from '../call/lifecycle.ts'
import type { RunRecord, RunRow } from '../call/run.ts'
import type { AgentUse, Counters, Usage, Used } from '../call/usage.ts'
import { countersOf, sum, usageOf } from '../call/usage.ts'
import type { JudgementInput, ResolvedProposal } from '../decision/proposal.ts'
import { spentBy } from '../decision/proposal.ts'
import { toolNamed } from '../directory/directory.ts'
import type { LoadedDirectory } from '../directory/loaded-directory.ts'
import { isRead } from '../policy/attribute-reads.ts'
import type { RunReads } from './context.ts'

/**
 * A place in the counts of session and agent, taken before the decision. A count is null if no
 * policy reads it, or if it could not be read. `asks`: the place also counts as a question of the
 * agent.
 */
export type UsageReservation = {
  place: string
  key: string
  session: Counters | null
  agent: AgentUse | null
  asks: boolean
  at: number
}
/**
 * No decision uses an older reservation. The session frees the place later than this
 * (session-object.ts).
 */
const RESERVATION_MS = 10_000

export const readsSession = ({ policies }: LoadedDirectory): boolean =>
  isRead(policies.reads.context, ['budget', 'session'])
export const readsAgent = ({ policies }: LoadedDirectory): boolean =>
  isRead(policies.reads.context, ['budget', 'agent'])
/** A shadow set has to see the same counts as a set in force. */
const readsInSomeSet = (
  reads: (directory: LoadedDirectory) => boolean,
  directory: LoadedDirectory,
): boolean => reads(directory) || (directory.shadow !== null && reads(directory.shadow.directory))

/** Stands in for the idempotency key of a call without one. No agent can send it. */
const KEY_OF_CALL = /^§#([0-9]+)$/
const keyOfCall = (n: number): string => `§#${n}`
const callOfKey = (key: string): number | undefined =>
  KEY_OF_CALL.test(key) ? Number(key.slice(2)) : undefined

type ProposedUse = Omit<ResolvedProposal, 'files'> & { key: string | null }
type Totals = { ended: Map<string, Usage>; live: Map<number, CallRecord> }

export class UsageLedger {
  readonly #env: Env
  readonly #store: RunReads
  /**
   * Undefined until a policy reads it. Ended calls are summed by tool; live calls are counted each
   * time.
   */
  #totals: Totals | undefined

  constructor(env: Env, store: RunReads) {
    this.#env = env
    this.#store = store
  }

  /**
   * Takes a place for a proposal in each count that a policy reads; null if none is read or the
   * proposal can't make a new call.
   */
  async reserve(
    directory: LoadedDirectory,
    run: RunRecord,
    { key, tool: name, args }: ProposedUse,
  ): Promise<UsageReservation | null> {
    const tool = toolNamed(directory, run.agent, name)
    const [session, agent] = [readsInSomeSet(readsSession, directory), readsInSomeSet(readsAgent, directory)]
    if (!(session || agent) || tool === undefined || !tool.check(args).ok) return null // invalid arguments will be refused
    if (key !== null && this.#store.callByKey(key) !== undefined) return null
    return this.#reserve(run, key, session ? { tool: name, spent: spentBy(tool, args) } : null, agent)
  }

  /** Places with the same key count as one call. */
  async #reserve(
    run: RunRecord,
    key: string | null,
    call: { tool: string; spent: number } | null,
    agent: boolean,
  ): Promise<UsageReservation> {
    const at = Date.now()
    const place = ulid(at)
    const reservation = { place, key: key ?? `§${place}`, at, asks: false }
    const uncounted = () => null // L6: an unknown count allows nothing
    const [counted, asked] = await Promise.all([
      call === null
        ? null
        : sessionObject(this.#env, run)
            .book({ place, run: run.id, key: reservation.key, ...call })
            .catch(uncounted),
      agent ? agentQuestions(this.#env, run).asked().catch(uncounted) : null,
    ])
    return { ...reservation, session: counted, agent: asked }
  }

  /**
   * Counts a call that would ask people as a question of its agent. The agent's object numbers its
   * questions one after the other, and the call is decided by its number. A proposal that is sent
   * twice at the same moment counts twice in that hour. Without a policy that reads the number, the
   * reservation returns unchanged.
   */
  async reserveQuestion(
    run: RunRecord,
    reservation: UsageReservation | null,
  ): Promise<UsageReservation | null> {
    if (reservation === null || reservation.agent === null) return reservation
    const agent = await agentQuestions(this.#env, run)
      .reserveQuestion(reservation.place)
      .catch(() => null)
    return { ...reservation, agent, asks: true }
  }

  /** The same for a stored call that was not counted when it was proposed. */
  async reserveForCall(
    directory: LoadedDirectory,
    run: RunRecord,
    n: number,
  ): Promise<UsageReservation | null> {
    const record = this.#store.call(n)
    if (record === undefined || hasEnded(record.status)) return null
    const { before, tool, spent = 0 } = record.proposal
    const session = readsSession(directory) && before?.session == null
    const agent = readsAgent(directory) && before?.agent == null
    if (!(session || agent)) return null
    return this.#reserve(run, keyOfCall(n), session ? { tool: tool.name, spent } : null, agent)
  }

  /**
   * Returns the places that the call does not need; `record` is null if the proposal made no call.
   * If the message gets lost, a session frees its place later, and an agent's place counts for an
   * hour.
   */
  async release(
    run: RunRecord,
    { place, session, asks }: UsageReservation,
    record: CallRecord | null,
  ): Promise<void> {
    const released: Promise<void>[] = []
    if (record === null && session !== null) released.push(sessionObject(this.#env, run).release(place))
    if (asks && (record === null || usageOf(record, 0).asks === 0))
      released.push(agentQuestions(this.#env, run).releaseQuestion(place))
    await Promise.allSettled(released)
  }

  /**
   * The facts that policy needs, besides the directory, to decide a stored call again with these
   * answers.
   */
  decisionFacts(
    directory: LoadedDirectory,
    row: RunRow,
    record: CallRecord,
    answers: readonly RecordedAnswer[],
    reservation: UsageReservation | null,
  ): JudgementInput {
    const used = this.usedBefore(directory, row, record.proposal.tool.name, reservation, record)
    return { answers, used, now: Date.now() }
  }

  /**
   * The use before this call: null if no policy of the set reads it, `uncounted` if one reads a
   * count of session or agent that is unknown.
   */
  usedBefore(
    { policies }: LoadedDirectory,
    row: RunRow,
    tool: string,
    reservation: UsageReservation | null,
    record?: CallRecord,
  ): Used | 'uncounted' | null {
    if (!isRead(policies.reads.context, ['budget'])) return null
    const before = record?.proposal.before
    const fresh = reservation !== null && Date.now() - reservation.at < RESERVATION_MS ? reservation : null
    const [session, agent] = [
      before?.session ?? fresh?.session ?? null,
      before?.agent ?? fresh?.agent ?? null,
    ]
    if (session === null && isRead(policies.reads.context, ['budget', 'session'])) return 'uncounted'
    if (agent === null && isRead(policies.reads.context, ['budget', 'agent'])) return 'uncounted'
    return { run: before?.run ?? this.#usedByRun(row, tool, record), session, agent }
  }

  #usedByRun(row: RunRow, tool: string, known: CallRecord | undefined): Counters {
    const now = Date.now()
    const { ended, live } = this.#count()
    const shares = [...live.values()]
      .filter(({ proposal }) => proposal.n !== known?.proposal.n)
      .map((record) => usageOf(record, now))
    // A refused proposal makes no call and still counts as denied: only the run's row has that
    // number.
    const calls = row.allowed - (known === undefined ? 0 : 1)
    return { ...countersOf([...ended.values(), ...shares], tool), calls, denied: row.denied }
  }

  #count(): Totals {
    if (this.#totals !== undefined) return this.#totals
    this.#totals = { ended: new Map(), live: new Map() }
    for (const record of this.#store.everyCall()) this.count(record)
    return this.#totals
  }

  /** Counts a committed change. A call ends once (L4), so it is summed once. */
  count(record: CallRecord): void {
    if (this.#totals === undefined) return
    const { ended, live } = this.#totals
    if (!hasEnded(record.status)) {
      live.set(record.proposal.n, record)
      return
    }
    live.delete(record.proposal.n)
    const share = usageOf(record, 0)
    const before = ended.get(share.tool)
    ended.set(share.tool, before === undefined ? share : sum(before, share))
  }

  /** For the session: the use of the calls under these keys; null for a key without a call. */
  shares(keys: readonly string[]): Array<{ share: Usage; ended: boolean } | null> {
    const now = Date.now()
    return keys.map((key) => {
      const n = callOfKey(key)
      const record = n === undefined ? this.#store.callByKey(key) : this.#store.call(n)
      return record === undefined ? null : { share: usageOf(record, now), ended: hasEnded(record.status) }
    })
  }
}
