// Owns the file descriptors that the worker passes to the programs it starts: it makes unnamed
// files, which no other process can open by a path, and closes the descriptors that the worker
// itself inherited (S21).

import {
  closeSync,
  constants,
  fstatSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  writeSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { errorReport } from './error-report.ts'

// Linux flags that Node does not name (asm-generic/fcntl.h). Both machines that we know share them.
const O_TMPFILE = 0o20000000 | constants.O_DIRECTORY
const O_CLOEXEC = 0o2000000

/** In order of preference: a folder in memory, then one on disk. */
const FOLDERS = ['/dev/shm', tmpdir()]

/** Returns the first folder whose file system supports unnamed files (O_TMPFILE). */
export function scratchFolder(): string {
  const folder = FOLDERS.find((candidate) => {
    try {
      closeSync(namelessFile(candidate))
      return true
    } catch {
      return false
    }
  })
  if (folder === undefined)
    throw new Error(`none of ${FOLDERS.join(', ')} can hold a file without a name (O_TMPFILE)`)
  return folder
}

/**
 * Opens several descriptors as one step: if one can't be opened, closes those passed to `keep`
 * before and rethrows.
 */
export function together<T>(open: (keep: (fd: number) => number) => T): T {
  const kept: number[] = []
  try {
    return open((fd) => {
      kept.push(fd)
      return fd
    })
  } catch (error) {
    for (const fd of kept) closeSync(fd)
    throw error
  }
}

/**
 * Whether the host ran out of descriptors or memory for a moment. Such an error says nothing about
 * the file that was to be opened.
 */
export const isShortage = (error: unknown): boolean => SHORTAGES.has(errorReport(error).code)
const SHORTAGES: ReadonlySet<string> = new Set(['EMFILE', 'ENFILE', 'ENOMEM'])

/** Makes an unnamed file and returns its descriptor, with the read position at the start. */
export const namelessFile = (folder: string, content?: Uint8Array): number =>
  together((keep) => {
    const fd = keep(openSync(folder, O_TMPFILE | constants.O_RDWR, 0o600))
    if (content !== undefined) fill(fd, content)
    return fd
  })

/** Writes from the start of the file without moving the read position. */
export function fill(fd: number, content: Uint8Array): void {
  for (let at = 0; at < content.byteLength; ) at += writeSync(fd, content, at, content.byteLength - at, at)
}

/**
 * Opens the same file again. The new descriptor has its own read position; inherited copies of one
 * descriptor share theirs.
 */
export const reopen = (fd: number): number => openSync(`/proc/self/fd/${fd}`, constants.O_RDONLY)

/** Makes an unnamed file with this content and returns a read-only descriptor of it. */
export function inputFile(folder: string, content: Uint8Array): number {
  const fd = namelessFile(folder, content)
  try {
    return reopen(fd)
  } finally {
    closeSync(fd)
  }
}

export function contentOf(fd: number): string {
  const bytes = Buffer.alloc(fstatSync(fd).size)
  return bytes.toString('utf8', 0, readSync(fd, bytes, 0, bytes.byteLength, 0))
}

/**
 * Closes every descriptor above 2 that would survive an exec, and returns those it closed. Call it
 * before anything else: the worker's parent may have left some open, and bubblewrap passes on every
 * descriptor that it inherits.
 */
export function closeInheritedDescriptors(): number[] {
  const closed: number[] = []
  for (const name of readdirSync('/proc/self/fdinfo')) {
    const fd = Number(name)
    if (fd <= 2 || staysBehind(fd)) continue
    closeSync(fd)
    closed.push(fd)
  }
  return closed
}

/**
 * Whether exec closes the descriptor. The one that listed the folder is closed by now, so it can't
 * be read.
 */
function staysBehind(fd: number): boolean {
  let info: string
  try {
    info = readFileSync(`/proc/self/fdinfo/${fd}`, 'utf8')
  } catch {
    return true
  }
  return (Number.parseInt(/^flags:\s*([0-7]+)$/m.exec(info)?.[1] ?? '0', 8) & O_CLOEXEC) !== 0
}
