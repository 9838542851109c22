// What Slack sends when somebody pressed a button or sent the form: is it Slack's, is it fresh, what does it say. Pure. Who that somebody
// is here, and what comes of it, is the desk's.

import { createHmac } from 'node:crypto'
import { z } from 'zod'
import { BODY, parseJson } from '../../../shared/bytes/json.ts'
import { failure } from '../../../shared/failures.ts'
import { ApprovalId } from '../../../shared/fields.ts'
import { LIMITS } from '../../../shared/limits.ts'
import type { Result } from '../../../shared/result.ts'
import { err, ok } from '../../../shared/result.ts'
import { sameText } from '../../approvals/link.ts'
import { parseForm } from '../../http/forms.ts'
import { FIELDS, type Pressed } from './card.ts'

/** As it came: the bytes that are signed, and what Slack says of them. */
export type Signed = { readonly timestamp: string; readonly signature: string; readonly body: string }

const signatureOf = (secret: string, { timestamp, body }: Omit<Signed, 'signature'>): string =>
  `v0=${createHmac('sha256', secret).update(`v0:${timestamp}:${body}`).digest('hex')}`

export const signatureHolds = (secret: string, signed: Signed): boolean =>
  sameText(signatureOf(secret, signed), signed.signature)

/** Of whatever is not signed as Slack signs. */
export const FORGED = err(
  failure('slack_refused', 'no Slack app of this tenant signed this request in the last five minutes'),
)

/** Whether it could be Slack's, before a byte of its body is read: what could not costs nothing. */
export const looksSigned = ({ timestamp, signature }: Omit<Signed, 'body'>, now: number): boolean =>
  /^v0=[0-9a-f]{64}$/.test(signature) && isFresh({ timestamp }, now)

/** Each secret is tried once, however many channels have it: anybody may have us try them. */
export const signers = (secrets: Iterable<string>, signed: Signed): ReadonlySet<string> =>
  new Set([...new Set(secrets)].filter((secret) => signatureHolds(secret, signed)))

/** Neither old nor of the future (P10). */
export const isFresh = ({ timestamp }: Pick<Signed, 'timestamp'>, now: number): boolean =>
  /^[0-9]{1,12}$/.test(timestamp) && Math.abs(now / 1000 - Number(timestamp)) <= LIMITS.slack_age_s

// ── What it says ──

const Id = z.string().max(64)
const from = {
  api_app_id: Id,
  team: z.object({ id: Id }),
  user: z.object({ id: Id, team_id: Id.optional() }),
  trigger_id: z.string().max(256).optional(),
}

/** Of the many fields those that we read; a form's answer is that of its first action. */
const Clicked = z.object({
  ...from,
  type: z.literal('block_actions'),
  response_url: z.string().max(LIMITS.channel_url_chars).optional(),
  actions: z
    .array(z.object({ action_id: z.string().max(255), value: z.string().max(2_000).optional() }))
    .min(1)
    .max(25),
})
const Sent = z.object({
  ...from,
  type: z.literal('view_submission'),
  view: z.object({
    private_metadata: z.string().max(3_000),
    state: z.object({
      values: z.object({
        [FIELDS.answer]: z.object({
          [FIELDS.answer]: z.object({ selected_option: z.object({ value: z.string().max(150) }).nullish() }),
        }),
        [FIELDS.reason]: z.object({
          [FIELDS.reason]: z.object({ value: z.string().max(LIMITS.reason_chars).nullish() }),
        }),
      }),
    }),
  }),
})
const Interaction = z.discriminatedUnion('type', [Clicked, Sent])

type Person = { app: string; team: string; user: string }
export type Interaction = Person &
  (
    | { kind: 'pressed'; about: About & { use: Pressed }; trigger: string; reply: string | null }
    | { kind: 'sent'; about: About; answer: string; reason: string }
    /** Something that needs no answer of ours: a link was opened. */
    | { kind: 'other' }
  )

/** What a button or a form is about, and the seal that says so. */
export type About = { approval: string; use: Pressed | 'form'; seal: string }

const ABOUT = /^(apr_\w{1,40})\.(approve|deny|more|form)\.([A-Za-z0-9_-]{43})$/

function aboutIn(text: string | undefined): About | undefined {
  const [, approval = '', use = '', seal = ''] = ABOUT.exec(text ?? '') ?? []
  return ApprovalId.safeParse(approval).success ? { approval, use: use as About['use'], seal } : undefined // one of the four, by the pattern
}

/** A link that was opened is told too, and so is what other versions of us may have sent. */
export function readInteraction(body: string): Result<Interaction> {
  const form = parseForm(body)
  if (!form.ok) return form
  const parsed = parseJson(Buffer.from(form.value.get('payload') ?? ''), {
    ...BODY,
    bytes: LIMITS.body_bytes,
  })
  if (!parsed.ok)
    return err(failure('not_json', 'the body is a form with one field `payload`, which is JSON'))
  const read = Interaction.safeParse(parsed.value)
  if (!read.success)
    return err(
      failure('invalid_request', 'the payload is neither `block_actions` nor `view_submission` of ours'),
    )
  const { data } = read
  // Somebody of another workspace, in a conversation that two share, is not one of ours.
  const team = data.user.team_id === undefined || data.user.team_id === data.team.id ? data.team.id : ''
  const person = { app: data.api_app_id, team, user: data.user.id }
  if (data.type === 'block_actions') {
    const about = aboutIn(data.actions[0]?.value)
    if (about === undefined || about.use === 'form') return ok({ ...person, kind: 'other' })
    return ok({
      ...person,
      kind: 'pressed',
      about: { ...about, use: about.use },
      trigger: data.trigger_id ?? '',
      reply: data.response_url ?? null,
    })
  }
  const about = aboutIn(data.view.private_metadata)
  if (about?.use !== 'form') return err(failure('invalid_request', 'the form is not one of ours'))
  const { answer, reason } = data.view.state.values
  return ok({
    ...person,
    kind: 'sent',
    about,
    answer: answer.answer.selected_option?.value ?? '',
    reason: reason.reason.value ?? '',
  })
}
