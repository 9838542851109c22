// Random walks over the lifecycle: the invariants hold for any events in any order at any time. The
// walks are seeded; a failure names its seed, which repeats the walk.

import { expect, test } from 'vitest'
import type { CallRecord, Event, Proposal, Status, Step } from '../../../edge/call/lifecycle.ts'
import { hasEnded, step } from '../../../edge/call/lifecycle.ts'
import { seeded } from '../../shared/random-json.ts'
import { answered, ask, claimed, decision, edited, frozen, proposal, released, settled, T0 } from './calls.ts'

const WALKS = 5_000
const STEPS = 24
const EFFECTS = ['allow', 'ask', 'deny'] as const
const WORKERS = ['w1', 'w2', 'w3'] as const

type Taken = { event: Event; now: number; before: Status | null; step: Step }

function walk(seed: number): { proposal: Proposal; taken: Taken[] } {
  const random = seeded(seed)
  const pick = <T>(from: readonly [T, ...T[]]): T => from[Math.floor(random() * from.length)] ?? from[0]
  const base = frozen(proposal({ idempotent: random() < 0.5 }))
  let current = base
  const taken: Taken[] = []
  let status: Status | null = null
  let now = T0
  const event = (): Event => {
    const fence =
      status !== null && 'fence' in status && random() < 0.8 ? status.fence : Math.floor(random() * 4)
    const worker = status?.state === 'running' && random() < 0.8 ? status.worker : pick(WORKERS)
    return pick<() => Event>([
      () => ({ kind: 'proposed', decision: decision(pick(EFFECTS)), ask: random() < 0.8 ? ask : null }),
      () => answered(pick(['ann', 'bob', 'cy']), pick(['approve', 'approve', 'deny']), pick(EFFECTS)),
      () => edited(pick(['ann', 'bob']), pick(EFFECTS), current, pick(['1', '2', '3']).repeat(64)),
      () => claimed(pick(WORKERS), pick(['allow', 'allow', ...EFFECTS])),
      () => released(pick(['allow', ...EFFECTS])),
      () => settled(worker, fence, pick(['succeeded', 'failed', 'timed_out', 'cancelled'])),
      () => ({ kind: 'cancel', by: { kind: 'agent', name: 'a' } }),
      () => ({ kind: 'links_revoked', by: 'ann', of: pick([null, 'ann', 'bob']) }),
      () => ({ kind: 'due', ...(random() < 0.5 ? { leaseUntil: now + Math.floor(random() * 30_000) } : {}) }),
    ])()
  }
  for (let i = 0; i < STEPS; i++) {
    now += pick([0, 1, 500, 5_000, 13_000, random() < 0.2 ? 901_000 : 0])
    if (random() < 0.05) now -= 2_000 // a clock that goes back changes nothing but time
    const next: Event = i === 0 ? { kind: 'proposed', decision: decision(pick(EFFECTS)), ask } : event()
    const record: CallRecord | Proposal = status === null ? base : frozen({ proposal: current, status })
    const stepped = step(record, frozen(next), now)
    expect(step(record, next, now), `seed ${seed}: the same again`).toEqual(stepped)
    if (!stepped.ok) continue
    taken.push({ event: next, now, before: status, step: stepped.value })
    status = frozen(stepped.value.status)
    current = frozen(stepped.value.proposal ?? current)
  }
  return { proposal: base, taken }
}

const walks = Array.from({ length: WALKS }, (_, seed) => ({ seed, ...walk(seed) }))
const each = (check: (walked: (typeof walks)[number], say: string) => void): void => {
  for (const walked of walks) check(walked, `seed ${walked.seed}`)
}

test('the random walks reach every state', () => {
  const reached = new Set(walks.flatMap(({ taken }) => taken.map(({ step: { status } }) => status.state)))
  expect([...reached].sort()).toEqual(
    [
      'awaiting_approval',
      'cancelled',
      'denied',
      'expired',
      'failed',
      'granted',
      'indeterminate',
      'lapsed',
      'rejected',
      'released',
      'running',
      'succeeded',
      'timed_out',
    ].sort(),
  )
})

test('L1 a call runs or is released only directly after a grant, and a grant follows an allow of the current policy', () => {
  each(({ taken }, say) => {
    for (const {
      before,
      event,
      step: { status },
    } of taken) {
      if (status.state === 'released') {
        expect(before?.state, say).toBe('granted')
        expect(event.kind === 'released' && event.decision.effect, say).toBe('allow')
      }
      if (status.state === 'running' && before?.state !== 'running') {
        expect(before?.state, say).toBe('granted')
        expect(event.kind === 'claimed' && event.decision.effect, say).toBe('allow')
      }
      if (status.state !== 'granted' || before?.state === 'granted') continue
      if (before?.state === 'running') continue // a retry: L2 counts it, and its claim asks policy again
      const said =
        event.kind === 'edited'
          ? event.permitted
          : event.kind === 'proposed' || event.kind === 'answered'
            ? event.decision
            : null
      expect(said?.effect, say).toBe('allow')
      if (before !== null)
        expect(
          status.approval?.answers.some(({ decision: said }) => said === 'approve'),
          say,
        ).toBe(true)
    }
  })
})

