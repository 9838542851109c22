// How a text that somebody else had a say in stands in what is signed: so that every strict reader takes it (json.ts), and no longer than
// its place. What a tool calls itself, its hosts or its files is never the reason why nobody hears how its call ended (L5).

/** Of the texts in an execution, at the most. */
export const TOLD_CHARS = { detail: 500, host: 260, left: 600 } as const

/** Cut between two characters; what is no text has a mark in its place. */
export function asTold(text: string, most: number): string {
  const whole = text.toWellFormed().replaceAll('\0', '\uFFFD')
  if (whole.length <= most) return whole
  const inPair = /[\uD800-\uDBFF]/.test(whole.charAt(most - 1))
  return whole.slice(0, inPair ? most - 1 : most)
}
