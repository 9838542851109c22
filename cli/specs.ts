// Specifications that operators write as JSON files: read strictly, and held against the wire's own schemas before they are sent.

import type { Json } from '../shared/json.ts'
import type { Result } from '../shared/result.ts'
import { err, ok } from '../shared/result.ts'
import type { Trouble } from './command.ts'
import { usage } from './command.ts'
import { readJson } from './files.ts'

export function readRecord(path: string): Result<Record<string, Json>, Trouble> {
  const read = readJson(path)
  if (!read.ok) return read
  const { value } = read
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? ok(value)
    : err(usage(`\`${path}\` is to hold one JSON object`))
}

type Parses<T> = {
  safeParse: (
    value: unknown,
  ) => { success: true; data: T } | { success: false; error: { issues: readonly { path: PropertyKey[]; message: string }[] } }
}
export function fitting<T>(schema: Parses<T>, value: unknown, of: string): Result<T, Trouble> {
  const read = schema.safeParse(value)
  if (read.success) return ok(read.data)
  const [issue] = read.error.issues
  return err(usage(`${of} does not fit: \`${issue?.path.join('.') || '(the whole)'}\`: ${issue?.message ?? 'unknown'}`))
}
