// Whether what a skill returned is what its tool promises: one JSON value, that fits; and what is told of how it ended. Pure. A call that
// was claimed ends here whatever happens: what nobody settles is lost, and nobody knows how it ended.

import { parseJson } from '../../../shared/bytes/json.ts'
import { asTold, TOLD_CHARS } from '../../../shared/bytes/signable-text.ts'
import type { Outcome, SkillPlan } from '../../../shared/plan/plan.ts'
import { schemaCheck } from '../../../shared/schema/validate.ts'

export function promised(outcome: Outcome, { executor: { output } }: SkillPlan, stdout: Buffer): Outcome {
  if (outcome.kind !== 'returned') return outcome
  const parsed = parseJson(stdout)
  if (!parsed.ok) return { kind: 'invalid_output', detail: `the result is not JSON: ${parsed.error.detail}` }
  const faults = output === undefined ? [] : schemaCheck(output)(parsed.value)
  const told = faults.map(({ at, message }) => `\`${at}\`: ${message}`).join('; ')
  return faults.length === 0
    ? outcome
    : { kind: 'invalid_output', detail: `the result does not fit: ${told}` }
}

/** What a skill says of its end is cut last: where a secret is to be hidden in it, a part of one would be left. */
export const told = (outcome: Outcome, shown: (text: string) => string): Outcome =>
  'detail' in outcome ? { ...outcome, detail: asTold(shown(outcome.detail), TOLD_CHARS.detail) } : outcome

/** What came of it, or what it failed with: a mistake of ours is no reason to leave a call without an end. */
export const endedAnyway = <T>(work: Promise<T>, failed: (outcome: Outcome) => T): Promise<T> =>
  work.catch((thrown: unknown) =>
    failed({ kind: 'infra', detail: asTold(`the edge failed: ${String(thrown)}`, TOLD_CHARS.detail) }),
  )
