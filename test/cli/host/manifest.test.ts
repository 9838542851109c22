// Promise: the manifest of a backup is read only as far as one can be long, and only if a key of the
// installation has signed it that was trusted then.

import { generateKeyPairSync } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { readManifest, sealManifest } from '../../../cli/host/manifest.ts'
import type { PrivateJwk } from '../../../shared/evidence/dsse.ts'
import {
  edgeKeys,
  edgeSigner,
  type KeyRing,
  readKeyRing,
  rotated,
} from '../../../shared/evidence/key-ring.ts'

test('a manifest of more than 256 MiB (`backup_manifest_bytes`) is refused, and no more of it is read', () => {
  const detail = '`/dev/zero` has more than 268435456 bytes, the maximum'
  expect(readManifest('/dev/zero', [])).toMatchObject({ ok: false, error: { detail } })
})

test('T03 a backup from before a rotation is restored, and one that a key signed after its theft is not', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'countersign-manifest-'))
  const path = join(folder, 'manifest.json')
  const jwk = generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' }) as PrivateJwk // Ed25519
  const ringOf = (read: ReturnType<typeof readKeyRing>): KeyRing => {
    if (!read.ok) throw new Error(read.error)
    return read.value
  }
  const ring = ringOf(readKeyRing(jwk))
  const { kid } = edgeSigner(ring)
  const after = async (since: number | null) =>
    edgeKeys(
      ringOf(
        await rotated(ring, {
          from_ms: 900,
          until_ms: 1_000,
          distrusts: since === null ? null : { kid, from_ms: since },
        }),
      ),
    )
  const manifest = { version: '1', migrations: [], cut_at_ms: 500, restores: 0, logs: [], files: [] }
  writeFileSync(path, sealManifest(manifest, edgeSigner(ring)))
  for (const since of [null, 501]) expect(readManifest(path, await after(since)).ok).toBe(true)
  expect(readManifest(path, await after(500))).toMatchObject({ ok: false, error: { code: 'distrusted_key' } })
  expect(readManifest(path, (await after(null)).slice(1))).toMatchObject({
    ok: false,
    error: { code: 'other_installation' },
  })
  rmSync(folder, { recursive: true })
})
