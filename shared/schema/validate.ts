// Owns whether a value fits a tool's schema: its arguments at the edge, its result on the worker. Both sides must say the same of the same
// value. Which schemas a tool may bring is edge/tools/schema-rules.ts; here each check is bounded, whoever's the value is, and never throws.

import { dereference, validate } from '@cfworker/json-schema'
import type { FieldError } from '../failures.ts'
import { LIMITS } from '../limits.ts'
import { effortOf } from './validation-cost.ts'

/** Where the value does not fit, a few of the places; none where it does. */
export type SchemaCheck = (value: unknown) => FieldError[]

/** More tell nobody more. */
const ERRORS_MAX = 8

const TOO_MUCH: FieldError = {
  at: '/',
  message:
    'too much to be held against its schema: send less, or have the schema compare with fewer values in fewer places',
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
      if (thrown instanceof RangeError) return [TOO_MUCH] // the library hands on all that is wrong as arguments, and these have an end
      throw thrown
    }
  }
}

/** Values of the schema and names of members stand in it, and may be as long as either. */
const cut = (text: string): string =>
  text.length <= LIMITS.schema_told_chars
    ? text
    : `${text.slice(0, LIMITS.schema_told_chars - 1).toWellFormed()}…`
