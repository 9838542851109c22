// Writes clients/python/src/countersign_agent/api.py: the same types as typed dictionaries, for
// Python 3.10 and newer. Pure.

import { type AgentRoute, alternatives, type JsonSchema, type NamedSchemas } from './schemas.ts'

const HEADER = `# Generated from the edge's route table by \`npm run clients\`; do not edit.
"""Types of what an agent sends and reads. At run time they are plain dictionaries."""

from typing import Any, Dict, Final, List, Literal, Mapping, Optional, Tuple, TypedDict, Union
`

export function pythonTypes(
  schemas: NamedSchemas,
  routes: readonly AgentRoute[],
  codes: readonly { readonly code: string }[],
): string {
  const module = new Module()
  for (const [name, schema] of schemas) module.add(name, schema)
  const table = routes.map(({ name, method, path }) => `    "${snake(name)}": ("${method}", "${path}"),`)
  return [
    HEADER,
    `ROUTES: Final[Mapping[str, Tuple[str, str]]] = {\n${table.join('\n')}\n}\n`,
    '# The stable codes of refusals and endings. A newer edge may send others.',
    `Code = Literal[\n${codes.map(({ code }) => `    "${code}",`).join('\n')}\n]\n`,
    module.text(),
  ].join('\n')
}

const snake = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
const camel = (name: string): string => name.replace(/(?:^|_)([a-z])/g, (_, letter) => letter.toUpperCase())

/** Definitions, each after those that it names. */
class Module {
  readonly #definitions = new Map<string, string>()

  text(): string {
    return [...this.#definitions.values()].join('\n')
  }

  add(name: string, schema: JsonSchema): void {
    const type = this.#type(schema, name)
    if (type !== name) this.#define(name, `${name} = ${type}\n`)
  }

  #define(name: string, text: string): void {
    const known = this.#definitions.get(name)
    if (known !== undefined && known !== text) throw new Error(`two types are named ${name}`)
    this.#definitions.set(name, text)
  }

  /** `name`: the class to define if the schema is an object with known fields. */
  #type(schema: JsonSchema, name: string): string {
    if (schema.$ref !== undefined) return /^[A-Z]\w*$/.test(schema.$ref) ? `"${schema.$ref}"` : 'Any'
    if (schema.const !== undefined) return `Literal[${literal(schema.const)}]`
    if (schema.enum !== undefined) return `Literal[${schema.enum.map(literal).join(', ')}]`
    const union = alternatives(schema)
    if (union !== undefined) return this.#union(union, name)
    switch (schema.type) {
      case 'string':
        return 'str'
      case 'number':
        return 'float'
      case 'integer':
        return 'int'
      case 'boolean':
        return 'bool'
      case 'null':
        return 'None'
      case 'array':
        return schema.prefixItems === undefined
          ? `List[${this.#type(schema.items ?? {}, `${name}Item`)}]`
          : `Tuple[${schema.prefixItems.map((one, i) => this.#type(one, `${name}Item${i}`)).join(', ')}]`
      case 'object':
        return this.#object(schema, name)
      default:
        return 'Any'
    }
  }

  #union(members: readonly JsonSchema[], name: string): string {
    const classes = members.filter(({ properties }) => properties !== undefined).length
    const types = members.map((one, i) => this.#type(one, classes > 1 ? `${name}${i + 1}` : name))
    const others = [...new Set(types)].filter((type) => type !== 'None')
    const whole = others.length === 1 ? (others[0] ?? 'Any') : `Union[${others.join(', ')}]`
    return types.includes('None') ? `Optional[${whole}]` : whole
  }

  #object(
    { properties, required = [], additionalProperties, description }: JsonSchema,
    name: string,
  ): string {
    if (properties === undefined)
      return typeof additionalProperties === 'object'
        ? `Dict[str, ${this.#type(additionalProperties, `${name}Value`)}]`
        : 'Dict[str, Any]'
    const fields = (wanted: boolean): string =>
      Object.entries(properties)
        .filter(([field]) => required.includes(field) === wanted)
        .map(([field, schema]) => `    "${field}": ${this.#type(schema, `${name}${camel(field)}`)},\n`)
        .join('')
    const [always, sometimes] = [fields(true), fields(false)]
    const part = (suffix: string, body: string, total: string): string =>
      `_${name}${suffix} = TypedDict("_${name}${suffix}", {\n${body}}${total})\n`
    const doc = (description ?? `Fields of \`${name}\`.`).replaceAll('"""', "'''")
    this.#define(
      name,
      `${part('Required', always, '')}${part('Optional', sometimes, ', total=False')}\n\nclass ${name}(_${name}Required, _${name}Optional):\n    """${doc}"""\n\n`,
    )
    return name
  }
}

const literal = (value: unknown): string =>
  typeof value === 'string'
    ? JSON.stringify(value)
    : value === true
      ? 'True'
      : value === false
        ? 'False'
        : String(value)
