// Validation is bounded for hostile schemas and values: it blocks neither the edge's only thread
// nor the worker's for long, never throws, and reports errors briefly.

import { describe, expect, test } from 'vitest'
import { asInfraFailure, checkOutput } from '../../../edge/skills/execution/output-check.ts'
import { argumentCheck } from '../../../edge/tools/argument-check.ts'
import { checkSchema, type Schema } from '../../../edge/tools/schema-rules.ts'
import { LIMITS } from '../../../shared/limits.ts'
import type { Outcome, SkillPlan } from '../../../shared/plan/plan.ts'
import { schemaCheck } from '../../../shared/schema/validate.ts'
import { validationCost } from '../../../shared/schema/validation-cost.ts'
import { cpuTime } from '../../support/cpu-time.ts'

const over = (a: unknown, $defs: Schema = {}): Schema => ({ type: 'object', properties: { a }, $defs })
const times = <T>(length: number, one: (index: number) => T): T[] =>
  Array.from({ length }, (_, index) => one(index))
const named = (length: number, one: (index: number) => unknown = () => 0): Schema =>
  Object.fromEntries(times(length, (index) => [`field${index}`, one(index)]))
const words = times(7_000, (index) => `a${index}`)

/**
 * Schemas and values that would take seconds, gigabytes, or more arguments than a function can
 * have.
 */
const BOMBS: Readonly<Record<string, readonly [schema: Schema, a: unknown]>> = {
  'a long list of words, compared with many values': [
    over({ items: { enum: words } }),
    times(30_000, () => 0),
  ],
  'the same, in messages': [over({ contains: { enum: words } }), times(30_000, () => 0)],
  'a list of numbers, behind references': [
    over(
      { items: { allOf: times(900, () => ({ $ref: '#/$defs/e' })) } },
      { e: { enum: times(8_001, (index) => index) } },
    ),
    times(500, () => 0),
  ],
  'more mistakes than can be handed on': [
    over({ items: { allOf: times(10, () => ({ type: 'string' })) } }),
    times(30_000, () => 0),
  ],
  'objects, each with all of its names': [
    over({ items: { enum: times(4_000, () => ({})) } }),
    times(500, () => named(90)),
  ],
  'names that are asked for': [over({ contains: { required: words } }), times(1_000, () => ({}))],
  'unique items, more than there may be': [
    over({ uniqueItems: true, maxItems: 1_000 }),
    times(40_000, (index) => index),
  ],
  'unique items, behind references': [
    over({ allOf: times(900, () => ({ $ref: '#/$defs/u' })) }, { u: { uniqueItems: true, maxItems: 1_000 } }),
    times(1_000, (index) => ({ index })),
  ],
  'a text, counted again and again': [
    over({ allOf: times(1_000, () => ({ maxLength: 1e6 })) }),
    'x'.repeat(500_000),
  ],
  'a text that is no time': [
    over({ allOf: times(100, () => ({ format: 'date-time' })) }),
    't'.repeat(500_000),
  ],
  'a long name, spelt again and again': [
    over({ allOf: times(1_000, () => ({ additionalProperties: true })) }),
    { ['~'.repeat(500_000)]: 0 },
  ],
  'members, counted again and again': [over({ allOf: times(1_000, () => ({})) }), named(40_000)],
}

describe.each(Object.entries(BOMBS))('G06 validation bomb: %s', (_name, [schema, a]) => {
  test('a validation that costs more than `schema_effort` is refused before it starts, for arguments and for results', () => {
    const begun = cpuTime()
    expect(argumentCheck(schema)({ a })).toMatchObject({
      ok: false,
      error: {
        code: 'invalid_arguments',
        errors: [{ at: '/', message: expect.stringContaining('is too large to be checked') }],
      },
    })
    const plan = { executor: { output: schema } } as unknown as SkillPlan // only this part is read
    expect(checkOutput({ kind: 'returned' }, plan, Buffer.from(JSON.stringify({ a })))).toMatchObject({
      kind: 'invalid_output',
    })
    expect(cpuTime() - begun).toBeLessThan(5_000)
  })
})

test('large but harmless values are validated', () => {
  const row = {
    type: 'object',
    properties: named(8, () => ({ type: 'integer', minimum: 0 })),
    required: Object.keys(named(8)),
  }
  const rows = { items: { ...row, additionalProperties: false } }
  const fits: Readonly<Record<string, readonly [unknown, unknown]>> = {
    'five thousand rows': [rows, times(5_000, () => named(8))],
    'a thousand countries': [
      { items: { enum: times(250, (index) => `c${index}`) } },
      times(1_000, () => 'c249'),
    ],
    'a long text': [{ type: 'string', maxLength: 500_000 }, 'x'.repeat(500_000)],
    'a thousand numbers, each once': [{ uniqueItems: true, maxItems: 1_000 }, times(1_000, (index) => index)],
  }
  for (const [name, [schema, a]] of Object.entries(fits))
    expect([name, schemaCheck(over(schema))({ a })]).toEqual([name, []])
  const [first] = schemaCheck(over(rows))({
    a: [...times(4_999, () => named(8)), { ...named(8), field3: -1 }],
  }).slice(-1)
  expect(first).toEqual({ at: '/a/4999/field3', message: 'must be at least 0' })
})

