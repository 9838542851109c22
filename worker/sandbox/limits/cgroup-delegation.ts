// Owns the search for the cgroups that this host has delegated to the worker: which version, where, and whether our user may make others
// below. It reads and changes nothing.

import { accessSync, constants, readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { err, ok, type Result } from '../../../shared/result.ts'

/** v2: one folder for everything. v1: one for each controller that we use; CPU time is counted where its own is there too. */
export type Tree =
  | { readonly version: 'v2'; readonly all: string }
  | {
      readonly version: 'v1'
      readonly memory: string
      readonly pids: string
      readonly cpu: string | undefined
    }

/** Where the worker itself stays: a group of v2 that has processes can't have limited children. */
export const LEAF = 'worker'

export const processesIn = (folder: string, file = 'cgroup.procs'): number[] =>
  readFileSync(join(folder, file), 'utf8').split('\n').filter(Boolean).map(Number)

/** Our own group, whoever may change it. */
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
  // Set up before us: by ourselves before an exec, or by systemd's DelegateSubgroup.
  return ok({ version: 'v2', all: basename(all) === LEAF ? dirname(all) : all })
}

/** What was delegated to us: our own group, if our user may make others below it. */
export function delegated(): Result<Tree, string> {
  const tree = ownTree()
  if (!tree.ok) return tree
  const { value } = tree
  const ours =
    value.version === 'v2'
      ? mayChange(value.all, 'cgroup.subtree_control')
      : [value.memory, value.pids].every((at) => mayChange(at, 'tasks'))
  if (!ours) return err(NOT_OURS)
  if (value.version === 'v1')
    return value.cpu === undefined || mayChange(value.cpu, 'tasks') ? tree : ok({ ...value, cpu: undefined })
  return hasControllers(value.all, 'cgroup.controllers')
    ? tree
    : err(
        'the controllers memory and pids are not delegated to the worker: run it from its systemd unit (`Delegate=cpu memory pids`)',
      )
}

/** v2: whether memory and pids are named in one of the two files that list controllers. */
export function hasControllers(
  folder: string,
  file: 'cgroup.controllers' | 'cgroup.subtree_control',
): boolean {
  const named = readFileSync(join(folder, file), 'utf8').trim().split(' ')
  return named.includes('memory') && named.includes('pids')
}

const NOT_OURS =
  'no cgroup is delegated to the worker’s user here: its systemd unit has one (`Delegate=cpu memory pids`; `countersign workers show` tells what the worker in it has proven), and the stack that root starts'

type Mount = {
  readonly root: string
  readonly at: string
  readonly controllers: readonly string[] | undefined
}

/** Mounts of cgroups: v1's name their controllers, v2's is told by `undefined`. */
const mountsOf = (mountinfo: string): Mount[] =>
  mountinfo.split('\n').flatMap((line): Mount[] => {
    const [before = '', after = ''] = line.split(' - ')
    const [, , , root = '/', at = ''] = before.split(' ')
    const [type, , options = ''] = after.split(' ')
    if (type === 'cgroup2') return [{ root, at, controllers: undefined }]
    return type === 'cgroup' ? [{ root, at, controllers: options.split(',') }] : []
  })

/** Our own group of a controller, '' for v2's, as a folder. */
function folderOf(mounts: readonly Mount[], own: string, controller: string): string | undefined {
  const line = own.split('\n').find((entry) => (entry.split(':')[1] ?? '').split(',').includes(controller))
  const mount = mounts.find(({ controllers }) =>
    controller === '' ? controllers === undefined : controllers?.includes(controller),
  )
  if (line === undefined || mount === undefined) return undefined
  const path = line.split(':').slice(2).join(':')
  return join(mount.at, path.startsWith(mount.root) ? path.slice(mount.root.length) : path)
}

/** Root may everywhere, and is delegated nothing. */
function mayChange(folder: string, file: string): boolean {
  try {
    for (const path of [folder, join(folder, file)]) accessSync(path, constants.W_OK)
    return process.geteuid?.() !== 0
  } catch {
    return false
  }
}
