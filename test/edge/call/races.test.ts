// Expiry, answer, cancel, claim, settlement and a lost lease in every order and at the same moment:
// one of them ends the call.

import { expect, test } from 'vitest'
import type { Event, Proposal, Status } from '../../../edge/call/lifecycle.ts'
import { hasEnded, step } from '../../../edge/call/lifecycle.ts'
import type { Plan } from '../../../shared/plan/plan.ts'
import { after, answered, claimed, EXPIRY, FAR, frozen, proposal, settled, T0, WAYS } from './calls.ts'

function permutations<T>(items: readonly T[]): T[][] {
  if (items.length <= 1) return [[...items]]
  return items.flatMap((item, i) =>
    permutations([...items.slice(0, i), ...items.slice(i + 1)]).map((rest) => [item, ...rest]),
  )
}

/**
 * Applies the events in order; returns which one ended the call, and the refusals of the others.
 */
function play(
  from: Status,
  events: readonly Event[],
  now: number,
  base: Proposal = proposal(),
): { ended: Event[]; status: Status; refusals: string[] } {
  let status = from
  const ended: Event[] = []
  const refusals: string[] = []
  for (const event of events) {
    const stepped = step(frozen({ proposal: base, status }), event, now)
    if (!stepped.ok) refusals.push(stepped.error.code)
    else {
      if (hasEnded(stepped.value.status)) ended.push(event)
      status = stepped.value.status
    }
  }
  return { ended, status, refusals }
}

const cancel: Event = { kind: 'cancel', by: { kind: 'agent', name: 'a' } }
const due: Event = { kind: 'due' }
const waiting = after(proposal(), ...WAYS.awaiting_approval)

test('P11 a denial, a cancel and the expiry may come in any order: the first valid one ends the call, and the others are refused', () => {
  for (const now of [T0, EXPIRY - 1, EXPIRY, FAR]) {
    for (const order of permutations([answered('ann', 'deny', 'ask'), cancel, due])) {
      const { ended, status, refusals } = play(waiting, order, now)
      expect(ended).toHaveLength(1)
      expect(hasEnded(status)).toBe(true)
      expect(refusals).toHaveLength(2)
      const winner = order.find((event) => (now < EXPIRY ? event !== due : event.kind !== 'answered'))
      expect(ended[0]).toBe(winner)
    }
  }
})

test('P11 an approval that races with a cancel and the expiry is granted and then cancelled, or never granted', () => {
  for (const now of [T0, EXPIRY - 1, EXPIRY, FAR]) {
    for (const order of permutations([answered('ann', 'approve', 'allow'), cancel, due])) {
      const { ended, status } = play(waiting, order, now)
      expect(ended).toHaveLength(1)
      expect(status.state).toBe(
        now < EXPIRY || order.indexOf(cancel) < order.indexOf(due) ? 'cancelled' : 'expired',
      )
      const first = order.find((event) => event !== due) === cancel
      expect(status.approval?.answers.length).toBe(now < EXPIRY && !first ? 1 : 0)
    }
  }
})

test('P05 an answer at the expiry or later is refused, before and after the alarm has gone off', () => {
  const expired = after(proposal(), ...WAYS.expired)
  for (const said of ['approve', 'deny'] as const) {
    for (const now of [EXPIRY, EXPIRY + 1, EXPIRY + 600_000, FAR]) {
      for (const from of [waiting, expired]) {
        const stepped = step({ proposal: proposal(), status: from }, answered('ann', said, 'allow'), now)
        expect(stepped).toMatchObject({ ok: false, error: { code: 'approval_expired' } })
      }
    }
    // The edge's clock decides, whatever time the answer states.
    const late = answered('ann', said, 'allow')
    if (late.kind === 'answered') late.answer.at_ms = EXPIRY - 600_000
    expect(step({ proposal: proposal(), status: waiting }, late, EXPIRY)).toMatchObject({
      error: { code: 'approval_expired' },
    })
  }
})

