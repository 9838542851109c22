// The encodings in which a known value is found in a text: plain, numbers (hexadecimal, decimal),
// base64, and all but decimal again within escapes of URLs, string literals and HTML. Each decoder
// feeds its output into the search, so a value is found wherever a reader of that encoding would
// see it. Compressed, encrypted, reversed or doubly encoded values are not found.

import type { Find } from './byte-search.ts'
import { FragmentIndex, FragmentMatcher, isIgnored, MAX_SPAN } from './byte-search.ts'

/** Consumes bytes, each with its position in the text. */
type Reader = {
  take(byte: number, from: number, to: number): void
  /** The beginning of the earliest text that may still become part of a find. */
  open(at: number): number
}
type Trails = () => FragmentMatcher

/**
 * The values to search for. A value that contains an escape itself is also searched in its decoded
 * form.
 */
export const fragmentsOf = (values: readonly (readonly [name: string, value: string])[]): FragmentIndex =>
  new FragmentIndex(
    values.flatMap(([name, value]) => [[name, value] as const, [name, unescaped(value)] as const]),
  )

/** The search of one text, which may arrive in parts. */
export class SecretSearch {
  readonly #readers: readonly Reader[]
  #finds: Find[] = []
  #at = 0

  constructor(pieces: FragmentIndex) {
    const trails = (): FragmentMatcher => new FragmentMatcher(pieces, (find) => this.#finds.push(find))
    const plain = (): Reader[] => [trails(), new Hexadecimal(pieces, trails), new Base64(pieces, trails)]
    this.#readers = [...plain(), new Decimal(trails()), new Unescaping(plain())]
  }

  take(bytes: Uint8Array): void {
    for (const byte of bytes) {
      for (const reader of this.#readers) reader.take(byte, this.#at, this.#at + 1)
      this.#at += 1
    }
  }

  /** Ends the text, and with it numbers and escapes that might have continued. */
  end(): void {
    for (const reader of this.#readers) reader.take(NEWLINE, this.#at, this.#at)
  }

  /** Everything that begins before this position and is found at all has been found by now. */
  get settled(): number {
    return Math.min(...this.#readers.map((reader) => reader.open(this.#at)))
  }

  /** Takes the finds that begin before a position, in order. */
  findsBefore(place: number): Find[] {
    const before = this.#finds.filter(({ from }) => from < place)
    if (before.length > 0) this.#finds = this.#finds.filter(({ from }) => from >= place)
    return before.sort((a, b) => a.from - b.from || b.to - a.to)
  }
}

const NEWLINE = 0x0a
const DASH = 0x2d

const tableOf = (alphabet: string): Int8Array => {
  const table = new Int8Array(256).fill(-1)
  for (const [value, char] of [...alphabet].entries()) table[char.charCodeAt(0)] = value
  return table
}
const NIBBLE = tableOf('0123456789abcdef')
for (const [i, char] of [...'ABCDEF'].entries()) NIBBLE[char.charCodeAt(0)] = 10 + i
const SEXTET = tableOf('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/')
SEXTET['-'.charCodeAt(0)] = 62
SEXTET['_'.charCodeAt(0)] = 63

/** Two digits are a byte; both alignments are searched. */
class Hexadecimal implements Reader {
  readonly #pieces: FragmentIndex
  readonly #trails: readonly [FragmentMatcher, FragmentMatcher]
  #turn = 0
  #high = -1
  #from = 0

  constructor(pieces: FragmentIndex, trails: Trails) {
    this.#pieces = pieces
    this.#trails = [trails(), trails()]
  }

  take(byte: number, from: number, to: number): void {
    const nibble = NIBBLE[byte] ?? -1
    if (nibble < 0) {
      if (!isIgnored(byte) && byte !== DASH) this.#breakOff()
      return
    }
    if (this.#high >= 0)
      this.#trails[this.#turn === 0 ? 0 : 1].take((this.#high << 4) | nibble, this.#from, to)
    this.#turn = 1 - this.#turn
    this.#high = nibble
    this.#from = from
  }

  #breakOff(): void {
    if (this.#high < 0) return
    this.#high = -1
    for (const trail of this.#trails) trail.breakOff()
  }

  open(at: number): number {
    const begun =
      this.#high >= 0 &&
      at - this.#from < MAX_SPAN &&
      this.#pieces.beginBetween(this.#high << 4, (this.#high << 4) | 15)
    return Math.min(begun ? this.#from : at, ...this.#trails.map((trail) => trail.open(at)))
  }
}

/**
 * Four characters are three bytes. All four alignments are searched, so a value is found inside the
 * base64 of a longer text.
 */
class Base64 implements Reader {
  readonly #pieces: FragmentIndex
  readonly #trails: readonly FragmentMatcher[]
  #count = 0
  #last = -1
  #from = 0

  constructor(pieces: FragmentIndex, trails: Trails) {
    this.#pieces = pieces
    this.#trails = [trails(), trails(), trails(), trails()]
  }

  take(byte: number, from: number, to: number): void {
    const sextet = SEXTET[byte] ?? -1
    if (sextet < 0) {
      if (!isIgnored(byte)) this.#breakOff()
      return
    }
    if (this.#last >= 0) {
      // A character shared by two bytes counts as part of the earlier one: at most four of its bits
      // belong to the later.
      this.#trail(0)?.take(((this.#last << 2) | (sextet >> 4)) & 255, this.#from, to)
      this.#trail(1)?.take(((this.#last << 4) | (sextet >> 2)) & 255, from, to)
      this.#trail(2)?.take(((this.#last << 6) | sextet) & 255, from, to)
    }
    this.#count = (this.#count + 1) & 3
    this.#last = sextet
    this.#from = from
  }

  /**
   * The alignment in which the last two characters are the first and second, second and third, or
   * third and fourth.
   */
  #trail = (place: number): FragmentMatcher | undefined => this.#trails[(this.#count - place) & 3]

  #breakOff(): void {
    if (this.#last < 0) return
    this.#last = -1
    for (const trail of this.#trails) trail.breakOff()
  }

  open(at: number): number {
    const begun =
      this.#last >= 0 &&
      at - this.#from < MAX_SPAN &&
      this.#pieces.beginBetween(this.#last << 2, (this.#last << 2) | 3)
    return Math.min(begun ? this.#from : at, ...this.#trails.map((trail) => trail.open(at)))
  }
}

/** Bytes printed as a list of decimal numbers. */
class Decimal implements Reader {
  readonly #trail: FragmentMatcher
  #number = -1
  #from = 0
  #to = 0

  constructor(trail: FragmentMatcher) {
    this.#trail = trail
  }

  take(byte: number, from: number, to: number): void {
    const digit = byte >= 0x30 && byte <= 0x39 ? byte - 0x30 : -1
    if (digit >= 0) {
      if (this.#number < 0) this.#from = from
      this.#number = Math.min(999, Math.max(0, this.#number) * 10 + digit)
      this.#to = to
      return
    }
    if (this.#number >= 0 && this.#number <= 255) this.#trail.take(this.#number, this.#from, this.#to)
    if (this.#number > 255 || !isIgnored(byte)) this.#trail.breakOff()
    this.#number = -1
  }

  open(at: number): number {
    return Math.min(this.#number >= 0 && at - this.#from < MAX_SPAN ? this.#from : at, this.#trail.open(at))
  }
}

/**
 * Complete escapes of URLs, of JSON and other string literals (even if quoted repeatedly), and of
 * HTML. `BEGUN` matches incomplete ones.
 */
const ESCAPE = new RegExp(
  [
    String.raw`^(?:(?:%|0x|\\{1,8}x)(?<byte>[0-9a-f]{2})`,
    String.raw`\\{1,8}(?:u(?<unit>[0-9a-f]{4})|(?<line>[nrt])|(?<octal>[0-3][0-7]{2}))`,
    String.raw`&(?:#(?<code>\d{1,7})|#x(?<hex>[0-9a-f]{1,6})|(?<name>amp|lt|gt|quot|apos|nbsp));)$`,
  ].join('|'),
  'i',
)
const BEGUN =
  /^(?:%[0-9a-f]?|0(?:x[0-9a-f]?)?|\\{1,8}(?:x[0-9a-f]?|u[0-9a-f]{0,3}|[0-3][0-7]?)?|&(?:#\d{0,7}|#x[0-9a-f]{0,6}|[a-z]{0,4})?)$/i
const BEGINS = [0x25, 0x26, 0x30, 0x5c] // % & 0 \
const NAMED: Readonly<Record<string, string>> = {
  amp: '&',
  lt: '<',
  gt: '>',
  quot: '"',
  apos: "'",
  nbsp: ' ',
}

type Groups = Record<string, string | undefined>

class Unescaping implements Reader {
  readonly #readers: readonly Reader[]
  /** The text that may be the beginning of an escape. */
  #begun = ''
  #from = 0
  /** The first half of a surrogate pair. */
  #half = ''
  #halfFrom = 0

  constructor(readers: readonly Reader[]) {
    this.#readers = readers
  }

  take(byte: number, from: number, to: number): void {
    if (this.#begun === '' && !BEGINS.includes(byte)) return void this.#pass(byte, from, to)
    if (this.#begun === '') this.#from = from
    this.#begun += String.fromCharCode(byte)
    const groups = ESCAPE.exec(this.#begun)?.groups
    if (groups !== undefined) {
      this.#begun = ''
      this.#decoded(groups, this.#from, to)
    } else if (!BEGUN.test(this.#begun)) {
      const [first = '', ...rest] = this.#begun
      const start = this.#from
      this.#begun = ''
      this.#pass(first.charCodeAt(0), start, start + 1)
      for (const [i, char] of rest.entries())
        this.take(char.charCodeAt(0), start + 1 + i, Math.min(to, start + 2 + i))
    }
  }

  #pass(byte: number, from: number, to: number): void {
    for (const reader of this.#readers) reader.take(byte, from, to)
  }

  #decoded(groups: Groups, from: number, to: number): void {
    const byte = byteOf(groups)
    if (byte !== undefined) return void this.#pass(byte, from, to)
    const text = textOf(groups)
    if (/^[\ud800-\udbff]$/.test(text)) {
      this.#half = text
      this.#halfFrom = from
      return
    }
    const [whole, start] = this.#half === '' ? [text, from] : [this.#half + text, this.#halfFrom]
    this.#half = ''
    for (const one of Buffer.from(whole)) this.#pass(one, start, to)
  }

  open(at: number): number {
    const begun = Math.min(this.#begun === '' ? at : this.#from, this.#half === '' ? at : this.#halfFrom)
    return Math.min(begun, ...this.#readers.map((reader) => reader.open(at)))
  }
}

function byteOf({ byte, octal, line }: Groups): number | undefined {
  if (byte !== undefined) return Number.parseInt(byte, 16)
  if (octal !== undefined) return Number.parseInt(octal, 8)
  return line === undefined ? undefined : NEWLINE
}

function textOf({ unit, hex, code, name }: Groups): string {
  if (name !== undefined) return NAMED[name.toLowerCase()] ?? ''
  const digits = unit ?? hex
  const point = digits === undefined ? Number(code) : Number.parseInt(digits, 16)
  return point > 0x10ffff ? '' : String.fromCodePoint(point)
}

function unescaped(value: string): string {
  const bytes: number[] = []
  const reader = new Unescaping([{ take: (byte) => void bytes.push(byte), open: (at) => at }])
  for (const [at, byte] of [...Buffer.from(value), NEWLINE].entries()) reader.take(byte, at, at + 1)
  return Buffer.from(bytes.slice(0, -1)).toString('utf8')
}
