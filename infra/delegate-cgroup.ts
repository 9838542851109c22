// Owns the delegation of cgroups to a worker that root starts without systemd: a group that is given to the worker's user,
// and removed when no process is in it any more. Where it can't be done nothing is: the worker says by itself what it lacks. Where
// systemd starts the worker, `Delegate=` does this.

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
/** The namespace of processes that sees those of all others (linux/proc_ns.h, PROC_PID_INIT_INO). */
const FIRST = '4026531836'
/** What whoever rules a group writes to. */
const FILES = ['cgroup.procs', 'cgroup.threads', 'cgroup.subtree_control', 'tasks']
/** Whoever tidies up takes a group that nobody has entered yet for one that was left. */
const TRIES = 3

/** As root: this process moves into a group of its own, which belongs to the user. */
export function delegate(user: { readonly uid: number; readonly gid: number }): void {
  removeDelegated()
  for (let tries = TRIES; tries > 0; tries--) {
    try {
      for (const parent of parents()) enterNew(parent, user)
      return
    } catch {
      // A host that lets nobody do so, as most containers: the worker finds it out, and tells.
    }
  }
}

const ownNamespace = (): string => /[0-9]+/.exec(readlinkSync('/proc/self/ns/pid'))?.[0] ?? ''

/** A number alone would not do: in another namespace of processes it is somebody else's. */
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
 * Removes the groups without processes, and tells of those that could not be removed yet. A worker that lives is in its own. A group of
 * another namespace of processes may look empty from here, so it is left to whoever sees its processes.
 */
export function removeDelegated(): string[] {
  const here = ownNamespace()
  const isSeen = (name: string): boolean => {
    const [named, namespace] = OURS.exec(name) ?? []
    return named !== undefined && (here === FIRST || here === namespace)
  }
  return parents().flatMap((parent) =>
    readdirSync(parent)
      .filter(isSeen)
      .map((name) => join(parent, name))
      .filter((folder) => isEmpty(folder) && !removed(folder)),
  )
}

const within = (folder: string): string[] => {
  try {
    return readdirSync(folder, { withFileTypes: true }).flatMap((entry) =>
      entry.isDirectory() ? [join(folder, entry.name)] : [],
    )
  } catch {
    return [] // somebody else has removed it
  }
}

function isEmpty(folder: string): boolean {
  try {
    return processesIn(folder).length === 0 && within(folder).every(isEmpty)
  } catch {
    return true
  }
}

function removed(folder: string): boolean {
  try {
    for (const inner of within(folder)) removed(inner)
    rmdirSync(folder)
    return true
  } catch {
    return !existsSync(folder)
  }
}

/** Where they are made. v1: our own groups. v2: the top, for a group with processes, as ours is, can't hand controllers down. */
export function parents(): string[] {
  if (process.geteuid?.() !== 0) return []
  const tree = ownTree()
  if (!tree.ok) return []
  if (tree.value.version === 'v1')
    return [tree.value.memory, tree.value.pids, tree.value.cpu].filter((folder) => folder !== undefined)
  let top = tree.value.all
  while (existsSync(join(dirname(top), 'cgroup.procs'))) top = dirname(top)
  return hasControllers(top, 'cgroup.subtree_control') ? [top] : []
}
