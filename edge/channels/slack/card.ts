// The messages in Slack: a question, its outcome, a notice, and the form for a longer answer. Pure.
// All text of agents and skills is an element of rich text, which Slack shows literally: it parses
// no mark-up there, makes no mentions or links, and no text can end its block.

import { LIMITS } from '../../../shared/limits.ts'
import {
  AGENT_SAYS,
  type Answer,
  type Approval,
  ON_BEHALF_OF,
  PROPOSED_OVER,
} from '../../../shared/wire/approvals.ts'
import { afterwards, OUTCOME } from '../../approvals/outcome-words.ts'
import { escapeConfusables, shorten } from '../../platform/visible-text.ts'
import type { Message, Notice } from '../medium.ts'

type Piece = { type: 'text'; text: string; style?: { bold?: true; code?: true } }
type Block = { type: string; [field: string]: unknown }
/** `text` is what a notification shows; blocks are the message itself. */
export type Card = { text: string; blocks: Block[] }

/** A button: an answer to this call only, or `more`, which opens the form. */
export type Pressed = 'approve' | 'deny' | 'more'
export const sealUse = (pressed: Pressed | 'form'): string => `slack ${pressed}`

/** How many answers a message shows, and how much of a reason. The page shows all. */
const [MOST_ANSWERS, REASON_CHARS] = [8, 300]

// ── Cards ──

export const askedCard = (message: Message): Card =>
  question(message, [
    words(text('If you approve\n', 'bold'), ...prose(message.approval.prompt.on_yes)),
    actions([...buttons(message), leading('Open the page', message.link ?? message.page)]),
  ])

/** For a Slack webhook, whose readers are unknown: they sign in to answer. */
export const readersCard = (message: Message): Card =>
  question(message, [actions([leading('Sign in to answer', message.page)])])

function question({ approval, insteadOf }: Message, answer: Block[]): Card {
  const { prompt, expires_at } = approval
  const risk = text(`${prompt.risk} risk`, 'bold')
  const ground = prompt.risk_ground === undefined ? [] : [text(': '), ...prose(prompt.risk_ground)]
  const until = text(
    ` · Answer by ${utc(expires_at)}; no answer counts as a denial.${insteadOf == null ? '' : ` You are asked because ${insteadOf} is away.`}`,
  )
  const blocks = [header(prompt.title), words(risk, ...ground, until), ...facts(approval), ...answer]
  return { text: escaped(`${prompt.title} (${prompt.risk} risk)`), blocks }
}

/** The outcome. It has no buttons. */
export function endedCard(approval: Approval): Card {
  const { status, prompt, answers } = approval
  const lines = answers.slice(-MOST_ANSWERS).map(({ by, decision, channel, scope, reason, at_ms }) => {
    const who = `\n${decision === 'approve' ? 'Approved' : 'Denied'} by ${by} through ${channel}, ${utc(at_ms)}`
    return text(
      `${who}${scope === 'once' ? '' : ', also for similar calls'}${reason === '' ? '' : `: ${inert(reason, REASON_CHARS)}`}`,
    )
  })
  const blocks = [
    header(prompt.title),
    words(text(`${OUTCOME[status]}. `, 'bold'), text(afterwards(approval)), ...lines),
    ...facts(approval),
  ]
  return { text: escaped(`${OUTCOME[status]}: ${prompt.title}`), blocks }
}

export const testCard = ({ approval: { prompt } }: Message): Card => ({
  text: prompt.title,
  blocks: [header(prompt.title)],
})

/** A notice. The skill is named before and after its text, and there are no buttons. */
export function noticeCard({ skill, version, tool, agent, call, text: posted }: Notice): Card {
  const title = `A notice from the skill ${skill}`
  const whose = ` of ${skill} ${version} posted this, called by the agent ${agent}; call `
  const blocks = [
    header(title),
    code(posted),
    words(
      text('You don’t have to answer it: a request from Countersign has buttons. ', 'bold'),
      text(tool, 'code'),
      text(whose),
      text(call, 'code'),
    ),
  ]
  return { text: escaped(title), blocks }
}

function facts({ prompt, digest, call, edits = [] }: Approval): Block[] {
  return [
    words(text('What would run\n', 'bold'), ...prose(prompt.plan)),
    ...(prompt.command === '' ? [] : [code(prompt.command)]),
    words(text('Arguments', 'bold')),
    code(prompt.arguments),
    ...edits
      .slice(-1)
      .map(({ by, channel, at_ms }) => words(text(`Changed by ${by} through ${channel}, ${utc(at_ms)}`))),
    words(text('Why a human is asked\n', 'bold'), ...prose(prompt.reason)),
    ...origin(prompt),
    words(
      text(`${prompt.tool} version ${prompt.tool_version}, for agent ${prompt.agent}; call `),
      text(call, 'code'),
    ),
    words(text('Digest of exactly this call '), text(digest, 'code')),
    ...agentSays(prompt),
  ]
}

/** The actor behind the agent, and the protocol of the proposal. */
const origin = ({ on_behalf_of: actor, via }: Approval['prompt']): Block[] => [
  ...(actor === undefined ? [] : [words(text(`${ON_BEHALF_OF}\n`, 'bold'), ...prose(actor))]),
  ...(via === undefined ? [] : [words(text(`${PROPOSED_OVER}\n`, 'bold'), ...prose(via))]),
]

/** The agent's reason, after all facts that we state. */
const agentSays = ({ agent_says }: Approval['prompt']): Block[] =>
  agent_says === undefined ? [] : [words(text(AGENT_SAYS, 'bold')), code(agent_says)]

// ── The form ──

