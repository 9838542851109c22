// The rules of the house as tables, and the pure functions that hold a tree against them. It reads no disk and prints nothing.
// A breach says the file, the rule and what to do instead. Loosening a table is a decision: write the reason in docs/decisions/.

import { isBuiltin } from 'node:module'
import { matchesGlob, posix } from 'node:path'
import { type Facts, factsOf } from './facts.ts'
import { isCode, type Tree } from './tree.ts'

export type Breach = {
  readonly file: string
  readonly line: number
  readonly rule: string
  readonly found: string
  readonly todo: string
}

/** Which folders a folder may import. The root is where the tools' own configurations lie. */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  edge: ['edge', 'shared', 'policies', 'migrations'],
  worker: ['worker', 'shared'],
  cli: ['cli', 'shared'],
  shared: ['shared'],
  policies: ['policies'],
  skills: ['skills'],
  migrations: ['migrations'],
  infra: ['infra', 'edge', 'worker', 'cli', 'shared', 'policies', 'migrations', 'root'],
  test: ['test', 'infra', 'edge', 'worker', 'cli', 'shared', 'policies', 'migrations', 'root'],
  root: ['root', 'infra', 'shared'],
}

type Sole = { readonly packages: readonly string[]; readonly may: readonly string[]; readonly todo: string }

/** A heavy or dangerous package has one importer, so that its cost, its failures and its replacement have one place. */
const SOLE_IMPORTERS: readonly Sole[] = [
  {
    packages: ['@cedar-policy/cedar-wasm'],
    // The bare engine is what our use of it is held against: its answers by a test, its time by the bench.
    may: ['edge/policy*', 'edge/policy*/**', 'test/edge/**', 'test/bench/inside-edge/**'],
    todo: 'ask edge/policy for a decision; the worker never sees one made',
  },
  {
    packages: ['@bytecodealliance/jco', '@bytecodealliance/jco-transpile'],
    // Authors make components, and tests make some of their own.
    may: [
      'edge/skills*',
      'edge/skills*/**',
      'cli/skills/component.ts',
      'infra/jco-engine.ts',
      'test/support/skills/skill.ts',
    ],
    todo: 'go through edge/skills, or cli/skills/component to make one',
  },
  {
    packages: ['quickjs-wasi'],
    may: ['cli/skills/javascript/quickjs.ts'],
    todo: 'have cli/skills/javascript build a skill',
  },
  // Tests import the queue as the attacker who holds the Redis password (Q01–Q09).
  {
    packages: ['bullmq', 'ioredis'],
    may: ['edge/pool/pool-object.ts', 'worker/queue/doorbells.ts', 'test/**'],
    todo: 'ring through the PoolObject, or take doorbells from worker/queue',
  },
  {
    packages: ['execa'],
    may: ['worker/sandbox/process/start.ts', 'worker/sandbox/process/spawner.ts'],
    todo: 'make a plan and let worker/sandbox/launch start it',
  },
  {
    packages: ['drizzle-orm'],
    may: ['edge/**/*-object.ts', 'edge/**/{*-store,store,tables,database}.ts'],
    todo: 'let the object that owns the rows read and write them',
  },
  {
    packages: ['smol-toml'],
    may: ['cli/skills/source-folder.ts'],
    todo: 'have cli/skills/folder read a skill',
  },
  // To spawn is to act with the worker's own rights: it happens where the sandbox is built, and in set-up and tests; where an operator
  // hands mails to their own sendmail, and where an author's own compiler compiles.
  {
    packages: ['node:child_process', 'node:cluster'],
    may: [
      'worker/sandbox/**',
      'cli/channels/outbox-drain.ts',
      'cli/skills/compilers.ts',
      'infra/**',
      'test/**',
    ],
    todo: 'spawn from worker/sandbox only, argv only',
  },
  {
    packages: ['wrangler', 'workerd', 'miniflare', 'drizzle-kit', 'oxc-parser', 'vitest'],
    may: ['infra/**', 'test/**', '*.config.ts'],
    todo: 'keep build tools out of what runs',
  },
]

/** Libraries disagree over some keys and signatures, so only one file uses one, after its own checks (T02). `*` includes every name. */
const SIGNATURE_CHECKS = {
  packages: ['node:crypto'],
  names: ['verify', 'createVerify', 'Verify', 'createPublicKey', 'webcrypto', 'subtle', 'default', '*'],
  may: ['shared/evidence/ed25519.ts', 'test/**'],
  todo: 'check a signature with `isSignedBy` of shared/ed25519, and a public key with `PublicKey` there',
}
/** It makes the public half of a private key that an operator gave. */
const KEY_MAKERS = { names: ['createPublicKey'], may: ['edge/channels/webhook.ts'] }

/** One file a side reads the environment, so that the rest takes parsed configuration. The edge is handed its bindings. */
const ENVIRONMENT_READERS = ['worker/config.ts', 'cli/shell/config.ts', 'infra/**', 'test/**', '*.config.ts']

