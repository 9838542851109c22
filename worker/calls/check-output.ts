// Checks that a tool's standard output is what its contract promises: one JSON value that fits the
// plan's schema. The bytes are untrusted, so they pass the same strict parser as request bodies. A
// mismatch ends the call as `invalid_output`; the output itself is stored unchanged.

import { parseJson } from '../../shared/bytes/json.ts'
import type { Outcome, ProcessPlan as Plan, StreamSummary } from '../../shared/plan/plan.ts'
import { schemaCheck } from '../../shared/schema/validate.ts'

/** Returns `outcome`, or `invalid_output` if the program exited with 0 but broke its contract. */
export function checkOutput(
  outcome: Outcome,
  { executor: { output } }: Plan,
  { truncated }: StreamSummary,
  stdout: Uint8Array,
): Outcome {
  if (output === undefined || outcome.kind !== 'exit' || outcome.code !== 0) return outcome
  const fault = truncated ? 'it is longer than `output_bytes` and was cut' : findFault(output, stdout)
  return fault === undefined
    ? outcome
    : { kind: 'invalid_output', detail: `standard output does not fit the tool’s contract: ${fault}` }
}

function findFault(schema: NonNullable<Plan['executor']['output']>, stdout: Uint8Array): string | undefined {
  const read = parseJson(stdout)
  if (!read.ok) return `${read.error.detail} (\`${read.error.code}\`)`
  const errors = schemaCheck(schema)(read.value)
  return errors.length === 0 ? undefined : errors.map(({ at, message }) => `\`${at}\`: ${message}`).join('; ')
}
