// Promise: policies see a tool's arguments with the exact type of its JSON Schema. Arguments
// without an exact type are hidden and listed. The property test at the end checks against Cedar
// itself.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { getCedarSDKVersion, getCedarVersion, isAuthorized } from '@cedar-policy/cedar-wasm/nodejs'
import { describe, expect, test } from 'vitest'
import { NOTHING } from '../../../edge/call/usage.ts'
import { argumentTypes, typeText } from '../../../edge/policy/argument-typing.ts'
import { type CedarValueJson, readSchema, validate } from '../../../edge/policy/engine.ts'
import { tenantSchema } from '../../../edge/policy/schema.ts'
import { argumentCheck } from '../../../edge/tools/argument-check.ts'
import { checkSchema, type Schema } from '../../../edge/tools/schema-rules.ts'
import { ROOT } from '../../../infra/state.ts'
import { LIMITS } from '../../../shared/limits.ts'
import { seeded } from '../../shared/random-json.ts'
import { randomTool } from './random-schema.ts'

const object = (properties: Record<string, unknown>, rest: Schema = {}): Schema => ({
  type: 'object',
  properties,
  additionalProperties: false,
  ...rest,
})
const typed = (schema: Schema): string => typeText(argumentTypes(schema).record)
const typeOf = (schema: unknown): string => typed(object({ x: schema }, { required: ['x'] }))
const seen = (schema: Schema, args: Record<string, unknown>) => {
  const converted = argumentTypes(schema).convert(args)
  return converted.ok ? converted.value : converted.error
}
const decimal = (arg: string) => ({ __extn: { fn: 'decimal', arg } })

test.each<[schema: unknown, type: string]>([
  [{ type: 'string' }, 'String'],
  [{ type: 'string', format: 'date' }, 'String'],
  [{ enum: ['a', 'b'] }, 'String'],
  [{ const: 'a' }, 'String'],
  [{ type: 'boolean' }, 'Bool'],
  [{ enum: [true] }, 'Bool'],
  [{ type: 'integer', minimum: 0 }, 'Long'],
  [{ enum: [1, 2] }, 'Long'],
  [{ type: 'number' }, 'decimal'],
  [{ type: 'number', enum: [1, 2] }, 'decimal'],
  [{ enum: [0.5, 1.5] }, 'decimal'],
  [{ type: ['string'] }, 'String'],
  [{ type: 'array', items: { type: 'string' } }, 'Set<String>'],
  [{ type: 'array', items: { type: 'number' }, uniqueItems: true, maxItems: 3 }, 'Set<decimal>'],
  [
    object({ a: { type: 'integer' }, 'b c': { type: 'string' } }, { required: ['a'] }),
    '{ a: Long, "b c"?: String }',
  ],
  [{ type: 'string', anyOf: [{ minLength: 1 }, { const: '' }], not: { const: 'x' } }, 'String'],
  [{ type: 'object', properties: {} }, '{}'],
])('policy sees the schema %j as %s', (schema, type) => {
  expect(typeOf(schema)).toBe(`{ x: ${type} }`)
})

test('references in a schema are followed to their definitions', () => {
  const $defs = {
    money: object({ amount: { $ref: '#/$defs/amount' } }, { required: ['amount'] }),
    amount: { type: 'integer' },
  }
  const properties = { a: { $ref: '#/$defs/money' }, b: { type: 'array', items: { $ref: '#/$defs/amount' } } }
  expect(typed(object(properties, { $defs }))).toBe('{ a?: { amount: Long }, b?: Set<Long> }')
})

test('policy sees null as absent', () => {
  const schema = object({ x: { type: ['string', 'null'] }, y: { enum: [null, 1] } }, { required: ['x', 'y'] })
  expect(typed(schema)).toBe('{ x?: String, y?: Long }')
  expect(seen(schema, { x: null, y: 1 })).toEqual({ y: 1 })
})

test.each<[schema: unknown, reason: RegExp]>([
  [{ type: ['string', 'integer'] }, /may be string or integer/],
  [{ enum: [1, 'a'] }, /may be integer or string/],
  [{ enum: [1, 1.5] }, /may be integer or number/],
  [{ type: 'null' }, /no `type`/],
  [true, /any type/],
  [{}, /no `type`/],
  [{ properties: { a: { type: 'string' } } }, /no `type`/],
  [{ anyOf: [{ type: 'string' }, { type: 'integer' }] }, /no `type`/],
  [{ oneOf: [{ type: 'string' }] }, /no `type`/],
  [{ allOf: [{ type: 'string' }] }, /no `type`/],
  [{ type: 'object' }, /without `properties`/],
  [{ type: 'object', additionalProperties: { type: 'string' } }, /without `properties`/],
  [{ type: 'array' }, /`items`/],
  [{ type: 'array', items: object({ a: { type: 'string' } }) }, /not all of one scalar type/],
  [{ type: 'array', items: { type: 'array', items: { type: 'string' } } }, /not all of one scalar type/],
  [{ type: 'array', items: { type: ['string', 'null'] } }, /not all of one scalar type/],
  [{ type: 'array', items: { type: 'string' }, prefixItems: [{ type: 'integer' }] }, /type by position/],
])('policy does not see an argument of schema %j, and the reason is listed', (schema, reason) => {
  const types = argumentTypes(object({ x: schema }))
  expect(typeText(types.record)).toBe('{}')
  expect(types.unseen).toEqual([{ at: '/x', reason: expect.stringMatching(reason) }])
  expect(types.convert({ x: { any: 'thing' } })).toEqual({ ok: true, value: {} })
})