const MAX_LINES = 520
const CODE = /\.(?:tsx?|[cm]?js|sh|py|css|html|capnp|tf|cedar|cedarschema)$/
/** Words that say what kind of thing a file is, not what it is about. */
const EMPTY_WORDS = new Set([
  'util',
  'utils',
  'helper',
  'helpers',
  'manager',
  'managers',
  'service',
  'services',
  'types',
  'common',
  'misc',
  'lib',
])

/** What no file may hold. The patterns are written so that they do not match themselves. */
const FOREIGN: readonly { readonly rule: string; readonly pattern: RegExp; readonly todo: string }[] = [
  {
    rule: 'registry-host',
    pattern: /\bregistry[.-][a-z0-9-]+\.[a-z]{2,}/,
    todo: 'name the package and its version; where it comes from is the installing machine’s business',
  },
  {
    rule: 'registry-host',
    pattern: /\b(?:docker|quay|ghcr|gcr)\.io\b|\b(?:npmjs|pypi|crates)\.(?:org|com|io)\b/,
    todo: 'name the package or image without its host',
  },
  {
    rule: 'registry-host',
    pattern: /"resolved": *"[a-z+]+:/,
    todo: 'install with `omit-lockfile-registry-resolved=true` (it is in .npmrc) and commit that lock file',
  },
]

export function breaches(tree: Tree, root: string): Breach[] {
  const facts = new Map(
    [...tree].filter(([path]) => isCode(path)).map(([path, source]) => [path, factsOf(path, source)]),
  )
  return [
    ...[...facts].flatMap(([file, known]) => [
      ...importBreaches(file, known),
      ...useBreaches(file, known),
      ...nameBreaches(file),
    ]),
    ...cycles(facts),
    ...[...tree].flatMap(([file, text]) => [
      ...lengthBreaches(file, text),
      ...foreignBreaches(file, text, root),
    ]),
  ]
}

const folderOf = (path: string): string => (path.includes('/') ? (path.split('/', 1)[0] ?? '') : 'root')
const allowed = (path: string, globs: readonly string[]): boolean =>
  globs.some((glob) => matchesGlob(path, glob))

/** A file of this tree by its path, or a package by its name. */
function targetOf(file: string, specifier: string): { file: string } | { package: string } {
  if (!specifier.startsWith('.')) {
    const [first = '', second = ''] = specifier.split('/')
    if (!first.includes(':') && isBuiltin(specifier)) return { package: `node:${first}` }
    return { package: first.startsWith('@') ? `${first}/${second}` : first }
  }
  const path = posix.normalize(posix.join(posix.dirname(file), specifier))
  const inside = path.split('/')
  return inside[0] === 'node_modules' ? targetOf(file, inside.slice(1).join('/')) : { file: path }
}

function importBreaches(file: string, { imports, broken }: Facts): Breach[] {
  const from = folderOf(file)
  const reach = MAY_IMPORT[from]
  if (reach === undefined) {
    return [
      {
        file,
        line: 1,
        rule: 'folder',
        found: `\`${from}/\` is not a folder of this project`,
        todo: `use one of ${Object.keys(MAY_IMPORT).join(', ')}`,
      },
    ]
  }
  const found: Breach[] = broken.map((message) => ({
    file,
    line: 1,
    rule: 'syntax',
    found: message,
    todo: 'mend it; what does not parse is not checked',
  }))
  for (const { specifier, line, typeOnly, names: taken } of imports) {
    const names = typeOnly ? [] : taken
    if (specifier === undefined) {
      if (from === 'infra' || from === 'test') continue
      found.push({
        file,
        line,
        rule: 'computed-import',
        found: 'imports what only the running program knows',
        todo: 'write the specifier as a literal',
      })
      continue
    }
    const target = targetOf(file, specifier)
    if ('file' in target) {
      const to = folderOf(target.file)
      if (!reach.includes(to)) {
        const todo =
          to === 'test'
            ? 'nothing but tests may import test/'
            : 'move what both sides must agree on to shared/, or send it over the wire'
        found.push({ file, line, rule: 'boundary', found: `${from} imports \`${target.file}\``, todo })
      }
      continue
    }
    found.push(...signatureBreaches(file, target.package, names, line))
    const sole = SOLE_IMPORTERS.find(({ packages }) => packages.includes(target.package))
    if (sole !== undefined && !allowed(file, sole.may)) {
      found.push({
        file,
        line,
        rule: 'sole-importer',
        found: `imports \`${target.package}\`, which belongs to ${sole.may.join(', ')}`,
        todo: sole.todo,
      })
    }
  }
  return found
}

