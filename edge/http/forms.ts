// Parses forms, from our pages and from Slack. Pure. A field may occur only once, like a member of
// a JSON body: of two values, one reader could take the first and another the last (G03).

import { failure } from '../../shared/failures.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'

const DUPLICATE_FIELD = failure(
  'invalid_request',
  'the form has a field twice; open the page again and answer there',
)

/** `lists`: fields that may occur several times, such as checkboxes. */
export function parseForm(text: string, lists: readonly string[] = []): Result<URLSearchParams> {
  const form = new URLSearchParams(text)
  const single = [...form.keys()].filter((name) => !lists.includes(name))
  return new Set(single).size === single.length ? ok(form) : err(DUPLICATE_FIELD)
}
