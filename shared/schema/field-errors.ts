// Explains field by field why a value does not match one of our schemas. Only this file reads zod's
// issues, so no message of the library reaches a user. A message completes a sentence about the
// field: "must be text, not a number".

import type { z } from 'zod'
import type { FieldError } from '../failures.ts'
import { PATTERNS } from '../ids.ts'
import { LIMITS } from '../limits.ts'
import { err, ok, type Result } from '../result.ts'

/** More errors would not help to correct a request. */
const ERRORS_MAX = 16

export function readAs<T>(schema: z.ZodType<T>, value: unknown): Result<T, FieldError[]> {
  const read = schema.safeParse(value, { error: sentenceOf })
  return read.success
    ? ok(read.data)
    : err(read.error.issues.flatMap((issue) => errorsIn(issue)).slice(0, ERRORS_MAX))
}

/** The errors in one line, for a terminal or a log. */
export const inOneLine = (errors: readonly FieldError[]): string =>
  errors
    .map(({ at, message }) => `\`${at.slice(1).replaceAll('/', '.') || 'the whole'}\`: ${message}`)
    .join('; ')

const KINDS: Readonly<Record<string, string>> = {
  string: 'text',
  number: 'a number',
  int: 'a whole number',
  integer: 'a whole number',
  boolean: '`true` or `false`',
  array: 'a list',
  tuple: 'a list',
  object: 'an object',
  record: 'an object',
  null: '`null`',
}
const inWords = (kind: string): string => KINDS[kind] ?? `\`${kind}\``

/** Says "must be a whole number", without "not a number", for a number of the wrong kind. */
export function kindsInWords(wanted: readonly string[], is: string): string {
  const must = `must be ${wanted.map(inWords).join(' or ')}`
  return is === 'number' && wanted.some((kind) => NUMBERS.has(kind)) ? must : `${must}, not ${inWords(is)}`
}
const NUMBERS: ReadonlySet<string> = new Set(['number', 'int', 'integer'])

const kindOf = (value: unknown): string =>
  value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value

/**
 * Messages for the patterns of names and ids. A schema with another pattern has its own message.
 */
const WRITTEN: ReadonlyMap<string, string> = new Map([
  [String(PATTERNS.name), 'must be 1 to 64 of `a-z`, `0-9`, `_`, `.` and `-`, beginning with a letter'],
  [
    String(PATTERNS.tool),
    `must be 1 to ${LIMITS.tool_name_chars} of \`a-z\`, \`0-9\`, \`_\` and \`-\`, beginning with a letter`,
  ],
  [String(PATTERNS.tenant), 'must be 1 to 32 of `a-z`, `0-9` and `-`, beginning with a letter'],
  [String(PATTERNS.sha256), 'must be a SHA-256 in hex: 64 of `0-9` and `a-f`'],
  [String(PATTERNS.run), 'is not the id of a run; those look like `run_01ABC…`'],
  [String(PATTERNS.call), 'is not the id of a call; those look like `call_01ABC…_1`'],
  [String(PATTERNS.approval), 'is not the id of an approval; those look like `apr_01ABC…_1`'],
  [String(PATTERNS.attestation), 'is not the id of an attestation; those look like `att_01ABC…_1`'],
  [String(PATTERNS.worker), 'is not the id of a worker; those look like `wrk_01ABC…`'],
  [String(PATTERNS.standing), 'is not the id of a standing approval; those look like `std_01ABC…`'],
])

