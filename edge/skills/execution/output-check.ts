// Checks what a skill returned against its tool's contract, and cleans the detail of its ending
// (W08). A claimed call must end here in every case: a call that nobody settles ends
// `indeterminate`.

import { parseJson } from '../../../shared/bytes/json.ts'
import { SIGNED_TEXT_CHARS, toSignableText } from '../../../shared/bytes/signable-text.ts'
import type { Outcome, SkillPlan } from '../../../shared/plan/plan.ts'
import { schemaCheck } from '../../../shared/schema/validate.ts'

/**
 * The outcome, or `invalid_output` if the output is not one JSON value that fits the tool's schema.
 */
export function checkOutput(outcome: Outcome, { executor: { output } }: SkillPlan, stdout: Buffer): Outcome {
  if (outcome.kind !== 'returned') return outcome
  const parsed = parseJson(stdout)
  if (!parsed.ok) return { kind: 'invalid_output', detail: `the result is not JSON: ${parsed.error.detail}` }
  const faults = output === undefined ? [] : schemaCheck(output)(parsed.value)
  const reasons = faults.map(({ at, message }) => `\`${at}\`: ${message}`).join('; ')
  return faults.length === 0
    ? outcome
    : { kind: 'invalid_output', detail: `the result does not fit the output schema: ${reasons}` }
}

/**
 * Masks first and cuts after: cutting first could leave part of a secret that no mask recognises.
 */
export const cleanDetail = (outcome: Outcome, shown: (text: string) => string): Outcome =>
  'detail' in outcome
    ? { ...outcome, detail: toSignableText(shown(outcome.detail), SIGNED_TEXT_CHARS.detail) }
    : outcome

/**
 * Turns an exception into an `infra` outcome: our own defect must not leave a call without an
 * ending.
 */
export const asInfraFailure = <T>(work: Promise<T>, failed: (outcome: Outcome) => T): Promise<T> =>
  work.catch((thrown: unknown) =>
    failed({
      kind: 'infra',
      detail: toSignableText(`the edge failed: ${String(thrown)}`, SIGNED_TEXT_CHARS.detail),
    }),
  )
