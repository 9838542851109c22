// Compares a statement with the journal of its run: the entries are linked, they begin with the call's
// proposal and end with this attestation, and they contain the answers, the claim and the cancellation
// that the statement depends on. Pure. Bodies of entries are compared by their canonical form, because
// nothing but their hash has been checked.

import { canonical } from '../bytes/json.ts'
import { LIMITS } from '../limits.ts'
import type { Check } from './checks.ts'
import { type JournalEntry, verifyChain } from './journal.ts'
import type { ApprovalFacts, Statement } from './statement.ts'

export const LINKED = 'the journal entries are linked up to the end of the call'
const APART =
  'each entry shown fits its hash; others are left out, and only those after the last gap are linked to the log'

/**
 * `entries`: of the call's run, in order, from the call's first one to the one that ends it. Those of
 * other calls may be left out.
 */
export function* journalChecks({ predicate }: Statement, entries: readonly JournalEntry[]): Generator<Check> {
  const { facts, grant, state, error, execution } = predicate
  const own = entries.filter(({ call }) => call === facts.call)
  const last = entries.at(-1)
  yield { name: 'the journal begins with the proposal of this call', ok: isProposed(facts, own, entries[0]) }
  yield {
    name: 'the journal has the answers that the facts name, each given in time',
    ok: isSame(approvalIn(own), facts.approval),
  }
  const { policy_set, snapshot } = facts.decision
  const claim = claimIn(own)
  const { worker, fence, deadline_ms } = grant ?? {}
  yield {
    name: 'the journal has the claim under this grant',
    ok:
      grant === null
        ? claim === null &&
          (state !== 'released' || isSame(members(last, 'policy_set', 'snapshot'), { policy_set, snapshot }))
        : isSame(claim, { worker, fence, deadline_ms, policy_set, snapshot }),
  }
  const { attestation_id: attestation, execution_sha256 } = predicate
  const ends = own.filter(({ body }) => 'attestation' in body)
  const settled = execution.outcome === null ? [] : (['worker', 'error'] as const)
  yield {
    name: 'the last entry ends the call and names this attestation',
    ok:
      last !== undefined &&
      ends[0] === last && // so there is no other end
      (last.kind === state || (last.kind === 'withdrawn' && state === 'cancelled')) &&
      isSame(members(last, 'attestation', 'execution_sha256', ...settled), {
        attestation,
        execution_sha256,
        ...(settled.length === 0 ? {} : { worker, error }),
      }),
  }
  const claimed = own.findLastIndex(({ kind }) => kind === 'claimed')
  const isWanted = own.some(({ kind }, i) => i > claimed && kind === 'cancel_requested')
  yield {
    name: 'a call that its executor cancelled was to be cancelled',
    ok: execution.outcome?.kind !== 'cancelled' || isWanted,
  }
}

/**
 * Entries of other calls may be missing, but only if the bundle had no room for them. Nothing then links the
 * entries before a gap to the log: they agree with the statement, and the edge alone vouches for that. So
 * the check has another name, and says how much is not shown.
 */
export function linkCheck(entries: readonly JournalEntry[]): Check {
  const [first, last] = [entries[0], entries.at(-1)]
  if (first === undefined || last === undefined) return { name: LINKED, ok: false }
  const isApart = last.seq - first.seq >= LIMITS.bundle_entries
  let head = { seq: first.seq - 1, hash: first.prev }
  let from = first.seq
  for (const entry of entries) {
    if (isApart && entry.seq > head.seq + 1) {
      head = { seq: entry.seq - 1, hash: entry.prev }
      from = entry.seq
    }
    const chain = verifyChain([entry], head)
    if (!chain.ok)
      return { name: LINKED, ok: false, detail: `entry ${chain.error.seq}: ${chain.error.reason}` }
    head = chain.value
  }
  if (!isApart) return { name: LINKED, ok: true }
  const missing = last.seq - first.seq + 1 - entries.length
  return {
    name: APART,
    ok: true,
    detail: `${missing} entries are left out; those from entry ${from} on are linked`,
  }
}

/** If an operator changes the arguments of a waiting call, it counts as a new proposal. */
function isProposed(
  { call, tool, digest, args_sha256, origin }: Statement['predicate']['facts'],
  own: readonly JournalEntry[],
  first: JournalEntry | undefined,
): boolean {
  const edited = own.findLast(({ kind }) => kind === 'edited')
  return (
    first?.call === call &&
    isSame(members(first, 'tool', 'version', 'origin'), {
      tool: tool.name,
      version: tool.version,
      origin,
    }) &&
    isSame(members(edited ?? first, 'digest', 'args_sha256'), { digest, args_sha256 })
  )
}

const ANSWERS: readonly string[] = ['approved', 'rejected', 'denied', 'edited']

/** The approval according to the journal; undefined if an answer came too late. */
function approvalIn([first, ...later]: readonly JournalEntry[]): object | null | undefined {
  const { approval: id, answers: standing, expires_at } = first?.body ?? {}
  if (id === undefined) return null
  let answers = (Array.isArray(standing) ? standing : []).map((one: unknown): Answer => Object(one))
  for (const { kind, body, at_ms } of later) {
    if (!ANSWERS.includes(kind) || typeof body['by'] !== 'string') continue
    if (typeof expires_at !== 'number' || at_ms >= expires_at) return undefined
    // Answers to earlier arguments don't count, and one to this call replaces a standing one (L3).
    answers = kind === 'edited' ? [body] : [...answers.filter((one) => one['by'] !== body['by']), body]
  }
  const scope = (['session', 'timeboxed'] satisfies ApprovalFacts['scope'][]).find((wide) =>
    answers.some((one) => one['scope'] === wide),
  )
  return {
    id,
    scope: scope ?? 'once',
    answers: answers.map(({ by, decision, channel, at_ms, standing }) => ({
      by,
      decision,
      channel,
      at_ms,
      standing,
    })),
  }
}
type Answer = Readonly<Record<string, unknown>>

/** The claim that was open when the call ended; null if there was none, undefined if claims conflict. */
function claimIn(own: readonly JournalEntry[]): object | null | undefined {
  let claim: object | null = null
  let fence = 0
  for (const entry of own) {
    if (entry.kind === 'worker_lost') claim = null
    if (entry.kind !== 'claimed') continue
    fence++
    if (claim !== null || entry.body['fence'] !== fence) return undefined // L2
    claim = members(entry, 'worker', 'fence', 'deadline_ms', 'policy_set', 'snapshot')
  }
  return claim
}

const members = (entry: JournalEntry | undefined, ...names: readonly string[]): object =>
  Object.fromEntries(names.map((name) => [name, entry?.body[name]]))

const isSame = (found: object | null | undefined, expected: object | null): boolean =>
  found !== undefined && canonical(found) === canonical(expected)
