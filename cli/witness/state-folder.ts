// The state of a witness on disk: its key, and for each log the head that it cosigned last. A head
// is on disk before its cosignature is sent, so a crash never makes the witness forget one.

import { generateKeyPairSync } from 'node:crypto'
import {
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs'
import { createServer, type Server } from 'node:net'
import { join } from 'node:path'
import { z } from 'zod'
import { parseJson, sha256 } from '../../shared/bytes/json.ts'
import { type Checkpoint, readCheckpoint } from '../../shared/evidence/checkpoint.ts'
import { type PrivateJwk, type Signer, signerFromJwk } from '../../shared/evidence/dsse.ts'
import { PublicKey } from '../../shared/evidence/ed25519.ts'
import { Time } from '../../shared/fields.ts'
import { LIMITS } from '../../shared/limits.ts'
import { err, ok, type Result } from '../../shared/result.ts'
import { type Trouble, trouble } from '../shell/command.ts'
import { reason } from '../shell/files.ts'

const Key = z.strictObject({
  kty: z.literal('OKP'),
  crv: z.literal('Ed25519'),
  x: PublicKey,
  d: z.string().length(43),
})
/** `keys`: newest last. `root`: signs every link after them. */
const LearnedKeys = z.strictObject({
  keys: z.array(PublicKey),
  distrusted: z.array(PublicKey),
  root: PublicKey.optional(),
})
export type LearnedKeys = z.infer<typeof LearnedKeys>
const Head = z.strictObject({ note: z.string(), at_ms: Time })

/** A head with the note that signs it, and when the witness accepted it. */
export type KeptHead = Checkpoint & { readonly note: string; readonly at_ms: number }

const headsIn = (folder: string): string => join(folder, 'heads')

export class StateFolder {
  readonly signer: Signer
  readonly #folder: string
  readonly #heads: string
  readonly #lock: Server

  private constructor(signer: Signer, folder: string, lock: Server) {
    this.signer = signer
    this.#folder = folder
    this.#heads = headsIn(folder)
    this.#lock = lock
  }

  /** Opens the folder, and makes it and its key if they are missing. */
  static async open(folder: string): Promise<Result<StateFolder, Trouble>> {
    try {
      mkdirSync(headsIn(folder), { recursive: true, mode: 0o700 })
      const lock = await lockOf(folder)
      if (lock === undefined)
        return err(
          trouble('locked', `another witness runs on \`${folder}\``, 'stop it, or choose another folder'),
        )
      const signer = signerIn(join(folder, 'key.json'))
      if (signer.ok) return ok(new StateFolder(signer.value, folder, lock))
      lock.close()
      return signer
    } catch (thrown) {
      return err(trouble('unwritable', `\`${folder}\` can’t be used: ${reason(thrown)}`))
    }
  }

  /** The head of a log that was kept last. Throws if it can't be read: then nothing may be signed. */
  head(origin: string): KeptHead | undefined {
    const file = this.#fileOf(origin)
    return existsSync(file) ? readHead(file) : undefined
  }

  /** Returns when the head is on disk, and throws if it is not. */
  keep(origin: string, note: string, at_ms: number): void {
    const text = JSON.stringify({ note, at_ms } satisfies z.infer<typeof Head>)
    writeDurably(this.#heads, this.#fileOf(origin), text)
  }

  /** The keys that were learned for a log, or for all logs under an origin. Throws if they can't be read. */
  learned(origin: string): LearnedKeys | undefined {
    const file = this.#keysFile(origin)
    return existsSync(file) ? LearnedKeys.parse(JSON.parse(readFileSync(file, 'utf8'))) : undefined
  }

  keepLearned(origin: string, learned: LearnedKeys): void {
    writeDurably(this.#folder, this.#keysFile(origin), JSON.stringify(learned))
  }

  /** How many logs it has heads of. */
  get count(): number {
    return this.#files().length
  }

  /** The heads that were kept last, latest first. */
  latest(): KeptHead[] {
    const files = this.#files().map((name) => join(this.#heads, name))
    const byTime = files.map((file) => ({ file, at: statSync(file).mtimeMs })).sort((a, b) => b.at - a.at)
    return byTime.slice(0, LIMITS.page).map(({ file }) => readHead(file))
  }

  close(): void {
    this.#lock.close()
  }

  #files(): string[] {
    return readdirSync(this.#heads).filter((name) => name.endsWith('.json'))
  }

  #keysFile(origin: string): string {
    return join(this.#folder, `keys-${sha256(origin)}.json`)
  }

  #fileOf(origin: string): string {
    return join(this.#heads, `${sha256(origin)}.json`)
  }
}

function readHead(file: string): KeptHead {
  const json = parseJson(readFileSync(file))
  const kept = json.ok ? Head.safeParse(json.value) : undefined
  const head = kept?.success === true ? readCheckpoint(kept.data.note) : undefined
  if (kept?.success !== true || head?.ok !== true) throw new Error(`\`${file}\` is damaged`)
  return { ...head.value, ...kept.data }
}

function signerIn(file: string): Result<Signer, Trouble> {
  if (!existsSync(file)) {
    const { kty, crv, x, d } = generateKeyPairSync('ed25519').privateKey.export({
      format: 'jwk',
    }) as PrivateJwk // an Ed25519 key has these members
    writeDurably(join(file, '..'), file, JSON.stringify({ kty, crv, x, d }))
  }
  if ((statSync(file).mode & 0o077) !== 0)
    return err(
      trouble(
        'key_exposed',
        `other users can read \`${file}\``,
        `run \`chmod 600 ${file}\`; if anybody may have read it, make a new witness with a new key`,
      ),
    )
  const json = parseJson(readFileSync(file))
  const key = json.ok ? Key.safeParse(json.value) : undefined
  return key?.success === true
    ? ok(signerFromJwk(key.data))
    : err(trouble('unreadable', `\`${file}\` is not the key of a witness`)) // its content is secret, so it is not quoted
}

/** Writes a new file and renames it: after a crash the file has its old or its new content, complete. */
function writeDurably(folder: string, file: string, text: string): void {
  const beside = `${file}.new`
  rmSync(beside, { force: true })
  const handle = openSync(beside, 'wx', 0o600)
  try {
    writeSync(handle, text)
    fsyncSync(handle)
  } finally {
    closeSync(handle)
  }
  renameSync(beside, file)
  const directory = openSync(folder, 'r')
  try {
    fsyncSync(directory)
  } finally {
    closeSync(directory)
  }
}

/**
 * A lock that the kernel frees when the process ends, for any reason: an abstract socket, not a file.
 * Two witnesses on one folder could accept different heads. Undefined if another process has it.
 */
function lockOf(folder: string): Promise<Server | undefined> {
  const { dev, ino } = statSync(folder)
  const server = createServer((socket) => socket.destroy())
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) =>
      error.code === 'EADDRINUSE' ? resolve(undefined) : reject(error),
    )
    server.listen(`\0countersign-witness-${dev}-${ino}`, () => {
      server.unref()
      resolve(server)
    })
  })
}
