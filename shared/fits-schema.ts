// Owns whether a value fits a tool's schema: its arguments at the edge, its result on the worker. Both sides must say the same of the same
// value. Which schemas a tool may bring is edge/schemas.ts; nothing here is safe with others.

import { Validator } from '@cfworker/json-schema'
import type { FieldError } from './failures.ts'

/** Where the value does not fit, a few of the places; none where it does. */
export type SchemaCheck = (value: unknown) => FieldError[]

/** More tell nobody more. */
const ERRORS_MAX = 8

export function schemaCheck(schema: Readonly<Record<string, unknown>>): SchemaCheck {
  const validator = new Validator(schema, '2020-12', false)
  return (value) => {
    const { valid, errors } = validator.validate(value)
    if (valid) return []
    return errors.slice(-ERRORS_MAX).map(({ instanceLocation, error }) => ({ at: instanceLocation.slice(1) || '/', message: error }))
  }
}
