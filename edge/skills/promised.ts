// Whether what a skill returned is what its tool promises: one JSON value, that fits. Pure.

import { schemaCheck } from '../../shared/fits-schema.ts'
import { parseJson } from '../../shared/json.ts'
import type { Outcome, SkillPlan } from '../../shared/plan.ts'

export function promised(outcome: Outcome, { executor: { output } }: SkillPlan, stdout: Buffer): Outcome {
  if (outcome.kind !== 'returned') return outcome
  const parsed = parseJson(stdout)
  if (!parsed.ok) return { kind: 'invalid_output', detail: `the result is not JSON: ${parsed.error.detail}`.slice(0, 500) }
  const faults = output === undefined ? [] : schemaCheck(output)(parsed.value)
  const told = faults.map(({ at, message }) => `\`${at}\`: ${message}`).join('; ')
  return faults.length === 0 ? outcome : { kind: 'invalid_output', detail: `the result does not fit: ${told}`.slice(0, 500) }
}
