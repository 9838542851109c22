// Owns the counting of a call's unlinked files: files that it removed but still has open or mapped.
// It reads the descriptors and maps of the call's threads in /proc. Only a cgroup lists all
// threads, so it is used only with one.

import { readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { setImmediate } from 'node:timers/promises'

const BLOCK = 512
const REMOVED = ' (deleted)'
/** A tool may have many descriptors and maps: after this many we yield to the event loop. */
const AT_ONCE = 256
/**
 * Limit on all maps together. Only a call whose processes share memory, and so repeat maps, exceeds
 * it.
 */
const MAPS_BYTES = 64 * 1024 * 1024

type Options = {
  /** The call's folder: files on its disk count. */
  readonly folder: string
  readonly threads: () => readonly number[]
  /**
   * Process 1 of its sandbox, once known. It is our program, holds no file, and only root may read
   * it.
   */
  readonly init?: () => number | undefined
  /** The prefix of paths, as the call sees them, that are on that disk. */
  readonly below: string
  /**
   * Whether a process that hides its descriptors counts as exceeding the limit; otherwise as
   * nothing.
   */
  readonly strict: boolean
}

export class Unlinked {
  readonly #options: Options
  /**
   * Read before the call begins, because the call may remove its folder. Undefined if there is
   * none.
   */
  readonly #dev: number | undefined
  /** Threads that could not be read the last time. */
  #hidden = new Set<number>()

  constructor(sight: Options) {
    this.#options = sight
    this.#dev = statSync(sight.folder, { throwIfNoEntry: false })?.dev
  }

  /** Undefined if that can't be known. */
  async bytes(): Promise<number | undefined> {
    const { threads, strict } = this.#options
    const dev = this.#dev
    if (dev === undefined) return 0
    const sizes: Sizes = { open: new Map(), mapped: new Map() }
    const hidden = new Set<number>()
    const read = new Set<number>()
    let left = MAPS_BYTES
    const init = this.#options.init?.()
    for (const thread of threads()) {
      if (thread === init) continue
      try {
        await this.#open(thread, dev, sizes)
        const process = processOf(thread)
        if (process === undefined || read.has(process)) continue // an ending process has no maps
        const maps = await readFile(`/proc/${thread}/maps`)
        read.add(process)
        left -= maps.byteLength
        if (left < 0) return strict ? undefined : sumOf(sizes)
        await this.#mapped(maps, dev, sizes)
      } catch (error) {
        if (isRefused(error) && processOf(thread) !== undefined) hidden.add(thread)
      }
    }
    // During an exec a thread is unreadable for a moment. One that is unreadable twice is hiding.
    const closed = hidden.intersection(this.#hidden).size > 0
    this.#hidden = hidden
    return closed && strict ? undefined : sumOf(sizes)
  }

  /** Reads descriptors by thread, because threads may have their own. */
  async #open(thread: number, dev: number, { open }: Sizes): Promise<void> {
    for (const [index, fd] of readdirSync(`/proc/${thread}/fd`).entries()) {
      if (index % AT_ONCE === 0) await setImmediate()
      const path = `/proc/${thread}/fd/${fd}`
      const file = this.#counts(linkOf(path)) ? statSync(path, { throwIfNoEntry: false }) : undefined
      if (file?.isFile() && file.nlink === 0 && file.dev === dev) open.set(file.ino, file.blocks * BLOCK)
    }
  }

  /**
   * The size of a file that is mapped and closed is unknown: the most that one process maps of it
   * counts.
   */
  async #mapped(maps: Buffer, dev: number, { mapped }: Sizes): Promise<void> {
    const device = `${hex((dev >> 8) & 0xfff)}:${hex((dev & 0xff) | ((dev >> 12) & 0xfff00))}`
    const here = new Map<number, number>()
    let lines = 0
    for (let [at, end] = [maps.indexOf(REMOVED), 0]; at >= 0; at = maps.indexOf(REMOVED, end)) {
      if (++lines % AT_ONCE === 0) await setImmediate()
      end = maps.indexOf('\n', at)
      const line = maps.toString('latin1', maps.lastIndexOf('\n', at) + 1, end)
      const [, from = '', to = '', on, ino = '', path = ''] = MAP.exec(line) ?? []
      if (on === device && this.#counts(path))
        here.set(
          Number(ino),
          (here.get(Number(ino)) ?? 0) + Number.parseInt(to, 16) - Number.parseInt(from, 16),
        )
    }
    for (const [ino, bytes] of here) mapped.set(ino, Math.max(bytes, mapped.get(ino) ?? 0))
  }

  #counts(path: string): boolean {
    return path.endsWith(REMOVED) && path.startsWith(this.#options.below)
  }
}

const MAP = /^([0-9a-f]+)-([0-9a-f]+) \S+ [0-9a-f]+ ([0-9a-f]+:[0-9a-f]+) ([0-9]+) +(\S.*)$/

const hex = (number: number): string => number.toString(16).padStart(2, '0')

/** By inode: bytes on disk of open files, and mapped bytes of files. */
type Sizes = { readonly open: Map<number, number>; readonly mapped: Map<number, number> }

const sumOf = ({ open, mapped }: Sizes): number =>
  new Map([...mapped, ...open]).values().reduce((all, bytes) => all + bytes, 0)

/** Empty if the descriptor has been closed. */
function linkOf(path: string): string {
  try {
    return readlinkSync(path)
  } catch {
    return ''
  }
}

/**
 * The process of a thread. Undefined if it is ending or a zombie: then it has no memory, and /proc
 * shows it as root's.
 */
function processOf(thread: number): number | undefined {
  try {
    const status = readFileSync(`/proc/${thread}/status`, 'latin1')
    return status.includes('\nVmSize:') ? Number(/^Tgid:\s*([0-9]+)$/m.exec(status)?.[1]) : undefined
  } catch {
    return undefined
  }
}

const isRefused = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && (error.code === 'EACCES' || error.code === 'EPERM')