export const FIELDS = { answer: 'answer', reason: 'reason' } as const
type FormAnswer = Pick<Answer, 'decision' | 'scope'> & { ttl_s?: number }

/** `state`: the approval and its seal, which Slack sends back unchanged. */
export function form({ prompt, options }: Approval, state: string): Block {
  const choices = options.map(choiceOf)
  const covers =
    prompt.standing === undefined
      ? []
      : [words(text('Answer similar calls too\n', 'bold'), ...prose(prompt.standing.covers))]
  const once =
    prompt.standing?.most_s === 0 ? [words(text('Policy requires an approval for each call.'))] : []
  return {
    type: 'modal',
    callback_id: 'answer',
    private_metadata: state,
    title: plain('Answer'),
    submit: plain('Answer'),
    close: plain('Back'),
    blocks: [
      words(text(prompt.title, 'bold'), text('\n'), ...prose(prompt.plan)),
      ...(prompt.command === '' ? [] : [code(prompt.command)]),
      code(prompt.arguments),
      ...origin(prompt),
      ...agentSays(prompt),
      ...covers,
      ...once,
      {
        ...field(FIELDS.answer, 'Answer'),
        element: { type: 'static_select', action_id: FIELDS.answer, options: choices },
      },
      {
        ...field(FIELDS.reason, 'Reason'),
        optional: true,
        hint: plain('It is kept on record. The agent is shown the reason for a denial.'),
        element: {
          type: 'plain_text_input',
          action_id: FIELDS.reason,
          multiline: true,
          max_length: LIMITS.reason_chars,
        },
      },
    ],
  }
}

/** A modal that shows one sentence instead of the form. */
export const notice = (sentence: string): Block => ({
  type: 'modal',
  title: plain('Answer'),
  close: plain('Close'),
  blocks: [words(...prose(sentence))],
})

const field = (name: string, label: string) => ({ type: 'input', block_id: name, label: plain(label) })

/** An option of the form: its label, and the value that `saidIn` parses. */
function choiceOf({ decision, scope, ttl_s = 0 }: Approval['options'][number]): {
  text: object
  value: string
} {
  const word = decision === 'approve' ? 'Approve' : 'Deny'
  if (scope === 'once') return { text: plain(`${word} this call only`), value: decision }
  if (scope === 'session') return { text: plain(`${word} for the session`), value: `${decision} session` }
  return { text: plain(`${word} for ${ttl_s / 60} minutes`), value: `${decision} ${ttl_s}` }
}

/** Parses the chosen option. The run checks whether it was offered and is allowed. */
export function parseChoice(value: string): FormAnswer | undefined {
  const [, decision, , span] = /^(approve|deny)( (session|[1-9][0-9]{0,4}))?$/.exec(value) ?? []
  if (decision !== 'approve' && decision !== 'deny') return undefined
  if (span === undefined) return { decision, scope: 'once' }
  return span === 'session'
    ? { decision, scope: 'session' }
    : { decision, scope: 'timeboxed', ttl_s: Number(span) }
}

// ── Pieces ──

function buttons({ approval: { id, prompt }, seal }: Message): Block[] {
  const button = (pressed: Pressed, label: string, more: object = {}): Block => ({
    type: 'button',
    action_id: pressed,
    text: plain(label),
    value: `${id}.${pressed}.${seal(sealUse(pressed))}`,
    ...more,
  })
  const confirm = {
    title: plain('Critical risk'),
    text: plain('This call may read secrets. Approve it?'),
    confirm: plain('Approve once'),
    deny: plain('Back'),
    style: 'danger',
  }
  return [
    button('approve', 'Approve once', {
      style: 'primary',
      ...(prompt.risk === 'critical' ? { confirm } : {}),
    }),
    button('deny', 'Deny', { style: 'danger' }),
    button('more', 'Reason or scope …'),
  ]
}

const actions = (elements: Block[]): Block => ({ type: 'actions', block_id: 'answer', elements })
const leading = (label: string, url: string): Block => ({
  type: 'button',
  action_id: 'page',
  text: plain(label),
  url,
})
/** Only for names and our own words. Text of agents and skills has to be rich text. */
const plain = (ours: string) => ({ type: 'plain_text', text: ours, emoji: false })
const header = (title: string): Block => ({ type: 'header', text: plain(inert(title).slice(0, 150)) })
const words = (...elements: Piece[]): Block => ({
  type: 'rich_text',
  elements: [{ type: 'rich_text_section', elements: elements.filter((piece) => piece.text !== '') }],
})
const code = (content: string): Block => ({
  type: 'rich_text',
  elements: [{ type: 'rich_text_preformatted', elements: [text(inert(content))] }],
})
const text = (content: string, style?: 'bold' | 'code'): Piece => ({
  type: 'text',
  text: content,
  ...(style === 'bold'
    ? { style: { bold: true as const } }
    : style === 'code'
      ? { style: { code: true as const } }
      : {}),
})

/** One of our sentences or a policy's; backticks mark code. */
const prose = (sentence: string): Piece[] =>
  inert(sentence.charAt(0).toUpperCase() + sentence.slice(1))
    .split('`')
    .map((part, i) => text(part, i % 2 === 1 ? 'code' : undefined))

/** Writes out invisible characters and shortens the text, without splitting a character. */
const inert = (foreign: string, length: number = LIMITS.slack_chars): string =>
  shorten(escapeConfusables(foreign), length).toWellFormed()

/** Escapes Slack's mark-up, for fields in which Slack parses it. */
export const escaped = (plainText: string): string =>
  plainText.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')

const utc = (ms: number): string => `${new Date(ms).toISOString().slice(0, 16).replace('T', ' ')} UTC`
