// The worker's identity: `<home>/key.json`, mode 0600, written by enrolment. It holds the private key,
// the worker id that the edge assigned, and the pinned edge key: a grant signed by a key to which the
// pinned one does not lead is refused (L1). A new edge key is stored here (edge-keys.ts).

import {
  chmodSync,
  closeSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  writeSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { z } from 'zod'
import { type PrivateJwk, type Signer, signerFromJwk } from '../../shared/evidence/dsse.ts'
import { PublicKey } from '../../shared/evidence/ed25519.ts'
import { Time } from '../../shared/fields.ts'
import { PATTERNS } from '../../shared/ids.ts'
import { err, ok, type Result } from '../../shared/result.ts'
import { type Config, type Refusal, readPrivate } from '../config.ts'

const EdgeKey = z.strictObject({ kid: z.string(), x: PublicKey })
const Pinned = {
  edge: EdgeKey,
  /** The edge key before `edge`. Its grants count until `until_ms`. */
  before: EdgeKey.extend({ until_ms: Time }).optional(),
  /** The key outside of the edge that must sign every link after the pinned key. */
  root: PublicKey.optional(),
}

export const PrivateKey = z.strictObject({
  kty: z.literal('OKP'),
  crv: z.literal('Ed25519'),
  x: PublicKey,
  d: z.string().length(43),
})

const KeyFile = PrivateKey.extend({
  worker: z.string().regex(PATTERNS.worker),
  tenant: z.string().regex(PATTERNS.tenant),
  pool: z.string().regex(PATTERNS.name),
  ...Pinned,
})

export type PinnedEdge = Pick<z.infer<typeof KeyFile>, 'edge' | 'before' | 'root'>

export type Identity = PinnedEdge & {
  /** The file that holds it. */
  readonly path: string
  readonly worker: string
  readonly tenant: string
  readonly pool: string
  readonly signer: Signer
}

export const keyPath = (home: string): string => join(home, 'key.json')

export function readIdentity(config: Config): Result<Identity, Refusal> {
  const path = keyPath(config.home)
  const text = readPrivate(path)
  if (!text.ok)
    return err(`the key \`${path}\` ${text.error}; a new worker gets one with \`countersign-worker enrol\``)
  const read = KeyFile.safeParse(parsed(text.value))
  if (!read.success) return err(`the key \`${path}\` is damaged; remove it and enrol again`)
  const { kty, crv, x, d, ...known } = read.data
  const { tenant, pool } = known
  if (tenant !== config.tenant || pool !== config.pool) {
    return err(
      `the key \`${path}\` is for tenant \`${tenant}\`, pool \`${pool}\`; the configuration names \`${config.tenant}\`, \`${config.pool}\`; correct the configuration, or enrol again`,
    )
  }
  return ok({ path, ...known, signer: signerFromJwk({ kty, crv, x, d }) })
}

/** Stores a new edge key, or a new key of the worker. */
export const storeEdge = (path: string, { edge, before, root }: PinnedEdge): Result<void, Refusal> =>
  replace(path, { edge, before, root })
export const storeKey = (path: string, { kty, crv, x, d }: PrivateJwk): Result<void, Refusal> =>
  replace(path, { kty, crv, x, d })

/** Changes the file in one step: a crash leaves it as it was or as it will be. */
function replace(path: string, change: object): Result<void, Refusal> {
  try {
    const kept = KeyFile.parse(parsed(readFileSync(path, 'utf8')))
    writeKeyFile(`${path}.new`, { ...kept, ...change })
    renameSync(`${path}.new`, path)
    syncFolderOf(path)
    return ok(undefined)
  } catch (error) {
    return err(`\`${path}\` can’t be written (${codeOf(error)})`)
  }
}

/** Writes a file that only this user can read, and returns once it is on the disk. */
export function writeKeyFile(path: string, content: object): void {
  const file = openSync(path, 'w', 0o600)
  try {
    writeSync(file, `${JSON.stringify(content, null, 2)}\n`)
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
  syncFolderOf(path)
}

/** A new name is on the disk only once its folder is. */
export function syncFolderOf(path: string): void {
  const folder = openSync(dirname(path), 'r')
  try {
    fsyncSync(folder)
  } finally {
    closeSync(folder)
  }
}

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Makes the home folder, readable by our user alone. */
export function makeHome(home: string): Result<void, Refusal> {
  try {
    mkdirSync(home, { recursive: true, mode: 0o700 })
    chmodSync(home, 0o700)
    return ok(undefined)
  } catch (error) {
    return err(
      `the home \`${home}\` can’t be made or used (${codeOf(error)}); chown it to the user that runs the worker`,
    )
  }
}

export const codeOf = (error: unknown): string =>
  error instanceof Error && 'code' in error ? String(error.code) : 'unknown error'
