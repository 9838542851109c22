// Usage of calls (count, denials, time, amounts spent, approvals asked), and the sums that policies
// read. Pure.

import { type CallRecord, wasClaimed } from './lifecycle.ts'

/** The usage of one call, or of all calls of one tool. */
export type Usage = {
  tool: string
  calls: number
  denied: number
  /** Execution time. For a running call, the time until now. */
  time_ms: number
  spent: number
  /** Calls that people were asked about, whatever they answered. */
  asks: number
}
/** Sums over calls. `tool`: over the calls of the tool that the decision is about. */
export type Counters = {
  calls: number
  denied: number
  time_ms: number
  asks: number
  tool: Omit<Usage, 'tool'>
}
/**
 * How often people were asked about calls of an agent within the hour, over all its runs and
 * sessions.
 */
export type AgentUse = { asks_hour: number }
/** Usage before the call that is decided. Session and agent are null unless a policy reads them. */
export type Used = { run: Counters; session: Counters | null; agent: AgentUse | null }

export const NOTHING: Counters = {
  calls: 0,
  denied: 0,
  time_ms: 0,
  asks: 0,
  tool: { calls: 0, denied: 0, time_ms: 0, spent: 0, asks: 0 },
}

/** A sum stops at the largest exact integer, so that a cap stays reached. */
const plus = (a: number, b: number): number => Math.min(a + b, Number.MAX_SAFE_INTEGER)

export const sum = (a: Usage, b: Usage): Usage => ({
  tool: a.tool,
  calls: plus(a.calls, b.calls),
  denied: plus(a.denied, b.denied),
  time_ms: plus(a.time_ms, b.time_ms),
  spent: plus(a.spent, b.spent),
  asks: plus(a.asks, b.asks),
})

export function countersOf(usages: Iterable<Usage>, tool: string): Counters {
  let all: Usage = { tool: '', ...NOTHING.tool }
  let own: Usage = { tool, ...NOTHING.tool }
  for (const usage of usages) {
    all = sum(all, usage)
    if (usage.tool === tool) own = sum(own, usage)
  }
  const { tool: _, ...counted } = own
  return { calls: all.calls, denied: all.denied, time_ms: all.time_ms, asks: all.asks, tool: counted }
}

/** Final states of calls that spent nothing, unless a worker had claimed them. */
const UNRUN: ReadonlySet<string> = new Set(['denied', 'rejected', 'expired', 'cancelled', 'lapsed'])

/**
 * The usage of one call now. It counts as a call if policy allowed it or asked people, whatever
 * happened then.
 */
export function usageOf({ proposal, status }: CallRecord, now: number): Usage {
  const denied = status.state === 'denied' && status.approval === null ? 1 : 0
  const ran = status.state === 'running' ? now - status.claimedAt : 'took' in status ? (status.took ?? 0) : 0
  return {
    tool: proposal.tool.name,
    calls: 1 - denied,
    denied,
    time_ms: Math.max(0, ran),
    spent: UNRUN.has(status.state) && !wasClaimed(status) ? 0 : (proposal.spent ?? 0),
    asks: status.approval === null || settledByStanding(status.approval) ? 0 : 1,
  }
}

/** Standing answers were enough to allow or deny the call, so nobody was asked. */
export const settledByStanding = ({
  answers,
  enough,
}: NonNullable<CallRecord['status']['approval']>): boolean =>
  answers.every(({ standing }) => standing !== undefined) &&
  (enough === true || answers.some(({ decision }) => decision === 'deny'))

/** The usage of one call at an earlier time, reconstructed from its current record. */
function usageAt(record: CallRecord, at: number): Usage {
  const { proposal, status } = record
  const usage = usageOf(record, at)
  if (!('at' in status) || status.at <= at) return usage
  const began = status.at - (status.took ?? 0)
  return {
    ...usage,
    time_ms: status.took === undefined ? 0 : Math.max(0, at - began),
    spent: proposal.spent ?? 0,
  }
}

/**
 * The usage of a run before its call `n`, computed from its calls. Refused proposals made no call,
 * so they are missing.
 */
export function usedBefore(
  calls: readonly CallRecord[],
  { n, tool, createdAt }: CallRecord['proposal'],
): Counters {
  const before = calls.filter(({ proposal }) => proposal.n < n)
  return countersOf(
    before.map((call) => usageAt(call, createdAt)),
    tool.name,
  )
}