test('a small invalid value gets all its errors, each a short text', () => {
  const check = schemaCheck({
    type: 'object',
    properties: { a: { enum: words }, b: { type: 'string' } },
    required: ['c'],
  })
  const faults = check({ a: 5, b: 6 })
  expect(faults.map(({ at }) => at)).toEqual(expect.arrayContaining(['/c', '/a', '/b']))
  expect(faults.find(({ at }) => at === '/a')?.message).toMatch(/^must be one of \["a0","a1".*…$/)
  const all = [
    ...faults,
    ...schemaCheck({ additionalProperties: { const: 'é'.repeat(5_000) } })({ ['n'.repeat(5_000)]: 0 }),
  ]
  for (const { at, message } of all)
    expect(Math.max(at.length, message.length)).toBeLessThanOrEqual(LIMITS.schema_message_chars)
})

test('a value whose check costs more than `schema_effort_reporting` gets only its first error', () => {
  const check = schemaCheck(over({ items: { type: 'string' } }))
  const faults = (items: number) => check({ a: times(items, () => 0) }).filter(({ at }) => at !== '/a')
  expect(LIMITS.schema_effort_reporting).toBe(100_000) // which 10,000 items cost, and 5 don't
  expect([faults(5).length, faults(10_000).map(({ at }) => at)]).toEqual([5, ['/a/0']])
})

test('every keyword of the library that compares values is counted', () => {
  const effort = (schema: Schema, value: unknown): number => validationCost(schema, 1e9)(value)
  const least = effort({}, { a: [1] })
  const many = times(1_000, (index) => `n${index}`)
  for (const [schema, value] of [
    [{ enum: many }, 0],
    [{ const: many }, 0],
    [{ required: many }, {}],
    [{ dependentRequired: { n0: many } }, {}],
    [{ type: many.map(() => 'string') }, 0],
    [{ properties: named(1_000) }, {}],
    [{ propertyNames: {} }, named(1_000)],
    [{ unevaluatedProperties: {} }, named(1_000)],
    [{ prefixItems: many.map(() => ({})) }, many],
    [{ unevaluatedItems: {} }, many],
    [{ dependentSchemas: { field0: { items: {}, additionalProperties: {} } } }, named(1_000)],
    [{ if: { items: {} } }, many],
    [{ not: { $ref: '#/$defs/n' }, $defs: { n: { enum: many } } }, 0],
  ] as const)
    expect([Object.keys(schema)[0], effort(schema, value) - least]).toEqual([
      Object.keys(schema)[0],
      expect.toSatisfy((n: number) => n > 900),
    ])
})

test('G06 a schema with more comparisons than `schema_steps` is not registered', () => {
  const refused = (schema: Schema): string[] => {
    const checked = checkSchema(schema)
    return checked.ok ? [] : (checked.error.errors ?? []).map(({ at }) => at)
  }
  const numbers = times(8_001, (index) => index)
  expect(refused(over({ enum: numbers }))).toEqual([])
  expect(
    refused(over({ allOf: times(2, () => ({ $ref: '#/$defs/e' })) }, { e: { enum: numbers } })),
  ).toContain('/$defs/e/enum')
  expect(refused(over({ enum: times(12_000, () => 1) }))).toEqual(['/properties/a/enum'])
  expect(refused(over({ const: times(12_000, () => 1) }))).toEqual(['/properties/a/const'])
  expect(refused(over({ required: times(12_000, () => 'b') }))).toEqual(['/properties/a/required'])
  expect(refused(over({ dependentRequired: { b: times(12_000, () => 'b') } }))).toEqual([
    '/properties/a/dependentRequired',
  ])
})

test('an internal error in validation still ends the call', async () => {
  const failed = (outcome: Outcome) => outcome
  expect(await asInfraFailure(Promise.resolve<Outcome>({ kind: 'returned' }), failed)).toEqual({
    kind: 'returned',
  })
  const broken = asInfraFailure(Promise.reject(new Error('what nobody thought of')), failed)
  expect(await broken).toEqual({ kind: 'infra', detail: 'the edge failed: Error: what nobody thought of' })
})
