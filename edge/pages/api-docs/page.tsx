// The page /docs: the API for people, from the same tables as the router. It is made once for each
// isolate, because it is long and anyone may ask for it.

import { raw } from 'hono/html'
import { type Code, entryOf, FAILURES } from '../../../shared/failures.ts'
import { LIMITS } from '../../../shared/limits.ts'
import { description } from '../../http/openapi/document.ts'
import { EXAMPLES } from '../../http/openapi/examples.ts'
import { html, Page, Prose } from '../approval-page.tsx'
import { withScript } from '../page-stream.ts'
import { Data, dataId, type Schema } from './data.tsx'
import { type Described, Failures, OperationArticle, type Parameter } from './operation.tsx'
import { DOCS_SCRIPT } from './script.ts'
import { docsStyle } from './style.ts'
import { type Operation, OTHERS, SUBJECTS } from './subjects.ts'

/** The document, as far as this page reads it. Shared parts are references to components. */
type Reference = { readonly $ref?: string }
type Operations = Readonly<
  Record<
    string,
    {
      readonly parameters?: readonly Reference[]
      readonly requestBody?: Described & Reference
      readonly responses: Readonly<Record<string, Described & Reference>>
    }
  >
>
type Document = {
  readonly paths: Readonly<Record<string, Operations & { readonly parameters?: readonly Reference[] }>>
  readonly components: {
    readonly schemas: Readonly<Record<string, Schema>>
    readonly parameters: Readonly<Record<string, Parameter>>
    readonly requestBodies: Readonly<Record<string, Described>>
    readonly responses: Readonly<Record<string, Described>>
  }
}

const componentOf = <T,>(of: Readonly<Record<string, T>>, { $ref = '' }: Reference): T | undefined =>
  of[$ref.split('/').at(-1) ?? '']

let cached: { readonly origin: string; readonly text: string } | undefined

export function docsPage(publicUrl: string): Response {
  const origin = publicUrl.replace(/\/$/, '')
  if (cached?.origin !== origin) cached = { origin, text: render(origin) }
  return withScript(html({ toString: () => cached?.text ?? '' }), DOCS_SCRIPT)
}

function render(origin: string): string {
  const document = description(true) as unknown as Document // made by our own code
  const page = (
    <Page title="API" sheet={docsStyle} top={<SkipLink />}>
      <div class="docs">
        <SideBar schemas={Object.keys(document.components.schemas)} />
        <div id="content" tabindex={-1}>
          <Introduction />
          {SUBJECTS.map(({ id, title, operations }) => (
            <section>
              <h2 id={`about-${id}`}>{title}</h2>
              {operations.map((operation) => (
                <Article operation={operation} document={document} origin={origin} />
              ))}
            </section>
          ))}
          <Others />
          <DataSection schemas={document.components.schemas} />
          <Problems />
          <Limits />
        </div>
      </div>
      <script>{raw(DOCS_SCRIPT)}</script>
    </Page>
  )
  return page.toString()
}

const SkipLink = () => (
  <a class="skip" href="#content">
    Skip to the content
  </a>
)

/** The text that a search looks through. */
const findable = ({ name, route: { method, path, summary } }: Operation): string =>
  `${name} ${method} ${path} ${summary}`.toLowerCase()

function SideBar({ schemas }: { schemas: readonly string[] }) {
  return (
    <nav class="side" aria-label="API">
      <details class="menu" open>
        <summary class="menu-title">Contents and search</summary>
        <div hidden>
          <label for="search">Search</label>
          <input id="search" type="search" autocomplete="off" spellcheck={false} />
        </div>
        <p id="nothing" hidden>
          Nothing on this page contains all of these words.
        </p>
        {SUBJECTS.map(({ title, operations }, i) => (
          <details open={i === 0}>
            <summary>{title}</summary>
            <ul>
              {operations.map((operation) => (
                <li data-find={findable(operation)}>
                  <a href={`#${operation.name}`}>{titleOf(operation)}</a>
                </li>
              ))}
            </ul>
          </details>
        ))}
        <details>
          <summary>Reference</summary>
          <ul>
            <Entry id="others" title="Pages and protocols" />
            <Entry id="problems" title="Failures" words={Object.keys(FAILURES).join(' ')} />
            <Entry id="limits" title="Limits" />
          </ul>
        </details>
        <details>
          <summary>Data</summary>
          <ul>
            {schemas.map((name) => (
              <Entry id={dataId(name)} title={name} />
            ))}
          </ul>
        </details>
      </details>
    </nav>
  )
}

const Entry = ({ id, title, words = '' }: { id: string; title: string; words?: string }) => (
  <li data-find={`${title} ${words}`.toLowerCase()}>
    <a href={`#${id}`}>{title}</a>
  </li>
)

