// Owns the search of one stream of bytes for values that are known: each is looked for by its pieces, so that a part of a long one is found
// too, and time and memory stay in proportion to what there is. Which bytes a text spells is `spellings.ts`'s. Pure.

import { LIMITS } from '../limits.ts'

/** Where a piece of a value stands, in the bytes as they came. */
export type Find = { readonly from: number; readonly to: number; readonly name: string }
type Found = (find: Find) => void

/** More of it says nothing that this much does not: it is met by accident no more. */
const PIECE = 32
/** A line of its own is looked for from here on; a shorter one with what stands before it. */
const LINE = 16
/** However it is spelled, a piece that takes more bytes than this is not found. */
export const SPAN = 1_024

const tableOf = (bytes: Iterable<number>): Uint8Array => {
  const table = new Uint8Array(256)
  for (const byte of bytes) table[byte] = 1
  return table
}
/** What quotes, lists and wraps put between the bytes of a value. They are no part of it, wherever they stand. */
const BETWEEN = tableOf(Buffer.from('\0\t\n\v\f\r "\',:\\'))
export const isBetween = (byte: number): boolean => BETWEEN[byte] === 1

const PLUS = 0x2b
const lower = (byte: number): number => (byte >= 0x41 && byte <= 0x5a ? byte + 32 : byte)

/** Of a value, what is looked for: names of hosts are in lower case. */
const kept = (text: string): Uint8Array =>
  Uint8Array.from(
    [...Buffer.from(text)].filter((byte) => !isBetween(byte)),
    lower,
  )

/** Whether a value is enough to be told from other text. */
export const isTellable = (value: string): boolean => kept(value).length >= LIMITS.secret_chars_min

function* cut(value: string): Generator<Uint8Array> {
  const whole = kept(value)
  if (whole.length < LIMITS.secret_chars_min) return
  let at = 0
  for (const { length } of value.split(/[\r\n]+/).map(kept)) {
    const end = at + length
    if (length >= LINE)
      for (let from = at; from < end; from += PIECE)
        yield whole.subarray(Math.max(at, Math.min(from, end - PIECE)), Math.min(from + PIECE, end))
    else if (length > 0) {
      const from = Math.max(0, end - PIECE)
      yield whole.subarray(from, from + PIECE)
    }
    at = end
  }
}

/** Pieces in order, so that those that begin alike stand together: that is all the automaton there is. */
export class Pieces {
  readonly #pieces: readonly Uint8Array[]
  readonly #names: readonly string[]
  /** Where those begin that begin with a byte, and where the next one's do. */
  readonly #first = new Uint32Array(257)

  constructor(values: Iterable<readonly [name: string, value: string]>) {
    const all = [...values].flatMap(([name, value]) => [...cut(value)].map((bytes) => ({ bytes, name })))
    const sorted = all.sort((a, b) => Buffer.compare(a.bytes, b.bytes))
    const distinct = sorted.filter(
      ({ bytes }, i) => Buffer.compare(bytes, sorted[i - 1]?.bytes ?? Buffer.of()) !== 0,
    )
    this.#pieces = distinct.map(({ bytes }) => bytes)
    this.#names = distinct.map(({ name }) => name)
    for (const [first = 0] of this.#pieces) this.#first[first + 1] = (this.#first[first + 1] ?? 0) + 1
    for (let byte = 0; byte < 256; byte++)
      this.#first[byte + 1] = (this.#first[byte + 1] ?? 0) + (this.#first[byte] ?? 0)
  }

  get isEmpty(): boolean {
    return this.#pieces.length === 0
  }

  /** Whether one begins with a byte from `low` to `high`, which may be a capital's. */
  beginBetween(low: number, high: number): boolean {
    for (let byte = low; byte <= high; byte++) if (this.begin(lower(byte)) !== undefined) return true
    return false
  }

  begin(byte: number): Reached | undefined {
    const [low = 0, high = 0] = [this.#first[byte], this.#first[byte + 1]]
    return low < high ? { low, high, depth: 1 } : undefined
  }

  goOn({ low, high, depth }: Reached, byte: number): Reached | undefined {
    if (high - low === 1) return this.#at(low, depth) === byte ? { low, high, depth: depth + 1 } : undefined
    const begin = this.#firstFrom(low, high, depth, byte)
    const end = this.#firstFrom(begin, high, depth, byte + 1)
    return begin < end ? { low: begin, high: end, depth: depth + 1 } : undefined
  }

  /** Whose piece has been reached whole, if one has: the shortest stands first. */
  whole({ low, depth }: Reached): string | undefined {
    return this.#pieces[low]?.length === depth ? this.#names[low] : undefined
  }

  #at = (piece: number, depth: number): number => this.#pieces[piece]?.[depth] ?? -1

  #firstFrom(low: number, high: number, depth: number, byte: number): number {
    let [from, to] = [low, high]
    while (from < to) {
      const middle = (from + to) >>> 1
      if (this.#at(middle, depth) < byte) from = middle + 1
      else to = middle
    }
    return from
  }
}

/** Those pieces that begin with so many bytes alike. */
type Reached = { readonly low: number; readonly high: number; readonly depth: number }
type Open = Reached & { readonly from: number }

/** Follows the pieces through one stream. Of each place in a piece it keeps one beginning: no more states than a piece is long. */
export class Trail {
  readonly #pieces: Pieces
  readonly #found: Found
  #open: Open[] = []

  constructor(pieces: Pieces, found: Found) {
    this.#pieces = pieces
    this.#found = found
  }

  /** One byte of the stream, and from where to where it is spelled. */
  take(given: number, from: number, to: number): void {
    if (isBetween(given)) return
    const byte = lower(given)
    const begun = this.#pieces.begin(byte)
    if (begun === undefined && this.#open.length === 0) return
    const before = this.#open
    this.#open = []
    for (const one of before)
      if (to - one.from <= SPAN) this.#reach(this.#pieces.goOn(one, byte), one.from, to)
    if (to - from <= SPAN) this.#reach(begun, from, to)
    if (given === PLUS) this.#stay(before)
  }

  /** Forms write a space so: it may be one, and be between bytes, or be a byte. */
  #stay(before: readonly Open[]): void {
    for (const one of before)
      if (!this.#open.some(({ low, depth }) => low === one.low && depth === one.depth)) this.#open.push(one)
  }

  #reach(reached: Reached | undefined, from: number, to: number): void {
    if (reached === undefined) return
    const name = this.#pieces.whole(reached)
    if (name !== undefined) this.#found({ from, to, name })
    const { low, high, depth } = reached
    this.#open.push({ low, high, depth, from })
  }

  /** What follows is not of the same stream. */
  breakOff(): void {
    if (this.#open.length > 0) this.#open = []
  }

  /** Where that begins which may still become a piece. */
  open(at: number): number {
    return this.#open.reduce((first, { from }) => (at - from < SPAN ? Math.min(first, from) : first), at)
  }
}
