// Promise: the edge may die at any moment of a call's life. Acknowledged changes persist, running
// calls go on, approvals wait and expire as before, and waiting clients can ask again.

import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Call } from '../../shared/wire/calls.ts'
import { attested, endsIn, journalOf } from '../support/auditor.ts'
import { eventually } from '../support/eventually.ts'
import { unwrap } from '../support/fixtures.ts'
import type { StreamEvent } from '../support/http/event-stream.ts'
import { followCall, joined, read as told } from '../support/http/followed-call.ts'
import { HurtStack, revive, strike } from '../support/stack/hurt-stack.ts'
import { SHORT_LEASES } from '../support/stack/other-limits.ts'

/** Approvals of the second stack expire after this time. */
const TTL_S = 5
/** Longer than a lease. */
const AWAY_MS = SHORT_LEASES.lease_ms + 2_000

let hurt: HurtStack
/**
 * Run on their own stack beside the other tests, because they mostly wait. The last tests report
 * them.
 */
let other: HurtStack
let begun: Promise<readonly [slept: PromiseSettledResult<void>, expired: PromiseSettledResult<void>]>
beforeAll(async () => {
  hurt = await HurtStack.start({ limits: SHORT_LEASES })
  other = await HurtStack.start({ limits: { ...SHORT_LEASES, approval_ttl_s: TTL_S } })
  begun = Promise.allSettled([sleepThroughALease()]).then(
    async ([slept]) => [slept, ...(await Promise.allSettled([expireUnderFire()]))] as const,
  )
})
afterAll(async () => {
  await begun
  await other?.stop()
  await hurt?.stop()
})

/** Kills the edge with SIGKILL, and waits until it is back. */
async function restartEdge({ stack }: HurtStack = hurt): Promise<void> {
  const back = await stack.edge.restart()
  if (!back.ok) throw new Error(back.error)
}
const kindsOf = async ({ run }: Call): Promise<string[]> =>
  (await journalOf(hurt, run)).map(({ kind }) => kind)
const approvalOf = ({ approval }: Call): string => approval?.id ?? ''
const runs = (call: Call): Promise<true> =>
  eventually(`${call.id} runs`, () => hurt.marks(call.run).length > 0)

test('a call and a run are listed although the edge was killed before it had listed them', async () => {
  const run = await hurt.run()
  const call = await hurt.propose('mark_asking', { mark: 'listed\n' })
  await restartEdge()
  await eventually('both are listed', async () => {
    const calls = unwrap(await hurt.operator('listCalls', { query: { state: 'awaiting_approval' } })).items
    const runs = unwrap(await hurt.operator('listRuns', { query: {} })).items
    return calls.some(({ id }) => id === call.id) && runs.some(({ id }) => id === run)
  })
})

test('if the edge is killed between approval and claim, the approval persists and the call runs once', async () => {
  await strike(hurt.stack.worker)
  const call = await hurt.propose('mark_asking', { mark: 'approved\n' })
  unwrap(
    await hurt.operator('answerApproval', {
      params: { id: approvalOf(call) },
      body: { decision: 'approve' },
    }),
  )
  await restartEdge()
  expect((await hurt.read(call)).state).toBe('granted')
  await revive(hurt.stack.worker)
  const ended = await hurt.ended(call, 30_000)
  expect(ended.state).toBe('succeeded')
  expect((await attested(hurt, ended)).predicate.facts.approval?.answers).toHaveLength(1)
  expect(hurt.marks(call.run)).toEqual(['approved'])
  expect(await kindsOf(call)).toEqual(['approval_requested', 'approved', 'claimed', 'succeeded'])
})

test('if the edge is killed twice between claim and settlement, the process goes on and its result is accepted', async () => {
  const call = await hurt.propose('mark_slowly', { mark: 'goes on\n', seconds: '4' })
  await runs(call)
  await restartEdge()
  await restartEdge()
  const ended = await hurt.ended(call)
  expect(ended).toMatchObject({ state: 'succeeded', result: { output: 'goes on\n' } })
  await attested(hurt, ended)
  expect(hurt.marks(call.run)).toEqual(['goes on'])
  expect(await kindsOf(call)).toEqual(['allowed', 'claimed', 'succeeded'])
})

