// Who follows the calls of a run while they go on, and what each is told next: where its call
// stands, what is stored of its output, a bounded piece at a time, and its end. Nothing is kept for
// anybody but that they wait: who reads slowly asks later. It changes nothing stored.

import { failure } from '../../shared/failures.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { LiveEnd, LiveState } from '../../shared/wire/output-events.ts'
import type { CallRecord } from '../call/lifecycle.ts'
import { hasEnded } from '../call/lifecycle.ts'
import { Followers } from '../platform/stream-slots.ts'
import { wholeCharacters } from '../platform/utf8-boundary.ts'
import { Waiters } from '../platform/waiters.ts'
import type { RunStore } from './store.ts'
import { endOf } from './views.ts'

export type Stream = 'stdout' | 'stderr'
const STREAMS: readonly Stream[] = ['stdout', 'stderr']

/** Up to where somebody has heard; `state` is the one that they were told last. */
export type Heard = { attempt: number; stdout: number; stderr: number; state: LiveState | null }
/** `id` names the stream of one reader, `whose` those that are counted together. */
export type Listener = { id: string; whose: string }
export type LivePiece = { stream: Stream; offset: number; bytes: Uint8Array }
/**
 * What is new, in the order in which it is told; nothing of it where nothing was within the time.
 */
export type News = { heard: Heard; changed: boolean; pieces: LivePiece[]; end: LiveEnd | null }

const NO_CALL = failure('not_found', 'no such call')

export class LiveOutput {
  readonly #store: Pick<RunStore, 'outputFrom'>
  readonly #waiters = new Waiters<number>()
  readonly #followers = new Followers(LIMITS.streams_run)

  constructor(store: Pick<RunStore, 'outputFrom'>) {
    this.#store = store
  }

  /** Something of the call is other than it was. */
  wake(n: number): void {
    this.#waiters.wake(n)
  }

  leave({ id }: Listener): void {
    this.#followers.leave(id)
  }

  /**
   * `look`: the call as it is, while whoever asks may read it. At once where there is something to
   * tell, else within `ms`. Who looks once is no `listener`.
   */
  async hear(
    look: () => CallRecord | undefined,
    listener: Listener | null,
    heard: Heard,
    ms: number,
  ): Promise<Result<News>> {
    const record = look()
    if (record === undefined) return err(NO_CALL)
    const counted =
      listener === null ? ok(true) : this.#followers.enter(listener.id, listener.whose, Date.now())
    if (!counted.ok) return counted
    const news = this.#news(record, heard)
    if (ms <= 0 || news.changed || news.pieces.length > 0 || news.end !== null) return ok(news)
    await this.#waiters.wait(record.proposal.n, ms)
    return ok(this.#news(look() ?? record, heard))
  }

  #news(record: CallRecord, before: Heard): News {
    const { proposal, status } = record
    const state = stateOf(record)
    const from = before.attempt === state.attempt ? before : { stdout: 0, stderr: 0 }
    const pieces = STREAMS.flatMap((stream) =>
      this.#piece(proposal.n, stream, from[stream], hasEnded(status)),
    )
    const heard: Heard = { attempt: state.attempt, stdout: from.stdout, stderr: from.stderr, state }
    for (const { stream, offset, bytes } of pieces) heard[stream] = offset + bytes.byteLength
    const changed = JSON.stringify(before.state) !== JSON.stringify(state) // both made by `stateOf`
    return { heard, changed, pieces, end: pieces.length === 0 ? endOf(record) : null }
  }

  /** Half a character waits for its other half, as long as that may come. */
  #piece(n: number, stream: Stream, offset: number, isWhole: boolean): LivePiece[] {
    const bytes = this.#store.outputFrom(n, stream, offset, LIMITS.output_piece_bytes)
    const cut =
      isWhole && bytes.byteLength < LIMITS.output_piece_bytes
        ? bytes
        : bytes.subarray(0, wholeCharacters(bytes))
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
