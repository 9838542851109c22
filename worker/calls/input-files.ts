// Fetches a call's input files from the edge into a folder that the sandbox shows read-only. Each
// file is hashed as stored and compared with the plan before anything runs (P08). The folder is new
// for each call, so no link that an earlier call made leads out of it (S40, S41).

import { createHash } from 'node:crypto'
import { type FileHandle, mkdir, open } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { InputFile } from '../../shared/plan/call-files.ts'
import type { Outcome } from '../../shared/plan/plan.ts'
import { err, ok, type Result } from '../../shared/result.ts'
import { ownFolder, removeFolder } from '../host/owned-folders.ts'
import type { EdgeLink } from '../link/client.ts'

type NotStarted = Extract<Outcome, { kind: 'refused' | 'infra' }>
type Source = {
  readonly call: string
  readonly link: EdgeLink
  readonly root: string
  readonly signal: AbortSignal
}

const FETCH_PATIENCE_MS = 15_000

/** Returns the folder, which the caller removes, or undefined if the call has no input files. */
export async function fetchInputFiles(
  files: readonly InputFile[] | undefined,
  from: Source,
): Promise<Result<string | undefined, NotStarted>> {
  if (files === undefined || files.length === 0) return ok(undefined)
  const folder = await ownFolder(from.root, 'input')
  for (const file of files) {
    const fetched = await fetchFile(file, folder, from).catch(
      (error): Result<never, NotStarted> =>
        err({
          kind: 'infra',
          detail: `an input file could not be written (${error instanceof Error ? error.message : error})`,
        }),
    )
    if (fetched.ok) continue
    await removeFolder(folder)
    return fetched
  }
  return ok(folder)
}

async function fetchFile(
  { path, sha256, bytes }: InputFile,
  folder: string,
  { call, link, signal }: Source,
): Promise<Result<void, NotStarted>> {
  const target = join(folder, path)
  await mkdir(dirname(target), { recursive: true })
  const file = await open(target, 'wx+', 0o444)
  try {
    let left = bytes
    for (let part = 0; left > 0; part++) {
      const params = { call, sha256, part: String(part) }
      const answer = await link.requestUntilFinal(
        'readInput',
        { params },
        { patience_ms: FETCH_PATIENCE_MS, signal },
      )
      if (!answer.ok)
        return err({ kind: 'infra', detail: `an input file could not be fetched (${answer.error.code})` })
      const data = Buffer.from(answer.value.data, 'base64')
      if (data.byteLength === 0 || data.byteLength > left) return err(MISMATCH)
      left -= data.byteLength
      await file.appendFile(data)
    }
    return (await digestOf(file)) === sha256 ? ok(undefined) : err(MISMATCH)
  } finally {
    await file.close()
  }
}

/** Hashes the stored file rather than the received bytes, which detects a failing disk. */
async function digestOf(file: FileHandle): Promise<string> {
  const hash = createHash('sha256')
  for await (const data of file.createReadStream({ start: 0, autoClose: false })) hash.update(data)
  return hash.digest('hex')
}

const MISMATCH: NotStarted = {
  kind: 'refused',
  code: 'grant_invalid',
  detail: 'an input file does not match the digest in the plan',
}
