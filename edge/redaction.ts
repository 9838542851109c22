// What of a call's arguments no human needs to be shown: secrets, known by the name of their member or flag, or by their
// shape. Pure. Whoever holds a secret can tell by its digest that it is the one; nothing else of it is left.

import { canonical, sha256 } from '../shared/json.ts'
import { LIMITS } from '../shared/limits.ts'
import { AFTER_NAMES, KEY_LINES, PLACED, PRIVATE_KEY, SECRET_NAME, TOKENS } from './secret-shapes.ts'

/** Each find alone is hidden; what names it stays. */
function withoutShapes(text: string): string {
  const unplaced = [PRIVATE_KEY, ...TOKENS, ...PLACED].reduce((rest, shape) => rest.replace(shape, hidden), text)
  return AFTER_NAMES.reduce((rest, named) => rest.replace(named, (_, name: string, secret: string) => name + hidden(secret)), unplaced)
}

/** What may be base64 of a text: long enough to hold a secret and the word that says so. */
const BASE64 = /(?<![\w+/=-])[\w+/-]{24,}={0,2}(?![\w+/=-])/g
/** As mails and certificates break it. */
const BASE64_LINES = /(?<![\w+/=-])[\w+/-]{24,}(?:\r?\n[ \t]{0,16}[\w+/-]{2,})+={0,2}/g
/** What may be a value in a query. */
const PERCENT = /[\w.~%!*()+-]{6,}/g

function withoutBase64(encoded: string): string {
  const decoded = Buffer.from(encoded, 'base64').toString('utf8')
  return /[\p{Cc}\ufffd]/u.test(decoded.replace(/[\n\r\t]/g, '')) || withoutShapes(decoded) === decoded ? encoded : hidden(encoded)
}

function withoutPercent(encoded: string): string {
  const decoded = encoded.replace(/(?:%[0-9a-f]{2})+/gi, (bytes) => Buffer.from(bytes.replaceAll('%', ''), 'hex').toString('utf8'))
  return decoded === encoded || withoutShapes(decoded) === decoded ? encoded : hidden(encoded)
}

/** A secret does not show because it is written in base64, as settings and headers are, or as URLs are. */
const withoutEncoded = (text: string): string =>
  text.replace(BASE64, withoutBase64).replace(BASE64_LINES, withoutBase64).replace(PERCENT, withoutPercent)

const JSON_TOKEN = /"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g

/**
 * A text that is JSON is redacted by its names as arguments are, at its own depth. Its tokens are replaced where they stand and all else
 * is left as it is: what the approver reads must be what the tool will read, to the last digit.
 */
function withoutNamed(text: string): string {
  const parsed = objectOf(text)
  if (parsed === undefined) return text
  const secrets = new Set<string>()
  collect(parsed, '', secrets)
  return text.replace(JSON_TOKEN, (token) => {
    const value: unknown = JSON.parse(token)
    if (secrets.has(String(value))) return token.startsWith('"') ? JSON.stringify(hidden(String(value))) : hidden(token)
    if (typeof value !== 'string') return token
    const inner = withoutNamed(value)
    return inner === value ? token : JSON.stringify(inner)
  })
}

