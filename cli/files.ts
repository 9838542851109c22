// Files that commands read and write: bounded, strict, and told apart from what the edge said when they can't be used.

import { closeSync, openSync, readSync, writeFileSync } from 'node:fs'
import type { Bounds, Json } from '../shared/json.ts'
import { EVIDENCE, parseJson } from '../shared/json.ts'
import type { Result } from '../shared/result.ts'
import { err, ok } from '../shared/result.ts'
import type { Trouble } from './command.ts'
import { trouble } from './command.ts'

const STDIN = 0
const CHUNK_BYTES = 1 << 16

/** The bytes of a file, or of standard input for `-`; never more than `limit` of them. */
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
      if (total > limit) return err(trouble('too_large', `${name} has more than ${limit} bytes`))
      chunks.push(chunk.subarray(0, read))
    }
  } catch (thrown) {
    return err(trouble('unreadable', `${name} can't be read: ${reason(thrown)}`))
  } finally {
    if (file !== undefined && file !== STDIN) closeSync(file)
  }
}

export function readJson(path: string, bounds: Bounds = EVIDENCE): Result<Json, Trouble> {
  const bytes = readBytes(path, bounds.bytes)
  if (!bytes.ok) return bytes
  const value = parseJson(bytes.value, bounds)
  return value.ok
    ? value
    : err(trouble(value.error.code, `${path === '-' ? 'standard input' : `\`${path}\``} is not strict JSON: ${value.error.detail}`))
}

export function writeText(path: string, text: string): Result<number, Trouble> {
  try {
    writeFileSync(path, text)
    return ok(Buffer.byteLength(text))
  } catch (thrown) {
    return err(trouble('unwritable', `\`${path}\` can't be written: ${reason(thrown)}`))
  }
}

/** What the system said, in its own words: ENOENT and its kin. */
export const reason = (thrown: unknown): string =>
  thrown instanceof Error ? thrown.message.replace(/, (?:open|read|write|scandir).*$/, '') : String(thrown)
