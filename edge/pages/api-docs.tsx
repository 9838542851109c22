// The page /docs: the API for people, generated from the route, failure and limit tables.

import { type Code, entryOf, FAILURES } from '../../shared/failures.ts'
import { LIMITS } from '../../shared/limits.ts'
import { ROUTES } from '../../shared/routes/all.ts'
import type { Caller, Route } from '../../shared/routes/route.ts'
import { Page, Prose } from './approval-page.tsx'

const CALLERS: Record<Caller, string> = {
  agent: 'Agents: `authorization: Bearer <key>`',
  operator: 'Operators: `authorization: Bearer <key>`',
  console: 'Operators in a browser: the session cookie of `/console`',
  worker: 'Workers: HTTP message signatures',
  link: 'Approvers: the token in their link',
  slack: 'Slack: its signature over the body',
  installation: 'The operator of the installation: `authorization: Bearer <installation key>`',
  anyone: 'Anyone',
}

/** A call that was denied or failed is not a failed request: it is answered like any other call. */
function answeredWith(code: Code): string {
  const { status, ends } = entryOf(code)
  if (status === 200) return 'end of a call'
  return ends === true ? `${status}, or end of a call` : String(status)
}

export function docsPage() {
  const routes = Object.entries(ROUTES as Record<string, Route>)
  const kinds = Object.keys(CALLERS) as Caller[] // the table's own keys
  return (
    <Page title="API">
      <h1>Countersign API</h1>
      <p>
        No tool call runs without a countersign: an agent proposes a call, and policy allows it, asks a human
        or denies it. The machine-readable description is <a href="/openapi.json">/openapi.json</a>. The keys
        for offline verification are in <a href="/.well-known/countersign/keys.json">keys.json</a>.
      </p>
      {kinds.map((kind) => (
        <section>
          <h2>
            <Prose text={CALLERS[kind]} />
          </h2>
          <table>
            <tbody>
              {routes
                .filter(([, { callers }]) => callers[0] === kind)
                .map(([name, { method, path, summary, action, failures }]) => (
                  <tr id={name}>
                    <td>
                      <code>
                        {method} {path}
                      </code>
                      <br />
                      <span class="quiet">
                        <Prose text={summary} />
                        {action === null ? '' : ` · policy: ${action}`}
                        {failures.length === 0 ? '' : ` · failures: ${failures.join(', ')}`}
                      </span>
                    </td>
                  </tr>
                ))}
            </tbody>
          </table>
        </section>
      ))}
      <h2>Failures</h2>
      <p>
        A code with a status comes in <code>application/problem+json</code>. “End of a call” is no failed
        request: the call is answered with 200, with its <code>state</code>, and the code stands in{' '}
        <code>result.error</code>, or in <code>decision.code</code> where policy or the tool denied the call.
      </p>
      <table>
        <tbody>
          {(Object.keys(FAILURES) as Code[]).map((code) => (
            <tr>
              <td>
                <code>{code}</code>
              </td>
              <td>{answeredWith(code)}</td>
              <td>
                <Prose text={FAILURES[code].todo} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <h2>Limits</h2>
      <table>
        <tbody>
          {Object.entries(LIMITS).map(([name, value]) => (
            <tr>
              <td>
                <code>{name}</code>
              </td>
              <td>{value}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Page>
  )
}
