// The report of an internal error gives its kind and place and quotes nothing of a call.

import { mkdir } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { errorReport } from '../../../worker/host/error-report.ts'

const WORD = 'hunter2'

test('an internal error is reported by code and place, without its message', async () => {
  const named = await mkdir(`/${WORD.repeat(50)}`).catch((error: unknown) => error)
  expect(errorReport(named).code).toBe('ENAMETOOLONG')
  const thrown = new TypeError(`not this:\n    at ${WORD}`)
  expect(errorReport(thrown)).toEqual({
    code: 'TypeError',
    at: expect.stringContaining('error-report.test.ts'),
  })
  const changed = new Error(WORD)
  changed.message = 'another'
  for (const error of [named, thrown, changed, WORD])
    expect(JSON.stringify(errorReport(error))).not.toContain(WORD)
})
