// `countersign restore`: puts a backup into the state folder, for the next start of the edge. The
// objects appear by one rename, together with the mark by which the edge ends every call that had not
// ended at the backup, so nothing runs twice.

import {
  constants,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
} from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { edgeKeys } from '../../shared/evidence/key-ring.ts'
import { LIMITS } from '../../shared/limits.ts'
import { err, ok, type Result } from '../../shared/result.ts'
import { RESTORE_FILE, Restore, RollbackReason } from '../../shared/wire/restore.ts'
import type { CommandOutput, Trouble } from '../shell/command.ts'
import { command, trouble } from '../shell/command.ts'
import { reason } from '../shell/files.ts'
import { parseInput } from '../shell/json-input.ts'
import { columns, inline, time } from '../shell/terminal-text.ts'
import { type Installation, openInstallation, ownVersion, whoServes } from './installation.ts'
import { MANIFEST_FILE, type Manifest, newer, readManifest } from './manifest.ts'
import {
  databasesIn,
  headOf,
  journalledRestores,
  logsIn,
  summarise,
  syncDisk,
  writeDurably,
} from './object-files.ts'

export const restore = command({
  words: ['restore'],
  args: { DIR: 'the folder of the backup' },
  flags: {
    replace: { what: 'replace the storage that the state folder has; the old one is kept beside it' },
    'accept-rollback': {
      value: 'REASON',
      what: 'restore although the log may become shorter than heads that others have seen; the reason is journalled',
    },
  },
  does: 'Restore a backup into the state folder of this host; the edge must be stopped',
  key: 'offline',
  examples: [
    "COUNTERSIGN_STATE=/var/lib/countersign countersign restore /backups/2026-11-20 --accept-rollback 'the disk failed'",
  ],
  run: async ({ args: { DIR }, flags }) => {
    const given = flags['accept-rollback']
    const rollback = given === undefined ? ok(null) : parseInput(RollbackReason, given, 'the reason')
    if (!rollback.ok) return rollback
    const installation = openInstallation()
    if (!installation.ok) return installation
    return restoreFrom(resolve(DIR), installation.value, {
      replace: flags.replace,
      rollback: rollback.value,
    })
  },
})

type Terms = { readonly replace: boolean; readonly rollback: string | null }

function restoreFrom(
  backup: string,
  installation: Installation,
  terms: Terms,
): Result<CommandOutput, Trouble> {
  const read = readManifest(join(backup, MANIFEST_FILE), edgeKeys(installation.ring))
  if (!read.ok) return read
  const manifest = read.value
  const { objects } = installation
  const refusal = versionRefusal(manifest) ?? placeRefusal(installation, terms)
  if (refusal !== undefined) return err(refusal)
  // While it exists, `npm start` refuses: the storage may have been moved away already.
  const draft = `${objects}.restoring`
  rmSync(draft, { recursive: true, force: true })
  try {
    return putInPlace(join(backup, 'objects'), draft, manifest, installation, terms)
  } catch (thrown) {
    return err(
      trouble(
        'restore_failed',
        `the backup could not be restored: ${reason(thrown)}`,
        'correct this and run the command again',
      ),
    )
  } finally {
    rmSync(draft, { recursive: true, force: true })
  }
}

function putInPlace(
  from: string,
  draft: string,
  manifest: Manifest,
  installation: Installation,
  terms: Terms,
): Result<CommandOutput, Trouble> {
  const { objects } = installation
  mkdirSync(draft, { recursive: true, mode: 0o700 })
  const unfit = copyRefusal(from, draft, manifest) ?? rollbackRefusal(objects, draft, terms)
  if (unfit !== undefined) return err(unfit)
  const earlier = unjournalled(objects, draft)
  if (earlier.length > LIMITS.restores_unjournalled)
    return err(
      trouble(
        'too_many_restores',
        `${earlier.length} restores have a reason that no edge has journalled yet`,
        'start the edge once, so that its journal has them, and run it again',
      ),
    )
  const mark: Restore = {
    restores: manifest.restores + 1,
    cut_at_ms: manifest.cut_at_ms,
    restored_at_ms: Date.now(),
    rollback: terms.rollback,
    earlier,
  }
  writeDurably(join(draft, RESTORE_FILE), `${JSON.stringify(mark)}\n`)
  const late = placeRefusal(installation, terms)
  if (late !== undefined) return err(late)
  const kept =
    existsSync(objects) && databasesIn(objects).length > 0
      ? `${objects}.replaced-${mark.restored_at_ms}`
      : null
  // A unit starts with the configuration that was rendered before, which does not have the mark.
  rmSync(join(dirname(objects), 'config.capnp'), { force: true })
  if (kept !== null) renameSync(objects, kept)
  try {
    renameSync(draft, objects)
  } catch (thrown) {
    if (kept !== null) renameSync(kept, objects)
    throw thrown
  }
  syncDisk(objects)
  return ok(outputOf(manifest, kept))
}