/** No deeper than arguments may be: what is deeper is no settings of anybody's, and walking it could end the stack. */
function objectOf(text: string): object | undefined {
  if (!/^\s*[[{]/.test(text)) return undefined
  let depth = 0
  for (const char of text) {
    if (char === '{' || char === '[') depth++
    else if (char === '}' || char === ']') depth--
    if (depth > LIMITS.json_depth) return undefined
  }
  try {
    return JSON.parse(text) as object // it begins like one
  } catch {
    return undefined
  }
}

const withoutSecrets = (text: string): string => withoutEncoded(withoutShapes(withoutNamed(text)))

/** What stands for something hidden. */
export const HIDDEN = /«redacted, sha256 [0-9a-f]{12}»/

const hidden = (secret: string): string => `«redacted, sha256 ${sha256(secret).slice(0, 12)}»`

/** Names are looked at as words: `dbPassword`, `db-password` and `DB_PASSWORD` are one. */
const words = (name: string): string => name.replace(/([a-z0-9])([A-Z])/g, '$1_$2')

function isSecret(name: string, value: unknown): boolean {
  if (value === null || typeof value === 'boolean') return false
  if (typeof value === 'number' && /tokens?$/i.test(name)) return false // how many, not which
  return SECRET_NAME.test(words(name))
}

/** In a list, a flag names what follows it. */
const flag = (before: unknown): string => (typeof before === 'string' && /^--?[A-Za-z][\w-]*$/.test(before) ? before : '')

/** The name that goes with a member `value`, as settings and headers are listed. */
function pairName(members: object): string {
  const found = Object.entries(members).find(([key, name]) => /^(?:name|key|header)$/i.test(key) && typeof name === 'string')
  return found === undefined ? '' : String(found[1])
}

/** Under which name a member stands: its own, or what its neighbour says. */
const nameIn = (members: object, key: string): string =>
  /^values?$/i.test(key) && SECRET_NAME.test(words(pairName(members))) ? pairName(members) : key

/** A name and its value as a list of two, in a list of such. */
const isPair = (item: unknown): item is [string, unknown] =>
  Array.isArray(item) && item.length === 2 && typeof item[0] === 'string' && /^[\w-]{1,64}$/.test(item[0])

export function redact(value: unknown, name = ''): unknown {
  if (isSecret(name, value)) return hidden(typeof value === 'string' ? value : canonical(value))
  if (typeof value === 'string') return withoutSecrets(value)
  if (Array.isArray(value)) return redactList(value)
  if (typeof value === 'object' && value !== null)
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [withoutSecrets(key), redact(item, nameIn(value, key))]))
  return value
}

/** A secret does not show because it is spread over a list: keys over their lines, tokens over their parts. */
function redactList(list: readonly unknown[]): readonly unknown[] {
  const whole = withoutSpread(list, '\n', KEY_LINES)
  const items = whole.map((item, i) => (item === list[i] ? redactItem(item, list[i - 1]) : item))
  return withoutSpread(items, '', TOKENS)
}

function redactItem(item: unknown, before: unknown): unknown {
  if (isPair(item)) return [redact(item[0]), redact(item[1], item[0])]
  const given = typeof item === 'string' && /^(?:-u|--user|--proxy-user)$/.test(String(before)) ? withoutPassword(item) : item
  return redact(given, flag(before))
}

/** Of `user:password`; two numbers are a user and its group. */
const withoutPassword = (user: string): string =>
  user.replace(/^([^\s:/«]{1,64}:)(?!\d+$)([^\n]{3,512})$/, (_, name: string, secret: string) => name + hidden(secret))

/** Those texts of a list over which a secret goes, hidden. */
function withoutSpread(list: readonly unknown[], between: string, shapes: readonly RegExp[]): readonly unknown[] {
  const texts = list.map((item) => (typeof item === 'string' ? item : '\u0000'))
  const joined = texts.join(between)
  const spans = shapes.flatMap((shape) => [...joined.matchAll(shape)].map(({ index, 0: { length } }) => [index, index + length] as const))
  if (spans.length === 0) return list
  let at = 0
  return list.map((item, i) => {
    const [from, to] = [at, at + (texts[i] ?? '').length]
    at = to + between.length
    const spread = spans.some(([start, end]) => start < to && end > from && (start < from || end > to))
    return spread && typeof item === 'string' && item !== '' ? hidden(item) : item
  })
}

/** A command line made of `args`: what is secret there is secret here, wherever the tool puts it. */
export function redactArgv(argv: readonly string[], args: Readonly<Record<string, unknown>>): unknown {
  const secrets = new Set<string>()
  collect(args, '', secrets)
  return redact(argv.map((item) => (secrets.has(item) ? hidden(item) : item)))
}

function collect(value: unknown, name: string, secrets: Set<string>): void {
  const within = SECRET_NAME.test(words(name))
  if (Array.isArray(value))
    for (const item of value) collect(isPair(item) ? item[1] : item, !within && isPair(item) ? item[0] : name, secrets)
  else if (typeof value === 'object' && value !== null)
    for (const [key, item] of Object.entries(value)) collect(item, within ? name : nameIn(value, key), secrets)
  else if (isSecret(name, value)) secrets.add(String(value))
}
