// Reads an author's folder: `skill.toml` and sources in one language. Strict: no symlinks, no
// unknown fields, and every error has a file, line and field.

import { existsSync, lstatSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { parse as parseToml, TomlError } from 'smol-toml'
import { z } from 'zod'
import { BODY_BOUNDS, parseJson, sha256 } from '../../shared/bytes/json.ts'
import type { FieldError } from '../../shared/failures.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import { readAs } from '../../shared/schema/field-errors.ts'
import { UnboundManifest } from '../../shared/wire/skills.ts'
import type { Trouble } from '../shell/command.ts'
import { trouble, usage } from '../shell/command.ts'
import { readBytes } from '../shell/files.ts'
import type { Part, Source } from './compile.ts'

export const FOLDER = {
  'FOLDER?': 'the skill’s folder, with skill.toml in it (default: this folder)',
} as const
export const TOML = 'skill.toml'
/** The folder for build results. */
export const DIST = 'dist'

export type Language = 'javascript' | 'assemblyscript' | 'rust' | 'component'
export type SkillFolder = {
  readonly folder: string
  readonly toml: Uint8Array
  readonly manifest: UnboundManifest
  readonly language: Language
  /** The path of its main source within the folder. */
  readonly main: string
}

/** The main source of each language; which of them exists decides the language. */
const MAINS: readonly (readonly [main: string, Language])[] = [
  ['src/main.ts', 'javascript'],
  ['src/main.js', 'javascript'],
  ['assembly/index.ts', 'assemblyscript'],
  ['Cargo.toml', 'rust'],
  ['component.wasm', 'component'],
]

export function readSkill(folder = '.'): Result<SkillFolder, Trouble> {
  const path = join(folder, TOML)
  if (!existsSync(path))
    return err(usage(`there is no \`${path}\`; \`countersign skill new NAME\` creates a skill`))
  const own = checkNoLink(folder, TOML)
  if (!own.ok) return own
  const toml = readBytes(path, LIMITS.body_bytes)
  if (!toml.ok) return toml
  const manifest = readManifest(path, toml.value)
  if (!manifest.ok) return manifest
  const mains = MAINS.filter(([main]) => existsSync(join(folder, main)))
  const [found, other] = mains
  if (found === undefined)
    return err(
      usage(
        `\`${folder}\` has no source code; add one of ${MAINS.map(([main]) => `\`${main}\``).join(', ')}`,
      ),
    )
  if (other !== undefined)
    return err(
      usage(`\`${folder}\` has both \`${found[0]}\` and \`${other[0]}\`; keep only the one to build from`),
    )
  const [main, language] = found
  const begins = checkNoLink(folder, main)
  if (!begins.ok) return begins
  const dist = lstatSync(join(folder, DIST), { throwIfNoEntry: false })
  if (dist?.isDirectory() === false)
    return err(
      trouble(
        'exists',
        `\`${join(folder, DIST)}\` is not a folder; remove it, because the build writes there`,
      ),
    )
  return ok({ folder, toml: toml.value, manifest: manifest.value, language, main })
}

function readManifest(path: string, bytes: Uint8Array): Result<UnboundManifest, Trouble> {
  const text = Buffer.from(bytes).toString('utf8')
  let value: unknown
  try {
    value = parseToml(text)
  } catch (thrown) {
    if (!(thrown instanceof TomlError)) throw thrown
    const [why = 'it is not TOML'] = thrown.message.split('\n')
    return err(
      trouble(
        'invalid_manifest',
        `\`${path}:${thrown.line}:${thrown.column}\`: ${why.replace(/^Invalid TOML document: /, '')}`,
      ),
    )
  }
  const dated = firstDate(value)
  if (dated !== undefined)
    return invalidManifest(path, [
      { at: placeInToml(text, dated), message: 'write the date as a string in quotes' },
    ])
  const strict = parseJson(Buffer.from(JSON.stringify(value)), BODY_BOUNDS)
  if (!strict.ok) return err(trouble('invalid_manifest', `\`${path}\`: ${strict.error.detail}`))
  const read = readAs(UnboundManifest, strict.value)
  if (read.ok) return read
  return invalidManifest(
    path,
    read.error.map(({ at, message }) => ({ at: placeInToml(text, at.split('/').slice(1)), message })),
  )
}

const invalidManifest = (path: string, errors: readonly FieldError[]) =>
  err({ ...trouble('invalid_manifest', `\`${path}\` is not a valid skill manifest`), errors })

function firstDate(value: unknown, path: readonly string[] = []): readonly string[] | undefined {
  if (value instanceof Date) return path
  if (typeof value !== 'object' || value === null) return undefined
  for (const [key, member] of Object.entries(value)) {
    const found = firstDate(member, [...path, key])
    if (found !== undefined) return found
  }
  return undefined
}

/**
 * `skill.toml:LINE: FIELD` for a field, with the line of the nearest table around it if the field
 * is missing.
 */
