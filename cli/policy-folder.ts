// Policies and their cases as operators keep them: a folder of .cedar files, and files of cases beside them. It reads, and sends nothing.

import { readdirSync, statSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { LIMITS } from '../shared/limits.ts'
import type { SentCases } from '../shared/policy-cases.ts'
import { PolicyCases } from '../shared/policy-cases.ts'
import type { Result } from '../shared/result.ts'
import { err, ok } from '../shared/result.ts'
import type { Trouble } from './command.ts'
import { trouble, usage } from './command.ts'
import { readBytes, readJson, reason } from './files.ts'
import { fitting } from './specs.ts'

export const DIR = { DIR: 'a folder of .cedar files; each is one text of the set, by its file’s name' } as const

/** The texts of a set, each by its file's name. */
export function readFolder(dir: string): Result<Record<string, string>, Trouble> {
  const names = namesIn(dir, '.cedar')
  if (!names.ok) return names
  if (names.value.length === 0) return err(usage(`\`${dir}\` holds no .cedar file; to allow nothing, put a policy that permits nothing`))
  const policies: Record<string, string> = {}
  for (const name of names.value) {
    const text = readCedar(join(dir, name))
    if (!text.ok) return text
    policies[basename(name, '.cedar')] = text.value
  }
  return ok(policies)
}

export type CasesFile = { readonly path: string; readonly cases: SentCases }

/** The files of cases at `path`: itself, or those in it. */
export function readCases(path: string): Result<CasesFile[], Trouble> {
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
  return names.value.length === 0 ? err(usage(`\`${path}\` holds no .json file of cases`)) : ok(names.value.map((name) => join(path, name)))
}

function readCasesFile(path: string): Result<SentCases, Trouble> {
  const json = readJson(path)
  if (!json.ok) return json
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
  return bytes.ok ? ok(Buffer.from(bytes.value).toString('utf8')) : bytes
}

function namesIn(dir: string, ending: string): Result<string[], Trouble> {
  try {
    return ok(
      readdirSync(dir)
        .filter((name) => name.endsWith(ending))
        .sort(),
    )
  } catch (thrown) {
    return err(trouble('unreadable', `\`${dir}\` can't be read: ${reason(thrown)}`))
  }
}

const isFile = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isFile() ?? false
