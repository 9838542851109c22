// Queries and reshapes JSON. The paths are JSONPath (RFC 9535) without regular expressions.

import { parse } from './parse.ts'
import type { Json } from './path.ts'
import { select } from './select.ts'

const DEFAULT_LIMIT = 100

function query({ data, path, limit = DEFAULT_LIMIT }: { data: Json; path: string; limit?: number }): Json {
  const values = select(parse(path, '$'), data, data)
  return { values: values.slice(0, limit), count: values.length }
}

function reshape({ data, each, fields }: { data: Json; each: string; fields: Record<string, string> }): Json {
  const wanted = Object.entries(fields).map(([name, path]) => [name, parse(path, '@')] as const)
  const items = select(parse(each, '$'), data, data).map((item) =>
    Object.fromEntries(wanted.map(([name, path]) => [name, select(path, item, data)[0] ?? null])),
  )
  return { items }
}

const TOOLS: Record<string, (input: never) => Json> = { query, reshape }

export function run(tool: string, input: string): string {
  const does = TOOLS[tool]
  if (does === undefined) throw new Error(`there is no tool ${tool}`)
  return JSON.stringify(does(JSON.parse(input) as never))
}
