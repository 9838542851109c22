// Promise: docs/api-errors.md lists every failure code with the status, the advice and the retry
// rule that the edge answers with.

import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { PAGE, refresh } from '../../infra/check/api-errors.ts'
import { FAILURES } from '../../shared/failures.ts'

const page = readFileSync(PAGE, 'utf8')

test('the page of API errors is up to date with the failure codes; `node infra/check/api-errors.ts --write` refreshes it', () => {
  expect(refresh(page)).toEqual({ page, missing: [] })
})

test('the page of API errors has one row for each failure code and no other row', () => {
  const codes = [...page.matchAll(/^\| `(\w+)` \|/gm)].map(([, code]) => code)
  expect(codes.toSorted()).toEqual(Object.keys(FAILURES).toSorted())
})

test('a failure code whose status or advice has changed makes the page of API errors stale', () => {
  const changed = page
    .replace('| `not_found` | 404 |', '| `not_found` | 410 |')
    .replace('| `timed_out` |', '| `timeout` |')
  expect(changed).not.toBe(page)
  const { page: mended, missing } = refresh(changed)
  expect(mended).toContain('| `not_found` | 404 |')
  expect(missing).toEqual(['timed_out'])
})