test('L2 only one of two simultaneous claims gets the call', () => {
  const granted = after(proposal(), ...WAYS.granted)
  for (const order of permutations([claimed('w1'), claimed('w2'), claimed('w3')])) {
    const { status, refusals } = play(granted, order, T0)
    expect(status).toMatchObject({
      state: 'running',
      worker: order[0]?.kind === 'claimed' && order[0].worker,
      fence: 1,
    })
    expect(refusals).toEqual(['already_claimed', 'already_claimed'])
  }
})

test('L4 settlement, cancel and a lost lease in any order end the call once', () => {
  const running = after(proposal(), ...WAYS.running)
  for (const order of permutations([settled('w1', 1), cancel, due, settled('w2', 1)])) {
    const { ended, status } = play(running, order, FAR)
    expect(ended).toHaveLength(1)
    const rightful = order.findIndex((event) => event.kind === 'settled' && event.worker === 'w1')
    expect(status.state).toBe(rightful < order.indexOf(due) ? 'succeeded' : 'indeterminate')
  }
})

test('Q05 the settlement of a worker that was lost is refused for its old fence, whoever has the call now', () => {
  const base = proposal({ idempotent: true })
  const lost = after(base, ...WAYS.running, [due, FAR])
  expect(lost).toMatchObject({ state: 'granted', fence: 1 })
  expect(play(lost, [settled('w1', 1)], FAR, base).refusals).toEqual(['stale_fence'])
  const taken = after(base, ...WAYS.running, [due, FAR], [claimed('w1'), FAR])
  expect(taken).toMatchObject({ state: 'running', worker: 'w1', fence: 2 })
  expect(play(taken, [settled('w1', 1)], FAR, base).refusals).toEqual(['stale_fence'])
  expect(play(taken, [settled('w1', 2)], FAR, base).status.state).toBe('succeeded')
})

test('L2 an idempotent call is executed at most three times, any other at most once', () => {
  const again = proposal({ idempotent: true })
  let status = after(again, ...WAYS.granted)
  const fences: number[] = []
  for (let now = T0, lives = true; lives; now += 60_000) {
    const run = play(status, [claimed('w1')], now, again).status
    if (run.state === 'running') fences.push(run.fence)
    status = play(run, [due], now + 30_000, again).status
    lives = status.state === 'granted'
  }
  expect(fences).toEqual([1, 2, 3])
  expect(status).toMatchObject({ state: 'indeterminate', error: 'worker_lost' })
  expect(after(proposal(), ...WAYS.indeterminate)).toMatchObject({
    state: 'indeterminate',
    error: 'worker_lost',
    fence: 1,
  })
})

test('L2 a call with a requested cancel is not executed again', () => {
  const base = proposal({ idempotent: true })
  expect(after(base, ...WAYS.running, [cancel, T0], [due, FAR])).toMatchObject({
    state: 'indeterminate',
    cancelRequested: true,
  })
})

test('the error of a lapsed or lost call names the edge for a skill and the worker otherwise', () => {
  const errorOf = (tier: 'A' | 'C', way: keyof typeof WAYS) => {
    const status = after(proposal({ plan: { tier } as unknown as Plan }), ...WAYS[way]) // nothing else of the plan is read
    return hasEnded(status) ? [status.error, status.detail] : []
  }
  expect(errorOf('C', 'lapsed')).toEqual(['never_claimed', 'no worker claimed it in time'])
  expect(errorOf('A', 'lapsed')).toEqual(['never_claimed', 'no slot for skills became free in time'])
  expect(errorOf('C', 'indeterminate')).toEqual(['worker_lost', 'the worker stopped reporting'])
  expect(errorOf('A', 'indeterminate')).toEqual([
    'worker_lost',
    'the edge lost the call while it ran, so nobody saw its end',
  ])
})

test('a granted call can be claimed for 15 minutes (`claim_window_ms`), and lapses then', () => {
  const granted = after(proposal(), ...WAYS.granted)
  const at = (now: number, event: Event) => play(granted, [event], now).status.state
  const end = T0 + 900_000
  expect([at(end - 1, due), at(end - 1, claimed('w'))]).toEqual(['granted', 'running'])
  expect([at(end, due), at(end, claimed('w'))]).toEqual(['lapsed', 'granted'])
})
