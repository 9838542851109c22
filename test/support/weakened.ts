// Loads our own code with one defence removed, to prove that a test detects the attack: a copy of
// worker/ and shared/ with a changed piece of source. So production code needs no switch for tests.

import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { findOnce } from './find-in-source.ts'

const ROOT = join(import.meta.dirname, '..', '..')

/** Replaces `from`, which must occur exactly once in the file (a path from the root), by `to`. */
export type Weakness = readonly [file: string, from: string, to: string]

/** Returns an import function for modules of the changed copy, which exists until the test ends. */
export function weakened(...weaknesses: readonly Weakness[]): <Module>(path: string) => Promise<Module> {
  const folder = mkdtempSync(join(tmpdir(), 'weakened-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  for (const part of ['worker', 'shared', 'package.json'])
    cpSync(join(ROOT, part), join(folder, part), { recursive: true })
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
  for (const [file, from, to] of weaknesses) {
    const source = readFileSync(join(folder, file), 'utf8')
    const span = findOnce(from, source)
    if (span === undefined) throw new Error(`${file} does not contain this exactly once: ${from}`)
    writeFileSync(
      join(folder, file),
      `${source.slice(0, span.at)}${to}${source.slice(span.at + span.length)}`,
    )
  }
  return (path) => import(/* @vite-ignore */ join(folder, path))
}
