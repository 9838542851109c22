// Calls in every state, and events of every kind, for the tests of the lifecycle.

import type { Event, Proposal, Status } from '../../../edge/call/lifecycle.ts'
import { step } from '../../../edge/call/lifecycle.ts'
import type { Decision } from '../../../shared/wire/calls.ts'

export const T0 = 1_800_000_000_000
export const EXPIRY = T0 + 60_000
const SHA = '0'.repeat(64)
const RUN = 'run_00000000000000000000000000'

type Asked = NonNullable<Extract<Event, { kind: 'proposed' }>['ask']>
type Settled = Extract<Event, { kind: 'settled' }>

export const decision = (effect: Decision['effect']): Decision => ({
  effect,
  code: effect === 'allow' ? 'allowed' : effect === 'ask' ? 'approval_required' : 'denied',
  policies: ['a-policy'],
  reason: `policy says ${effect}`,
  policy_set: SHA,
  snapshot: SHA,
})

export const ask: Asked = {
  id: `apr_${RUN.slice(4)}_1`,
  prompt: {
    title: 'dev wants to run a tool',
    agent: 'dev',
    tool: 'a-tool',
    tool_version: 1,
    risk: 'high',
    command: '',
    plan: 'nothing runs',
    arguments: '{}',
    on_yes: 'it runs',
    policies: [],
    reason: 'because',
  },
  requestedAt: T0,
  expiresAt: EXPIRY,
  answers: [],
}

export const proposal = (change: Partial<Proposal> = {}): Proposal => ({
  n: 1,
  tool: { name: 'a-tool', version: 1, digest: SHA },
  args: { text: 'a' },
  plan: null,
  digest: SHA,
  argsSha256: SHA,
  planSha256: null,
  idempotent: false,
  pool: 'default',
  createdAt: T0,
  ...change,
})

const envelope = { payloadType: 'application/x', payload: '', signatures: [] }

export const answered = (by: string, said: 'approve' | 'deny', policy: Decision['effect']): Event => ({
  kind: 'answered',
  answer: { by, since_ms: T0, decision: said, channel: 'api', scope: 'once', reason: '', at_ms: T0 },
  decision: decision(policy),
})

/** An approval of changed arguments, which have `digest`. */
export const edited = (
  by: string,
  policy: Decision['effect'],
  before: Proposal,
  digest = 'e'.repeat(64),
): Event => ({
  kind: 'edited',
  answer: { by, since_ms: T0, decision: 'approve', channel: 'api', scope: 'once', reason: '', at_ms: T0 },
  revised: {
    proposal: { ...before, args: { text: 'b' }, digest, asked: before },
    decision: decision('ask'),
    prompt: ask.prompt,
  },
  edit: { by, channel: 'api', at_ms: T0, from: before.digest, changes: [], more: 0 },
  permitted: decision(policy),
})

export const claimed = (worker: string, policy: Decision['effect'] = 'allow'): Event => ({
  kind: 'claimed',
  worker,
  deadline: T0 + 90_000,
  grant: envelope,
  decision: decision(policy),
  onRecord: decision(policy),
})

export const released = (policy: Decision['effect'] = 'allow'): Event => ({
  kind: 'released',
  decision: decision(policy),
  onRecord: decision(policy),
})

export const settled = (worker: string, fence: number, state: Settled['state'] = 'succeeded'): Settled => ({
  kind: 'settled',
  worker,
  fence,
  state,
  error: state === 'succeeded' ? null : state === 'cancelled' ? 'cancelled' : 'runtime_failure',
  refused: false,
  finished: { exit_code: 0, truncated: false, detail: '' },
  attestation: {
    id: `att_${RUN.slice(4)}_1`,
    execution_sha256: SHA,
    executor: 'peer',
    sandbox_enforcement: 'none',
  },
})

/** Freezes a record deeply, so that a change in place throws. */
export function frozen<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value)
    for (const inner of Object.values(value)) frozen(inner)
  }
  return value
}

/** The status after these events, each applied at its time. */
export function after(from: Proposal, ...events: ReadonlyArray<readonly [Event, number]>): Status {
  let status: Status | undefined
  for (const [event, now] of events) {
    const stepped = step(status === undefined ? from : { proposal: from, status }, event, now)
    if (!stepped.ok) throw new Error(`${event.kind} was refused: ${stepped.error.detail}`)
    status = frozen(stepped.value.status)
  }
  if (status === undefined) throw new Error('no event, no status')
  return status
}

const asked: Event = { kind: 'proposed', decision: decision('ask'), ask }
const allowed: Event = { kind: 'proposed', decision: decision('allow'), ask: null }
const due: Event = { kind: 'due' }

/** Later than every deadline. */
export const FAR = T0 + 86_400_000
/** One path into each state. */
export const WAYS: Readonly<Record<Status['state'], ReadonlyArray<readonly [Event, number]>>> = {
  denied: [[{ kind: 'proposed', decision: decision('deny'), ask: null }, T0]],
  awaiting_approval: [[asked, T0]],
  rejected: [
    [asked, T0],
    [answered('ann', 'deny', 'ask'), T0],
  ],
  expired: [
    [asked, T0],
    [due, FAR],
  ],
  cancelled: [
    [asked, T0],
    [{ kind: 'cancel', by: { kind: 'agent', name: 'a' } }, T0],
  ],
  granted: [[allowed, T0]],
  lapsed: [
    [allowed, T0],
    [due, FAR],
  ],
  released: [
    [allowed, T0],
    [released(), T0],
  ],
  running: [
    [allowed, T0],
    [claimed('w1'), T0],
  ],
  succeeded: [
    [allowed, T0],
    [claimed('w1'), T0],
    [settled('w1', 1), T0],
  ],
  failed: [
    [allowed, T0],
    [claimed('w1'), T0],
    [settled('w1', 1, 'failed'), T0],
  ],
  timed_out: [
    [allowed, T0],
    [claimed('w1'), T0],
    [settled('w1', 1, 'timed_out'), T0],
  ],
  indeterminate: [
    [allowed, T0],
    [claimed('w1'), T0],
    [due, FAR],
  ],
}
