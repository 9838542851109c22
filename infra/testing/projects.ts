// Sorts the test files into vitest's projects by what the files say, so that no list goes stale.
//
// - unit: the file reaches no module that starts processes, by imports at run time. Shares one process with its like.
// - exclusive: says `// @project exclusive`. It compares what the whole machine has before and after, so it runs alone.
// - shared: imports `sharedStack` or `sharedState`: a stack that other files used before it.
// - own: all others. Each starts what it needs. A file that says `// @project own` starts nothing, but computes for about ten seconds or
//   more: it stays out of the unit tests, so that those take half a minute at most.
// - prepared: says `// @project prepared`. Runs once more, in sandboxes that were set up before their call was known.

import { existsSync, globSync, readFileSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import { dirname, join } from 'node:path'

/** Booted machines take minutes: `npm run test:hosts` has its own configuration for them. */
const HOSTS = 'test/hosts/**'

const STARTS_PROCESSES = /^(?:(?:node:)?(?:child_process|cluster)|execa|playwright-core|miniflare|wrangler)$/
const SHARED = /^import \{[^}]*\bshared(?:Stack|State)\b/m
/** Static and dynamic imports and re-exports; `import type` is gone at run time. */
const IMPORTS = /^(?:import|export)\s+(?!type\b)(?:[^'"`;]*?\bfrom\s+)?'([^']+)'|\bimport\(\s*'([^']+)'/gm

export type TestProjects = Readonly<Record<'unit' | 'exclusive' | 'shared' | 'own' | 'prepared', string[]>>

export function testProjects(root: string): TestProjects {
  const importsOf = importReader(root)
  const projects: TestProjects = { unit: [], exclusive: [], shared: [], own: [], prepared: [] }
  for (const file of globSync('test/**/*.test.ts', { cwd: root, exclude: [HOSTS] }).sort()) {
    const text = readFileSync(join(root, file), 'utf8')
    if (/^\/\/ @project prepared$/m.test(text)) projects.prepared.push(file)
    if (/^\/\/ @project exclusive$/m.test(text)) projects.exclusive.push(file)
    else if (SHARED.test(text)) projects.shared.push(file)
    else if (/^\/\/ @project own$/m.test(text) || startsProcesses(file, importsOf)) projects.own.push(file)
    else projects.unit.push(file)
  }
  return projects
}

function startsProcesses(file: string, importsOf: (file: string) => readonly string[]): boolean {
  const reached = new Set([file])
  for (const module of reached) {
    if (STARTS_PROCESSES.test(module)) return true
    for (const imported of importsOf(module)) reached.add(imported)
  }
  return false
}

/** What a module of ours imports: our own files by their path from `root`, packages by name. */
function importReader(root: string): (file: string) => readonly string[] {
  const known = new Map<string, readonly string[]>()
  return (file) => {
    const imports = known.get(file) ?? read(root, file)
    known.set(file, imports)
    return imports
  }
}

function read(root: string, file: string): string[] {
  const path = join(root, file)
  if (isBuiltin(file) || !/\.[cm]?[jt]sx?$/.test(file) || !existsSync(path)) return []
  return [...readFileSync(path, 'utf8').matchAll(IMPORTS)].map(([, fixed, dynamic]) => {
    const name = fixed ?? dynamic ?? ''
    return name.startsWith('.') ? join(dirname(file), name) : name
  })
}
