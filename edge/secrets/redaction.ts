// Masks secrets in a call's arguments before people see them. A secret is recognized by its value,
// by the name of its member or flag, or by its shape, and replaced by a mark. Equal secrets get
// equal marks, and nobody without the edge's key can test a guess.

import { createHmac } from 'node:crypto'
import { canonical, sha256 } from '../../shared/bytes/json.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { KnownValues } from './known-values.ts'
import { AFTER_NAMES, KEY_LINES, PLACED, PRIVATE_KEY, SECRET_NAME, TOKENS } from './secret-patterns.ts'

/** Returns the mark that replaces a secret. */
export type Mark = (secret: string) => string

/**
 * A tenant's marks. With an unkeyed digest anyone could test guesses of a PIN, so the hash starts
 * with a keyed secret of the tenant. Truncation to a quarter prevents length extension. An HMAC for
 * each mark would take ten times as long, and a text may contain many (G06).
 */
export function markerFor(key: Buffer, tenant: string): Mark {
  const ours = createHmac('sha256', key).update(tenant).digest('hex')
  return (secret) => `«redacted, mark ${sha256(`${ours}${secret}`).slice(0, 16)}»`
}

const unmarked: Mark = () => '«redacted»'

/** A mark, which an edit of the arguments may send back unchanged. */
export const MARK_PATTERN = /«redacted, mark [0-9a-f]{16}»/

/** Possible base64: long enough for a secret and the word that names it. */
const BASE64 = /(?<![\w+/=-])[\w+/-]{24,}={0,2}(?![\w+/=-])/g
/** Base64 with the line breaks of mails and certificates. */
const BASE64_LINES = /(?<![\w+/=-])[\w+/-]{24,}(?:\r?\n[ \t]{0,16}[\w+/-]{2,})+={0,2}/g
/** A possible value in a query. */
const PERCENT = /[\w.~%!*()+-]{6,}/g

const JSON_TOKEN = /"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g

export class Redaction {
  readonly #mark: Mark
  readonly #known: KnownValues | undefined

  constructor(mark: Mark, known?: KnownValues) {
    this.#mark = mark
    this.#known = known
  }

