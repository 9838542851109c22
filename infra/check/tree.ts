// Reads the tree that the gates judge: every text file that git tracks or would track. It judges nothing.

import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/** Path relative to the root, with `/`, to content. */
export type Tree = ReadonlyMap<string, string>

/** A file's own content is never this large here; a lock file and a licence stay far below. */
const MAX_BYTES = 4 * 1024 * 1024

export function readTree(root: string): Tree {
  // Untracked files count: a breach should show before the commit, not after it.
  const listed = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], {
    cwd: root,
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
  })
  const tree = new Map<string, string>()
  for (const path of new Set(listed.split('\0'))) {
    if (path === '' || path.split('/').includes('node_modules')) continue
    const content = readText(join(root, path))
    if (content !== undefined) tree.set(path, content)
  }
  return tree
}

/** Undefined for what is gone from disk (deleted, not yet staged), is a folder link, or is no text. */
function readText(path: string): string | undefined {
  try {
    const bytes = readFileSync(path)
    return bytes.length > MAX_BYTES || bytes.includes(0) ? undefined : bytes.toString('utf8')
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined
    if (code === 'ENOENT' || code === 'EISDIR') return undefined
    throw error
  }
}

/** AssemblyScript is spelled `.ts` too, and is another language. */
export const isCode = (path: string): boolean =>
  /\.[cm]?[jt]sx?$/.test(path) && !path.endsWith('.d.ts') && !path.split('/').includes('assembly')
