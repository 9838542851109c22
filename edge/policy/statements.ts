// The statements of a text of policies, in the order in which they are written and where. The engine names policies by a number that it
// sorts as text, and tells no places. Pure: of Cedar it knows comments, strings, blanks and the semicolon, which nothing but a statement
// ends with.

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

/** A name and what is said of it, comments and blanks: what stands before the scope of a statement. */
const NOTES = /^(?:[\s\u0085]|\/\/[^\n\r]*|@\s*\w+(?:\s*\(\s*"(?:[^"\\]|\\[\s\S])*"\s*\))?)*/

/**
 * Where a statement first says a text, in its scope or in what follows that; else where these begin. Annotations and comments say nothing
 * that decides. A text is looked for as it is quoted, or else within what is no text.
 */
export function whereIn(statement: string, from: 'scope' | 'conditions', text: string): number {
  const quoted = JSON.stringify(text)
  const head = NOTES.exec(statement)?.[0].length ?? 0
  let [begin, open] = [head, 0]
  let bare: number | undefined
  for (const { 0: token, index } of statement.slice(head).matchAll(TOKEN)) {
    const at = head + index
    if (BETWEEN.test(token)) continue
    const isText = token.startsWith('"')
    const inScope = from === 'conditions' && begin === head
    if (!inScope && token === quoted) return at
    if (!inScope && !isText && bare === undefined && token.includes(text)) bare = at + token.indexOf(text)
    if (!inScope || isText) continue
    open += token.split('(').length - token.split(')').length
    if (open === 0 && token.includes(')')) begin = at + token.lastIndexOf(')') + 1
  }
  return bare ?? begin
}
