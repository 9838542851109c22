// Owns who this worker is: `<home>/key.json`, mode 0600, made once by enrolment and never written again. It holds the private key, the name
// that the edge gave us, and the edge key that we pinned then: grants signed by any other key are nobody's word (L1).

import { generateKeyPairSync } from 'node:crypto'
import { chmodSync, closeSync, fsyncSync, mkdirSync, openSync, rmSync, writeSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { z } from 'zod'
import type { Keys } from '../../shared/evidence/bundle.ts'
import { type PrivateJwk, type Signer, signerFromJwk } from '../../shared/evidence/dsse.ts'
import { PublicKey } from '../../shared/evidence/ed25519.ts'
import { PATTERNS } from '../../shared/ids.ts'
import type { Tier } from '../../shared/plan/plan.ts'
import { err, ok, type Result } from '../../shared/result.ts'
import { type Config, type Refusal, readPrivate } from '../config.ts'
import { openUnsigned } from './client.ts'

const KeyFile = z.strictObject({
  kty: z.literal('OKP'),
  crv: z.literal('Ed25519'),
  x: PublicKey,
  d: z.string().length(43),
  worker: z.string().regex(PATTERNS.worker),
  tenant: z.string().regex(PATTERNS.tenant),
  pool: z.string().regex(PATTERNS.name),
  edge: z.strictObject({ kid: z.string(), x: PublicKey }),
})

export type Identity = {
  readonly worker: string
  readonly tenant: string
  readonly pool: string
  readonly signer: Signer
  readonly edge: { readonly kid: string; readonly x: string }
}

export const keyPath = (home: string): string => join(home, 'key.json')

export function readIdentity(config: Config): Result<Identity, Refusal> {
  const path = keyPath(config.home)
  const text = readPrivate(path)
  if (!text.ok)
    return err(`the key \`${path}\` ${text.error}; a new worker gets one with \`countersign-worker enroll\``)
  const read = KeyFile.safeParse(parsed(text.value))
  if (!read.success) return err(`the key \`${path}\` is not whole; remove it and enrol anew`)
  const { kty, crv, x, d, worker, tenant, pool, edge } = read.data
  if (tenant !== config.tenant || pool !== config.pool) {
    return err(
      `the key \`${path}\` is for tenant \`${tenant}\`, pool \`${pool}\`; the configuration says \`${config.tenant}\`, \`${config.pool}\`: mend one`,
    )
  }
  return ok({ worker, tenant, pool, signer: signerFromJwk({ kty, crv, x, d }), edge })
}

/** Whether these are the keys of the edge that we pinned. */
export const pins = ({ edge }: Pick<Identity, 'edge'>, { keys }: Keys): boolean =>
  keys.some(({ role, x, status }) => role === 'edge' && x === edge.x && status === 'active')

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Only we may look into it, or list it. */
export function makeHome(home: string): Result<void, Refusal> {
  try {
    mkdirSync(home, { recursive: true, mode: 0o700 })
    chmodSync(home, 0o700)
    return ok(undefined)
  } catch (error) {
    return err(
      `the home \`${home}\` can't be made or used (${codeOf(error)}); let it belong to the user that runs the worker`,
    )
  }
}

const codeOf = (error: unknown): string =>
  error instanceof Error && 'code' in error ? String(error.code) : 'unknown error'

/** Spends the token. The key file is taken first, so that a token is not spent on a key that can't be kept. */
export async function enrol(
  config: Config,
  token: string,
  tiers: Tier[],
): Promise<Result<Identity, Refusal>> {
  const home = makeHome(config.home)
  if (!home.ok) return home
  const path = keyPath(config.home)
  let file: number
  try {
    file = openSync(path, 'wx', 0o600)
  } catch (error) {
    return err(
      codeOf(error) === 'EEXIST'
        ? `\`${path}\` is there already; remove it to enrol this host anew`
        : `\`${path}\` can't be made (${codeOf(error)})`,
    )
  }
  try {
    const jwk = generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' }) as PrivateJwk // what Ed25519 keys export as
    const { ask, close } = openUnsigned(config.edge_url)
    const answer = await ask('enroll', {
      body: { token, x: jwk.x, name: hostName(hostname()), tiers },
    }).finally(close)
    if (!answer.ok) {
      rmSync(path, { force: true })
      return err(
        `the edge did not enrol this worker: ${answer.error.detail} (\`${answer.error.code}\`); ask an operator for a new token, each works once`,
      )
    }
    const { worker, tenant, pool, edge } = answer.value
    const { kty, crv, x, d } = jwk
    writeSync(file, `${JSON.stringify({ kty, crv, x, d, worker, tenant, pool, edge }, null, 2)}\n`)
    fsyncSync(file) // the token is spent: this file is the only proof of who we are
  } finally {
    closeSync(file)
  }
  return readIdentity(config)
}

/** A name as names are here; the host's own, as far as it goes. */
const hostName = (host: string): string =>
  `w-${host}`
    .toLowerCase()
    .replace(/[^a-z0-9_.-]/g, '-')
    .replace(/^w-(?=[a-z])/, '')
    .slice(0, 64)
