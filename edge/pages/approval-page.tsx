// The approval page behind a link, and the parts that it shares with the console. Pages are
// rendered on the server and work without JavaScript. JSX escapes all text from agents. No page can
// be framed or cached, and none sends a referrer.

import { raw } from 'hono/html'
import type { Failure } from '../../shared/failures.ts'
import { adviceOf } from '../../shared/failures.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { ok } from '../../shared/result.ts'
import {
  AGENT_SAYS,
  type Approval,
  type Edit,
  ON_BEHALF_OF,
  PROPOSED_OVER,
} from '../../shared/wire/approvals.ts'
import type { FullText } from '../approvals/card.ts'
import { afterwards, OUTCOME } from '../approvals/outcome-words.ts'
import { secondsOf } from '../approvals/standing.ts'
import { headersOf } from '../http/response-headers.ts'
import { escapeConfusables } from '../platform/visible-text.ts'
import { FullTexts } from './full-text.tsx'
import { InputFiles } from './input-files.tsx'
import { PAGE_SCRIPT } from './page-script.ts'
import { pageStyle } from './style.ts'

export type Node = { toString(): string | Promise<string> }

const SECURITY = {
  'content-security-policy':
    "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'x-robots-tag': 'noindex',
} as const

export const html = (page: Node, status = 200): Response =>
  new Response(`<!doctype html>${page.toString()}`, {
    status,
    headers: { ...headersOf('text/html; charset=utf-8'), ...SECURITY },
  })

type Frame = { title: string; top?: unknown; sheet?: string; children?: unknown }

/** `top` goes into the header beside the product's name; `sheet` adds CSS to the common style. */
export function Page({ title, top = '', sheet = '', children }: Frame) {
  return (
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <meta name="theme-color" content="#ffffff" media="(prefers-color-scheme: light)" />
        <meta name="theme-color" content="#111418" media="(prefers-color-scheme: dark)" />
        <title>{title} · Countersign</title>
        <style>{pageStyle + sheet}</style>
      </head>
      <body>
        <header>
          <span class="brand">Countersign</span>
          {top as string}
        </header>
        <main>{children as string}</main>
      </body>
    </html>
  )
}

/** One of our sentences or a policy's, capitalised unless `inside` another; backticks mark code. */
export function Prose({ text, inside = false }: { text: string; inside?: boolean }) {
  const sentence = inside ? text : text.charAt(0).toUpperCase() + text.slice(1)
  return <>{sentence.split('`').map((part, i) => (i % 2 === 1 ? <code>{part}</code> : part))}</>
}

export function Time({ ms }: { ms: number }) {
  const iso = new Date(ms).toISOString()
  return <time datetime={iso}>{`${iso.slice(0, 10)} ${iso.slice(11, 16)} UTC`}</time>
}

/** The remaining time in words, rounded down so that it never promises more than there is. */
export function remainingTime(ms: number): string {
  const minutes = Math.floor(ms / 60_000)
  if (minutes >= 120) return `${Math.floor(minutes / 60)} hours`
  return minutes >= 2 ? `${minutes} minutes` : `${Math.max(0, Math.floor(ms / 1000))} seconds`
}

/** The risk of a call and the reason for it. */
export function Risk({ risk, risk_ground: ground }: Pick<Approval['prompt'], 'risk' | 'risk_ground'>) {
  return (
    <>
      <span class={`tag ${risk}`}>{risk} risk</span>
      {ground === undefined ? (
        ''
      ) : (
        <span class="quiet">
          <Prose text={ground} />.
        </span>
      )}
    </>
  )
}

/** The answers so far. */
export function Answers({ answers }: Pick<Approval, 'answers'>) {
  return (
    <>
      {answers.map(({ by, decision, channel, scope, reason, at_ms }) => (
        <p>
          {decision === 'approve' ? 'Approved' : 'Denied'} by <strong>{by}</strong> ({channel}),{' '}
          <Time ms={at_ms} />
          {scope === 'once' ? '' : ', also for similar calls'}
          {reason === '' ? '' : `: ${escapeConfusables(reason)}`}
        </p>
      ))}
    </>
  )
}

export const answersOf = ({ answers }: Approval): string => (<Answers answers={answers} />).toString()

export const Consequence = ({ approval }: { approval: Approval }) => <>{afterwards(approval)}</>

/**
 * Whether an operator has answered this call itself; their standing answers to similar calls don't
 * count.
 */
export const hasAnswered = ({ answers }: Approval, name: string): boolean =>
  answers.some(({ by, standing }) => by === name && standing === undefined)

type PageInput = {
  approval: Approval
  /** The URL of the page's live stream; `null` if there is nothing left to follow. */
  events: string | null
  approver: string
  nonce: string | null
  /** The URL prefix of the call's input files; `null` if the approver may not read them. */
  files: string | null
  now: number
  /** The texts that the card shortens, and the part of them to show; 0 keeps them folded. */
  whole?: Result<readonly FullText[]>
  part?: number
  /** The fields that edit the arguments. */
  change?: unknown
}

