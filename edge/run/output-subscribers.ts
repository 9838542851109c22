// Serves live output to subscribers: the state of a call, its stored output in bounded pieces, and
// its end. Subscribers pull: each sends its position, so a slow reader costs no buffer here. Only
// waiters and stream slots are in memory.

import { failure } from '../../shared/failures.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { LiveEnd, LiveState } from '../../shared/wire/output-events.ts'
import type { CallRecord } from '../call/lifecycle.ts'
import { hasEnded } from '../call/lifecycle.ts'
import { removalOf } from '../call/removal.ts'
import { StreamSlots } from '../platform/stream-slots.ts'
import { completeUtf8Length } from '../platform/utf8-boundary.ts'
import { Waiters } from '../platform/waiters.ts'
import type { RunStore } from './store.ts'
import { liveEndOf } from './views.ts'

export type Stream = 'stdout' | 'stderr'
const STREAMS: readonly Stream[] = ['stdout', 'stderr']

/** A subscriber's position: the attempt, an offset in each stream, and the last state sent. */
export type StreamPosition = { attempt: number; stdout: number; stderr: number; state: LiveState | null }
/** `id` names one stream; the slots of one `owner` are counted together. */
export type Subscriber = { id: string; owner: string }
export type OutputPiece = { stream: Stream; offset: number; bytes: Uint8Array }
/** The output after a position, in the order of delivery; empty if nothing happened in time. */
export type OutputUpdate = {
  position: StreamPosition
  changed: boolean
  pieces: OutputPiece[]
  end: LiveEnd | null
}

const NO_CALL = failure('not_found', 'no such call')

export class OutputSubscribers {
  readonly #store: Pick<RunStore, 'outputFrom'>
  readonly #waiters = new Waiters<number>()
  readonly #slots = new StreamSlots(LIMITS.streams_run)

  constructor(store: Pick<RunStore, 'outputFrom'>) {
    this.#store = store
  }

  /** Resumes the subscribers of a call that has changed. */
  wake(n: number): void {
    this.#waiters.wake(n)
  }

  isAwaited(n: number): boolean {
    return this.#waiters.isAwaited(n)
  }

  leave({ id }: Subscriber): void {
    this.#slots.leave(id)
  }

  /**
   * Returns at once if there is something after `position`, and otherwise when the call changes or
   * after `ms`. `readCall` returns the call as long as the reader may see it. `subscriber` is null
   * for a single read, which takes no stream slot.
   */
  async next(
    readCall: () => CallRecord | undefined,
    subscriber: Subscriber | null,
    position: StreamPosition,
    ms: number,
  ): Promise<Result<OutputUpdate>> {
    const record = readCall()
    if (record === undefined) return err(NO_CALL)
    const removed = removalOf(record, 'outputs')
    if (removed !== undefined) return err(removed)
    const slot =
      subscriber === null ? ok(true) : this.#slots.enter(subscriber.id, subscriber.owner, Date.now())
    if (!slot.ok) return slot
    const update = this.#updateAfter(record, position)
    if (ms <= 0 || update.changed || update.pieces.length > 0 || update.end !== null) return ok(update)
    await this.#waiters.wait(record.proposal.n, ms)
    return ok(this.#updateAfter(readCall() ?? record, position))
  }

  #updateAfter(record: CallRecord, before: StreamPosition): OutputUpdate {
    const { proposal, status } = record
    const state = stateOf(record)
    const from = before.attempt === state.attempt ? before : { stdout: 0, stderr: 0 }
    const pieces = STREAMS.flatMap((stream) =>
      this.#piece(proposal.n, stream, from[stream], hasEnded(status)),
    )
    const position: StreamPosition = {
      attempt: state.attempt,
      stdout: from.stdout,
      stderr: from.stderr,
      state,
    }
    for (const { stream, offset, bytes } of pieces) position[stream] = offset + bytes.byteLength
    const changed = JSON.stringify(before.state) !== JSON.stringify(state) // `stateOf` made both
    return { position: position, changed, pieces, end: pieces.length === 0 ? liveEndOf(record) : null }
  }

  /** Holds back an incomplete UTF-8 sequence until the rest arrives or the stream ends. */
  #piece(n: number, stream: Stream, offset: number, hasEnded: boolean): OutputPiece[] {
    const bytes = this.#store.outputFrom(n, stream, offset, LIMITS.output_piece_bytes)
    const cut =
      hasEnded && bytes.byteLength < LIMITS.output_piece_bytes
        ? bytes
        : bytes.subarray(0, completeUtf8Length(bytes))
    return cut.byteLength === 0 ? [] : [{ stream, offset, bytes: cut }]
  }
}

function stateOf({ status }: CallRecord): LiveState {
  const attempt = 'fence' in status ? status.fence : 0
  return {
    state: status.state,
    attempt,
    cancel_requested: 'cancelRequested' in status && status.cancelRequested,
  }
}
