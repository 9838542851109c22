// Owns the change from root to an unprivileged user, for the worker and for tests that attack as it would. That user may not be able to
// reach a folder that we can (a clone below a 0700 home), so the folders it needs are bound at a fixed place, in a mount namespace that
// vanishes with the process. It decides nothing about what runs then. The stage is a tmpfs that only it sees; of its cgroup, see
// delegate.ts.

import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, readlinkSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import process from 'node:process'
import { delegate } from './delegate-cgroup.ts'

export type User = { readonly uid: number; readonly gid: number }

const UNSHARE = '/usr/bin/unshare'
const SETPRIV = '/usr/bin/setpriv'
const MOUNT = '/usr/bin/mount'
/** A folder that every Linux has and no server uses. */
const STAGE = '/media'

/**
 * The argv that runs a command as `user`. `command` is told where each of `folders` is for that user. The process keeps one pid through all
 * its changes, so signals reach it. Without root nothing changes: we are that user, and the folders are where they are.
 */
export function asWorker<Name extends string>(
  user: User,
  folders: Readonly<Record<Name, string>>,
  command: (at: Readonly<Record<Name, string>>) => readonly string[],
): string[] {
  return started(user, folders, command, true)
}

/** The same without a cgroup of its own: as on a host that delegates none. */
export const asWorkerAlone: typeof asWorker = (user, folders, command) =>
  started(user, folders, command, false)

function started<Name extends string>(
  user: User,
  folders: Readonly<Record<Name, string>>,
  command: (at: Readonly<Record<Name, string>>) => readonly string[],
  delegated: boolean,
): string[] {
  if (process.geteuid?.() !== 0) return [...command(folders)]
  const names = Object.keys(folders) as Name[] // the keys of a record of Name
  const staged = Object.fromEntries(names.map((name) => [name, join(STAGE, name)])) as Record<Name, string> // one for each Name
  const binds = names.map((name) => [folders[name], staged[name]] as const)
  const enter = JSON.stringify({ user, binds, delegated, argv: command(staged) } satisfies Entry)
  return [UNSHARE, '--mount', '--', process.execPath, import.meta.filename, enter]
}

/** Runs as root in the new mount namespace, and becomes the command. */
type Entry = {
  readonly user: User
  readonly binds: readonly (readonly [string, string])[]
  readonly delegated: boolean
  readonly argv: readonly string[]
}

function enter({ user, binds, delegated, argv }: Entry): void {
  execFileSync(MOUNT, ['-t', 'tmpfs', '-o', 'mode=0755,size=1m,nosuid,nodev', 'countersign', STAGE])
  for (const [from, to] of binds) {
    if (opensTo(from, user)) bindFolder(from, to)
    else bindEntries(from, to)
  }
  if (delegated) delegate(user)
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
  process.execve?.(SETPRIV, [SETPRIV, ...drop, '--', ...argv])
}

function opensTo(folder: string, { uid }: User): boolean {
  const { mode, uid: owner } = statSync(folder)
  return owner === uid || (mode & 0o005) === 0o005
}

function bindFolder(from: string, to: string): void {
  mkdirSync(to)
  execFileSync(MOUNT, ['--bind', '--', from, to])
}

/** A folder that is closed itself (a clone in what `mktemp -d` made) is opened by making it anew, with the same things in it. */
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
  const [told] = process.argv.slice(2)
  if (told === undefined) throw new Error('this is started by `asWorker`, not by hand')
  enter(JSON.parse(told)) // written by `asWorker`
}
