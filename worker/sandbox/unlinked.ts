// Owns the counting of what a call has on disk without a name: files that it removed, and has open or mapped still. It looks through the
// descriptors and maps of the call's threads in /proc, and changes nothing. Without a cgroup nobody knows all of them, and it isn't used.

import { statSync } from 'node:fs'
import { readdir, readFile, readlink, stat } from 'node:fs/promises'

const BLOCK = 512
const REMOVED = ' (deleted)'

type Sight = {
  /** The call's folder, on whose disk files count. */
  readonly folder: string
  readonly threads: () => readonly number[]
  /** As the call sees it, what of that disk is the call's. */
  readonly below: string
  /** Who hides its descriptors is taken to have too much; else it has nothing. */
  readonly strict: boolean
}

export class Unlinked {
  readonly #sight: Sight
  /** Asked before the call begins, which may remove its folder. Undefined where there is none: nothing will begin. */
  readonly #dev: number | undefined
  /** Threads that could not be looked at the last time. */
  #hidden = new Set<number>()

  constructor(sight: Sight) {
    this.#sight = sight
    this.#dev = statSync(sight.folder, { throwIfNoEntry: false })?.dev
  }

  /** Undefined where that can't be known. */
  async bytes(): Promise<number | undefined> {
    const { threads, strict } = this.#sight
    const dev = this.#dev
    if (dev === undefined) return 0
    const files = new Map<number, number>()
    const hidden = new Set<number>()
    for (const thread of threads()) {
      try {
        await this.#open(thread, dev, files)
        await this.#mapped(thread, dev, files)
      } catch (error) {
        if (isRefused(error) && (await lives(thread))) hidden.add(thread)
      }
    }
    // One that changes what it is may be nobody's for a moment; one that was so before has closed itself to us.
    const closed = hidden.intersection(this.#hidden).size > 0
    this.#hidden = hidden
    return closed && strict ? undefined : files.values().reduce((sum, bytes) => sum + bytes, 0)
  }

  /** Threads may have descriptors of their own. */
  async #open(thread: number, dev: number, files: Map<number, number>): Promise<void> {
    for (const fd of await readdir(`/proc/${thread}/fd`)) {
      const path = `/proc/${thread}/fd/${fd}`
      const file = this.#counts(await readlink(path).catch(() => '')) ? await stat(path).catch(() => undefined) : undefined
      if (file?.isFile() && file.nlink === 0 && file.dev === dev) files.set(file.ino, file.blocks * BLOCK)
    }
  }

  /** A file that is mapped and closed can't be asked for its size: what is mapped of it counts. */
  async #mapped(thread: number, dev: number, files: Map<number, number>): Promise<void> {
    const device = `${hex((dev >> 8) & 0xfff)}:${hex((dev & 0xff) | ((dev >> 12) & 0xfff00))}`
    const mapped = new Map<number, number>()
    for (const line of (await readFile(`/proc/${thread}/maps`, 'latin1')).split('\n')) {
      const [, from = '', to = '', on, ino = '', path = ''] = MAP.exec(line) ?? []
      if (on !== device || !this.#counts(path) || files.has(Number(ino))) continue
      mapped.set(Number(ino), (mapped.get(Number(ino)) ?? 0) + Number.parseInt(to, 16) - Number.parseInt(from, 16))
    }
    for (const [ino, bytes] of mapped) files.set(ino, bytes)
  }

  #counts(path: string): boolean {
    return path.endsWith(REMOVED) && path.startsWith(this.#sight.below)
  }
}

const MAP = /^([0-9a-f]+)-([0-9a-f]+) \S+ [0-9a-f]+ ([0-9a-f]+:[0-9a-f]+) ([0-9]+) +(\S.*)$/

const hex = (number: number): string => number.toString(16).padStart(2, '0')

/** One that is ending, or has ended and is not collected yet, has no memory and is shown as root's. */
const lives = async (thread: number): Promise<boolean> => {
  const status = await readFile(`/proc/${thread}/status`, 'latin1').catch(() => '')
  return status.includes('\nVmSize:')
}

const isRefused = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && (error.code === 'EACCES' || error.code === 'EPERM')
