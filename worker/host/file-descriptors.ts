// Owns file descriptors that pass between the worker and what it starts: files without a name, and the closing of what the worker itself
// inherited (S21). Nothing here is ever visible in a file system.

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

/** Memory rather than disk, where there is such a thing. */
const FOLDERS = ['/dev/shm', tmpdir()]

/** A folder that can hold files without a name. */
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

/** What is opened for one purpose: where one can't be, those that are `kept` by then are closed. */
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

/** Nobody's fault: this host has no more of it at this moment, and says nothing of what was asked for. */
export const isShortage = (error: unknown): boolean => SHORTAGES.has(errorReport(error).code)
const SHORTAGES: ReadonlySet<string> = new Set(['EMFILE', 'ENFILE', 'ENOMEM'])

/** A file that only its descriptor leads to, with the read position at its start. */
export const namelessFile = (folder: string, content?: Uint8Array): number =>
  together((keep) => {
    const fd = keep(openSync(folder, O_TMPFILE | constants.O_RDWR, 0o600))
    if (content !== undefined) fill(fd, content)
    return fd
  })

/** Leaves the position where it is. */
export function fill(fd: number, content: Uint8Array): void {
  for (let at = 0; at < content.byteLength; ) at += writeSync(fd, content, at, content.byteLength - at, at)
}

/** The same file again with a position of its own: descriptors that are passed on share theirs. */
export const reopen = (fd: number): number => openSync(`/proc/self/fd/${fd}`, constants.O_RDONLY)

/** A file to be read from its start, by a descriptor that can't write. */
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
 * Closes every descriptor above 2 that would live through an exec. Call it first thing: whoever started the worker may have left some
 * open, and bubblewrap passes on all that it gets. Returns what it closed.
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

/** Whether exec closes it. The descriptor that listed the folder is gone by now. */
function staysBehind(fd: number): boolean {
  let info: string
  try {
    info = readFileSync(`/proc/self/fdinfo/${fd}`, 'utf8')
  } catch {
    return true
  }
  return (Number.parseInt(/^flags:\s*([0-7]+)$/m.exec(info)?.[1] ?? '0', 8) & O_CLOEXEC) !== 0
}