test('L1 a call that a human denied never runs', () => {
  each(({ taken }, say) => {
    const no = taken.findIndex(({ event }) => event.kind === 'answered' && event.answer.decision === 'deny')
    if (no >= 0)
      expect(
        taken.slice(no).some(({ step: { status } }) => status.state === 'running'),
        say,
      ).toBe(false)
  })
})

test('L2 each claim has a fence one higher than the last, and only the last one settles', () => {
  each(({ taken }, say) => {
    let fence = 0
    let holder = ''
    for (const {
      event,
      before,
      step: { status },
    } of taken) {
      if (event.kind === 'claimed' && status.state === 'running') {
        expect(status.fence, say).toBe(fence + 1)
        fence = status.fence
        holder = status.worker
      }
      if (event.kind !== 'settled') continue
      expect(before?.state, say).toBe('running')
      expect([event.worker, event.fence], say).toEqual([holder, fence])
    }
  })
})

test('L2 a call runs once, an idempotent one at most three times, and never again after a cancel', () => {
  each(({ proposal: { idempotent }, taken }, say) => {
    const claims = taken.filter(
      ({ event, step: { status } }) => event.kind === 'claimed' && status.state === 'running',
    )
    expect(claims.length, say).toBeLessThanOrEqual(idempotent ? 3 : 1)
    const cancelled = taken.findIndex(({ event }) => event.kind === 'cancel')
    if (cancelled >= 0)
      expect(
        taken.slice(cancelled).some(({ event }) => event.kind === 'claimed'),
        say,
      ).toBe(false)
  })
})

test('L3 a card never changes after it was shown; answers are only added, one per person', () => {
  each(({ taken }, say) => {
    for (const {
      before,
      event,
      step: { status, proposal: changed },
    } of taken) {
      // An edit replaces the proposal of a waiting call and drops the answers to the former one.
      expect([changed !== undefined, changed === undefined || before?.state], say).toEqual(
        event.kind === 'edited' ? [true, 'awaiting_approval'] : [false, true],
      )
      if (event.kind === 'edited') {
        expect([status.approval?.answers, status.approval?.edits?.at(-1)], say).toEqual([
          [event.answer],
          event.edit,
        ])
        continue
      }
      const [was, is] = [before?.approval ?? null, status.approval]
      if (was === null || is === null) {
        expect(before === null || (was === null && is === null), say).toBe(true)
        continue
      }
      expect({ ...is, answers: [], enough: was.enough, linksRevoked: was.linksRevoked }, say).toEqual({
        ...was,
        answers: [],
      })
      expect(is.answers.slice(0, was.answers.length), say).toEqual(was.answers)
      expect(new Set(is.answers.map(({ by }) => by)).size, say).toBe(is.answers.length)
    }
  })
})

test('a call that ran ends cancelled only after somebody requested it', () => {
  let count = 0
  each(({ taken }, say) => {
    for (const [i, { before, step }] of taken.entries()) {
      if (before?.state !== 'running' || step.status.state !== 'cancelled') continue
      count += 1
      expect(
        taken.slice(0, i).some(({ event }) => event.kind === 'cancel'),
        say,
      ).toBe(true)
    }
  })
  expect(count).toBeGreaterThan(0)
})

test('L4 an ended call has no further transition', () => {
  each(({ taken }, say) => {
    for (const { before } of taken) if (before !== null) expect(hasEnded(before), say).toBe(false)
  })
})

test('L9 no call expires, lapses or is lost before its deadline, and none is answered or claimed after it', () => {
  each(({ taken }, say) => {
    for (const {
      before,
      event,
      now,
      step: { status },
    } of taken) {
      if (before === null) continue
      if (event.kind === 'due') {
        const at =
          before.state === 'awaiting_approval'
            ? before.approval.expiresAt
            : before.state === 'granted'
              ? before.until
              : 0
        expect(now, say).toBeGreaterThanOrEqual(
          before.state === 'running' ? Math.max(before.leaseUntil, event.leaseUntil ?? 0) : at,
        )
      }
      if ((event.kind === 'answered' || event.kind === 'edited') && before.state === 'awaiting_approval')
        expect(now, say).toBeLessThan(before.approval.expiresAt)
      if (event.kind === 'claimed' && before.state === 'granted') expect(now, say).toBeLessThan(before.until)
      if (status.state === 'granted' && before.state === 'running') expect(event.kind, say).toBe('due')
    }
  })
})

test('each transition is journalled once, and each end attested once', () => {
  each(({ taken }, say) => {
    const ends = taken.filter(({ step: { status } }) => hasEnded(status))
    expect(ends.length, say).toBeLessThanOrEqual(1)
    for (const {
      step: { journal },
    } of taken)
      expect(journal.kind, say).toMatch(/^[a-z_]+$/)
  })
})
