// Splits a policy text into its statements with their positions. Needed because the engine numbers
// policies in an order of its own (by number, sorted as text) and reports no positions. Pure: it
// knows only Cedar's comments, strings, whitespace and the semicolon, which ends statements and
// nothing else.

export type Statement = { readonly at: number; readonly text: string }

const TOKEN = /\/\/[^\n\r]*|[\s\u0085]+|"(?:[^"\\]|\\[\s\S])*"|;|[^\s\u0085"/;]+|[\s\S]/g
const BLANK_OR_COMMENT = /^(?:\/\/|[\s\u0085])/

/** `at` counts UTF-16 units. Whitespace and comments between statements belong to no statement. */
export function splitStatements(text: string): Statement[] {
  const parts: Statement[] = []
  let at: number | undefined
  for (const { 0: token, index } of text.matchAll(TOKEN)) {
    if (at === undefined && BLANK_OR_COMMENT.test(token)) continue
    at ??= index
    if (token !== ';') continue
    parts.push({ at, text: text.slice(at, index + 1) })
    at = undefined
  }
  return parts
}

/** Annotations, comments and whitespace before the scope of a statement. */
const ANNOTATIONS = /^(?:[\s\u0085]|\/\/[^\n\r]*|@\s*\w+(?:\s*\(\s*"(?:[^"\\]|\\[\s\S])*"\s*\))?)*/

/**
 * The position of the first occurrence of a text in a statement's scope or, for `conditions`, after
 * it; if there is none, the position where that part begins. Annotations and comments are skipped.
 * A quoted occurrence is preferred to one outside of strings.
 */
export function positionIn(statement: string, from: 'scope' | 'conditions', text: string): number {
  const quoted = JSON.stringify(text)
  const head = ANNOTATIONS.exec(statement)?.[0].length ?? 0
  let [begin, open] = [head, 0]
  let bare: number | undefined
  for (const { 0: token, index } of statement.slice(head).matchAll(TOKEN)) {
    const at = head + index
    if (BLANK_OR_COMMENT.test(token)) continue
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
