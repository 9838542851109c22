// Delivers settlements to the edge: spools each one, sends it, and drops it once the edge
// acknowledges or finally refuses it. Undelivered settlements are retried before new calls are
// claimed (J02). A settlement is never changed; if the edge can't parse it, the ending alone is
// sent in its place.

import type { Signer } from '../../shared/evidence/dsse.ts'
import { err, ok, type Result } from '../../shared/result.ts'
import type { Problem } from '../../shared/routes/client.ts'
import type { Settlement } from '../../shared/wire/workers.ts'
import type { Log } from '../host/log.ts'
import {
  backoff,
  type EdgeLink,
  isTransient,
  isUnreachable,
  NOT_FROM_EDGE,
  pauseUnlessAborted,
} from '../link/client.ts'
import { shortSettlement } from './attestation.ts'
import type { Spool, SpooledSettlement } from './spool.ts'

/** dropped: the edge refused it finally. waiting: it is in the backlog. */
export type SettlementStatus = 'acknowledged' | 'dropped' | 'waiting'

const LONGEST_PAUSE_MS = 5_000
/**
 * A settlement that a reachable edge still refuses this long after the deadline is useless: its
 * call ended long ago.
 */
const USELESS_AFTER_MS = 3_600_000

export class SettlementSender {
  readonly #link: EdgeLink
  readonly #spool: Spool
  readonly #signer: Signer
  readonly #log: Log
  readonly #backlog = new Map<string, SpooledSettlement>()
  /** Aborts the pause between two rounds. */
  #wake = new AbortController()
  #rounds: Promise<void> | undefined
  #offered: Promise<void> = Promise.resolve()
  #markOffered: (() => void) | undefined
  #ended = false

  constructor(link: EdgeLink, spool: Spool, signer: Signer, log: Log) {
    this.#link = link
    this.#spool = spool
    this.#signer = signer
    this.#log = log
  }

  /** Adds the settlements that an earlier process left in the spool to the backlog. */
  adopt(left: readonly SpooledSettlement[]): void {
    for (const spooled of left) this.#backlog.set(spooled.call, spooled)
    if (left.length > 0) this.#start()
  }

  async settle(spooled: SpooledSettlement): Promise<SettlementStatus> {
    const stored = this.#spool.keep(spooled)
    if (!stored.ok)
      this.#log.warn('a result could not be spooled; it is sent anyway', {
        call: spooled.call,
        reason: stored.error,
      })
    const sent = await this.#send(spooled)
    if (sent === 'acknowledged' || sent === 'dropped') return sent
    this.#backlog.set(spooled.call, spooled)
    this.#start()
    return 'waiting'
  }

  /**
   * Resolves once a reachable edge has been offered the whole backlog; new calls are claimed only
   * then.
   */
  whenOffered(): Promise<void> {
    return this.#offered
  }

  get waiting(): number {
    return this.#backlog.size
  }

  /** Calls whose settlement waits: heartbeats keep naming them, so that their leases hold. */
  leasedCalls(): { call: string; fence: number }[] {
    return [...this.#backlog.values()].map(({ call, settlement }) => ({ call, fence: settlement.fence }))
  }

  /** Ends the current pause, because the edge answers again. */
  wake(): void {
    this.#wake.abort()
  }

  /** Resolves when the backlog is empty. */
  async whenFlushed(): Promise<void> {
    this.wake()
    await this.#rounds
  }

  /** Stops sending. The backlog stays in the spool for the next process. */
  end(): void {
    this.#ended = true
    this.wake()
    this.#markOffered?.()
  }

  /** Offers the backlog now, and again after each pause, until it is empty. */
  #start(): void {
    if (this.#rounds !== undefined || this.#ended) return
    this.#offered = new Promise((done) => {
      this.#markOffered = done
    })
    this.#rounds = this.#sendAll().finally(() => {
      this.#markOffered?.()
      this.#rounds = undefined
    })
  }

  async #sendAll(): Promise<void> {
    for (const pause_ms of backoff(LONGEST_PAUSE_MS)) {
      if (await this.#round()) this.#markOffered?.()
      if (this.#backlog.size === 0 || this.#ended) return
      this.#wake = new AbortController()
      await pauseUnlessAborted(pause_ms, this.#wake.signal)
    }
  }

  /** Offers each settlement once. False if the edge was unreachable. */
  async #round(): Promise<boolean> {
    for (const spooled of [...this.#backlog.values()]) {
      if (this.#ended) return false
      const sent = await this.#send(spooled)
      if (sent === 'away') return false
      // A later settlement of the call may have replaced it.
      if (sent !== 'waiting' && this.#backlog.get(spooled.call) === spooled)
        this.#backlog.delete(spooled.call)
    }
    return true
  }

  async #send({ call, deadline_ms, settlement }: SpooledSettlement): Promise<SettlementStatus | 'away'> {
    const answer = await this.#deliver(call, settlement)
    if (answer.ok) {
      this.#spool.drop(call, settlement.fence)
      return 'acknowledged'
    }
    if (isUnreachable(answer.error)) return 'away'
    const { status, code, detail } = answer.error
    const useless = this.#link.clock.now() > deadline_ms + USELESS_AFTER_MS
    if (!final(answer.error) && !useless) return 'waiting'
    this.#spool.drop(call, settlement.fence)
    this.#log.warn('the edge refused a result; it is dropped', { call, status, code, detail })
    return 'dropped'
  }

  /**
   * Sends the whole settlement, then the short one if the edge can't parse the whole. The spool
   * keeps the whole.
   */
  async #deliver(call: string, whole: Settlement): Promise<Result<void, Problem>> {
    const answer = await this.#post(whole)
    const short =
      answer.ok || !UNPARSED.includes(answer.error.status) ? undefined : shortSettlement(whole, this.#signer)
    if (answer.ok || short === undefined) return answer
    const { status, code, detail } = answer.error
    const again = await this.#post(short)
    if (again.ok)
      this.#log.warn('the edge refused the full result of a call and accepted its ending alone', {
        call,
        status,
        code,
        detail,
      })
    return again
  }

  /**
   * Only a countersignature of this very statement acknowledges it; any other success comes from a
   * middlebox.
   */
  async #post(settlement: Settlement): Promise<Result<void, Problem>> {
    const answer = await this.#link.request('settle', { body: settlement })
    if (!answer.ok) return answer
    return answer.value.attestation.payload === settlement.envelope.payload
      ? ok(undefined)
      : err(NOT_FROM_EDGE)
  }
}

/**
 * The edge could not parse the settlement or found it contradictory; a shorter one may be accepted.
 */
const UNPARSED: readonly number[] = [400, 413, 422]

/** 401 and 403 are not final: a revoked worker may be readmitted, and policy may change. */
const final = (problem: Problem): boolean =>
  !isTransient(problem) && problem.status !== 401 && problem.status !== 403