export function approvalPage({
  approval,
  events,
  approver,
  nonce,
  files,
  now,
  whole = ok([]),
  part = 0,
  change = '',
}: PageInput) {
  const { prompt, status, expires_at } = approval
  const open = status === 'pending' && nonce !== null && !hasAnswered(approval, approver)
  const rest = <FullTexts whole={whole} part={part} />
  if (!open) return <EndedPage approval={approval} events={events} files={files} rest={rest} />
  return (
    <Page title={prompt.title}>
      <form method="post" data-live={events ?? undefined}>
        <Nonce nonce={nonce} />
        <h1>{prompt.title}</h1>
        <p class="tags">
          <Risk {...prompt} />
          <span class="quiet">
            Answer within {remainingTime(expires_at - now)}; no answer counts as a denial.
          </span>
        </p>
        <div aria-live="polite" id="answers">
          <Answers answers={approval.answers} />
        </div>
        <Facts approval={approval} files={files} />
        {rest}
        {change as string}
        <div class="field">
          <label for="reason">Reason</label>
          <span class="quiet" id="reason-help">
            Optional. It is kept on record. The agent is shown the reason for a denial.
          </span>
          <textarea
            id="reason"
            name="reason"
            rows={2}
            maxlength={LIMITS.reason_chars}
            aria-describedby="reason-help"
          ></textarea>
        </div>
        {prompt.standing === undefined ? (
          ''
        ) : (
          <StandingAnswers {...prompt.standing} options={approval.options} />
        )}
        <div class="answer">
          <p class="alert" role="alert" id="over" hidden>
            This page is out of date: the request was decided or withdrawn. <a href="?">See what happened</a>
          </p>
          <p class="quiet">
            You answer as <strong>{approver}</strong>.
          </p>
          <div class="buttons">
            <button type="submit" class="deny" name="decision" value="deny">
              Deny
            </button>
            <button type="submit" class="approve" name="decision" value="approve">
              Approve once
            </button>
          </div>
        </div>
      </form>
      <script>{raw(PAGE_SCRIPT)}</script>
    </Page>
  )
}

/**
 * Standing answers, with what they would cover. Folded, because the usual answer is to this call
 * alone.
 */
export function StandingAnswers({
  covers,
  most_s,
  options,
}: NonNullable<Approval['prompt']['standing']> & Pick<Approval, 'options'>) {
  return (
    <details>
      <summary>Answer similar calls too</summary>
      <p>
        Your answer then applies to <Prose text={covers} inside />. It ends when the session is reset, when
        somebody revokes it, or after {LIMITS.standing_s / 3_600} hours at the latest.
      </p>
      {most_s === 0 ? <p>Policy requires an approval for each call.</p> : ''}
      <div class="buttons">
        {options
          .filter(({ scope }) => scope !== 'once')
          .map(({ decision, ttl_s }) => (
            <button
              type="submit"
              class={decision}
              name="standing"
              value={`${decision} ${ttl_s ?? 'session'}`}
            >
              {decision === 'deny' ? 'Deny' : 'Approve'} for{' '}
              {ttl_s === undefined ? 'the session' : ttl_s === 60 ? 'a minute' : `${ttl_s / 60} minutes`}
            </button>
          ))}
      </div>
    </details>
  )
}

/**
 * The page of an approval that this approver can't answer, or no longer: its outcome, or what it is
 * waiting for.
 */
type EndedInput = { approval: Approval; events?: string | null; files?: string | null; rest?: unknown }
function EndedPage({ approval, events = null, files = null, rest = '' }: EndedInput) {
  const { prompt, status, answers } = approval
  const last = answers.at(-1)
  const waits = status === 'pending' && events !== null
  return (
    <Page title={OUTCOME[status]}>
      <section class={`outcome ${status}`} role="status" data-live={waits ? events : undefined}>
        <h1>{OUTCOME[status]}</h1>
        <div id="answers">
          <Answers answers={answers} />
        </div>
        {last === undefined || last.scope === 'once' || prompt.standing === undefined ? (
          ''
        ) : (
          <p>
            The same answer applies to <Prose text={prompt.standing.covers} inside />, until{' '}
            <Time ms={last.at_ms + secondsOf(last) * 1_000} /> at the latest.
          </p>
        )}
        <p>
          <Consequence approval={approval} /> You can close this page{waits ? ', or ' : '.'}
          {waits ? <a href="?">look again</a> : ''}
          {waits ? '.' : ''}
        </p>
      </section>
      <h2>{prompt.title}</h2>
      <Facts approval={approval} files={files} />
      {rest as string}
      {waits ? <script>{raw(PAGE_SCRIPT)}</script> : ''}
    </Page>
  )
}

