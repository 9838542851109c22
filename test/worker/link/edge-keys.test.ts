// Promise: a worker accepts a new edge key only by the chain from the key that it has pinned (L1).

import { generateKeyPairSync } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import type { Envelope, PrivateJwk, Signer } from '../../../shared/evidence/dsse.ts'
import { signerFromJwk } from '../../../shared/evidence/dsse.ts'
import { edgeKeysOf, type Keys, sealLink } from '../../../shared/evidence/keys.ts'
import { followedFrom } from '../../../worker/link/edge-keys.ts'
import { storeEdge } from '../../../worker/link/identity.ts'

const HOUR = 3_600_000
// Ed25519.
const newJwk = () => generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' }) as PrivateJwk
const newSigner = (): Signer => signerFromJwk(newJwk())
const [first, second, third] = [newSigner(), newSigner(), newSigner()]
const pin = ({ kid, x }: Signer) => ({ kid, x })
const link = (from_ms: number, from: Signer, to: Signer, distrusted?: Signer): Envelope =>
  sealLink(
    {
      from_ms,
      until_ms: from_ms + HOUR,
      distrusts: distrusted === undefined ? null : { kid: distrusted.kid, from_ms: 0 },
    },
    from,
    to,
  )

function documentOf(start: Signer, chain: Envelope[]): Keys {
  const keys = edgeKeysOf(start.x, chain)
  return { format: 'countersign-keys/v2', tenant: 'default', keys: keys.ok ? keys.value : [], chain }
}
const CHAIN = [link(HOUR, first, second), link(2 * HOUR, second, third)]

test('L1 a worker follows each link from the pinned key to the newest, and keeps the one before it while it counts', () => {
  const before = { ...pin(second), until_ms: 3 * HOUR }
  for (const pinned of [first, second])
    expect(followedFrom({ edge: pin(pinned) }, documentOf(first, CHAIN))).toEqual({
      ok: true,
      value: { edge: pin(third), before },
    })
  expect(followedFrom({ edge: pin(third) }, documentOf(first, CHAIN))).toEqual({
    ok: true,
    value: { edge: pin(third) },
  })
})

test('L1 a new key is refused if no chain leads to it from the pinned one, and so is an earlier key that was distrusted', () => {
  const unsigned = { ...documentOf(first, CHAIN), chain: [link(HOUR, third, second)] }
  for (const keys of [documentOf(second, CHAIN.slice(1)), documentOf(third, []), unsigned])
    expect(followedFrom({ edge: pin(first) }, keys).ok).toBe(false)
  const stolen = documentOf(first, [link(HOUR, first, second, first)])
  expect(followedFrom({ edge: pin(first) }, stolen)).toEqual({ ok: true, value: { edge: pin(second) } })
})

const folder = mkdtempSync(join(tmpdir(), 'countersign-pin-'))
afterAll(() => rmSync(folder, { recursive: true }))

test('a new edge key is stored in the key file, which keeps everything else and stays private', () => {
  const path = join(folder, 'key.json')
  const { kty, crv, x, d } = newJwk()
  const own = { kty, crv, x, d, worker: `wrk_${'0'.repeat(26)}`, tenant: 'default', pool: 'default' }
  writeFileSync(path, JSON.stringify({ ...own, edge: pin(first) }), { mode: 0o600 })
  const before = { ...pin(first), until_ms: 7 }
  expect(storeEdge(path, { edge: pin(second), before }).ok).toBe(true)
  expect(JSON.parse(readFileSync(path, 'utf8'))).toEqual({ ...own, edge: pin(second), before })
  expect(storeEdge(path, { edge: pin(third) }).ok).toBe(true)
  expect(JSON.parse(readFileSync(path, 'utf8'))).toEqual({ ...own, edge: pin(third) })
  expect(statSync(path).mode & 0o777).toBe(0o600)
  expect(storeEdge(join(folder, 'absent.json'), { edge: pin(third) }).ok).toBe(false)
})
