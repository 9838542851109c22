// Copies bytes while replacing and inserting parts, in ascending order of position. An insertion
// may be written later, when its content is known.

import { type BinaryReader, BinaryWriter } from '../../../shared/bytes/wasm-binary.ts'

export class Splicer {
  readonly #source: BinaryReader
  readonly #out = new BinaryWriter()
  readonly #later: { readonly at: number; readonly write: (out: BinaryWriter) => void }[] = []
  #at: number

  constructor(source: BinaryReader) {
    this.#source = source
    this.#at = source.at
  }

  replace(from: number, to: number, write: (out: BinaryWriter) => void): void {
    this.#copy(from)
    write(this.#out)
    this.#at = to
  }

  /** Inserts at `at` what `write` produces when `result` is called. */
  insert(at: number, write: (out: BinaryWriter) => void): void {
    this.#copy(at)
    this.#later.push({ at: this.#out.length, write })
  }

  result(): BinaryWriter {
    this.#copy(this.#source.end)
    const written = this.#out.bytes()
    const whole = new BinaryWriter()
    let from = 0
    for (const { at, write } of this.#later) {
      write(whole.raw(written.subarray(from, at)))
      from = at
    }
    return whole.raw(written.subarray(from))
  }

  #copy(to: number): void {
    this.#out.raw(this.#source.slice(this.#at, to))
    this.#at = to
  }
}
