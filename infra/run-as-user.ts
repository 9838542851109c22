// Owns the change from root to an unprivileged user, for the worker and for tests that attack as
// the worker's user. That user may not reach folders that root can (a clone in a 0700 home), so
// they are bind-mounted on a private tmpfs, in a mount namespace that ends with the process.

import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, readlinkSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import process from 'node:process'
import { delegateCgroup } from './delegate-cgroup.ts'

export type User = { readonly uid: number; readonly gid: number }

const UNSHARE = '/usr/bin/unshare'
const SETPRIV = '/usr/bin/setpriv'
const MOUNT = '/usr/bin/mount'
const ENV = '/usr/bin/env'
/** Root's compile cache. Without it half of the start of this file is its compilation. */
const COMPILED = join(import.meta.dirname, '../node_modules/.cache/countersign/compiled')
/** The mount point of the tmpfs: a folder that every Linux has and no server uses. */
const STAGE = '/media'

/**
 * The argv that runs a command as `user`. `command` gets the paths under which that user sees
 * `folders`. The process keeps its pid, so signals reach it. Without root, we already are that user
 * and the folders keep their paths.
 */
export function asWorker<Name extends string>(
  user: User,
  folders: Readonly<Record<Name, string>>,
  command: (at: Readonly<Record<Name, string>>) => readonly string[],
): string[] {
  return argvFor(user, folders, command, true)
}

/** The same without a delegated cgroup, as on a host that delegates none. */
export const asWorkerAlone: typeof asWorker = (user, folders, command) =>
  argvFor(user, folders, command, false)

function argvFor<Name extends string>(
  user: User,
  folders: Readonly<Record<Name, string>>,
  command: (at: Readonly<Record<Name, string>>) => readonly string[],
  delegated: boolean,
): string[] {
  if (process.geteuid?.() !== 0) return [...command(folders)]
  const names = Object.keys(folders) as Name[] // the keys of a record of Name
  const staged = Object.fromEntries(names.map((name) => [name, join(STAGE, name)])) as Record<Name, string> // one for each Name
  const binds = names.map((name) => [folders[name], staged[name]] as const)
  const enter = JSON.stringify({ user, binds, delegated, argv: command(staged) } satisfies EntryPlan)
  const node = [ENV, `NODE_COMPILE_CACHE=${COMPILED}`, process.execPath]
  return [UNSHARE, '--mount', '--', ...node, import.meta.filename, enter]
}

/**
 * The steps that the process in the new mount namespace takes, still as root, before it becomes the
 * command.
 */
type EntryPlan = {
  readonly user: User
  readonly binds: readonly (readonly [string, string])[]
  readonly delegated: boolean
  readonly argv: readonly string[]
}

function enter({ user, binds, delegated, argv }: EntryPlan): void {
  execFileSync(MOUNT, ['-t', 'tmpfs', '-o', 'mode=0755,size=1m,nosuid,nodev', 'countersign', STAGE])
  for (const [from, to] of binds) {
    if (canEnter(from, user)) bindFolder(from, to)
    else bindEntries(from, to)
  }
  if (delegated) delegateCgroup(user)
  const drop = [
    '--reuid',
    `${user.uid}`,
    '--regid',
    `${user.gid}`,
    '--clear-groups',
    '--bounding-set=-all',
    '--no-new-privs',
  ]
  process.chdir('/')
  const { NODE_COMPILE_CACHE: _, ...env } = process.env // root's, which the user can't write
  process.execve?.(SETPRIV, [SETPRIV, ...drop, '--', ...argv], env as Record<string, string>) // without undefined values
}

function canEnter(folder: string, { uid }: User): boolean {
  const { mode, uid: owner } = statSync(folder)
  return owner === uid || (mode & 0o005) === 0o005
}

function bindFolder(from: string, to: string): void {
  mkdirSync(to)
  execFileSync(MOUNT, ['--bind', '--', from, to])
}

/**
 * For a folder that is itself closed to the user (a clone made by `mktemp -d`): makes an open one
 * with the same entries.
 */
function bindEntries(from: string, to: string): void {
  mkdirSync(to)
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    const [source, target] = [join(from, entry.name), join(to, entry.name)]
    if (entry.isDirectory()) bindFolder(source, target)
    else if (entry.isSymbolicLink()) symlinkSync(readlinkSync(source), target)
    else if (entry.isFile()) {
      writeFileSync(target, '')
      execFileSync(MOUNT, ['--bind', '--', source, target])
    }
  }
}

if (import.meta.main) {
  const [entry] = process.argv.slice(2)
  if (entry === undefined) throw new Error('only `asWorker` may start this file; it is not a command')
  enter(JSON.parse(entry)) // written by `asWorker`
}
