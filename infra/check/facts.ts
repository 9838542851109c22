// What one source file says of itself, read from its syntax tree: what it imports, where it reads the environment, which
// tests it narrows or skips. It holds no opinion; rules.ts does.

import { type Argument, type Expression, parseSync, Visitor } from 'oxc-parser'

export type Import = {
  readonly specifier: string | undefined
  readonly line: number
  readonly typeOnly: boolean
  /** The names that are imported from it; `*` where the whole module is imported. */
  readonly names: readonly string[]
}
export type Mark = { readonly what: string; readonly line: number }
export type Facts = {
  readonly imports: readonly Import[]
  readonly environment: readonly number[]
  /** Lines that use the runtime's own `crypto.subtle`. */
  readonly webCrypto: readonly number[]
  readonly marks: readonly Mark[]
  readonly broken: readonly string[]
}

const TEST_FUNCTIONS = new Set(['test', 'it', 'describe', 'suite', 'bench'])
const NARROWING = new Set(['only', 'skip', 'todo', 'skipIf', 'runIf', 'fails', 'failing'])
const NARROWED_NAMES = new Set(['xit', 'xtest', 'xdescribe', 'fit', 'ftest', 'fdescribe'])

export function factsOf(path: string, source: string): Facts {
  const imports: Import[] = []
  const environment: number[] = []
  const webCrypto: number[] = []
  const marks: Mark[] = []
  const lineOf = lineFinder(source)
  const add = (
    specifier: string | undefined,
    start: number,
    typeOnly = false,
    names: readonly string[] = ['*'],
  ) => void imports.push({ specifier, line: lineOf(start), typeOnly, names })

  const parsed = parseSync(path, source)
  new Visitor({
    ImportDeclaration(node) {
      const names = node.specifiers.map((one) => {
        if (one.type === 'ImportDefaultSpecifier') return 'default'
        return one.type === 'ImportSpecifier' ? nameIn(one.imported) : '*'
      })
      add(node.source.value, node.start, node.importKind === 'type', names)
      const named = node.specifiers.some(
        (s) => s.type === 'ImportSpecifier' && s.imported.type === 'Identifier' && s.imported.name === 'env',
      )
      if (named && /^(?:node:)?process$/.test(node.source.value)) environment.push(lineOf(node.start))
    },
    ExportNamedDeclaration(node) {
      const names = node.specifiers.map(({ local }) => nameIn(local))
      if (node.source) add(node.source.value, node.start, node.exportKind === 'type', names)
    },
    ExportAllDeclaration(node) {
      add(node.source.value, node.start, node.exportKind === 'type')
    },
    ImportExpression(node) {
      add(textOf(node.source), node.start)
    },
    TSImportType(node) {
      add(node.source.value, node.start, true)
    },
    CallExpression(node) {
      const callee = nameOf(node.callee)
      if (callee === 'require' || callee?.endsWith('.getBuiltinModule'))
        add(textOf(node.arguments[0]), node.start)
      if (callee === undefined) return
      if (NARROWED_NAMES.has(callee)) marks.push({ what: callee, line: lineOf(node.start) })
      const root = callee.split('.', 1)[0] ?? ''
      if (TEST_FUNCTIONS.has(root))
        for (const key of narrowingKeys(node.arguments))
          marks.push({ what: `{ ${key} }`, line: lineOf(node.start) })
      // The runner's own context can skip too: `test('…', (context) => context.skip())`.
      if (callee.endsWith('.skip') && !TEST_FUNCTIONS.has(root))
        marks.push({ what: callee, line: lineOf(node.start) })
    },
    MemberExpression(node) {
      const name = nameOf(node)
      if (name === undefined) return
      if (/^(?:globalThis\.)?process\.env$/.test(name)) environment.push(lineOf(node.start))
      if (/^(?:(?:globalThis|self)\.)?crypto\.subtle$/.test(name)) webCrypto.push(lineOf(node.start))
      const [root = '', ...rest] = name.split('.')
      const last = rest.at(-1)
      if (TEST_FUNCTIONS.has(root) && last !== undefined && NARROWING.has(last))
        marks.push({ what: name, line: lineOf(node.start) })
    },
    VariableDeclarator(node) {
      if (node.init === null || node.id.type !== 'ObjectPattern') return
      const takes = (name: string) =>
        node.id.type === 'ObjectPattern' &&
        node.id.properties.some(
          (p) => p.type === 'Property' && p.key.type === 'Identifier' && p.key.name === name,
        )
      const from = nameOf(node.init)
      if (from === 'process' && takes('env')) environment.push(lineOf(node.start))
      if (/^(?:globalThis\.|self\.)?crypto$/.test(from ?? '') && takes('subtle'))
        webCrypto.push(lineOf(node.start))
    },
  }).visit(parsed.program)

  return { imports, environment, webCrypto, marks, broken: parsed.errors.map((error) => error.message) }
}

/** The exported name, whether it is written as an identifier or a string. */
const nameIn = (node: { type: string; name?: string; value?: unknown }): string =>
  node.name ?? String(node.value)

/** `a.b['c']` as `a.b.c`; undefined for anything that is not a plain chain of names. */
export function nameOf(node: Expression): string | undefined {
  if (node.type === 'Identifier') return node.name
  if (node.type === 'CallExpression') return nameOf(node.callee) // `test.each(table)('…')`, `test.skipIf(x)('…')`
  if (node.type !== 'MemberExpression') return undefined
  const object = nameOf(node.object)
  const property =
    node.property.type === 'Identifier' && !node.computed ? node.property.name : textOf(node.property)
  return object === undefined || property === undefined ? undefined : `${object}.${property}`
}

function textOf(node: { type: string; value?: unknown } | undefined): string | undefined {
  return node?.type === 'Literal' && typeof node.value === 'string' ? node.value : undefined
}

function narrowingKeys(args: readonly Argument[]): string[] {
  return args.flatMap((arg) =>
    arg.type === 'ObjectExpression'
      ? arg.properties.flatMap((p) =>
          p.type === 'Property' && p.key.type === 'Identifier' && NARROWING.has(p.key.name)
            ? [p.key.name]
            : [],
        )
      : [],
  )
}

function lineFinder(source: string): (offset: number) => number {
  const starts = [0]
  for (let at = source.indexOf('\n'); at !== -1; at = source.indexOf('\n', at + 1)) starts.push(at + 1)
  return (offset) => starts.findLastIndex((start) => start <= offset) + 1
}
