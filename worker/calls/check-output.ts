// Owns whether what a tool wrote is what its contract promised: one JSON value on standard output that fits the plan's schema. These are
// foreign bytes, so they meet the gate that every body meets first. What does not fit ends the call as `invalid_output`, in the attestation
// too; the bytes themselves are kept as they came.

import { parseJson } from '../../shared/bytes/json.ts'
import type { Outcome, ProcessPlan as Plan, StreamSummary } from '../../shared/plan/plan.ts'
import { schemaCheck } from '../../shared/schema/validate.ts'

/** What the sandbox saw, or what is wrong with the result of a program that ended well. */
export function judged(
  outcome: Outcome,
  { executor: { output } }: Plan,
  { truncated }: StreamSummary,
  stdout: Uint8Array,
): Outcome {
  if (output === undefined || outcome.kind !== 'exit' || outcome.code !== 0) return outcome
  const fault = truncated ? 'it is longer than `output_bytes`, and was cut' : faultOf(output, stdout)
  return fault === undefined
    ? outcome
    : { kind: 'invalid_output', detail: `standard output is no result: ${fault}` }
}

function faultOf(schema: NonNullable<Plan['executor']['output']>, stdout: Uint8Array): string | undefined {
  const read = parseJson(stdout)
  if (!read.ok) return `${read.error.detail} (\`${read.error.code}\`)`
  const errors = schemaCheck(schema)(read.value)
  return errors.length === 0 ? undefined : errors.map(({ at, message }) => `\`${at}\`: ${message}`).join('; ')
}
