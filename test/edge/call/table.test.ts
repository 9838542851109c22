// Every state of a call × every event. Each pair is a listed transition or a refusal, and a refusal
// changes nothing.

import { expect, test } from 'vitest'
import { dueAt } from '../../../edge/call/due-at.ts'
import type { CallRecord, Event, Status } from '../../../edge/call/lifecycle.ts'
import { hasEnded, step } from '../../../edge/call/lifecycle.ts'
import { DEFAULT_LIMITS } from '../../../shared/limits.ts'
import type { ProcessPlan } from '../../../shared/plan/plan.ts'
import {
  after,
  answered,
  ask,
  claimed,
  decision,
  EXPIRY,
  edited,
  FAR,
  frozen,
  proposal,
  released,
  settled,
  T0,
  WAYS,
} from './calls.ts'

type State = Status['state']
const STATES = Object.keys(WAYS) as State[] // a record over exactly the states

/** Events with the time at which they are applied. */
const EVENTS: Readonly<Record<string, readonly [Event, number]>> = {
  'proposed again': [{ kind: 'proposed', decision: decision('allow'), ask: null }, T0],
  'yes, policy allows': [answered('ann', 'approve', 'allow'), T0],
  'yes, policy asks for more': [answered('ann', 'approve', 'ask'), T0],
  'yes, policy denies': [answered('ann', 'approve', 'deny'), T0],
  no: [answered('ann', 'deny', 'ask'), T0],
  'no, though policy would allow': [answered('ann', 'deny', 'allow'), T0],
  'yes, a millisecond before expiry': [answered('ann', 'approve', 'allow'), EXPIRY - 1],
  'yes, at expiry': [answered('ann', 'approve', 'allow'), EXPIRY],
  'no, at expiry': [answered('ann', 'deny', 'ask'), EXPIRY],
  claimed: [claimed('w1'), T0],
  'claimed, policy denies': [claimed('w1', 'deny'), T0],
  'claimed, policy asks': [claimed('w1', 'ask'), T0],
  'claimed too late': [claimed('w1'), FAR],
  released: [released(), T0],
  'released, policy denies': [released('deny'), T0],
  'released, policy asks': [released('ask'), T0],
  'released too late': [released(), FAR],
  settled: [settled('w1', 1), T0],
  'settled as failed': [settled('w1', 1, 'failed'), T0],
  'settled as timed out': [settled('w1', 1, 'timed_out'), T0],
  'settled as cancelled': [settled('w1', 1, 'cancelled'), T0],
  'settled after the lease': [settled('w1', 1), FAR],
  'settled by another': [settled('w2', 1), T0],
  'settled under an old fence': [settled('w1', 0), T0],
  'settled under a later fence': [settled('w1', 2), T0],
  cancel: [{ kind: 'cancel', by: { kind: 'agent', name: 'a' } }, T0],
  'changed, policy allows': [edited('ann', 'allow', proposal()), T0],
  'changed, policy asks for more': [edited('ann', 'ask', proposal()), T0],
  'changed, policy denies': [edited('ann', 'deny', proposal()), T0],
  'changed, at expiry': [edited('ann', 'allow', proposal()), EXPIRY],
  'links revoked': [{ kind: 'links_revoked', by: 'ann', of: null }, T0],
  'due, too early': [{ kind: 'due' }, T0],
  'due, its folder gone': [{ kind: 'due', folderGone: 'its worker is silent' }, T0],
  due: [{ kind: 'due' }, FAR],
  'due, nobody could claim it': [{ kind: 'due', unclaimable: 'no worker has proven it' }, FAR],
  'due, the lease renewed': [{ kind: 'due', leaseUntil: FAR + 1 }, FAR],
  restored: [{ kind: 'restored' }, T0],
}

const each = (events: readonly string[], outcome: string): Record<string, string> =>
  Object.fromEntries(events.map((event) => [event, outcome]))
