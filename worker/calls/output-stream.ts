// Streams the output of running calls to the edge, so that it survives a worker that dies, and
// keeps the captured output for the settlement. Streaming is best effort: the settlement carries
// the whole output in any case. One timer serves all calls; the sandbox bounds how much is
// captured.

import { LIMITS } from '../../shared/limits.ts'
import { errorReport } from '../host/error-report.ts'
import type { Log } from '../host/log.ts'
import type { EdgeLink } from '../link/client.ts'
import { isTransient } from '../link/client.ts'
import type { CallInFlight } from './in-flight.ts'

type StreamName = 'stdout' | 'stderr'

/**
 * A call that ends this soon after its first output does not stream: its settlement arrives sooner.
 */
const STREAM_AFTER_MS = 100
const TICK_MS = 50

/** The captured bytes of one stream, and how many of them the edge has. */
class StreamBuffer {
  readonly chunks: Uint8Array[] = []
  bytes = 0
  sent = 0
  /** The position of the first unsent byte in `chunks`. */
  #position = { chunk: 0, byte: 0 }

  take(bytes: Uint8Array): void {
    this.chunks.push(bytes)
    this.bytes += bytes.byteLength
  }

  /** The next unsent bytes, at most `max`. */
  next(max: number): Buffer {
    const parts: Uint8Array[] = []
    let { chunk, byte } = this.#position
    for (let left = max; left > 0 && chunk < this.chunks.length; chunk++, byte = 0) {
      const part = this.chunks[chunk]?.subarray(byte, byte + left) ?? new Uint8Array()
      parts.push(part)
      left -= part.byteLength
    }
    return Buffer.concat(parts)
  }

  advance(count: number): void {
    this.sent += count
    let { chunk, byte } = this.#position
    byte += count
    for (
      let size = this.chunks[chunk]?.byteLength;
      size !== undefined && byte >= size;
      size = this.chunks[chunk]?.byteLength
    ) {
      byte -= size
      chunk++
    }
    this.#position = { chunk, byte }
  }
}

export class OutputStreams {
  readonly #link: EdgeLink
  readonly #log: Log
  readonly #open = new Set<CallOutput>()
  #timer: NodeJS.Timeout | undefined

  constructor(link: EdgeLink, log: Log) {
    this.#link = link
    this.#log = log
  }

  /** Opens the output of one call. */
  open(inFlight: CallInFlight, fence: number): CallOutput {
    return new CallOutput(this.#link, this.#log, inFlight, fence, (output) => this.#watch(output))
  }

  #watch(output: CallOutput): void {
    this.#open.add(output)
    this.#timer ??= setInterval(() => this.#tick(), TICK_MS)
  }

  #tick(): void {
    const now = performance.now()
    for (const output of this.#open) if (!output.tick(now)) this.#open.delete(output)
    if (this.#open.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }
}

export class CallOutput {
  readonly #link: EdgeLink
  readonly #log: Log
  readonly #inFlight: CallInFlight
  readonly #fence: number
  readonly #watch: (output: CallOutput) => void
  readonly #buffers: Record<StreamName, StreamBuffer> = {
    stdout: new StreamBuffer(),
    stderr: new StreamBuffer(),
  }
  #due: number | undefined
  #sending = false
  #ended = false

  constructor(
    link: EdgeLink,
    log: Log,
    inFlight: CallInFlight,
    fence: number,
    watch: (output: CallOutput) => void,
  ) {
    this.#link = link
    this.#log = log
    this.#inFlight = inFlight
    this.#fence = fence
    this.#watch = watch
  }

  /** Appends captured bytes. */
  take(stream: StreamName, bytes: Uint8Array): void {
    this.#buffers[stream].take(bytes)
    if (this.#due !== undefined || this.#ended) return
    this.#due = performance.now() + STREAM_AFTER_MS
    this.#watch(this)
  }

  /** Stops streaming and returns all captured output, for the settlement. */
  end(): Record<StreamName, Uint8Array> {
    this.#ended = true
    return {
      stdout: concatenate(this.#buffers.stdout.chunks),
      stderr: concatenate(this.#buffers.stderr.chunks),
    }
  }

  /** Sends what is due. False once there will be nothing more to send. */
  tick(now: number): boolean {
    if (this.#ended) return false
    if (this.#sending || now < (this.#due ?? 0)) return true
    const { stdout, stderr } = this.#buffers
    if (stdout.sent === stdout.bytes && stderr.sent === stderr.bytes) return true
    this.#due = now + STREAM_AFTER_MS
    this.#sending = true
    void this.#sendBoth()
      .catch((bug) => {
        this.#ended = true
        this.#log.warn('a bug in the worker stopped the streaming of a call’s output', {
          call: this.#inFlight.call,
          ...errorReport(bug),
        })
      })
      .finally(() => {
        this.#sending = false
      })
    return true
  }

  async #sendBoth(): Promise<void> {
    for (const stream of ['stdout', 'stderr'] as const) {
      const { sent, bytes } = this.#buffers[stream]
      if (sent < bytes && !this.#ended) await this.#send(stream, this.#buffers[stream])
    }
  }

  async #send(stream: StreamName, buffer: StreamBuffer): Promise<void> {
    const data = buffer.next(LIMITS.output_chunk_bytes)
    const { call, stop } = this.#inFlight
    const answer = await this.#link.request('output', {
      params: { call },
      body: { fence: this.#fence, stream, offset: buffer.sent, data: data.toString('base64') },
    })
    if (answer.ok) {
      if (answer.value.stop) stop.abort('cancelled')
      buffer.advance(data.byteLength)
      // Our offset and the edge's differ: stop streaming.
      if (answer.value.next !== buffer.sent) this.#ended = true
      return
    }
    if (isTransient(answer.error)) return // retried at the next tick
    this.#ended = true
    // The call is no longer ours, so end what still runs of it.
    if (answer.error.code === 'stale_fence' || answer.error.code === 'already_ended') stop.abort('cancelled')
  }
}

/** Avoids a copy in the usual case of one chunk. */
const concatenate = (chunks: readonly Uint8Array[]): Uint8Array =>
  chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks)
