// Only one process serves as a worker: another process with its key gets no call and no secret, and
// operators see a warning.

import { expect, test } from 'vitest'
import { browserForTests } from '../../support/browser/browser.ts'
import { signedIn } from '../../support/browser/console-page.ts'
import { countersign } from '../../support/countersign.ts'
import { eventually } from '../../support/eventually.ts'
import { Fixtures, refusalOf, unwrap } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'
import { PeerWorker } from '../../support/worker/peer-worker.ts'

const fixtures = new Fixtures('worker-process', sharedStack())
const browser = await browserForTests()
const agent = await fixtures.agent()
const tool = await fixtures.tool()
const peer = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool)

const proposed = () => agent.client('proposeCallInNewRun', { body: { tool, args: {} } }).then(unwrap)

test('D6 L2 a copy of a worker gets nothing when it claims a call that the worker runs', async () => {
  const copy = peer.copy()
  const call = await proposed()
  const claim = unwrap(await peer.claim(call.id))
  expect(refusalOf(await copy.claim(call.id))).toBe('409 already_claimed')
  const nameless = { run: call.run, call: call.id, tiers: ['B' as const, 'C' as const], egress: true }
  expect(refusalOf(await peer.client('claim', { body: nameless }))).toBe('409 already_claimed')
  expect(unwrap(await peer.claim(call.id))).toEqual(claim) // as if its answer was lost
})

test('D6 L2 a process that has reported on a call, by heartbeat or output, can’t get its arguments and secrets again', async () => {
  const ways: ((call: string) => Promise<unknown>)[] = [
    async (call) =>
      unwrap(await peer.client('heartbeat', { body: { tiers: ['B', 'C'], running: [{ call, fence: 1 }] } })),
    async (call) => {
      const body = {
        fence: 1,
        stream: 'stdout' as const,
        offset: 0,
        data: Buffer.from('begun').toString('base64'),
      }
      unwrap(await peer.client('output', { params: { call }, body }))
    },
  ]
  for (const report of ways) {
    const call = await proposed()
    unwrap(await peer.claim(call.id))
    expect((await peer.claim(call.id)).ok).toBe(true)
    await report(call.id)
    expect(refusalOf(await peer.claim(call.id))).toBe('409 already_claimed')
  }
})

test('D6 a second process of a worker is refused while the first is active, and operators see a warning', async () => {
  const first = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool)
  const second = first.copy()
  const read = () => fixtures.root('readWorker', { params: { worker: first.id } }).then(unwrap)
  unwrap(await first.heartbeat())
  const refused = await second.heartbeat()
  expect(refusalOf(refused)).toBe('409 worker_in_use')
  expect(refused).toMatchObject({
    error: { detail: expect.stringMatching(/another process/), todo: expect.stringMatching(/enrol/) },
  })
  expect((await read()).doubled_at_ms).toBeNull() // the first may have died: that would be a restart
  const call = await proposed()
  expect(refusalOf(await second.claim(call.id))).toBe('409 worker_in_use')
  const before = Date.now()
  unwrap(await first.heartbeat())
  expect((await read()).doubled_at_ms).toBeGreaterThanOrEqual(before)
  unwrap(await first.claim(call.id))
})

test('D6 a copy of a worker that claims calls but sends no heartbeat causes the warning too', async () => {
  const first = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool)
  unwrap(await first.heartbeat())
  const call = await proposed()
  expect(refusalOf(await first.copy().claim(call.id))).toBe('409 worker_in_use')
  unwrap(await first.heartbeat())
  expect(
    unwrap(await fixtures.root('readWorker', { params: { worker: first.id } })).doubled_at_ms,
  ).not.toBeNull()
  unwrap(await first.claim(call.id))
})

test('D6 a heartbeat that names no process, as `doctor` sends it next to a running worker, causes no warning', async () => {
  const first = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool)
  unwrap(await first.heartbeat())
  expect(refusalOf(await first.client('heartbeat', { body: { tiers: [], running: [] } }))).toBe(
    '409 worker_in_use',
  )
  unwrap(await first.heartbeat())
  expect(unwrap(await fixtures.root('readWorker', { params: { worker: first.id } })).doubled_at_ms).toBeNull()
})

test('D6 a worker’s process that has stopped or is silent is replaced by the next one without a warning', async () => {
  const first = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool)
  const [second, third] = [first.copy(), first.copy()]
  unwrap(await first.heartbeat())
  unwrap(await first.heartbeat([], true))
  unwrap(await second.heartbeat())
  expect(refusalOf(await first.heartbeat())).toBe('409 worker_in_use')
  unwrap(
    await third
      .heartbeat()
      .then(async (early) =>
        early.ok ? early : await eventually('the second is silent', () => taken(third)),
      ),
  )
  const { doubled_at_ms } = unwrap(await fixtures.root('readWorker', { params: { worker: first.id } }))
  expect(doubled_at_ms).toBeNull()
  expect(refusalOf(await second.claim((await proposed()).id))).toBe('409 worker_in_use')
})

async function taken(by: PeerWorker) {
  const answer = await by.heartbeat()
  return answer.ok && answer
}

test('D6 the console, the command line and the metrics report that two processes used a worker’s key', async () => {
  const worker = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool)
  const copy = worker.copy()
  const auditor = await fixtures.operator(['auditor'])
  const copied = async () => {
    const answer = await fetch(`${fixtures.url}/v1/metrics/workers`, {
      headers: { authorization: `Bearer ${auditor.key}` },
    })
    return Number(/^countersign_workers_copied (\d+)$/m.exec(await answer.text())?.[1])
  }
  const shown = async () => {
    const page = await signedIn(browser, { url: fixtures.url, path: '/console/workers', key: auditor.key })
    return (await page.locator(`#${worker.id}`).textContent()) ?? ''
  }
  const env = { COUNTERSIGN_URL: fixtures.url, COUNTERSIGN_KEY: auditor.key }
  unwrap(await worker.heartbeat())
  const before = await copied()
  expect(await shown()).not.toContain('copy')
  await copy.heartbeat()
  unwrap(await worker.heartbeat())
  expect(await shown()).toContain('one of them is a copy')
  expect(await copied()).toBeGreaterThanOrEqual(before + 1)
  expect((await countersign(['workers', 'list'], { env })).out).toMatch(
    new RegExp(`${worker.id}.* active, copied`),
  )
  expect((await countersign(['workers', 'show', worker.id], { env })).out).toContain(
    'two processes used this worker’s key at the same time',
  )
})
