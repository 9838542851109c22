// A copy of the working tree that a mutant may be put into: what git tracks or would track, and
// links to the installed packages. The checkout itself is only read.

import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { ROOT } from '../../infra/state.ts'
import { type Mutant, mutated } from './mutant.ts'

export type Copy = {
  readonly root: string
  /** Folder for files that the tests create. */
  readonly scratch: string
  /** Runs `work` while the copy contains the mutant. */
  readonly withMutant: <T>(mutant: Mutant, work: () => Promise<T>) => Promise<T>
}

export function copyTree(root: string): Copy {
  const listed = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], {
    cwd: ROOT,
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
  })
  const files = listed.split('\0').filter((file) => file !== '' && existsSync(join(ROOT, file)))
  for (const file of files) cpSync(join(ROOT, file), join(root, file), { recursive: true })
  // A separate folder with caches of its own, vitest's and ours: what one copy had bundled from a
  // broken line, the tests of the other would run.
  const modules = join(root, 'node_modules')
  mkdirSync(modules)
  for (const name of readdirSync(join(ROOT, 'node_modules')).filter(
    (name) => !/^\.(?:vite|cache)/.test(name),
  ))
    symlinkSync(join(ROOT, 'node_modules', name), join(modules, name))
  const scratch = `${root}-scratch`
  mkdirSync(scratch)
  chmodSync(scratch, 0o1777)
  return {
    root,
    scratch,
    async withMutant(mutant, work) {
      const path = join(root, mutant.file)
      const source = readFileSync(path, 'utf8')
      writeFileSync(path, mutated(mutant, source))
      try {
        return await work()
      } finally {
        writeFileSync(path, source)
      }
    },
  }
}
