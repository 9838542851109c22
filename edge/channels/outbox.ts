// The outbox of a tenant's messages to people and of events for agents' webhooks. It starts due
// deliveries while their channel has free slots, counts each attempt before making it, and always
// has an alarm set for what is due. It reads the content of a message from the store at each
// attempt.

import { LIMITS } from '../../shared/limits.ts'
import { err } from '../../shared/result.ts'
import type { Collected } from '../../shared/wire/channels.ts'
import { sealFor } from '../approvals/link.ts'
import { linkOf } from '../approvals/link-url.ts'
import type { Env } from '../bindings.ts'
import { identityOf } from '../bindings.ts'
import { webhookTarget } from '../directory/agent-webhook.ts'
import { directoryOf } from '../directory/directory.ts'
import type { LoadedDirectory } from '../directory/loaded-directory.ts'
import { logError } from '../platform/error-log.ts'
import { bodyOf } from './agent-events.ts'
import { applyResult, awaitCollection, beginAttempt, drop } from './delivery-state.ts'
import { mediumOf } from './media.ts'
import type { DeliveryResult, Medium, Message, NoticeMessage, Post } from './medium.ts'
import { reasonToDrop, reasonToDropNotice } from './recipients.ts'
import type { ApprovalRow, ChannelStore, DeliveryRow, NoticeRow } from './store.ts'
import { postSigned } from './webhook.ts'

export const APPROVAL_ENDED = 'the approval has ended'
/** When to retry deliveries for which there was no free slot. */
const CROWDED_MS = 1_000
/**
 * The shortest delay of an alarm. An alarm that is set, from its own handler, to the time that it
 * just fired for never fires again: the runtime treats it as handled.
 */
const SOON_MS = 10
/** How long after a `Retry-After` a receiver gets only one message at a time. */
const GENTLE_MS = 30_000
const KEPT_MS = LIMITS.delivery_days * 24 * 3_600_000

export class ChannelOutbox {
  readonly #env: Env
  readonly #ctx: DurableObjectState
  readonly #store: ChannelStore
  readonly #post: Post
  /** The deliveries in progress, by their question. */
  readonly #busy = new Map<string, Omit<DeliveryRow, 'id'>>()
  #alarmAt: number | null = null
  /**
   * The time until which a channel's receiver wants no messages. Kept in memory, because the
   * receiver repeats it.
   */
  readonly #pausedUntil = new Map<string, number>()

  constructor(env: Env, ctx: DurableObjectState, store: ChannelStore, post: Post) {
    this.#env = env
    this.#ctx = ctx
    this.#store = store
    this.#post = post
  }

  onAlarm(): void {
    this.#alarmAt = null
    this.#store.forgetEndedBefore(Date.now() - KEPT_MS)
    this.pump()
  }

  /** The channel was replaced and may have another receiver. */
  forgetPause(channel: string): void {
    this.#pausedUntil.delete(channel)
  }

  drop(row: DeliveryRow, why: string): void {
    this.#store.saveProgress(row, drop(row, why), Date.now())
  }

