// Promise: the answer to a skill with very many faults is short.

import { expect, test } from 'vitest'
import { checkManifest } from '../../../../edge/skills/publish/audit.ts'

test('one answer lists at most 32 faults of a package (`skill_faults`)', () => {
  type Needs = Parameters<typeof checkManifest>[0]
  const faults = (count: number) => {
    const hosts = Array.from({ length: count }, (_, n) => `.h${n}.example.com:443`)
    // A wildcard without an opt-in is one fault each. Only these parts are read.
    const manifest = { id: 's', tools: [], capabilities: { http: { hosts } } }
    const checked = checkManifest({ manifest, imports: [] } as unknown as Needs)
    return checked.ok ? 0 : checked.error.errors?.length
  }
  expect([faults(32), faults(40)]).toEqual([32, 32])
  expect(faults(31)).toBe(31)
})