/** No approval is open, so answers are refused. */
const NOT_ASKED = each(
  Object.keys(EVENTS).filter((event) => EVENTS[event]?.[0].kind === 'answered'),
  'already_answered',
)
const NOT_CHANGED = each(
  Object.keys(EVENTS).filter((event) => EVENTS[event]?.[0].kind === 'edited'),
  'already_answered',
)
/** No worker has the call, so settlements are refused. */
const NOT_RUNNING = each(
  Object.keys(EVENTS).filter((event) => EVENTS[event]?.[0].kind === 'settled'),
  'stale_fence',
)

/** Nothing is granted, so nothing is released. */
const NOT_RELEASED = each(
  Object.keys(EVENTS).filter((event) => EVENTS[event]?.[0].kind === 'released'),
  'not_claimable',
)

/** `state · effects · journal`, or the code of the refusal. */
const EXPECTED: Readonly<
  Record<'awaiting_approval' | 'granted' | 'running', Readonly<Record<string, string>>>
> = {
  awaiting_approval: {
    'proposed again': 'conflict',
    'yes, policy allows': 'granted · mirror ring · approved',
    'yes, policy asks for more': 'awaiting_approval · mirror notify · approved',
    'yes, policy denies': 'denied · mirror attest · denied',
    no: 'rejected · mirror attest · rejected',
    'no, though policy would allow': 'rejected · mirror attest · rejected',
    'yes, a millisecond before expiry': 'granted · mirror ring · approved',
    'yes, at expiry': 'approval_expired',
    'no, at expiry': 'approval_expired',
    claimed: 'not_claimable',
    'claimed, policy denies': 'not_claimable',
    'claimed, policy asks': 'not_claimable',
    'claimed too late': 'not_claimable',
    ...NOT_RELEASED,
    ...NOT_RUNNING,
    cancel: 'cancelled · mirror attest · cancelled',
    'changed, policy allows': 'granted · mirror ring · edited',
    'changed, policy asks for more': 'awaiting_approval · mirror notify · edited',
    'changed, policy denies': 'denied',
    'changed, at expiry': 'approval_expired',
    'links revoked': 'awaiting_approval · mirror notify · links_revoked',
    'due, too early': 'conflict',
    'due, its folder gone': 'conflict',
    due: 'expired · mirror attest · expired',
    'due, nobody could claim it': 'expired · mirror attest · expired',
    'due, the lease renewed': 'expired · mirror attest · expired',
    restored: 'indeterminate · mirror attest · indeterminate',
  },
  granted: {
    'proposed again': 'conflict',
    ...NOT_ASKED,
    claimed: 'running · notify · claimed',
    'claimed, policy denies': 'cancelled · attest · withdrawn',
    'claimed, policy asks': 'cancelled · attest · withdrawn',
    'claimed too late': 'not_claimable',
    released: 'released · attest · released',
    'released, policy denies': 'cancelled · attest · withdrawn',
    'released, policy asks': 'cancelled · attest · withdrawn',
    'released too late': 'not_claimable',
    ...NOT_RUNNING,
    cancel: 'cancelled · attest · cancelled',
    ...NOT_CHANGED,
    'links revoked': 'already_answered',
    'due, too early': 'conflict',
    'due, its folder gone': 'lapsed · attest · lapsed',
    due: 'lapsed · attest · lapsed',
    'due, nobody could claim it': 'lapsed · attest · lapsed',
    'due, the lease renewed': 'lapsed · attest · lapsed',
    restored: 'indeterminate · attest · indeterminate',
  },
  running: {
    'proposed again': 'conflict',
    ...NOT_ASKED,
    claimed: 'already_claimed',
    'claimed, policy denies': 'already_claimed',
    'claimed, policy asks': 'already_claimed',
    'claimed too late': 'already_claimed',
    ...NOT_RELEASED,
    settled: 'succeeded · notify · succeeded',
    'settled as failed': 'failed · notify · failed',
    'settled as timed out': 'timed_out · notify · timed_out',
    'settled as cancelled': 'attestation_invalid',
    'settled after the lease': 'succeeded · notify · succeeded',
    'settled by another': 'stale_fence',
    'settled under an old fence': 'stale_fence',
    'settled under a later fence': 'stale_fence',
    cancel: 'running · notify · cancel_requested',
    ...NOT_CHANGED,
    'links revoked': 'already_answered',
    'due, too early': 'conflict',
    'due, its folder gone': 'conflict',
    due: 'indeterminate · attest · indeterminate',
    'due, nobody could claim it': 'indeterminate · attest · indeterminate',
    'due, the lease renewed': 'conflict',
    restored: 'indeterminate · attest · indeterminate',
  },
}