function placeInToml(text: string, path: readonly string[]): string {
  const lines = linesOf(text)
  for (let length = path.length; length > 0; length--) {
    const line = lines.get(path.slice(0, length).join('.'))
    if (line !== undefined) return `${TOML}:${line}: ${path.join('.')}`
  }
  return `${TOML}: ${path.join('.') || 'the whole file'}`
}

/**
 * The line on which each table and key begins, by path; tables in arrays by index. Inline tables
 * have the line of their key.
 */
function linesOf(text: string): Map<string, number> {
  const found = new Map<string, number>()
  const counted = new Map<string, number>()
  let table = ''
  for (const [index, line] of text.split('\n').entries()) {
    const [, open = '', header] = /^\s*(\[\[?)\s*([^\]]+?)\s*\]/.exec(line) ?? []
    const [, key] = /^\s*([\w."'-]+(?:\s*\.\s*[\w."'-]+)*)\s*=/.exec(line) ?? []
    if (header !== undefined) {
      table = withIndex(unquoted(header), counted, open === '[[')
      found.set(table, index + 1)
    } else if (key !== undefined)
      found.set(table === '' ? unquoted(key) : `${table}.${unquoted(key)}`, index + 1)
  }
  return found
}

const unquoted = (key: string): string => key.replace(/["'\s]/g, '')

function withIndex(header: string, counted: Map<string, number>, opens: boolean): string {
  if (opens) counted.set(header, (counted.get(header) ?? -1) + 1)
  const list = [...counted.keys()].find((name) => header === name || header.startsWith(`${name}.`))
  return list === undefined ? header : `${list}.${counted.get(list)}${header.slice(list.length)}`
}

/**
 * The sorted paths of all files in `folder`, except build results and names that begin with a dot.
 */
export function sourcesIn(folder: string, built: readonly string[]): Result<string[], Trouble> {
  const sources: string[] = []
  const left = ['']
  for (let within = left.pop(); within !== undefined; within = left.pop()) {
    for (const entry of readdirSync(join(folder, within), { withFileTypes: true })) {
      const path = join(within, entry.name)
      if (entry.name.startsWith('.') || built.includes(entry.name)) continue
      if (entry.isDirectory()) left.push(path)
      else if (entry.isFile()) sources.push(path)
      else return err(linkError(folder, path))
    }
  }
  return ok(sources.sort())
}

/** Symlinks are refused: the target may be any file of this machine, and another one tomorrow. */
const linkError = (folder: string, path: string): Trouble =>
  trouble(
    'build_failed',
    `\`${join(folder, path)}\` is a symlink or not a regular file; copy the file into the skill’s folder`,
  )

/** Fails if the file, or any folder on the way to it, is a symlink or of the wrong kind. */
function checkNoLink(folder: string, path: string): Result<true, Trouble> {
  const parts = path.split('/')
  for (const count of parts.keys()) {
    const way = parts.slice(0, count + 1).join('/')
    const found = lstatSync(join(folder, way), { throwIfNoEntry: false })
    const isOwn = count + 1 === parts.length ? found?.isFile() : found?.isDirectory()
    if (isOwn !== true) return err(linkError(folder, way))
  }
  return ok(true)
}

/**
 * Paths of the sources that have changed or gone. A package is untrusted, so paths out of the
 * folder are skipped.
 */
export function changedIn(folder: string, sources: readonly Source[]): string[] {
  const changed = sources.filter(({ path, sha256: was }) => {
    if (path.startsWith('/') || path.split('/').includes('..')) return false
    const bytes = checkNoLink(folder, path).ok
      ? readBytes(join(folder, path), LIMITS.skill_package_bytes)
      : undefined
    return bytes?.ok !== true || sha256(bytes.value) !== was
  })
  return changed.map(({ path }) => path)
}

const CargoLock = z.object({
  package: z
    .array(
      z.object({
        name: z.string(),
        version: z.string(),
        source: z.string().optional(),
        checksum: z.string().optional(),
      }),
    )
    .default([]),
})

/** The third-party crates in Cargo.lock. */
export function cratesIn(folder: string): Result<Part[], Trouble> {
  const bytes = readBytes(join(folder, 'Cargo.lock'), LIMITS.skill_package_bytes)
  if (!bytes.ok) return bytes
  const read = CargoLock.safeParse(parseToml(Buffer.from(bytes.value).toString('utf8')))
  if (!read.success)
    return err(
      trouble(
        'build_failed',
        `\`${join(folder, 'Cargo.lock')}\` is not a lock file of cargo; delete it and build again`,
      ),
    )
  const crates = read.data.package.filter(({ source }) => source !== undefined)
  return ok(
    crates.map(({ name, version, checksum }) => ({
      name,
      version,
      purl: `pkg:cargo/${name}@${version}`,
      sha256: checksum,
    })),
  )
}
