// A worker tells the edge, signed, what it has proven of its sandboxes: at its start, now and then, and when it is asked to. What it can't
// prove any more it runs no more (L8), and takes up again once it can.

import { execFileSync } from 'node:child_process'
import { renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { LIMITS } from '../../shared/limits.ts'
import { provenMeans, type WorkerProof } from '../../shared/worker-proof.ts'
import { eventually, LoneWorker } from '../support/lone-worker.ts'

let lone: LoneWorker
beforeAll(async () => {
  lone = await LoneWorker.make()
  await lone.start()
})
afterAll(() => lone?.end())

/** In the mount namespace of the worker, which no other process of this host has. */
const inside = (...argv: string[]) => execFileSync('/usr/bin/nsenter', ['--target', `${lone.process.pid}`, '--mount', '--', ...argv])

async function provenAnew() {
  const before = lone.edge.proofs.length
  process.kill(lone.process.pid ?? 0, 'SIGHUP')
  return eventually('the edge hears of it', () => lone.edge.proofs.slice(before).at(-1), 30_000)
}

/** What fell short is tried again by itself, soon. */
const unasked = (holds: (proof: WorkerProof) => boolean) =>
  eventually('it is proven again', () => lone.edge.proofs.slice(-1).some(holds), 40_000)

const ended = async (tier: 'B' | 'C') => (await lone.settled(await lone.call({ argv: ['true'], tier }), 30_000)).statement.predicate

test('L8 the first thing that an edge is told is what was tried, what was seen, when, and on what', () => {
  const routes = lone.edge.heard.map(({ route }) => route)
  expect(routes).not.toContain('claim')
  const [proof] = lone.edge.proofs
  expect(proof && provenMeans(proof).tiers).toEqual(['B', 'C'])
  expect([proof?.egress.ok, proof?.prepared?.ok]).toEqual([true, true])
  expect(Math.abs(Date.now() - (proof?.at_ms ?? 0))).toBeLessThan(LIMITS.proof_every_ms)
  expect(proof?.versions).toMatchObject({
    node: process.version,
    bubblewrap: expect.stringMatching(/^\d/),
    kernel: expect.stringMatching(/^\d/),
  })
  expect(proof?.tiers.C.checks.length).toBeGreaterThan(20)
})

test('L8 a worker that loses what a tier needs runs no call of that tier, and says so; mended, it runs them again', async () => {
  expect((await ended('C')).state).toBe('succeeded')
  inside('/usr/bin/mount', '--bind', '/etc/passwd', '/usr/bin/bwrap')
  const lost = await provenAnew()
  expect([provenMeans(lost).tiers, lost.egress.ok]).toEqual([['B'], false])
  expect(
    lost.tiers.C.checks
      .filter(({ ok }) => !ok)
      .map(({ seen }) => seen)
      .join('\n'),
  ).toContain('countersign-worker doctor')
  expect(await ended('C')).toMatchObject({ state: 'failed', error: 'sandbox_unavailable' })
  const claims = lone.edge.heard.filter(({ route }) => route === 'claim') // an edge that does not know yet hands it none
  expect(claims.at(-1)?.body).toMatchObject({ tiers: ['B'], egress: false })
  expect((await ended('B')).state).toBe('succeeded')
  const said = (tiers: string) => lone.edge.heard.some(({ body }) => JSON.stringify(body)?.includes(`"tiers":${tiers},"running"`))
  await eventually('a heartbeat says so', () => said('["B"]'), 20_000)

  inside('/usr/bin/umount', '/usr/bin/bwrap')
  await unasked(({ tiers }) => tiers.C.ok)
  expect((await ended('C')).state).toBe('succeeded')
})

test('L8 where sandboxes set up in advance are not what they should be, calls start their own, and the edge is told', async () => {
  const fake = join(lone.state.dir, 'fake-perl')
  writeFileSync(fake, '#!/bin/sh\nexit 0\n', { mode: 0o755 }) // a gate that lets nobody through
  inside('/usr/bin/mount', '--bind', fake, '/usr/bin/perl')
  const lost = await provenAnew()
  expect([provenMeans(lost).tiers, lost.prepared?.ok]).toEqual([['B', 'C'], false])
  expect((await ended('C')).state).toBe('succeeded')
  inside('/usr/bin/umount', '/usr/bin/perl')
  await unasked(({ prepared }) => prepared?.ok === true)
})

test('L8 a try that breaks off proves nothing: no call is taken, the edge is told why, and it is tried again by itself', async () => {
  const folder = join(lone.state.worker, 'sandbox')
  renameSync(folder, `${folder}.away`)
  const lost = await provenAnew()
  expect(provenMeans(lost)).toEqual({ tiers: [], egress: false, cgroups: false, profiles: [] })
  expect(lost.tiers.B.checks).toEqual([{ name: 'the probe runs to its end', ok: false, seen: expect.stringContaining('ENOENT') }])
  renameSync(`${folder}.away`, folder)
  await unasked(({ tiers }) => tiers.B.ok && tiers.C.ok)
  for (const tier of ['B', 'C'] as const) expect((await ended(tier)).state).toBe('succeeded')
})

test('the canaries do not keep calls waiting: a call that runs meanwhile ends as it would', async () => {
  const call = await lone.call({ argv: ['sh', '-c', 'for i in 1 2 3 4 5 6; do echo $i; sleep 0.2; done'] })
  await eventually('it runs', () => call.state === 'running')
  const { took_ms } = await provenAnew()
  expect(took_ms).toBeLessThan(20_000)
  expect((await lone.settled(call, 30_000)).stdout.toString()).toBe('1\n2\n3\n4\n5\n6\n')
})
