// Promise: a rotation of a worker's key that was killed at any point is finished by the next one.

import { generateKeyPairSync } from 'node:crypto'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { readConfig } from '../../../worker/config.ts'
import { rotateKey } from '../../../worker/link/key-rotation.ts'

const home = mkdtempSync(join(tmpdir(), 'countersign-rotation-'))
afterAll(() => rmSync(home, { recursive: true }))

test('a rotation that was killed after it had stored the new key counts as done, without the edge', async () => {
  const { kty, crv, x, d } = generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' })
  const [own, edge] = [
    { kty, crv, x, d },
    { kid: 'ed25519:0123456789abcdef', x },
  ]
  const [path, draft] = [join(home, 'key.json'), join(home, 'key.json.next')]
  const rest = { worker: `wrk_${'0'.repeat(26)}`, tenant: 'default', pool: 'default', edge }
  writeFileSync(path, JSON.stringify({ ...own, ...rest }), { mode: 0o600 })
  writeFileSync(draft, JSON.stringify(own), { mode: 0o600 })
  const fields = { tenant: 'default', pool: 'default', redis_url: 'redis://127.0.0.1:1', home }
  const file = join(home, 'worker.json')
  writeFileSync(file, JSON.stringify({ ...fields, edge_url: 'http://127.0.0.1:1' }), { mode: 0o600 })
  const config = readConfig(file, {})
  if (!config.ok) throw new Error(config.error)
  expect(await rotateKey(config.value)).toMatchObject({ ok: true, value: { worker: rest.worker } })
  expect(existsSync(draft)).toBe(false)
  expect(JSON.parse(readFileSync(path, 'utf8'))).toEqual({ ...own, ...rest })
})
