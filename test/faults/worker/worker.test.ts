// Promise: if a worker dies, sleeps or is stopped, its calls end in time and attested, late results
// are refused, and no process stays.

import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { LIMITS } from '../../../shared/limits.ts'
import type { Call } from '../../../shared/wire/calls.ts'
import { attested, endsIn, journalOf } from '../../support/auditor.ts'
import { eventually } from '../../support/eventually.ts'
import { unwrap } from '../../support/fixtures.ts'
import { about, boundTo, HurtStack, processesWith, revive, strike } from '../../support/stack/hurt-stack.ts'
import { SHORT_LEASES } from '../../support/stack/other-limits.ts'

/** After the end of a lease. */
const KNOWN_WITHIN_MS = 8_000

let hurt: HurtStack
/**
 * Runs on its own stack beside the other tests, because it mostly waits; it has the real limits. The last
 * test reports it.
 */
let dyingTogether: Promise<PromiseSettledResult<Awaited<ReturnType<typeof dieTogether>>>[]>
beforeAll(async () => {
  hurt = await HurtStack.start({ limits: SHORT_LEASES })
  dyingTogether = Promise.allSettled([dieTogether()])
})
afterAll(async () => {
  await dyingTogether
  await hurt?.stop()
})

/** A call whose process has left its mark and sleeps for `seconds`. */
async function running(
  tool: 'mark_slowly' | 'mark_again' | 'mark_relayed',
  seconds: string,
  on = hurt,
): Promise<Call> {
  const call = await on.propose(tool, { mark: `${seconds}\n`, seconds })
  if (call.approval !== undefined)
    unwrap(
      await on.operator('answerApproval', {
        params: { id: call.approval.id },
        body: { decision: 'approve' },
      }),
    )
  await eventually(
    `the process of ${call.id} runs`,
    () => on.marks(call.run).length === 1 && processesWith(seconds).length > 0,
  )
  return on.read(call)
}

const endsOf = async ({ run }: Call): Promise<string[]> =>
  endsIn(await journalOf(hurt, run)).map(({ kind }) => kind)

describe('a worker is killed during a call', () => {
  let call: Call
  let again: Call
  let at: number
  const [stays, relayed] = [about(60), about(60)]
  beforeAll(async () => {
    call = await running('mark_slowly', stays)
    await running('mark_relayed', relayed)
    again = await running('mark_again', about(2))
    at = Date.now()
    await strike(hurt.stack.worker)
  })

  test('S35 the process ends at once, and the call ends indeterminate and attested within 8 s of the end of its lease, even if nobody reads it', async () => {
    const left = () => [
      ...processesWith(stays),
      ...processesWith(relayed),
      ...boundTo(hurt.stack.state.worker),
    ]
    await eventually('no process is left, no relay either', () => left().length === 0, 2_000)
    const within = SHORT_LEASES.lease_ms + KNOWN_WITHIN_MS
    expect(await hurt.toldByLog(call, within + 2_000)).toBe('indeterminate')
    const ended = await hurt.read(call)
    expect((ended.ended_at_ms ?? 0) - at).toBeLessThan(within)
    expect(ended.result).toMatchObject({ ok: false, error: { code: 'worker_lost' } })
    const { predicate } = await attested(hurt, ended)
    expect(predicate.execution).toMatchObject({ executor: 'edge', outcome: null })
    expect(predicate.grant?.fence).toBe(1)

    await revive(hurt.stack.worker)
    await eventually('the worker says what it lost', () =>
      hurt
        .workerLog()
        .find(({ level, first }) => level === 'warn' && Array.isArray(first) && first.includes(call.id)),
    )
    expect(await endsOf(call)).toEqual(['indeterminate'])
    expect(hurt.marks(call.run)).toHaveLength(1)
  })

  test('L2 only a call of an idempotent tool runs again, under a higher fence', async () => {
    const ended = await hurt.ended(again)
    expect(ended.state).toBe('succeeded')
    expect((await attested(hurt, ended)).predicate.grant?.fence).toBe(2)
    expect(hurt.marks(again.run)).toHaveLength(2)
    expect((await journalOf(hurt, again.run)).map(({ kind }) => kind)).toEqual([
      'allowed',
      'claimed',
      'worker_lost',
      'claimed',
      'succeeded',
    ])
  })
})

