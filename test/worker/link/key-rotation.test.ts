// Promise: a rotation of a worker's key that was killed at any point is finished by the next one, or by the
// worker's next start, so that no worker signs with a key that its edge has replaced.

import { generateKeyPairSync } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { readConfig } from '../../../worker/config.ts'
import { presentIdentity, rotateKey } from '../../../worker/link/key-rotation.ts'

type Answer = { readonly status: number; readonly body: object }
const refusal = (status: number, code: string): Answer => ({
  status,
  body: { type: `urn:countersign:${code}`, title: code, status, detail: 'no', code },
})

/** A worker's home whose rotation was interrupted, and an edge that gives these answers, one after the other. */
async function interrupted(answers: readonly Answer[], isStored = false) {
  const home = mkdtempSync(join(tmpdir(), 'countersign-rotation-'))
  const left = [...answers]
  const edge = createServer((request, response) => {
    request.resume()
    const { status, body } = left.shift() ?? { status: 500, body: {} }
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  }).listen(0, '127.0.0.1')
  await once(edge, 'listening')
  onTestFinished(() => {
    edge.close()
    rmSync(home, { recursive: true })
  })
  const [old, next] = [newKey(), newKey()]
  const [path, draft] = [join(home, 'key.json'), join(home, 'key.json.next')]
  const pinned = { kid: 'ed25519:0123456789abcdef', x: newKey().x }
  const rest = { worker: `wrk_${'0'.repeat(26)}`, tenant: 'default', pool: 'default', edge: pinned }
  writeFileSync(path, JSON.stringify({ ...(isStored ? next : old), ...rest }), { mode: 0o600 })
  writeFileSync(draft, JSON.stringify(next), { mode: 0o600 })
  const edge_url = `http://127.0.0.1:${(edge.address() as AddressInfo).port}`
  const fields = { tenant: 'default', pool: 'default', redis_url: 'redis://127.0.0.1:1', home, edge_url }
  const file = join(home, 'worker.json')
  writeFileSync(file, JSON.stringify(fields), { mode: 0o600 })
  const config = readConfig(file, {})
  if (!config.ok) throw new Error(config.error)
  const stored = () => JSON.parse(readFileSync(path, 'utf8'))
  return { config: config.value, draft, old, next, rest, stored, asked: () => answers.length - left.length }
}

function newKey() {
  const { kty, crv, x, d } = generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' })
  return { kty, crv, x, d }
}

test('a rotation that was killed after it had stored the new key counts as done, without the edge', async () => {
  const own = await interrupted([], true)
  expect(await rotateKey(own.config)).toMatchObject({ ok: true, value: { worker: own.rest.worker } })
  expect([existsSync(own.draft), own.asked()]).toEqual([false, 0])
  expect(own.stored()).toEqual({ ...own.next, ...own.rest })
})

test('a worker that starts after an interrupted rotation serves with the new key, which the edge may know already', async () => {
  const accepted = { status: 200, body: { kid: 'ed25519:0123456789abcdef' } }
  for (const answers of [[accepted], [refusal(401, 'bad_signature'), accepted]]) {
    const own = await interrupted(answers)
    expect(await presentIdentity(own.config)).toMatchObject({
      ok: true,
      value: { signer: { x: own.next.x } },
    })
    expect([existsSync(own.draft), own.asked()]).toEqual([false, answers.length])
    expect(own.stored()).toEqual({ ...own.next, ...own.rest })
  }
})

test('a worker does not start with a key that the edge may no longer accept', async () => {
  const unreachable = await interrupted([])
  expect(await presentIdentity(unreachable.config)).toEqual({
    ok: false,
    error: expect.stringMatching(/^the edge did not accept the new key: .*; run this again$/),
  })
  expect(existsSync(unreachable.draft)).toBe(true)
  const revoked = await interrupted([refusal(401, 'bad_signature'), refusal(401, 'bad_signature')])
  expect(await presentIdentity(revoked.config)).toEqual({
    ok: false,
    error: expect.stringContaining('ask an operator whether this worker was revoked'),
  })
})

test('a worker whose new key the edge refuses for good keeps its present key', async () => {
  const own = await interrupted([refusal(409, 'limit_reached')])
  expect(await presentIdentity(own.config)).toMatchObject({ ok: false })
  expect(await presentIdentity(own.config)).toMatchObject({ ok: true, value: { signer: { x: own.old.x } } })
  expect(own.asked()).toBe(1)
})
