// Checks a value against a tool's schema: arguments at the edge, results on the worker, with the
// same result on both. edge/tools/schema-rules.ts decides which schemas are allowed. A check is
// bounded, even for hostile values, and never throws.

import { dereference, validate } from '@cfworker/json-schema'
import type { FieldError } from '../failures.ts'
import { LIMITS } from '../limits.ts'
import { effortOf } from './validation-cost.ts'

/** Returns a few of the places where the value does not fit, or an empty list. */
export type SchemaCheck = (value: unknown) => FieldError[]

/** More errors would not help the reader. */
const ERRORS_MAX = 8

const TOO_MUCH: FieldError = {
  at: '/',
  message: 'is too large to be checked against its schema: send less, or simplify the schema',
}

export function schemaCheck(schema: Readonly<Record<string, unknown>>): SchemaCheck {
  const lookup = dereference(schema)
  const effort = effortOf(schema, LIMITS.schema_effort)
  return (value) => {
    const needed = effort(value)
    if (needed > LIMITS.schema_effort) return [TOO_MUCH]
    try {
      const { valid, errors } = validate(
        value,
        schema,
        '2020-12',
        lookup,
        needed > LIMITS.schema_effort_telling,
      )
      if (valid) return []
      return errors.slice(-ERRORS_MAX).map(({ instanceLocation, error }) => ({
        at: cut(instanceLocation.slice(1)) || '/',
        message: cut(error),
      }))
    } catch (thrown) {
      if (thrown instanceof RangeError) return [TOO_MUCH] // the library spreads all errors into arguments, whose number is limited
      throw thrown
    }
  }
}

/** Messages quote values of the schema and names of members, which may be long. */
const cut = (text: string): string =>
  text.length <= LIMITS.schema_told_chars
    ? text
    : `${text.slice(0, LIMITS.schema_told_chars - 1).toWellFormed()}…`