test('policy does not see additional properties, and each place that allows them is listed', () => {
  const schema = {
    type: 'object',
    properties: { a: { type: 'object', properties: {} } },
    allOf: [{ properties: { b: { type: 'string' } } }],
  }
  const { unseen } = argumentTypes(schema)
  expect(unseen.map(({ at }) => at).sort()).toEqual(['/*', '/a/*'])
  expect(seen(schema, { a: { more: 1 }, b: 'x', c: 1 })).toEqual({ a: {} })
})

test.each(['__entity', '__extn', '__expr'])(
  'policy does not see an argument named `%s` at any depth, so none can pose as an entity or a function',
  (name) => {
    const poses = { [name]: { type: 'Role', id: 'admin' } }
    const inner = object({ [name]: object({ type: { type: 'string' }, id: { type: 'string' } }) })
    for (const schema of [inner, object({ a: inner }), { type: 'object' }]) {
      expect(JSON.stringify(seen(schema, { ...poses, a: poses }))).not.toContain(name)
    }
    expect(argumentTypes(inner).unseen).toEqual([
      { at: `/${name}`, reason: expect.stringContaining('other than data') },
    ])
  },
)

test('a property that is never allowed is not listed', () => {
  expect(argumentTypes(object({ x: false }))).toMatchObject({ unseen: [], record: { attributes: {} } })
})

test('the number of arguments of a tool that policy sees is limited', () => {
  const many = object(
    Object.fromEntries(
      Array.from({ length: LIMITS.policy_attributes + 3 }, (_, i) => [`a${i}`, { type: 'string' }]),
    ),
  )
  const { record, unseen } = argumentTypes(many)
  expect([Object.keys(record.attributes).length, unseen.length]).toEqual([LIMITS.policy_attributes, 3])
})

describe('numbers', () => {
  const schema = object({
    long: { type: 'integer' },
    number: { type: 'number' },
    list: { type: 'array', items: { type: 'number' } },
  })
  const parsed = (text: string) => seen(schema, JSON.parse(text) as Record<string, unknown>) // JSON

  test.each([
    ['{"long": 1.0}', { long: 1 }],
    ['{"long": -0}', { long: 0 }],
    ['{"long": 9007199254740991}', { long: Number.MAX_SAFE_INTEGER }],
    ['{"long": -9007199254740991}', { long: -Number.MAX_SAFE_INTEGER }],
    ['{"number": 5}', { number: decimal('5.0') }],
    ['{"number": 1.50}', { number: decimal('1.5') }],
    ['{"number": -0.0001}', { number: decimal('-0.0001') }],
    ['{"number": -0.0}', { number: decimal('0.0') }],
    ['{"number": 922337203685477.5}', { number: decimal('922337203685477.5') }],
    ['{"number": -922337203685477.5}', { number: decimal('-922337203685477.5') }],
    ['{"list": [1, 1.0, 1.5]}', { list: [decimal('1.0'), decimal('1.0'), decimal('1.5')] }],
  ])('policy sees %s exactly', (text, expected) => {
    const value = parsed(text)
    expect(value).toEqual(expected)
    expect(JSON.stringify(value)).not.toContain('-0}')
  })

  test.each([
    ['{"long": 9007199254740992}', '/long'],
    ['{"long": 1e300}', '/long'],
    ['{"number": 0.00001}', '/number'],
    ['{"number": 1.23456}', '/number'],
    ['{"number": 5e-324}', '/number'],
    ['{"number": 922337203685478}', '/number'],
    ['{"number": -922337203685477.625}', '/number'],
    ['{"number": 1e21}', '/number'],
    ['{"list": [1, 0.12345]}', '/list/1'],
  ])('arguments %s are refused by position, not rounded', (text, at) => {
    expect(parsed(text)).toMatchObject({ code: 'invalid_arguments', errors: [{ at }] })
  })

  test('each number that Cedar can’t hold is reported', () => {
    expect(parsed('{"long": 1e300, "number": 0.00001}')).toMatchObject({
      errors: [{ at: '/long' }, { at: '/number' }],
    })
  })
})

