// Ends sandboxes that outlived their worker, at each worker start and at each probe. There should
// be none (see init.ts); the workspace folders of those found are reported. A sandbox is an orphan
// if its process 1 is ours and the bubblewrap that made it is gone. A process is ours if our init
// program is mounted in it, which no tool can undo; before it has its own mounts, bubblewrap's
// command line names that program. Older versions used bubblewrap's init: their sandboxes are
// recognised by their user map (65534 alone, mapped to the worker's user) and their workspace.

import { readdirSync, readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { INIT } from '../kernel/init.ts'
import { WORKSPACE } from '../plan/profiles.ts'
import { endSandbox } from './process-tree.ts'

export type Orphans = {
  /** The number of orphans found. */
  readonly found: number
  /** Host process ids of the sandboxes that could not be ended. */
  readonly alive: readonly number[]
  /** The names of the folders that were their workspaces. */
  readonly folders: ReadonlySet<string>
}

export async function endOrphans(): Promise<Orphans> {
  const found = readdirSync('/proc')
    .filter((name) => /^[0-9]+$/.test(name) && isOrphan(name))
    .map((name) => ({ pid: Number(name), folder: workspaceOf(name) }))
  const ended = await Promise.all(found.map(({ pid }) => endSandbox(pid)))
  return {
    found: found.length,
    alive: found.filter((_, index) => ended[index] !== true).map(({ pid }) => pid),
    folders: new Set(found.flatMap(({ folder }) => (folder === undefined ? [] : [folder]))),
  }
}

function isOrphan(pid: string): boolean {
  const status = read(`${pid}/status`)
  const numbers = field(status, 'NSpid').split(/\s+/)
  if (numbers.length < 2 || numbers.at(-1) !== '1' || /^Z/.test(field(status, 'State'))) return false
  if (field(status, 'Uid').split(/\s+/)[0] !== `${process.getuid?.()}`) return false
  const mounts = read(`${pid}/mountinfo`)
  const ours =
    mounts.includes(` ${INIT} `) ||
    read(`${pid}/cmdline`).split('\0').includes(INIT) ||
    isOfOlderVersion(pid, mounts)
  return ours && !isBubblewrap(field(status, 'PPid'))
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
