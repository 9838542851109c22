// The installation in the state folder of this host: where its objects are, its signing key, and the
// processes that serve it.

import { existsSync, globSync, readFileSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { parseJson } from '../../shared/bytes/json.ts'
import { type KeyRing, readKeyRing } from '../../shared/evidence/key-ring.ts'
import { err, ok, type Result } from '../../shared/result.ts'
import type { Trouble } from '../shell/command.ts'
import { trouble } from '../shell/command.ts'
import { stateFolder } from '../shell/config.ts'
import { readBytes } from '../shell/files.ts'

const SECRETS_BYTES = 64 * 1024
/** O_WRONLY and O_RDWR in the flags of an open file. */
const WRITABLE = 0o3

export type Installation = { readonly dir: string; readonly objects: string; readonly ring: KeyRing }

/** `secrets.json` says which installation this is. It is not in a backup. */
export function openInstallation(): Result<Installation, Trouble> {
  const dir = stateFolder()
  const path = join(dir, 'secrets.json')
  const bytes = readBytes(path, SECRETS_BYTES)
  if (!bytes.ok)
    return err(
      trouble(
        'no_secrets',
        bytes.error.detail,
        'set COUNTERSIGN_STATE to the state folder, run this as the user who can read it, and for a restore first put the installation’s `secrets.json` there',
      ),
    )
  const secrets = parseJson(bytes.value)
  const { edge } = (secrets.ok ? secrets.value : {}) as { edge?: unknown } // read in the next line
  const ring = readKeyRing(edge)
  return ring.ok
    ? ok({ dir, objects: join(dir, 'edge/objects'), ring: ring.value })
    : err(
        trouble(
          'no_secrets',
          `\`${path}\` has no signing key: ${ring.error}`,
          'put the `secrets.json` of this installation there',
        ),
      )
}

/** The version of the product on this host: its number, and the migrations that it knows. */
export function ownVersion(): { readonly version: string; readonly migrations: string[] } {
  const root = dirname(dirname(import.meta.dirname))
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string }
  return { version, migrations: globSync('*/*.sql', { cwd: join(root, 'migrations') }).sort() }
}

/**
 * The processes that can write the objects. workerd has the list of alarms of each class of objects
 * open while it runs. Files are compared by device and inode, because a container may have mounted
 * them elsewhere.
 */
export function writersOf(objects: string): number[] {
  const lists = new Set(
    globSync('*/metadata.sqlite', { cwd: objects }).map((path) => fileId(join(objects, path))),
  )
  if (lists.size === 0) return []
  const open = globSync('/proc/[0-9]*/fd/*').filter((fd) => lists.has(fileId(fd)) && isWritable(fd))
  return [...new Set(open.map((fd) => Number(fd.split('/')[2])))].filter((pid) => pid !== process.pid)
}

function fileId(path: string): string {
  try {
    const { dev, ino } = statSync(path)
    return `${dev}:${ino}`
  } catch {
    return '' // closed in the meantime, or of another user, who can't open our files
  }
}

function isWritable(fd: string): boolean {
  try {
    const [, flags = '0'] =
      /^flags:\s+(\d+)/m.exec(readFileSync(fd.replace('/fd/', '/fdinfo/'), 'latin1')) ?? []
    return (Number.parseInt(flags, 8) & WRITABLE) !== 0
  } catch {
    return false // it was closed in the meantime
  }
}

/** Why nothing may replace the objects now. `lock` has the pid of a running `npm start`. */
export function whoServes({ dir, objects }: Installation): string | undefined {
  const lock = join(dir, 'lock')
  const [starter = ''] = existsSync(lock) ? readFileSync(lock, 'utf8').split(' ') : []
  if (/^\d+$/.test(starter) && existsSync(`/proc/${starter}`)) return `\`npm start\` (pid ${starter})`
  const [writer] = writersOf(objects)
  return writer === undefined ? undefined : `an edge (pid ${writer})`
}
