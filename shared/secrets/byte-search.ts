// Searches one stream of bytes for known values. Values are split into fragments, so that a part of
// a long value is found too; time and memory are linear in the stream and the values.
// `encodings.ts` decodes texts into such streams.

import { LIMITS } from '../limits.ts'

/** The position of a fragment of a value in the original bytes. */
export type Find = { readonly from: number; readonly to: number; readonly name: string }
type OnFind = (find: Find) => void

/** The length of a fragment: long enough that a match is not a coincidence. */
const FRAGMENT_BYTES = 32
/**
 * Lines of at least this length are fragments; a shorter one is searched together with the text
 * before it.
 */
const LINE_BYTES = 16
/** An encoded fragment that is longer than this is not found. */
export const MAX_SPAN = 1_024

const tableOf = (bytes: Iterable<number>): Uint8Array => {
  const table = new Uint8Array(256)
  for (const byte of bytes) table[byte] = 1
  return table
}
/**
 * Bytes that quoting, lists and line wrapping insert into a value. The search ignores them
 * everywhere.
 */
const BETWEEN = tableOf(Buffer.from('\0\t\n\v\f\r "\',:\\'))
export const isIgnored = (byte: number): boolean => BETWEEN[byte] === 1

const PLUS = 0x2b
const lower = (byte: number): number => (byte >= 0x41 && byte <= 0x5a ? byte + 32 : byte)

/** The bytes of a value that are searched. Lower case, because host names are normalized to it. */
const significant = (text: string): Uint8Array =>
  Uint8Array.from(
    [...Buffer.from(text)].filter((byte) => !isIgnored(byte)),
    lower,
  )

/** Whether a value is long enough to be distinguished from ordinary text. */
export const isDistinctive = (value: string): boolean => significant(value).length >= LIMITS.secret_chars_min

function* fragmentsOf(value: string): Generator<Uint8Array> {
  const whole = significant(value)
  if (whole.length < LIMITS.secret_chars_min) return
  let at = 0
  for (const { length } of value.split(/[\r\n]+/).map(significant)) {
    const end = at + length
    if (length >= LINE_BYTES)
      for (let from = at; from < end; from += FRAGMENT_BYTES)
        yield whole.subarray(
          Math.max(at, Math.min(from, end - FRAGMENT_BYTES)),
          Math.min(from + FRAGMENT_BYTES, end),
        )
    else if (length > 0) {
      const from = Math.max(0, end - FRAGMENT_BYTES)
      yield whole.subarray(from, from + FRAGMENT_BYTES)
    }
    at = end
  }
}

/**
 * The sorted fragments. Fragments with a common prefix are adjacent, so a range of them is a state
 * of the automaton.
 */
export class FragmentIndex {
  readonly #pieces: readonly Uint8Array[]
  readonly #names: readonly string[]
  /** For each first byte: the index of the first fragment that begins with it. */
  readonly #first = new Uint32Array(257)

  constructor(values: Iterable<readonly [name: string, value: string]>) {
    const all = [...values].flatMap(([name, value]) =>
      [...fragmentsOf(value)].map((bytes) => ({ bytes, name })),
    )
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

  /** Whether a fragment begins with a byte from `low` to `high`, ignoring case. */
  beginBetween(low: number, high: number): boolean {
    for (let byte = low; byte <= high; byte++) if (this.begin(lower(byte)) !== undefined) return true
    return false
  }

  begin(byte: number): MatchState | undefined {
    const [low = 0, high = 0] = [this.#first[byte], this.#first[byte + 1]]
    return low < high ? { low, high, depth: 1 } : undefined
  }

  advance({ low, high, depth }: MatchState, byte: number): MatchState | undefined {
    if (high - low === 1) return this.#at(low, depth) === byte ? { low, high, depth: depth + 1 } : undefined
    const begin = this.#firstFrom(low, high, depth, byte)
    const end = this.#firstFrom(begin, high, depth, byte + 1)
    return begin < end ? { low: begin, high: end, depth: depth + 1 } : undefined
  }

  /** The name of the fragment that is complete in this state, if any: the shortest is first. */
  whole({ low, depth }: MatchState): string | undefined {
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

/** The range of fragments that share a prefix of `depth` bytes. */
type MatchState = { readonly low: number; readonly high: number; readonly depth: number }
type OpenMatch = MatchState & { readonly from: number }

/**
 * Matches the fragments against one stream, with at most one open match per position in a fragment.
 */
export class FragmentMatcher {
  readonly #pieces: FragmentIndex
  readonly #onFind: OnFind
  #open: OpenMatch[] = []

  constructor(pieces: FragmentIndex, onFind: OnFind) {
    this.#pieces = pieces
    this.#onFind = onFind
  }

  /** Takes one byte of the stream, with its position in the encoded text. */
  take(given: number, from: number, to: number): void {
    if (isIgnored(given)) return
    const byte = lower(given)
    const begun = this.#pieces.begin(byte)
    if (begun === undefined && this.#open.length === 0) return
    const before = this.#open
    this.#open = []
    for (const one of before)
      if (to - one.from <= MAX_SPAN) this.#reach(this.#pieces.advance(one, byte), one.from, to)
    if (to - from <= MAX_SPAN) this.#reach(begun, from, to)
    if (given === PLUS) this.#stay(before)
  }

  /** A `+` may be an encoded space, which is ignored, or itself; both readings stay open. */
  #stay(before: readonly OpenMatch[]): void {
    for (const one of before)
      if (!this.#open.some(({ low, depth }) => low === one.low && depth === one.depth)) this.#open.push(one)
  }

  #reach(reached: MatchState | undefined, from: number, to: number): void {
    if (reached === undefined) return
    const name = this.#pieces.whole(reached)
    if (name !== undefined) this.#onFind({ from, to, name })
    const { low, high, depth } = reached
    this.#open.push({ low, high, depth, from })
  }

  /** Ends the stream; the next byte starts another one. */
  breakOff(): void {
    if (this.#open.length > 0) this.#open = []
  }

  /** The beginning of the earliest match that may still complete. */
  open(at: number): number {
    return this.#open.reduce((first, { from }) => (at - from < MAX_SPAN ? Math.min(first, from) : first), at)
  }
}
