// A tenant's secrets as operators put and list them, and the forms in which a value shows itself in a text. A value goes in and never comes
// out: only a claim hands it on, to the worker.

import { z } from 'zod'
import { LIMITS } from './limits.ts'
import { HostPort } from './plan.ts'
import { Name, Time, ToolName } from './wire.ts'

/** Whoever may write tools could name any secret in one: so whoever puts a secret says which tools may have it. */
const shared = {
  tools: z.array(ToolName).min(1).max(LIMITS.secret_tools),
  /** Where said, no tool is handed it: the proxy adds it to requests to these hosts, and to no others. */
  hosts: z.array(HostPort).min(1).max(LIMITS.secret_hosts).optional(),
}

export const SecretSpec = z.strictObject({
  /** A shorter one can't be told from other text, and so not be kept out of it. */
  value: z.string().min(LIMITS.secret_chars_min).max(LIMITS.secret_chars),
  ...shared,
})
export type SecretSpec = z.infer<typeof SecretSpec>

/** `version` counts up with each value that is put under the name. */
export const Secret = z.strictObject({ name: Name, version: z.int().min(1), ...shared, put_by: Name, put_at_ms: Time })
export type Secret = z.infer<typeof Secret>

/**
 * How a value may stand in a text: as it is, in lower case as names of hosts are, as JSON and URLs write it, in hexadecimal digits, and
 * in base64 wherever in it the value begins; each longer line of it by itself. Compressed or encrypted it is not found.
 */
export function formsOf(value: string): string[] {
  const trimmed = value.trim()
  const whole = trimmed.length < LIMITS.secret_chars_min ? value : trimmed
  const lines = whole.split(/\r?\n/).filter((line) => line.trim().length >= LINE_MIN)
  const bytes = Buffer.from(whole)
  const percent = encodeURIComponent(whole)
  const hex = bytes.toString('hex')
  const base64 = inBase64(bytes)
  const forms = [
    ...[whole, whole.toLowerCase(), JSON.stringify(whole).slice(1, -1), ...lines],
    ...[percent, percent.replace(/%../g, (code) => code.toLowerCase()), percent.replaceAll('%20', '+')],
    ...[hex, hex.toUpperCase(), ...base64, ...base64.map((form) => form.replaceAll('+', '-').replaceAll('/', '_'))],
  ]
  return [...new Set(forms)]
}

/** Of a text of several lines, those that give something away: of a key all but its last. */
const LINE_MIN = 16

/** What of the base64 of a longer text is this value's alone, for each place in three bytes at which it may begin. */
const inBase64 = (bytes: Buffer): string[] =>
  [0, 1, 2].map((before) => {
    const text = Buffer.concat([Buffer.alloc(before), bytes]).toString('base64')
    return text.slice(Math.ceil((before * 8) / 6), Math.floor(((before + bytes.length) * 8) / 6))
  })