function signatureBreaches(file: string, module: string, names: readonly string[], line: number): Breach[] {
  const { packages, may, todo } = SIGNATURE_CHECKS
  if (!packages.includes(module) || allowed(file, may)) return []
  const taken = names.filter(
    (name) =>
      SIGNATURE_CHECKS.names.includes(name) &&
      !(KEY_MAKERS.names.includes(name) && allowed(file, KEY_MAKERS.may)),
  )
  return taken.map((name) => ({
    file,
    line,
    rule: 'signature-check',
    found: `takes \`${name}\` of \`${module}\``,
    todo,
  }))
}

function useBreaches(file: string, { environment, webCrypto, marks }: Facts): Breach[] {
  const subtle = allowed(file, SIGNATURE_CHECKS.may) ? [] : webCrypto
  const reads = allowed(file, ENVIRONMENT_READERS) ? [] : environment
  const marked = folderOf(file) === 'test' ? marks : []
  return [
    ...subtle.map((line) => ({
      file,
      line,
      rule: 'signature-check',
      found: 'uses `crypto.subtle`',
      todo: SIGNATURE_CHECKS.todo,
    })),
    ...reads.map((line) => ({
      file,
      line,
      rule: 'environment',
      found: 'reads `process.env`',
      todo: 'read it in worker/config.ts or cli/shell/config.ts and pass the parsed value',
    })),
    ...marked.map(({ what, line }) => ({
      file,
      line,
      rule: 'every-test-runs',
      found: `uses \`${what}\``,
      todo: 'run it or delete it; a test that cannot run fails and says why',
    })),
  ]
}

function nameBreaches(file: string): Breach[] {
  const words = file.replace(/\.[^/]*$/, '').split(/[/.-]/)
  const empty = words.filter((word) => EMPTY_WORDS.has(word))
  const barrel = posix.basename(file).startsWith('index.') ? ['index'] : []
  return [...empty, ...barrel].map((word) => ({
    file,
    line: 1,
    rule: 'name',
    found: `is named \`${word}\``,
    todo: 'name it after what it owns, in the words of ARCHITECTURE.md',
  }))
}

function lengthBreaches(file: string, text: string): Breach[] {
  const lines = text.split('\n').length - (text.endsWith('\n') ? 1 : 0)
  if (!CODE.test(file) || folderOf(file) === 'migrations' || lines <= MAX_LINES) return []
  return [
    {
      file,
      line: MAX_LINES + 1,
      rule: 'length',
      found: `has ${lines} lines`,
      todo: `split it by what it owns; ${MAX_LINES} is the most`,
    },
  ]
}

function foreignBreaches(file: string, text: string, root: string): Breach[] {
  const found: Breach[] = []
  for (const { rule, pattern, todo } of FOREIGN) {
    const match = pattern.exec(text)
    if (match !== null)
      found.push({ file, line: lineAt(text, match.index), rule, found: `holds \`${match[0]}\``, todo })
  }
  const path = checkoutPath(root)?.exec(text)
  if (path) {
    found.push({
      file,
      line: lineAt(text, path.index),
      rule: 'machine-path',
      found: `holds \`${path[0]}\``,
      todo: 'use a path relative to the repository',
    })
  }
  return found
}

const STANDARD_FOLDERS =
  /^\/(?:bin|boot|dev|etc|home|lib|mnt|opt|private|proc|root|run|sbin|srv|sys|tmp|usr|Users|var)(?:\/|$)/

/** Where this checkout lies is this machine's business, and so is what lies beside it, unless that is where every machine keeps things. */
function checkoutPath(root: string): RegExp | undefined {
  const parent = posix.dirname(root)
  if (parent === '/') return undefined // `/app` is a word like any other
  const where = STANDARD_FOLDERS.test(parent) ? root : `${parent}/`
  return new RegExp(`(?<![\\w.-])${RegExp.escape(where)}`)
}

const lineAt = (text: string, index: number): number => text.slice(0, index).split('\n').length

/** Rings of imports that exist at run time. Type imports leave no trace there, and an object and its bindings name each other. */
function cycles(facts: ReadonlyMap<string, Facts>): Breach[] {
  const found: Breach[] = []
  const state = new Map<string, 'open' | 'done'>()
  const path: string[] = []
  const visit = (file: string): void => {
    state.set(file, 'open')
    path.push(file)
    for (const { specifier, typeOnly, line } of facts.get(file)?.imports ?? []) {
      const target = specifier === undefined || typeOnly ? undefined : targetOf(file, specifier)
      if (target === undefined || !('file' in target) || !facts.has(target.file)) continue
      const seen = state.get(target.file)
      if (seen === undefined) visit(target.file)
      if (seen !== 'open') continue
      const ring = [...path.slice(path.indexOf(target.file)), target.file].join(' → ')
      found.push({ file, line, rule: 'cycle', found: ring, todo: 'move what both need into a third file' })
    }
    path.pop()
    state.set(file, 'done')
  }
  for (const file of facts.keys()) if (!state.has(file)) visit(file)
  return found
}
