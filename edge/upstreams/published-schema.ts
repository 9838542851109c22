// The schema of an upstream's tool as agents see it. Headers that the server wants repeated stay
// between it and the edge: in what we advertise they would make clients put arguments into headers,
// where proxies log them. Pure.

import { CONFUSABLE } from '../../shared/bytes/confusable-characters.ts'
import type { Json } from '../../shared/bytes/json.ts'
import type { UpstreamExecutor } from '../../shared/plan/plan.ts'
import { FORMATS } from '../tools/schema-rules.ts'

type JsonObject = { readonly [member: string]: Json }
type Mirrored = NonNullable<UpstreamExecutor['mirrored']>[number]

const HEADER = 'x-mcp-header'
const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}$/
const MIRRORED_TYPES: readonly unknown[] = ['string', 'integer', 'boolean']
const TEXTS: ReadonlySet<string> = new Set(['title', 'description', '$comment'])
const HOLDS_NAMED: ReadonlySet<string> = new Set(['properties', '$defs', 'dependentSchemas'])

/** The arguments that a schema wants in headers, and what is wrong with the request. */
export class MirroredArguments {
  readonly found: Mirrored[] = []
  readonly faults: string[] = []

  /** `path` is null for a schema that is not reached by `properties` alone. */
  add(header: Json, schema: JsonObject, path: readonly string[] | null): void {
    const fault = this.#fault(header, schema, path)
    if (fault !== undefined) this.faults.push(`inputSchema/${(path ?? []).join('/')}: ${fault}`)
    else this.found.push({ header: String(header), path: [...(path ?? [])] })
  }

  #fault(header: Json, schema: JsonObject, path: readonly string[] | null): string | undefined {
    if (typeof header !== 'string' || !TOKEN.test(header)) return '`x-mcp-header` is not the name of a header'
    if (path === null || path.length === 0)
      return '`x-mcp-header` is allowed only on a named property, not inside an array or a union'
    if (!MIRRORED_TYPES.includes(schema['type']))
      return '`x-mcp-header` is allowed only on a string, an integer or a boolean'
    const isTaken = this.found.some((one) => one.header.toLowerCase() === header.toLowerCase())
    return isTaken || this.found.length >= 32
      ? '`x-mcp-header` names a header for the second time, or there are more than 32'
      : undefined
  }
}

/**
 * Without headers, without formats that we can't check (the server checks them), without anchors,
 * because no accepted reference names one, and without invisible characters in its texts.
 */
export const publishedSchema = (schema: Json, mirrored: MirroredArguments | null): Json =>
  published(schema, mirrored, [])

function published(schema: Json, mirrored: MirroredArguments | null, path: readonly string[] | null): Json {
  if (Array.isArray(schema)) return schema.map((item) => published(item, mirrored, null))
  if (typeof schema !== 'object' || schema === null) return schema
  const members: [string, Json][] = []
  for (const [keyword, value] of Object.entries(schema)) {
    if (keyword === HEADER) mirrored?.add(value, schema, path)
    else if (keyword === 'format' && !FORMATS.has(value)) continue
    else if (keyword === '$anchor') continue
    else if (TEXTS.has(keyword) && typeof value === 'string') members.push([keyword, visible(value)])
    else if (HOLDS_NAMED.has(keyword) && typeof value === 'object' && value !== null && !Array.isArray(value))
      members.push([keyword, publishedByName(keyword, value, mirrored, path)])
    else if (HOLDS_SCHEMAS.has(keyword)) members.push([keyword, published(value, mirrored, null)])
    else members.push([keyword, value])
  }
  return Object.fromEntries(members)
}

const publishedByName = (
  keyword: string,
  schemas: JsonObject,
  mirrored: MirroredArguments | null,
  path: readonly string[] | null,
): Json =>
  Object.fromEntries(
    Object.entries(schemas).map(([name, schema]) => {
      const below = keyword === 'properties' && path !== null ? [...path, name] : null
      return [name, published(schema, mirrored, below)]
    }),
  )

const HOLDS_SCHEMAS: ReadonlySet<string> = new Set([
  ...['additionalProperties', 'items', 'contains', 'propertyNames', 'not', 'if', 'then', 'else'],
  ...['unevaluatedProperties', 'unevaluatedItems', 'allOf', 'anyOf', 'oneOf', 'prefixItems'],
])

const visible = (text: string): string =>
  text.replace(/[\t\p{Zs}]/gu, ' ').replace(new RegExp(CONFUSABLE, 'gu'), '')
