// Promise: a run is sealed only after it has rested, and only if nothing in it is still to come.

import { expect, test } from 'vitest'
import { type RestFacts, restedAt } from '../../../edge/run/sealing/rest.ts'
import { LIMITS } from '../../../shared/limits.ts'

const NOW = 1_800_000_000_000
const RESTED: RestFacts = {
  isDelivered: true,
  nextDue: null,
  storedBytes: LIMITS.sealed_run_bytes,
  born: NOW - 10_000,
  changed: NOW,
  sealAfterMs: LIMITS.seal_after_s * 1_000,
}

test('a run rests for `LIMITS.seal_after_s` after its last change', () => {
  expect(restedAt(RESTED)).toBe(NOW + 3_600_000)
  expect(restedAt({ ...RESTED, born: null })).toBe(NOW + 3_600_000)
})

test('no run is sealed before it is `LIMITS.seal_never_before_ms` old, when requests begin to ask the archive', () => {
  const late = { ...RESTED, born: NOW + 3_600_000, sealAfterMs: 1 }
  expect(restedAt(late)).toBe(NOW + 3_600_000 + LIMITS.seal_never_before_ms)
})

const STAYS: ReadonlyArray<readonly [string, Partial<RestFacts>]> = [
  ['with something to deliver, or without calls', { isDelivered: false }],
  ['with a live call, a client that is gone or a file', { nextDue: NOW + 1 }],
  ['of more than `LIMITS.sealed_run_bytes`', { storedBytes: LIMITS.sealed_run_bytes + 1 }],
]
test.each(STAYS)('a run %s is not sealed', (_, facts) => {
  expect(restedAt({ ...RESTED, ...facts })).toBe(null)
})
