// Promise: the manifest of a backup is read only as far as one can be long.

import { expect, test } from 'vitest'
import { readManifest } from '../../../cli/host/manifest.ts'
import { newSigner } from '../../support/worker/peer-worker.ts'

test('a manifest of more than 256 MiB (`backup_manifest_bytes`) is refused, and no more of it is read', () => {
  const detail = '`/dev/zero` has more than 268435456 bytes, the maximum'
  expect(readManifest('/dev/zero', newSigner())).toMatchObject({ ok: false, error: { detail } })
})
