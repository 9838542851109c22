// Owns what may not leave a sandbox: the values of the secrets that its call was given, in each spelling that we know (V01). A stream passes
// through it and comes out with a name where a value stood, also where the value came in pieces. What it lets through is all that anyone
// after it sees: kept, digested, sent. Compressed or encrypted values it does not know.

import { setImmediate } from 'node:timers/promises'
import type { Pieces } from '../../../shared/secrets/byte-search.ts'
import { piecesOf, Search } from '../../../shared/secrets/encodings.ts'

/** About ten milliseconds' worth. */
const SLICE_BYTES = 1 << 16

type Secrets = Readonly<Record<string, string>>

export class Veil {
  readonly #pieces: Pieces

  constructor(secrets: Secrets = {}) {
    this.#pieces = piecesOf(Object.entries(secrets))
  }

  /** For one stream. */
  stream(): VeiledStream {
    return new VeiledStream(this.#pieces)
  }

  /** Whether a file holds one; undefined where that was not found out in time. It may be large: others get their turn meanwhile. */
  async isIn(bytes: Uint8Array, inTime: () => boolean): Promise<boolean | undefined> {
    if (this.#pieces.isEmpty) return false
    const search = new Search(this.#pieces)
    for (let at = 0; at < bytes.length; at += SLICE_BYTES) {
      search.take(bytes.subarray(at, at + SLICE_BYTES))
      if (search.findsBefore(Number.POSITIVE_INFINITY).length > 0) return true
      await setImmediate()
      if (!inTime()) return undefined
    }
    search.end()
    return search.findsBefore(Number.POSITIVE_INFINITY).length > 0
  }

  text(text: string): string {
    if (this.#pieces.isEmpty) return text
    const stream = this.stream()
    return Buffer.concat([stream.take(Buffer.from(text)), stream.end()]).toString('utf8')
  }
}

export class VeiledStream {
  readonly #search: Search | undefined
  /** What may be the beginning of a value, and so is not let through yet. */
  #held: Buffer = Buffer.alloc(0)
  /** Up to where the stream has been let through, or a name stands for it. */
  #at = 0
  /** The name that the last thing to be let through was. */
  #named = ''

  constructor(pieces: Pieces) {
    this.#search = pieces.isEmpty ? undefined : new Search(pieces)
  }

  take(chunk: Buffer): Buffer {
    if (this.#search === undefined) return chunk
    this.#search.take(chunk)
    return this.#upTo(this.#search, Buffer.concat([this.#held, chunk]), this.#search.settled)
  }

  /** The rest: no more comes. */
  end(): Buffer {
    this.#search?.end()
    return this.#search === undefined
      ? this.#held
      : this.#upTo(this.#search, this.#held, Number.POSITIVE_INFINITY)
  }

  /** `held` begins where the last part ended, or where a value does that went beyond that. */
  #upTo(search: Search, held: Buffer, settled: number): Buffer {
    const begin = this.#at
    const out: Buffer[] = []
    const say = (to: number): void => {
      if (to <= this.#at) return
      out.push(held.subarray(this.#at - begin, to - begin))
      this.#at = to
      this.#named = ''
    }
    for (const { from, to, name } of search.findsBefore(settled)) {
      say(from)
      // Parts of one value, and values that lie over each other, are told as one.
      if (from === this.#at && this.#named !== name) out.push(Buffer.from(`«secret ${name}»`))
      this.#named = name
      this.#at = Math.max(this.#at, to)
    }
    say(Math.min(settled, begin + held.length))
    this.#held = Buffer.from(held.subarray(this.#at - begin)) // a copy: the chunk is not ours to keep
    return Buffer.concat(out)
  }
}
