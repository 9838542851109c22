// The values that no text may show, however they are written in it. Pure. Each text is searched for all of them at once before any part of
// it is looked at: nearly always there is none.

import { formsOf } from '../shared/secrets.ts'

export class KnownValues {
  readonly #forms: readonly string[]

  constructor(values: readonly string[]) {
    const forms = new Set(values.flatMap(formsOf))
    this.#forms = [...forms].sort((a, b) => b.length - a.length) // what holds another goes first
  }

  /** The same, with each of them replaced wherever it stands; the very same where none does. */
  hiddenIn(value: unknown, mark: (secret: string) => string): unknown {
    if (this.#forms.length === 0) return value
    const whole = textsOf(value).join('\n')
    const there = this.#forms.filter((form) => whole.includes(form))
    return there.length === 0 ? value : without(value, there, mark)
  }
}

function textsOf(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(textsOf)
  if (typeof value === 'object' && value !== null) return [...Object.keys(value), ...Object.values(value).flatMap(textsOf)]
  return typeof value === 'string' || typeof value === 'number' ? [String(value)] : []
}

function without(value: unknown, forms: readonly string[], mark: (secret: string) => string): unknown {
  const inText = (text: string): string => forms.reduce((rest, form) => rest.replaceAll(form, () => mark(form)), text)
  if (Array.isArray(value)) return value.map((item) => without(item, forms, mark))
  if (typeof value === 'object' && value !== null)
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [inText(key), without(item, forms, mark)]))
  if (typeof value !== 'string' && typeof value !== 'number') return value
  const text = inText(String(value))
  return text === String(value) ? value : text
}
