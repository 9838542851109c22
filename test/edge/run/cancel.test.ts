// A cancel in each state: a waiting call never runs, a running call is asked to stop, an ended call
// does not change.

import { expect, test } from 'vitest'
import { verifyBundle } from '../../../shared/evidence/bundle.ts'
import type { Client } from '../../../shared/routes/client.ts'
import { countersign } from '../../support/countersign.ts'
import { eventually } from '../../support/eventually.ts'
import { Fixtures, refusalOf, unwrap } from '../../support/fixtures.ts'
import { sharedStack, sharedState } from '../../support/stack/stack.ts'
import { PeerWorker } from '../../support/worker/peer-worker.ts'

const dev = sharedStack()
const fixtures = new Fixtures('cancel', dev)
const agent = await fixtures.agent()
const tool = await fixtures.tool()
const sensitive = await fixtures.tool({ capabilities: ['network'] })
const peer = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool)

const CLI = { COUNTERSIGN_STATE: sharedState() }

const propose = async (name = tool) =>
  unwrap(await agent.client('proposeCallInNewRun', { body: { tool: name, args: {} } }))
const cancel = ({ run, id }: { run: string; id: string }) =>
  agent.client('cancelCall', { params: { run, call: id } })
const read = async ({ run, id }: { run: string; id: string }) =>
  unwrap(await agent.client('readCall', { params: { run, call: id } }))
const kinds = async ({ run }: { run: string }) =>
  unwrap(await agent.client('readJournal', { params: { run } })).items.map(({ kind }) => kind)

test('cancelling a call that waits for a human removes its approval from the inbox, and it can’t be answered', async () => {
  const call = await fixtures.proposeForApproval(agent.client, sensitive)
  const link = await fixtures.link(fixtures.root, call.approval.id)
  expect(unwrap(await cancel(call))).toMatchObject({
    state: 'cancelled',
    approval: { status: 'cancelled' },
    result: { ok: false, error: { code: 'cancelled' } },
  })
  expect(refusalOf(await fixtures.approve(call.approval.id))).toBe('410 approval_cancelled')
  expect((await fetch(link)).status).toBe(200)
  await eventually('the inbox knows', async () =>
    unwrap(await fixtures.root('listApprovals', { query: { status: 'ended' } })).items.find(
      ({ id, status }) => id === call.approval.id && status === 'cancelled',
    ),
  )
  expect(await kinds(call)).toEqual(['approval_requested', 'cancelled'])
})

test('no worker gets a call that was cancelled while it waited for one', async () => {
  const call = await propose()
  expect(unwrap(await cancel(call)).state).toBe('cancelled')
  expect(refusalOf(await peer.claim(call.id))).toMatch(/^409 (already_ended|not_claimable)$/)
  expect(await kinds(call)).toEqual(['allowed', 'cancelled'])
})

test('a cancelled running call goes on until its worker learns of it by a heartbeat, stops it and reports it cancelled', async () => {
  const call = await propose()
  const claim = unwrap(await peer.claim(call.id))
  expect((await read(call)).running).toEqual({
    worker: peer.id,
    since_ms: expect.any(Number),
    cancel_requested: false,
  })
  for (let again = 0; again < 3; again++)
    expect(unwrap(await cancel(call))).toMatchObject({
      state: 'running',
      running: { worker: peer.id, cancel_requested: true },
    })
  const running = [{ call: call.id, fence: 1 }]
  expect(unwrap(await peer.client('heartbeat', { body: { tiers: ['B', 'C'], running } })).stop).toEqual([
    call.id,
  ])
  const body = { fence: 1, stream: 'stdout' as const, offset: 0, data: '' }
  expect(unwrap(await peer.client('output', { params: { call: call.id }, body })).stop).toBe(true)
  unwrap(await peer.settle(claim, { outcome: { kind: 'cancelled' } }))
  expect(await read(call)).toMatchObject({
    state: 'cancelled',
    result: { ok: false, error: { code: 'cancelled' } },
  })
  expect(await kinds(call)).toEqual(['allowed', 'claimed', 'cancel_requested', 'cancelled'])
})

