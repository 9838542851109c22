// A tool's arguments: whether they fit the tool's schema (which has passed schemas.ts), and what policy sees of them.

import { Validator } from '@cfworker/json-schema'
import type { FieldError } from '../shared/failures.ts'
import { failure } from '../shared/failures.ts'
import type { Result } from '../shared/result.ts'
import { err, ok } from '../shared/result.ts'
import type { CedarValueJson } from './policy.ts'
import type { Schema } from './schemas.ts'

export type ArgumentCheck = (args: Record<string, unknown>) => Result<Record<string, unknown>>

/** Compiled once per tool version. */
export function argumentCheck(schema: Schema): ArgumentCheck {
  const validator = new Validator(schema, '2020-12', false)
  return (args) => {
    const { valid, errors } = validator.validate(args)
    if (valid) return ok(args)
    const fields = errors.slice(-8).map(({ instanceLocation, error }) => ({ at: instanceLocation.slice(1) || '/', message: error }))
    return err(failure('invalid_arguments', 'the arguments do not fit the tool’s schema', fields))
  }
}

/** Keys that Cedar's JSON reads as something other than data: no argument may pose as an entity. */
const CEDAR_ESCAPES = new Set(['__entity', '__extn', '__expr'])

/** Arguments as Cedar sees them. What Cedar can't hold exactly is refused, never bent: the human approves what policy saw. */
export function argumentsForPolicy(args: Record<string, unknown>): Result<CedarValueJson> {
  const refused: FieldError[] = []
  const convert = (value: unknown, at: string): CedarValueJson | undefined => {
    if (typeof value === 'string' || typeof value === 'boolean') return value
    if (typeof value === 'number') {
      if (Number.isInteger(value)) return value
      const text = String(value)
      if (/^-?[0-9]{1,12}\.[0-9]{1,4}$/.test(text)) return { __extn: { fn: 'decimal', arg: text } }
      refused.push({ at, message: 'a number has at most four decimals; send it as a string' })
      return undefined
    }
    if (Array.isArray(value)) return value.map((item, i) => convert(item, `${at}/${i}`)).filter((item) => item !== undefined)
    if (value === null || typeof value !== 'object') return undefined
    const record: Record<string, CedarValueJson> = {}
    for (const [key, item] of Object.entries(value)) {
      if (CEDAR_ESCAPES.has(key)) refused.push({ at: `${at}/${key}`, message: 'this name is reserved' })
      const converted = convert(item, `${at}/${key}`)
      if (converted !== undefined) record[key] = converted
    }
    return record
  }
  const converted = convert(args, '') ?? {}
  return refused.length === 0 ? ok(converted) : err(failure('invalid_arguments', 'policy can’t see these arguments exactly', refused))
}