/** Its storage may have columns, and meanings of columns, that this version does not know. */
function versionRefusal({ version, migrations }: Manifest): Trouble | undefined {
  const known = new Set(ownVersion().migrations)
  const unknown = migrations.find((name) => !known.has(name))
  return unknown === undefined ? undefined : newer(`the migration \`${unknown}\` of version ${version}`)
}

function placeRefusal(installation: Installation, { replace }: Terms): Trouble | undefined {
  const { objects } = installation
  const server = whoServes(installation)
  if (server !== undefined)
    return trouble('edge_running', `${server} runs on \`${installation.dir}\``, 'stop it first')
  if (replace || !existsSync(objects) || readdirSync(objects).length === 0) return undefined
  return trouble(
    'not_empty',
    `\`${objects}\` already has storage`,
    'add `--replace` if the backup should replace it',
  )
}

/** Copies what the manifest lists, and nothing else. */
function copyRefusal(from: string, to: string, { files }: Manifest): Trouble | undefined {
  for (const { path, bytes, sha256 } of files) {
    const copy = join(to, path)
    mkdirSync(dirname(copy), { recursive: true, mode: 0o700 })
    copyFileSync(join(from, path), copy, constants.COPYFILE_FICLONE)
    const found = summarise(copy)
    if (found.bytes !== bytes || found.sha256 !== sha256)
      return trouble('damaged', `the backup is damaged: \`${path}\` was changed`, 'use another backup')
  }
  return undefined
}

/**
 * The restores before this one whose reasons the restored storage does not have, because no edge has
 * served them, or only after this backup was taken.
 */
function unjournalled(objects: string, draft: string): Restore['earlier'] {
  const path = join(objects, RESTORE_FILE)
  if (!existsSync(path)) return []
  const { earlier, ...last } = Restore.parse(JSON.parse(readFileSync(path, 'utf8')))
  const journalled = journalledRestores(draft)
  return [...earlier, last].filter(
    ({ rollback, restored_at_ms }) => rollback !== null && !journalled.has(restored_at_ms),
  )
}

/**
 * The heads that others have seen are unknown, except through storage that is about to be replaced:
 * it has every head that was ever published from it.
 */
function rollbackRefusal(objects: string, draft: string, { rollback }: Terms): Trouble | undefined {
  if (rollback !== null) return undefined
  const todo = 'if the loss can’t be avoided, add `--accept-rollback REASON`, and tell the auditors'
  const logs = logsIn(objects)
  if (logs.length === 0)
    return trouble(
      'rollback',
      'nothing here shows which heads of the log others have seen, so the log may become shorter than those',
      todo,
    )
  for (const path of logs) {
    const last = headOf(join(objects, path))
    const own = existsSync(join(draft, path)) ? headOf(join(draft, path), last.size) : { size: 0, root: '' }
    if (own.root !== last.root)
      return trouble(
        'rollback',
        `a log has ${last.size} leaves, and the backup has ${own.size} of them`,
        todo,
      )
  }
  return undefined
}

function outputOf({ cut_at_ms, files }: Manifest, kept: string | null): CommandOutput {
  const rows = [
    ['restored', `${files.length} objects as of ${time(cut_at_ms)}`],
    ...(kept === null ? [] : [['replaced', inline(kept)]]),
  ]
  return {
    ok: true,
    json: { cut_at_ms, files: files.length, replaced: kept },
    text: `${columns(rows)}\nCalls that had not ended then will end as indeterminate. Before agents continue, revoke again what was revoked since (docs/operations.md).\n`,
  }
}
