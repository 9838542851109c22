// Promise: `npm ci` works on a fresh clone. It refuses a lock file that lacks an optional
// dependency of another platform, and `npm install` silently leaves those out if its mirror does
// not have them.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ROOT } from '../../infra/state.ts'

type Entry = {
  version?: string
  dependencies?: Record<string, string>
  optionalDependencies?: Record<string, string>
  integrity?: string
  optional?: boolean
}
type Lock = { packages: Record<string, Entry> }

/**
 * The entry that npm finds for `name` from the package at `path`: it looks in that folder first,
 * then in each one above.
 */
function resolved(packages: Lock['packages'], path: string, name: string): Entry | undefined {
  for (let at = path; ; at = at.slice(0, Math.max(0, at.lastIndexOf('node_modules/') - 1))) {
    const entry = packages[`${at === '' ? '' : `${at}/`}node_modules/${name}`]
    if (entry !== undefined || at === '') return entry
  }
}

function missing({ packages }: Lock): string[] {
  return Object.entries(packages).flatMap(([path, { dependencies, optionalDependencies }]) =>
    Object.keys({ ...dependencies, ...optionalDependencies }).flatMap((name) =>
      resolved(packages, path, name)?.version === undefined ? [`${path} → ${name}`] : [],
    ),
  )
}

const read = (path: string): Lock => JSON.parse(readFileSync(join(ROOT, path), 'utf8')) as Lock // npm's format, version 3
const lock = read('package-lock.json')
const LOCKS = ['package-lock.json', 'test/agents/package-lock.json']

test.each(LOCKS)('%s has an entry for every dependency of every platform', (path) => {
  expect(missing(read(path))).toEqual([])
})

test('control: a missing entry is detected', () => {
  const { 'node_modules/@cloudflare/workerd-darwin-64': _, ...packages } = lock.packages
  expect(missing({ packages })).toEqual(['node_modules/workerd → @cloudflare/workerd-darwin-64'])
})

test.each(LOCKS)('%s pins every package that is installed on Linux by the digest of its content', (path) => {
  const unpinned = Object.entries(read(path).packages).filter(
    ([path, { integrity, optional }]) => path !== '' && integrity === undefined && !optional,
  )
  expect(unpinned.map(([path]) => path)).toEqual([])
})
