// JSON at a trust boundary: a strict parser for bytes and a canonical serializer for values (RFC
// 8785). Policy, approver, digest and worker must see the same value, so the parser refuses
// everything that two parsers could read differently (G01, G02, G03, G04, G05): duplicate keys,
// unsafe numbers, bad text, `__proto__`, depth.

import { createHash } from 'node:crypto'
import type { Code } from '../failures.ts'
import { failure } from '../failures.ts'
import { LIMITS } from '../limits.ts'
import type { Result } from '../result.ts'
import { err, ok } from '../result.ts'

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json }

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** Thrown by the recursive parser and caught in `parseJson`; it never leaves this file. */
class Refused extends Error {
  readonly code: Code
  constructor(code: Code, detail: string) {
    super(detail)
    this.code = code
  }
}

export type JsonBounds = { readonly bytes: number; readonly depth: number; readonly nodes: number }
export const BODY_BOUNDS: JsonBounds = {
  bytes: LIMITS.body_bytes,
  depth: LIMITS.json_depth,
  nodes: LIMITS.json_nodes,
}
/** An evidence file contains the arguments of a body, and more around them. */
export const EVIDENCE_BOUNDS: JsonBounds = {
  bytes: LIMITS.evidence_bytes,
  depth: LIMITS.json_depth + 8,
  nodes: LIMITS.evidence_nodes,
}

export function parseJson(bytes: Uint8Array, bounds: JsonBounds = BODY_BOUNDS): Result<Json> {
  if (bytes.byteLength > bounds.bytes)
    return err(failure('body_too_large', `more than ${bounds.bytes} bytes`))
  let text: string
  try {
    text = utf8.decode(bytes)
  } catch {
    return err(failure('json_bad_text', 'the text is not valid UTF-8'))
  }
  try {
    return ok(new Parser(text, bounds).document())
  } catch (thrown) {
    if (thrown instanceof Refused) return err(failure(thrown.code, thrown.message))
    throw thrown
  }
}

const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y
const WORDS: ReadonlyMap<string, readonly [string, Json]> = new Map([
  ['t', ['true', true]],
  ['f', ['false', false]],
  ['n', ['null', null]],
])
/**
 * Whether the double has exactly the value of the text: true for `1.50` and `15e-1`, false for
 * `1.50000000000000000001`, read as 1.5.
 */
function isExact(text: string, value: number): boolean {
  const shortest = String(value)
  if (shortest === text) return true
  const [written, read] = [decimalOf(text), decimalOf(shortest)]
  return written.digits === read.digits && written.exponent === read.exponent
}

