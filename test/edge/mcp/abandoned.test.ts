// A waiting call is cancelled some time after its client closed the connection, even across a
// restart of the edge, unless the client can come back or has come back. Its result waits for it
// for ten minutes. Nobody waits that long here: the stored times are moved while the edge is down.

import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import type { Stack } from '../../../infra/stack.ts'
import { callId } from '../../../shared/ids.ts'
import { LIMITS } from '../../../shared/limits.ts'
import { eventually } from '../../support/eventually.ts'
import { Fixtures, unwrap } from '../../support/fixtures.ts'
import { McpClient } from '../../support/http/mcp-client.ts'
import { advanceAlarm, runFileOf } from '../../support/stack/object-file.ts'
import { startTestStack } from '../../support/stack/stack.ts'
import { PeerWorker } from '../../support/worker/peer-worker.ts'

let stack: Stack
beforeAll(async () => {
  // The tests change the rows of ended calls, so nothing is sealed.
  stack = await startTestStack({
    worker: 'idle',
    sealAfterS: LIMITS.seal_after_s,
    limits: { mcp_heartbeat_ms: 1_000 }, // the edge notices by them that a client is gone
  })
})
afterAll(() => stack.stop())

type Era = 'modern' | 'legacy'

const cancelAt = (run: string): number | null => {
  const db = runFileOf(run, stack.state.dir)
  const row = db.prepare('select cancel_at as at from calls').get() as { at: number | null } // the column
  db.close()
  return row.at
}

test('M04 a waiting call is cancelled two minutes (`mcp_abandoned_ms`) after its client disconnected, and no other call is', {
  timeout: 120_000,
}, async () => {
  const fixtures = new Fixtures('abandoned', stack.dev)
  const [asks, runs] = [await fixtures.tool({ sensitive: true }), await fixtures.tool()]
  const [agent, strict] = [await fixtures.agent(), await fixtures.agent({ mcp: { cancel_running: true } })]
  const peer = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool)

  /** Proposes in a run of its own, and closes the connection while the request is held. */
  async function abandon(era: Era, tool: string, by = agent, claims = false) {
    const { id: run } = unwrap(await by.client('createRun', { body: {} }))
    const client = new McpClient(fixtures.url, by.key, era)
    const meta = { 'dev.countersign/run': run }
    const send = (more: object = {}) =>
      client.send('tools/call', { name: tool, arguments: {}, ...more }, { meta, wait: 100 })
    const exchange = await send()
    if (claims) unwrap(await peer.claim(callId(run, 1)))
    exchange.close()
    return { run, send, client, meta }
  }
  const gone = await abandon('modern', asks)
  const back = await abandon('modern', asks)
  const legacy = await abandon('legacy', asks)
  const running = await abandon('modern', runs, agent, true)
  const stopped = await abandon('modern', runs, strict, true)

  // The leases of the running calls must not end before the test does.
  const live = [running, stopped].map(({ run }) => ({ call: callId(run, 1), fence: 1 }))
  const beating = setInterval(() => void peer.heartbeat(live).catch(() => undefined), 2_000)
  onTestFinished(() => clearInterval(beating))

  for (const { run } of [gone, back, running, stopped])
    await eventually(
      `the end of the connection of ${run} is stored`,
      () => (cancelAt(run) === null ? undefined : true),
      30_000,
    )
  const at = cancelAt(gone.run) ?? 0
  expect(at - Date.now()).toBeGreaterThan(80_000)
  expect(at - Date.now()).toBeLessThanOrEqual(120_000)
  expect(cancelAt(legacy.run)).toBeNull()

  const returned = await abandon('modern', asks)
  await eventually(
    'the end of the last connection is stored',
    () => (cancelAt(returned.run) === null ? undefined : true),
    30_000,
  )
  await returned.client.call('countersign_result', { call: callId(returned.run, 1) }, { wait: 0 })
  expect(cancelAt(returned.run)).toBeNull() // it asked for the result

  const again = await back.send()
  expect(cancelAt(back.run)).toBeNull() // it joined

  await stack.edge.stop()
  for (const { run } of [gone, running, stopped]) {
    const db = runFileOf(run, stack.state.dir)
    const file = db.location() ?? ''
    db.prepare('update calls set cancel_at = ?').run(Date.now() - 1_000)
    db.close()
    advanceAlarm(file)
  }
  expect((await stack.edge.start()).ok).toBe(true)
  again.close()

  const read = async (run: string, by = agent) =>
    unwrap(await by.client('readCall', { params: { run, call: callId(run, 1) } }))
  await eventually('the abandoned call is cancelled', async () =>
    (await read(gone.run)).state === 'cancelled' ? true : undefined,
  )
  await eventually('the running call is to stop', async () =>
    (await read(stopped.run, strict)).running?.cancel_requested === true ? true : undefined,
  )
  await eventually('the other running call was looked at', () =>
    cancelAt(running.run) === null ? true : undefined,
  )
  expect((await read(running.run)).running?.cancel_requested).toBe(false)
  expect((await read(back.run)).state).toBe('awaiting_approval')
  expect((await read(legacy.run)).state).toBe('awaiting_approval')
  const journal = unwrap(
    await agent.client('readJournal', { params: { run: gone.run }, query: { after: 0 } }),
  ).items
  expect(journal.at(-1)).toMatchObject({
    kind: 'cancelled',
    body: { by: { kind: 'agent', name: agent.name } },
  })
})

test('L2 a result that nobody received is the answer to an equal request for ten minutes (`mcp_join_ms`), not longer', {
  timeout: 120_000,
}, async () => {
  const fixtures = new Fixtures('joined', stack.dev)
  const [agent, tool] = [await fixtures.agent(), await fixtures.tool()]
  const peer = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool)
  const client = new McpClient(fixtures.url, agent.key, 'modern')
  const ended = async (): Promise<string> => {
    const { id: run } = unwrap(await agent.client('createRun', { body: {} }))
    const exchange = await ask(run, 100)
    const claim = unwrap(await peer.claim(callId(run, 1)))
    exchange.close()
    await eventually(
      'the edge has noticed that the client is gone',
      () => (cancelAt(run) === null ? undefined : true),
      30_000,
    )
    await peer.settle(claim, { stdout: 'ran' })
    return run
  }
  const ask = (run: string, wait: number) =>
    client.send('tools/call', { name: tool, arguments: {} }, { meta: { 'dev.countersign/run': run }, wait })
  const callsAfterAsking = async (run: string): Promise<number> => {
    await (await ask(run, 0)).answer()
    return unwrap(await agent.client('readRun', { params: { run } })).used.calls
  }
  const [young, old] = await Promise.all([ended(), ended()])
  await stack.edge.stop()
  for (const [run, minutes] of [
    [young, 9],
    [old, 10],
  ] as const) {
    const db = runFileOf(run, stack.state.dir)
    db.prepare("update calls set record = json_set(record, '$.status.at', ?)").run(
      Date.now() - minutes * 60_000,
    )
    db.close()
  }
  expect((await stack.edge.start()).ok).toBe(true)
  expect([await callsAfterAsking(young), await callsAfterAsking(old)]).toEqual([1, 2])
})
