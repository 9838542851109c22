// Promise: the root of the chain signs through a bridge whose answer is checked against the key that is
// set, and nothing is rotated without it.

import { generateKeyPairSync, sign } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { rootSigner } from '../../../cli/host/root-signer.ts'
import type { RootSettings } from '../../../cli/shell/config.ts'
import { type PrivateJwk, type Signer, signerFromJwk } from '../../../shared/evidence/dsse.ts'
import { type KeyRing, readKeyRing, rotated } from '../../../shared/evidence/key-ring.ts'
import { edgeKeysOf, rootOf } from '../../../shared/evidence/keys.ts'

// Ed25519.
const newJwk = () => generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' }) as PrivateJwk
const [jwk, other] = [newJwk(), signerFromJwk(newJwk())]
const root = signerFromJwk(jwk)
const TOKEN = 'a-token-of-the-bridge'
const LINK = { from_ms: 1, until_ms: 2, distrusts: null }

let asked: { authorization: string | undefined; redirected: number } = {
  authorization: undefined,
  redirected: 0,
}
/** How the bridge answers. */
let answer: (message: Buffer, response: ServerResponse) => void
const signedBy =
  (signer: Signer) =>
  (message: Buffer, response: ServerResponse): void =>
    void response.end(JSON.stringify({ signature: sign(null, message, signer.key).toString('base64') }))
const server = createServer((request, response) => {
  if (request.url === '/elsewhere') asked = { ...asked, redirected: asked.redirected + 1 }
  const chunks: Buffer[] = []
  request.on('data', (chunk: Buffer) => chunks.push(chunk))
  request.on('end', () => {
    asked = { ...asked, authorization: request.headers.authorization }
    const { message = '' } = JSON.parse(Buffer.concat(chunks).toString() || '{}') as { message?: string } // our own request
    answer(Buffer.from(message, 'base64'), response)
  })
})
let url: string
beforeAll(async () => {
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/` // the address of a TCP server
})
afterAll(() => {
  server.closeAllConnections()
  server.close()
})

const settings = (change: Partial<RootSettings> = {}): RootSettings => ({
  file: undefined,
  url,
  token: TOKEN,
  key: root.x,
  ...change,
})
function ringOf(read: ReturnType<typeof readKeyRing>): KeyRing {
  if (!read.ok) throw new Error(read.error)
  return read.value
}
const ring = ringOf(readKeyRing(newJwk()))
async function rotateWith(given = settings(), from = ring) {
  const signer = rootSigner(given, rootOf(from.chain))
  return signer.ok ? rotated(from, LINK, signer.value) : signer
}

test('T03 a link that a bridge signed names the bridge’s key, and every later link needs that key', async () => {
  answer = signedBy(root)
  const first = await rotateWith()
  if (!first.ok) throw new Error(JSON.stringify(first.error))
  const next = ringOf(first as ReturnType<typeof readKeyRing>)
  expect([rootOf(next.chain), asked.authorization]).toEqual([root.x, `Bearer ${TOKEN}`])
  expect((await rotateWith(settings(), next)).ok).toBe(true)
  const none = { file: undefined, url: undefined, token: undefined, key: undefined }
  for (const given of [none, settings({ key: other.x })])
    expect(await rotateWith(given, next)).toMatchObject({ ok: false, error: { code: 'root_signer_missing' } })
  expect((await rotated(next, LINK)).ok).toBe(false)
})

test('T03 a thief of the edge’s key can’t continue a chain that has a root', async () => {
  answer = signedBy(root)
  const read = await rotateWith()
  const { chain, first } = ringOf(read as ReturnType<typeof readKeyRing>)
  const stolen = ringOf(read as ReturnType<typeof readKeyRing>)
  const rival = await rotated({ ...stolen, chain: [], first: stolen.signing.x }, LINK)
  const link = ringOf(rival as ReturnType<typeof readKeyRing>).chain
  expect(edgeKeysOf(stolen.signing.x, link).ok).toBe(true)
  expect(edgeKeysOf(first, [...chain, ...link]).ok).toBe(false)
})

test('T03 a bridge that signs with another key, refuses, redirects or answers with more than 4 KiB (`root_signer_bytes`) rotates nothing', async () => {
  const wrong: readonly (typeof answer)[] = [
    signedBy(other),
    (_message, response) => void response.writeHead(500).end(),
    (_message, response) => void response.writeHead(302, { location: `${url}elsewhere` }).end(),
    (_message, response) => void response.end('{"signature":""}'),
    (message, response) => {
      const signature = sign(null, message, root.key).toString('base64')
      response.end(JSON.stringify({ signature, more: 'x'.repeat(4_096) }))
    },
    (_message, response) => void response.destroy(),
  ]
  for (const one of wrong) {
    answer = one
    expect(await rotateWith()).toEqual({ ok: false, error: expect.stringContaining('root signer') })
  }
  expect(asked.redirected).toBe(0)
})

test('a bridge that has not answered after a minute (`root_signer_s`) rotates nothing', async () => {
  answer = () => undefined
  const timeouts: number[] = []
  const { timeout } = AbortSignal
  AbortSignal.timeout = (ms) => {
    timeouts.push(ms)
    return timeout(1)
  }
  try {
    expect((await rotateWith()).ok).toBe(false)
  } finally {
    AbortSignal.timeout = timeout
  }
  expect(timeouts).toEqual([60_000])
})

test('a root signer that is set incompletely, or would send its token in the clear, is refused', () => {
  const wrong = [{ token: undefined }, { key: 'x' }, { url: undefined }, { url: 'http://kms.example.com/' }]
  for (const change of wrong)
    expect(rootSigner(settings(change), undefined)).toMatchObject({
      ok: false,
      error: { code: 'root_signer_missing' },
    })
})

test('a root may be a key file instead of a bridge', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'countersign-root-'))
  const file = join(folder, 'root.json')
  const { kty, crv, x, d } = jwk
  writeFileSync(file, JSON.stringify({ kty, crv, x, d }), { mode: 0o600 })
  const read = await rotateWith(settings({ file }))
  expect(rootOf(ringOf(read as ReturnType<typeof readKeyRing>).chain)).toBe(root.x)
  rmSync(folder, { recursive: true })
})
