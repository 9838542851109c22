// Reads policies and their test cases from disk: a folder of .cedar files with files of cases
// beside it.

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
import { parseInput } from '../shell/json-input.ts'

export const DIR = { DIR: 'a folder of .cedar files; each is one policy text, named after its file' } as const

/** The policy texts of a set, by file name without `.cedar`. */
export function readFolder(dir: string): Result<Record<string, string>, Trouble> {
  const names = namesIn(dir, '.cedar')
  if (!names.ok) return names
  if (names.value.length === 0)
    return err(
      usage(`\`${dir}\` contains no .cedar file; to deny every call, add a policy that permits nothing`),
    )
  const policies: Record<string, string> = {}
  for (const name of names.value) {
    if (!PATTERNS.name.test(basename(name, '.cedar')))
      return err(
        usage(
          `\`${join(dir, name)}\`: rename the file; a policy text’s name starts with a lower-case letter and has at most 64 lower-case letters, digits, \`_\`, \`.\` or \`-\``,
        ),
      )
    const text = readCedar(join(dir, name))
    if (!text.ok) return text
    policies[basename(name, '.cedar')] = text.value
  }
  return ok(policies)
}

/** Warnings about files that look like part of the set and are not: in subfolders, or empty. */
export function ignoredFiles(dir: string, policies: Readonly<Record<string, string>>): string[] {
  const deeper = readdirSync(dir, { recursive: true, encoding: 'utf8' }).filter(
    (path) => path.endsWith('.cedar') && dirname(path) !== '.',
  )
  const folders = new Set(deeper.map(dirname).filter((folder) => folder.split('/')[0] !== 'cases'))
  const empty = Object.keys(policies).filter((name) => policies[name]?.trim() === '')
  return [
    ...[...folders].map(
      (folder) => `${join(dir, folder)}: the .cedar files in this folder are ignored; move them to ${dir}`,
    ),
    ...empty.map((name) => `${join(dir, name)}.cedar: the file is empty`),
  ]
}

/**
 * Turns the edge's `text:line:column` into `path:line:column`, which editors understand; other
 * places stay as they are.
 */
export function withPath(at: string, dir: string, policies: Readonly<Record<string, string>>): string {
  const [name = '', ...place] = at.split(':')
  return Object.hasOwn(policies, name) ? [join(dir, `${name}.cedar`), ...place].join(':') : at
}

export type CasesFile = { readonly path: string; readonly cases: SentCases }

/** The files of cases at `path`: the file itself, or the .json files of the folder. */
export function readCases(path: string): Result<CasesFile[], Trouble> {
  if (statSync(path, { throwIfNoEntry: false }) === undefined)
    return err(
      usage(
        `there are no test cases: \`${path}\` does not exist; docs/policies.md explains how to write them`,
      ),
    )
  const paths = isFile(path) ? ok([path]) : caseFilesIn(path)
  if (!paths.ok) return paths
  const files: CasesFile[] = []
  for (const each of paths.value) {
    const cases = readCasesFile(each)
    if (!cases.ok) return cases
    files.push({ path: each, cases: cases.value })
  }
  return ok(files)
}

function caseFilesIn(path: string): Result<string[], Trouble> {
  const names = namesIn(path, '.json')
  if (!names.ok) return names
  return names.value.length === 0
    ? err(
        usage(
          `there are no test cases: \`${path}\` contains no .json file; docs/policies.md explains how to write them`,
        ),
      )
    : ok(names.value.map((name) => join(path, name)))
}

function readCasesFile(path: string): Result<SentCases, Trouble> {
  const json = readJson(path)
  if (!json.ok) return err({ ...json.error, exit: 2 })
  const read = parseInput(PolicyCases, json.value, `\`${path}\``)
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
    return err({ ...trouble('unreadable', `\`${dir}\` can’t be read: ${reason(thrown)}`), exit: 2 })
  }
}

const isFile = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isFile() ?? false
