// Collects the files that a call left in its output folder, after its last process has ended. Takes
// regular files under plain names only, each opened relative to its open parent folder, so that no
// link leads out (S40, S41) and nothing blocks (S43). The files are data: nothing is executed and
// no mode is kept (S20). A file or name that contains a secret of the call is not taken (V01).
// Files left behind are reported with a reason.

import { createHash } from 'node:crypto'
import { constants } from 'node:fs'
import { type FileHandle, open, readdir } from 'node:fs/promises'
import type { Code } from '../../shared/failures.ts'
import { LIMITS } from '../../shared/limits.ts'
import { type InputFile, type LeftFile, type OutputFiles, pathFault } from '../../shared/plan/call-files.ts'
import type { EdgeLink } from '../link/client.ts'
import type { SecretMask } from '../sandbox/streams/secret-mask.ts'

type Target = {
  readonly call: string
  /** Knows the secrets that the call received. */
  readonly mask: SecretMask
  readonly link: EdgeLink
  readonly until_ms: number
  readonly signal: AbortSignal
}
type OpenFolder = { readonly handle: FileHandle; readonly path: string }

const FOLDER = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW
/** Opening a FIFO waits for a writer without O_NONBLOCK. */
const FILE = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK | constants.O_NOCTTY
const LEFT_REPORTED = 64
const SENT_WITHIN_MS = 1_000

export async function collectOutputFiles(folder: string, target: Target): Promise<OutputFiles> {
  const collected = new Collection()
  const root = await open(folder, FOLDER).catch(() => undefined)
  if (root === undefined)
    collected.leave('.', 'no_file') // the tool took our permission to read it
  else await walk({ handle: root, path: '' }, collected, target)
  return collected.report()
}

class Collection {
  readonly files: InputFile[] = []
  readonly #left: LeftFile[] = []
  #more = 0

  leave(path: string, why: LeftFile['why']): void {
    if (this.#left.length < LEFT_REPORTED) this.#left.push({ path: JSON.stringify(path).slice(1, -1), why })
    else this.#more += 1
  }

  report(): OutputFiles {
    return { files: this.files, left: this.#left, more: this.#more }
  }
}

async function walk(
  { handle, path: above }: OpenFolder,
  collected: Collection,
  target: Target,
): Promise<void> {
  try {
    const at = `/proc/self/fd/${handle.fd}`
    const names = (await readdir(at, { encoding: 'buffer' })).toSorted(Buffer.compare)
    for (const name of names) {
      const text = decodeName(name)
      const path = `${above}${text ?? name.toString('latin1')}`
      const masked = target.mask.text(path)
      if (masked !== path)
        collected.leave(masked, 'secret') // V01
      else if (text === undefined || pathFault(path) !== undefined)
        collected.leave(path, 'name') // S44
      else await takeFile(`${at}/${text}`, path, collected, target)
    }
  } finally {
    await handle.close()
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
function decodeName(name: Buffer): string | undefined {
  try {
    return utf8.decode(name)
  } catch {
    return undefined
  }
}

async function takeFile(at: string, path: string, collected: Collection, target: Target): Promise<void> {
  const handle = await open(at, FILE).catch(() => undefined)
  if (handle === undefined) return collected.leave(path, 'no_file') // a link, a socket, or not readable by us
  const stats = await handle.stat()
  if (stats.isDirectory()) return walk({ handle, path: `${path}/` }, collected, target)
  try {
    // S42: a hard link may be a file of somebody else.
    if (!stats.isFile() || stats.nlink !== 1) return collected.leave(path, 'no_file')
    if (stats.size > LIMITS.file_bytes || collected.files.length >= LIMITS.call_files)
      return collected.leave(path, 'too_much')
    const hasTime = (): boolean => !target.signal.aborted && target.link.clock.now() < target.until_ms
    if (!hasTime()) return collected.leave(path, 'not_sent')
    const bytes = await handle.readFile()
    const hasSecret = await target.mask.findsSecretIn(bytes, hasTime)
    // A file that contains a secret of the call stays where it is (V01).
    if (hasSecret !== false) return collected.leave(path, hasSecret === undefined ? 'not_sent' : 'secret')
    const sha256 = createHash('sha256').update(bytes).digest('hex')
    const why = await sendFile(bytes, sha256, target)
    if (why !== undefined) return collected.leave(path, why)
    collected.files.push({ path, sha256, bytes: bytes.byteLength })
  } finally {
    await handle.close()
  }
}

const NO_ROOM: readonly Code[] = ['too_many_files', 'storage_full']

async function sendFile(
  body: Buffer<ArrayBuffer>,
  sha256: string,
  { call, link, until_ms, signal }: Target,
): Promise<LeftFile['why'] | undefined> {
  const patience_ms = Math.max(SENT_WITHIN_MS, until_ms - link.clock.now())
  const put = await link.requestUntilFinal(
    'putOutput',
    { params: { call, sha256 }, body },
    { patience_ms, signal },
  )
  if (put.ok) return undefined
  return NO_ROOM.includes(put.error.code) ? 'no_room' : 'not_sent'
}
