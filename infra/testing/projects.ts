// Sorts the test files into vitest's projects by their content, so that there is no list to keep up
// to date.
//
// - unit: imports no module that starts processes, directly or indirectly.
// - exclusive: marked `// @project exclusive`. It compares the whole machine before and after, so it runs alone.
// - processes: all others. Each starts what it needs, or uses a stack that other files have used before
//   it (`sharedStack`). A file marked `// @project processes` starts nothing, but computes for ten
//   seconds or more, so it is kept out of the unit tests, which take half a minute at most.
// - prepared: marked `// @project prepared`. Runs a second time, in warm sandboxes.
//
// The files of unit, processes and prepared share vitest's worker processes, because starting one and
// loading the modules costs 0.4 s of CPU. vitest reuses a worker only within a project.

import { existsSync, globSync, readFileSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import { dirname, join } from 'node:path'

/**
 * These tests boot machines, which takes minutes; `npm run test:hosts` has its own configuration.
 */
const HOSTS = 'test/hosts/**'
/** test/agents has packages of its own, and some of those have tests. */
const PACKAGES = 'test/**/node_modules/**'

const STARTS_PROCESSES = /^(?:(?:node:)?(?:child_process|cluster)|execa|playwright-core|miniflare|wrangler)$/
const SHARED_STACK = /^import \{[^}]*\bshared(?:Stack|State)\b/m
/** Static and dynamic imports and re-exports. `import type` does not exist at run time. */
const IMPORTS = /^(?:import|export)\s+(?!type\b)(?:[^'"`;]*?\bfrom\s+)?'([^']+)'|\bimport\(\s*'([^']+)'/gm

export type TestProjects = Readonly<Record<'unit' | 'exclusive' | 'processes' | 'prepared', string[]>>

export function testProjects(root: string): TestProjects {
  const importsOf = importReader(root)
  const projects: TestProjects = { unit: [], exclusive: [], processes: [], prepared: [] }
  for (const file of testFiles(root)) {
    const text = readFileSync(join(root, file), 'utf8')
    if (/^\/\/ @project prepared$/m.test(text)) projects.prepared.push(file)
    if (/^\/\/ @project exclusive$/m.test(text)) projects.exclusive.push(file)
    else if (/^\/\/ @project processes$/m.test(text) || startsProcesses(file, importsOf))
      projects.processes.push(file)
    else projects.unit.push(file)
  }
  return projects
}

/** Whether the test file uses the stack that files share. */
export const usesSharedStack = (root: string, file: string): boolean =>
  SHARED_STACK.test(readFileSync(join(root, file), 'utf8'))

const testFiles = (root: string): string[] =>
  globSync('test/**/*.test.ts', { cwd: root, exclude: [HOSTS, PACKAGES] }).sort()

function startsProcesses(file: string, importsOf: (file: string) => readonly string[]): boolean {
  const reached = new Set([file])
  for (const module of reached) {
    if (STARTS_PROCESSES.test(module)) return true
    for (const imported of importsOf(module)) reached.add(imported)
  }
  return false
}

/** The imports of one of our modules: our files by their path from `root`, packages by name. */
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
