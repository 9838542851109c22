// Masks known secret values in any encoding that encodings.ts finds. All texts of a document are
// first searched together, because nearly always there is no find.

import type { FragmentIndex } from '../../shared/secrets/byte-search.ts'
import { fragmentsOf, SecretSearch } from '../../shared/secrets/encodings.ts'

export class KnownValues {
  readonly #values: readonly string[]
  /** Built for the first search: most loaded directories never need it. */
  #pieces: FragmentIndex | undefined

  constructor(values: readonly string[]) {
    this.#values = values
  }

  /** The value with each secret replaced by a mark; the same object if it contains none. */
  hiddenIn(value: unknown, mark: (secret: string) => string): unknown {
    if (this.#values.length === 0) return value
    this.#pieces ??= fragmentsOf(this.#values.map((known) => ['', known]))
    const whole = textsOf(value).join('\n')
    return hidden(whole, this.#pieces, mark) === whole ? value : without(value, this.#pieces, mark)
  }
}

function textsOf(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(textsOf)
  if (typeof value === 'object' && value !== null)
    return [...Object.keys(value), ...Object.values(value).flatMap(textsOf)]
  return typeof value === 'string' || typeof value === 'number' ? [String(value)] : []
}

function without(value: unknown, pieces: FragmentIndex, mark: (secret: string) => string): unknown {
  if (Array.isArray(value)) return value.map((item) => without(item, pieces, mark))
  if (typeof value === 'object' && value !== null)
    return Object.fromEntries(
      Object.entries(value).map(([key, item]) => [hidden(key, pieces, mark), without(item, pieces, mark)]),
    )
  if (typeof value !== 'string' && typeof value !== 'number') return value
  const text = hidden(String(value), pieces, mark)
  return text === String(value) ? value : text
}

function hidden(text: string, pieces: FragmentIndex, mark: (secret: string) => string): string {
  const bytes = Buffer.from(text)
  const search = new SecretSearch(pieces)
  search.take(bytes)
  search.end()
  const spans: { from: number; to: number }[] = []
  for (const { from, to } of search.findsBefore(Number.POSITIVE_INFINITY)) {
    const last = spans.at(-1)
    if (last !== undefined && from <= last.to) last.to = Math.max(last.to, to)
    else spans.push({ from, to })
  }
  if (spans.length === 0) return text
  let [out, at] = ['', 0]
  for (const { from, to } of spans) {
    out += bytes.toString('utf8', at, from) + mark(bytes.toString('utf8', from, to))
    at = to
  }
  return out + bytes.toString('utf8', at)
}
