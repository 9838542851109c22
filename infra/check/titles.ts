// Owns what the tests are called, read from their syntax: the first argument of `test`, `it` and `describe`, and of a file's own function
// that makes tests and calls its first parameter `title`. Where a title begins with `%s`, the tests are called by what begins the rows of
// their table, in whichever file it stands. It runs no test and does not judge what a title means.

import { posix } from 'node:path'
import { type Argument, parseSync, Visitor } from 'oxc-parser'
import { nameOf } from './facts.ts'
import type { Tree } from './tree.ts'

export type Title = { readonly file: string; readonly text: string }

type Span = { readonly start: number; readonly end: number }
type Said = Span & { readonly text: string }
/** What of a file's syntax the titles are found by. */
type Outline = {
  readonly texts: readonly Said[]
  readonly names: readonly Said[]
  /** The values of names. */
  readonly values: ReadonlyMap<string, Span>
  /** The files that names come from. */
  readonly origins: ReadonlyMap<string, string>
  readonly titles: readonly string[]
  /** Tables that tests are called by. In a row of several cells only the first one counts. */
  readonly tables: readonly Span[]
}

export function titlesOf(tree: Tree): Title[] {
  const outlines = new Map<string, Outline>()
  for (const [file, source] of tree)
    if (/^test\/.*\.ts$/.test(file)) outlines.set(file, outlineOf(file, source))
  return [...outlines]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([file, { titles, tables }]) => {
      const inTables = tables.flatMap((table) => textsIn(outlines, file, table))
      return [...titles, ...new Set(inTables)].map((text) => ({ file, text }))
    })
}

/** All texts of an expression, and of what it names. */
function textsIn(
  outlines: ReadonlyMap<string, Outline>,
  file: string,
  span: Span,
  seen = new Set<string>(),
): string[] {
  const outline = outlines.get(file)
  if (outline === undefined) return []
  const inside = ({ start, end }: Span): boolean => start >= span.start && end <= span.end
  const named = outline.names.filter(inside).flatMap(({ text: name }) => {
    const origin = outline.origins.get(name) ?? file
    const value = outlines.get(origin)?.values.get(name)
    const key = `${origin} ${name}`
    if (value === undefined || seen.has(key)) return []
    seen.add(key)
    return textsIn(outlines, origin, value, seen)
  })
  return [...outline.texts.filter(inside).map(({ text }) => text), ...named]
}

const MAKES_TESTS = ['test', 'it', 'describe']

function outlineOf(file: string, source: string): Outline {
  const texts: Said[] = []
  const names: Said[] = []
  const values = new Map<string, Span>()
  const origins = new Map<string, string>()
  const titles: string[] = []
  const tables: Span[] = []
  const beside: Span[] = []
  const { program } = parseSync(file, source)
  const makers = new Set(MAKES_TESTS)
  new Visitor({
    FunctionDeclaration({ id, params: [first] }) {
      if (id !== null && first?.type === 'Identifier' && first.name === 'title') makers.add(id.name)
    },
  }).visit(program)
  new Visitor({
    Literal({ value, start, end }) {
      if (typeof value === 'string') texts.push({ text: value, start, end })
    },
    TemplateLiteral({ quasis, start, end }) {
      texts.push({ text: quasis.map(({ value }) => value.cooked).join('…'), start, end })
    },
    Identifier({ name, start, end }) {
      names.push({ text: name, start, end })
    },
    ArrayExpression({ elements }) {
      for (const row of elements)
        if (row?.type === 'ArrayExpression')
          beside.push(...row.elements.slice(1).filter((cell) => cell !== null))
    },
    VariableDeclarator({ id, init }) {
      if (id.type === 'Identifier' && init !== null) values.set(id.name, init)
    },
    ImportDeclaration({ source: from, specifiers }) {
      for (const { local } of specifiers) origins.set(local.name, posix.join(posix.dirname(file), from.value))
    },
    CallExpression({ callee, arguments: [first] }) {
      const title = textOf(first)
      if (title === undefined || !makers.has(nameOf(callee)?.split('.', 1)[0] ?? '')) return
      const [table] = callee.type === 'CallExpression' ? callee.arguments : []
      if (!title.startsWith('%s')) titles.push(title)
      else if (table !== undefined) tables.push(table)
    },
  }).visit(program)
  const counts = ({ start, end }: Span): boolean =>
    !beside.some((cell) => start >= cell.start && end <= cell.end)
  return { texts: texts.filter(counts), names: names.filter(counts), values, origins, titles, tables }
}

function textOf(argument: Argument | undefined): string | undefined {
  if (argument?.type === 'Literal' && typeof argument.value === 'string') return argument.value
  return argument?.type === 'TemplateLiteral'
    ? argument.quasis.map(({ value }) => value.cooked).join('…')
    : undefined
}
