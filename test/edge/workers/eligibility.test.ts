// Promise: a worker gets only calls whose needs it has proven recently and its heartbeats confirm
// (K04, L8).

import { expect, test } from 'vitest'
import { meansNow } from '../../../edge/workers/eligibility.ts'
import { type Means, NO_RESOURCES } from '../../../shared/evidence/worker-proof.ts'
import { LIMITS } from '../../../shared/limits.ts'

const NOW = 1_800_000_000_000
const means: Means = { tiers: ['C'], egress: true, cgroups: true, profiles: [] }
const proven = { means, at: NOW }

test('K04 a worker may run the tiers that it has proven and that its heartbeats still report', () => {
  expect(meansNow({ tiers: ['B', 'C'], proven }, NOW)).toEqual(means) // B was never proven
  expect(meansNow({ tiers: ['B'], proven }, NOW)).toEqual({ ...means, tiers: [] })
  expect(meansNow({ tiers: ['B', 'C'], proven: null }, NOW)).toEqual(NO_RESOURCES)
})

test('K04 L9 a proof expires by the edge’s clock', () => {
  expect(meansNow({ tiers: ['C'], proven }, NOW + LIMITS.proof_ms)).toEqual(means)
  expect(meansNow({ tiers: ['C'], proven }, NOW + LIMITS.proof_ms + 1)).toEqual(NO_RESOURCES)
})
