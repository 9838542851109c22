// Ends what outlived its worker, at each worker start and at each probe. Tier B: a daemon outlives a
// killed worker; its mark names the worker. Tier C: there should be none (see init.ts); the workspace
// folders of those found are reported. A sandbox is an orphan if its process 1 is ours and the
// bubblewrap that made it is gone. A process is ours if our init
// program is mounted in it, which no tool can undo; before it has its own mounts, bubblewrap's
// command line names that program. Older versions used bubblewrap's init: their sandboxes are
// recognised by their user map (65534 alone, mapped to the worker's user) and their workspace.

import { readdirSync, readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { INIT } from '../kernel/init.ts'
import { WORKSPACE } from '../plan/profiles.ts'
import { endMarked, endSandbox, markOf } from './process-tree.ts'

export type Orphans = {
  /** The number of sandboxes, and of tier B calls, found. */
  readonly found: number
  /** Host process ids of those that could not be ended. */
  readonly alive: readonly number[]
  /** The names of the folders that were their workspaces. */
  readonly folders: ReadonlySet<string>
}

export async function endOrphans(): Promise<Orphans> {
  const names = readdirSync('/proc').filter((name) => /^[0-9]+$/.test(name))
  const [sandboxes, calls] = [names.filter(isOrphanedSandbox), orphanedCalls(names)]
  const folders = sandboxes.map(workspaceOf).filter((folder) => folder !== undefined)
  const survivors = await Promise.all([
    ...sandboxes.map(async (pid) => ((await endSandbox(Number(pid))) ? [] : [Number(pid)])),
    ...[...calls].map(async ([mark, pids]) => ((await endMarked(undefined, mark, 0)) ? [] : pids)),
  ])
  return { found: survivors.length, alive: survivors.flat(), folders: new Set(folders) }
}

/** The processes of tier B calls whose workers are gone, by mark. */
function orphanedCalls(names: readonly string[]): Map<bigint, number[]> {
  const found = new Map<bigint, number[]>()
  for (const name of names) {
    const status = read(`${name}/status`)
    // A process in another PID namespace belongs to a container, and its mark to a worker in there.
    if (field(status, 'NSpid').split(/\s+/).length !== 1 || !isOurs(status)) continue
    const mark = markOf(Number(name))
    if (mark === undefined || isRunningSince(mark.worker, startOf(name))) continue
    found.set(mark.mark, [...(found.get(mark.mark) ?? []), Number(name)])
  }
  return found
}

/** Whether the process `pid` runs and had begun by then. Another that reuses its id began later. */
const isRunningSince = (pid: number, start: number): boolean =>
  !/^[ZX]?$/.test(field(read(`${pid}/status`), 'State').slice(0, 1)) && startOf(`${pid}`) <= start

/** In ticks since the host's start: field 22 of /proc/PID/stat; the name before it may contain anything. */
function startOf(pid: string): number {
  const stat = read(`${pid}/stat`)
  return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19])
}

const isOurs = (status: string): boolean =>
  field(status, 'Uid').split(/\s+/)[0] === `${process.getuid?.()}` && !/^Z/.test(field(status, 'State'))

function isOrphanedSandbox(pid: string): boolean {
  const status = read(`${pid}/status`)
  const numbers = field(status, 'NSpid').split(/\s+/)
  if (numbers.length < 2 || numbers.at(-1) !== '1' || !isOurs(status)) return false
  const mounts = read(`${pid}/mountinfo`)
  const ours =
    mounts.includes(` ${INIT} `) ||
    read(`${pid}/cmdline`).split('\0').includes(INIT) ||
    isOfOlderVersion(pid, mounts)
  const maker = field(status, 'PPid')
  // Process 1 adopts orphans. It may be the bubblewrap of a container in which the worker runs.
  return ours && (maker === '1' || !isBubblewrap(maker))
}

const isOfOlderVersion = (pid: string, mounts: string): boolean =>
  mounts.includes(` ${WORKSPACE} `) && /^\s*65534\s+[0-9]+\s+1\s*$/.test(read(`${pid}/uid_map`))

const isBubblewrap = (pid: string): boolean => {
  const status = read(`${pid}/status`)
  return field(status, 'Name') === 'bwrap' && !/^Z/.test(field(status, 'State'))
}

/**
 * The fourth field of a line is the folder's path on its disk, the fifth where it is mounted
 * (proc(5)).
 */
function workspaceOf(pid: string): string | undefined {
  const mounts = read(`${pid}/mountinfo`).split('\n')
  const path = mounts.map((line) => line.split(' ')).find(([, , , , at]) => at === WORKSPACE)?.[3]
  return path === undefined || path === '/' ? undefined : basename(path)
}

const field = (status: string, name: string): string =>
  new RegExp(`^${name}:\\s*(.*)$`, 'm').exec(status)?.[1] ?? ''

/** Empty for a process that has ended, and for one that is not ours. */
function read(path: string): string {
  try {
    return readFileSync(`/proc/${path}`, 'latin1')
  } catch {
    return ''
  }
}
