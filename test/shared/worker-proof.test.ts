// Promise: a worker's proof counts only if the worker signed it, and covers only what its checks
// showed and its heartbeats confirm (K04, L8).

import { expect, test } from 'vitest'
import type { Signer } from '../../shared/evidence/dsse.ts'
import {
  intersectResources,
  NO_RESOURCES,
  type ProofPart,
  provenResources,
  readProof,
  sealProof,
  unmetNeeds,
  type WorkerProof,
  type WorkerResources,
} from '../../shared/evidence/worker-proof.ts'
import { DEFAULT_LIMITS } from '../../shared/limits.ts'
import type { ProcessPlan } from '../../shared/plan/plan.ts'
import { EDGE, STRANGER, WORKER, WORKER_ID } from './evidence.ts'

const PROVEN: ProofPart = { ok: true, lack: null, checks: [{ name: 'a canary', ok: true, seen: '' }] }
const FAILED: ProofPart = {
  ok: false,
  lack: null,
  checks: [{ name: 'a canary', ok: false, seen: 'it got out' }],
}
const PROFILE = { name: 'compiler', from: 'c_offline', sha256: '0'.repeat(64) } as const

const proof: WorkerProof = {
  format: 'countersign-worker-proof/v1',
  tenant: 'default',
  worker: WORKER_ID,
  at_ms: 1,
  took_ms: 1,
  versions: { kernel: '6', bubblewrap: '0', util_linux: '2', node: '24' },
  tiers: { B: PROVEN, C: PROVEN },
  egress: PROVEN,
  cgroups: PROVEN,
  prepared: PROVEN,
  profiles: [{ ...PROFILE, proof: PROVEN }],
}
const prover = { tenant: 'default', id: WORKER_ID, kid: WORKER.kid, x: WORKER.x }
const isRead = (change: Partial<WorkerProof>, signer: Signer = WORKER): boolean =>
  readProof(sealProof({ ...proof, ...change }, signer), prover).ok

test('K04 a proof by another signer, or for another tenant or worker, is refused', () => {
  expect(isRead({})).toBe(true)
  for (const signer of [EDGE, STRANGER, { ...STRANGER, kid: WORKER.kid }])
    expect(isRead({}, signer)).toBe(false)
  expect(isRead({ tenant: 'other' })).toBe(false)
  expect(isRead({ worker: 'wrk_01KA5XJ3M0000000000000000B' })).toBe(false)
})

test('K04 a proof that claims more than its checks show is refused, in each of its parts', () => {
  for (const lie of [
    { ...FAILED, ok: true },
    { ...PROVEN, checks: [] },
  ]) {
    for (const change of [
      { egress: lie },
      { cgroups: lie },
      { prepared: lie },
      { profiles: [{ ...PROFILE, proof: lie }] },
    ])
      expect([change, isRead(change)]).toEqual([change, false])
    for (const tier of ['B', 'C'] as const)
      expect(isRead({ tiers: { ...proof.tiers, [tier]: lie } })).toBe(false)
  }
})

test('K04 a tier, egress, cgroups or profile whose canaries failed is not proven', () => {
  const all: WorkerResources = { tiers: ['B', 'C'], egress: true, cgroups: true, profiles: [PROFILE] }
  expect(provenResources(proof)).toEqual(all)
  expect(provenResources({ ...proof, tiers: { B: FAILED, C: PROVEN } })).toEqual({ ...all, tiers: ['C'] })
  expect(provenResources({ ...proof, tiers: { B: PROVEN, C: FAILED } })).toEqual({
    ...all,
    tiers: ['B'],
    egress: false,
  })
  expect(provenResources({ ...proof, egress: FAILED, cgroups: FAILED })).toEqual({
    ...all,
    egress: false,
    cgroups: false,
  })
  expect(provenResources({ ...proof, profiles: [{ ...PROFILE, proof: FAILED }] })).toEqual({
    ...all,
    profiles: [],
  })
})

test('K04 a heartbeat can narrow what a worker has proven, and never widens it', () => {
  const all: WorkerResources = { tiers: ['B', 'C'], egress: true, cgroups: true, profiles: [PROFILE] }
  expect(intersectResources(all, all)).toEqual(all)
  for (const one of [all, NO_RESOURCES])
    expect([intersectResources(one, NO_RESOURCES), intersectResources(NO_RESOURCES, one)]).toEqual([
      NO_RESOURCES,
      NO_RESOURCES,
    ])
  const changed = { ...all, profiles: [{ ...PROFILE, sha256: '1'.repeat(64) }] }
  expect([intersectResources(all, changed).profiles, intersectResources(changed, all).profiles]).toEqual([
    [],
    [],
  ])
})

test('L8 `unmet` names every need of a plan that a worker has not proven', () => {
  const plan: ProcessPlan = {
    tier: 'C',
    executor: { kind: 'process', argv: ['true'], stdin: 'none', env: {}, cwd: '' },
    egress: { mode: 'strict', hosts: ['example.com'] },
    secrets: [],
    workspace: 'call',
    limits: DEFAULT_LIMITS,
    cgroup: true,
    profile: 'compiler',
  }
  const relayed = { ...PROFILE, from: 'c_relayed' } as const
  const enough: WorkerResources = { tiers: ['C'], egress: true, cgroups: true, profiles: [relayed] }
  expect(unmetNeeds(plan, enough)).toEqual([])
  for (const lack of [
    { tiers: ['B'] },
    { egress: false },
    { cgroups: false },
    { profiles: [] },
    { profiles: [PROFILE] },
  ] satisfies Partial<WorkerResources>[])
    expect([lack, unmetNeeds(plan, { ...enough, ...lack }).length]).toEqual([lack, 1])
  expect(unmetNeeds(plan, NO_RESOURCES)).toHaveLength(4)
})
