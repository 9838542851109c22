// Owns the way of every settlement to the edge: kept in the spool, sent, and dropped when the edge has acknowledged it or said finally no.
// What the edge can't take now is sent again until it can, before anything new is claimed. It never changes what it sends; where the edge
// says that it can't be read, the ending alone goes in its place, so that no call is lost for what a tool said.

import type { Signer } from '../../shared/evidence/dsse.ts'
import { err, ok, type Result } from '../../shared/result.ts'
import type { Problem } from '../../shared/routes/client.ts'
import type { Settlement } from '../../shared/wire/workers.ts'
import type { Log } from '../host/log.ts'
import { backoff, type Link, mayChange, NOT_THE_EDGES, unreachable, waited } from '../link/client.ts'
import { inShort } from './attestation.ts'
import type { Spool, Spooled } from './spool.ts'

/** acknowledged; dropped: the edge said finally no; waiting: it is in the backlog. */
export type Sent = 'acknowledged' | 'dropped' | 'waiting'

const LONGEST_REST_MS = 5_000
/** A settlement that an answering edge still won't take so long after its deadline says nothing to anybody: the call has long ended. */
const WORTHLESS_AFTER_MS = 3_600_000

export class Settling {
  readonly #link: Link
  readonly #spool: Spool
  readonly #signer: Signer
  readonly #log: Log
  readonly #backlog = new Map<string, Spooled>()
  /** Aborts the pause between two rounds. */
  #wake = new AbortController()
  #rounds: Promise<void> | undefined
  #reached: Promise<void> = Promise.resolve()
  #markReached: (() => void) | undefined
  #ended = false

  constructor(link: Link, spool: Spool, signer: Signer, log: Log) {
    this.#link = link
    this.#spool = spool
    this.#signer = signer
    this.#log = log
  }

  /** Takes over what a former life left in the spool. */
  adopt(left: readonly Spooled[]): void {
    for (const spooled of left) this.#backlog.set(spooled.call, spooled)
    if (left.length > 0) this.#begin()
  }

  async settle(spooled: Spooled): Promise<Sent> {
    const kept = this.#spool.keep(spooled)
    if (!kept.ok)
      this.#log.warn('a result could not be spooled; it is sent all the same', {
        call: spooled.call,
        reason: kept.error,
      })
    const sent = await this.#send(spooled)
    if (sent === 'acknowledged' || sent === 'dropped') return sent
    this.#backlog.set(spooled.call, spooled)
    this.#begin()
    return 'waiting'
  }

  /** Resolves once the backlog has been offered to an edge that answers: what waits is sent first, then new calls are claimed. */
  offered(): Promise<void> {
    return this.#reached
  }

  get waiting(): number {
    return this.#backlog.size
  }

  /** What is not acknowledged yet is still ours to speak for. */
  spokenFor(): { call: string; fence: number }[] {
    return [...this.#backlog.values()].map(({ call, settlement }) => ({ call, fence: settlement.fence }))
  }

  /** The edge answers again: don't wait for the end of the pause. */
  wake(): void {
    this.#wake.abort()
  }

  /** Resolves when nothing waits. */
  async flushed(): Promise<void> {
    this.wake()
    await this.#rounds
  }

  /** What still waits stays in the spool for the next life. */
  end(): void {
    this.#ended = true
    this.wake()
    this.#markReached?.()
  }

  /** Everything that waits, at once; then again after each rest, until nothing waits. */
  #begin(): void {
    if (this.#rounds !== undefined || this.#ended) return
    this.#reached = new Promise((done) => {
      this.#markReached = done
    })
    this.#rounds = this.#sendAll().finally(() => {
      this.#markReached?.()
      this.#rounds = undefined
    })
  }

  async #sendAll(): Promise<void> {
    for (const rest of backoff(LONGEST_REST_MS)) {
      if (await this.#round()) this.#markReached?.()
      if (this.#backlog.size === 0 || this.#ended) return
      this.#wake = new AbortController()
      await waited(rest, this.#wake.signal)
    }
  }

  /** Offers each once. Whether the edge was there to answer. */
  async #round(): Promise<boolean> {
    for (const spooled of [...this.#backlog.values()]) {
      if (this.#ended) return false
      const sent = await this.#send(spooled)
      if (sent === 'away') return false
      if (sent !== 'waiting' && this.#backlog.get(spooled.call) === spooled)
        this.#backlog.delete(spooled.call) // a later one came meanwhile
    }
    return true
  }

  async #send({ call, deadline_ms, settlement }: Spooled): Promise<Sent | 'away'> {
    const answer = await this.#tell(call, settlement)
    if (answer.ok) {
      this.#spool.drop(call, settlement.fence)
      return 'acknowledged'
    }
    if (unreachable(answer.error)) return 'away'
    const { status, code, detail } = answer.error
    const worthless = this.#link.clock.now() > deadline_ms + WORTHLESS_AFTER_MS
    if (!final(answer.error) && !worthless) return 'waiting'
    this.#spool.drop(call, settlement.fence)
    this.#log.warn('the edge did not take a result; it is dropped', { call, status, code, detail })
    return 'dropped'
  }

  /** Whole, and in short where that can't be read. The whole is what the spool keeps. */
  async #tell(call: string, whole: Settlement): Promise<Result<void, Problem>> {
    const answer = await this.#ask(whole)
    const short =
      answer.ok || !UNREAD.includes(answer.error.status) ? undefined : inShort(whole, this.#signer)
    if (answer.ok || short === undefined) return answer
    const { status, code, detail } = answer.error
    const again = await this.#ask(short)
    if (again.ok)
      this.#log.warn('the edge did not take a result as it was; it has the ending alone', {
        call,
        status,
        code,
        detail,
      })
    return again
  }

  /** Acknowledged is what the edge has countersigned, and nothing else: a yes to another statement comes from something between. */
  async #ask(settlement: Settlement): Promise<Result<void, Problem>> {
    const answer = await this.#link.ask('settle', { body: settlement })
    if (!answer.ok) return answer
    return answer.value.attestation.payload === settlement.envelope.payload
      ? ok(undefined)
      : err(NOT_THE_EDGES)
  }
}

/** The edge could not read what we said, or did not believe it: another word of us may be taken. */
const UNREAD: readonly number[] = [400, 413, 422]

/** A revoked worker may be let in again, and a policy may change: those refusals keep the result. */
const final = (problem: Problem): boolean =>
  !mayChange(problem) && problem.status !== 401 && problem.status !== 403
