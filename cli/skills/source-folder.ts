// What an author has: a folder with `skill.toml` and sources in one language. It reads, strictly, and says where something is wrong.

import { existsSync, lstatSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { parse as parseToml, TomlError } from 'smol-toml'
import { z } from 'zod'
import { BODY, parseJson, sha256 } from '../../shared/bytes/json.ts'
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
  'FOLDER?': 'the skill’s folder, where skill.toml is; this one if you say nothing',
} as const
export const TOML = 'skill.toml'
/** What is built. */
export const DIST = 'dist'

export type Language = 'javascript' | 'assemblyscript' | 'rust' | 'component'
export type SkillFolder = {
  readonly folder: string
  readonly toml: Uint8Array
  readonly manifest: UnboundManifest
  readonly language: Language
  /** Where its code begins, within the folder. */
  readonly main: string
}

/** What a folder that holds one of these is written in. */
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
    return err(usage(`there is no \`${path}\`; \`countersign skill new NAME\` makes a folder with one`))
  const own = ownFile(folder, TOML)
  if (!own.ok) return own
  const toml = readBytes(path, LIMITS.body_bytes)
  if (!toml.ok) return toml
  const manifest = readManifest(path, toml.value)
  if (!manifest.ok) return manifest
  const mains = MAINS.filter(([main]) => existsSync(join(folder, main)))
  const [found, other] = mains
  if (found === undefined)
    return err(usage(`\`${folder}\` has no code: one of ${MAINS.map(([main]) => `\`${main}\``).join(', ')}`))
  if (other !== undefined)
    return err(
      usage(`\`${folder}\` has both \`${found[0]}\` and \`${other[0]}\`; keep the one that it is built from`),
    )
  const [main, language] = found
  const begins = ownFile(folder, main)
  if (!begins.ok) return begins
  const dist = lstatSync(join(folder, DIST), { throwIfNoEntry: false })
  if (dist?.isDirectory() === false)
    return err(trouble('exists', `\`${join(folder, DIST)}\` is no folder; what is built goes there`))
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
    return refused(path, [{ at: place(text, dated), message: 'a date is no JSON; write it as a text' }])
  const strict = parseJson(Buffer.from(JSON.stringify(value)), BODY)
  if (!strict.ok) return err(trouble('invalid_manifest', `\`${path}\`: ${strict.error.detail}`))
  const read = readAs(UnboundManifest, strict.value)
  if (read.ok) return read
  return refused(
    path,
    read.error.map(({ at, message }) => ({ at: place(text, at.split('/').slice(1)), message })),
  )
}

const refused = (path: string, errors: readonly FieldError[]) =>
  err({ ...trouble('invalid_manifest', `\`${path}\` is no manifest of a skill`), errors })

function firstDate(value: unknown, path: readonly string[] = []): readonly string[] | undefined {
  if (value instanceof Date) return path
  if (typeof value !== 'object' || value === null) return undefined
  for (const [key, member] of Object.entries(value)) {
    const found = firstDate(member, [...path, key])
    if (found !== undefined) return found
  }
  return undefined
}

/** The line of what is meant, or of what it would stand in, and its name. */
function place(text: string, path: readonly string[]): string {
  const lines = linesOf(text)
  for (let length = path.length; length > 0; length--) {
    const line = lines.get(path.slice(0, length).join('.'))
    if (line !== undefined) return `${TOML}:${line}: ${path.join('.')}`
  }
  return `${TOML}: ${path.join('.') || 'the whole'}`
}

/** Where each table and key begins: tables in lists by their number, as paths have them. What is written within a line is found by its line. */
function linesOf(text: string): Map<string, number> {
  const found = new Map<string, number>()
  const counted = new Map<string, number>()
  let table = ''
  for (const [index, line] of text.split('\n').entries()) {
    const [, open = '', header] = /^\s*(\[\[?)\s*([^\]]+?)\s*\]/.exec(line) ?? []
    const [, key] = /^\s*([\w."'-]+(?:\s*\.\s*[\w."'-]+)*)\s*=/.exec(line) ?? []
    if (header !== undefined) {
      table = numbered(plain(header), counted, open === '[[')
      found.set(table, index + 1)
    } else if (key !== undefined) found.set(table === '' ? plain(key) : `${table}.${plain(key)}`, index + 1)
  }
  return found
}

const plain = (key: string): string => key.replace(/["'\s]/g, '')

function numbered(header: string, counted: Map<string, number>, opens: boolean): string {
  if (opens) counted.set(header, (counted.get(header) ?? -1) + 1)
  const list = [...counted.keys()].find((name) => header === name || header.startsWith(`${name}.`))
  return list === undefined ? header : `${list}.${counted.get(list)}${header.slice(list.length)}`
}

/** All files below `folder`, by their paths within it, in order; what begins with a dot and what is built is no source. */
export function sourcesIn(folder: string, built: readonly string[]): Result<string[], Trouble> {
  const sources: string[] = []
  const left = ['']
  for (let within = left.pop(); within !== undefined; within = left.pop()) {
    for (const entry of readdirSync(join(folder, within), { withFileTypes: true })) {
      const path = join(within, entry.name)
      if (entry.name.startsWith('.') || built.includes(entry.name)) continue
      if (entry.isDirectory()) left.push(path)
      else if (entry.isFile()) sources.push(path)
      else return err(notOfIt(folder, path))
    }
  }
  return ok(sources.sort())
}

/** A skill is what lies in its folder: what a link leads to may be anything of this machine, and another thing tomorrow. */
const notOfIt = (folder: string, path: string): Trouble =>
  trouble(
    'build_failed',
    `\`${join(folder, path)}\` is a link, or no file; put what it leads to into the skill’s folder`,
  )

/** Whether the file, and each folder on the way to it from the skill’s, lies there itself. */
function ownFile(folder: string, path: string): Result<true, Trouble> {
  const parts = path.split('/')
  for (const count of parts.keys()) {
    const way = parts.slice(0, count + 1).join('/')
    const found = lstatSync(join(folder, way), { throwIfNoEntry: false })
    const isOwn = count + 1 === parts.length ? found?.isFile() : found?.isDirectory()
    if (isOwn !== true) return err(notOfIt(folder, way))
  }
  return ok(true)
}

/** Those that are not any more what they were, or not there; none of another folder is looked at, whatever a package says. */
export function changedIn(folder: string, sources: readonly Source[]): string[] {
  const changed = sources.filter(({ path, sha256: was }) => {
    if (path.startsWith('/') || path.split('/').includes('..')) return false
    const bytes = ownFile(folder, path).ok
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

/** Crates of others that cargo has locked. */
export function cratesIn(folder: string): Result<Part[], Trouble> {
  const bytes = readBytes(join(folder, 'Cargo.lock'), LIMITS.skill_package_bytes)
  if (!bytes.ok) return bytes
  const read = CargoLock.safeParse(parseToml(Buffer.from(bytes.value).toString('utf8')))
  if (!read.success)
    return err(trouble('build_failed', `\`${join(folder, 'Cargo.lock')}\` is not as cargo writes it`))
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
