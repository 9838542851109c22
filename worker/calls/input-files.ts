// Owns the files that a call brings, on their way from the edge into a folder that the sandbox shows read-only: fetched by digest, each
// held, as it lies there, against the plan before anything runs (P08). The folder is new and ours alone, so no link of an earlier call
// leads out of it (S40, S41).

import { createHash } from 'node:crypto'
import { type FileHandle, mkdir, open } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { InputFile } from '../../shared/plan/call-files.ts'
import type { Outcome } from '../../shared/plan/plan.ts'
import { err, ok, type Result } from '../../shared/result.ts'
import { ownFolder, removeFolder } from '../host/owned-folders.ts'
import type { Link } from '../link/client.ts'

type NotRun = Extract<Outcome, { kind: 'refused' | 'infra' }>
type From = {
  readonly call: string
  readonly link: Link
  readonly root: string
  readonly signal: AbortSignal
}

const FETCH_PATIENCE_MS = 15_000

/** The folder, which is the caller's to remove; undefined where the call brings nothing. */
export async function layInputs(
  files: readonly InputFile[] | undefined,
  from: From,
): Promise<Result<string | undefined, NotRun>> {
  if (files === undefined || files.length === 0) return ok(undefined)
  const folder = await ownFolder(from.root, 'input')
  for (const file of files) {
    const laid = await lay(file, folder, from).catch(
      (error): Result<never, NotRun> =>
        err({
          kind: 'infra',
          detail: `a file of the call could not be written (${error instanceof Error ? error.message : error})`,
        }),
    )
    if (laid.ok) continue
    await removeFolder(folder)
    return laid
  }
  return ok(folder)
}

async function lay(
  { path, sha256, bytes }: InputFile,
  folder: string,
  { call, link, signal }: From,
): Promise<Result<void, NotRun>> {
  const at = join(folder, path)
  await mkdir(dirname(at), { recursive: true })
  const file = await open(at, 'wx+', 0o444)
  try {
    let left = bytes
    for (let part = 0; left > 0; part++) {
      const params = { call, sha256, part: String(part) }
      const answer = await link.insist('readInput', { params }, { patience_ms: FETCH_PATIENCE_MS, signal })
      if (!answer.ok)
        return err({
          kind: 'infra',
          detail: `a file of the call could not be fetched (${answer.error.code})`,
        })
      const data = Buffer.from(answer.value.data, 'base64')
      if (data.byteLength === 0 || data.byteLength > left) return err(NOT_IT)
      left -= data.byteLength
      await file.appendFile(data)
    }
    return (await digestOf(file)) === sha256 ? ok(undefined) : err(NOT_IT)
  } finally {
    await file.close()
  }
}

/** Of what lies there now, not of what came: the disk is between the two. */
async function digestOf(file: FileHandle): Promise<string> {
  const hash = createHash('sha256')
  for await (const data of file.createReadStream({ start: 0, autoClose: false })) hash.update(data)
  return hash.digest('hex')
}

const NOT_IT: NotRun = {
  kind: 'refused',
  code: 'grant_invalid',
  detail: 'a file of the call is not the one that was decided',
}
