// Local files that commands read and write. Reads are bounded; nothing is written outside the
// folder that the user named, and nothing is overwritten unless the user asks for it.

import { randomUUID } from 'node:crypto'
import {
  closeSync,
  fchownSync,
  fsyncSync,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import type { Json, JsonBounds } from '../../shared/bytes/json.ts'
import { EVIDENCE_BOUNDS, parseJson } from '../../shared/bytes/json.ts'
import { pathFault } from '../../shared/plan/call-files.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Trouble } from './command.ts'
import { trouble } from './command.ts'

const STDIN = 0
const CHUNK_BYTES = 1 << 16

/**
 * The bytes of a file, or of standard input for `-`. Fails after `limit` bytes, so `/dev/zero`
 * ends.
 */
export function readBytes(path: string, limit: number): Result<Uint8Array, Trouble> {
  const name = path === '-' ? 'standard input' : `\`${path}\``
  let file: number | undefined
  try {
    file = path === '-' ? STDIN : openSync(path, 'r')
    const chunks: Uint8Array[] = []
    for (let total = 0; ; ) {
      const chunk = new Uint8Array(CHUNK_BYTES)
      const read = readSync(file, chunk)
      if (read === 0) return ok(Buffer.concat(chunks))
      total += read
      if (total > limit) return err(trouble('too_large', `${name} has more than ${limit} bytes, the maximum`))
      chunks.push(chunk.subarray(0, read))
    }
  } catch (thrown) {
    return err(trouble('unreadable', `${name} can’t be read: ${reason(thrown)}`))
  } finally {
    if (file !== undefined && file !== STDIN) closeSync(file)
  }
}

export function readJson(path: string, bounds: JsonBounds = EVIDENCE_BOUNDS): Result<Json, Trouble> {
  const bytes = readBytes(path, bounds.bytes)
  if (!bytes.ok) return bytes
  const value = parseJson(bytes.value, bounds)
  return value.ok
    ? value
    : err(
        trouble(
          value.error.code,
          `${path === '-' ? 'standard input' : `\`${path}\``} is not strict JSON: ${value.error.detail}`,
        ),
      )
}

export function writeText(path: string, text: string): Result<number, Trouble> {
  try {
    writeFileSync(path, text)
    return ok(Buffer.byteLength(text))
  } catch (thrown) {
    return err(trouble('unwritable', `\`${path}\` can’t be written: ${reason(thrown)}`))
  }
}

/**
 * The system's message without the system call and the path: `ENOENT: no such file or directory`.
 */
export const reason = (thrown: unknown): string =>
  thrown instanceof Error
    ? thrown.message.replace(/, (?:open|read|write|scandir|mkdir|lstat|link|rename).*$/, '')
    : String(thrown)

/**
 * The path for a file of a call below `folder`. Makes the folders in between and refuses symlinks,
 * so that nothing is written outside `folder`. Refuses an existing file unless `overwrite` is set.
 */
export function prepareTarget(folder: string, path: string, overwrite: boolean): Result<string, Trouble> {
  const place = join(folder, path)
  const fault = pathFault(path)
  if (fault !== undefined)
    return err(trouble('unwritable', `\`${path}\` can’t be saved under that name: it ${fault}`))
  try {
    mkdirSync(folder, { recursive: true })
    const above = path.split('/').slice(0, -1)
    for (const [i] of above.entries()) {
      const at = join(folder, ...above.slice(0, i + 1))
      if (kindOf(at) === undefined) mkdirSync(at)
      if (!lstatSync(at).isDirectory()) return err(trouble('unwritable', `\`${at}\` is not a folder`))
    }
  } catch (thrown) {
    return err(trouble('unwritable', `\`${place}\` can’t be written: ${reason(thrown)}`))
  }
  const there = kindOf(place)
  if (there === undefined || (overwrite && there.isFile())) return ok(place)
  return err(
    trouble(
      'exists',
      `\`${place}\` already exists`,
      overwrite ? 'choose another folder' : 'choose another folder, or add `--overwrite`',
    ),
  )
}

const kindOf = (path: string) => lstatSync(path, { throwIfNoEntry: false })

/** Saves atomically: writes a temporary file in the same folder, then renames or links it. */
export function saveBytes(
  folder: string,
  path: string,
  bytes: Uint8Array,
  overwrite: boolean,
): Result<string, Trouble> {
  const place = prepareTarget(folder, path, overwrite)
  if (!place.ok) return place
  const beside = join(dirname(place.value), `.countersign-${randomUUID()}`)
  try {
    writeFileSync(beside, bytes, { flag: 'wx', flush: true })
    if (overwrite) renameSync(beside, place.value)
    else linkSync(beside, place.value) // fails if the file was created in the meantime
    return place
  } catch (thrown) {
    return err(trouble('unwritable', `\`${place.value}\` can’t be written: ${reason(thrown)}`))
  } finally {
    rmSync(beside, { force: true })
  }
}

/**
 * Replaces a file of secrets in one step and keeps its owner. Nobody else can read it at any moment.
 * Throws what `fs` throws, also if another process is replacing it, or was interrupted while it did.
 */
export function replacePrivate(path: string, text: string): void {
  const draft = `${path}.new`
  // Not overwritten: a process that is writing it now would rename what this one writes.
  if (kindOf(draft) !== undefined)
    throw new Error(
      `\`${draft}\` exists, so another command changes \`${path}\` now or was interrupted; if none runs, remove \`${draft}\``,
    )
  const { uid, gid } = statSync(path)
  const file = openSync(draft, 'wx', 0o600)
  try {
    writeFileSync(file, text)
    if (process.getuid?.() === 0) fchownSync(file, uid, gid)
    fsyncSync(file)
    renameSync(draft, path)
  } catch (thrown) {
    rmSync(draft, { force: true })
    throw thrown
  } finally {
    closeSync(file)
  }
}
