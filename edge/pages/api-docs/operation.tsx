// One operation: its parameters, body, answers and failures, and requests to copy.

import type { Code } from '../../../shared/failures.ts'
import type { Route } from '../../../shared/routes/route.ts'
import type { Example } from '../../http/openapi/examples.ts'
import { Prose } from '../approval-page.tsx'
import { Data, hasFields, Kind, nameOf, type Schema } from './data.tsx'
import { snippetsOf } from './snippets.ts'
import type { Operation } from './subjects.ts'

type Media = { readonly schema: Schema }
/** A body or an answer of the OpenAPI document, as far as this page reads it. */
export type Described = { readonly content?: Readonly<Record<string, Media>> }
export type Parameter = {
  readonly name: string
  readonly in: string
  readonly required?: boolean
  readonly description?: string
  readonly schema: Schema
}

type Props = {
  readonly operation: Operation
  readonly body: Described
  readonly answer: Described
  readonly schemas: Readonly<Record<string, Schema>>
  readonly parameters: readonly Parameter[]
  readonly example: Example
  readonly origin: string
}

const CALLERS: Partial<Record<Route['callers'][number], string>> = {
  agent: 'agents',
  operator: 'operators',
  installation: 'the operator of the installation',
  anyone: 'anyone',
}

export function OperationArticle({
  operation: { name, route },
  body: describedBody,
  answer: describedAnswer,
  schemas,
  parameters,
  example,
  origin,
}: Props) {
  const { method, path, summary, action, callers, failures, status, pending_until } = route
  const body = mediaOf(describedBody)
  const named = schemas[nameOf(body?.schema.$ref ?? '')]
  const answer = mediaOf(describedAnswer)
  return (
    <article id={name}>
      <h3>
        <a href={`#${name}`}>
          <code>
            {method} {path}
          </code>
        </a>
      </h3>
      <p>
        <Prose text={summary} />.
      </p>
      <p class="quiet">
        For {callers.map((caller) => CALLERS[caller] ?? caller).join(' and ')}
        {action === null ? '' : `. Policy decides on the action ${action}`}.
      </p>
      {parameters.length === 0 ? '' : <Parameters parameters={parameters} />}
      {body === undefined ? '' : <h4>Body</h4>}
      {body === undefined ? '' : <Data schema={body.schema} />}
      {named === undefined || !hasFields(named) ? '' : <Data schema={named} />}
      {snippetsOf(name, route, example, origin).map(({ title, text }, i) => (
        <details name={`code-${name}`} open={i === 0}>
          <summary>{title}</summary>
          <pre class="copy">{text}</pre>
        </details>
      ))}
      <h4>
        Answer {status}
        {pending_until === undefined ? '' : `, or 202 until there is ${pending_until}`}
      </h4>
      {answer === undefined ? '' : <Data schema={answer.schema} />}
      {example.response === undefined ? (
        ''
      ) : (
        <details>
          <summary>Example</summary>
          <pre class="copy">{JSON.stringify(example.response, null, 2)}</pre>
        </details>
      )}
      {failures.length === 0 ? '' : <Failures codes={failures} />}
    </article>
  )
}

const mediaOf = ({ content = {} }: Described): Media | undefined => Object.values(content)[0]

function Parameters({ parameters }: { parameters: readonly Parameter[] }) {
  return (
    <>
      <h4>Parameters</h4>
      <table>
        <tbody>
          {parameters.map(({ name, in: place, required = false, description = '', schema }) => (
            <tr>
              <td>
                <code>{name}</code>
                <span class="quiet">
                  {' '}
                  {place}
                  {required ? '' : ', optional'}
                </span>
              </td>
              <td>
                <Kind schema={schema} />
              </td>
              <td>
                <Prose text={description} />
                {schema.default === undefined ? '' : ` Default: ${JSON.stringify(schema.default)}.`}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  )
}

export function Failures({ codes }: { codes: readonly Code[] }) {
  return (
    <p class="quiet">
      Failures:{' '}
      {codes.map((code, i) => (
        <>
          {i === 0 ? '' : ', '}
          <a href={`#problem-${code}`}>{code}</a>
        </>
      ))}
    </p>
  )
}
