// Operators see which tiers each worker has proven, when, and why not, in the console and on the
// command line. Text of workers is always plain text.

import { expect, test } from 'vitest'
import type { WorkerProof } from '../../../shared/evidence/worker-proof.ts'
import { browserForTests } from '../../support/browser/browser.ts'
import { PHONE, signedIn } from '../../support/browser/console-page.ts'
import { Fixtures, refusalOf, unwrap } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'
import { PeerWorker } from '../../support/worker/peer-worker.ts'

const fixtures = new Fixtures('console-workers', sharedStack())
const auditor = await fixtures.operator(['auditor'])
const browser = await browserForTests()
const PATH = '/console/workers'
const HOSTILE = '<script>alert(1)</script> \u202e**x**'

const lacking = (proof: WorkerProof): WorkerProof => ({
  ...proof,
  versions: { ...proof.versions, kernel: HOSTILE.slice(0, 30) },
  tiers: {
    B: proof.tiers.B,
    C: {
      ok: false,
      lack: null,
      checks: [...proof.tiers.B.checks, { name: 'S06 no new user namespace', ok: false, seen: HOSTILE }],
    },
  },
  egress: {
    ok: false,
    lack: 'sandbox_unavailable',
    checks: [{ name: 'what it needs', ok: false, seen: '`socat` is missing' }],
  },
  cgroups: {
    ok: false,
    lack: null,
    checks: [{ name: 'counted together', ok: false, seen: 'no cgroup is delegated' }],
  },
  profiles: [
    {
      name: 'gpu',
      from: 'c_offline',
      sha256: 'a'.repeat(64),
      proof: { ok: false, lack: null, checks: [{ name: 'x', ok: false, seen: HOSTILE }] },
    },
  ],
})

test('the workers page says why a tier is not proven and on which system the others are', async () => {
  const worker = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool)
  unwrap(await worker.prove(['B'], lacking))
  const page = await signedIn(
    browser,
    { url: fixtures.url, path: PATH, key: auditor.key },
    { viewport: PHONE, javaScriptEnabled: false },
  )
  const card = page.locator(`#${worker.id}`)
  const text = (await card.textContent()) ?? ''
  for (const said of [
    'tier B',
    'Tier C: not proven, 1 of 2 checks failed',
    'S06 no new user namespace',
    '`socat` is missing',
    'no cgroup is delegated',
    'C-nocgroup',
    'Profile gpu: not proven, 1 of 1 checks failed',
    'v24.0.0',
  ])
    expect(text).toContain(said)
  expect(text).toContain('<script>alert(1)</script>')
  expect(text).not.toContain('\u202e')
  expect(await card.locator('script').count()).toBe(0)
  expect(
    await page.evaluate('document.documentElement.scrollWidth <= document.documentElement.clientWidth'),
  ).toBe(true)
  await page.getByRole('link', { name: 'Inbox' }).focus()
  expect(await page.getByRole('link', { name: 'Workers' }).getAttribute('aria-current')).toBe('page')
})

test('the API returns the same proof as the workers page, and needs permission to read workers', async () => {
  const worker = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool)
  unwrap(await worker.prove(['B'], lacking))
  const told = unwrap(await auditor.client('readWorker', { params: { worker: worker.id } }))
  expect(told).toMatchObject({
    tiers: ['B'],
    proof: { tiers: { C: { ok: false } } },
    envelope: { signatures: [{ keyid: worker.signer.kid }] },
  })
  const listed = unwrap(await auditor.client('listWorkers', {})).items.find(({ id }) => id === worker.id)
  expect(listed?.proof).toEqual(told.proof)
  const agent = await fixtures.agent()
  expect(refusalOf(await agent.client('readWorker', { params: { worker: worker.id } }))).toBe('403 forbidden')
  expect(refusalOf(await auditor.client('readWorker', { params: { worker: `wrk_${'0'.repeat(26)}` } }))).toBe(
    '404 not_found',
  )
})
