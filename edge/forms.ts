// Forms, of our pages and of what else sends them: one reading. Pure. Each field comes once, as a member of a body does: of two values one
// reader could take the first and another the last (G03).

import { failure } from '../shared/failures.ts'
import type { Result } from '../shared/result.ts'
import { err, ok } from '../shared/result.ts'

const TWICE = failure('invalid_request', 'the form has a field twice; open the page again and answer there')

/** `lists`: fields of which a form may have several, such as checkboxes. */
export function parseForm(text: string, lists: readonly string[] = []): Result<URLSearchParams> {
  const form = new URLSearchParams(text)
  const once = [...form.keys()].filter((name) => !lists.includes(name))
  return new Set(once).size === once.length ? ok(form) : err(TWICE)
}
