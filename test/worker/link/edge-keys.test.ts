// Promise: a worker accepts a new edge key only by the chain from the key that it has pinned (L1).

import { generateKeyPairSync } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  countersign,
  type Envelope,
  type PrivateJwk,
  type Signer,
  signerFromJwk,
} from '../../../shared/evidence/dsse.ts'
import { edgeKeysOf, type Keys, sealLink } from '../../../shared/evidence/keys.ts'
import { readConfig } from '../../../worker/config.ts'
import { openLog } from '../../../worker/host/log.ts'
import { openEdgeLink } from '../../../worker/link/client.ts'
import { EdgeKeys, followedFrom } from '../../../worker/link/edge-keys.ts'
import { enrol } from '../../../worker/link/enrolment.ts'
import { storeEdge } from '../../../worker/link/identity.ts'
import { FakeEdge } from '../../support/worker/fake-edge.ts'

const HOUR = 3_600_000
// Ed25519.
const newJwk = () => generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' }) as PrivateJwk
const newSigner = (): Signer => signerFromJwk(newJwk())
const [first, second, third] = [newSigner(), newSigner(), newSigner()]
const [root, otherRoot] = [newSigner(), newSigner()]
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
const rootedLink = (from_ms: number, from: Signer, to: Signer, by = root): Envelope => {
  const times = { from_ms, until_ms: from_ms + HOUR, distrusts: null }
  return countersign(sealLink({ ...times, root: by.x }, from, to), by)
}

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

test('L1 T03 a worker that knows the root follows no link without it, whatever came before its pinned key', () => {
  const pinned = { edge: pin(second), root: root.x }
  const forged = [
    documentOf(second, [link(2 * HOUR, second, third)]),
    documentOf(second, [rootedLink(2 * HOUR, second, third, otherRoot)]),
    documentOf(first, [link(HOUR, first, second), link(2 * HOUR, second, third)]),
    documentOf(first, [
      rootedLink(HOUR, first, second, otherRoot),
      rootedLink(2 * HOUR, second, third, otherRoot),
    ]),
  ]
  for (const keys of forged) {
    expect(followedFrom({ edge: pin(second) }, keys).ok).toBe(true)
    expect(followedFrom(pinned, keys)).toEqual({
      ok: false,
      error: 'the link from the pinned key is not signed by the pinned root',
    })
  }
  const genuine = documentOf(first, [rootedLink(HOUR, first, second), rootedLink(2 * HOUR, second, third)])
  const before = { ...pin(second), until_ms: 3 * HOUR }
  for (const from of [{ edge: pin(first) }, pinned])
    expect(followedFrom(from, genuine)).toEqual({
      ok: true,
      value: { edge: pin(third), before, root: root.x },
    })
  expect(followedFrom(pinned, documentOf(second, []))).toEqual({ ok: true, value: pinned })
})

const folder = mkdtempSync(join(tmpdir(), 'countersign-pin-'))
const edge = new FakeEdge()
beforeAll(() => edge.start())
afterAll(async () => {
  await edge.stop()
  rmSync(folder, { recursive: true })
})

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

test('L1 an enrolment pins the root, and a worker asks an edge that is away for its new key until it answers', async () => {
  const home = join(folder, 'home')
  const path = join(folder, 'worker.json')
  const { url, tenant, pool, signer } = edge
  const fields = { edge_url: url, tenant, pool, redis_url: 'redis://127.0.0.1:1', home }
  writeFileSync(path, JSON.stringify(fields), { mode: 0o600 })
  const config = readConfig(path, {})
  if (!config.ok) throw new Error(config.error)
  const chain = [rootedLink(HOUR, first, signer)]
  edge.misbehave('keys', { status: 200, body: documentOf(first, chain) })
  const enrolled = await enrol(config.value, edge.token, [])
  if (!enrolled.ok) throw new Error(enrolled.error)
  const stored = () => JSON.parse(readFileSync(join(home, 'key.json'), 'utf8')) as object
  expect(stored()).toMatchObject({ edge: pin(signer), root: root.x })

  const edgeLink = openEdgeLink(url, enrolled.value)
  const lines: string[] = []
  const edgeKeys = new EdgeKeys(
    enrolled.value,
    edgeLink,
    openLog(true, (line) => lines.push(line)),
  )
  edge.misbehave('keys', 'html', { times: 3 })
  const next = documentOf(first, [...chain, rootedLink(2 * HOUR, signer, second)])
  edge.misbehave('keys', { status: 200, body: next })
  expect(edgeKeys.accepted(second.kid, 0)).toBeUndefined()
  await edgeKeys.learn({ patience_ms: 10_000, signal: new AbortController().signal })
  edgeLink.close()
  expect(edgeKeys.accepted(second.kid, 0)).toBe(second.x)
  expect(edgeKeys.accepted(signer.kid, 3 * HOUR - 1)).toBe(signer.x)
  expect(stored()).toMatchObject({ edge: pin(second), root: root.x })
  expect(lines.map((line) => JSON.parse(line).msg)).toEqual(['the edge has a new key'])
})

test('a worker that was enrolled before the edge had a root pins it with the next answer', () => {
  const path = join(folder, 'rootless.json')
  const { kty, crv, x, d } = newJwk()
  const own = { worker: `wrk_${'0'.repeat(26)}`, tenant: 'default', pool: 'default', edge: pin(second) }
  const before = { ...pin(first), until_ms: 2 * HOUR }
  writeFileSync(path, JSON.stringify({ kty, crv, x, d, ...own, before }), { mode: 0o600 })
  const identity = { path, ...own, before, signer: signerFromJwk({ kty, crv, x, d }) }
  const edgeLink = openEdgeLink(edge.url, identity)
  const edgeKeys = new EdgeKeys(
    identity,
    edgeLink,
    openLog(true, () => undefined),
  )
  expect(edgeKeys.follow(documentOf(first, [rootedLink(HOUR, first, second)])).ok).toBe(true)
  expect(edgeKeys.follow(documentOf(second, [link(2 * HOUR, second, third)])).ok).toBe(false)
  edgeLink.close()
  expect(edgeKeys.accepted(first.kid, HOUR)).toBe(first.x)
  expect(JSON.parse(readFileSync(path, 'utf8'))).toMatchObject({ edge: pin(second), before, root: root.x })
})