  /**
   * Starts due deliveries while slots are free. A slow receiver occupies only its own channel's
   * slots.
   */
  pump(): void {
    const now = Date.now()
    for (const name of this.#senders()) {
      // Some due deliveries are in progress, or wait for another delivery of the same question.
      for (const row of this.#store.due(name, now, 3 * LIMITS.deliveries_at_once)) {
        if (!this.#hasRoom(row, now)) break
        if (!this.#busy.has(questionOf(row))) this.#ctx.waitUntil(this.#attempt(row))
      }
    }
    this.#arm(now)
  }

  #senders(): string[] {
    return [...this.#store.channels().map(({ name }) => name), ...this.#store.agentChannels()]
  }

  /**
   * Notices get at most half of the slots, because questions are urgent. All agents together have
   * few slots, because there may be many agents.
   */
  #hasRoom({ channel, kind }: DeliveryRow, now: number): boolean {
    const until = this.#pausedUntil.get(channel) ?? Number.NEGATIVE_INFINITY
    const inProgress = [...this.#busy.values()].filter((other) => other.channel === channel)
    const notices = inProgress.filter((other) => other.kind === 'notice').length
    const slots = now < until + GENTLE_MS ? 1 : LIMITS.deliveries_at_once
    const events = [...this.#busy.values()].filter((other) => other.kind === 'event').length
    return (
      now >= until &&
      inProgress.length < slots &&
      (kind !== 'notice' || notices < slots / 2) &&
      (kind !== 'event' || events < LIMITS.agent_deliveries_at_once)
    )
  }

  /**
   * When the next delivery or deletion is due; `null` if none is. Deliveries of removed channels
   * don't count.
   */
  #next(): number | null {
    const times = this.#senders().flatMap((name) => {
      const due = this.#store.nextDue(name)
      return due === null ? [] : [Math.max(due, this.#pausedUntil.get(name) ?? due)]
    })
    const ended = this.#store.firstEnd()
    if (ended !== null) times.push(ended + KEPT_MS + 1) // to be deleted
    return times.length === 0 ? null : Math.min(...times)
  }

  /** Sets the alarm, before anything is sent and whenever something is due. */
  #arm(now: number): void {
    const next = this.#next()
    if (next === null) return
    const at = next > now ? Math.max(Math.ceil(next), now + SOON_MS) : now + CROWDED_MS
    // An alarm whose time has passed may be lost, so only one in the future counts.
    if (this.#alarmAt !== null && this.#alarmAt > now && this.#alarmAt <= at) return
    this.#alarmAt = at
    void this.#ctx.storage.setAlarm(at)
  }

  async #attempt({ id, ...row }: DeliveryRow): Promise<void> {
    const question = questionOf(row)
    this.#busy.set(question, row)
    try {
      const sending = row.kind === 'event' ? this.#sendEvent(id) : this.#send(id)
      const sent = await sending.catch((error: unknown): DeliveryResult => {
        logError(error)
        return err({ again: true, why: 'an internal error; see the edge’s log' })
      })
      const present = this.#store.delivery(id)
      const now = Date.now()
      if (sent?.ok === false && sent.error.pause_ms)
        this.#pausedUntil.set(row.channel, now + sent.error.pause_ms)
      if (sent !== null && present !== undefined)
        this.#store.saveProgress(
          { ...present, ref: sent.ok ? sent.value.ref : present.ref },
          applyResult(present, sent, now, Math.random()),
          now,
        )
    } finally {
      this.#busy.delete(question)
      this.pump()
    }
  }

