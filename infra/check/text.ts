// `node infra/check/text.ts`: checks what no other tool does: where files lie, how many, their
// names and lengths, and text that belongs to one machine. It prints each fault with what to do
// about it, and exits 1 if there is one. `readTree` and `isCode` serve the other checks too.

import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join, posix } from 'node:path'
import { roomOf, SIDES } from './rooms.ts'

/** Paths relative to the root, with `/`, and the files' text. */
export type Tree = ReadonlyMap<string, string>
export type Fault = {
  readonly file: string
  readonly line: number
  readonly rule: string
  readonly found: string
  readonly todo: string
}

const MAX_BYTES = 4 * 1024 * 1024

/** Every text file that git tracks or would track, so that a fault shows before the commit. */
export function readTree(root: string): Tree {
  const argv = ['ls-files', '-z', '--cached', '--others', '--exclude-standard']
  const listed = execFileSync('git', argv, { cwd: root, encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 })
  const tree = new Map<string, string>()
  for (const path of new Set(listed.split('\0'))) {
    if (path === '' || path.split('/').includes('node_modules')) continue
    const content = readText(join(root, path))
    if (content !== undefined) tree.set(path, content)
  }
  return tree
}

/**
 * Undefined for a deleted file that git still lists, for a link to a folder, and for a file that
 * holds no text.
 */
function readText(path: string): string | undefined {
  try {
    const bytes = readFileSync(path)
    return bytes.length > MAX_BYTES || bytes.includes(0) ? undefined : bytes.toString('utf8')
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined
    if (code === 'ENOENT' || code === 'EISDIR') return undefined
    throw error
  }
}

/** AssemblyScript has the extension `.ts` too, and is another language. */
export const isCode = (path: string): boolean =>
  /\.[cm]?[jt]sx?$/.test(path) && !path.endsWith('.d.ts') && !path.split('/').includes('assembly')

const FOLDERS = [
  'edge',
  'worker',
  'cli',
  'clients',
  'shared',
  'policies',
  'skills',
  'migrations',
  'infra',
  'test',
  '.',
]
const MAX_LINES = 600
const LIMITED = /\.(?:tsx?|[cm]?js|sh|py|css|html|c|h|capnp|tf|cedar|cedarschema|grit)$/
/** File names that say what kind of code a file holds, not what it is about. */
const EMPTY_WORDS = new Set(
  'util utils helper helpers manager managers service services types common misc lib'.split(' '),
)

/**
 * The most source files that a folder may hold directly; `edge/` itself holds its entry points
 * only.
 */
const MAX_FILES: Readonly<Record<string, number>> = { edge: 6 }
const MAX_FILES_ELSEWHERE = 25