/**
 * The agent's reason, after all facts that we state, so that no length of it moves them out of
 * view. A block of plain text: it has no markup and no links.
 */
export function AgentSays({ text }: { text: string | undefined }) {
  return text === undefined ? null : (
    <>
      <dt>{AGENT_SAYS}</dt>
      <dd>
        <pre class="says">{text}</pre>
      </dd>
    </>
  )
}

/** The actor behind the agent, and the protocol of the proposal. */
export function Origin({ actor, via }: { actor: string | undefined; via: string | undefined }) {
  const facts = [
    [ON_BEHALF_OF, actor],
    [PROPOSED_OVER, via],
  ] as const
  return facts.map(([label, text]) =>
    text === undefined ? null : (
      <>
        <dt>{label}</dt>
        <dd>
          <Prose text={text} />
        </dd>
      </>
    ),
  )
}

/** The facts of the call that an approver judges. `files`: the URL prefix of its input files. */
export function Facts({ approval, files = null }: { approval: Approval; files?: string | null }) {
  const { status, prompt, digest, call, requested_at, expires_at, edits = [] } = approval
  return (
    <>
      {edits.map((edit) => (
        <section aria-label="Changed arguments">
          <p class="alert changed">
            <strong>{edit.by}</strong> has changed the arguments ({edit.channel}), <Time ms={edit.at_ms} />.
            This page shows the changed call.
          </p>
          <Changes {...edit} />
        </section>
      ))}
      <dl>
        <dt>What would run</dt>
        <dd>
          {prompt.command === '' ? '' : <pre class="command">{prompt.command}</pre>}
          <Prose text={prompt.plan} />
        </dd>
        <InputFiles files={prompt.files} at={files} />
        <dt>Arguments</dt>
        <dd>
          <pre>{prompt.arguments}</pre>
        </dd>
        <dt>Why a human is asked</dt>
        <dd>
          <Prose text={prompt.reason} />
        </dd>
        {status === 'pending' ? (
          <>
            <dt>If you approve</dt>
            <dd>
              <Prose text={prompt.on_yes} />
            </dd>
          </>
        ) : (
          ''
        )}
        <Origin actor={prompt.on_behalf_of} via={prompt.via} />
        <AgentSays text={prompt.agent_says} />
      </dl>
      <details>
        <summary>Details</summary>
        <dl>
          <dt>Tool</dt>
          <dd>
            <code>{prompt.tool}</code>, version {prompt.tool_version}
          </dd>
          <dt>Agent</dt>
          <dd>
            <code>{prompt.agent}</code>
          </dd>
          <dt>Requested</dt>
          <dd>
            <Time ms={requested_at} />, expires <Time ms={expires_at} />
          </dd>
          <dt>Policies</dt>
          <dd>
            <code>{prompt.policies.join(', ')}</code>
          </dd>
          <dt>Call</dt>
          <dd>
            <code>{call}</code>
          </dd>
          <dt>Digest of exactly this call</dt>
          <dd>
            <code>{digest}</code>
          </dd>
        </dl>
      </details>
    </>
  )
}

/** Proves that the form comes from a page that we served to the holder of the link. */
export function Nonce({ nonce }: { nonce: string }) {
  return <input type="hidden" name="nonce" value={nonce} />
}

/** The changed arguments, one by one. */
export function Changes({ changes, more }: Pick<Edit, 'changes' | 'more'>) {
  return (
    <>
      <dl class="changes">
        {changes.map(({ at, from, to }) => (
          <>
            <dt>
              <code>{at}</code>
            </dt>
            <dd>
              {from === null ? <p>It was not set.</p> : <pre>{from}</pre>}
              {to === null ? <p>It is removed.</p> : <pre class="now">{to}</pre>}
            </dd>
          </>
        ))}
      </dl>
      {more === 0 ? '' : <p>{more === 1 ? 'And 1 more change.' : `And ${more} more changes.`}</p>}
    </>
  )
}

/** A refusal: what was not done, why, and what to do next. */
export function Refusal({
  title,
  role,
  failure,
}: {
  title: string
  role: 'status' | 'alert'
  failure: Failure
}) {
  return (
    <section class="outcome denied" role={role}>
      <h1>{title}</h1>
      <p>
        <Prose text={failure.detail} />.
      </p>
      <p>
        <strong>What to do:</strong> <Prose text={adviceOf(failure)} />.
      </p>
    </section>
  )
}

export function refusalPage(failure: Failure, approval?: Approval) {
  if (approval !== undefined && approval.status !== 'pending') return <EndedPage approval={approval} />
  return (
    <Page title="Not answered">
      <Refusal title="This can’t be answered" role="status" failure={failure} />
      {approval === undefined ? '' : <Facts approval={approval} />}
    </Page>
  )
}
