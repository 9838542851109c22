// Owns the cgroups of calls: one for each call, below the worker's own, if this host delegates that
// to the worker's user. A cgroup limits what rlimits can't (memory, processes and CPU time of a
// whole call), ends all processes at once, and shows whether memory ran out. `open` makes a group
// to test this; if it fails it returns why, and only rlimits apply (`C-nocgroup`).

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

/** The cgroup of one call. */
export type Group = {
  /** The program that enters it and then executes the command in its arguments. */
  readonly enter: string
  /** Descriptors for that program, from `FIRST_GROUP_FD` on. */
  readonly fds: readonly number[]
  /** The threads in it now, by the host's numbers. */
  readonly threads: () => readonly number[]
  /**
   * Sends SIGKILL to all its processes, and lets no new one start. Never throws: `empty` repeats a
   * kill that failed.
   */
  readonly kill: () => void
  /** Kills remaining processes and waits. False if one did not end, or the group can't be read. */
  readonly empty: () => Promise<boolean>
  /** Whether the kernel killed one of its processes because memory ran out. */
  readonly outOfMemory: () => boolean
  /**
   * CPU time of all its processes, ended ones too. Undefined if this host does not count it by
   * group.
   */
  readonly cpuMs: () => number | undefined
  /** Removes it, which works once it is empty. */
  readonly close: () => void
}

const CALL = /^call-([0-9]+)-/
const EMPTY_WITHIN_MS = 2_000
const SPIN_MS = 0.3

export class Groups {
  readonly #tree: Tree
  readonly #enter: string
  #made = 0
  /** Folders of groups that could not be removed yet. */
  readonly #unremoved = new Set<string>()

  private constructor(tree: Tree, enter: string) {
    this.#tree = tree
    this.#enter = enter
  }

  /** Writes the program that enters groups to `folder`. The error says what is missing. */
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
      return err(`cgroups can’t be used: ${error instanceof Error ? error.message : error}`)
    }
  }

  /** How calls are counted, for the operator. */
  get description(): string {
    const perProcess = this.#tree.version === 'v1' && this.#tree.cpu === undefined
    return `cgroups ${this.version}${perProcess ? '; CPU time is limited for each process only: delegate cpuacct too' : ''}`
  }

  get version(): GroupVersion {
    return this.#tree.version
  }

  /** Throws the system's error if no group can be made. */
  make({ memory_bytes, processes }: GroupLimits): Group {
    this.#made += 1
    const name = `call-${process.pid}-${this.#made}`
    const folders = foldersOf(this.#tree).map((folder) => join(folder, name))
    const fds: number[] = []
    const close = (): void => {
      for (const fd of fds.splice(0)) closeSync(fd)
      for (const folder of folders) this.#unremoved.add(folder)
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
          set(join(pids, 'pids.max'), '0') // no new children while we kill
          killAll(pids)
        }
      } catch {
        // Descriptors are used up, or the group is gone: `empty` tries again and reports it.
      }
    }
    const isEmpty = (): boolean => {
      try {
        return processesIn(pids).length === 0
      } catch (error) {
        return isGone(error) // a group that we can't read may have processes
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

  /** The kernel may need a moment after the last process ends; the next call tries again. */
  #remove(): void {
    for (const folder of this.#unremoved) {
      try {
        rmdirSync(folder)
        this.#unremoved.delete(folder)
      } catch (error) {
        if (isGone(error)) this.#unremoved.delete(folder)
      }
    }
  }

  /** Starts a process in a group as proof that this works (L8). Returns why it does not. */
  fault(): string | undefined {
    let group: Group | undefined
    try {
      group = this.make({ memory_bytes: 64 * 1024 * 1024, processes: 8 })
      const unused = new Array<'ignore'>(FIRST_GROUP_FD - 3).fill('ignore')
      const stdio: ('ignore' | 'pipe' | number)[] = ['ignore', 'pipe', 'pipe', ...unused, ...group.fds]
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

/** v1: exactly as many files as the program that enters groups writes to. */
const groupsToEnter = (folders: readonly string[]): string[] =>
  Array.from({ length: GROUP_FDS }, (_, index) =>
    folders[index] === undefined ? '/dev/null' : join(folders[index], 'tasks'),
  )

/** Undefined if it can't be read now. */
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

/** `optional`: the file of a swap limit exists only if the kernel counts swap. */
type Setting = { readonly file: string; readonly value: string; readonly optional?: true }
const LIMIT_FILES: Readonly<
  Record<GroupVersion, { readonly memory: (bytes: number) => readonly Setting[]; readonly pids: string }>
> = {
  v2: {
    memory: (bytes) => [
      { file: 'memory.max', value: `${bytes}` },
      { file: 'memory.swap.max', value: '0', optional: true },
      { file: 'memory.oom.group', value: '1' }, // kill all of a call, not one process
    ],
    pids: 'pids.max',
  },
  v1: {
    memory: (bytes) => [
      { file: 'memory.limit_in_bytes', value: `${bytes}` },
      { file: 'memory.memsw.limit_in_bytes', value: `${bytes}`, optional: true }, // the sum of memory and swap
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
      // It has ended already.
    }
  }
}

/** v2: moves processes into a leaf, because only then can children have controllers. */
function makeRoom(all: string): void {
  mkdirSync(join(all, LEAF), { recursive: true })
  for (const pid of processesIn(all)) set(join(all, LEAF, 'cgroup.procs'), `${pid}`)
  // With `cpu` all calls get equal shares of CPU time.
  const cpu = readFileSync(join(all, 'cgroup.controllers'), 'utf8').split(/\s/).includes('cpu') ? ' +cpu' : ''
  set(join(all, 'cgroup.subtree_control'), `+memory +pids${cpu}`)
}

/** Removes groups of workers that were killed. Those of a running worker stay. */
function removeLeftOvers(tree: Tree): void {
  for (const folder of foldersOf(tree)) {
    for (const name of readdirSync(folder)) {
      const pid = Number(CALL.exec(name)?.[1])
      if (!(pid > 0) || pid === process.pid || !isOver(pid)) continue
      killAll(join(folder, name))
      try {
        rmdirSync(join(folder, name))
      } catch {
        // Its processes are still ending: the next start removes it.
      }
    }
  }
}
