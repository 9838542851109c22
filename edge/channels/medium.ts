// What a channel is to the outbox: the one way to write to people, whatever the medium. An adapter is pure but for the `post` that it is
// handed: it keeps nothing, retries nothing and knows no clock. When, to whom and how often is the outbox's.

import type { Result } from '../../shared/result.ts'
import type { Approval } from '../../shared/wire/approvals.ts'
import type { ChannelShown } from '../../shared/wire/channels.ts'

export type Message = {
  /** The same at each attempt, so that a receiver can tell a repetition. */
  readonly id: string
  /** `test` asks nothing; its approval is made up. */
  readonly kind: 'asked' | 'ended' | 'test'
  /** As the inbox has it: redacted, and inert only as text. Markup is the adapter's to escape. */
  readonly approval: Approval
  /** The operator it is for; `null` where it is for whoever reads the channel. */
  readonly recipient: string | null
  /** Who is away, where the recipient is asked for that. */
  readonly insteadOf?: string | null
  /** Lets its recipient, and nobody else, answer. Never without a recipient, and never when there is nothing to answer. */
  readonly link: string | null
  /** Where it is shown to whoever signs in there. */
  readonly page: string
  /** Binds the approval as it is, this channel, and a use that the medium names: what comes back with it can mean nothing else (P07). */
  readonly seal: (use: string) => string
  /** When what it tells of happened. */
  readonly at_ms: number
}

/** What a skill posts. It asks nothing, and says of itself where it comes from. */
export type Notice = {
  readonly skill: string
  readonly version: string
  readonly tool: string
  readonly agent: string
  readonly run: string
  readonly call: string
  /** Redacted, and inert only as text, as what an approval shows is. */
  readonly text: string
}
/** A notice on its way. It has no link: there is nothing to answer. */
export type Noted = { readonly notice: Notice } & Pick<Message, 'id' | 'recipient' | 'at_ms'>

/** `ref`: what the medium calls the message, where it can be changed later. */
export type Delivered = { readonly ref: string | null }
/**
 * `why` is shown to operators: no secret, and nothing of what the receiver said beyond its status. `pause_ms`: how long the receiver
 * wants nothing more of the channel; it has not taken this either.
 */
export type Undelivered = { readonly again: boolean; readonly why: string; readonly pause_ms?: number }
export type Sent = Result<Delivered, Undelivered>

export type Posted = {
  readonly to: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}
export type Answered = {
  readonly status: number
  readonly pause_ms: number | undefined
  readonly text: string
}
/** Sends to the outside, follows no redirect, and reads an answer only where `read` says so, up to a bound. */
export type Post = (posted: Posted, read?: 'read') => Promise<Result<Answered, Undelivered>>

/** A channel's settings put to use. */
export type Medium = {
  readonly shown: ChannelShown
  /** Whether it can be used at all: asked before it is stored. The sentence says what is wrong, without a secret. */
  readonly fault: (loopback: boolean) => string | undefined
  readonly deliver: (message: Message, post: Post) => Promise<Sent>
  /**
   * Tells of the end, or asks anew, where the question was told; `ref` is what `deliver` answered, if that is known. `null`: nobody is
   * told of an end.
   */
  readonly update: ((message: Message, ref: string | null, post: Post) => Promise<Sent>) | null
  readonly tell: (noted: Noted, post: Post) => Promise<Sent>
  /** Where nothing is sent, but waits until somebody collects it: the message as they get it. */
  readonly collected?: (message: Message | Noted) => Result<string, Undelivered>
}

/** What most receivers mean by their status. Gone is gone; everything else may be mended while the approval waits. */
export function taken({ status, pause_ms }: Answered): Result<true, Undelivered> {
  if (status >= 200 && status < 300) return { ok: true, value: true }
  const why =
    status >= 300 && status < 400
      ? `it answered ${status}; redirects are not followed`
      : `it answered ${status}`
  const patience = pause_ms !== undefined && (status === 429 || status === 503) ? { pause_ms } : {}
  return { ok: false, error: { again: status !== 410, why, ...patience } }
}
