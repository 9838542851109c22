// Owns the search for the cgroup that this host has delegated to the worker: its version, its
// folders, and whether our user may make child groups there. It only reads.

import { accessSync, constants, readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { err, ok, type Result } from '../../../shared/result.ts'

/**
 * v2: one folder. v1: a folder for each controller that we use; without cpuacct no CPU time is
 * counted.
 */
export type Tree =
  | { readonly version: 'v2'; readonly all: string }
  | {
      readonly version: 'v1'
      readonly memory: string
      readonly pids: string
      readonly cpu: string | undefined
    }

/**
 * The child group for the worker itself: in v2 a group with processes can't have limited children.
 */
export const LEAF = 'worker'

export const processesIn = (folder: string, file = 'cgroup.procs'): number[] =>
  readFileSync(join(folder, file), 'utf8').split('\n').filter(Boolean).map(Number)

/** Our own group, whether or not our user may change it. */
export function ownTree(): Result<Tree, string> {
  const mounts = mountsOf(readFileSync('/proc/self/mountinfo', 'utf8'))
  const own = readFileSync('/proc/self/cgroup', 'utf8')
  const [memory, pids] = (['memory', 'pids'] as const).map((controller) => folderOf(mounts, own, controller))
  if (memory !== undefined && pids !== undefined)
    return ok({ version: 'v1', memory, pids, cpu: folderOf(mounts, own, 'cpuacct') })
  const all = folderOf(mounts, own, '')
  if (all === undefined)
    return err(
      'this host has no cgroups with the controllers memory and pids: mount cgroup2 at /sys/fs/cgroup',
    )
  // We are in LEAF already if we ran before an exec, or if systemd's DelegateSubgroup set it.
  return ok({ version: 'v2', all: basename(all) === LEAF ? dirname(all) : all })
}

/** Our own group, if our user may make child groups in it; otherwise what to do. */
export function delegated(): Result<Tree, string> {
  const tree = ownTree()
  if (!tree.ok) return tree
  const { value } = tree
  const ours =
    value.version === 'v2'
      ? mayChange(value.all, 'cgroup.subtree_control')
      : [value.memory, value.pids].every((at) => mayChange(at, 'tasks'))
  if (!ours) return err(NOT_DELEGATED)
  if (value.version === 'v1')
    return value.cpu === undefined || mayChange(value.cpu, 'tasks') ? tree : ok({ ...value, cpu: undefined })
  return hasControllers(value.all, 'cgroup.controllers')
    ? tree
    : err(
        'the controllers memory and pids are not delegated to the worker: run it from its systemd unit (`Delegate=cpu memory pids`)',
      )
}

/** v2: whether `file` lists the controllers memory and pids. */
export function hasControllers(
  folder: string,
  file: 'cgroup.controllers' | 'cgroup.subtree_control',
): boolean {
  const named = readFileSync(join(folder, file), 'utf8').trim().split(' ')
  return named.includes('memory') && named.includes('pids')
}

const NOT_DELEGATED =
  'no cgroup is delegated to the worker’s user here: run the worker from its systemd unit (`Delegate=cpu memory pids`), or start the stack as root; `countersign workers show` shows what a running worker has proven'

type Mount = {
  readonly root: string
  readonly at: string
  readonly controllers: readonly string[] | undefined
}

/** Mounts of cgroups. `controllers` is undefined for v2. */
const mountsOf = (mountinfo: string): Mount[] =>
  mountinfo.split('\n').flatMap((line): Mount[] => {
    const [before = '', after = ''] = line.split(' - ')
    const [, , , root = '/', at = ''] = before.split(' ')
    const [type, , options = ''] = after.split(' ')
    if (type === 'cgroup2') return [{ root, at, controllers: undefined }]
    return type === 'cgroup' ? [{ root, at, controllers: options.split(',') }] : []
  })

/** The folder of our own group for a controller, or '' for v2. */
function folderOf(mounts: readonly Mount[], own: string, controller: string): string | undefined {
  const line = own.split('\n').find((entry) => (entry.split(':')[1] ?? '').split(',').includes(controller))
  const mount = mounts.find(({ controllers }) =>
    controller === '' ? controllers === undefined : controllers?.includes(controller),
  )
  if (line === undefined || mount === undefined) return undefined
  const path = line.split(':').slice(2).join(':')
  return join(mount.at, path.startsWith(mount.root) ? path.slice(mount.root.length) : path)
}

/** False for root, who may write everywhere: that is not delegation. */
function mayChange(folder: string, file: string): boolean {
  try {
    for (const path of [folder, join(folder, file)]) accessSync(path, constants.W_OK)
    return process.geteuid?.() !== 0
  } catch {
    return false
  }
}