test('arguments named like properties of every JavaScript object are ordinary arguments', () => {
  const schema = object({
    constructor: { type: 'string' },
    toString: { type: 'integer' },
    hasOwnProperty: { type: 'boolean' },
  })
  expect(seen(schema, {})).toEqual({})
  const args = JSON.parse('{"constructor":"a","toString":1,"hasOwnProperty":false}') as Record<
    string,
    unknown
  > // JSON
  expect(seen(schema, args)).toEqual(args)
})

test('arguments of another version of the tool are refused, not converted', () => {
  const schema = object({ x: { type: 'integer' } })
  for (const x of ['1', 1.5, true, [1], { x: 1 }])
    expect(seen(schema, { x })).toMatchObject({ code: 'invalid_arguments' })
})

test('a thousand tools with the same arguments share one type, and another tool has its own', () => {
  const taking = (type: string) => ({
    args: argumentTypes(object({ n: { type } })).record,
    groups: ['tool.execute'],
  })
  const alike = Array.from({ length: 1_000 }, (_, i) => [`t${i}`, taking('integer')] as const)
  const schema = tenantSchema(BASE, new Map([...alike, ['other', taking('string')]]))
  // Cedar reads the whole schema on each change of a policy or tool: a context each would be 1.5 MB.
  expect(JSON.stringify(schema).length).toBeLessThan(250_000)
  const errorsOf = (tool: string): number => {
    const rule = `forbid (principal, action == Action::"tool.execute/${tool}", resource) when { context.args has n && context.args.n > 1 };`
    return validate(schema, { rule }).errors.length
  }
  expect(['t0', 't999', 'other'].map(errorsOf)).toEqual([0, 0, 1])
})

test('arguments that fit a schema convert to a request that Cedar accepts for the derived type', () => {
  const random = seeded(20_261_118)
  let typedMembers = 0
  for (let round = 0; round < 200; round++) {
    const { schema, args: make } = randomTool(random)
    expect(checkSchema(schema)).toMatchObject({ ok: true })
    const { record, convert } = argumentTypes(schema)
    typedMembers += Object.keys(record.attributes).length
    const whole = tenantSchema(BASE, new Map([['any', { args: record, groups: ['tool.execute'] }]]))
    for (let i = 0; i < 3; i++) {
      const args = make()
      expect(argumentCheck(schema)(args)).toMatchObject({ ok: true })
      const converted = convert(args)
      if (!converted.ok) throw new Error(JSON.stringify([schema, args, converted.error]))
      expect(validated(whole, converted.value), JSON.stringify({ schema, args })).toMatchObject({
        type: 'success',
      })
    }
  }
  expect(typedMembers).toBeGreaterThan(300)
  const whole = tenantSchema(
    BASE,
    new Map([
      ['any', { args: argumentTypes(object({ n: { type: 'integer' } })).record, groups: ['tool.execute'] }],
    ]),
  )
  for (const args of [{ n: 'a' }, { n: 1, more: 1 }, { n: decimal('1.0') }])
    expect(validated(whole, args as Record<string, CedarValueJson>)).toMatchObject({ type: 'failure' })
})

const BASE = readSchema(readFileSync(join(ROOT, 'policies/schema.cedarschema'), 'utf8'))

const NOBODY = { count: 0, roles: [], quorum: [] }

/** Cedar's own check of a request with these arguments, which live calls skip. */
const validated = (schema: ReturnType<typeof tenantSchema>, args: Record<string, CedarValueJson>) =>
  isAuthorized({
    principal: { type: 'Agent', id: 'a' },
    action: { type: 'Action', id: 'tool.execute/any' },
    resource: { type: 'Tool', id: 'any' },
    schema,
    validateRequest: true,
    policies: {},
    entities: [],
    context: {
      tool_name: 'any',
      capabilities: [],
      is_sensitive_action: false,
      is_allowlisted_tool: true,
      is_allowed_channel: true,
      allow_sensitive_tools: false,
      session_id: 's',
      run_id: 'r',
      folder_met_secret: false,
      args,
      files: { count: 0, bytes: 0, paths: [], sha256: [] },
      plan: {
        tier: 'C',
        program: 'true',
        egress_mode: 'strict',
        egress_hosts: [],
        secrets: [],
        workspace: 'call',
        timeout_ms: 1,
        memory_bytes: 1,
        cgroup: false,
      },
      owners: [],
      now: { __extn: { fn: 'datetime', arg: '2026-11-18T12:00:00Z' } },
      weekday: 3,
      budget: { run: { max_calls: 1, ...NOTHING }, session: { ...NOTHING }, agent: { asks_hour: 0 } },
      approval: {
        granted: false,
        approvers: [],
        assurance: 'none',
        standing_s: 0,
        ...NOBODY,
        independent: NOBODY,
      },
    },
  })

test('G14 the policy engine has exactly the version that package.json names', () => {
  const { dependencies } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
  expect([dependencies['@cedar-policy/cedar-wasm'], getCedarSDKVersion()]).toEqual([
    getCedarVersion(),
    getCedarVersion(),
  ])
})
