// Masks the values of a call's secrets in its output, in each encoding that we know (V01). In a
// stream each value is replaced by its name, even if it arrives in parts. Everything after the mask
// sees masked output only: what is stored, digested and sent. Compressed or encrypted values are
// not recognised.

import { setImmediate } from 'node:timers/promises'
import type { FragmentIndex } from '../../../shared/secrets/byte-search.ts'
import { fragmentsOf, SecretSearch } from '../../../shared/secrets/encodings.ts'

/** Takes about ten milliseconds to search. */
const SLICE_BYTES = 1 << 16

type Secrets = Readonly<Record<string, string>>

export class SecretMask {
  readonly #pieces: FragmentIndex

  constructor(secrets: Secrets = {}) {
    this.#pieces = fragmentsOf(Object.entries(secrets))
  }

  /** Returns the mask of one stream. */
  stream(): MaskedStream {
    return new MaskedStream(this.#pieces)
  }

  /**
   * Whether a file contains a secret; undefined if the time ran out first. Yields between slices,
   * because files may be large.
   */
  async findsSecretIn(bytes: Uint8Array, hasTime: () => boolean): Promise<boolean | undefined> {
    if (this.#pieces.isEmpty) return false
    const search = new SecretSearch(this.#pieces)
    for (let at = 0; at < bytes.length; at += SLICE_BYTES) {
      search.take(bytes.subarray(at, at + SLICE_BYTES))
      if (search.findsBefore(Number.POSITIVE_INFINITY).length > 0) return true
      await setImmediate()
      if (!hasTime()) return undefined
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

export class MaskedStream {
  readonly #search: SecretSearch | undefined
  /** The held-back end of the stream, which may be the beginning of a value. */
  #held: Buffer = Buffer.alloc(0)
  /** The position up to which the stream has been emitted or replaced. */
  #at = 0
  /** The name that was emitted last; empty after other output. */
  #lastName = ''

  constructor(pieces: FragmentIndex) {
    this.#search = pieces.isEmpty ? undefined : new SecretSearch(pieces)
  }

  take(chunk: Buffer): Buffer {
    if (this.#search === undefined) return chunk
    this.#search.take(chunk)
    return this.#emitUpTo(this.#search, Buffer.concat([this.#held, chunk]), this.#search.settled)
  }

  /** Returns the rest, at the end of the stream. */
  end(): Buffer {
    this.#search?.end()
    return this.#search === undefined
      ? this.#held
      : this.#emitUpTo(this.#search, this.#held, Number.POSITIVE_INFINITY)
  }

  /** Emits `held` up to `settled`; `held` begins at the position up to which output was emitted. */
  #emitUpTo(search: SecretSearch, held: Buffer, settled: number): Buffer {
    const begin = this.#at
    const out: Buffer[] = []
    const emit = (to: number): void => {
      if (to <= this.#at) return
      out.push(held.subarray(this.#at - begin, to - begin))
      this.#at = to
      this.#lastName = ''
    }
    for (const { from, to, name } of search.findsBefore(settled)) {
      emit(from)
      // Adjacent parts of one value, and overlapping values, become one name.
      if (from === this.#at && this.#lastName !== name) out.push(Buffer.from(`«secret ${name}»`))
      this.#lastName = name
      this.#at = Math.max(this.#at, to)
    }
    emit(Math.min(settled, begin + held.length))
    this.#held = Buffer.from(held.subarray(this.#at - begin)) // a copy, because the caller reuses the chunk
    return Buffer.concat(out)
  }
}