  /**
   * `null` if the delivery was dropped instead. Reads the row again after waiting for the
   * directory.
   */
  async #send(id: string): Promise<DeliveryResult | null> {
    const before = this.#store.delivery(id)
    const tenant = before === undefined ? undefined : this.#store.subject(before)?.tenant
    const directory = tenant === undefined ? undefined : await directoryOf(this.#env, tenant)
    const row = this.#store.delivery(id)
    const subject = row === undefined ? undefined : this.#store.subject(row)
    const channel = this.#store.channel(row?.channel ?? '')
    if (row?.state !== 'due' || subject === undefined || channel === undefined || directory === undefined)
      return null
    const [medium, now] = [mediumOf(channel.spec), Date.now()]
    const why = this.#useless(row, subject, directory, medium, now)
    if (why !== undefined) {
      this.drop(row, why)
      return null
    }
    if (medium.collected !== undefined) {
      this.#store.saveProgress(row, awaitCollection(row), now)
      return null
    }
    // On disk before the first byte leaves, because the runtime holds requests back until then.
    this.#store.saveProgress(row, beginAttempt(row, now), now)
    this.#arm(now)
    return 'notice' in subject
      ? medium.notify(noticeMessageOf(row, subject), this.#post)
      : this.#tell(row, subject, directory, medium)
  }

  /** Like `#send`, to the webhook that the agent has now. */
  async #sendEvent(id: string): Promise<DeliveryResult | null> {
    const event = this.#store.agentEvent(this.#store.delivery(id)?.about ?? '')
    const directory = event === undefined ? undefined : await directoryOf(this.#env, event.tenant)
    const row = this.#store.delivery(id)
    if (row?.state !== 'due' || event === undefined || directory === undefined) return null
    const now = Date.now()
    const target = webhookTarget(identityOf(this.#env), directory, event, now)
    if (target === undefined) {
      this.drop(row, 'the agent has no webhook any more')
      return null
    }
    // On disk before the first byte leaves, as in `#send`.
    this.#store.saveProgress(row, beginAttempt(row, now), now)
    this.#arm(now)
    return postSigned(target, row.id, bodyOf(event, identityOf(this.#env).publicUrl), this.#post)
  }

  /** Sends a question, a changed question or an outcome. */
  #tell(
    row: DeliveryRow,
    subject: ApprovalRow,
    directory: LoadedDirectory,
    { deliver, update }: Medium,
  ): Promise<DeliveryResult> {
    const ref = this.#refOf(row)
    const message = this.#message(row, subject, directory)
    if (row.kind === 'ended' && update !== null) return update(message, ref, this.#post)
    // A changed question replaces the message: a second one would leave the first with live
    // buttons.
    if (ref === null || update === null) return deliver(message, this.#post)
    return update(message, ref, this.#post).then((updated) =>
      updated.ok || updated.error.again ? updated : deliver(message, this.#post),
    )
  }

  /** Renders a message for its collector, or drops it if it is no longer of use. */
  handOut(row: DeliveryRow, directory: LoadedDirectory, medium: Medium, now: number): Collected[] {
    const subject = this.#store.subject(row)
    const why =
      subject === undefined
        ? 'its approval or notice was deleted'
        : this.#useless(row, subject, directory, medium, now)
    if (subject === undefined || why !== undefined || medium.collected === undefined) {
      this.drop(row, why ?? 'messages of the channel are no longer collected')
      return []
    }
    const message = medium.collected(
      'notice' in subject ? noticeMessageOf(row, subject) : this.#message(row, subject, directory),
    )
    if (message.ok) return [{ id: row.id, message: message.value }]
    this.drop(row, message.error.why)
    return []
  }

  /** Why a message should no longer be sent, or `undefined`. */
  #useless(
    row: DeliveryRow,
    subject: ApprovalRow | NoticeRow,
    directory: LoadedDirectory,
    { shown, update }: Medium,
    now: number,
  ) {
    if ('notice' in subject) return reasonToDropNotice(row, directory, shown)
    if (row.kind === 'ended' && update === null)
      return 'the channel sends no message about the end of an approval'
    return reasonToDrop(row, this.#refOf(row), subject.approval, directory, shown, now)
  }

  /** The medium's id of the latest message of this question, if it can be changed. */
  #refOf(row: DeliveryRow): string | null {
    const known = this.#store
      .ofApproval(row.about)
      .filter(({ kind, ref }) => kind === 'asked' && ref !== null)
    const asked = known.filter((other) => questionOf(other) === questionOf(row))
    return asked.sort((a, b) => b.changedAt - a.changedAt)[0]?.ref ?? null
  }

  #message(row: DeliveryRow, { approval, endedAt }: ApprovalRow, directory: LoadedDirectory): Message {
    const { id, kind, recipient, insteadOf, channel } = row
    const { linkKey, publicUrl } = identityOf(this.#env)
    const bound = {
      tenant: directory.tenant,
      approval: approval.id,
      expiresAt: approval.expires_at,
      digest: approval.digest,
    }
    const link =
      kind === 'asked' && recipient !== null ? linkOf(this.#env, directory, approval, recipient) : null
    const page = `${publicUrl}/console/approvals/${approval.id}`
    const seal = (use: string): string => sealFor(linkKey, use, { ...bound, channel })
    const at_ms = kind === 'asked' ? approval.requested_at : (endedAt ?? Date.now())
    return {
      id,
      kind: kind === 'asked' ? kind : 'ended',
      approval,
      recipient,
      insteadOf,
      link,
      page,
      seal,
      at_ms,
    }
  }
}

/** Deliveries with the same key are sent one after another, so that an end follows its question. */
const questionOf = ({ about, channel, recipient }: Omit<DeliveryRow, 'id'>): string =>
  `${about} ${channel} ${recipient ?? ''}`

const noticeMessageOf = ({ id, recipient }: DeliveryRow, { notice, at }: NoticeRow): NoticeMessage => ({
  id,
  recipient,
  notice,
  at_ms: at,
})
