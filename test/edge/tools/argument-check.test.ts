// Arguments that do not fit the tool's schema are refused with their place.

import { expect, test } from 'vitest'
import { argumentCheck } from '../../../edge/tools/argument-check.ts'

test('invalid arguments are reported by their place, without their value', () => {
  const check = argumentCheck({
    type: 'object',
    properties: { n: { type: 'integer' }, list: { type: 'array', items: { type: 'string', maxLength: 3 } } },
    required: ['n'],
    additionalProperties: false,
  })
  expect(check({ n: 1, list: ['abc'] })).toEqual({ ok: true, value: { n: 1, list: ['abc'] } })
  for (const [args, at] of [
    [{}, '/n'],
    [{ n: 'hunter2' }, '/n'],
    [{ n: 1, list: ['hunter2'] }, '/list/0'],
    [{ n: 1, more: 'hunter2' }, '/more'],
    [{ n: 1, constructor: 'hunter2' }, '/constructor'],
  ] as const) {
    const checked = check(args)
    expect(checked).toMatchObject({ ok: false, error: { code: 'invalid_arguments' } })
    const text = JSON.stringify(checked)
    expect(text).toContain(`"${at}"`)
    expect(text).not.toContain('hunter2')
  }
})
