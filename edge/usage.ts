// What calls use up, and the sums of it that policies see. Pure; it keeps nothing, and knows of a call only what counts.

import { type CallRecord, wasClaimed } from './lifecycle.ts'

/** What one call, or all calls of one tool, stand for. */
export type Share = {
  tool: string
  calls: number
  denied: number
  /** Of what has ended; of what runs, until now. */
  time_ms: number
  spent: number
  /** That people were asked about, whatever they said. */
  asks: number
}
/** `tool`: of the tool that the decision is about. */
export type Counters = { calls: number; denied: number; time_ms: number; asks: number; tool: Omit<Share, 'tool'> }
/** Of an agent, whatever its runs and sessions: how often it had people asked within the hour. */
export type AgentUse = { asks_hour: number }
/** Before the call that is decided; a session and an agent only where policy reads them. */
export type Used = { run: Counters; session: Counters | null; agent: AgentUse | null }

export const NOTHING: Counters = { calls: 0, denied: 0, time_ms: 0, asks: 0, tool: { calls: 0, denied: 0, time_ms: 0, spent: 0, asks: 0 } }

/** Beyond what is exact a sum stands still: a cap stays reached. */
const plus = (a: number, b: number): number => Math.min(a + b, Number.MAX_SAFE_INTEGER)

export const sum = (a: Share, b: Share): Share => ({
  tool: a.tool,
  calls: plus(a.calls, b.calls),
  denied: plus(a.denied, b.denied),
  time_ms: plus(a.time_ms, b.time_ms),
  spent: plus(a.spent, b.spent),
  asks: plus(a.asks, b.asks),
})

export function countersOf(shares: Iterable<Share>, tool: string): Counters {
  let all: Share = { tool: '', ...NOTHING.tool }
  let own: Share = { tool, ...NOTHING.tool }
  for (const share of shares) {
    all = sum(all, share)
    if (share.tool === tool) own = sum(own, share)
  }
  const { tool: _, ...counted } = own
  return { calls: all.calls, denied: all.denied, time_ms: all.time_ms, asks: all.asks, tool: counted }
}

/** Endings of calls that spent nothing, unless a worker had claimed them. */
const UNRUN: ReadonlySet<string> = new Set(['denied', 'rejected', 'expired', 'cancelled', 'lapsed'])

/** What one call stands for now. One that policy let in, or put to humans, is a call, whatever became of it. */
export function shareOf({ proposal, status }: CallRecord, now: number): Share {
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

/** Nobody was asked: what stood was enough, or a denial. */
const settledByStanding = ({ answers, enough }: NonNullable<CallRecord['status']['approval']>): boolean =>
  answers.every(({ standing }) => standing !== undefined) && (enough === true || answers.some(({ decision }) => decision === 'deny'))

/** What one call stood for at a moment after it was proposed, told from what became of it. */
function shareAt(record: CallRecord, at: number): Share {
  const { proposal, status } = record
  const share = shareOf(record, at)
  if (!('at' in status) || status.at <= at) return share
  const began = status.at - (status.took ?? 0)
  return { ...share, time_ms: status.took === undefined ? 0 : Math.max(0, at - began), spent: proposal.spent ?? 0 }
}

/** What a run had used before its call `n`, told from its calls. Proposals that were refused made no call, and are not known any more. */
export function usedBefore(calls: readonly CallRecord[], { n, tool, createdAt }: CallRecord['proposal']): Counters {
  const before = calls.filter(({ proposal }) => proposal.n < n)
  return countersOf(
    before.map((call) => shareAt(call, createdAt)),
    tool.name,
  )
}
