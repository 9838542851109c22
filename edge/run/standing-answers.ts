// Standing answers in a run: which of them apply to a new call, and how an answer becomes one. The
// session stores them; policy decides whether they suffice.

import { failure } from '../../shared/failures.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import { keyOf, mayStand, standingOf } from '../approvals/standing.ts'
import { type Env, sessionObject } from '../bindings.ts'
import type { CallRecord, RecordedAnswer } from '../call/lifecycle.ts'
import type { RunRecord, RunRow } from '../call/run.ts'
import type { Used } from '../call/usage.ts'
import { stillCounts } from '../decision/decide.ts'
import type { NewCall } from '../decision/proposal.ts'
import { judgeAgain } from '../decision/proposal.ts'
import type { LoadedDirectory } from '../directory/loaded-directory.ts'

/** The standing answers found under the key of a call. */
export type StandingAnswers = { readonly key: string; readonly answers: readonly RecordedAnswer[] }

const SESSION_UNREACHABLE = failure('unavailable', 'the session could not be reached')

/**
 * The key of standing answers for this call; null if policy asks nobody, or if no standing answer
 * may cover such a call.
 */
export function standingKey(run: RunRecord, { proposal, decision, ask }: NewCall): string | null {
  const { plan } = proposal
  if (decision.effect !== 'ask' || ask === null || plan === null || !mayStand(plan)) return null
  return keyOf(run, proposal, plan, decision.policy_set)
}

/**
 * An unreachable session counts as having no answers, so people are asked (L6). A run that names no
 * session has one to itself, named like the run. Before its first call nobody can have given an
 * answer there, so the session is not asked: most such runs have only one call.
 */
export async function findStandingAnswers(
  env: Env,
  run: RunRecord,
  { call, key }: { readonly call: NewCall; readonly key: string },
): Promise<StandingAnswers> {
  if (run.session === run.id && call.proposal.n === 1) return { key, answers: [] }
  const answers = await sessionObject(env, run)
    .standingAnswers(key, run.id)
    .catch(() => [])
  return { key, answers }
}

/**
 * The call with the standing answers that apply to it. Only answers of people who may still answer
 * count. An approval that policy does not accept as standing is ignored, and people are asked.
 */
export function applyStandingAnswers(
  directory: LoadedDirectory,
  row: RunRow,
  call: NewCall,
  used: Used | 'uncounted' | null,
  found: readonly RecordedAnswer[],
  withdrawn: ReadonlySet<string>,
): NewCall {
  const { proposal, decision, ask } = call
  const answers = found.filter(
    (answer) => stillCounts(directory, answer) && !withdrawn.has(answer.standing ?? ''),
  )
  if (ask === null || answers.length === 0) return call
  const no = answers.find(({ decision }) => decision === 'deny')
  if (no !== undefined) return { ...call, ask: { ...ask, answers: [no] } }
  const record: CallRecord = { proposal, status: { state: 'awaiting_approval', decision, approval: ask } }
  const { decision: permitted } = judgeAgain(directory, row, record, {
    answers,
    used,
    now: proposal.createdAt,
  })
  if (permitted.effect === 'deny') return call
  const ids = answers.map(({ standing }) => `\`${standing}\``).join(', ') // an agent reads it: only the journal names the operators
  const reason =
    permitted.effect === 'allow'
      ? `${decision.reason}; approved by standing approvals: ${ids}`
      : decision.reason
  return { ...call, decision: { ...decision, reason }, ask: { ...ask, answers }, permitted }
}

/**
 * Stores a standing answer in the session, unless it came too late or policy overruled it.
 * `policySet` is the set under which it was given.
 */
export async function keepStandingAnswer(
  env: Env,
  run: RunRecord,
  record: CallRecord,
  answer: RecordedAnswer,
  policySet: string,
): Promise<Result<true>> {
  const wasTaken =
    answer.decision === 'deny' ? record.status.state === 'rejected' : record.status.state !== 'denied'
  const standing = wasTaken ? standingOf(run, record, answer, policySet) : null
  if (standing === null) return ok(true)
  const kept = await sessionObject(env, run)
    .addStanding(standing)
    .catch(() => err(SESSION_UNREACHABLE))
  if (kept.ok) return kept
  const recorded = 'your answer to this call is recorded, but covers no other call'
  return err(failure(kept.error.code, `${recorded}: ${kept.error.detail}`))
}
