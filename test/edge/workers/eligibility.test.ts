// Promise: a worker gets only calls whose needs it has proven recently and its heartbeats confirm
// (K04, L8).

import { expect, test } from 'vitest'
import { currentResources } from '../../../edge/workers/eligibility.ts'
import { NO_RESOURCES, type WorkerResources } from '../../../shared/evidence/worker-proof.ts'
import { LIMITS } from '../../../shared/limits.ts'

const NOW = 1_800_000_000_000
const means: WorkerResources = { tiers: ['C'], egress: true, cgroups: true, profiles: [] }
const proven = { means, at: NOW }

test('K04 a worker may run the tiers that it has proven and that its heartbeats still report', () => {
  expect(currentResources({ tiers: ['B', 'C'], proven }, NOW)).toEqual(means) // B was never proven
  expect(currentResources({ tiers: ['B'], proven }, NOW)).toEqual({ ...means, tiers: [] })
  expect(currentResources({ tiers: ['B', 'C'], proven: null }, NOW)).toEqual(NO_RESOURCES)
})

test('K04 L9 a proof expires by the edge’s clock', () => {
  expect(currentResources({ tiers: ['C'], proven }, NOW + LIMITS.proof_ms)).toEqual(means)
  expect(currentResources({ tiers: ['C'], proven }, NOW + LIMITS.proof_ms + 1)).toEqual(NO_RESOURCES)
})
