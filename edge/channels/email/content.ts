// The content of mails about approvals and of notices, as text and as HTML. Pure. Text from agents
// and skills is marked line by line in the plain text, and escaped in blocks in the HTML: it can't
// end its block, add a header, or pass for a text of ours.

import { html } from 'hono/html'
import { LIMITS } from '../../../shared/limits.ts'
import { AGENT_SAYS, ON_BEHALF_OF, PROPOSED_OVER } from '../../../shared/wire/approvals.ts'
import { escapeConfusables, shorten } from '../../platform/visible-text.ts'
import type { Message, NoticeMessage } from '../medium.ts'

/** The same at each attempt: providers require equal content for an equal idempotency key. */
export type Mail = {
  readonly id: string
  readonly at_ms: number
  readonly subject: string
  readonly text: string
  readonly html: string
}

/** Mail programs show no more of it; the mail contains the whole title. */
const SUBJECT_CHARS = 200

export function mailOf({ id, kind, approval, recipient, insteadOf, link, page, at_ms }: Message): Mail {
  const { prompt, expires_at, digest, call } = approval
  const line = (text: string): string => escapeConfusables(text).replaceAll('\n', ' ')
  const block = (text: string): string => escapeConfusables(shorten(text, LIMITS.message_chars))
  const title = line(prompt.title)
  const until = `${new Date(expires_at).toISOString().slice(0, 16).replace('T', ' ')} UTC`
  const facts = [
    ['Risk', prompt.risk_ground === undefined ? prompt.risk : block(`${prompt.risk}: ${prompt.risk_ground}`)],
    ['What would run', block(prompt.command)],
    ['Where and with what access', block(prompt.plan)],
    ['Arguments', block(prompt.arguments)],
    ['Why a human is asked', block(prompt.reason)],
    ['If you approve', block(prompt.on_yes)],
    [ON_BEHALF_OF, block(prompt.on_behalf_of ?? '')],
    [PROPOSED_OVER, block(prompt.via ?? '')],
    ['Call', call],
    ['Digest of exactly this call', digest],
    [AGENT_SAYS, block(prompt.agent_says ?? '')],
  ].filter((fact): fact is [string, string] => fact[1] !== '')
  const asks = kind === 'asked'
  const instead = insteadOf == null ? '' : ` You are asked because ${insteadOf} is away.`
  const request = asks
    ? [
        `Answer as ${recipient ?? 'yourself'} until ${until}. No answer counts as a denial.${instead}`,
        'Opening the page decides nothing. Once the request has ended, the page shows its outcome.',
      ].join(' ')
    : 'There is nothing to answer.'
  const whose = link === null ? 'Sign in there to answer.' : 'The link is only for you: do not forward it.'
  const warning = asks ? `${whose} The text below comes from the agent, including any links in it.` : ''
  const to = asks ? (link ?? page) : null
  return {
    id,
    at_ms,
    subject: shorten(kind === 'asked' ? `${title} (${prompt.risk} risk)` : title, SUBJECT_CHARS),
    text: textOf([title, request, ...(to === null ? [] : [to, warning])], facts),
    html: pageOf(title, request, to, warning, facts),
  }
}

/** The mail for a notice. The title and everything outside blocks are our own words. */
export function noticeMail({ id, at_ms, notice }: NoticeMessage): Mail {
  const { skill, version, tool, agent, call, text: posted } = notice
  const title = `A notice from the skill ${skill}`
  const request =
    'You don’t have to answer it: a request from Countersign names a deadline and has its own link. The text below comes from the skill, including any links in it.'
  const facts = [
    ['Text', escapeConfusables(shorten(posted, LIMITS.message_chars))],
    ['Posted by', `${tool} of ${skill} ${version}`],
    ['Called by the agent', agent],
    ['Call', call],
  ] as const
  return {
    id,
    at_ms,
    subject: title,
    text: textOf([title, request], facts),
    html: pageOf(title, request, null, '', facts),
  }
}

const textOf = (ours: readonly string[], facts: readonly (readonly [string, string])[]): string =>
  [...ours, ...facts.map(([name, value]) => `${name}:\n${marked(value)}`)].join('\n\n').concat('\n')

/** Puts a bar before each line, so that none can look like a part of ours. */
const marked = (text: string): string =>
  text
    .split('\n')
    .map((line) => `  | ${line}`)
    .join('\n')

const INK = 'color:#15181d;background:#ffffff;font:16px/1.5 system-ui,sans-serif'
const BUTTON =
  'display:inline-block;padding:12px 20px;border-radius:10px;background:#1d5fd1;color:#ffffff;font-weight:600;text-decoration:none'
const BLOCK =
  'margin:4px 0 0;padding:10px 12px;background:#f3f5f8;border:1px solid #d5dae2;border-radius:8px;font:13px/1.5 monospace;white-space:pre-wrap;overflow-wrap:anywhere'
const QUIET = 'margin:16px 0 0;color:#565d69;font-size:13px'

/** HTML without scripts, images or anything else to fetch, and with one link. */
function pageOf(
  title: string,
  request: string,
  link: string | null,
  warning: string,
  facts: readonly (readonly [string, string])[],
): string {
  const body = html`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>${title}</title></head>
<body style="margin:0;${INK}"><div style="max-width:640px;margin:0 auto;padding:16px">
<h1 style="font-size:20px;line-height:1.25;margin:0 0 8px">${title}</h1>
<p style="margin:0 0 16px">${request}</p>
${link === null ? '' : html`<p style="margin:0 0 16px"><a href="${link}" style="${BUTTON}">Review and answer</a></p><p style="${QUIET}">${warning}</p>`}
${facts.map(([name, value]) => html`<p style="${QUIET};font-weight:600">${name}</p><pre style="${BLOCK}">${value}</pre>`)}
</div></body></html>`
  return body.toString()
}
