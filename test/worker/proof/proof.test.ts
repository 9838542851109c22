// A worker sends the edge a signed proof of its sandboxes: at its start, periodically, and on
// SIGHUP. It stops running tiers that it can no longer prove (L8), and resumes once it can.

import { execFileSync } from 'node:child_process'
import { renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { provenResources, type WorkerProof } from '../../../shared/evidence/worker-proof.ts'
import { LIMITS } from '../../../shared/limits.ts'
import { eventually } from '../../support/eventually.ts'
import { loneWorkerForTests } from '../../support/worker/lone-worker.ts'

const lone = await loneWorkerForTests()

/** Runs a command in the worker's mount namespace, which no other process of this host shares. */
const inside = (...argv: string[]) =>
  execFileSync('/usr/bin/nsenter', ['--target', `${lone.process.pid}`, '--mount', '--', ...argv])

async function proveNow() {
  const before = lone.edge.proofs.length
  process.kill(lone.process.pid ?? 0, 'SIGHUP')
  return eventually('the edge receives the proof', () => lone.edge.proofs.slice(before).at(-1), 30_000)
}

/** Waits for a proof that the worker sends without a SIGHUP. */
const nextOwnProof = (holds: (proof: WorkerProof) => boolean) =>
  eventually('it is proven again', () => lone.edge.proofs.slice(-1).some(holds), 40_000)

const ended = async (tier: 'B' | 'C') =>
  (await lone.settled(await lone.call({ argv: ['true'], tier }), 30_000)).statement.predicate

test('L8 a worker’s first message after its enrolment is a proof with checks, results, time and versions', () => {
  const routes = lone.edge.requests.map(({ route }) => route)
  expect(routes).not.toContain('claim')
  const [proof] = lone.edge.proofs
  expect(proof && provenResources(proof).tiers).toEqual(['B', 'C'])
  expect([proof?.egress.ok, proof?.prepared?.ok]).toEqual([true, true])
  expect(Math.abs(Date.now() - (proof?.at_ms ?? 0))).toBeLessThan(LIMITS.proof_every_ms)
  expect(proof?.versions).toMatchObject({
    node: process.version,
    bubblewrap: expect.stringMatching(/^\d/),
    kernel: expect.stringMatching(/^\d/),
  })
  expect(proof?.tiers.C.checks.length).toBeGreaterThan(20)
})

test('L8 a worker that loses something a tier needs reports it and runs no call of that tier until it is repaired', async () => {
  expect((await ended('C')).state).toBe('succeeded')
  inside('/usr/bin/mount', '--bind', '/etc/passwd', '/usr/bin/bwrap')
  const lost = await proveNow()
  expect([provenResources(lost).tiers, lost.egress.ok]).toEqual([['B'], false])
  expect(
    lost.tiers.C.checks
      .filter(({ ok }) => !ok)
      .map(({ seen }) => seen)
      .join('\n'),
  ).toContain('countersign-worker doctor')
  expect(await ended('C')).toMatchObject({ state: 'failed', error: 'sandbox_unavailable' })
  // The edge hands out no call of that tier before it knows.
  const claims = lone.edge.requests.filter(({ route }) => route === 'claim')
  expect(claims.at(-1)?.body).toMatchObject({ tiers: ['B'], egress: false })
  expect((await ended('B')).state).toBe('succeeded')
  const heartbeatNamed = (tiers: string) =>
    lone.edge.requests.some(({ body }) => JSON.stringify(body)?.includes(`"tiers":${tiers},"running"`))
  await eventually('a heartbeat says so', () => heartbeatNamed('["B"]'), 20_000)

  inside('/usr/bin/umount', '/usr/bin/bwrap')
  expect((await proveNow()).tiers.C.ok).toBe(true)
  expect((await ended('C')).state).toBe('succeeded')
})

test('L8 if warm sandboxes fail their checks, calls start cold, and the edge is informed', async () => {
  const fake = join(lone.state.dir, 'fake-perl')
  writeFileSync(fake, '#!/bin/sh\nexit 0\n', { mode: 0o755 }) // a gate that never runs the tool
  inside('/usr/bin/mount', '--bind', fake, '/usr/bin/perl')
  const lost = await proveNow()
  expect([provenResources(lost).tiers, lost.prepared?.ok]).toEqual([['B', 'C'], false])
  expect((await ended('C')).state).toBe('succeeded')
  inside('/usr/bin/umount', '/usr/bin/perl')
  expect((await proveNow()).prepared?.ok).toBe(true)
})

test('L8 after a probe ended early the worker takes no call, tells the edge why, and probes again automatically', async () => {
  const folder = join(lone.state.worker, 'sandbox')
  renameSync(folder, `${folder}.away`)
  const lost = await proveNow()
  expect(provenResources(lost)).toEqual({ tiers: [], egress: false, cgroups: false, profiles: [] })
  expect(lost.tiers.B.checks).toEqual([
    { name: 'the probe completes', ok: false, seen: expect.stringContaining('ENOENT') },
  ])
  renameSync(`${folder}.away`, folder)
  await nextOwnProof(({ tiers }) => tiers.B.ok && tiers.C.ok)
  for (const tier of ['B', 'C'] as const) expect((await ended(tier)).state).toBe('succeeded')
})

test('a call that runs during a probe is not delayed by the canaries', async () => {
  const call = await lone.call({ argv: ['sh', '-c', 'for i in 1 2 3 4 5 6; do echo $i; sleep 0.2; done'] })
  await eventually('it runs', () => call.state === 'running')
  const { took_ms } = await proveNow()
  expect(took_ms).toBeLessThan(20_000)
  expect((await lone.settled(call, 30_000)).stdout.toString()).toBe('1\n2\n3\n4\n5\n6\n')
})
