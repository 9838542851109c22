// Rehearses a policy set over the tenant's log: walks backwards through the calls that ended in the
// last days, lets each RunObject decide its own calls again, and sums up the results. Bounded in
// number and time; reads no arguments or outputs, and changes nothing.

import { splitId } from '../../shared/ids.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Rehearsal } from '../../shared/routes/rehearsals.ts'
import type { Env } from '../bindings.ts'
import { logObject, runObject } from '../bindings.ts'
import type { LoadedDirectory } from '../directory/loaded-directory.ts'
import type { EndedAt } from '../log/log-object.ts'
import { withDeadline } from '../platform/deadline.ts'
import type { RehearsalOutcome, RehearsedCall, Unrehearsable } from './past-call.ts'
import { UNREHEARSABLE } from './past-call.ts'

const DAY_MS = 24 * 3600_000
/** Log entries per read. */
const PAGE = 500
/**
 * How many runs are asked in parallel. After each there is a pause in which live calls are served,
 * because one process does both.
 */
const RUNS = 2
const PAUSE_MS = 1

type RehearsalRequest = { version: number; days: number; limit: number }

export async function rehearse(
  env: Env,
  { tenant, policyVersion: against }: LoadedDirectory,
  { version, days, limit }: RehearsalRequest,
): Promise<Rehearsal> {
  const now = Date.now()
  const [since, until] = [now - days * DAY_MS, now + LIMITS.rehearsal_ms]
  const tally = new Tally()
  const runs = new Set<string>()
  let [complete, beyond, late] = [false, false, false]
  for (let before = Number.MAX_SAFE_INTEGER; !complete && tally.lookedAt < limit; ) {
    late = Date.now() >= until
    if (late) break
    const left = limit - tally.lookedAt
    const size = Math.min(PAGE, left + 1) // one more than the limit shows whether there are more
    const page = await logObject(env, tenant).endedBefore(before, size)
    const inTime = page.filter(({ at }) => at >= since)
    const ends = withinRunLimit(runs, inTime.slice(0, left))
    const outcomes = await rehearseRuns(ends, until, async (run, calls) => {
      const answer = await withDeadline(
        runObject(env, tenant, run).rehearse({ version, against, calls, until }),
        until,
      )
      return answer?.ok === true ? answer.value : []
    })
    for (const end of ends) tally.add(end, outcomes.get(end.call))
    late = outcomes.size < ends.length
    if (late || ends.length < inTime.length) break
    const last = page.at(-1)
    before = last?.index ?? 0
    beyond = last !== undefined && last.at < since
    complete = page.length < size || beyond
  }
  // If the log reaches back beyond the period, all its days are covered; otherwise, those since the
  // oldest call.
  const covered = beyond ? days : (now - (tally.oldest ?? now)) / DAY_MS
  return { version, against, since_ms: since, complete, out_of_time: late, ...tally.result(covered) }
}

/** The entries before the first one that belongs to one run too many. */
function withinRunLimit(runs: Set<string>, ends: readonly EndedAt[]): readonly EndedAt[] {
  const beyond = ends.findIndex(({ call }) => runs.add(splitId(call).run).size > LIMITS.rehearsal_runs)
  return beyond < 0 ? ends : ends.slice(0, beyond)
}

/**
 * Asks the runs about their calls, a few at a time. Calls for which there was no time have no
 * outcome.
 */
async function rehearseRuns(
  ends: readonly EndedAt[],
  until: number,
  ask: (run: string, calls: number[]) => Promise<readonly RehearsalOutcome[]>,
): Promise<Map<string, RehearsalOutcome>> {
  const calls = ends.map(({ call }) => ({ call, ...splitId(call) }))
  const batches = [...Map.groupBy(calls, ({ run }) => run)].flatMap(([run, those]) =>
    chunks(those, LIMITS.rehearsal_calls_at_once).map((part) => ({ run, part })),
  )
  const outcomes = new Map<string, RehearsalOutcome>()
  const lane = async (): Promise<void> => {
    for (let batch = batches.shift(); batch !== undefined && Date.now() < until; batch = batches.shift()) {
      const { run, part } = batch
      const byNumber = new Map(
        (
          await ask(
            run,
            part.map(({ n }) => n),
          )
        ).map((outcome) => [outcome.n, outcome]),
      )
      const late = Date.now() >= until
      for (const { call, n } of part) {
        const outcome = byNumber.get(n) ?? (late ? undefined : { n, not: 'silent' as const })
        if (outcome !== undefined) outcomes.set(call, outcome)
      }
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS))
    }
  }
  await Promise.all(Array.from({ length: RUNS }, lane))
  return outcomes
}

const chunks = <T>(all: readonly T[], size: number): T[][] =>
  Array.from({ length: Math.ceil(all.length / size) }, (_, i) => all.slice(i * size, (i + 1) * size))

/** Sums up the outcomes, which are added in the order of the log, latest first. */
class Tally {
  lookedAt = 0
  /** When the earliest call ended. */
  oldest: number | undefined
  readonly #flips: Rehearsal['flips'] = []
  readonly #kinds = new Map<string, Rehearsal['summary'][number]>()
  readonly #not = new Map<Unrehearsable, number>()
  readonly #questions = { now: 0, to: 0 }

  add({ call, agent, tool, at }: EndedAt, outcome: RehearsalOutcome | undefined): void {
    if (outcome === undefined) return // out of time
    this.lookedAt++
    this.oldest = Math.min(at, this.oldest ?? at)
    if ('not' in outcome) {
      this.#not.set(outcome.not, (this.#not.get(outcome.not) ?? 0) + 1)
      return
    }
    const { from, now, to, policies, reason } = outcome
    if (isQuestion(now)) this.#questions.now++
    if (isQuestion(to)) this.#questions.to++
    if (to === from && to === now) return
    const kind = `${from} ${now} ${to}`
    this.#kinds.set(kind, { from, now, to, count: (this.#kinds.get(kind)?.count ?? 0) + 1 })
    if (this.#flips.length < LIMITS.rehearsal_flips)
      this.#flips.push({ call, agent, tool, at_ms: at, from, now, to, policies, reason })
  }

  result(days: number): Omit<Rehearsal, 'version' | 'against' | 'since_ms' | 'complete' | 'out_of_time'> {
    const aDay = (count: number): number => Math.round((count / days) * 100) / 100
    return {
      looked_at: this.lookedAt,
      summary: [...this.#kinds.values()].sort((a, b) => b.count - a.count),
      flips: this.#flips,
      unrehearsable: [...this.#not].map(([not, count]) => ({ reason: UNREHEARSABLE[not], count })),
      approvals: { ...this.#questions },
      approvals_per_day: days < 1 ? null : { now: aDay(this.#questions.now), to: aDay(this.#questions.to) },
    }
  }
}

const isQuestion = (effect: RehearsedCall['to']): boolean => effect === 'ask' || effect === 'ask_more'
