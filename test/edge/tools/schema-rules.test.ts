// A tool's schema can't stall or crash the edge, and every limit in it is effective.

import { expect, test } from 'vitest'
import { argumentCheck } from '../../../edge/tools/argument-check.ts'
import type { Schema } from '../../../edge/tools/schema-rules.ts'
import { checkSchema } from '../../../edge/tools/schema-rules.ts'
import { LIMITS } from '../../../shared/limits.ts'
import { cpuTime } from '../../support/cpu-time.ts'

const over = (inner: unknown, more: Schema = {}): Schema => ({
  type: 'object',
  properties: { a: inner },
  ...more,
})
const refusals = (schema: Schema): string[] => {
  const checked = checkSchema(schema)
  return checked.ok ? [] : (checked.error.errors ?? []).map(({ at }) => at)
}

test('G06 a pattern is refused anywhere in a schema, even as patternProperties', () => {
  const pattern = { pattern: '^(a+)+$' }
  const places: Readonly<Record<string, Schema>> = {
    '/properties/a/pattern': over(pattern),
    '/patternProperties': over({}, { patternProperties: { '^(a+)+$': {} } }),
    '/additionalProperties/pattern': over({}, { additionalProperties: pattern }),
    '/unevaluatedProperties/pattern': over({}, { unevaluatedProperties: pattern }),
    '/propertyNames/pattern': over({}, { propertyNames: pattern }),
    '/properties/a/items/pattern': over({ items: pattern }),
    '/properties/a/unevaluatedItems/pattern': over({ unevaluatedItems: pattern }),
    '/properties/a/prefixItems/0/pattern': over({ prefixItems: [pattern] }),
    '/properties/a/contains/pattern': over({ contains: pattern }),
    '/allOf/0/pattern': over({}, { allOf: [pattern] }),
    '/anyOf/1/pattern': over({}, { anyOf: [true, pattern] }),
    '/oneOf/0/properties/b/pattern': over({}, { oneOf: [{ properties: { b: pattern } }] }),
    '/not/pattern': over({}, { not: pattern }),
    ...Object.fromEntries(
      ['if', 'then', 'else'].map((keyword) => [`/${keyword}/pattern`, over({}, { [keyword]: pattern })]),
    ),
    '/dependentSchemas/a/pattern': over({}, { dependentSchemas: { a: pattern } }),
    '/$defs/x/pattern': over({ $ref: '#/$defs/x' }, { $defs: { x: pattern } }),
    '/$defs/unused/pattern': over({}, { $defs: { unused: pattern } }),
  }
  for (const [at, schema] of Object.entries(places)) expect(refusals(schema)).toEqual([at])
})

test('a property, example or default named pattern is accepted', () => {
  expect(
    refusals(over({ default: { pattern: '(a+)+' }, examples: ['(a+)+'], const: { pattern: 1 } })),
  ).toEqual([])
  expect(
    refusals({ type: 'object', properties: { pattern: { type: 'string' }, $ref: { type: 'string' } } }),
  ).toEqual([])
})

test.each([
  ['$dynamicRef', { $dynamicRef: '#x' }],
  ['$recursiveRef', { $recursiveRef: '#' }],
  ['$id', { $id: 'https://example.org/a' }],
  ['$anchor', { $anchor: 'a' }],
  ['$vocabulary', { $vocabulary: {} }],
  ['definitions', { definitions: {} }],
  ['dependencies', { dependencies: {} }],
  ['contentSchema', { contentSchema: {} }],
  ['x-unknown', { 'x-unknown': 1 }],
])('an unknown or dynamic keyword is refused: %s', (keyword, schema) => {
  expect(refusals(over(schema))).toEqual([`/properties/a/${keyword}`])
})

test.each([
  'https://example.org/schema',
  'other.json',
  '#',
  '#/properties/a',
  '#/$defs/',
  '#/$defs/a/properties/b',
  '#/$defs/a~1b',
  '#/$defs/%61',
  '#/$defs/absent',
  '#/$defs/toString',
])('a reference out of the schema or to a missing definition is refused: %s', ($ref) => {
  expect(refusals(over({ $ref }, { $defs: { a: {} } }))).toEqual(['/properties/a/$ref'])
})

test('G06 a recursive reference is refused, because its evaluation might not end', () => {
  expect(refusals(over({ $ref: '#/$defs/a' }, { $defs: { a: { allOf: [{ $ref: '#/$defs/a' }] } } }))).toEqual(
    ['/$defs/a/allOf/0/$ref'],
  )
  const two = { a: { items: { $ref: '#/$defs/b' } }, b: { items: { $ref: '#/$defs/a' } } }
  expect(refusals(over({ $ref: '#/$defs/a' }, { $defs: two }))).not.toEqual([])
})

