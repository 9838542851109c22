// Makes foreign text fit for a signed statement: valid for the strict parser (json.ts) and short
// enough. Without this, the name of a host or file could prevent the attestation of a call (L5).

/** The longest texts in an execution. */
export const SIGNED_TEXT_CHARS = { detail: 500, host: 260, left: 600 } as const

/** Replaces NUL and lone surrogates by U+FFFD and truncates without splitting a surrogate pair. */
export function toSignableText(text: string, most: number): string {
  const whole = text.toWellFormed().replaceAll('\0', '\uFFFD')
  if (whole.length <= most) return whole
  const inPair = /[\uD800-\uDBFF]/.test(whole.charAt(most - 1))
  return whole.slice(0, inPair ? most - 1 : most)
}
