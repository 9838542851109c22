// Owns the collecting of what a call left in its output folder, once every process of it is gone: regular files alone, under plain names,
// each opened below the folder that was opened before it, so that no link leads out (S40, S41) and nothing that blocks is waited for
// (S43). Whatever a tool left there is data: nothing is run, no mode is kept (S20). What holds a value of the
// call's secrets is not taken (V01). What is not taken is told.

import { createHash } from 'node:crypto'
import { constants } from 'node:fs'
import { type FileHandle, open, readdir } from 'node:fs/promises'
import type { Code } from '../../shared/failures.ts'
import { LIMITS } from '../../shared/limits.ts'
import { type InputFile, type LeftFile, type OutputFiles, pathFault } from '../../shared/plan/call-files.ts'
import type { Link } from '../link/client.ts'
import type { Veil } from '../sandbox/streams/secret-mask.ts'

type To = {
  readonly call: string
  /** Over what it was given. */
  readonly veil: Veil
  readonly link: Link
  readonly until_ms: number
  readonly signal: AbortSignal
}
type Found = { readonly handle: FileHandle; readonly path: string }

const FOLDER = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW
/** Opening a FIFO waits for a writer without O_NONBLOCK. */
const FILE = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK | constants.O_NOCTTY
const LEFT_TOLD = 64
const SENT_WITHIN_MS = 1_000

export async function collect(folder: string, to: To): Promise<OutputFiles> {
  const taken = new Taken()
  const root = await open(folder, FOLDER).catch(() => undefined)
  if (root === undefined)
    taken.leave('.', 'no_file') // the tool closed it
  else await walk({ handle: root, path: '' }, taken, to)
  return taken.told()
}

class Taken {
  readonly files: InputFile[] = []
  readonly #left: LeftFile[] = []
  #more = 0

  leave(path: string, why: LeftFile['why']): void {
    if (this.#left.length < LEFT_TOLD) this.#left.push({ path: JSON.stringify(path).slice(1, -1), why })
    else this.#more += 1
  }

  told(): OutputFiles {
    return { files: this.files, left: this.#left, more: this.#more }
  }
}

async function walk({ handle, path: above }: Found, taken: Taken, to: To): Promise<void> {
  try {
    const at = `/proc/self/fd/${handle.fd}`
    const names = (await readdir(at, { encoding: 'buffer' })).toSorted(Buffer.compare)
    for (const name of names) {
      const text = decoded(name)
      const path = `${above}${text ?? name.toString('latin1')}`
      const shown = to.veil.text(path)
      if (shown !== path)
        taken.leave(shown, 'secret') // V01
      else if (text === undefined || pathFault(path) !== undefined)
        taken.leave(path, 'name') // S44
      else await take(`${at}/${text}`, path, taken, to)
    }
  } finally {
    await handle.close()
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
function decoded(name: Buffer): string | undefined {
  try {
    return utf8.decode(name)
  } catch {
    return undefined
  }
}

async function take(at: string, path: string, taken: Taken, to: To): Promise<void> {
  const handle = await open(at, FILE).catch(() => undefined)
  if (handle === undefined) return taken.leave(path, 'no_file') // a link, a socket, or what we may not read
  const stats = await handle.stat()
  if (stats.isDirectory()) return walk({ handle, path: `${path}/` }, taken, to)
  try {
    if (!stats.isFile() || stats.nlink !== 1) return taken.leave(path, 'no_file') // S42: who has two names may be somebody else's
    if (stats.size > LIMITS.file_bytes || taken.files.length >= LIMITS.call_files)
      return taken.leave(path, 'too_much')
    const inTime = (): boolean => !to.signal.aborted && to.link.clock.now() < to.until_ms
    if (!inTime()) return taken.leave(path, 'not_sent')
    const bytes = await handle.readFile()
    const found = await to.veil.isIn(bytes, inTime)
    if (found !== false) return taken.leave(path, found === undefined ? 'not_sent' : 'secret') // V01
    const sha256 = createHash('sha256').update(bytes).digest('hex')
    const why = await unsent(bytes, sha256, to)
    if (why !== undefined) return taken.leave(path, why)
    taken.files.push({ path, sha256, bytes: bytes.byteLength })
  } finally {
    await handle.close()
  }
}

const NO_ROOM: readonly Code[] = ['too_many_files', 'files_full']

async function unsent(
  body: Buffer<ArrayBuffer>,
  sha256: string,
  { call, link, until_ms, signal }: To,
): Promise<LeftFile['why'] | undefined> {
  const patience_ms = Math.max(SENT_WITHIN_MS, until_ms - link.clock.now())
  const put = await link.insist('putOutput', { params: { call, sha256 }, body }, { patience_ms, signal })
  if (put.ok) return undefined
  return NO_ROOM.includes(put.error.code) ? 'no_room' : 'not_sent'
}
