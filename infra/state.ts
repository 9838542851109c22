// Owns the state folder (`COUNTERSIGN_STATE`): its layout, file modes, secrets, ports, and the lock
// that permits one stack per folder. Starts and sends nothing.

import { createHash, generateKeyPairSync, randomBytes } from 'node:crypto'
import {
  chmodSync,
  closeSync,
  existsSync,
  fchmodSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseJson } from '../shared/bytes/json.ts'
import type { PrivateJwk } from '../shared/evidence/dsse.ts'
import type { KeyRing } from '../shared/evidence/key-ring.ts'
import { WitnessSettings } from '../shared/evidence/witnesses.ts'
import { mintInstallationKey, mintKey } from '../shared/ids.ts'
import { err, ok, type Result } from '../shared/result.ts'

export const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))
export const TENANT = 'default'

/** The paths of all files and folders in the state folder. */
export type State = {
  readonly dir: string
  readonly secrets: string
  readonly ports: string
  readonly seeded: string
  readonly dev: string
  readonly lock: string
  readonly log: string
  readonly redis: string
  readonly edge: string
  readonly worker: string
}

export type Secrets = {
  /**
   * Ed25519 private key as JWK, and a key ring once `countersign keys rotate` has run: signs grants,
   * countersigns attestations, signs checkpoints.
   */
  readonly edge: PrivateJwk | KeyRing
  /** The key of the first operator. The edge gets only its hash. */
  readonly operator: string
  /**
   * The key of the installation's operator, who creates and deletes tenants. The edge gets only its
   * hash.
   */
  readonly installation: string
  /** Passwords of the two Redis users. */
  readonly redis: { readonly edge: string; readonly worker: string }
}

/** The private part of the edge's signing key, for tests that look for it in what a process leaves. */
export const signingSecret = ({ edge }: Secrets): string => ('d' in edge ? edge : edge.signing).d

/** A sentence for the person at the terminal. */
export type Refusal = string

/** COUNTERSIGN_PORT (default 8787), or `undefined` if it is not a port. */
export function wantedPort(): number | undefined {
  const port = Number(process.env['COUNTERSIGN_PORT'] || 8787)
  return Number.isInteger(port) && port > 0 && port < 65_536 ? port : undefined
}

/** COUNTERSIGN_SEAL_AFTER_S: how long an ended run rests before it is sealed, in seconds. */
export const sealAfter = (): string | undefined => process.env['COUNTERSIGN_SEAL_AFTER_S'] || undefined

export const sealAfterRefusal = (): Refusal | undefined =>
  /^[1-9]\d{0,8}$/.test(sealAfter() ?? '1')
    ? undefined
    : `COUNTERSIGN_SEAL_AFTER_S is \`${sealAfter()}\`; set it to a number of seconds, from 1`

/** COUNTERSIGN_WITNESSES: the witnesses of all logs, as JSON. */
export const wantedWitnesses = (): string | undefined => process.env['COUNTERSIGN_WITNESSES'] || undefined

export function witnessesRefusal(): Refusal | undefined {
  const json = parseJson(Buffer.from(wantedWitnesses() ?? '[]'))
  const read = json.ok ? WitnessSettings.safeParse(json.value) : undefined
  if (read?.success === true) return undefined
  const why = json.ok ? read?.error?.issues[0]?.message : json.error.detail
  return `COUNTERSIGN_WITNESSES can’t be read: ${why}; set it to a list such as [{"url": "https://witness.example.com", "key": "NAME+HASH+KEY"}]`
}

export const stateDir = (): string => resolve(process.env['COUNTERSIGN_STATE'] || join(ROOT, '.countersign'))

export function openState(dir: string): Result<State, Refusal> {
  const state: State = {
    dir,
    secrets: join(dir, 'secrets.json'),
    ports: join(dir, 'ports.json'),
    seeded: join(dir, 'seeded.json'),
    dev: join(dir, 'dev.json'),
    lock: join(dir, 'lock'),
    log: join(dir, 'log'),
    redis: join(dir, 'redis'),
    edge: join(dir, 'edge'),
    worker: join(dir, 'worker'),
  }
  const restoring = join(state.edge, 'objects.restoring')
  if (existsSync(restoring))
    return err(
      `a restore goes on or was interrupted; run \`countersign restore\` again, or remove \`${restoring}\` if \`objects\` beside it is what you want to start`,
    )
  try {
    mkdirSync(dir, { recursive: true, mode: 0o700 })
    const { uid } = statSync(dir)
    const me = process.getuid?.()
    if (uid !== me) {
      return err(
        `the state folder \`${dir}\` belongs to uid ${uid}, not to you (uid ${me}); start as that user, chown the folder, or set COUNTERSIGN_STATE to a folder of your own`,
      )
    }
    chmodSync(dir, 0o700)
    for (const folder of [state.log, state.redis, state.edge])
      mkdirSync(folder, { recursive: true, mode: 0o700 })
  } catch (error) {
    return err(
      `the state folder \`${dir}\` can’t be created or used (${reason(error)}); set COUNTERSIGN_STATE to a folder that you can write to`,
    )
  }
  return ok(state)
}

const reason = (error: unknown): string => (error instanceof Error ? error.message : String(error))