const DECIMAL = /^-?([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?$/

/**
 * The normal form of a text of `NUMBER`, without its sign: digits that neither begin nor end with
 * 0, times a power of ten.
 */
function decimalOf(text: string): { digits: string; exponent: number } {
  const [, whole = '', fraction = '', power = '0'] = DECIMAL.exec(text) ?? []
  const significant = (whole + fraction).replace(/^0+/, '')
  let end = significant.length
  while (significant[end - 1] === '0') end-- // a pattern for trailing zeros would try each run of zeros: quadratic
  if (end === 0) return { digits: '', exponent: 0 }
  return {
    digits: significant.slice(0, end),
    exponent: Number(power) - fraction.length + significant.length - end,
  }
}

/** A string up to its end or its first escape. */
const PLAIN = /[^"\\\u0000-\u001f]*/y

class Parser {
  readonly #text: string
  readonly #bounds: JsonBounds
  #at = 0
  #nodes = 0

  constructor(text: string, bounds: JsonBounds) {
    this.#text = text
    this.#bounds = bounds
  }

  document(): Json {
    const value = this.#value(0)
    this.#space()
    if (this.#at < this.#text.length) throw this.#unexpected()
    return value
  }

  #value(depth: number): Json {
    if (depth > this.#bounds.depth)
      throw new Refused('json_too_deep', `nested deeper than ${this.#bounds.depth}`)
    if (++this.#nodes > this.#bounds.nodes)
      throw new Refused('json_too_many', `more than ${this.#bounds.nodes} values`)
    this.#space()
    switch (this.#text.charCodeAt(this.#at)) {
      case 0x7b:
        return this.#object(depth)
      case 0x5b:
        return this.#array(depth)
      case 0x22:
        return this.#string()
      default:
        return this.#scalar()
    }
  }

  #object(depth: number): Json {
    const members: { [key: string]: Json } = {}
    this.#at++
    if (this.#take('}')) return members
    do {
      this.#space()
      if (this.#text[this.#at] !== '"') throw this.#unexpected()
      const key = this.#string()
      if (key === '__proto__') throw new Refused('json_forbidden_key', 'a member is named `__proto__`')
      if (Object.hasOwn(members, key))
        throw new Refused(
          'json_duplicate_key',
          `the member ${JSON.stringify(key.slice(0, 64))} appears twice`,
        )
      if (!this.#take(':')) throw this.#unexpected()
      members[key] = this.#value(depth + 1)
    } while (this.#take(','))
    if (!this.#take('}')) throw this.#unexpected()
    return members
  }

  #array(depth: number): Json {
    const items: Json[] = []
    this.#at++
    if (this.#take(']')) return items
    do items.push(this.#value(depth + 1))
    while (this.#take(','))
    if (!this.#take(']')) throw this.#unexpected()
    return items
  }

  #string(): string {
    const start = this.#at
    PLAIN.lastIndex = start + 1
    PLAIN.test(this.#text)
    const { lastIndex: end } = PLAIN
    if (this.#text.charCodeAt(end) !== 0x22) return this.#escapedString(start, end)
    this.#at = end + 1
    return this.#text.slice(start + 1, end)
  }

  /** Only escapes can produce U+0000 or a lone surrogate, because the text is valid UTF-8. */
  #escapedString(start: number, firstEscape: number): string {
    let end = firstEscape
    for (let code = this.#text.charCodeAt(end); code !== 0x22; code = this.#text.charCodeAt(++end)) {
      if (Number.isNaN(code) || code < 0x20) throw this.#unexpected(end)
      if (code === 0x5c) end++
    }
    this.#at = end + 1
    let value: string
    try {
      value = JSON.parse(this.#text.slice(start, end + 1)) // the engine decodes the escapes
    } catch {
      throw this.#unexpected(start)
    }
    if (value.includes('\0') || !value.isWellFormed())
      throw new Refused('json_bad_text', 'a string contains U+0000 or a lone surrogate')
    return value
  }

  #scalar(): Json {
    const [word, meaning] = WORDS.get(this.#text.charAt(this.#at)) ?? []
    if (word !== undefined && meaning !== undefined && this.#text.startsWith(word, this.#at)) {
      this.#at += word.length
      return meaning
    }
    NUMBER.lastIndex = this.#at
    const match = NUMBER.exec(this.#text)
    if (match === null) throw this.#unexpected()
    this.#at = NUMBER.lastIndex
    const [text] = match
    const value = Number(text)
    const unsafe =
      !Number.isFinite(value) ||
      (Number.isInteger(value) && !Number.isSafeInteger(value)) ||
      Object.is(value, -0)
    if (unsafe || !isExact(text, value))
      throw new Refused(
        'json_unsafe_number',
        Object.is(value, -0) && isExact(text, value)
          ? `some parsers read \`${text.slice(0, 40)}\` as \`0\`; send \`0\`, or a string`
          : `the number \`${text.slice(0, 40)}\` would be rounded; send it as a string, or with fewer digits`,
      )
    return value
  }

  #space(): void {
    for (;;) {
      const code = this.#text.charCodeAt(this.#at)
      if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) return
      this.#at++
    }
  }

  #take(char: string): boolean {
    this.#space()
    if (this.#text[this.#at] !== char) return false
    this.#at++
    return true
  }

  #unexpected(at = this.#at): Refused {
    return new Refused(
      'not_json',
      at >= this.#text.length ? 'the text ends too early' : `unexpected character at offset ${at}`,
    )
  }
}

/**
 * RFC 8785. The value comes from `parseJson` or from our code: finite numbers, well-formed strings.
 */
export const canonical = (value: unknown): string =>
  isInOrder(value) ? JSON.stringify(value) : serialized(value)

/** Whether all members are in canonical order, as in a signed payload: the engine then writes this form. */
function isInOrder(value: unknown): boolean {
  if (typeof value === 'number') return Number.isFinite(value)
  if (typeof value !== 'object') return typeof value === 'string' || typeof value === 'boolean'
  if (value === null) return true
  if (Array.isArray(value)) return value.every(isInOrder)
  let before: string | undefined
  for (const key in value) {
    if (before !== undefined && key <= before) return false
    if (!isInOrder((value as Record<string, unknown>)[key])) return false // `key` is one of its keys
    before = key
  }
  return true
}

function serialized(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(serialized).join(',')}]`
  if (typeof value === 'object' && value !== null) {
    const record = value as Record<string, unknown> // a plain object: arrays and null are handled
    let text = ''
    for (const key of Object.keys(record).sort()) {
      if (record[key] !== undefined)
        text += `${text === '' ? '' : ','}${JSON.stringify(key)}:${serialized(record[key])}`
    }
    return `{${text}}`
  }
  if (typeof value === 'number' && !Number.isFinite(value))
    throw new TypeError('a non-finite number has no canonical form')
  const text = JSON.stringify(value)
  if (text === undefined) throw new TypeError(`a ${typeof value} has no canonical form`)
  return text
}

export const sha256 = (bytes: string | Uint8Array): string => createHash('sha256').update(bytes).digest('hex')

/** SHA-256 over the canonical form: the digest of any structured value. */
export const digestOf = (value: unknown): string => sha256(canonical(value))
