// Owns what is kept of one output stream: the head as it comes, then the last bytes, while every byte is counted and digested. A stream
// that goes far beyond what is kept is a flood, and its process is to be stopped (S31). Bytes are kept raw; showing them safely is the
// reader's business (S32).

import { createHash } from 'node:crypto'
import type { StreamSummary } from '../../../shared/plan/plan.ts'

export type StreamName = 'stdout' | 'stderr'
/** `offset` is where the bytes stood in the stream; what lies between two chunks was not kept. */
export type OutputChunk = { readonly stream: StreamName; readonly offset: number; readonly bytes: Uint8Array }

/** The share of the cap that is for the end of the stream, where programs say how it went. */
const TAIL_SHARE = 1 / 4
/** Beyond this many times the cap nobody will look, and the machine's time is all that is spent. */
const FLOOD_FACTOR = 8

export class OutputCapture {
  readonly #stream: StreamName
  readonly #cap: number
  readonly #headCap: number
  readonly #onChunk: (chunk: OutputChunk) => void
  readonly #onFlood: () => void
  readonly #hash = createHash('sha256')
  /** The last bytes after the head, oldest overwritten first. Made when the head is full. */
  #ring: Buffer | undefined
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

  /** Hands out what was kept of the end. */
  finish(): StreamSummary {
    const beyond = this.#bytes - this.#headCap
    if (this.#ring !== undefined && beyond > 0) {
      const kept = Math.min(beyond, this.#ring.length)
      const start = beyond > kept ? beyond % this.#ring.length : 0
      const bytes = Buffer.concat([this.#ring.subarray(start, kept), this.#ring.subarray(0, start)])
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
    this.#ring ??= Buffer.alloc(size)
    const last = chunk.subarray(-size)
    const at = (offset + chunk.length - last.length - this.#headCap) % size
    const first = last.copy(this.#ring, at)
    last.copy(this.#ring, 0, first)
  }
}
