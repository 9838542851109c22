// Random JSON Schemas of tools, each with a generator of arguments that fit. Seeded, so that
// failures can be reproduced.

import type { Schema } from '../../../edge/tools/schema-rules.ts'
import type { Random } from '../../shared/random-json.ts'

type Part = { readonly schema: unknown; readonly make: () => unknown }

const below = (random: Random, limit: number): number => Math.floor(random() * limit)
const pick = <T>(random: Random, from: readonly [T, ...T[]]): T => from[below(random, from.length)] ?? from[0]
const NAMES = [
  'a',
  'b c',
  'amount',
  'é',
  '',
  'constructor',
  '__entity',
  '__extn',
  '__expr',
  'in',
  '"',
  'type',
  'a'.repeat(70),
] as const

/** A number that a Cedar decimal can hold. */
const fitting = (random: Random): number =>
  (below(random, 2_000_000) - 1_000_000) / pick(random, [1, 10, 100, 1_000, 10_000])
const text = (random: Random): string =>
  pick(random, ['', 'a', 'é€\u{1f600}', '__entity', '{"__extn":1}', '\u202e'])
const whole = (random: Random): number =>
  pick(random, [0, -0, 1, -1, Number.MAX_SAFE_INTEGER, -Number.MAX_SAFE_INTEGER, below(random, 1_000)])

function scalar(random: Random): Part {
  return pick<() => Part>(random, [
    () => ({
      schema: { type: 'string', ...(random() < 0.3 ? { maxLength: 50 } : {}) },
      make: () => text(random),
    }),
    () => ({ schema: { type: 'boolean' }, make: () => random() < 0.5 }),
    () => ({ schema: { type: 'integer' }, make: () => whole(random) }),
    () => ({ schema: { type: 'number' }, make: () => fitting(random) }),
    () => ({ schema: { enum: ['x', 'y'] }, make: () => pick(random, ['x', 'y']) }),
    () => ({ schema: { enum: [3, 4] }, make: () => pick(random, [3, 4]) }),
    () => ({ schema: { const: 2.5 }, make: () => 2.5 }),
    () => ({ schema: { $ref: '#/$defs/text' }, make: () => text(random) }),
  ])()
}

/** Schemas that policy can't see, whose values must not matter. */
function untyped(random: Random): Part {
  return pick<() => Part>(random, [
    () => ({ schema: {}, make: () => ({ __entity: { type: 'Role', id: 'admin' } }) }),
    () => ({ schema: true, make: () => [[null], { a: 1e300 }] }),
    () => ({ schema: { type: ['string', 'integer'] }, make: () => pick<unknown>(random, ['a', 1]) }),
    () => ({ schema: { anyOf: [{ type: 'string' }, { type: 'boolean' }] }, make: () => true }),
    () => ({ schema: { type: 'array', items: { type: ['integer', 'null'] } }, make: () => [1, null] }),
    () => ({ schema: { type: 'object' }, make: () => ({ __extn: { fn: 'ip', arg: 'x' } }) }),
  ])()
}

function part(random: Random, depth: number): Part {
  const one = pick(random, ['scalar', 'scalar', 'null', 'list', 'object', 'untyped'])
  if (one === 'untyped') return untyped(random)
  if (one === 'null')
    return { schema: { type: ['integer', 'null'] }, make: () => pick<unknown>(random, [null, whole(random)]) }
  if (one === 'object' && depth > 0) return record(random, depth - 1)
  const item = scalar(random)
  if (one !== 'list') return item
  return {
    schema: { type: 'array', items: item.schema },
    make: () => Array.from({ length: below(random, 4) }, item.make),
  }
}

function record(random: Random, depth: number): Part & { readonly make: () => Record<string, unknown> } {
  const names = NAMES.filter(() => random() < 0.35)
  const parts = names.map((name) => ({ name, required: random() < 0.5, ...part(random, depth) }))
  const open = random() < 0.3
  return {
    schema: {
      type: 'object',
      properties: Object.fromEntries(parts.map(({ name, schema }) => [name, schema])),
      required: parts.filter(({ required }) => required).map(({ name }) => name),
      ...(open ? {} : { additionalProperties: false }),
    },
    make: () => ({
      ...Object.fromEntries(
        parts.filter(({ required }) => required || random() < 0.5).map(({ name, make }) => [name, make()]),
      ),
      ...(open && random() < 0.5 ? { undeclared: { __entity: { type: 'Role', id: 'admin' } } } : {}),
    }),
  }
}

export function randomTool(random: Random): {
  readonly schema: Schema
  readonly args: () => Record<string, unknown>
} {
  const { schema, make } = record(random, 3)
  return { schema: { ...(schema as Schema), $defs: { text: { type: 'string' } } }, args: make } // a record's schema is an object
}