test('if the edge is killed while an approval waits, it is in the inbox once and its link still answers', async () => {
  const call = await hurt.propose('mark_asking', { mark: 'by link\n' })
  const id = approvalOf(call)
  const { url = '' } = unwrap(await hurt.operator('readApproval', { params: { id } }))
  await restartEdge()
  expect((await hurt.read(call)).state).toBe('awaiting_approval')
  const inbox = await eventually('it is in the inbox', async () => {
    const { items } = unwrap(await hurt.operator('listApprovals', { query: { status: 'pending' } }))
    return items.some((approval) => approval.id === id) && items
  })
  expect(inbox.filter((approval) => approval.id === id)).toHaveLength(1)
  const page = await (await fetch(url)).text()
  const nonce = /name="nonce" value="([^"]+)"/.exec(page)?.[1] ?? ''
  const answer = () =>
    fetch(url, {
      method: 'POST',
      headers: { origin: new URL(url).origin, 'content-type': 'application/x-www-form-urlencoded' },
      body: new URLSearchParams({ decision: 'approve', nonce }),
    })
  expect((await answer()).status).toBe(200)
  await restartEdge()
  expect((await answer()).status).toBe(409) // a used link stays used after a restart
  const ended = await hurt.ended(call, 30_000)
  expect(ended.state).toBe('succeeded')
  await attested(hurt, ended)
  expect(hurt.marks(call.run)).toEqual(['by link'])
})

test('if the edge is killed while a client waits, the client gets an error, and gets the call when it repeats its key', async () => {
  const run = await hurt.run()
  const waiting = hurt.propose(
    'mark_slowly',
    { mark: 'waited for\n', seconds: '2' },
    { run, key: 'the-one', wait: 30 },
  )
  const broken = expect(waiting).rejects.toThrow('fetch failed')
  await eventually('it runs', () => hurt.marks(run).length > 0)
  await restartEdge()
  await broken
  const call = await hurt.propose(
    'mark_slowly',
    { mark: 'waited for\n', seconds: '2' },
    { run, key: 'the-one', wait: 20 },
  )
  expect(call.state).toBe('succeeded')
  expect(unwrap(await hurt.agent('readRun', { params: { run } })).used.calls).toBe(1)
  expect(hurt.marks(run)).toEqual(['waited for'])
})

test('if the edge is killed while a call streams, a reader that reconnects gets the rest of the output once, then the cancel and the end', async () => {
  const call = await hurt.propose('talk_on', { mark: 'follows' })
  const events: StreamEvent[] = []
  const follow = async (wanted: (text: string) => boolean): Promise<void> => {
    const stream = await eventually(
      'the edge tells of the call',
      () =>
        followCall(hurt.stack.url, hurt.stack.dev.agent_key, call, events.at(-1)?.id).catch(
          () => false as const,
        ),
      30_000,
    )
    const heard = () => wanted(joined([...events, ...stream.events], 'stdout').toString())
    await eventually('enough is heard', () => stream.ended || heard(), 30_000)
    stream.close()
    events.push(...stream.events)
  }
  await follow((text) => text.includes('line 1\n'))
  expect((await hurt.read(call)).state).toBe('running')
  await restartEdge()
  const before = joined(events, 'stdout').byteLength
  await follow((text) => text.length > before + 20)
  unwrap(await hurt.agent('cancelCall', { params: { run: call.run, call: call.id } }))
  const asked = Date.now()
  await follow(() => false)
  expect(Date.now() - asked).toBeLessThan(10_000)
  expect(events.map(told)).toContainEqual({
    event: 'state',
    state: 'running',
    attempt: 1,
    cancel_requested: true,
  })
  expect(events.map(told).at(-1)).toMatchObject({
    event: 'end',
    state: 'cancelled',
    error: { code: 'cancelled' },
  })
  const { result } = await hurt.read(call)
  expect([joined(events, 'stdout').toString(), joined(events, 'stderr').toString()]).toEqual([
    result?.output,
    result?.stderr,
  ])
  const lines = result?.output.split('\n').slice(0, -1) ?? []
  expect(lines).toEqual(lines.map((_, i) => `line ${i}`))
})