const NO_HOST = 'name the package or the image without its host'
/** Text that no file may hold. The patterns do not match themselves. */
const FOREIGN: readonly { readonly pattern: RegExp; readonly todo: string }[] = [
  { pattern: /\bregistry[.-][a-z0-9-]+\.[a-z]{2,}/, todo: NO_HOST },
  { pattern: /\b(?:docker|quay|ghcr|gcr)\.io\b|\b(?:npmjs|pypi|crates)\.(?:org|com|io)\b/, todo: NO_HOST },
  { pattern: /"resolved": *"[a-z+]+:/, todo: 'install with the options of .npmrc and commit that lock file' },
]

export const faultsIn = (tree: Tree, root: string): Fault[] => [
  ...[...tree].flatMap(([file, text]) => [
    ...(isCode(file) ? [...misplaced(file), ...namedEmptily(file)] : []),
    ...tooLong(file, text),
    ...roomReadme(file, text, tree),
    ...foreign(file, text, root),
  ]),
  ...crowded(tree),
]

function crowded(tree: Tree): Fault[] {
  const folders = Map.groupBy([...tree.keys()].filter(isCode), (file) => posix.dirname(file))
  return [...folders].flatMap(([folder, files]) => {
    const most = MAX_FILES[folder] ?? MAX_FILES_ELSEWHERE
    if (files.length <= most) return []
    return [
      {
        file: folder,
        line: 1,
        rule: 'crowd',
        found: `holds ${files.length} source files`,
        todo: `group them; the limit is ${most}`,
      },
    ]
  })
}

function misplaced(file: string): Fault[] {
  const top = file.includes('/') ? (file.split('/', 1)[0] ?? '') : '.'
  const side = SIDES.find((name) => name === top)
  const known = side === undefined ? FOLDERS.includes(top) : roomOf(side, file) !== undefined
  const todo = 'move it into a room of infra/check/rooms.ts, or add the room there'
  return known
    ? []
    : [
        {
          file,
          line: 1,
          rule: 'place',
          found: `lies in no known ${side === undefined ? 'folder' : 'room'}`,
          todo,
        },
      ]
}

function namedEmptily(file: string): Fault[] {
  const words = file.replace(/\.[^/]*$/, '').split(/[/.-]/)
  const barrel = posix.basename(file).startsWith('index.') ? ['index'] : []
  const todo = 'name it after what it owns, with the words of ARCHITECTURE.md'
  return [...words.filter((word) => EMPTY_WORDS.has(word)), ...barrel].map((word) => ({
    file,
    line: 1,
    rule: 'name',
    found: `is named \`${word}\``,
    todo,
  }))
}

/** The first line of a file that a command of ours writes. Nobody reads it from top to bottom. */
export const GENERATED = /^(?:\/\/|#) Generated\b/

function tooLong(file: string, text: string): Fault[] {
  const lines = text.split('\n').length - (text.endsWith('\n') ? 1 : 0)
  if (!LIMITED.test(file) || file.startsWith('migrations/') || GENERATED.test(text) || lines <= MAX_LINES)
    return []
  return [
    {
      file,
      line: MAX_LINES + 1,
      rule: 'length',
      found: `has ${lines} lines`,
      todo: `split it by responsibility; the limit is ${MAX_LINES}`,
    },
  ]
}

const README = /^(?:edge|worker|cli|shared)\/(?:.*\/)?README\.md$/
const README_LINES = 40

/** A room's README is short, and leads to the tests of the room. */
function roomReadme(file: string, text: string, tree: Tree): Fault[] {
  if (!README.test(file)) return []
  const lines = text.trimEnd().split('\n')
  const named = [...text.matchAll(/`(test\/[\w./-]+)`/g)].flatMap(([, path = '']) => path)
  const gone = named.filter((path) => ![...tree.keys()].some((one) => `${one}/`.startsWith(`${path}/`)))
  const faults = [
    ...(lines.length > README_LINES
      ? [[`has ${lines.length} lines`, `shorten it; the limit is ${README_LINES}`] as const]
      : []),
    ...(named.length === 0 ? [['names no tests', 'add `Tests: …` with their folders'] as const] : []),
    ...gone.map((path) => [`names \`${path}\``, 'name tests that exist'] as const),
  ]
  return faults.map(([found, todo]) => ({ file, line: 1, rule: 'readme', found, todo }))
}

function foreign(file: string, text: string, root: string): Fault[] {
  const path = checkoutPath(root)
  const patterns = [
    ...FOREIGN.map((one) => ({ ...one, rule: 'registry-host' })),
    ...(path === undefined
      ? []
      : [{ pattern: path, todo: 'use a path relative to the repository', rule: 'machine-path' }]),
  ]
  return patterns.flatMap(({ pattern, todo, rule }) => {
    const match = pattern.exec(text)
    if (match === null) return []
    return [
      {
        file,
        line: text.slice(0, match.index).split('\n').length,
        rule,
        found: `holds \`${match[0]}\``,
        todo,
      },
    ]
  })
}

const STANDARD_FOLDERS =
  /^\/(?:bin|boot|dev|etc|home|lib|mnt|opt|private|proc|root|run|sbin|srv|sys|tmp|usr|Users|var)(?:\/|$)/

/**
 * The path of this checkout; also what lies beside it, unless the parent is a folder that every
 * machine has.
 */
function checkoutPath(root: string): RegExp | undefined {
  const parent = posix.dirname(root)
  if (parent === '/') return undefined // `/app` is a word like any other
  return new RegExp(`(?<![\\w.-])${RegExp.escape(STANDARD_FOLDERS.test(parent) ? root : `${parent}/`)}`)
}

if (import.meta.main) {
  const tree = readTree(process.cwd())
  const faults = faultsIn(tree, process.cwd())
  for (const { file, line, rule, found, todo } of faults)
    console.log(`${file}:${line}  ${rule}: ${found}; ${todo}`)
  console.log(`${tree.size} files, ${faults.length} faults`)
  process.exitCode = faults.length === 0 ? 0 : 1
}
