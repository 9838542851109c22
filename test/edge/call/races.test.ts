// Expiry, answer, cancel, claim, settlement and a lost lease in every order and at the very same moment: one of them ends the call.

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

/** Applies the events in order; who ended it, and what the others were told. */
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

test('P11 a no, a cancel and the expiry in every order: the first that may ends it, the others are told so', () => {
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

test('P11 a yes against a cancel and the expiry: granted and then cancelled, or never granted; no third way', () => {
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

test('P05 whoever comes at the expiry or later is too late, before and after the alarm has gone off', () => {
  const expired = after(proposal(), ...WAYS.expired)
  for (const said of ['approve', 'deny'] as const) {
    for (const now of [EXPIRY, EXPIRY + 1, EXPIRY + 600_000, FAR]) {
      for (const from of [waiting, expired]) {
        const stepped = step({ proposal: proposal(), status: from }, answered('ann', said, 'allow'), now)
        expect(stepped).toMatchObject({ ok: false, error: { code: 'approval_expired' } })
      }
    }
    // Ten minutes of skew in the answer's own time are nothing to the clock that judges.
    const late = answered('ann', said, 'allow')
    if (late.kind === 'answered') late.answer.at_ms = EXPIRY - 600_000
    expect(step({ proposal: proposal(), status: waiting }, late, EXPIRY)).toMatchObject({
      error: { code: 'approval_expired' },
    })
  }
})

test('L2 two workers claim at once: one has it', () => {
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

test('L4 settlement, cancel and a lost lease in every order end the call once', () => {
  const running = after(proposal(), ...WAYS.running)
  for (const order of permutations([settled('w1', 1), cancel, due, settled('w2', 1)])) {
    const { ended, status } = play(running, order, FAR)
    expect(ended).toHaveLength(1)
    const rightful = order.findIndex((event) => event.kind === 'settled' && event.worker === 'w1')
    expect(status.state).toBe(rightful < order.indexOf(due) ? 'succeeded' : 'indeterminate')
  }
})

test('Q05 the worker that was lost and comes back finds its fence used up, whoever has the call now', () => {
  const base = proposal({ idempotent: true })
  const lost = after(base, ...WAYS.running, [due, FAR])
  expect(lost).toMatchObject({ state: 'granted', fence: 1 })
  expect(play(lost, [settled('w1', 1)], FAR, base).refusals).toEqual(['stale_fence'])
  const taken = after(base, ...WAYS.running, [due, FAR], [claimed('w1'), FAR])
  expect(taken).toMatchObject({ state: 'running', worker: 'w1', fence: 2 })
  expect(play(taken, [settled('w1', 1)], FAR, base).refusals).toEqual(['stale_fence'])
  expect(play(taken, [settled('w1', 2)], FAR, base).status.state).toBe('succeeded')
})

test('L2 an idempotent call is tried three times and then given up; any other is never tried again', () => {
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

test('L2 a call whose cancel was asked for is not tried again', () => {
  const base = proposal({ idempotent: true })
  expect(after(base, ...WAYS.running, [cancel, T0], [due, FAR])).toMatchObject({
    state: 'indeterminate',
    cancelRequested: true,
  })
})

test('a call of a skill that lapsed or was lost is told in words of the edge, one of a worker in the worker’s', () => {
  const told = (tier: 'A' | 'C', way: keyof typeof WAYS) => {
    const status = after(proposal({ plan: { tier } as unknown as Plan }), ...WAYS[way]) // nothing else of the plan is read
    return hasEnded(status) ? [status.error, status.detail] : []
  }
  expect(told('C', 'lapsed')).toEqual(['never_claimed', 'no worker claimed it in time'])
  expect(told('A', 'lapsed')).toEqual(['never_claimed', 'no slot for skills became free in time'])
  expect(told('C', 'indeterminate')).toEqual(['worker_lost', 'the worker stopped reporting'])
  expect(told('A', 'indeterminate')).toEqual([
    'worker_lost',
    'the edge lost the call while it ran, so nobody saw its end',
  ])
})