/** `rotateAgentKey` is “Rotate agent key”. */
const titleOf = ({ name }: Operation): string => {
  const words = name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)
  return words.charAt(0).toUpperCase() + words.slice(1)
}

const Introduction = () => (
  <>
    <h1>Countersign API</h1>
    <p>
      No tool call runs without a countersign: an agent proposes a call, and policy allows it, asks a human or
      denies it. Send a key as <code>authorization: Bearer …</code>; it carries its tenant. Bodies are JSON in
      UTF-8, and unknown fields are refused. Times are milliseconds since 1970. Every answer has a{' '}
      <code>Request-Id</code>.
    </p>
    <p>
      A machine-readable description is at <a href="/openapi.json">/openapi.json</a>. The keys for offline
      verification are in <a href="/.well-known/countersign/keys.json">keys.json</a>.
    </p>
  </>
)

function Article({
  operation,
  document: { paths, components },
  origin,
}: {
  operation: Operation
  document: Document
  origin: string
}) {
  const { name, route } = operation
  const path = paths[route.path]
  const described = path?.[route.method.toLowerCase()]
  if (described === undefined) throw new Error(`\`${name}\` is not in the API description`)
  const { requestBody = {}, responses, parameters: own = [] } = described
  const answer = responses[String(route.status)] ?? {}
  const parameters = [...(path?.parameters ?? []), ...own].flatMap(
    (parameter) => componentOf(components.parameters, parameter) ?? [],
  )
  return (
    <OperationArticle
      operation={operation}
      body={componentOf(components.requestBodies, requestBody) ?? requestBody}
      answer={componentOf(components.responses, answer) ?? answer}
      schemas={components.schemas}
      parameters={parameters}
      example={EXAMPLES[name] ?? {}}
      origin={origin}
    />
  )
}

const Others = () => (
  <section>
    <h2 id="others">Pages and protocols</h2>
    <p>Pages are for browsers. Workers sign what they send with their own keys, and Slack with its secret.</p>
    {OTHERS.map(({ name, route: { method, path, summary, action, failures } }) => (
      <article id={name}>
        <h3>
          <code>
            {method} {path}
          </code>
        </h3>
        <p>
          <Prose text={summary} />.{action === null ? '' : ` Policy decides on the action ${action}.`}
        </p>
        {failures.length === 0 ? '' : <Failures codes={failures} />}
      </article>
    ))}
  </section>
)

const DataSection = ({ schemas }: { schemas: Document['components']['schemas'] }) => (
  <section>
    <h2 id="data">Data</h2>
    {Object.entries(schemas).map(([name, schema]) => (
      <article id={dataId(name)}>
        <h3>
          <a href={`#${dataId(name)}`}>{name}</a>
        </h3>
        <p>
          <Prose text={schema.description ?? ''} />
        </p>
        <Data schema={schema} />
      </article>
    ))}
  </section>
)

/** A denied or failed call is a successful request: it is answered like any other call. */
function answeredWith(code: Code): string {
  const { status, ends } = entryOf(code)
  if (status === 200) return 'end of a call'
  return ends === true ? `${status}, or end of a call` : String(status)
}

const Problems = () => (
  <section>
    <h2 id="problems">Failures</h2>
    <p>
      A code with a status comes in <code>application/problem+json</code>; its <code>type</code> leads here.
      “End of a call” is not a failed request: the response is 200 with the call and its <code>state</code>.
      The code is in <code>result.error</code>, or in <code>decision.code</code> where policy or the tool
      denied the call.
    </p>
    <table class="codes">
      <tbody>
        {(Object.keys(FAILURES) as Code[]).map((code) => (
          <NamedRow id={`problem-${code}`} name={code} value={answeredWith(code)}>
            <td>
              <Prose text={FAILURES[code].todo} />.
              {entryOf(code).retry ? ' The same request may succeed later.' : ''}
            </td>
          </NamedRow>
        ))}
      </tbody>
    </table>
  </section>
)

const Limits = () => (
  <section>
    <h2 id="limits">Limits</h2>
    <table class="codes">
      <tbody>
        {Object.entries(LIMITS).map(([name, value]) => (
          <NamedRow name={name} value={value} />
        ))}
      </tbody>
    </table>
  </section>
)

type NamedRowProps = { id?: string; name: string; value: string | number; children?: unknown }

const NamedRow = ({ id, name, value, children = '' }: NamedRowProps) => (
  <tr id={id}>
    <td>
      <code>{name}</code>
    </td>
    <td>{value}</td>
    {children as string}
  </tr>
)
