// Delegates a cgroup to a worker that root starts without systemd (with systemd, `Delegate=` does
// it): makes a group owned by the worker's user, and removes groups that have no process left. If
// that is impossible it does nothing, and the worker itself reports what it lacks.

import { randomBytes } from 'node:crypto'
import {
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readlinkSync,
  rmdirSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import process from 'node:process'
import { hasControllers, ownTree, processesIn } from '../worker/sandbox/limits/cgroup-delegation.ts'

const OURS = /^countersign-[0-9]+-[0-9a-f]{8}(?:-([0-9]+))?$/
/** The initial PID namespace, which sees all processes (linux/proc_ns.h, PROC_PID_INIT_INO). */
const INITIAL_PID_NAMESPACE = '4026531836'
/** The files of a group that its owner must be able to write. */
const FILES = ['cgroup.procs', 'cgroup.threads', 'cgroup.subtree_control', 'tasks']
/**
 * Another process that tidies up may remove a group before anybody has entered it, so try again.
 */
const TRIES = 3

/** Run as root: moves this process into a new group that belongs to the user. */
export function delegateCgroup(user: { readonly uid: number; readonly gid: number }): void {
  removeEmptyCgroups()
  for (let tries = TRIES; tries > 0; tries--) {
    try {
      for (const parent of parentCgroups()) enterNew(parent, user)
      return
    } catch {
      // The host does not permit it, as in most containers; the worker finds out and reports it.
    }
  }
}

const ownNamespace = (): string => /[0-9]+/.exec(readlinkSync('/proc/self/ns/pid'))?.[0] ?? ''

/**
 * The name holds the PID namespace, because the same pid in another namespace is another process.
 */
function enterNew(parent: string, { uid, gid }: { readonly uid: number; readonly gid: number }): void {
  const folder = join(
    parent,
    `countersign-${process.pid}-${randomBytes(4).toString('hex')}-${ownNamespace()}`,
  )
  mkdirSync(folder)
  for (const path of [folder, ...FILES.map((file) => join(folder, file))])
    if (existsSync(path)) chownSync(path, uid, gid)
  writeFileSync(join(folder, 'cgroup.procs'), `${process.pid}`)
}

/**
 * Removes our groups without processes and returns those that could not be removed yet. A group of
 * another PID namespace may only look empty from here, so it is skipped.
 */
export function removeEmptyCgroups(): string[] {
  const here = ownNamespace()
  const isSeen = (name: string): boolean => {
    const [named, namespace] = OURS.exec(name) ?? []
    return named !== undefined && (here === INITIAL_PID_NAMESPACE || here === namespace)
  }
  return parentCgroups().flatMap((parent) =>
    readdirSync(parent)
      .filter(isSeen)
      .map((name) => join(parent, name))
      .filter((folder) => isEmpty(folder) && !removed(folder)),
  )
}

const childGroups = (folder: string): string[] => {
  try {
    return readdirSync(folder, { withFileTypes: true }).flatMap((entry) =>
      entry.isDirectory() ? [join(folder, entry.name)] : [],
    )
  } catch {
    return [] // another process has removed it
  }
}

function isEmpty(folder: string): boolean {
  try {
    return processesIn(folder).length === 0 && childGroups(folder).every(isEmpty)
  } catch {
    return true
  }
}

function removed(folder: string): boolean {
  try {
    for (const inner of childGroups(folder)) removed(inner)
    rmdirSync(folder)
    return true
  } catch {
    return !existsSync(folder)
  }
}

/**
 * The parents of new groups. v1: our own groups. v2: the top group, because a group with processes
 * can't delegate controllers.
 */
export function parentCgroups(): string[] {
  if (process.geteuid?.() !== 0) return []
  const tree = ownTree()
  if (!tree.ok) return []
  if (tree.value.version === 'v1')
    return [tree.value.memory, tree.value.pids, tree.value.cpu].filter((folder) => folder !== undefined)
  let top = tree.value.all
  while (existsSync(join(dirname(top), 'cgroup.procs'))) top = dirname(top)
  return hasControllers(top, 'cgroup.subtree_control') ? [top] : []
}
