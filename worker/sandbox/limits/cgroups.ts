// Owns the cgroups of calls: one for each, below the worker's own, where this host has delegated that to the worker's user. It counts what
// rlimits can't (memory, processes and CPU time of a call together), ends all of a call at once, and tells an end for want of memory from another.
// It finds out by trying whether it can; where not, it says why, and rlimits alone stand (`C-nocgroup`). It starts no tool.

import { spawnSync } from 'node:child_process'
import { closeSync, mkdirSync, openSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate as immediate, setTimeout as sleep } from 'node:timers/promises'
import { err, ok, type Result } from '../../../shared/result.ts'
import { isOver, writeProgram } from '../../host/owned-folders.ts'
import { enterProgram, FIRST_GROUP_FD, GROUP_FDS, type GroupVersion } from '../kernel/enter-cgroup.ts'
import type { Machine } from '../kernel/syscalls.ts'
import { delegated, LEAF, processesIn, type Tree } from './cgroup-delegation.ts'

export type GroupLimits = { readonly memory_bytes: number; readonly processes: number }

/** Where one call's processes are counted, limited and ended together. */
export type Group = {
  /** The program that enters it and becomes the command that follows. */
  readonly enter: string
  /** For that program, from `FIRST_GROUP_FD` on. */
  readonly fds: readonly number[]
  /** Those that are in it now, by the host's numbers. */
  readonly threads: () => readonly number[]
  /** SIGKILL for all that are in it, at once; nothing new can start in it any more. It never throws: what it could not do `empty` does. */
  readonly kill: () => void
  /** Ends what is left. False if something would not end, or nobody could tell. */
  readonly empty: () => Promise<boolean>
  /** Whether the kernel ended a process of it for want of memory. */
  readonly outOfMemory: () => boolean
  /** CPU time of all that is or was in it; none where this host does not count that together. */
  readonly cpuMs: () => number | undefined
  /** Removes it. Not before it is empty. */
  readonly close: () => void
}

const CALL = /^call-([0-9]+)-/
const EMPTY_WITHIN_MS = 2_000
const SPIN_MS = 0.3

export class Groups {
  readonly #tree: Tree
  readonly #enter: string
  #made = 0
  /** Those that could not be removed yet. */
  readonly #left = new Set<string>()

  private constructor(tree: Tree, enter: string) {
    this.#tree = tree
    this.#enter = enter
  }

  /** `folder` is for the program that enters groups. The refusal says what is missing. */
  static open(machine: Machine | undefined, folder: string): Result<Groups, string> {
    if (machine === undefined) return err('no program that enters cgroups is known for this machine')
    const tree = delegated()
    if (!tree.ok) return tree
    try {
      const enter = join(folder, `enter-${tree.value.version}`)
      writeProgram(enter, enterProgram(machine, tree.value.version))
      if (tree.value.version === 'v2') makeRoom(tree.value.all)
      removeLeftOvers(tree.value)
      const groups = new Groups(tree.value, enter)
      const fault = groups.fault()
      return fault === undefined ? ok(groups) : err(fault)
    } catch (error) {
      return err(`cgroups can't be used: ${error instanceof Error ? error.message : error}`)
    }
  }

  /** What calls are counted by, as an operator reads it. */
  get told(): string {
    const perProcess = this.#tree.version === 'v1' && this.#tree.cpu === undefined
    return `cgroups ${this.version}${perProcess ? '; CPU time for each process alone: delegate cpuacct too' : ''}`
  }

  get version(): GroupVersion {
    return this.#tree.version
  }

  /** Throws what the system said when no group can be made. */
  make({ memory_bytes, processes }: GroupLimits): Group {
    this.#made += 1
    const name = `call-${process.pid}-${this.#made}`
    const folders = foldersOf(this.#tree).map((folder) => join(folder, name))
    const fds: number[] = []
    const close = (): void => {
      for (const fd of fds.splice(0)) closeSync(fd)
      for (const folder of folders) this.#left.add(folder)
      this.#remove()
    }
    try {
      for (const folder of folders) mkdirSync(folder)
      const [memory = '', pids = memory, cpu = this.version === 'v2' ? memory : undefined] = folders
      const limits = LIMIT_FILES[this.version]
      for (const { file, value, optional } of limits.memory(memory_bytes))
        set(join(memory, file), value, optional)
      set(join(pids, limits.pids), `${processes}`)
      if (this.version === 'v2') fds.push(openSync(memory, 'r'))
      else for (const folder of groupsToEnter(folders)) fds.push(openSync(folder, 'w'))
      return {
        enter: this.#enter,
        fds: [...fds],
        close,
        ...this.#endings(memory, pids),
        cpuMs: () => cpuMsOf(this.version, cpu),
      }
    } catch (error) {
      close()
      throw error
    }
  }

  #endings(memory: string, pids: string): Pick<Group, 'kill' | 'empty' | 'outOfMemory' | 'threads'> {
    const { version } = this.#tree
    const kill = (): void => {
      try {
        if (version === 'v2') set(join(pids, 'cgroup.kill'), '1')
        else {
          set(join(pids, 'pids.max'), '0') // what is being killed has no more children
          killAll(pids)
        }
      } catch {
        // No descriptors left, or no group any more: `empty` tries again, and tells.
      }
    }
    const isEmpty = (): boolean => {
      try {
        return processesIn(pids).length === 0
      } catch (error) {
        return isGone(error) // what can't be read is not known to be empty
      }
    }
    const empty = async (): Promise<boolean> => {
      for (const since = performance.now(); !isEmpty(); ) {
        kill()
        const waited = performance.now() - since
        if (waited > EMPTY_WITHIN_MS) return false
        await (waited < SPIN_MS ? immediate() : sleep(1))
      }
      return true
    }
    const file = join(memory, version === 'v2' ? 'memory.events' : 'memory.oom_control')
    const threads = (): number[] => processesIn(pids, version === 'v2' ? 'cgroup.threads' : 'tasks')
    return {
      kill,
      empty,
      threads,
      outOfMemory: () => Number(/^oom_kill ([0-9]+)$/m.exec(readFileSync(file, 'utf8'))?.[1] ?? 0) > 0,
    }
  }