function expected(state: State, event: string): string {
  if (state === 'awaiting_approval' || state === 'granted' || state === 'running')
    return EXPECTED[state][event] ?? 'not in the table'
  if (!['answered', 'edited'].includes(EVENTS[event]?.[0].kind ?? '')) return 'already_ended' // L4
  return state === 'expired'
    ? 'approval_expired'
    : state === 'cancelled'
      ? 'approval_cancelled'
      : 'already_answered'
}

const recordIn = (state: State): CallRecord =>
  frozen({ proposal: proposal(), status: after(proposal(), ...WAYS[state]) })

function outcome(record: CallRecord, event: Event, now: number): string {
  const stepped = step(record, frozen(event), now)
  if (!stepped.ok) return stepped.error.code
  const { status, effects, journal } = stepped.value
  return [status.state, effects.join(' '), journal.kind].join(' · ')
}

test.each(STATES)('L4 in state %s each event leads to the state of the table, or is refused', (state) => {
  const record = recordIn(state)
  expect(record.status.state).toBe(state)
  const seen = Object.fromEntries(
    Object.entries(EVENTS).map(([name, [event, now]]) => [name, outcome(record, event, now)]),
  )
  expect(seen).toEqual(Object.fromEntries(Object.keys(EVENTS).map((name) => [name, expected(state, name)])))
})

test('a running call with a requested cancel ends cancelled, or as it would have ended without the request', () => {
  const cancel: Event = { kind: 'cancel', by: { kind: 'agent', name: 'a' } }
  const record = frozen({ proposal: proposal(), status: after(proposal(), ...WAYS.running, [cancel, T0]) })
  const seen = Object.fromEntries(
    Object.entries(EVENTS).map(([name, [event, now]]) => [name, outcome(record, event, now)]),
  )
  expect(seen).toEqual({
    ...EXPECTED.running,
    cancel: 'conflict',
    'settled as cancelled': 'cancelled · notify · cancelled',
  })
})

test('a call that is not stored yet accepts only the event `proposed`', () => {
  for (const [name, [event, now]] of Object.entries(EVENTS)) {
    const stepped = step(proposal(), event, now)
    expect([name, stepped.ok ? stepped.value.status.state : stepped.error.code]).toEqual([
      name,
      event.kind === 'proposed' ? 'granted' : 'conflict',
    ])
  }
})

test('L1 a call with a plan is executed here, so it can’t be released', () => {
  const limits = { timeout_ms: 1, fuel: 1, memory_bytes: 1, output_bytes: 1 }
  const executor = { kind: 'skill' as const, skill: 's', version: '1.0.0', digest: '0'.repeat(64), tool: 't' }
  const plan = {
    tier: 'A' as const,
    executor: { ...executor, capabilities: [] },
    egress: { mode: 'strict' as const, hosts: [] },
    secrets: [],
    limits,
  }
  const record = frozen({ proposal: proposal({ plan }), status: after(proposal(), ...WAYS.granted) })
  expect(outcome(record, released(), T0)).toBe('not_claimable')
  expect(outcome(record, claimed('w1'), T0)).toBe('running · notify · claimed')
})

test('L1 a proposal ends denied if policy denies it, or asks and there is nobody to ask', () => {
  for (const effect of ['deny', 'ask'] as const) {
    const stepped = step(proposal(), { kind: 'proposed', decision: decision(effect), ask: null }, T0)
    expect(stepped).toMatchObject({
      ok: true,
      value: { status: { state: 'denied' }, effects: ['attest'], journal: { kind: 'denied' } },
    })
  }
})

test('L3 a card stays as it was shown; only answers are added', () => {
  const first = after(proposal(), ...WAYS.awaiting_approval, [answered('ann', 'approve', 'ask'), T0])
  expect(first).toMatchObject({ state: 'awaiting_approval', approval: { ...ask, answers: [{ by: 'ann' }] } })
  const second = after(
    proposal(),
    ...WAYS.awaiting_approval,
    [answered('ann', 'approve', 'ask'), T0],
    [answered('bob', 'approve', 'allow'), T0],
  )
  expect(second).toMatchObject({
    state: 'granted',
    approval: { ...ask, answers: [{ by: 'ann' }, { by: 'bob' }] },
  })
})

