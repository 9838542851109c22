// Checks a value against a tool's schema: arguments at the edge, results on the worker, with the
// same result on both. edge/tools/schema-rules.ts decides which schemas are allowed. A check is
// bounded, even for hostile values, and never throws.

import { dereference, type OutputUnit, validate } from '@cfworker/json-schema'
import type { FieldError } from '../failures.ts'
import { LIMITS } from '../limits.ts'
import { kindsInWords } from './field-errors.ts'
import { validationCost } from './validation-cost.ts'

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
  const effort = validationCost(schema, LIMITS.schema_effort)
  return (value) => {
    const needed = effort(value)
    if (needed > LIMITS.schema_effort) return [TOO_MUCH]
    try {
      const { valid, errors } = validate(
        value,
        schema,
        '2020-12',
        lookup,
        needed > LIMITS.schema_effort_reporting,
      )
      if (valid) return []
      return leaves(errors).slice(0, ERRORS_MAX).map(inWords)
    } catch (thrown) {
      if (thrown instanceof RangeError) return [TOO_MUCH] // the library spreads all errors into arguments, whose number is limited
      throw thrown
    }
  }
}

/** Keywords for which the library only repeats that a fault lies below. */
const ABOVE: ReadonlySet<string> = new Set([
  '$ref',
  'allOf',
  'properties',
  'additionalProperties',
  'unevaluatedProperties',
  'items',
  'prefixItems',
  'additionalItems',
  'unevaluatedItems',
  'dependentSchemas',
  'propertyNames',
  'if',
])
function leaves(errors: readonly OutputUnit[]): readonly OutputUnit[] {
  const found = errors.filter(({ keyword }) => !ABOVE.has(keyword))
  return found.length === 0 ? errors : found
}

/** The fault in the words of the sender. Only this function reads the library's own text. */
function inWords({ instanceLocation, keyword, error }: OutputUnit): FieldError {
  const at = instanceLocation.slice(1)
  if (keyword === 'required')
    return { at: cut(`${at}/${between(error, 'property "', '".')}`), message: 'is missing' }
  return { at: cut(at) || '/', message: cut(message(keyword, error)) }
}

function message(keyword: string, error: string): string {
  const [, bound = ''] = /(-?[0-9.e+]+)\)?\.$/.exec(error) ?? []
  switch (keyword) {
    case 'false':
      return NOT_ALLOWED
    case 'type':
      return kindsInWords(between(error, 'Expected "', '".').split('", "'), between(error, 'type "', '" is'))
    case 'enum':
      return `must be one of ${between(error, 'any of ', '.')}`
    case 'const':
      return `must be ${between(error, 'match ', '.')}`
    case 'minLength':
      return `must have at least ${bound} characters`
    case 'maxLength':
      return `must have at most ${bound} characters`
    case 'minItems':
      return `must have at least ${bound} entries`
    case 'maxItems':
      return `must have at most ${bound} entries`
    case 'minimum':
      return `must be at least ${bound}`
    case 'maximum':
      return `must be at most ${bound}`
    case 'exclusiveMinimum':
      return `must be more than ${bound}`
    case 'exclusiveMaximum':
      return `must be less than ${bound}`
    case 'multipleOf':
      return `must be a multiple of ${bound}`
    case 'format':
      return `must be written as \`${between(error, 'format "', '".')}\``
    case 'dependentRequired':
      return `needs \`${between(error, 'have "', '".')}\` too`
    case 'minProperties':
      return `must have at least ${between(error, 'least ', ' prop')} fields`
    case 'maxProperties':
      return `must have at most ${between(error, 'least ', ' prop')} fields`
    default:
      return PLAIN[keyword] ?? 'does not fit the schema'
  }
}

const PLAIN: Readonly<Record<string, string>> = {
  uniqueItems: 'has the same entry twice',
  anyOf: 'has none of the forms that the schema allows',
  oneOf: 'must have exactly one of the forms that the schema allows',
  not: 'has a form that the schema forbids',
  contains: 'has no entry of the form that the schema asks for',
  minContains: 'has too few entries of the form that the schema asks for',
  maxContains: 'has too many entries of the form that the schema asks for',
}

/** The message for a value where the schema allows none. */
export const NOT_ALLOWED = 'is not allowed here'

/** The text up to the last `end`, because names of members may contain it. */
function between(text: string, start: string, end: string): string {
  const from = text.indexOf(start) + start.length
  return text.slice(from, text.lastIndexOf(end))
}

/** Messages quote values of the schema and names of members, which may be long. */
const cut = (text: string): string =>
  text.length <= LIMITS.schema_message_chars
    ? text
    : `${text.slice(0, LIMITS.schema_message_chars - 1).toWellFormed()}…`
