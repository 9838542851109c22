// The interface between the outbox and the adapters for mail, Slack and webhooks. An adapter has no
// state, clock or retries; its only effect is the `post` that it receives. The outbox decides when,
// to whom and how often to send.

import type { Result } from '../../shared/result.ts'
import type { Approval } from '../../shared/wire/approvals.ts'
import type { ChannelShown } from '../../shared/wire/channels.ts'

export type Message = {
  /** The same at each attempt, so that a receiver can recognise a repetition. */
  readonly id: string
  /** `test` asks nothing; its approval is made up. */
  readonly kind: 'asked' | 'ended' | 'test'
  /** As in the inbox: redacted, and safe only as text. The adapter escapes markup. */
  readonly approval: Approval
  /** The operator it is for; `null` if it is for the unnamed readers of the channel. */
  readonly recipient: string | null
  /** The absent operator whose delegate the recipient is. */
  readonly insteadOf?: string | null
  /**
   * The approval link of the recipient; `null` without a recipient or if there is nothing to
   * answer.
   */
  readonly link: string | null
  /** The approval's page in the console. */
  readonly page: string
  /** The seal of a button: a MAC over the approval, this channel and the button's use (P07). */
  readonly seal: (use: string) => string
  /** When the event that it reports happened. */
  readonly at_ms: number
}

/** A text that a skill posts, with its origin. There is nothing to answer. */
export type Notice = {
  readonly skill: string
  readonly version: string
  readonly tool: string
  readonly agent: string
  readonly run: string
  readonly call: string
  /** Redacted, and safe only as text. */
  readonly text: string
}
/** A notice that is being delivered. */
export type NoticeMessage = { readonly notice: Notice } & Pick<Message, 'id' | 'recipient' | 'at_ms'>

/** `ref`: the medium's id of the message, if it can be changed later. */
export type DeliverySuccess = { readonly ref: string | null }
/**
 * `why` is shown to operators: it contains no secret, and nothing of the response but its status or
 * an error code. `pause_ms`: how long the receiver wants no message from the channel
 * (`Retry-After`).
 */
export type DeliveryFailure = { readonly again: boolean; readonly why: string; readonly pause_ms?: number }
export type DeliveryResult = Result<DeliverySuccess, DeliveryFailure>

export type PostRequest = {
  readonly to: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}
export type PostResponse = {
  readonly status: number
  readonly pause_ms: number | undefined
  readonly text: string
}
/** Sends a request; follows no redirect; reads the response, up to a limit, only with `read`. */
export type Post = (posted: PostRequest, read?: 'read') => Promise<Result<PostResponse, DeliveryFailure>>

/** An adapter with a channel's settings. */
export type Medium = {
  readonly shown: ChannelShown
  /** Why the settings can't be used; checked before they are stored. It holds no secret. */
  readonly fault: (loopback: boolean) => string | undefined
  readonly deliver: (message: Message, post: Post) => Promise<DeliveryResult>
  /**
   * Replaces a question by its outcome, or by the changed question. `ref` is what `deliver`
   * returned, if known. `null`: the medium can't change messages and sends none about the end.
   */
  readonly update: ((message: Message, ref: string | null, post: Post) => Promise<DeliveryResult>) | null
  readonly notify: (noted: NoticeMessage, post: Post) => Promise<DeliveryResult>
  /** For a channel that sends nothing: the message as its collector gets it. */
  readonly collected?: (message: Message | NoticeMessage) => Result<string, DeliveryFailure>
}

/**
 * The usual meaning of a status. 410 is final; anything else may be fixed while the approval is
 * pending.
 */
export function acceptance({ status, pause_ms }: PostResponse): Result<true, DeliveryFailure> {
  if (status >= 200 && status < 300) return { ok: true, value: true }
  const why =
    status >= 300 && status < 400
      ? `it answered ${status}; redirects are not followed`
      : `it answered ${status}`
  const pause = pause_ms !== undefined && (status === 429 || status === 503) ? { pause_ms } : {}
  return { ok: false, error: { again: status !== 410, why, ...pause } }
}
