// Verifies and parses the requests that Slack sends when somebody presses a button or submits the
// form: signature, age, payload. Pure. interactions.ts maps them to operators and answers.

import { createHmac } from 'node:crypto'
import { z } from 'zod'
import { BODY_BOUNDS, parseJson } from '../../../shared/bytes/json.ts'
import { failure } from '../../../shared/failures.ts'
import { ApprovalId } from '../../../shared/fields.ts'
import { LIMITS } from '../../../shared/limits.ts'
import type { Result } from '../../../shared/result.ts'
import { err, ok } from '../../../shared/result.ts'
import { sameText } from '../../approvals/link.ts'
import { parseForm } from '../../http/forms.ts'
import { FIELDS, type Pressed } from './card.ts'

/** The raw body with its signature headers. */
export type SignedRequest = { readonly timestamp: string; readonly signature: string; readonly body: string }

const signatureOf = (secret: string, { timestamp, body }: Omit<SignedRequest, 'signature'>): string =>
  `v0=${createHmac('sha256', secret).update(`v0:${timestamp}:${body}`).digest('hex')}`

export const signatureHolds = (secret: string, signed: SignedRequest): boolean =>
  sameText(signatureOf(secret, signed), signed.signature)

/** The refusal of requests without a valid and fresh signature. */
export const FORGED = err(
  failure(
    'slack_refused',
    'the request was not signed by a Slack app of this tenant within the last five minutes',
  ),
)

/** A cheap check of the headers, before the body is read. */
export const looksSigned = ({ timestamp, signature }: Omit<SignedRequest, 'body'>, now: number): boolean =>
  /^v0=[0-9a-f]{64}$/.test(signature) && isFresh({ timestamp }, now)

/** The secrets that signed a request. Each is tried once, because anybody can make us try them. */
export const signers = (secrets: Iterable<string>, signed: SignedRequest): ReadonlySet<string> =>
  new Set([...new Set(secrets)].filter((secret) => signatureHolds(secret, signed)))

/** Whether the timestamp is neither too old nor in the future (P10). */
export const isFresh = ({ timestamp }: Pick<SignedRequest, 'timestamp'>, now: number): boolean =>
  /^[0-9]{1,12}$/.test(timestamp) && Math.abs(now / 1000 - Number(timestamp)) <= LIMITS.slack_age_s

// ── The payload ──

const Id = z.string().max(64)
const from = {
  api_app_id: Id,
  team: z.object({ id: Id }),
  user: z.object({ id: Id, team_id: Id.optional() }),
  trigger_id: z.string().max(256).optional(),
}

/** Only the fields that we read. A press counts as its first action. */
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
    /** Needs no response: for example, somebody opened a link button. */
    | { kind: 'other' }
  )

/** The approval and use of a button or form, and the seal that proves them. */
export type About = { approval: string; use: Pressed | 'form'; seal: string }

const ABOUT = /^(apr_\w{1,40})\.(approve|deny|more|form)\.([A-Za-z0-9_-]{43})$/

function aboutIn(text: string | undefined): About | undefined {
  const [, approval = '', use = '', seal = ''] = ABOUT.exec(text ?? '') ?? []
  return ApprovalId.safeParse(approval).success ? { approval, use: use as About['use'], seal } : undefined // one of the four, by the pattern
}

/**
 * Parses a payload. Link buttons and buttons of other versions of this program are of kind `other`.
 */
export function readInteraction(body: string): Result<Interaction> {
  const form = parseForm(body)
  if (!form.ok) return form
  const parsed = parseJson(Buffer.from(form.value.get('payload') ?? ''), {
    ...BODY_BOUNDS,
    bytes: LIMITS.body_bytes,
  })
  if (!parsed.ok)
    return err(failure('not_json', 'the body has to be a form with one field `payload` that holds JSON'))
  const read = Interaction.safeParse(parsed.value)
  if (!read.success)
    return err(
      failure(
        'invalid_request',
        'the payload is not a `block_actions` or `view_submission` that we understand',
      ),
    )
  const { data } = read
  // In a channel shared by two workspaces, the user may belong to the other one.
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
  if (about?.use !== 'form') return err(failure('invalid_request', 'this form was not sent by this channel'))
  const { answer, reason } = data.view.state.values
  return ok({
    ...person,
    kind: 'sent',
    about,
    answer: answer.answer.selected_option?.value ?? '',
    reason: reason.reason.value ?? '',
  })
}
