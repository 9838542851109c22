// Policies and their cases as operators keep them: a folder of .cedar files, and files of cases beside them. It reads, and sends nothing.

import { readdirSync, statSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { PATTERNS } from '../../shared/ids.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { SentCases } from '../../shared/wire/policy-cases.ts'
import { PolicyCases } from '../../shared/wire/policy-cases.ts'
import type { Trouble } from '../shell/command.ts'
import { trouble, usage } from '../shell/command.ts'
import { readBytes, readJson, reason } from '../shell/files.ts'
import { fitting } from '../shell/json-input.ts'

export const DIR = {
  DIR: 'a folder of .cedar files; each is one text of the set, by its file’s name',
} as const

/** The texts of a set, each by its file's name. */
export function readFolder(dir: string): Result<Record<string, string>, Trouble> {
  const names = namesIn(dir, '.cedar')
  if (!names.ok) return names
  if (names.value.length === 0)
    return err(usage(`\`${dir}\` holds no .cedar file; to allow nothing, put a policy that permits nothing`))
  const policies: Record<string, string> = {}
  for (const name of names.value) {
    if (!PATTERNS.name.test(basename(name, '.cedar')))
      return err(
        usage(
          `\`${join(dir, name)}\` can’t name a text: a small letter, then small letters, digits and \`_.-\`, 64 at the most`,
        ),
      )
    const text = readCedar(join(dir, name))
    if (!text.ok) return text
    policies[basename(name, '.cedar')] = text.value
  }
  return ok(policies)
}

/** What lies there as if it were of the set, and is not. */
export function overlooked(dir: string, policies: Readonly<Record<string, string>>): string[] {
  const deeper = readdirSync(dir, { recursive: true, encoding: 'utf8' }).filter(
    (path) => path.endsWith('.cedar') && dirname(path) !== '.',
  )
  const folders = new Set(deeper.map(dirname).filter((folder) => folder.split('/')[0] !== 'cases'))
  const empty = Object.keys(policies).filter((name) => policies[name]?.trim() === '')
  return [
    ...[...folders].map(
      (folder) => `${join(dir, folder)}: the .cedar files in this folder are not of the set`,
    ),
    ...empty.map((name) => `${join(dir, name)}.cedar: the file is empty`),
  ]
}

/** The path of what the edge names by its text, line and column, so that an editor finds the place; what has no file keeps its name. */
export function pathed(at: string, dir: string, policies: Readonly<Record<string, string>>): string {
  const [name = '', ...place] = at.split(':')
  return Object.hasOwn(policies, name) ? [join(dir, `${name}.cedar`), ...place].join(':') : at
}

export type CasesFile = { readonly path: string; readonly cases: SentCases }

/** The files of cases at `path`: itself, or those in it. */
export function readCases(path: string): Result<CasesFile[], Trouble> {
  if (statSync(path, { throwIfNoEntry: false }) === undefined)
    return err(
      usage(
        `no cases in \`${path}\`: there is no such file or folder; docs/policies.md says how they are written`,
      ),
    )
  const paths = isFile(path) ? ok([path]) : inFolder(path)
  if (!paths.ok) return paths
  const files: CasesFile[] = []
  for (const each of paths.value) {
    const cases = readCasesFile(each)
    if (!cases.ok) return cases
    files.push({ path: each, cases: cases.value })
  }
  return ok(files)
}

function inFolder(path: string): Result<string[], Trouble> {
  const names = namesIn(path, '.json')
  if (!names.ok) return names
  return names.value.length === 0
    ? err(
        usage(`no cases in \`${path}\`: it holds no .json file; docs/policies.md says how they are written`),
      )
    : ok(names.value.map((name) => join(path, name)))
}

function readCasesFile(path: string): Result<SentCases, Trouble> {
  const json = readJson(path)
  if (!json.ok) return err({ ...json.error, exit: 2 })
  const read = fitting(PolicyCases, json.value, `\`${path}\``)
  if (!read.ok) return read
  const sets: Record<string, string[]> = {}
  for (const [name, set] of Object.entries(read.value.sets)) {
    const text = Array.isArray(set) ? ok(set) : readCedar(join(dirname(path), set.file))
    if (!text.ok) return text
    sets[name] = typeof text.value === 'string' ? [text.value] : text.value
  }
  return ok({ ...read.value, sets })
}

function readCedar(path: string): Result<string, Trouble> {
  const bytes = readBytes(path, LIMITS.policy_bytes)
  return bytes.ok ? ok(Buffer.from(bytes.value).toString('utf8')) : err({ ...bytes.error, exit: 2 })
}

function namesIn(dir: string, ending: string): Result<string[], Trouble> {
  try {
    return ok(
      readdirSync(dir)
        .filter((name) => name.endsWith(ending))
        .sort(),
    )
  } catch (thrown) {
    return err({ ...trouble('unreadable', `\`${dir}\` can't be read: ${reason(thrown)}`), exit: 2 })
  }
}

const isFile = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isFile() ?? false
