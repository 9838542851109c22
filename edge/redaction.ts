// What of a call's arguments no human needs to be shown: secrets, known by the name of their member or flag, or by their
// shape. Pure. Whoever holds a secret can tell by its digest that it is the one; nothing else of it is left.

import { canonical, sha256 } from '../shared/json.ts'
import { LIMITS } from '../shared/limits.ts'

/** Whole words where a shorter one is ordinary English: `compass` and `author` are not hidden. */
const SECRET_NAME =
  /passw(?:or)?d|passphrase|passcode|secret|credential|cookie|authorization|tokens?(?![a-z])|(?:api|access|account|private|signing|encryption)[_-]?key|(?<![a-z])(?:pass|pwd|pin|otp|auth|jwt|signature)(?![a-z])/i

/** A name that says a secret follows, up to where it does; in a text, where names are not told from words. */
const NAMED = String.raw`(?:authorization|password|passwd|pwd|passphrase|secret|token|cookie|sig|(?:api|access|account)[_-]?key|signature)\\?["']?[=:] ?`

const SHAPES: readonly RegExp[] = [
  /cs_(?:agent|operator|enrol)_[a-z0-9-]+_[0-9A-Z_]{20,}/g, // ours
  /(?:xox[abceprs]|xapp)-[\w-]{10,}/g,
  /gh[opsur]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}/g,
  /(?<![\w-])(?:sk|rk|pk)[-_][\w-]{16,}|whsec_[\w+/=]{16,}/g,
  /(?:AKIA|ASIA)[0-9A-Z]{16}|AIza[\w-]{30,}|(?:npm|hf|dop_v1|shp(?:at|ss|ca))_\w{20,}|pypi-[\w-]{20,}/g,
  /(?<![\w.-])(?:SG|ya29)\.[\w-]{16,}(?:\.[\w-]+)?|(?<!\d)\d{8,10}:AA[\w-]{30,}/g,
  /(?<=hooks\.slack(?:-gov)?\.com\/(?:services|workflows|triggers)\/)[\w/-]{10,}|(?<=discord(?:app)?\.com\/api\/webhooks\/)[\w/-]{10,}/g,
  // A token starts where no word goes on: else each of many beginnings is followed to the end of the text (G06).
  /(?<![\w-])eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*/g,
  /-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----|$)/g,
  /\bBearer [\w+/=.~-]{8,}/gi,
  /(?<=:\/\/[^\s/:@]{0,64}:)[^\s/@«]+(?=@)/g, // the password in a URL
  /(?<=:\/\/)[^\s/@«]{20,}(?=@)/g, // a token in its place, or behind a long name
  // In a query, a flag, a header, a line of settings, a member in quotes: these hold blanks too. Not over lines, nor without end: what an
  // approver has to see is not to pass for a secret.
  new RegExp(String.raw`(?<=${NAMED}")(?:[^"\\\n]|\\.){1,512}(?=")|(?<=${NAMED}\\")(?:[^"\\\n]|\\[^"]){1,512}(?=\\")`, 'gi'),
  new RegExp(String.raw`(?<=${NAMED}\\?["']?(?:(?:Basic|Token) )?)[^&\s"';,«]{3,}`, 'gi'),
]
const withoutShapes = (text: string): string => SHAPES.reduce((rest, shape) => rest.replace(shape, hidden), text)

/** What may be base64 of a text: long enough to hold a secret and the word that says so. */
const BASE64 = /(?<![\w+/=-])[\w+/-]{24,}={0,2}(?![\w+/=-])/g

/** A secret does not show because it is written in base64, as settings and headers are. */
const withoutEncoded = (text: string): string =>
  text.replace(BASE64, (encoded) => {
    const decoded = Buffer.from(encoded, 'base64').toString('utf8')
    return /[\p{Cc}\ufffd]/u.test(decoded.replace(/[\n\r\t]/g, '')) || withoutShapes(decoded) === decoded ? encoded : hidden(encoded)
  })

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

export function redact(value: unknown, name = ''): unknown {
  if (isSecret(name, value)) return hidden(typeof value === 'string' ? value : canonical(value))
  if (typeof value === 'string') return withoutSecrets(value)
  if (Array.isArray(value)) return value.map((item, i) => redact(item, flag(value[i - 1])))
  if (typeof value === 'object' && value !== null)
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [withoutSecrets(key), redact(item, key)]))
  return value
}

/** A command line made of `args`: what is secret there is secret here, wherever the tool puts it. */
export function redactArgv(argv: readonly string[], args: Readonly<Record<string, unknown>>): unknown {
  const secrets = new Set<string>()
  collect(args, '', secrets)
  return redact(argv.map((item) => (secrets.has(item) ? hidden(item) : item)))
}

function collect(value: unknown, name: string, secrets: Set<string>): void {
  if (typeof value === 'object' && value !== null)
    for (const [key, item] of Object.entries(value))
      collect(item, Array.isArray(value) || SECRET_NAME.test(words(name)) ? name : key, secrets)
  else if (isSecret(name, value)) secrets.add(String(value))
}
