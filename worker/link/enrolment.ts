// `countersign-worker enrol`: makes the worker's first key, and pins the edge key and its root.

import { generateKeyPairSync } from 'node:crypto'
import { closeSync, fsyncSync, openSync, rmSync, writeSync } from 'node:fs'
import { hostname } from 'node:os'
import type { PrivateJwk } from '../../shared/evidence/dsse.ts'
import type { Tier } from '../../shared/plan/plan.ts'
import { err, type Result } from '../../shared/result.ts'
import type { Config, Refusal } from '../config.ts'
import { openUnsignedLink } from './client.ts'
import { followedFrom } from './edge-keys.ts'
import { codeOf, type Identity, keyPath, makeHome, readIdentity, syncFolderOf } from './identity.ts'

/**
 * Uses up the token. Creates the key file first, so that no token is wasted on a key that can't be
 * stored, and reads the edge's keys first, so that their root is pinned with the edge key.
 */
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
        ? `\`${path}\` already exists; remove it to enrol this host again`
        : `\`${path}\` can’t be created (${codeOf(error)})`,
    )
  }
  try {
    // Ed25519 keys export in this form.
    const jwk = generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' }) as PrivateJwk
    const { ask, close } = openUnsignedLink(config.edge_url)
    const keys = await ask('keys', { query: { tenant: config.tenant } })
    const body = { token, x: jwk.x, name: workerNameFor(hostname()), tiers }
    const answer = keys.ok ? await ask('enrol', { body }) : keys
    close()
    if (!answer.ok) {
      rmSync(path, { force: true })
      return err(
        `the edge did not enrol this worker: ${answer.error.detail} (\`${answer.error.code}\`); ask an operator for a new token, since each works only once`,
      )
    }
    const { worker, tenant, pool, edge } = answer.value
    const followed = keys.ok ? followedFrom({ edge }, keys.value) : keys
    // If the edge got a new key between the two answers, the first start learns the root.
    const pinned = followed.ok ? followed.value : { edge }
    const { kty, crv, x, d } = jwk
    writeSync(file, `${JSON.stringify({ kty, crv, x, d, worker, tenant, pool, ...pinned }, null, 2)}\n`)
    fsyncSync(file) // the token is used up: this file now is the worker's only credential
    syncFolderOf(path)
  } finally {
    closeSync(file)
  }
  return readIdentity(config)
}

/** The host's name, adapted to our rules for names. */
const workerNameFor = (host: string): string =>
  `w-${host}`
    .toLowerCase()
    .replace(/[^a-z0-9_.-]/g, '-')
    .replace(/^w-(?=[a-z])/, '')
    .slice(0, 64)