/** Writes a file atomically with mode 0600, so that nobody else can read it at any moment. */
export function writePrivate(path: string, text: string): void {
  const draft = `${path}.${process.pid}.new`
  const file = openSync(draft, 'w', 0o600)
  try {
    fchmodSync(file, 0o600)
    writeSync(file, text)
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
  renameSync(draft, path)
}

export function readSecrets(state: State): Secrets {
  if (!existsSync(state.secrets)) {
    const secrets: Secrets = {
      // An Ed25519 private key has these members; Node's type makes all of them optional.
      edge: generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' }) as PrivateJwk,
      operator: mintKey('operator', TENANT, Date.now()).key,
      installation: mintInstallationKey(Date.now()),
      redis: { edge: randomBytes(24).toString('base64url'), worker: randomBytes(24).toString('base64url') },
    }
    writePrivate(state.secrets, `${JSON.stringify(secrets, null, 2)}\n`)
  }
  const kept = JSON.parse(readFileSync(state.secrets, 'utf8')) as Omit<Secrets, 'installation'> &
    Partial<Secrets> // written here, 0600, by this user
  if (kept.installation !== undefined) return { ...kept, installation: kept.installation }
  // A state folder from a version without installation keys.
  const secrets: Secrets = { ...kept, installation: mintInstallationKey(Date.now()) }
  writePrivate(state.secrets, `${JSON.stringify(secrets, null, 2)}\n`)
  return secrets
}

/**
 * The port of our Redis: random at the first start, then kept, so that its address survives
 * restarts; a new one if it is in use.
 */
export async function redisPort(
  state: State,
  usable: (port: number) => Promise<boolean> = portFree,
): Promise<number> {
  const kept: unknown = existsSync(state.ports)
    ? JSON.parse(readFileSync(state.ports, 'utf8')).redis
    : undefined
  if (typeof kept === 'number' && (await usable(kept))) return kept
  const port = await freePort()
  writePrivate(state.ports, `${JSON.stringify({ redis: port })}\n`)
  return port
}

/**
 * Tries to listen on a port (0: any); returns the port, or the error code (`EADDRINUSE`, `EACCES`).
 */
const tryListen = (port: number): Promise<Result<number, string>> =>
  new Promise((settle) => {
    const server = createServer()
    server.once('error', (error: NodeJS.ErrnoException) => settle(err(error.code ?? error.message)))
    server.listen({ port, host: '127.0.0.1', exclusive: true }, () => {
      const address = server.address()
      server.close(() =>
        settle(typeof address === 'object' && address !== null ? ok(address.port) : err('no address')),
      )
    })
  })

const portFree = async (port: number): Promise<boolean> => (await tryListen(port)).ok

/** Why the port can't be used, or `undefined` if it can. */
export async function portRefusal(port: number): Promise<Refusal | undefined> {
  const got = await tryListen(port)
  if (got.ok) return undefined
  const other = `set COUNTERSIGN_PORT to another one, e.g. \`COUNTERSIGN_PORT=${port < 1024 ? port + 8000 : port + 1} npm start\``
  if (got.error === 'EADDRINUSE')
    return `port ${port} is in use by another process; stop that process, or ${other}`
  if (got.error === 'EACCES') return `port ${port} needs root; ${other}`
  return `port ${port} can’t be used (${got.error}); ${other}`
}

export async function freePort(): Promise<number> {
  const got = await tryListen(0)
  if (!got.ok) throw new Error(`there is no free port on 127.0.0.1: ${got.error}`)
  return got.value
}

/**
 * The process's start time in ticks since boot. Together with the pid it identifies one process,
 * because pids are reused.
 */
function startTime(pid: number): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /s, '')
      .split(' ')[19]
  } catch {
    return undefined
  }
}

/**
 * Takes a lock file. Returns a function that releases it, or else the pid of its holder; undefined
 * if the file can't be written. A lock whose holder (pid and start time) is dead is replaced.
 */
export function takeLock(path: string): Result<() => void, string | undefined> {
  const draft = `${path}.${randomBytes(6).toString('hex')}`
  try {
    // Written to a temporary file and linked into place, so that nobody reads a lock without its
    // holder.
    writeFileSync(draft, `${process.pid} ${startTime(process.pid)}`, { mode: 0o600, flag: 'wx' })
    while (!linked(draft, path)) {
      const text = textOf(path)
      if (text === undefined) continue // the lock was released in the meantime
      const [pid = '', since] = text.split(' ')
      if (since !== undefined && startTime(Number(pid)) === since) return err(pid)
      rmSync(path, { force: true })
    }
    return ok(() => rmSync(path, { force: true }))
  } catch {
    return err(undefined)
  } finally {
    rmSync(draft, { force: true })
  }
}

/** Returns false if the file already exists. */
function linked(from: string, to: string): boolean {
  try {
    linkSync(from, to)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false // any other error is rethrown
    throw error
  }
}

/** Returns undefined if the file does not exist. */
function textOf(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined // any other error is rethrown
    throw error
  }
}

/** Permits one stack per state folder. */
export function lockState(state: State): Result<() => void, Refusal> {
  const lock = takeLock(state.lock)
  if (lock.ok) return lock
  return err(
    lock.error === undefined
      ? `the lock file \`${state.lock}\` can’t be created; check that you can write to that folder`
      : `another stack (pid ${lock.error}) runs on \`${state.dir}\`; stop it, or set COUNTERSIGN_STATE and COUNTERSIGN_PORT to start a second one`,
  )
}

export const sha256 = (data: string | Uint8Array): string => createHash('sha256').update(data).digest('hex')