test('G06 references that multiply exponentially are refused before they are followed', () => {
  const doubled = Object.fromEntries(
    Array.from({ length: 14 }, (_, i) => [
      `d${i}`,
      i === 13 ? { type: 'string' } : { allOf: [1, 2].map(() => ({ $ref: `#/$defs/d${i + 1}` })) },
    ]),
  )
  const started = cpuTime()
  expect(refusals(over({ $ref: '#/$defs/d0' }, { $defs: doubled })).length).toBeGreaterThan(0)
  expect(cpuTime() - started).toBeLessThan(1_000)
})

test('G06 uniqueItems is accepted only with a small maxItems, because it compares every pair', () => {
  expect(refusals(over({ type: 'array', uniqueItems: true }))).toEqual(['/properties/a/uniqueItems'])
  expect(
    refusals(over({ type: 'array', uniqueItems: true, maxItems: LIMITS.schema_unique_items + 1 })),
  ).toEqual(['/properties/a/uniqueItems'])
  expect(refusals(over({ type: 'array', uniqueItems: true, maxItems: LIMITS.schema_unique_items }))).toEqual(
    [],
  )
  expect(refusals(over({ type: 'array', uniqueItems: false }))).toEqual([])
})

test('a limit that is an object is refused, even one that can’t be converted to a number', () => {
  for (const maxItems of [{}, [5], { toString: 5, valueOf: 5 }])
    expect(refusals(over({ type: 'array', uniqueItems: true, maxItems }))).toContain('/properties/a/maxItems')
})

const KEYWORDS: Readonly<Record<string, readonly [good: unknown, ...bad: unknown[]]>> = {
  type: ['string', 'text', 5, null, ['string', 'text']],
  enum: [['a'], 'a', 5, null, [], {}],
  required: [['a'], 'a', 5, null, [5]],
  dependentRequired: [{ a: ['b'] }, { a: 'b' }, { a: 5 }, null, []],
  maxLength: [5, '5', -1, 1.5, null, true],
  minItems: [0, '0', -1, null],
  maximum: [5, '5', null, [5]],
  multipleOf: [0.5, 0, -1, '1'],
  uniqueItems: [false, 1, 'true', null],
  format: ['date', 'regex', 'email', 'uri', 5, null],
  title: ['a', 5],
  items: [{}, [], 'a', 5, null],
  allOf: [[{}], {}, [5], 'a', null],
  properties: [{ b: {} }, [], { b: 5 }, { b: null }, null],
  not: [{}, [], null, 'a'],
  $ref: ['#/$defs/x', 5, null, {}],
}

test.each(Object.entries(KEYWORDS))(
  'a keyword with a value of the wrong type is refused: %s',
  (keyword, [good, ...bad]) => {
    const around = { $defs: { x: {} } }
    expect(refusals(over({ [keyword]: good }, around))).toEqual([])
    for (const value of bad)
      expect([value, refusals(over({ [keyword]: value }, around))]).toEqual([
        value,
        [`/properties/a/${keyword}`],
      ])
  },
)

test('every accepted schema can be evaluated without an exception', () => {
  for (const [keyword, [good]] of Object.entries(KEYWORDS)) {
    const check = argumentCheck(over({ [keyword]: good }, { $defs: { x: {} } }))
    for (const a of ['text', 5, 1.5, null, true, [], [1, 1], {}, { b: { c: [] } }])
      expect(check({ a }).ok).toBeTypeOf('boolean')
  }
})

test('a schema has to describe an object and be small and shallow', () => {
  expect(refusals({ type: 'array' })).toEqual(['/type'])
  expect(refusals({})).toEqual(['/type'])
  expect(checkSchema(over({ description: 'x'.repeat(LIMITS.schema_bytes) }))).toMatchObject({
    ok: false,
    error: { code: 'invalid_schema' },
  })
  let deep: Schema = {}
  for (let i = 0; i < 20; i++) deep = { items: deep }
  expect(refusals(over(deep)).length).toBe(1)
})

test('the refusal of a schema with many mistakes names twenty of them', () => {
  const many = Object.fromEntries(Array.from({ length: 50 }, (_, i) => [`p${i}`, { pattern: 'x' }]))
  expect(refusals({ type: 'object', properties: many })).toHaveLength(20)
})