test('`calls cancel` says where the call still runs, waits until the worker has stopped it, and prints the end', async () => {
  const atOnce = await propose()
  expect(await countersign(['calls', 'cancel', atOnce.id], { env: CLI })).toMatchObject({
    code: 0,
    err: '',
    out: expect.stringMatching(/^cancelled {2}/),
  })

  const call = await propose()
  const claim = unwrap(await peer.claim(call.id))
  const waiting = countersign(['calls', 'cancel', call.id], { env: CLI })
  await eventually(
    'it is asked to stop',
    async () => (await read(call)).running?.cancel_requested === true,
    20_000,
  )
  unwrap(await peer.settle(claim, { outcome: { kind: 'cancelled' } }))
  expect(await waiting).toMatchObject({
    code: 0,
    err: `countersign: cancelling; it runs on worker ${peer.id} until its next heartbeat\n`,
    out: expect.stringMatching(/^cancelled {2}/),
  })
})

test('`calls cancel --wait 0` returns at once; a call that ended otherwise before it could be stopped gives exit code 1', async () => {
  const call = await propose()
  const claim = unwrap(await peer.claim(call.id))
  const told = await countersign(['calls', 'cancel', call.id, '--wait', '0'], { env: CLI })
  expect(told).toMatchObject({ code: 0, err: '', out: expect.stringMatching(/^running {2}/) })
  expect(told.out).toContain(`cancelling  it runs on worker ${peer.id} until its next heartbeat`)
  const waiting = countersign(['calls', 'cancel', call.id], { env: CLI })
  unwrap(await peer.settle(claim))
  expect(await waiting).toMatchObject({ code: 1 })
})

test('the journal names the principal who cancelled a call', async () => {
  const by = async (client: Client) => {
    const call = await propose()
    unwrap(await client('cancelCall', { params: { run: call.run, call: call.id } }))
    const entries = unwrap(await agent.client('readJournal', { params: { run: call.run } })).items
    return entries.find(({ kind }) => kind === 'cancelled')?.body
  }
  expect(await by(agent.client)).toMatchObject({ by: { kind: 'agent', name: agent.name } })
  expect(await by(fixtures.root)).toMatchObject({ by: { kind: 'operator', name: 'root' } })
})

test('a call whose process ends before the cancel reaches it ends succeeded', async () => {
  const call = await propose()
  const claim = unwrap(await peer.claim(call.id))
  unwrap(await cancel(call))
  unwrap(await peer.settle(claim))
  expect((await read(call)).state).toBe('succeeded')
})

test('L4 cancelling an ended call, by anybody and repeatedly, does not change it', async () => {
  const narrow = await fixtures.agent({ tools: [] })
  const denied = unwrap(await narrow.client('proposeCallInNewRun', { body: { tool, args: {} } }))
  expect(refusalOf(await narrow.client('cancelCall', { params: { run: denied.run, call: denied.id } }))).toBe(
    '409 already_ended',
  )
  const calls = [await propose(), await propose(), await propose()]
  const [done, failed, cancelled] = calls
  if (done === undefined || failed === undefined || cancelled === undefined)
    throw new Error('three calls were proposed')
  await peer.run(done.id)
  await peer.run(failed.id, { outcome: { kind: 'exit', code: 3 } })
  unwrap(await cancel(cancelled))
  for (const call of calls) {
    const before = [await read(call), await kinds(call)]
    expect(refusalOf(await cancel(call))).toBe('409 already_ended')
    expect(refusalOf(await fixtures.root('cancelCall', { params: { run: call.run, call: call.id } }))).toBe(
      '409 already_ended',
    )
    unwrap(await agent.client('cancelRun', { params: { run: call.run } }))
    expect([await read(call), (await kinds(call)).filter((kind) => kind !== 'run_cancelled')]).toEqual(before)
  }
})

test('cancelling a run ends its waiting calls, stops its running calls and refuses new ones', async () => {
  const run = unwrap(await agent.client('createRun', { body: {} }))
  const inRun = async (name: string) =>
    unwrap(await agent.client('proposeCall', { params: { run: run.id }, body: { tool: name, args: {} } }))
  const [asked, waiting, running, done] = [
    await inRun(sensitive),
    await inRun(tool),
    await inRun(tool),
    await inRun(tool),
  ]
  const claim = unwrap(await peer.claim(running.id))
  await peer.run(done.id)
  expect(unwrap(await agent.client('cancelRun', { params: { run: run.id } })).state).toBe('cancelled')
  expect(
    await Promise.all([asked, waiting, running, done].map(async (call) => (await read(call)).state)),
  ).toEqual(['cancelled', 'cancelled', 'running', 'succeeded'])
  expect(
    refusalOf(await agent.client('proposeCall', { params: { run: run.id }, body: { tool, args: {} } })),
  ).toBe('409 run_cancelled')
  unwrap(await peer.settle(claim, { outcome: { kind: 'cancelled' } }))
  unwrap(await agent.client('cancelRun', { params: { run: run.id } }))
  expect((await kinds({ run: run.id })).filter((kind) => kind === 'run_cancelled')).toHaveLength(1)
})

