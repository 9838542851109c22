// What policy is shown of a call's arguments is what they are, exactly, or the call is refused.

import { expect, test } from 'vitest'
import { argumentCheck, argumentsForPolicy } from '../../edge/arguments.ts'

const seen = (args: Record<string, unknown>) => {
  const converted = argumentsForPolicy(args)
  return converted.ok ? converted.value : converted.error
}

test('texts, booleans, whole numbers, lists and records are shown as they are', () => {
  const args = { text: 'a', yes: true, n: -5, max: Number.MAX_SAFE_INTEGER, list: ['a', 'b'], record: { inner: { deep: [1, 2] } } }
  expect(seen(args)).toEqual(args)
})

test.each(['__entity', '__extn', '__expr'])('no argument may pose as an entity or a function: `%s` is refused at any depth', (name) => {
  const poses = { [name]: { type: 'Role', id: 'admin' } }
  for (const [at, args] of [
    [`/${name}`, poses],
    [`/a/${name}`, { a: poses }],
    [`/a/1/b/${name}`, { a: [1, { b: poses }] }],
    [`/${name}`, { [name]: null }],
  ] as const) {
    expect(seen(args)).toMatchObject({ code: 'invalid_arguments', errors: [{ at }] })
  }
})

test('what only resembles an entity or a function is data', () => {
  const args = { a: { type: 'Role', id: 'admin' }, b: { fn: 'ip', arg: '10.0.0.1' }, c: '__entity', d: { __entit: 1, entity__: 2 } }
  expect(seen(args)).toEqual(args)
})

test('decimals are Cedar decimals, to four places; beyond that nothing is rounded but refused', () => {
  const decimal = (arg: string) => ({ __extn: { fn: 'decimal', arg } })
  for (const [value, text] of [
    [1.5, '1.5'],
    [-0.0001, '-0.0001'],
    [123456789012.25, '123456789012.25'],
  ] as const) {
    expect(seen({ value })).toEqual({ value: decimal(text) })
  }
  for (const value of [0.00001, 1.23456, 1e-7, 1234567890123.5, 5e-324]) {
    expect(seen({ a: [value] })).toMatchObject({ code: 'invalid_arguments', errors: [{ at: '/a/0' }] })
  }
})

test('null is nothing: policy sees no such member', () => {
  expect(seen({ a: null, b: { c: null } })).toEqual({ b: {} })
})

test('names that mean something to JavaScript are plain names', () => {
  const args = JSON.parse('{"constructor":{"prototype":1},"toString":"a","hasOwnProperty":false}') as Record<string, unknown> // JSON
  expect(seen(args)).toEqual(args)
})

test('arguments that do not fit the schema are named by place; the value is not repeated', () => {
  const check = argumentCheck({
    type: 'object',
    properties: { n: { type: 'integer' }, list: { type: 'array', items: { type: 'string', maxLength: 3 } } },
    required: ['n'],
    additionalProperties: false,
  })
  expect(check({ n: 1, list: ['abc'] })).toEqual({ ok: true, value: { n: 1, list: ['abc'] } })
  for (const [args, at] of [
    [{}, '/'],
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
