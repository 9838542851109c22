// Our own code with a check taken out, to show that a test bites: a copy of worker/ and shared/ in which a piece of source is another.
// The code that runs in production has no way to leave a check out, so none is added to it for a test.

import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { findOnce } from './find-in-source.ts'

const ROOT = join(import.meta.dirname, '..', '..')

/** In a file, by its path from the root, this text stands once; the other one is to stand there. */
export type Weakness = readonly [file: string, from: string, to: string]

/** Imports modules of the copy, by their path from the root, until the test has ended. */
export function weakened(...weaknesses: readonly Weakness[]): <Module>(path: string) => Promise<Module> {
  const folder = mkdtempSync(join(tmpdir(), 'weakened-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  for (const part of ['worker', 'shared', 'package.json'])
    cpSync(join(ROOT, part), join(folder, part), { recursive: true })
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
  for (const [file, from, to] of weaknesses) {
    const source = readFileSync(join(folder, file), 'utf8')
    const span = findOnce(from, source)
    if (span === undefined) throw new Error(`${file} does not have this exactly once: ${from}`)
    writeFileSync(
      join(folder, file),
      `${source.slice(0, span.at)}${to}${source.slice(span.at + span.length)}`,
    )
  }
  return (path) => import(/* @vite-ignore */ join(folder, path))
}
