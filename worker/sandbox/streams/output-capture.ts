// Captures one output stream: keeps its head and its last bytes, counts and digests all of it. A
// stream far beyond its cap is a flood, and its process is stopped (S31). Bytes are kept raw;
// readers must display them safely (S32).

import { createHash } from 'node:crypto'
import { FLOOD_FACTOR, type StreamSummary } from '../../../shared/plan/plan.ts'

export type StreamName = 'stdout' | 'stderr'
/** `offset` is the position in the stream; bytes between two chunks were not kept. */
export type OutputChunk = { readonly stream: StreamName; readonly offset: number; readonly bytes: Uint8Array }

/** The share of the cap reserved for the end of the stream, where programs report their result. */
const TAIL_SHARE = 1 / 4

export class OutputCapture {
  readonly #stream: StreamName
  readonly #cap: number
  readonly #headCap: number
  readonly #onChunk: (chunk: OutputChunk) => void
  readonly #onFlood: () => void
  readonly #hash = createHash('sha256')
  /** A circular buffer of the last bytes after the head, allocated when the head is full. */
  #tail: Buffer | undefined
  #bytes = 0

  constructor(stream: StreamName, cap: number, onChunk: (chunk: OutputChunk) => void, onFlood: () => void) {
    this.#stream = stream
    this.#cap = cap
    this.#headCap = cap - Math.floor(cap * TAIL_SHARE)
    this.#onChunk = onChunk
    this.#onFlood = onFlood
  }

  take(chunk: Buffer): void {
    this.#hash.update(chunk)
    const offset = this.#bytes
    const head = chunk.subarray(0, Math.max(0, this.#headCap - offset))
    if (head.length > 0) this.#onChunk({ stream: this.#stream, offset, bytes: head })
    this.#keepLast(chunk.subarray(head.length), offset + head.length)
    this.#bytes += chunk.length
    if (this.#bytes > this.#cap * FLOOD_FACTOR) this.#onFlood()
  }

  /** Emits the kept tail and returns the summary. */
  finish(): StreamSummary {
    const beyond = this.#bytes - this.#headCap
    if (this.#tail !== undefined && beyond > 0) {
      const kept = Math.min(beyond, this.#tail.length)
      const start = beyond > kept ? beyond % this.#tail.length : 0
      const bytes = Buffer.concat([this.#tail.subarray(start, kept), this.#tail.subarray(0, start)])
      this.#onChunk({ stream: this.#stream, offset: this.#bytes - kept, bytes })
    }
    return {
      bytes: this.#bytes,
      sha256: this.#hash.digest('hex'),
      kept: Math.min(this.#bytes, this.#cap),
      truncated: this.#bytes > this.#cap,
    }
  }

  #keepLast(chunk: Buffer, offset: number): void {
    const size = this.#cap - this.#headCap
    if (chunk.length === 0 || size === 0) return
    this.#tail ??= Buffer.alloc(size)
    const last = chunk.subarray(-size)
    const at = (offset + chunk.length - last.length - this.#headCap) % size
    const first = last.copy(this.#tail, at)
    last.copy(this.#tail, 0, first)
  }
}
