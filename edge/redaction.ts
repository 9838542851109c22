// What of a call's arguments no human needs to be shown: secrets, known by the name of their member or flag, or by their
// shape. Pure. Whoever holds a secret can tell by its digest that it is the one; nothing else of it is left.

import { canonical, sha256 } from '../shared/json.ts'

/** Whole words where a shorter one is ordinary English: `compass` and `author` are not hidden. */
const SECRET_NAME =
  /passw(?:or)?d|passphrase|passcode|secret|credential|cookie|authorization|tokens?(?![a-z])|(?:api|access|account|private|signing|encryption)[_-]?key|(?<![a-z])(?:pass|pwd|pin|otp|auth|jwt|signature)(?![a-z])/i

const SHAPES: readonly RegExp[] = [
  /cs_(?:agent|operator|enrol)_[a-z0-9-]+_[0-9A-Z_]{20,}/g, // ours
  /(?:xox[abceprs]|xapp)-[\w-]{10,}/g,
  /gh[opsur]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}/g,
  /(?<![\w-])(?:sk|rk|pk)[-_][\w-]{16,}|whsec_[\w+/=]{16,}/g,
  /(?:AKIA|ASIA)[0-9A-Z]{16}|AIza[\w-]{30,}|(?:npm|hf|dop_v1)_\w{20,}/g,
  // A token starts where no word goes on: else each of many beginnings is followed to the end of the text (G06).
  /(?<![\w-])eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*/g,
  /-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)/g,
  /\bBearer [\w+/=.~-]{8,}/gi,
  /(?<=:\/\/[^\s/:@]{0,64}:)[^\s/@«]+(?=@)/g, // the password in a URL
  // In a query, a flag, a header, a line of settings.
  /(?<=(?:authorization|password|passwd|pwd|passphrase|secret|token|cookie|sig|(?:api|access)[_-]?key)["']?[=:] ?["']?(?:(?:Basic|Token) )?)[^&\s"';,«]{3,}/gi,
]
const withoutShapes = (text: string): string => SHAPES.reduce((rest, shape) => rest.replace(shape, hidden), text)

const hidden = (secret: string): string => `«redacted, sha256 ${sha256(secret).slice(0, 12)}»`

/** Names are looked at as words: `dbPassword`, `db-password` and `DB_PASSWORD` are one. */
function isSecret(name: string, value: unknown): boolean {
  if (value === null || typeof value === 'boolean') return false
  const words = name.replace(/([a-z0-9])([A-Z])/g, '$1_$2')
  if (typeof value === 'number' && /tokens?$/i.test(words)) return false // how many, not which
  return SECRET_NAME.test(words)
}

/** In a list, a flag names what follows it. */
const flag = (before: unknown): string => (typeof before === 'string' && /^--?[A-Za-z][\w-]*$/.test(before) ? before : '')

export function redact(value: unknown, name = ''): unknown {
  if (isSecret(name, value)) return hidden(typeof value === 'string' ? value : canonical(value))
  if (typeof value === 'string') return withoutShapes(value)
  if (Array.isArray(value)) return value.map((item, i) => redact(item, flag(value[i - 1])))
  if (typeof value === 'object' && value !== null)
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [withoutShapes(key), redact(item, key)]))
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
    for (const [key, item] of Object.entries(value)) collect(item, Array.isArray(value) ? name : key, secrets)
  else if (isSecret(name, value)) secrets.add(String(value))
}