test(`while the edge is away for ${AWAY_MS / 1000} s, ended calls are spooled and then settled, running ones go on, and leases restart at its return`, async () => {
  const [ends, stays] = [
    await hurt.propose('mark_slowly', { mark: 'ends\n', seconds: '2' }),
    await hurt.propose('mark_slowly', { mark: 'stays\n', seconds: `${AWAY_MS / 1000 + 3}` }),
  ]
  for (const call of [ends, stays]) await runs(call)
  await strike(hurt.stack.edge)
  const at = Date.now()
  await eventually('the result is in the spool', () => hurt.spool().has(ends.id))
  await sleep(at + AWAY_MS - Date.now())
  await revive(hurt.stack.edge)
  for (const call of [ends, stays]) {
    const ended = await hurt.ended(call)
    expect(ended.state).toBe('succeeded')
    await attested(hurt, ended)
    expect(await kindsOf(call)).toEqual(['allowed', 'claimed', 'succeeded'])
    expect(hurt.marks(call.run)).toHaveLength(1)
  }
  await eventually('the spool is empty', () => hurt.spool().size === 0)
}, 90_000)

/**
 * A suspended edge sees by its clock that no worker has reported, although it was the one asleep.
 */
async function sleepThroughALease(): Promise<void> {
  const call = await other.propose('mark_slowly', {
    mark: 'only the edge slept\n',
    seconds: `${AWAY_MS / 1000 + 3}`,
  })
  await eventually('it runs', () => other.marks(call.run).length > 0)
  const { pid = 0 } = other.stack.edge
  process.kill(pid, 'SIGSTOP')
  await sleep(AWAY_MS)
  process.kill(pid, 'SIGCONT')
  const ended = await other.ended(call)
  expect(ended.state).toBe('succeeded')
  await attested(other, ended)
}

async function expireUnderFire(): Promise<void> {
  // Killed at once and back in time: the alarm persists.
  const early = await other.propose('mark_asking', { mark: 'early\n' })
  await restartEdge(other)
  expect(await other.toldByLog(early, TTL_S * 1_000 + 4_000)).toBe('expired')
  // Away at the expiry: it expires at the return.
  const late = await other.propose('mark_asking', { mark: 'late\n' })
  await strike(other.stack.edge)
  await sleep(TTL_S * 1_000 + 500)
  await revive(other.stack.edge)
  expect(await other.toldByLog(late, 4_000)).toBe('expired')
  for (const call of [early, late]) {
    const ended = await other.read(call)
    expect((ended.ended_at_ms ?? 0) - call.created_at_ms).toBeGreaterThanOrEqual(TTL_S * 1_000)
    await attested(other, ended)
    const answer = await other.operator('answerApproval', {
      params: { id: approvalOf(call) },
      body: { decision: 'approve' },
    })
    expect(answer).toMatchObject({ ok: false })
    expect(endsIn(await journalOf(other, call.run)).map(({ kind }) => kind)).toEqual(['expired'])
    expect(other.marks(call.run)).toEqual([])
  }
}

test(`after the edge slept for ${AWAY_MS / 1000} s, no worker counts as lost and the call goes on`, async () => {
  const [slept] = await begun
  if (slept.status === 'rejected') throw slept.reason
})

test('an approval expires on time after a kill of the edge, or at its return if the time has passed', async () => {
  const [, expired] = await begun
  if (expired.status === 'rejected') throw expired.reason
})