test('one person answers once, even if two answers are needed', () => {
  const record = {
    proposal: proposal(),
    status: after(proposal(), ...WAYS.awaiting_approval, [answered('ann', 'approve', 'ask'), T0]),
  }
  for (const said of ['approve', 'deny'] as const)
    expect(outcome(record, answered('ann', said, 'allow'), T0)).toBe('already_answered')
})

test('the record keeps the decision that asked for approval, whatever policy decides after the answer', () => {
  const status = after(proposal(), ...WAYS.awaiting_approval, [answered('ann', 'approve', 'allow'), T0])
  expect(status.decision.effect).toBe('ask')
})

test('L9 time alone changes a call exactly when it is due by the edge’s clock', () => {
  for (const state of STATES) {
    const record = recordIn(state)
    const at = dueAt(record.status, FAR) // late enough that the call is due before its next regular check
    expect([state, at === null]).toEqual([state, hasEnded(record.status)])
    if (at === null) continue
    expect(outcome(record, { kind: 'due' }, at - 1)).toBe('conflict')
    expect(step(record, { kind: 'due' }, at).ok).toBe(true)
  }
})

test('a granted or running call is checked within seconds, a waiting approval at its expiry', () => {
  for (const state of ['granted', 'running'] as const)
    expect(dueAt(recordIn(state).status, T0)).toBeLessThanOrEqual(T0 + 5_000)
  expect(dueAt(recordIn('awaiting_approval').status, T0)).toBe(EXPIRY)
})

test('L5 each ending is attested, by the worker’s statement or by the edge', () => {
  for (const state of STATES) {
    const record = recordIn(state)
    for (const [event, now] of Object.values(EVENTS)) {
      const stepped = step(record, event, now)
      if (!stepped.ok || !hasEnded(stepped.value.status)) continue
      const byWorker = stepped.value.status.attestation !== null
      expect([state, event.kind, byWorker !== stepped.value.effects.includes('attest')]).toEqual([
        state,
        event.kind,
        true,
      ])
    }
  }
})

test('L2 an idempotent call that loses its worker is granted again twice, and ends indeterminate at the third loss', () => {
  const idempotent = proposal({ idempotent: true })
  const states: string[] = []
  let status = after(idempotent, [{ kind: 'proposed', decision: decision('allow'), ask: null }, T0])
  for (let attempt = 1, now = T0; attempt <= 3; attempt++) {
    for (const event of [claimed(`w${attempt}`), { kind: 'due' } as const]) {
      const stepped = step({ proposal: idempotent, status }, event, now)
      if (!stepped.ok) throw new Error(stepped.error.detail)
      status = stepped.value.status
      now += 300_000
    }
    now -= 300_000
    states.push(status.state)
  }
  expect(states).toEqual(['granted', 'granted', 'indeterminate'])
})

test('U07 an idempotent call of an upstream that loses its worker ends indeterminate at the first loss', () => {
  const mcp = { method: 'tools/call', upstream: 'docs', tool: 'search', definition: 'd'.repeat(64) } as const
  const plan: ProcessPlan = {
    tier: 'C',
    executor: { kind: 'process', argv: ['docs-mcp'], stdin: 'none', env: {}, cwd: '', mcp },
    egress: { mode: 'strict', hosts: [] },
    secrets: [],
    workspace: 'call',
    limits: DEFAULT_LIMITS,
  }
  const sent = proposal({ idempotent: true, plan })
  const granted = after(sent, [{ kind: 'proposed', decision: decision('allow'), ask: null }, T0])
  const running = step({ proposal: sent, status: granted }, claimed('w1'), T0)
  if (!running.ok) throw new Error(running.error.detail)
  const lost = step({ proposal: sent, status: running.value.status }, { kind: 'due' }, T0 + 300_000)
  expect(lost.ok && lost.value.status.state).toBe('indeterminate')
})