/** The message of an issue for which the schema has none. */
function sentenceOf(issue: z.core.$ZodRawIssue): string {
  switch (issue.code) {
    case 'invalid_type':
      return issue.input === undefined
        ? `is missing; it must be ${inWords(issue.expected)}`
        : kindsInWords([issue.expected], kindOf(issue.input))
    case 'too_small':
      return boundInWords(issue.origin, issue.minimum, issue.inclusive === false ? 'more than' : 'at least')
    case 'too_big':
      return boundInWords(issue.origin, issue.maximum, issue.inclusive === false ? 'less than' : 'at most')
    case 'not_multiple_of':
      return `must be a multiple of ${issue.divisor}`
    case 'invalid_value':
      return `${issue.input === undefined ? 'is missing; it ' : ''}must be ${oneOf(issue.values)}`
    case 'invalid_format':
      if (issue.format === 'url') return 'must be a complete address, such as `https://example.com/path`'
      return (
        WRITTEN.get(issue.pattern ?? '') ??
        'has the wrong form; `/docs` and `/openapi.json` describe the right one'
      )
    case 'invalid_union':
      return Array.isArray(issue['options'])
        ? `must be ${oneOf(issue['options'])}`
        : 'has none of the forms that are allowed here'
    default:
      return 'is not allowed here'
  }
}

function boundInWords(origin: string, bound: number | bigint, how: string): string {
  if (origin === 'number' || origin === 'int' || origin === 'bigint') return `must be ${how} ${bound}`
  const unit = origin === 'string' ? 'character' : 'entry'
  if (Number(bound) === 1 && how === 'at least') return 'must not be empty'
  return `must have ${how} ${bound} ${Number(bound) === 1 ? unit : { character: 'characters', entry: 'entries' }[unit]}`
}

function oneOf(values: readonly unknown[]): string {
  const shown = values.map((value) => `\`${String(value)}\``)
  return shown.length === 1 ? (shown[0] ?? '') : `one of ${shown.join(', ')}`
}

function errorsIn(issue: z.core.$ZodIssue, above: readonly PropertyKey[] = []): FieldError[] {
  const path = [...above, ...issue.path]
  if (issue.code === 'unrecognized_keys')
    return issue.keys.map((key) => ({
      at: pointer([...path, key]),
      message: 'is not a known field; check its spelling, or leave it out',
    }))
  if (issue.code === 'invalid_union' && issue.errors.length > 0) return errorsInForms(issue.errors, path)
  if (issue.code === 'invalid_key')
    return [{ at: pointer(path), message: `has a name that ${issue.issues[0]?.message ?? issue.message}` }]
  return [{ at: pointer(path), message: issue.message }]
}

/**
 * For a union: the errors of the form that was probably meant, which matches at the top level and
 * fails further down.
 */
function errorsInForms(
  forms: readonly (readonly z.core.$ZodIssue[])[],
  path: readonly PropertyKey[],
): FieldError[] {
  const meant = forms
    .filter((issues) => issues.every((issue) => issue.path.length > 0 || issue.code === 'unrecognized_keys'))
    .toSorted((a, b) => a.length - b.length)[0]
  if (meant !== undefined) return meant.flatMap((issue) => errorsIn(issue, path))
  const messages = new Set(forms.flatMap((issues) => issues.slice(0, 1).map(({ message }) => message)))
  return [{ at: pointer(path), message: eitherOf([...messages]) }]
}

/**
 * "must be text, not a number" and "must be a list, not a number" is "must be text or a list, not a
 * number".
 */
function eitherOf(messages: readonly string[]): string {
  const parts = messages.map((message) => /^(is missing; it |)must be (.*?)(, not .*|)$/.exec(message))
  const [, missing = '', , not = ''] = parts[0] ?? []
  const wanted = parts.flatMap((part) => part?.[2] ?? [])
  return wanted.length === messages.length
    ? `${missing}must be ${wanted.join(' or ')}${not}`
    : messages.join(', or ')
}

/** A JSON pointer, cut off because a field's name may be as long as a body. */
function pointer(path: readonly PropertyKey[]): string {
  const at = `/${path.map(String).join('/')}`
  return at.length <= LIMITS.schema_message_chars
    ? at
    : `${at.slice(0, LIMITS.schema_message_chars - 1).toWellFormed()}…`
}
