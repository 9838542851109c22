// JSON input of commands, from files or the command line: specifications, arguments of calls. It is
// parsed strictly and validated against the wire schemas before it is sent. Also parses call ids.

import type { z } from 'zod'
import type { Json } from '../../shared/bytes/json.ts'
import { parseJson } from '../../shared/bytes/json.ts'
import { PATTERNS, splitId } from '../../shared/ids.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import { inOneLine, readAs } from '../../shared/schema/field-errors.ts'
import type { Trouble } from './command.ts'
import { usage } from './command.ts'
import { readBytes, readJson } from './files.ts'

export function readJsonObject(path: string): Result<Record<string, Json>, Trouble> {
  const read = readJson(path)
  if (!read.ok) return read
  const { value } = read
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? ok(value)
    : err(usage(`\`${path}\` must contain one JSON object`))
}

export function parseInput<T>(schema: z.ZodType<T>, value: unknown, of: string): Result<T, Trouble> {
  const read = readAs(schema, value)
  return read.ok ? read : err(usage(`${of} can’t be used; ${inOneLine(read.error.slice(0, 1))}`))
}

export const CALL_EXITS =
  '0 the call succeeded or has not ended yet; 1 it was denied, failed or ended in another way'

export const ARGUMENTS = {
  value: 'JSON|@FILE|-',
  what: 'the call’s arguments as one JSON object; @FILE reads them from a file, - from standard input',
} as const

export function readArguments(
  given: string | undefined,
  flag = '--args',
): Result<Record<string, unknown>, Trouble> {
  const path = given === '-' ? '-' : given?.startsWith('@') === true ? given.slice(1) : undefined
  const bytes = path === undefined ? ok(Buffer.from(given ?? '{}')) : readBytes(path, LIMITS.body_bytes)
  if (!bytes.ok) return bytes
  const read = parseJson(bytes.value)
  if (!read.ok) return err(usage(`\`${flag}\`: ${read.error.detail}`))
  const { value } = read
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return err(usage(`\`${flag}\` must be one JSON object, e.g. '{"text":"x"}'`))
  return ok(value)
}

export function parseCallId(id: string): Result<{ run: string; call: string }, Trouble> {
  return PATTERNS.call.test(id)
    ? ok({ run: splitId(id).run, call: id })
    : err(usage(`\`${id}\` is not a call id; call ids look like call_01ABC…_1`))
}

/** With a zone, so that it means the same to everybody. */
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?(?:Z|[+-]\d\d:\d\d)$/

/** The time in the past that a flag names, in milliseconds. */
export function pastTime(flag: string, text: string): Result<number, Trouble> {
  const at = TIME.test(text) ? Date.parse(text) : Number.NaN
  return at <= Date.now()
    ? ok(at)
    : err(usage(`\`--${flag}\` is not a time in the past; write it like 2026-11-20T09:00:00Z`))
}
