// Promise: evidence is judged by the time in which its key signed, a later edge key counts only if the
// one before it introduced it, and nothing that a distrusted key signed later counts.

import { generateKeyPairSync, hkdfSync } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { type Bundle, verifyBundle } from '../../../shared/evidence/bundle.ts'
import type { Envelope, PrivateJwk, Signer } from '../../../shared/evidence/dsse.ts'
import { countersign, kidOf, seal, signerFromJwk } from '../../../shared/evidence/dsse.ts'
import {
  derive,
  edgeKeys,
  edgeSigner,
  type KeyRing,
  readKeyRing,
  rotated,
  vaultId,
  withoutFormerVaults,
} from '../../../shared/evidence/key-ring.ts'
import {
  edgeKeysOf,
  followChain,
  type Keys,
  keyAt,
  type Link,
  readKeys,
  sealLink,
  undatedEdgeKeys,
} from '../../../shared/evidence/keys.ts'
import type { Result } from '../../../shared/result.ts'
import {
  collude,
  EDGE,
  executedBundle,
  KEYS,
  logFor,
  NOW,
  regrant,
  STRANGER,
  WORKER,
  WORKER_ID,
} from '../evidence.ts'

const HOUR = 3_600_000
const JWK = generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' }) as PrivateJwk // Ed25519
const [SECOND, THIRD] = [STRANGER, signerFromJwk(JWK)]
type Terms = Omit<Link, 'follows' | 'key'>
const at = (from_ms: number, distrusts: Terms['distrusts'] = null): Terms => ({
  from_ms,
  until_ms: from_ms + HOUR,
  distrusts,
})
const value = <T, E>(result: Result<T, E>): T => {
  if (!result.ok) throw new Error(JSON.stringify(result.error))
  return result.value
}
/** The document of an edge with this chain, and the worker of the bundles. */
const documentOf = (chain: readonly Envelope[]): Keys => ({
  ...KEYS,
  keys: [...value(edgeKeysOf(EDGE.x, chain)), ...KEYS.keys.slice(1)],
  chain: [...chain],
})
const failed = (bundle: Bundle, keys: Keys): string[] =>
  verifyBundle(bundle, keys).checks.flatMap(({ name, ok }) => (ok ? [] : [name]))

const rotatedDocument = (): Keys => documentOf([sealLink(at(NOW + 15), EDGE, SECOND)])