  /** The kernel may need a moment after the last process; what stays is tried again with the next call. */
  #remove(): void {
    for (const folder of this.#left) {
      try {
        rmdirSync(folder)
        this.#left.delete(folder)
      } catch (error) {
        if (isGone(error)) this.#left.delete(folder)
      }
    }
  }

  /** Whether a process enters a group as it should: what can't be shown is not relied on (L8). */
  fault(): string | undefined {
    let group: Group | undefined
    try {
      group = this.make({ memory_bytes: 64 * 1024 * 1024, processes: 8 })
      const closed = new Array<'ignore'>(FIRST_GROUP_FD - 3).fill('ignore')
      const stdio: ('ignore' | 'pipe' | number)[] = ['ignore', 'pipe', 'pipe', ...closed, ...group.fds]
      const { error, stdout, stderr } = spawnSync(group.enter, ['/bin/cat', '/proc/self/cgroup'], {
        stdio,
        env: {},
        timeout: 5_000,
      })
      const inside = `${stdout}`
        .split('\n')
        .filter((line) => line.endsWith(`/call-${process.pid}-${this.#made}`))
      if (inside.length === foldersOf(this.#tree).length) return undefined
      return `a process did not enter its cgroup: ${error?.message ?? `${stderr}`.trim()}`
    } catch (error) {
      return `no cgroup can be made: ${error instanceof Error ? error.message : error}`
    } finally {
      group?.close()
    }
  }
}

const isGone = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && error.code === 'ENOENT'

const foldersOf = (tree: Tree): string[] =>
  tree.version === 'v2'
    ? [tree.all]
    : [tree.memory, tree.pids, tree.cpu].filter((folder) => folder !== undefined)

/** v1: as many as the program that enters them writes to. */
const groupsToEnter = (folders: readonly string[]): string[] =>
  Array.from({ length: GROUP_FDS }, (_, index) =>
    folders[index] === undefined ? '/dev/null' : join(folders[index], 'tasks'),
  )

/** None where it can't be read at this moment. */
function cpuMsOf(version: GroupVersion, folder: string | undefined): number | undefined {
  if (folder === undefined) return undefined
  try {
    if (version === 'v1') return Number(readFileSync(join(folder, 'cpuacct.usage'), 'utf8')) / 1e6
    return (
      Number(/^usage_usec ([0-9]+)$/m.exec(readFileSync(join(folder, 'cpu.stat'), 'utf8'))?.[1] ?? 0) / 1e3
    )
  } catch {
    return undefined // descriptors may be used up
  }
}

/** A swap limit is there only where the kernel counts swap. */
type Setting = { readonly file: string; readonly value: string; readonly optional?: true }
const LIMIT_FILES: Readonly<
  Record<GroupVersion, { readonly memory: (bytes: number) => readonly Setting[]; readonly pids: string }>
> = {
  v2: {
    memory: (bytes) => [
      { file: 'memory.max', value: `${bytes}` },
      { file: 'memory.swap.max', value: '0', optional: true },
      { file: 'memory.oom.group', value: '1' }, // all of a call or nothing
    ],
    pids: 'pids.max',
  },
  v1: {
    memory: (bytes) => [
      { file: 'memory.limit_in_bytes', value: `${bytes}` },
      { file: 'memory.memsw.limit_in_bytes', value: `${bytes}`, optional: true }, // memory and swap in sum
    ],
    pids: 'pids.max',
  },
}

function set(file: string, value: string, optional = false): void {
  try {
    writeFileSync(file, value, { flag: 'r+' })
  } catch (error) {
    if (!(optional && isGone(error))) throw error
  }
}

function killAll(folder: string): void {
  for (const pid of processesIn(folder)) {
    try {
      process.kill(pid, 'SIGKILL')
    } catch {
      // Gone already: that was the wish.
    }
  }
}

/** v2: processes move into a leaf, then controllers may be handed down. */
function makeRoom(all: string): void {
  mkdirSync(join(all, LEAF), { recursive: true })
  for (const pid of processesIn(all)) set(join(all, LEAF, 'cgroup.procs'), `${pid}`)
  const cpu = readFileSync(join(all, 'cgroup.controllers'), 'utf8').split(/\s/).includes('cpu') ? ' +cpu' : '' // equal shares for all calls
  set(join(all, 'cgroup.subtree_control'), `+memory +pids${cpu}`)
}

/** Of workers that were killed. One that still runs keeps its own. */
function removeLeftOvers(tree: Tree): void {
  for (const folder of foldersOf(tree)) {
    for (const name of readdirSync(folder)) {
      const pid = Number(CALL.exec(name)?.[1])
      if (!(pid > 0) || pid === process.pid || !isOver(pid)) continue
      killAll(join(folder, name))
      try {
        rmdirSync(join(folder, name))
      } catch {
        // Its processes are ending: the next start finds it empty.
      }
    }
  }
}
