// Makes untrusted text safe to show to people: escapes confusable and invisible characters, and
// shortens long texts. Pure.

import { CONFUSABLE } from '../../shared/bytes/confusable-characters.ts'
import { sha256 } from '../../shared/bytes/json.ts'
import { LIMITS } from '../../shared/limits.ts'

const EACH_CONFUSABLE = new RegExp(CONFUSABLE, 'gu')

/**
 * The lengths to which single texts are cut. The first one with which the whole value fits is used.
 */
const LENGTHS = [2_000, 400, 80]

/** The same JSON with every confusable character as a JSON escape. */
export const escapeConfusablesInJson = (json: string): string =>
  json.replace(EACH_CONFUSABLE, (char) =>
    Array.from(
      { length: char.length },
      (_, i) => `\\u${char.charCodeAt(i).toString(16).padStart(4, '0')}`,
    ).join(''),
  )

/** Replaces each confusable character by its code point, `\u{…}`. */
export const escapeConfusables = (text: string): string =>
  text.replace(EACH_CONFUSABLE, (char) => `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`)

/**
 * A value as JSON for people, without confusable characters. Shortened texts carry the digest of
 * the whole.
 */
export function readableJson(value: unknown): string {
  const indent = Array.isArray(value) ? undefined : 2
  const whole = JSON.stringify(value, null, indent)
  const texts = whole.length <= LIMITS.card_chars ? LENGTHS.slice(0, 1) : LENGTHS
  const fitting = texts
    .map((length) => JSON.stringify(shortenTexts(value, length), null, indent))
    .find(({ length }) => length <= LIMITS.card_chars)
  return escapeConfusables(fitting ?? shorten(whole, LIMITS.card_chars))
}

/**
 * A text quoted for a sentence of ours: in JSON quotes, with backticks escaped, as our sentences
 * use those.
 */
export const quoteReadable = (text: string): string => escapeBackticks(readableJson(text))
export const escapeBackticks = (text: string): string => text.replaceAll('`', '\\u{60}')

/**
 * Shortens a text, keeping head and tail, because the important part is often at the end.
 * Well-formed, because some receivers refuse half a surrogate pair.
 */
export function shorten(text: string, length: number): string {
  if (text.length <= length) return text
  const half = Math.floor(length / 2)
  const [head, tail] = [text.slice(0, half).toWellFormed(), text.slice(-half).toWellFormed()]
  return `${head} … ${text.length - 2 * half} characters more, sha256 of all ${sha256(text).slice(0, 16)} … ${tail}`
}

function shortenTexts(value: unknown, length: number): unknown {
  if (typeof value === 'string') return shorten(value, length)
  if (Array.isArray(value)) return value.map((item) => shortenTexts(item, length))
  if (typeof value === 'object' && value !== null)
    return Object.fromEntries(
      Object.entries(value).map(([name, item]) => [shorten(name, length), shortenTexts(item, length)]),
    )
  return value
}

/**
 * Whether the text may have been cut. An agent can write the same words, so a whole text may count
 * as cut.
 */
export const isShortened = (text: string): boolean => text.includes(' characters more, sha256 of all ')
