// Counts from outside what a worker has on this host: processes, descriptors, mounts, cgroups,
// folders.

import { globSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'

/** Processes that descend from it, without those that have ended already. */
export function descendantsOf(pid: number): number[] {
  const parents = readdirSync('/proc')
    .filter((name) => /^[0-9]+$/.test(name))
    .map((name) => [Number(name), parentOf(name)] as const)
  const found = new Set([pid])
  for (let size = 0; size !== found.size; ) {
    size = found.size
    for (const [child, parent] of parents) if (found.has(parent)) found.add(child)
  }
  return [...found].filter((one) => one !== pid)
}

/** 0 if the process has ended. */
export function parentOf(pid: string): number {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    const [state, parent] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return state === 'Z' ? 0 : Number(parent)
  } catch {
    return 0
  }
}

const commandLine = (pid: number): string => {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'latin1')
  } catch {
    return ''
  }
}
/** The processes that start sandboxes for the worker. */
export const spawnersBelow = (pid: number): number[] =>
  descendantsOf(pid).filter((one) => /^\/usr\/bin\/perl\0.*waitpid/s.test(commandLine(one)))
/** Warm sandboxes that wait. */
export const gatesBelow = (pid: number): number[] =>
  descendantsOf(pid).filter((one) => /^\/usr\/bin\/perl\0.*\$release/s.test(commandLine(one)))

export type Census = Readonly<Record<'processes' | 'descriptors' | 'mounts' | 'cgroups' | 'folders', number>>

/** A stock of pipes comes and goes in batches, so pipes are counted separately. */
export function census(pid: number, folder: string): Census & { readonly pipes: number } {
  const links = readdirSync(`/proc/${pid}/fd`).map((fd) => linkOf(`/proc/${pid}/fd/${fd}`))
  const pipes = links.filter((link) => link.includes('/countersign-pipes-')).length
  return {
    pipes,
    processes: descendantsOf(pid).length,
    descriptors: links.length - pipes,
    mounts: readFileSync(`/proc/${pid}/mountinfo`, 'utf8').split('\n').length,
    cgroups: globSync(`/sys/fs/cgroup/**/call-${pid}-*`).length,
    folders: readdirSync(folder).filter((name) => /^(?:call|relay|inputs)-/.test(name)).length,
  }
}

function linkOf(path: string): string {
  try {
    return readlinkSync(path)
  } catch {
    return '' // it has been closed
  }
}
