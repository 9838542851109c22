// Writes clients/typescript/src/api.ts: types for TypeScript. Pure.

import { type AgentRoute, alternatives, type JsonSchema, type NamedSchemas } from './schemas.ts'

const HEADER = `// Generated from the edge's route table by \`npm run clients\`; do not edit.
`

export function typescriptTypes(
  schemas: NamedSchemas,
  routes: readonly AgentRoute[],
  codes: readonly { readonly code: string }[],
): string {
  const types = [...schemas].map(
    ([name, schema]) => `${comment(schema, '')}export type ${name} = ${typeOf(schema, '')}\n`,
  )
  return [
    HEADER,
    'export const ROUTES = {',
    ...routes.map(({ name, method, path }) => `  ${name}: { method: '${method}', path: '${path}' },`),
    '} as const\n',
    '/** The stable codes of refusals and endings. A newer edge may send others. */',
    `export type Code =${codes.map(({ code }) => `\n  | '${code}'`).join('')}\n`,
    ...types,
  ].join('\n')
}

function typeOf(schema: JsonSchema, indent: string): string {
  if (schema.$ref !== undefined) return /^[A-Z]\w*$/.test(schema.$ref) ? schema.$ref : 'unknown'
  if (schema.const !== undefined) return literal(schema.const)
  if (schema.enum !== undefined) return schema.enum.map(literal).join(' | ')
  const union = alternatives(schema)
  if (union !== undefined) return [...new Set(union.map((one) => typeOf(one, indent)))].join(' | ')
  if (schema.allOf !== undefined) return schema.allOf.map((one) => typeOf(one, indent)).join(' & ')
  switch (schema.type) {
    case 'string':
      return 'string'
    case 'number':
    case 'integer':
      return 'number'
    case 'boolean':
      return 'boolean'
    case 'null':
      return 'null'
    case 'array':
      return arrayOf(schema, indent)
    case 'object':
      return objectOf(schema, indent)
    default:
      return schema.not === undefined ? 'unknown' : 'never'
  }
}

function arrayOf({ items, prefixItems }: JsonSchema, indent: string): string {
  if (prefixItems !== undefined)
    return `readonly [${prefixItems.map((one) => typeOf(one, indent)).join(', ')}]`
  const item = typeOf(items ?? {}, indent)
  return `readonly ${needsBrackets(items) ? `(${item})` : item}[]`
}

/** A union and a list have to be bracketed before they can be the item of a list. */
const needsBrackets = (item: JsonSchema = {}): boolean =>
  item.type === 'array' || (item.enum ?? alternatives(item) ?? []).length > 1

function objectOf({ properties, required = [], additionalProperties }: JsonSchema, indent: string): string {
  if (properties === undefined) {
    const value = typeof additionalProperties === 'object' ? typeOf(additionalProperties, indent) : 'unknown'
    return `Readonly<Record<string, ${value}>>`
  }
  const inner = `${indent}  `
  const fields = Object.entries(properties).map(([name, schema]) => {
    const key = /^[a-z_]\w*$/i.test(name) ? name : literal(name)
    const mark = required.includes(name) ? '' : '?'
    return `${comment(schema, inner)}${inner}readonly ${key}${mark}: ${typeOf(schema, inner)}\n`
  })
  return `{\n${fields.join('')}${indent}}`
}

const comment = ({ description }: JsonSchema, indent: string): string =>
  description === undefined ? '' : `${indent}/** ${description.replaceAll('*/', '*\\/')} */\n`

const literal = (value: unknown): string =>
  typeof value === 'string' ? `'${value.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'` : String(value)