describe('the chain of edge keys', () => {
  const [first, second] = [sealLink(at(10 * HOUR), EDGE, SECOND), sealLink(at(20 * HOUR), SECOND, THIRD)]

  test('each link leads to the next key, with the times in which each one signs', () => {
    expect(value(edgeKeysOf(EDGE.x, [first, second]))).toMatchObject([
      { kid: kidOf(EDGE.x), from_ms: 0, until_ms: 11 * HOUR, status: 'retired' },
      { kid: kidOf(SECOND.x), from_ms: 10 * HOUR, until_ms: 21 * HOUR, status: 'retired' },
      { kid: kidOf(THIRD.x), from_ms: 20 * HOUR, until_ms: null, status: 'active' },
    ])
  })

  const link = (terms: object, by: readonly Signer[], type = 'application/vnd.countersign.key-link+json') => {
    const [one = EDGE, ...others] = by
    const payload = { ...at(10 * HOUR), follows: EDGE.x, key: SECOND.x, ...terms }
    return others.reduce(countersign, seal(type, payload, one))
  }
  const wrong: readonly (readonly [string, readonly Envelope[]])[] = [
    ['signed by the new key alone', [link({}, [SECOND])]],
    ['signed by the earlier key alone', [link({}, [EDGE])]],
    ['signed by a third key too', [link({}, [EDGE, SECOND, THIRD])]],
    ['signed by a stranger in the place of the earlier key', [link({}, [THIRD, SECOND])]],
    ['of another payload type', [link({}, [EDGE, SECOND], 'application/vnd.in-toto+json')]],
    ['that follows another key', [link({ follows: THIRD.x }, [THIRD, SECOND])]],
    ['that claims to follow another key', [link({ follows: THIRD.x }, [EDGE, SECOND])]],
    ['that leads back to an earlier key', [first, sealLink(at(20 * HOUR), SECOND, EDGE)]],
    ['that begins before the key that it follows', [first, sealLink(at(9 * HOUR), SECOND, THIRD)]],
    ['that ends before it begins', [link({ until_ms: 0 }, [EDGE, SECOND])]],
    ['that distrusts an unknown key', [link({ distrusts: { kid: 'x', from_ms: 0 } }, [EDGE, SECOND])]],
    ['with an unknown field', [link({ more: 1 }, [EDGE, SECOND])]],
    ['that was left out', [second]],
    ['in the wrong order', [second, first]],
  ]
  test.each(wrong)('T03 a chain with a link %s is refused', (_name, chain) => {
    expect(edgeKeysOf(EDGE.x, chain)).toEqual({
      ok: false,
      error: expect.stringMatching(/^link \d of the chain/),
    })
    expect(readKeys({ ...KEYS, chain })).toMatchObject({ ok: false, error: { at: '/chain' } })
  })

  test('T03 a document whose edge keys are not those of its chain is refused', () => {
    const good = documentOf([first])
    expect(readKeys(good)).toEqual({ ok: true, value: good })
    const [old, now, worker] = good.keys
    if (old === undefined || now === undefined || worker === undefined) throw new Error('it has three keys')
    const changed = [
      [old, worker],
      [now, old, worker],
      [{ ...old, until_ms: null }, now, worker],
      [{ ...old, status: 'active' }, now, worker],
      [old, { ...now, from_ms: 0 }, worker],
      [old, now, { ...worker, kid: kidOf(THIRD.x) }],
      [old, now, worker, worker],
      [worker],
    ]
    for (const keys of changed) expect(readKeys({ ...good, keys }).ok).toBe(false)
  })

  test('T03 a pinned file is continued only by a document with its first key and all its links', () => {
    const pinned = documentOf([first])
    const later = documentOf([first, second])
    expect(followChain(KEYS, later)).toEqual({ ok: true, value: later })
    expect(followChain(pinned, later)).toEqual({ ok: true, value: later })
    const rival = documentOf([sealLink(at(10 * HOUR), EDGE, THIRD)])
    const forgetful = documentOf([sealLink(at(10 * HOUR, { kid: kidOf(EDGE.x), from_ms: 0 }), EDGE, SECOND)])
    const others = [KEYS, rival, forgetful, { ...later, tenant: 'other' }]
    for (const fetched of others) expect(followChain(pinned, fetched).ok).toBe(false)
    const elsewhere = { ...KEYS, keys: value(edgeKeysOf(THIRD.x, [])) }
    expect(followChain(KEYS, elsewhere).ok).toBe(false)
  })

  test('a chain of more than 31 links (`edge_keys`) is refused', () => {
    const signers = Array.from({ length: 33 }, () =>
      signerFromJwk(generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' }) as PrivateJwk),
    )
    const chain = signers.slice(1).map((key, i) => sealLink(at(i), signers[i] ?? EDGE, key))
    const first = signers[0]?.x ?? ''
    const read = (links: readonly Envelope[]) =>
      readKeys({ ...KEYS, keys: value(edgeKeysOf(first, links)), chain: links })
    expect([read(chain.slice(0, 31)).ok, read(chain).ok]).toEqual([true, false])
  })
})

describe('the time of a signature', () => {
  const document = () => documentOf([sealLink(at(10 * HOUR), EDGE, SECOND)])
  const edge = (kid: string, after_ms: number, before_ms?: number) =>
    keyAt(document(), { kid, role: 'edge' }, { after_ms, ...(before_ms === undefined ? {} : { before_ms }) })
      .ok

  test('a retired key counts until its end, and a new key only from its beginning', () => {
    const [old, now] = [kidOf(EDGE.x), kidOf(SECOND.x)]
    expect([edge(old, 11 * HOUR), edge(old, 11 * HOUR + 5_001)]).toEqual([true, false])
    expect([edge(now, HOUR), edge(now, HOUR, HOUR), edge(now, HOUR, 10 * HOUR)]).toEqual([true, false, true])
  })

  test('a key is found only under its own role and worker', () => {
    const of = (role: 'edge' | 'worker', worker?: string) =>
      keyAt(KEYS, { kid: kidOf(WORKER.x), role, worker }, { after_ms: 0 }).ok
    expect([
      of('worker', WORKER_ID),
      of('worker'),
      of('edge'),
      of('worker', `${WORKER_ID.slice(0, -1)}B`),
    ]).toEqual([true, false, false, false])
  })

  test('an attestation that the new key countersigned verifies with a grant that an earlier key signed', () => {
    expect(failed(executedBundle(), rotatedDocument())).toEqual([])
    expect(failed(collude(executedBundle(), {}, [WORKER, SECOND]), rotatedDocument())).toEqual([])
  })

  test('T03 a grant that was issued outside of its key’s time is refused', () => {
    const early = documentOf([sealLink(at(NOW + HOUR), EDGE, SECOND)])
    const bundle = regrant(executedBundle(), {}, SECOND)
    expect(failed(bundle, early)).toContain('the grant is the edge’s, for this call and worker')
    const long = documentOf([sealLink(at(NOW - 2 * HOUR), EDGE, SECOND)])
    expect(failed(executedBundle(), long)).toEqual(['the edge’s key is trusted for that time'])
  })

  test('T03 what a distrusted key signed after its theft is refused, and what it signed before counts', () => {
    const since = (from_ms: number) =>
      documentOf([sealLink(at(NOW + HOUR, { kid: kidOf(EDGE.x), from_ms }), EDGE, SECOND)])
    // A checkpoint has no time, so the head of the log has to be one that another key has signed since.
    const bundle = executedBundle()
    const read = { ...bundle, log: logFor(bundle.journal, SECOND) }
    expect(failed(read, since(NOW + 21))).toEqual([])
    expect(failed(bundle, since(NOW + 21))).toEqual([
      'the edge signed the checkpoint of the tenant’s log',
      'the end of the call is in the log under this checkpoint',
    ])
    expect(failed(executedBundle(), since(NOW + 20))).toEqual(['the edge’s key is trusted for that time'])
    expect(undatedEdgeKeys(since(NOW)).map(({ kid }) => kid)).toEqual([kidOf(SECOND.x)])
    const again = sealLink(at(NOW + 2 * HOUR, { kid: kidOf(EDGE.x), from_ms: NOW + HOUR }), SECOND, THIRD)
    const [distrusted] = documentOf([...since(NOW + 20).chain, again]).keys
    expect(distrusted).toMatchObject({ status: 'distrusted', distrusted_from_ms: NOW + 20 })
  })
})

describe('the key ring of an edge', () => {
  const ring = value(readKeyRing(JWK))

  test('a lone key keeps every secret that was ever derived from it', () => {
    const derived = (use: string): string =>
      Buffer.from(
        hkdfSync('sha256', Buffer.from(JWK.d, 'base64url'), Buffer.alloc(0), `countersign ${use} v1`, 32),
      ).toString('base64url')
    expect([ring.ids, ring.vaults]).toEqual([derived('run id'), [derived('vault')]])
    for (const use of ['approval link', 'hidden value', 'agent webhook', 'mcp state'])
      expect(derive(ring.root, use).toString('base64url')).toBe(derived(use))
  })

  const secrets = ({ root, ids }: KeyRing): string[] => [root, ids]
  test('a rotation makes a new signing key and a new vault key, and keeps links and run ids', async () => {
    const next = value(await rotated(ring, at(NOW)))
    expect(edgeKeys(next).map(({ x }) => x)).toEqual([JWK.x, edgeSigner(next).x])
    expect(secrets(next)).toEqual(secrets(ring))
    expect(next.vaults.slice(1)).toEqual(ring.vaults)
    expect(JSON.stringify(next)).not.toContain(JWK.d)
    expect(vaultId(next)).not.toBe(vaultId(ring))
    expect(withoutFormerVaults(next).vaults).toEqual(next.vaults.slice(0, 1))
    expect(readKeyRing(JSON.parse(JSON.stringify(next)))).toEqual({ ok: true, value: next })
  })

  test('T03 after a distrust, links, marks, cursors and webhooks are made from new secrets', async () => {
    const next = value(await rotated(ring, at(NOW, { kid: kidOf(JWK.x), from_ms: 0 })))
    expect([next.root === ring.root, next.ids]).toEqual([false, ring.ids])
    expect(edgeKeys(next)[0]?.status).toBe('distrusted')
    expect((await rotated(ring, at(NOW, { kid: 'ed25519:0000', from_ms: 0 }))).ok).toBe(false)
  })

  test('a ring whose chain leads elsewhere, or that is damaged, is refused without being quoted', async () => {
    const next = value(await rotated(ring, at(NOW)))
    const others: unknown[] = [
      { ...next, signing: ring.signing },
      { ...next, chain: [] },
      { ...next, first: THIRD.x === JWK.x ? EDGE.x : THIRD.x },
      { ...next, vaults: [] },
      { ...next, root: 'short' },
      { ...JWK, d: 'short' },
      null,
    ]
    for (const other of others) {
      const read = readKeyRing(other)
      expect(read.ok).toBe(false)
      expect(JSON.stringify(read)).not.toContain(next.signing.d)
    }
  })

  const theft = { kid: kidOf(JWK.x), from_ms: 0 }
  const refused = (why: string) => ({ ok: false, error: expect.stringContaining(why) })

  test('T03 rotations fill three of four places for keys of the vaults (`vault_keys_rotated`, `vault_keys`), and the last is for a distrust', async () => {
    let many = ring
    for (let count = 1; count < 3; count++) many = value(await rotated(many, at(NOW + count)))
    expect(await rotated(many, at(NOW + 9))).toEqual(refused('keys forget'))
    const safe = value(await rotated(many, at(NOW + 9, theft)))
    expect(safe.vaults).toHaveLength(4)
    expect(await rotated(safe, at(NOW + 9, theft))).toEqual(refused('keys forget'))
    for (const distrusts of [null, theft])
      expect((await rotated(withoutFormerVaults(safe), at(NOW + 9, distrusts))).ok).toBe(true)
  })

  test('T03 rotations bring an edge to 24 of its 32 keys (`edge_keys_rotated`), and the rest are for distrusts', async () => {
    const next = async (from: KeyRing, distrusts: Terms['distrusts']) =>
      withoutFormerVaults(value(await rotated(from, at(NOW, distrusts))))
    let many = ring
    for (let keys = 1; keys < 24; keys++) many = await next(many, null)
    expect(edgeKeys(many)).toHaveLength(24)
    expect(await rotated(many, at(NOW))).toEqual(refused('set up a new installation'))
    for (let keys = 24; keys < 32; keys++) many = await next(many, theft)
    expect(edgeKeys(many)).toHaveLength(32)
    expect(await rotated(many, at(NOW, theft))).toEqual(refused('set up a new installation'))
  })
})
