// Owns the output of a running call: it keeps what the sandbox keeps, for the settlement, and sends the head of it to the edge while the
// call still runs, for an edge that outlives this worker. Sending is a courtesy: what fails is left out, and the settlement tells it
// whole. One clock serves all calls; the sandbox bounds how much there is to keep.

import { LIMITS } from '../../shared/limits.ts'
import { faultOf } from '../host/error-report.ts'
import type { Log } from '../host/log.ts'
import type { Link } from '../link/client.ts'
import { mayChange } from '../link/client.ts'
import type { InHand } from './in-flight.ts'

type Name = 'stdout' | 'stderr'

/** A call that ends within this after its first output never streams: its settlement is sooner there. */
const QUIET_MS = 100
const TICK_MS = 50

/** What is kept of one stream, in order, and how much of it the edge has. */
class Kept {
  readonly chunks: Uint8Array[] = []
  bytes = 0
  sent = 0
  /** Where in `chunks` the unsent begins. */
  #at = { chunk: 0, byte: 0 }

  take(bytes: Uint8Array): void {
    this.chunks.push(bytes)
    this.bytes += bytes.byteLength
  }

  /** The next unsent bytes, `max` at the most. */
  next(max: number): Buffer {
    const parts: Uint8Array[] = []
    let { chunk, byte } = this.#at
    for (let left = max; left > 0 && chunk < this.chunks.length; chunk++, byte = 0) {
      const part = this.chunks[chunk]?.subarray(byte, byte + left) ?? new Uint8Array()
      parts.push(part)
      left -= part.byteLength
    }
    return Buffer.concat(parts)
  }

  advance(count: number): void {
    this.sent += count
    let { chunk, byte } = this.#at
    byte += count
    for (
      let size = this.chunks[chunk]?.byteLength;
      size !== undefined && byte >= size;
      size = this.chunks[chunk]?.byteLength
    ) {
      byte -= size
      chunk++
    }
    this.#at = { chunk, byte }
  }
}

export class Streaming {
  readonly #link: Link
  readonly #log: Log
  readonly #open = new Set<CallOutput>()
  #clock: NodeJS.Timeout | undefined

  constructor(link: Link, log: Log) {
    this.#link = link
    this.#log = log
  }

  /** For one call, whose fence is known. */
  open(inHand: InHand, fence: number): CallOutput {
    return new CallOutput(this.#link, this.#log, inHand, fence, (output) => this.#watch(output))
  }

  #watch(output: CallOutput): void {
    this.#open.add(output)
    this.#clock ??= setInterval(() => this.#tick(), TICK_MS)
  }

  #tick(): void {
    const now = performance.now()
    for (const output of this.#open) if (!output.tick(now)) this.#open.delete(output)
    if (this.#open.size > 0) return
    clearInterval(this.#clock)
    this.#clock = undefined
  }
}

export class CallOutput {
  readonly #link: Link
  readonly #log: Log
  readonly #inHand: InHand
  readonly #fence: number
  readonly #watch: (output: CallOutput) => void
  readonly #kept: Record<Name, Kept> = { stdout: new Kept(), stderr: new Kept() }
  #due: number | undefined
  #sending = false
  #ended = false

  constructor(link: Link, log: Log, inHand: InHand, fence: number, watch: (output: CallOutput) => void) {
    this.#link = link
    this.#log = log
    this.#inHand = inHand
    this.#fence = fence
    this.#watch = watch
  }

  /** The next bytes that are kept of a stream, in order. */
  take(stream: Name, bytes: Uint8Array): void {
    this.#kept[stream].take(bytes)
    if (this.#due !== undefined || this.#ended) return
    this.#due = performance.now() + QUIET_MS
    this.#watch(this)
  }

  /** All that was kept. From here on the settlement tells it. */
  end(): Record<Name, Uint8Array> {
    this.#ended = true
    return { stdout: joined(this.#kept.stdout.chunks), stderr: joined(this.#kept.stderr.chunks) }
  }

  /** Whether there may be more to send. */
  tick(now: number): boolean {
    if (this.#ended) return false
    if (this.#sending || now < (this.#due ?? 0)) return true
    const { stdout, stderr } = this.#kept
    if (stdout.sent === stdout.bytes && stderr.sent === stderr.bytes) return true
    this.#due = now + QUIET_MS
    this.#sending = true
    void this.#sendBoth()
      .catch((bug) => {
        this.#ended = true
        this.#log.warn('the output of a running call is not sent on, by a fault of ours', {
          call: this.#inHand.call,
          ...faultOf(bug),
        })
      })
      .finally(() => {
        this.#sending = false
      })
    return true
  }

  async #sendBoth(): Promise<void> {
    for (const stream of ['stdout', 'stderr'] as const) {
      const { sent, bytes } = this.#kept[stream]
      if (sent < bytes && !this.#ended) await this.#send(stream, this.#kept[stream])
    }
  }

  async #send(stream: Name, kept: Kept): Promise<void> {
    const data = kept.next(LIMITS.output_chunk_bytes)
    const { call, stop } = this.#inHand
    const answer = await this.#link.ask('output', {
      params: { call },
      body: { fence: this.#fence, stream, offset: kept.sent, data: data.toString('base64') },
    })
    if (answer.ok) {
      if (answer.value.stop) stop.abort('cancelled')
      kept.advance(data.byteLength)
      if (answer.value.next !== kept.sent) this.#ended = true // out of step: no more of this until the settlement
      return
    }
    if (mayChange(answer.error)) return // offered again later
    this.#ended = true
    // The call is no longer ours: what still runs of it has nobody to answer to.
    if (answer.error.code === 'stale_fence' || answer.error.code === 'already_ended') stop.abort('cancelled')
  }
}

/** One chunk is the rule, and needs no copy. */
const joined = (chunks: readonly Uint8Array[]): Uint8Array =>
  chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks)
