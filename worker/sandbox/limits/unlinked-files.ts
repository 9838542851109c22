// Owns the counting of what a call has on disk without a name: files that it removed, and has open or mapped still. It looks through the
// descriptors and maps of the call's threads in /proc, and changes nothing. Without a cgroup nobody knows all of them, and it isn't used.

import { readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { setImmediate } from 'node:timers/promises'

const BLOCK = 512
const REMOVED = ' (deleted)'
/** A tool may have many descriptors and maps: others get their turn after so many. To ask for one waits for nothing. */
const AT_ONCE = 256
/** Of maps in all. Processes that share their memory show the same ones again and again; no other call comes near. */
const MAPS_BYTES = 64 * 1024 * 1024

type Sight = {
  /** The call's folder, on whose disk files count. */
  readonly folder: string
  readonly threads: () => readonly number[]
  /** Process 1 of its sandbox, once known: our own program, which holds no file and shows its descriptors only to root. */
  readonly init?: () => number | undefined
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
    const sizes: Sizes = { open: new Map(), mapped: new Map() }
    const hidden = new Set<number>()
    const read = new Set<number>()
    let left = MAPS_BYTES
    const init = this.#sight.init?.()
    for (const thread of threads()) {
      if (thread === init) continue
      try {
        await this.#open(thread, dev, sizes)
        const process = processOf(thread)
        if (process === undefined || read.has(process)) continue // one that is ending has no maps
        const maps = await readFile(`/proc/${thread}/maps`)
        read.add(process)
        left -= maps.byteLength
        if (left < 0) return strict ? undefined : sumOf(sizes)
        await this.#mapped(maps, dev, sizes)
      } catch (error) {
        if (isRefused(error) && processOf(thread) !== undefined) hidden.add(thread)
      }
    }
    // One that changes what it is may be nobody's for a moment; one that was so before has closed itself to us.
    const closed = hidden.intersection(this.#hidden).size > 0
    this.#hidden = hidden
    return closed && strict ? undefined : sumOf(sizes)
  }

  /** Threads may have descriptors of their own. */
  async #open(thread: number, dev: number, { open }: Sizes): Promise<void> {
    for (const [index, fd] of readdirSync(`/proc/${thread}/fd`).entries()) {
      if (index % AT_ONCE === 0) await setImmediate()
      const path = `/proc/${thread}/fd/${fd}`
      const file = this.#counts(linkOf(path)) ? statSync(path, { throwIfNoEntry: false }) : undefined
      if (file?.isFile() && file.nlink === 0 && file.dev === dev) open.set(file.ino, file.blocks * BLOCK)
    }
  }

  /** A file that is mapped and closed can't be asked for its size: the most that one process maps of it counts. */
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
    return path.endsWith(REMOVED) && path.startsWith(this.#sight.below)
  }
}

const MAP = /^([0-9a-f]+)-([0-9a-f]+) \S+ [0-9a-f]+ ([0-9a-f]+:[0-9a-f]+) ([0-9]+) +(\S.*)$/

const hex = (number: number): string => number.toString(16).padStart(2, '0')

/** By inode: what a file takes that somebody has open, and what is mapped of one. */
type Sizes = { readonly open: Map<number, number>; readonly mapped: Map<number, number> }

const sumOf = ({ open, mapped }: Sizes): number =>
  new Map([...mapped, ...open]).values().reduce((all, bytes) => all + bytes, 0)

/** Nothing of one that was closed meanwhile. */
function linkOf(path: string): string {
  try {
    return readlinkSync(path)
  } catch {
    return ''
  }
}

/** Of which process a thread is. Undefined of one that is ending, or has ended and is not collected yet: it has no memory and is shown as root's. */
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
