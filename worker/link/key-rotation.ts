// `countersign-worker rotate`: replaces the worker's own key. The new key is on the disk before the edge
// learns it, and the old one stays until the edge has accepted the new one, so a crash loses neither. The
// next start finishes what was interrupted: the edge may know only the new key.

import { generateKeyPairSync } from 'node:crypto'
import { existsSync, readFileSync, rmSync } from 'node:fs'
import { type PrivateJwk, signerFromJwk } from '../../shared/evidence/dsse.ts'
import { sealLink } from '../../shared/evidence/keys.ts'
import type { Code } from '../../shared/failures.ts'
import { err, ok, type Result } from '../../shared/result.ts'
import type { Config, Refusal } from '../config.ts'
import { openEdgeLink } from './client.ts'
import {
  codeOf,
  type Identity,
  keyPath,
  PrivateKey,
  readIdentity,
  storeKey,
  writeKeyFile,
} from './identity.ts'

const draftPath = (home: string): string => `${keyPath(home)}.next`

/** The identity to serve with, after an interrupted rotation was finished. */
export const presentIdentity = async (config: Config): Promise<Result<Identity, Refusal>> =>
  existsSync(draftPath(config.home)) ? rotateKey(config) : readIdentity(config)

/** No worker process may run on the home. */
export async function rotateKey(config: Config): Promise<Result<Identity, Refusal>> {
  const identity = readIdentity(config)
  if (!identity.ok) return identity
  const draft = draftPath(config.home)
  const next = readDraft(draft)
  if (!next.ok) return next
  // An earlier rotation was killed after it had stored the new key, so the edge knows that key.
  if (next.value.x === identity.value.signer.x) {
    rmSync(draft)
    return identity
  }
  const accepted = await introduce(config.edge_url, identity.value, next.value)
  if (!accepted.ok) {
    if (accepted.error.isFinal) rmSync(draft)
    return err(accepted.error.sentence)
  }
  const stored = storeKey(identity.value.path, next.value)
  if (!stored.ok) return stored
  rmSync(draft, { force: true })
  return readIdentity(config)
}

/** The key of an interrupted rotation, which the edge may have accepted; otherwise a new one. */
function readDraft(path: string): Result<PrivateJwk, Refusal> {
  try {
    if (existsSync(path)) return ok(PrivateKey.parse(JSON.parse(readFileSync(path, 'utf8'))))
    // Ed25519 keys export in this form.
    const { kty, crv, x, d } = generateKeyPairSync('ed25519').privateKey.export({
      format: 'jwk',
    }) as PrivateJwk
    writeKeyFile(path, { kty, crv, x, d })
    return ok({ kty, crv, x, d })
  } catch (error) {
    return err(`\`${path}\` can’t be read or written (${codeOf(error)}); remove it if it is damaged`)
  }
}

/** Asks with the old key, or with the new one if the edge knows it already. */
async function introduce(
  url: string,
  identity: Identity,
  next: PrivateJwk,
): Promise<Result<void, { readonly sentence: Refusal; readonly isFinal: boolean }>> {
  const to = signerFromJwk(next)
  const now = Date.now() // the edge uses its own clock
  const link = sealLink({ from_ms: now, until_ms: now, distrusts: null }, identity.signer, to)
  let refused = ''
  for (const signer of [identity.signer, to]) {
    const edge = openEdgeLink(url, { ...identity, signer })
    const answer = await edge.request('rotateWorkerKey', { body: { link } })
    edge.close()
    if (answer.ok) return ok(undefined)
    refused = `the edge did not accept the new key: ${answer.error.detail} (\`${answer.error.code}\`)`
    const { code } = answer.error
    if (REFUSED_FOR_GOOD.includes(code))
      return err({ sentence: `${refused}; the present key stays in use`, isFinal: true })
    if (code !== 'bad_signature') return err({ sentence: `${refused}; run this again`, isFinal: false })
  }
  return err({ sentence: `${refused}; ask an operator whether this worker was revoked`, isFinal: false })
}

/** The edge accepted the present key's signature, and will never accept this new key. */
const REFUSED_FOR_GOOD: readonly string[] = ['limit_reached', 'invalid_request'] satisfies Code[]