test('Q05 after a worker slept beyond its lease, its settlements are refused and its running processes are stopped', async () => {
  const [brief, stays] = [about(3), about(60)]
  const [short, long, again] = [
    await running('mark_slowly', brief),
    await running('mark_slowly', stays),
    await running('mark_again', brief),
  ]
  const { pid = 0 } = hurt.stack.worker
  process.kill(pid, 'SIGSTOP')
  const at = Date.now()
  try {
    for (const call of [short, long])
      expect(await hurt.toldByLog(call, SHORT_LEASES.lease_ms + KNOWN_WITHIN_MS)).toBe('indeterminate')
    expect(Date.now() - at).toBeGreaterThan(SHORT_LEASES.lease_ms - SHORT_LEASES.heartbeat_ms - 1_000)
    await eventually('the short one’s process has ended by itself', () => processesWith(brief).length === 0)
    expect(processesWith(stays)).not.toEqual([]) // a sleeping worker kills nothing
    await hurt.until(again, ['granted'])
  } finally {
    process.kill(pid, 'SIGCONT')
  }
  for (const call of [short, long]) {
    expect(await hurt.dropped(call)).toBe('stale_fence')
    const ended = await hurt.read(call)
    expect(ended.state).toBe('indeterminate')
    await attested(hurt, ended)
    expect(await endsOf(call)).toEqual(['indeterminate'])
    expect(hurt.marks(call.run)).toHaveLength(1)
  }
  expect(processesWith(stays)).toEqual([])
  // The idempotent call was granted again: its first result is refused, its second one accepted.
  expect(await hurt.dropped(again)).toBe('stale_fence')
  const second = await hurt.ended(again)
  expect(second.state).toBe('succeeded')
  expect((await attested(hurt, second)).predicate.grant?.fence).toBe(2)
  expect(hurt.marks(again.run)).toHaveLength(2)
  expect(hurt.stack.worker.pid).toBe(pid)
})

test('a cancel stops the running process within 5 s, and the worker attests the end', async () => {
  const stays = about(60)
  const call = await running('mark_slowly', stays)
  const at = Date.now()
  expect(unwrap(await hurt.agent('cancelCall', { params: { run: call.run, call: call.id } })).state).toBe(
    'running',
  )
  await eventually('the process is gone', () => processesWith(stays).length === 0, 5_000)
  const ended = await hurt.ended(call, 5_000 - (Date.now() - at))
  expect(ended).toMatchObject({ state: 'cancelled', result: { ok: false, error: { code: 'cancelled' } } })
  const { predicate } = await attested(hurt, ended)
  expect(predicate.execution.outcome).toEqual({ kind: 'cancelled' })
  expect(predicate.execution.executor).not.toBe('edge')
})

test('P11 after a race of cancel and claim each call has one end, and no process outlives it', async () => {
  const stays = about(60)
  const LAST = 23
  const race = async (n: number): Promise<Call> => {
    const call = await hurt.propose('mark_slowly', { mark: 'race\n', seconds: stays })
    await sleep(n * 4) // from before the claim to well after it; the exact moment depends on the load of the machine
    if (n === LAST)
      await eventually('the last one runs', async () => (await hurt.read(call)).state === 'running', 20_000)
    unwrap(await hurt.agent('cancelCall', { params: { run: call.run, call: call.id } }))
    return hurt.ended(call, 10_000)
  }
  const ended = await Promise.all(Array.from({ length: LAST + 1 }, (_, n) => race(n)))
  await eventually('no process is left', () => processesWith(stays).length === 0, 1_000)
  const executions = new Set<boolean>()
  for (const call of ended) {
    expect([call.state, call.result?.error?.code]).toEqual(['cancelled', 'cancelled'])
    const { predicate } = await attested(hurt, call)
    const claimed = predicate.execution.executor !== 'edge'
    executions.add(claimed)
    expect(hurt.marks(call.run).length).toBeLessThanOrEqual(claimed ? 1 : 0)
    expect(await endsOf(call)).toHaveLength(1)
  }
  expect(executions.size).toBe(2) // some calls ran and some did not
})

async function dieTogether(): Promise<{ call: Call; back: number; told: string }> {
  const other = await HurtStack.start()
  try {
    const call = await running('mark_slowly', about(60), other)
    // Later than its first lease, the call lives by heartbeats, which are not stored.
    await sleep(call.created_at_ms + LIMITS.lease_ms + LIMITS.heartbeat_ms + 500 - Date.now())
    await Promise.all([strike(other.stack.worker), strike(other.stack.edge)])
    await revive(other.stack.edge)
    const back = Date.now()
    const told = await other.toldByLog(call, LIMITS.lease_ms + KNOWN_WITHIN_MS + 5_000)
    const ended = await other.read(call)
    await attested(other, ended)
    return { call: ended, back, told }
  } finally {
    await other.stop()
  }
}

test('if worker and edge die and only the edge comes back, the call ends within 20 s without a request', async () => {
  const [together] = await dyingTogether
  if (together?.status !== 'fulfilled') throw together?.reason
  const { call, back, told } = together.value
  // Objects are evicted after 10 idle seconds; a lease that restarted with each object would never
  // end.
  expect(told).toBe('indeterminate')
  expect((call.ended_at_ms ?? 0) - back).toBeLessThan(LIMITS.lease_ms + KNOWN_WITHIN_MS)
})