test('one of twenty simultaneous cancels ends the call, and the others report that it has ended', async () => {
  const call = await propose()
  const answers = await Promise.all(Array.from({ length: 20 }, () => cancel(call)))
  expect(answers.filter(({ ok }) => ok)).toHaveLength(1)
  expect(new Set(answers.filter(({ ok }) => !ok).map(refusalOf))).toEqual(new Set(['409 already_ended']))
  expect(await kinds(call)).toEqual(['allowed', 'cancelled'])
})

test('L4 a race of cancel and settlement, fifty times, leaves one ending, and the journal agrees', async () => {
  for (let i = 0; i < 50; i++) {
    const call = await propose()
    const claim = unwrap(await peer.claim(call.id))
    await Promise.all([cancel(call), peer.settle(claim, { outcome: { kind: 'exit', code: 0 } })])
    const told = await kinds(call)
    expect((await read(call)).state).toBe('succeeded')
    expect(told.filter((kind) => kind === 'succeeded')).toHaveLength(1)
    expect(told.indexOf('cancel_requested')).toBeLessThan(told.indexOf('succeeded'))
  }
})

test('L2 a race of cancel and claim, fifty times, leaves the call cancelled and never claimed, or claimed and asked to stop', async () => {
  for (let i = 0; i < 50; i++) {
    const call = await propose()
    const [, claimed] = await Promise.all([cancel(call), peer.claim(call.id)])
    expect(await kinds(call)).toEqual(
      claimed.ok ? ['allowed', 'claimed', 'cancel_requested'] : ['allowed', 'cancelled'],
    )
  }
})

test('L5 the worker attests state, outcome and output of a call that was cancelled while it ran', async () => {
  const call = await propose()
  const claim = unwrap(await peer.claim(call.id))
  unwrap(await cancel(call))
  unwrap(await peer.settle(claim, { outcome: { kind: 'cancelled' }, stdout: 'half of it' }))
  const ended = await read(call)
  expect(ended).toMatchObject({
    state: 'cancelled',
    result: { ok: false, output: 'half of it', error: { code: 'cancelled' } },
  })
  expect(ended.running).toBeUndefined()
  const keys = unwrap(await fixtures.root('keys', { query: {} }))
  const verdict = verifyBundle(
    unwrap(await agent.client('readAttestation', { params: { run: call.run, call: call.id } })),
    keys,
  )
  expect(verdict).toMatchObject({
    ok: true,
    statement: {
      predicate: {
        state: 'cancelled',
        error: 'cancelled',
        grant: { worker: peer.id },
        execution: { outcome: { kind: 'cancelled' }, stdout: { bytes: 10 } },
      },
    },
  })
})

test('a worker’s report of `cancelled` is refused if nobody cancelled the call', async () => {
  const call = await propose()
  const claim = unwrap(await peer.claim(call.id))
  expect(refusalOf(await peer.settle(claim, { outcome: { kind: 'cancelled' } }))).toBe(
    '422 attestation_invalid',
  )
  expect((await read(call)).state).toBe('running')
  unwrap(await cancel(call))
  unwrap(await peer.settle(claim, { outcome: { kind: 'cancelled' } }))
  expect((await read(call)).state).toBe('cancelled')
})

test('L5 a call that was cancelled before it ran has an attestation that nothing ran', async () => {
  const call = await propose()
  unwrap(await cancel(call))
  const verdict = verifyBundle(
    unwrap(await agent.client('readAttestation', { params: { run: call.run, call: call.id } })),
    dev.keys,
  )
  expect(verdict).toMatchObject({
    ok: true,
    statement: {
      predicate: { state: 'cancelled', grant: null, execution: { executor: 'edge', outcome: null } },
    },
  })
})
