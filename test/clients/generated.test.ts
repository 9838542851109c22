// Promise: the types of both client packages are those of the edge's route table.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { generatedTypes } from '../../infra/clients/generate.ts'
import { pythonTypes } from '../../infra/clients/python.ts'
import type { JsonSchema } from '../../infra/clients/schemas.ts'
import { typescriptTypes } from '../../infra/clients/typescript.ts'
import { ROOT } from '../../infra/state.ts'

test.each([...generatedTypes()])(
  '%s is up to date with the route table; `npm run clients` writes it',
  (path, text) => {
    expect(readFileSync(join(ROOT, path), 'utf8')).toBe(text)
  },
)

describe('the generated form of', () => {
  const of = (schema: JsonSchema, render: typeof typescriptTypes): string =>
    render(new Map([['Shape', schema]]), [], [])
      .split('export type Code =')
      .at(-1) ?? ''
  const cases: readonly (readonly [name: string, schema: JsonSchema, typescript: string, python: string])[] =
    [
      [
        'a union with null',
        { anyOf: [{ type: 'string' }, { type: 'null' }] },
        'Shape = string | null',
        'Shape = Optional[str]',
      ],
      [
        'a list of a union',
        { type: 'array', items: { enum: ['a', 1] } },
        "Shape = readonly ('a' | 1)[]",
        'Shape = List[Literal["a", 1]]',
      ],
      [
        'a map',
        { type: 'object', additionalProperties: { type: 'integer' } },
        'Shape = Readonly<Record<string, number>>',
        'Shape = Dict[str, int]',
      ],
      ['nothing', { not: {} }, 'Shape = never', 'Shape = Any'],
      [
        'an object with a keyword as a name and an optional field',
        {
          type: 'object',
          properties: { from: { $ref: 'Other' }, 'a-b': { type: 'boolean', description: 'Why */ so.' } },
          required: ['from'],
        },
        "Shape = {\n  readonly from: Other\n  /** Why *\\/ so. */\n  readonly 'a-b'?: boolean\n}",
        '{\n    "from": "Other",\n}',
      ],
    ]
  test.each(cases)('%s is a type of both languages', (_name, schema, typescript, python) => {
    expect(of(schema, typescriptTypes)).toContain(typescript)
    expect(of(schema, pythonTypes)).toContain(python)
  })

  test('two objects of one name are refused', () => {
    const inner: JsonSchema = { type: 'object', properties: { b: { type: 'string' } } }
    const schemas = new Map<string, JsonSchema>([
      ['Shape', { type: 'object', properties: { a: inner } }],
      ['ShapeA', { type: 'object', properties: { c: inner } }],
    ])
    expect(() => pythonTypes(schemas, [], [])).toThrow('two types are named ShapeA')
  })
})
