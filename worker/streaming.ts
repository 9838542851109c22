// Owns output on its way to the edge while a call still runs, so that who waits can watch. It is a courtesy: the settlement carries all that
// was kept once more, and is what counts. One clock serves all calls; memory is bounded by what is kept of a stream in any case.

import { LIMITS } from '../shared/limits.ts'
import { type Link, mayChange } from './link.ts'
import type { InHand } from './running.ts'

/** A call that ends within this after its first output never streams: its settlement is sooner there. */
const QUIET_MS = 100
const TICK_MS = 50

type Tail = { /** Kept bytes that the edge has. */ sent: number; chunks: Uint8Array[]; bytes: number }
type Stream = 'stdout' | 'stderr'

export class Streaming {
  readonly #link: Link
  readonly #open = new Set<CallOutput>()
  #clock: NodeJS.Timeout | undefined

  constructor(link: Link) {
    this.#link = link
  }

  /** For one call, whose fence is known. */
  open(inHand: InHand, fence: number): CallOutput {
    return new CallOutput(this.#link, inHand, fence, (output) => this.#watch(output))
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
  readonly #inHand: InHand
  readonly #fence: number
  readonly #watch: (output: CallOutput) => void
  readonly #tails: Record<Stream, Tail> = { stdout: { sent: 0, chunks: [], bytes: 0 }, stderr: { sent: 0, chunks: [], bytes: 0 } }
  #due = 0
  #sending = false
  #ended = false

  constructor(link: Link, inHand: InHand, fence: number, watch: (output: CallOutput) => void) {
    this.#link = link
    this.#inHand = inHand
    this.#fence = fence
    this.#watch = watch
  }

  /** The next bytes that are kept of the head of a stream, in order. */
  take(stream: Stream, bytes: Uint8Array): void {
    if (this.#ended || bytes.byteLength === 0) return
    if (this.#due === 0) {
      this.#due = performance.now() + QUIET_MS
      this.#watch(this)
    }
    const tail = this.#tails[stream]
    tail.chunks.push(bytes)
    tail.bytes += bytes.byteLength
  }

  /** The settlement takes over. */
  end(): void {
    this.#ended = true
  }

  /** Whether there may be more to send. */
  tick(now: number): boolean {
    if (this.#ended) return false
    if (now < this.#due || this.#sending) return true
    if (this.#tails.stdout.bytes + this.#tails.stderr.bytes === 0) return true
    this.#due = now + QUIET_MS
    this.#sending = true
    void this.#sendBoth().finally(() => {
      this.#sending = false
    })
    return true
  }

  async #sendBoth(): Promise<void> {
    for (const stream of ['stdout', 'stderr'] as const) if (this.#tails[stream].bytes > 0 && !this.#ended) await this.#send(stream)
  }

  async #send(stream: Stream): Promise<void> {
    const tail = this.#tails[stream]
    const all = Buffer.concat(tail.chunks)
    const data = all.subarray(0, LIMITS.output_chunk_bytes)
    const answer = await this.#link.ask('output', {
      params: { call: this.#inHand.call },
      body: { fence: this.#fence, stream, offset: tail.sent, data: data.toString('base64') },
    })
    if (!answer.ok) {
      if (mayChange(answer.error)) return // offered again at the next tick
      this.end()
      // The edge says that this call is no longer ours: what still runs of it has nobody to answer to.
      if (answer.error.code === 'stale_fence' || answer.error.code === 'already_ended') this.#inHand.stop.abort('cancelled')
      return
    }
    if (answer.value.stop) this.#inHand.stop.abort('cancelled')
    if (answer.value.next !== tail.sent + data.byteLength) return this.end() // out of step; the settlement will tell it whole
    tail.sent = answer.value.next
    const rest = Buffer.concat(tail.chunks).subarray(data.byteLength)
    tail.chunks = rest.byteLength > 0 ? [rest] : []
    tail.bytes = rest.byteLength
  }
}
