// Schemas as tables of fields. A named schema is described once, and linked to from everywhere else.

import { Prose } from '../approval-page.tsx'

export type Schema = {
  readonly $ref?: string
  readonly type?: string | readonly string[]
  readonly description?: string
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  readonly items?: Schema
  readonly additionalProperties?: Schema | boolean
  readonly enum?: readonly unknown[]
  readonly const?: unknown
  readonly anyOf?: readonly Schema[]
  readonly oneOf?: readonly Schema[]
  readonly allOf?: readonly Schema[]
  readonly default?: unknown
}

export const nameOf = (reference: string): string => reference.split('/').at(-1) ?? ''

export const dataId = (name: string): string => `data-${name}`

/** Which values a schema admits, in words, with links to named schemas. */
export function Kind({ schema }: { schema: Schema }) {
  const { $ref, type, items, enum: values, const: constant, anyOf, oneOf, additionalProperties } = schema
  if ($ref !== undefined) return <a href={`#${dataId(nameOf($ref))}`}>{nameOf($ref)}</a>
  if (values !== undefined) return <>{values.map((value) => JSON.stringify(value)).join(', ')}</>
  if (constant !== undefined) return <>{JSON.stringify(constant)}</>
  const options = anyOf ?? oneOf
  if (options !== undefined)
    return (
      <>
        {options.map((option, i) => (
          <>
            {i === 0 ? '' : ' or '}
            <Kind schema={option} />
          </>
        ))}
      </>
    )
  if (items !== undefined)
    return (
      <>
        list of <Kind schema={items} />
      </>
    )
  if (typeof additionalProperties === 'object' && Object.keys(additionalProperties).length > 0)
    return (
      <>
        map to <Kind schema={additionalProperties} />
      </>
    )
  return <>{type === undefined ? 'any value' : [type].flat().join(' or ')}</>
}

/** The fields of an object. Those of an unnamed object inside it follow with its name before them. */
function Fields({ schema, within = '' }: { schema: Schema; within?: string }) {
  const parts = schema.allOf ?? [schema]
  return (
    <>
      {parts.map((part) =>
        part.$ref === undefined ? (
          <Rows schema={part} within={within} />
        ) : (
          <tr>
            <td colspan={3}>
              All fields of <Kind schema={part} />
            </td>
          </tr>
        ),
      )}
    </>
  )
}

function Rows({ schema: { properties = {}, required = [] }, within }: { schema: Schema; within: string }) {
  return (
    <>
      {Object.entries(properties).map(([name, field]) => (
        <>
          <tr>
            <td>
              <code>{within + name}</code>
              {required.includes(name) ? '' : <span class="quiet"> optional</span>}
            </td>
            <td>
              <Kind schema={field} />
            </td>
            <td>
              <Prose text={field.description ?? ''} />
              {field.default === undefined ? '' : ` Default: ${JSON.stringify(field.default)}.`}
            </td>
          </tr>
          {field.properties === undefined ? '' : <Rows schema={field} within={`${within}${name}.`} />}
        </>
      ))}
    </>
  )
}

export const hasFields = ({ properties, allOf }: Schema): boolean =>
  allOf !== undefined || Object.keys(properties ?? {}).length > 0

/** A link to a named schema, or the fields of an unnamed one. */
export function Data({ schema }: { schema: Schema }) {
  return hasFields(schema) ? (
    <table>
      <tbody>
        <Fields schema={schema} />
      </tbody>
    </table>
  ) : (
    <p>
      <Kind schema={schema} />
    </p>
  )
}
