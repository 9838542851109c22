// Pages, server-rendered; everything works without JavaScript. Text from agents is text: JSX escapes it, and a monospace
// block shows it as it is. No page can be framed, cached, or tell others where it was.

import type { Failure } from '../shared/failures.ts'
import { FAILURES } from '../shared/failures.ts'
import type { Approval } from '../shared/wire.ts'
import { headersOf } from './headers.ts'
import { approvalStyle } from './style.ts'

type Node = { toString(): string | Promise<string> }

const SECURITY = {
  'content-security-policy': "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'x-robots-tag': 'noindex',
} as const

export const html = (page: Node, status = 200): Response =>
  new Response(`<!doctype html>${page.toString()}`, { status, headers: { ...headersOf('text/html; charset=utf-8'), ...SECURITY } })

export function Page({ title, children }: { title: string; children?: unknown }) {
  return (
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <title>{title} · Countersign</title>
        <style>{approvalStyle}</style>
      </head>
      <body>
        <main>{children as string}</main>
      </body>
    </html>
  )
}

const when = (ms: number): string => `${new Date(ms).toISOString().replace('T', ' ').slice(0, 19)} UTC`

const OUTCOME: Record<Approval['status'], string> = {
  pending: 'Waiting for an answer',
  approved: 'Approved',
  denied: 'Denied',
  expired: 'Expired: nobody answered in time',
  cancelled: 'Cancelled by the agent',
}

type Shown = { approval: Approval; approver: string; nonce: string | null }

export function approvalPage({ approval, approver, nonce }: Shown) {
  const open = approval.status === 'pending' && nonce !== null && !approval.answers.some(({ by }) => by === approver)
  return (
    <Page title={open ? approval.prompt.title : OUTCOME[approval.status]}>
      <h1>{approval.prompt.title}</h1>
      {open ? <p class={`badge ${approval.prompt.risk}`}>{approval.prompt.risk} risk</p> : <Outcome approval={approval} />}
      <Facts approval={approval} />
      {open && nonce !== null ? <Form nonce={nonce} approver={approver} /> : <p class="quiet">You can close this page.</p>}
    </Page>
  )
}

function Outcome({ approval }: { approval: Approval }) {
  const last = approval.answers.at(-1)
  return (
    <p class={`outcome ${approval.status}`} role="status">
      {approval.status === 'pending' ? 'Your answer is recorded; others are still asked' : OUTCOME[approval.status]}
      {last === undefined ? '' : ` · ${last.by}, ${when(last.at_ms)}`}
    </p>
  )
}

function Facts({ approval: { prompt, digest, call, requested_at, expires_at } }: { approval: Approval }) {
  return (
    <dl>
      <dt>What runs</dt>
      <dd>{prompt.plan}</dd>
      <dt>Arguments</dt>
      <dd>
        <section tabindex={0} aria-label="Arguments of the call">
          <pre>{prompt.arguments}</pre>
        </section>
      </dd>
      <dt>On yes</dt>
      <dd>{prompt.on_yes}</dd>
      <dt>Why you are asked</dt>
      <dd>{prompt.reason}</dd>
      <dt>Tool</dt>
      <dd>
        {prompt.tool}, version {prompt.tool_version}
      </dd>
      <dt>Asked</dt>
      <dd>
        {when(requested_at)}; a denial at {when(expires_at)}
      </dd>
      <dt>Digest</dt>
      <dd>
        <code>{digest}</code>
        <br />
        <code class="quiet">{call}</code>
      </dd>
    </dl>
  )
}

function Form({ nonce, approver }: { nonce: string; approver: string }) {
  return (
    <form method="post">
      <input type="hidden" name="nonce" value={nonce} />
      <label for="reason">Reason (optional, kept on record)</label>
      <textarea id="reason" name="reason" rows={2} maxlength={1000}></textarea>
      <p class="quiet">You answer as {approver}.</p>
      <div class="buttons">
        <button type="submit" class="deny" name="decision" value="deny">
          Deny
        </button>
        <button type="submit" class="approve" name="decision" value="approve">
          Approve once
        </button>
      </div>
    </form>
  )
}

export function refusalPage({ code, detail }: Failure, approval?: Approval) {
  const { todo } = FAILURES[code]
  return (
    <Page title="Not answered">
      <h1>{approval === undefined ? 'This can’t be answered' : OUTCOME[approval.status]}</h1>
      <p role="status">{detail}.</p>
      <p class="quiet">What to do: {todo}.</p>
      {approval === undefined ? '' : <Facts approval={approval} />}
    </Page>
  )
}
