// Owns the delegation of cgroups to a worker that root starts without systemd: a group named after the process, given to the worker's user,
// and removed when that process is gone. Where it can't be done nothing is: the worker says by itself what it lacks. Where systemd starts
// the worker, `Delegate=` does this.

import { chownSync, existsSync, mkdirSync, readdirSync, rmdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import process from 'node:process'
import { hasControllers, ownTree } from '../worker/sandbox/delegation.ts'

const OURS = /^countersign-([0-9]+)$/
/** What whoever rules a group writes to. */
const FILES = ['cgroup.procs', 'cgroup.threads', 'cgroup.subtree_control', 'tasks']

/** As root: this process moves into a group of its own, which belongs to the user. */
export function delegate({ uid, gid }: { readonly uid: number; readonly gid: number }): void {
  removeDelegated()
  try {
    for (const folder of parents().map((parent) => join(parent, `countersign-${process.pid}`))) {
      mkdirSync(folder)
      for (const path of [folder, ...FILES.map((file) => join(folder, file))]) if (existsSync(path)) chownSync(path, uid, gid)
      writeFileSync(join(folder, 'cgroup.procs'), `${process.pid}`)
    }
  } catch {
    // A host that lets nobody do so, as most containers: the worker finds it out, and tells.
  }
}

/** Removes the groups of processes that are gone, and tells of those that could not be removed yet. */
export function removeDelegated(): string[] {
  return parents().flatMap((parent) =>
    readdirSync(parent)
      .filter((name) => OURS.test(name) && !existsSync(`/proc/${OURS.exec(name)?.[1]}`))
      .map((name) => join(parent, name))
      .filter((folder) => !removed(folder)),
  )
}

function removed(folder: string): boolean {
  try {
    for (const entry of readdirSync(folder, { withFileTypes: true })) if (entry.isDirectory()) removed(join(folder, entry.name))
    rmdirSync(folder)
    return true
  } catch {
    return !existsSync(folder)
  }
}

/** v1: our own groups. v2: the top, for a group with processes, as ours is, can't hand controllers down. */
function parents(): string[] {
  if (process.geteuid?.() !== 0) return []
  const tree = ownTree()
  if (!tree.ok) return []
  if (tree.value.version === 'v1') return [tree.value.memory, tree.value.pids]
  let top = tree.value.all
  while (existsSync(join(dirname(top), 'cgroup.procs'))) top = dirname(top)
  return hasControllers(top, 'cgroup.subtree_control') ? [top] : []
}
