// Finds a piece of code in a source file, however a formatter has broken its lines. The tests that
// break our own code on purpose quote it, and a change of the line width must not make their
// quotations miss.

const TOKEN = /\w+|[^\w\s]/g
const CLOSING = new Set([')', ']', '}'])

export type Span = { readonly at: number; readonly length: number }

/**
 * The position of `text` in `source`, ignoring white space between tokens and trailing commas.
 * Undefined unless it occurs exactly once.
 */
export function findOnce(text: string, source: string): Span | undefined {
  const tokens = text.match(TOKEN) ?? []
  const pattern = tokens
    .map((token, i) => `${i > 0 && CLOSING.has(token) ? ',?\\s*' : ''}${RegExp.escape(token)}`)
    .join('\\s*')
  const [found, ...more] = source.matchAll(new RegExp(pattern, 'g'))
  return found === undefined || more.length > 0 ? undefined : { at: found.index, length: found[0].length }
}
