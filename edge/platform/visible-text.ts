// Text that others wrote, made safe to show to people: without characters that look like others or like nothing, and cut to a length. Pure.

import { DECEIVING } from '../../shared/bytes/confusable-characters.ts'
import { sha256 } from '../../shared/bytes/json.ts'
import { LIMITS } from '../../shared/limits.ts'

const EACH_DECEIVING = new RegExp(DECEIVING, 'gu')

/** The lengths to which single texts are cut. The first one with which the whole value fits is used. */
const LENGTHS = [2_000, 400, 80]

/** The same JSON value with each deceiving character as an escape. */
export const unambiguous = (json: string): string =>
  json.replace(EACH_DECEIVING, (char) =>
    Array.from(
      { length: char.length },
      (_, i) => `\\u${char.charCodeAt(i).toString(16).padStart(4, '0')}`,
    ).join(''),
  )

/** Replaces each deceiving character by its code point. */
export const written = (text: string): string =>
  text.replace(EACH_DECEIVING, (char) => `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`)

/** A value as JSON for people, without deceiving characters. A cut text says how much it lacks and has the digest of the whole. */
export function readable(value: unknown): string {
  const indent = Array.isArray(value) ? undefined : 2
  const whole = JSON.stringify(value, null, indent)
  const texts = whole.length <= LIMITS.card_chars ? LENGTHS.slice(0, 1) : LENGTHS
  const fitting = texts
    .map((length) => JSON.stringify(shortened(value, length), null, indent))
    .find(({ length }) => length <= LIMITS.card_chars)
  return written(fitting ?? cut(whole, LIMITS.card_chars))
}

/** A text to quote in a sentence of ours: in JSON’s quotes, and without the marks that our sentences use. */
export const quoted = (text: string): string => unticked(readable(text))
export const unticked = (text: string): string => text.replaceAll('`', '\\u{60}')

/** Keeps head and tail, because the important part is often at the end. Well-formed, because some receivers refuse half a character. */
export function cut(text: string, length: number): string {
  if (text.length <= length) return text
  const half = Math.floor(length / 2)
  const [head, tail] = [text.slice(0, half).toWellFormed(), text.slice(-half).toWellFormed()]
  return `${head} … ${text.length - 2 * half} characters more, sha256 of all ${sha256(text).slice(0, 16)} … ${tail}`
}

function shortened(value: unknown, length: number): unknown {
  if (typeof value === 'string') return cut(value, length)
  if (Array.isArray(value)) return value.map((item) => shortened(item, length))
  if (typeof value === 'object' && value !== null)
    return Object.fromEntries(
      Object.entries(value).map(([name, item]) => [cut(name, length), shortened(item, length)]),
    )
  return value
}

/** Whether the text may have been cut. An agent can write the same words, so a whole text may count as cut. */
export const isShortened = (text: string): boolean => text.includes(' characters more, sha256 of all ')
