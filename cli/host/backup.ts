// `countersign backup`: copies the storage of a self-hosted edge while it runs, as it was at one
// moment, and checks the copy.

import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { edgeSigner } from '../../shared/evidence/key-ring.ts'
import { LIMITS } from '../../shared/limits.ts'
import { err, ok, type Result } from '../../shared/result.ts'
import { RESTORE_FILE, Restore } from '../../shared/wire/restore.ts'
import type { CommandOutput, Trouble } from '../shell/command.ts'
import { command, trouble } from '../shell/command.ts'
import { reason } from '../shell/files.ts'
import { columns, inline, time } from '../shell/terminal-text.ts'
import { type Installation, openInstallation, ownVersion, writersOf } from './installation.ts'
import { MANIFEST_FILE, type Manifest, sealManifest } from './manifest.ts'
import {
  databasesIn,
  finishCopy,
  headOf,
  logsIn,
  ObjectCopies,
  summarise,
  syncDisk,
  writeDurably,
} from './object-files.ts'
import { whileStopped } from './stopped-edge.ts'

const ATTEMPTS = 3
/** Longer than the clock tick of a file system, so that a change shows in the file's times. */
const SETTLE_MS = 250

export const backup = command({
  words: ['backup'],
  args: { DIR: 'a new or empty folder for the backup' },
  flags: {},
  does: 'Back up the storage of the edge on this host, which may be running, without `secrets.json`',
  key: 'offline',
  examples: ['COUNTERSIGN_STATE=/var/lib/countersign countersign backup /backups/2026-11-20'],
  run: async ({ args: { DIR } }) => {
    const installation = openInstallation()
    if (!installation.ok) return installation
    const folder = resolve(DIR)
    const made = makeFolder(folder)
    if (!made.ok) return made
    const done = await backUp(installation.value, folder).catch((thrown: unknown) =>
      err(
        trouble(
          'backup_failed',
          `the backup could not be made: ${reason(thrown)}`,
          'correct this and run the command again',
        ),
      ),
    )
    // A copy without a manifest is not a backup. It is removed, so that nobody takes it for one.
    if (!done.ok) rmSync(join(folder, 'objects'), { recursive: true, force: true })
    return done.ok ? ok(outputOf(folder, done.value)) : done
  },
})

function makeFolder(folder: string): Result<true, Trouble> {
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    if (readdirSync(folder).length > 0)
      return err(trouble('not_empty', `\`${folder}\` is not empty`, 'name a new folder for each backup'))
    chmodSync(folder, 0o700)
    return ok(true)
  } catch (thrown) {
    return err(trouble('unwritable', `\`${folder}\` can't be used: ${reason(thrown)}`))
  }
}

async function backUp(installation: Installation, folder: string): Promise<Result<Taken, Trouble>> {
  const { objects, ring } = installation
  const to = join(folder, 'objects')
  const cut = await copyAtOneMoment(objects, to)
  if (!cut.ok) return cut
  const paths = databasesIn(to)
  if (paths.length === 0)
    return err(
      trouble(
        'no_objects',
        `\`${objects}\` holds no storage of an edge`,
        'set COUNTERSIGN_STATE to the state folder',
      ),
    )
  for (const path of paths) {
    const wrong = finishCopy(join(to, path))
    if (wrong !== undefined)
      return err(
        trouble('damaged', `\`${join(objects, path)}\` is damaged: ${wrong}`, 'restore an earlier backup'),
      )
  }
  const manifest = {
    ...ownVersion(),
    cut_at_ms: cut.value.at,
    restores: restoresOf(objects),
    logs: logsIn(to).map((path) => ({ path, ...headOf(join(to, path)) })),
    files: paths.map((path) => ({ path, ...summarise(join(to, path)) })),
  }
  syncDisk(folder)
  const sealed = sealManifest(manifest, edgeSigner(ring))
  if (sealed.length > LIMITS.backup_manifest_bytes)
    return err(
      trouble(
        'too_many_files',
        'the storage has more files than a backup can list',
        'stop the edge, and copy its state folder whole',
      ),
    )
  writeDurably(join(folder, MANIFEST_FILE), sealed)
  return ok({ manifest, stopped_ms: cut.value.stopped_ms })
}

/** The moment of the copy, and how long the edge was stopped for it. */
type Cut = { readonly at: number; readonly stopped_ms: number }
type Taken = { readonly manifest: Omit<Manifest, 'format'>; readonly stopped_ms: number }

async function copyAtOneMoment(objects: string, to: string): Promise<Result<Cut, Trouble>> {
  const copies = new ObjectCopies(objects, to)
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    // Copies most files while the edge runs, so that it stops only for those that have changed
    // since.
    copies.refresh()
    await sleep(SETTLE_MS)
    copies.refresh()
    const writers = writersOf(objects)
    const now = Date.now()
    const stopped_ms =
      writers.length === 0
        ? copies.refresh() === 0 && 0
        : await whileStopped(writers, (until) =>
            copies.refresh(until) === undefined ? undefined : Date.now() - until + LIMITS.backup_pause_ms,
          )
    const isCut = typeof stopped_ms === 'number' && `${writersOf(objects)}` === `${writers}`
    if (isCut) return ok({ at: now, stopped_ms })
  }
  return err(
    trouble(
      'too_busy',
      'the files changed faster than they could be copied, or the edge could not be stopped for a moment',
      'run it as a user who may stop the edge, when there is less to do; or stop the edge first',
    ),
  )
}

function restoresOf(objects: string): number {
  const path = join(objects, RESTORE_FILE)
  return existsSync(path) ? Restore.parse(JSON.parse(readFileSync(path, 'utf8'))).restores : 0
}

function outputOf(
  folder: string,
  { manifest: { cut_at_ms, files, logs }, stopped_ms }: Taken,
): CommandOutput {
  const bytes = files.reduce((sum, file) => sum + file.bytes, 0)
  const rows = [
    ['backup', inline(folder)],
    ['taken', `${time(cut_at_ms)}; the edge was stopped for ${stopped_ms} ms`],
    ['objects', `${files.length} files, ${bytes} bytes`],
    ['logs', logs.map(({ size }) => `${size} leaves`).join(', ') || 'none'],
  ]
  return {
    ok: true,
    json: {
      folder,
      cut_at_ms,
      stopped_ms,
      files: files.length,
      bytes,
      logs: logs.map(({ size, root }) => ({ size, root })),
    },
    text: `${columns(rows)}\nIt has no keys. Keep \`secrets.json\` elsewhere: nothing can be restored without it.\n`,
  }
}
