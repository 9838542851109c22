// Only one process serves as a worker: another process with its key gets no call and no secret, and
// operators see a warning.

import { expect, test } from 'vitest'
import { browserForTests } from '../../support/browser/browser.ts'
import { signedIn } from '../../support/browser/console-page.ts'
import { countersign } from '../../support/countersign.ts'
import { Desk, granted, refusal } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'
import { eventually } from '../../support/worker/lone-worker.ts'
import { PeerWorker } from '../../support/worker/peer-worker.ts'

const desk = new Desk('worker-process', sharedStack())
const browser = await browserForTests()
const agent = await desk.agent()
const tool = await desk.tool()
const peer = await PeerWorker.enrol(desk.url, desk.root, desk.pool)

const proposed = () => agent.client('proposeCallInNewRun', { body: { tool, args: {} } }).then(granted)

test('D6 L2 a copy of a worker gets nothing when it claims a call that the worker runs', async () => {
  const copy = peer.copy()
  const call = await proposed()
  const claim = granted(await peer.claim(call.id))
  expect(refusal(await copy.claim(call.id))).toBe('409 already_claimed')
  const nameless = { run: call.run, call: call.id, tiers: ['B' as const, 'C' as const], egress: true }
  expect(refusal(await peer.client('claim', { body: nameless }))).toBe('409 already_claimed')
  expect(granted(await peer.claim(call.id))).toEqual(claim) // as if its answer was lost
})

test('D6 L2 a process that has reported on a call, by heartbeat or output, can’t get its arguments and secrets again', async () => {
  const ways: ((call: string) => Promise<unknown>)[] = [
    async (call) =>
      granted(await peer.client('heartbeat', { body: { tiers: ['B', 'C'], running: [{ call, fence: 1 }] } })),
    async (call) => {
      const body = {
        fence: 1,
        stream: 'stdout' as const,
        offset: 0,
        data: Buffer.from('begun').toString('base64'),
      }
      granted(await peer.client('output', { params: { call }, body }))
    },
  ]
  for (const report of ways) {
    const call = await proposed()
    granted(await peer.claim(call.id))
    expect((await peer.claim(call.id)).ok).toBe(true)
    await report(call.id)
    expect(refusal(await peer.claim(call.id))).toBe('409 already_claimed')
  }
})

test('D6 a second process of a worker is refused while the first is active, and operators see a warning', async () => {
  const first = await PeerWorker.enrol(desk.url, desk.root, desk.pool)
  const second = first.copy()
  const read = () => desk.root('readWorker', { params: { worker: first.id } }).then(granted)
  granted(await first.heartbeat())
  const refused = await second.heartbeat()
  expect(refusal(refused)).toBe('409 worker_in_use')
  expect(refused).toMatchObject({
    error: { detail: expect.stringMatching(/another process/), todo: expect.stringMatching(/enrol/) },
  })
  expect((await read()).doubled_at_ms).toBeNull() // the first may have died: that would be a restart
  const call = await proposed()
  expect(refusal(await second.claim(call.id))).toBe('409 worker_in_use')
  const before = Date.now()
  granted(await first.heartbeat())
  expect((await read()).doubled_at_ms).toBeGreaterThanOrEqual(before)
  granted(await first.claim(call.id))
})

test('D6 a copy of a worker that claims calls but sends no heartbeat causes the warning too', async () => {
  const first = await PeerWorker.enrol(desk.url, desk.root, desk.pool)
  granted(await first.heartbeat())
  const call = await proposed()
  expect(refusal(await first.copy().claim(call.id))).toBe('409 worker_in_use')
  granted(await first.heartbeat())
  expect(
    granted(await desk.root('readWorker', { params: { worker: first.id } })).doubled_at_ms,
  ).not.toBeNull()
  granted(await first.claim(call.id))
})

test('D6 a heartbeat that names no process, as `doctor` sends it next to a running worker, causes no warning', async () => {
  const first = await PeerWorker.enrol(desk.url, desk.root, desk.pool)
  granted(await first.heartbeat())
  expect(refusal(await first.client('heartbeat', { body: { tiers: [], running: [] } }))).toBe(
    '409 worker_in_use',
  )
  granted(await first.heartbeat())
  expect(granted(await desk.root('readWorker', { params: { worker: first.id } })).doubled_at_ms).toBeNull()
})

test('D6 a worker’s process that has stopped or is silent is replaced by the next one without a warning', async () => {
  const first = await PeerWorker.enrol(desk.url, desk.root, desk.pool)
  const [second, third] = [first.copy(), first.copy()]
  granted(await first.heartbeat())
  granted(await first.heartbeat([], true))
  granted(await second.heartbeat())
  expect(refusal(await first.heartbeat())).toBe('409 worker_in_use')
  granted(
    await third
      .heartbeat()
      .then(async (early) =>
        early.ok ? early : await eventually('the second is silent', () => taken(third)),
      ),
  )
  const { doubled_at_ms } = granted(await desk.root('readWorker', { params: { worker: first.id } }))
  expect(doubled_at_ms).toBeNull()
  expect(refusal(await second.claim((await proposed()).id))).toBe('409 worker_in_use')
})

async function taken(by: PeerWorker) {
  const answer = await by.heartbeat()
  return answer.ok && answer
}

test('D6 the console, the command line and the metrics report that two processes used a worker’s key', async () => {
  const worker = await PeerWorker.enrol(desk.url, desk.root, desk.pool)
  const copy = worker.copy()
  const auditor = await desk.operator(['auditor'])
  const copied = async () => {
    const answer = await fetch(`${desk.url}/v1/metrics/workers`, {
      headers: { authorization: `Bearer ${auditor.key}` },
    })
    return Number(/^countersign_workers_copied (\d+)$/m.exec(await answer.text())?.[1])
  }
  const shown = async () => {
    const page = await signedIn(browser, { url: desk.url, path: '/console/workers', key: auditor.key })
    return (await page.locator(`#${worker.id}`).textContent()) ?? ''
  }
  const env = { COUNTERSIGN_URL: desk.url, COUNTERSIGN_KEY: auditor.key }
  granted(await worker.heartbeat())
  const before = await copied()
  expect(await shown()).not.toContain('copy')
  await copy.heartbeat()
  granted(await worker.heartbeat())
  expect(await shown()).toContain('one of them is a copy')
  expect(await copied()).toBeGreaterThanOrEqual(before + 1)
  expect((await countersign(['workers', 'list'], { env })).out).toMatch(
    new RegExp(`${worker.id}.* active, copied`),
  )
  expect((await countersign(['workers', 'show', worker.id], { env })).out).toContain(
    'two processes used this worker’s key at the same time',
  )
})
