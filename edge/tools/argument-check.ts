// Validates a call's arguments against the tool's schema, which has passed schema-rules.ts.

import { failure } from '../../shared/failures.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import { NOT_ALLOWED, schemaCheck } from '../../shared/schema/validate.ts'
import type { Schema } from './schema-rules.ts'

export type ArgumentCheck = (args: Record<string, unknown>) => Result<Record<string, unknown>>

/** Rephrases the validator's own words for the caller. */
const plain = (message: string): string =>
  message === NOT_ALLOWED ? 'is not an argument of the tool' : message

/** Compiled once per tool version. */
export function argumentCheck(schema: Schema): ArgumentCheck {
  const check = schemaCheck(schema)
  return (args) => {
    const errors = check(args)
    if (errors.length === 0) return ok(args)
    const fields = errors.map(({ at, message }) => ({ at, message: plain(message) }))
    return err(failure('invalid_arguments', 'the arguments do not fit the tool’s schema', fields))
  }
}