  /** The same redaction with marks that don't tell secrets apart. */
  get unmarked(): Redaction {
    return new Redaction(unmarked, this.#known)
  }

  of(value: unknown, name = ''): unknown {
    return this.#of(this.#known?.hiddenIn(value, this.#mark) ?? value, name)
  }

  #of(value: unknown, name = ''): unknown {
    if (isSecret(name, value)) return this.#mark(typeof value === 'string' ? value : canonical(value))
    if (typeof value === 'string') return this.#text(value)
    if (Array.isArray(value)) return this.#list(value)
    if (typeof value === 'object' && value !== null)
      return Object.fromEntries(
        Object.entries(value).map(([key, item]) => [this.#text(key), this.#of(item, nameIn(value, key))]),
      )
    return value
  }

  /**
   * Redacts a command line made of `args`: an argument that is secret there is secret anywhere in
   * it.
   */
  ofArgv(argv: readonly string[], args: Readonly<Record<string, unknown>>): unknown {
    const secrets = new Set<string>()
    collect(args, '', secrets)
    return this.of(argv.map((item) => (secrets.has(item) ? this.#mark(item) : item)))
  }

  /** Finds secrets that are split over the items of a list: keys by line, tokens by part. */
  #list(list: readonly unknown[]): readonly unknown[] {
    const whole = KEY_LINES.reduce((rest, shape) => this.#withoutSpread(rest, '\n', shape), list)
    const items = whole.map((item, i) => (item === list[i] ? this.#item(item, list[i - 1]) : item))
    return TOKENS.reduce((rest, shape) => this.#withoutSpread(rest, '', shape), items as readonly unknown[])
  }

  #item(item: unknown, before: unknown): unknown {
    if (isPair(item)) return [this.#of(item[0]), this.#of(item[1], item[0])]
    const given =
      typeof item === 'string' && /^(?:-u|--user|--proxy-user)$/.test(flag(before))
        ? this.#withoutPassword(item)
        : item
    return this.#of(given, flag(before))
  }

  /** Masks the password of `user:password`. Two numbers are a user id and a group id. */
  #withoutPassword(user: string): string {
    return user.replace(
      /^([^\s:/«]{1,64}:)(?!\d+$)([^\n]{3,512})$/,
      (_, name: string, secret: string) => name + this.#mark(secret),
    )
  }

  /** Masks the texts of a list that together contain a secret. */
  #withoutSpread(list: readonly unknown[], between: string, shape: RegExp): readonly unknown[] {
    const texts = list.map((item) => (typeof item === 'string' ? item : '\u0000'))
    const spans = [...texts.join(between).matchAll(shape)].map(({ index, 0: { length } }) => ({
      from: index,
      to: index + length,
    }))
    if (spans.length === 0) return list
    let [at, next] = [0, 0]
    return list.map((item, i) => {
      const [from, to] = [at, at + (texts[i] ?? '').length]
      at = to + between.length
      let spread = false
      for (; (spans[next]?.from ?? to) < to; next++) {
        const span = spans[next] ?? { from, to }
        spread ||= span.to > from && (span.from < from || span.to > to)
        if (span.to > to) break // the span continues in the next item
      }
      return spread && typeof item === 'string' && item !== '' ? this.#mark(item) : item
    })
  }

  #text(text: string): string {
    return this.#withoutEncoded(this.#withoutShapes(this.#withoutNamed(text)))
  }

  /** Masks each find and keeps its name. */
  #withoutShapes(text: string): string {
    const unplaced = [PRIVATE_KEY, ...TOKENS, ...PLACED].reduce(
      (rest, shape) => rest.replace(shape, this.#mark),
      text,
    )
    const mark = (_: string, name: string, secret: string) => name + this.#mark(secret)
    return AFTER_NAMES.reduce((rest, named) => rest.replace(named, mark), unplaced)
  }

  /**
   * Masks encoded secrets: base64, as in settings and headers, and percent encoding, as in URLs.
   */
  #withoutEncoded(text: string): string {
    const base64 = (encoded: string) => this.#unlessSecret(encoded, fromBase64(encoded))
    const percent = (encoded: string) => this.#unlessSecret(encoded, fromPercent(encoded))
    return text.replace(BASE64, base64).replace(BASE64_LINES, base64).replace(PERCENT, percent)
  }

  #unlessSecret(encoded: string, decoded: string): string {
    return decoded === encoded || this.#withoutShapes(decoded) === decoded ? encoded : this.#mark(encoded)
  }

  /**
   * Redacts a text that is JSON by the names of its members, like arguments. Only the secret tokens
   * are replaced, in place: except for these, the approver must read exactly what the tool will
   * read.
   */
  #withoutNamed(text: string): string {
    const parsed = objectOf(text)
    if (parsed === undefined) return text
    const secrets = new Set<string>()
    collect(parsed, '', secrets)
    return text.replace(JSON_TOKEN, (token) => {
      const value: unknown = JSON.parse(token)
      if (secrets.has(String(value)))
        return token.startsWith('"') ? JSON.stringify(this.#mark(String(value))) : this.#mark(token)
      if (typeof value !== 'string') return token
      const inner = this.#withoutNamed(value)
      return inner === value ? token : JSON.stringify(inner)
    })
  }
}

/** Empty if the bytes are not text. */
function fromBase64(encoded: string): string {
  const decoded = Buffer.from(encoded, 'base64').toString('utf8')
  return /[\p{Cc}\ufffd]/u.test(decoded.replace(/[\n\r\t]/g, '')) ? '' : decoded
}

const fromPercent = (encoded: string): string =>
  encoded.replace(/(?:%[0-9a-f]{2})+/gi, (bytes) =>
    Buffer.from(bytes.replaceAll('%', ''), 'hex').toString('utf8'),
  )

/**
 * Parses JSON up to the depth limit of arguments; walking deeper values could exhaust the stack.
 */
function objectOf(text: string): object | undefined {
  if (!/^\s*[[{]/.test(text)) return undefined
  let depth = 0
  for (const char of text) {
    if (char === '{' || char === '[') depth++
    else if (char === '}' || char === ']') depth--
    if (depth > LIMITS.json_depth) return undefined
  }
  try {
    return JSON.parse(text) as object // the first character is `{` or `[`
  } catch {
    return undefined
  }
}

/** Splits a name into words, so that `dbPassword`, `db-password` and `DB_PASSWORD` are equal. */
const words = (name: string): string => name.replace(/([a-z0-9])([A-Z])/g, '$1_$2')

function isSecret(name: string, value: unknown): boolean {
  if (value === null || typeof value === 'boolean') return false
  if (typeof value === 'number' && /tokens?$/i.test(name)) return false // a count of tokens
  return SECRET_NAME.test(words(name))
}

/** In a list, a flag names the item after it. */
const flag = (before: unknown): string =>
  typeof before === 'string' && /^--?[A-Za-z][\w-]*$/.test(before) ? before : ''

/** The name of a member `value` in lists of settings or headers: `{name, value}`. */
function pairName(members: object): string {
  const found = Object.entries(members).find(
    ([key, name]) => /^(?:name|key|header)$/i.test(key) && typeof name === 'string',
  )
  return found === undefined ? '' : String(found[1])
}

/** The name of a member: its own, or the one in a `{name, value}` pair. */
const nameIn = (members: object, key: string): string =>
  /^values?$/i.test(key) && SECRET_NAME.test(words(pairName(members))) ? pairName(members) : key

/** A `[name, value]` pair. */
const isPair = (item: unknown): item is [string, unknown] =>
  Array.isArray(item) && item.length === 2 && typeof item[0] === 'string' && /^[\w-]{1,64}$/.test(item[0])

function collect(value: unknown, name: string, secrets: Set<string>): void {
  const within = SECRET_NAME.test(words(name))
  if (Array.isArray(value))
    for (const item of value)
      collect(isPair(item) ? item[1] : item, !within && isPair(item) ? item[0] : name, secrets)
  else if (typeof value === 'object' && value !== null)
    for (const [key, item] of Object.entries(value))
      collect(item, within ? name : nameIn(value, key), secrets)
  else if (isSecret(name, value)) secrets.add(String(value))
}
