// The statements of a text of policies, in the order in which they are written and where. The engine names policies by a number that it sorts
// as text, and tells no places. Pure: of Cedar it knows comments, strings, blanks and the semicolon, which nothing but a statement ends with.

export type Part = { readonly at: number; readonly text: string }

const TOKEN = /\/\/[^\n\r]*|[\s\u0085]+|"(?:[^"\\]|\\[\s\S])*"|;|[^\s\u0085"/;]+|[\s\S]/g
const BETWEEN = /^(?:\/\/|[\s\u0085])/

/** `at` counts UTF-16 units. What stands between statements, and after the last, is no part of any. */
export function partsOf(text: string): Part[] {
  const parts: Part[] = []
  let at: number | undefined
  for (const { 0: token, index } of text.matchAll(TOKEN)) {
    if (at === undefined && BETWEEN.test(token)) continue
    at ??= index
    if (token !== ';') continue
    parts.push({ at, text: text.slice(at, index + 1) })
    at = undefined
  }
  return parts
}
