// Parses the text of a path. An error names the position of the mistake.

import type { Json, Operand, Operator, Path, Segment, Selector, Test } from './path.ts'

const NESTED_MAX = 16
const OPERATORS: readonly Operator[] = ['==', '!=', '<=', '>=', '<', '>']
const FUNCTIONS: Readonly<Record<string, 'length' | 'count' | 'value-of'>> = {
  length: 'length',
  count: 'count',
  value: 'value-of',
}

export function parse(text: string, from: '$' | '@'): Path {
  const reader = new Reader(text)
  const path = reader.path(0)
  reader.end()
  if (path.from !== from) throw new Error(`\`${text}\` must begin with \`${from}\``)
  return path
}

class Reader {
  readonly #text: string
  #at = 0

  constructor(text: string) {
    this.#text = text
  }

  end(): void {
    this.#space()
    if (this.#at < this.#text.length) throw this.#unexpected()
  }

  path(depth: number): Path {
    if (depth > NESTED_MAX) throw new Error('the path nests paths too deeply')
    this.#space()
    const from = this.#text[this.#at]
    if (from !== '$' && from !== '@') throw this.#unexpected()
    this.#at++
    const segments: Segment[] = []
    for (let segment = this.#segment(depth); segment !== undefined; segment = this.#segment(depth))
      segments.push(segment)
    return { from, segments }
  }

  #segment(depth: number): Segment | undefined {
    const before = this.#at
    this.#space()
    const deep = this.#take('..')
    if (this.#take('[')) return { deep, selectors: this.#selectors(depth) }
    if (deep || this.#take('.'))
      return {
        deep,
        selectors: [this.#take('*') ? { kind: 'all' } : { kind: 'name', name: this.#shorthand() }],
      }
    this.#at = before
    return undefined
  }

  #selectors(depth: number): Selector[] {
    const selectors: Selector[] = []
    do selectors.push(this.#selector(depth))
    while (this.#taken(','))
    this.#expect(']')
    return selectors
  }

  #selector(depth: number): Selector {
    this.#space()
    if (this.#take('*')) return { kind: 'all' }
    if (this.#take('?')) return { kind: 'filter', test: this.#or(depth + 1) }
    const quote = this.#text[this.#at]
    if (quote === '"' || quote === "'") return { kind: 'name', name: this.#quoted(quote) }
    const start = this.#integer()
    if (!this.#taken(':')) {
      if (start === undefined) throw this.#unexpected()
      return { kind: 'index', index: start }
    }
    const end = this.#integer()
    const step = this.#taken(':') ? this.#integer() : undefined
    return { kind: 'slice', start, end, step: step ?? 1 }
  }

  #or(depth: number): Test {
    const of = [this.#and(depth)]
    while (this.#taken('||')) of.push(this.#and(depth))
    return of[1] === undefined && of[0] !== undefined ? of[0] : { kind: 'or', of }
  }

  #and(depth: number): Test {
    const of = [this.#basic(depth)]
    while (this.#taken('&&')) of.push(this.#basic(depth))
    return of[1] === undefined && of[0] !== undefined ? of[0] : { kind: 'and', of }
  }

  #basic(depth: number): Test {
    if (depth > NESTED_MAX) throw new Error('the path nests tests too deeply')
    if (this.#taken('!')) return { kind: 'not', of: this.#basic(depth + 1) }
    if (this.#taken('(')) {
      const test = this.#or(depth + 1)
      this.#expect(')')
      return test
    }
    const left = this.#operand(depth)
    this.#space()
    const operator = OPERATORS.find((one) => this.#take(one))
    if (operator !== undefined) return { kind: 'compare', operator, left, right: this.#operand(depth) }
    if (left.kind !== 'path') throw this.#unexpected()
    return { kind: 'exists', path: left.path }
  }

  #operand(depth: number): Operand {
    this.#space()
    const first = this.#text[this.#at]
    if (first === '$' || first === '@') return { kind: 'path', path: this.path(depth + 1) }
    if (first === '"' || first === "'") return { kind: 'value', value: this.#quoted(first) }
    const [word] = /^[a-z]+/.exec(this.#text.slice(this.#at)) ?? []
    if (word !== undefined) return this.#word(word, depth)
    const [number] =
      /^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/.exec(this.#text.slice(this.#at)) ?? []
    if (number === undefined) throw this.#unexpected()
    this.#at += number.length
    return { kind: 'value', value: Number(number) }
  }

  #word(word: string, depth: number): Operand {
    const words: Record<string, Json> = { true: true, false: false, null: null }
    if (Object.hasOwn(words, word)) {
      this.#at += word.length
      return { kind: 'value', value: words[word] ?? null }
    }
    const kind = FUNCTIONS[word]
    if (kind === undefined)
      throw new Error(
        `there is no function \`${word}\`; the functions are ${Object.keys(FUNCTIONS).join(', ')}`,
      )
    this.#at += word.length
    this.#expect('(')
    const path = this.path(depth + 1)
    this.#expect(')')
    return { kind, path }
  }

  #shorthand(): string {
    const [name] =
      /^[A-Za-z_\u0080-\u{10ffff}][A-Za-z0-9_\u0080-\u{10ffff}]*/u.exec(this.#text.slice(this.#at)) ?? []
    if (name === undefined) throw this.#unexpected()
    this.#at += name.length
    return name
  }

  #integer(): number | undefined {
    this.#space()
    const [digits] = /^-?(?:0|[1-9][0-9]{0,14})/.exec(this.#text.slice(this.#at)) ?? []
    if (digits === undefined) return undefined
    this.#at += digits.length
    return Number(digits)
  }

  /** JSON's escapes, in either kind of quotes. */
  #quoted(quote: string): string {
    let end = this.#at + 1
    while (end < this.#text.length && this.#text[end] !== quote) end += this.#text[end] === '\\' ? 2 : 1
    if (end >= this.#text.length) throw new Error('a string in the path is not closed')
    const inside = this.#text.slice(this.#at + 1, end)
    this.#at = end + 1
    const asJson = quote === '"' ? inside : inside.replace(/\\'/g, "'").replace(/"/g, '\\"')
    return JSON.parse(`"${asJson}"`)
  }

  #space(): void {
    while (/[ \t\n\r]/.test(this.#text.charAt(this.#at))) this.#at++
  }

  #take(word: string): boolean {
    if (!this.#text.startsWith(word, this.#at)) return false
    this.#at += word.length
    return true
  }

  #taken(word: string): boolean {
    this.#space()
    return this.#take(word)
  }

  #expect(word: string): void {
    if (!this.#taken(word)) throw this.#unexpected()
  }

  #unexpected(): Error {
    const rest = this.#text.slice(this.#at, this.#at + 20)
    return new Error(
      rest === ''
        ? 'the path ends too early'
        : `the path can’t be read at \`${rest}\`, character ${this.#at + 1}`,
    )
  }
}
