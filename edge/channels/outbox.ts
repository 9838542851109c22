// How a tenant's messages to people leave: what is due is begun where its channel has room, an attempt is counted before it is made, and an
// alarm stands behind all that is due. What is to be said it reads from the store, each time anew; it decides nothing.

import { LIMITS } from '../../shared/limits.ts'
import { err } from '../../shared/result.ts'
import type { Collected } from '../../shared/wire/channels.ts'
import { sealFor } from '../approvals/link.ts'
import { linkOf } from '../approvals/link-url.ts'
import type { Env } from '../bindings.ts'
import { identityOf } from '../bindings.ts'
import type { Loaded } from '../directory/directory.ts'
import { directoryOf } from '../directory/directory.ts'
import { logError } from '../platform/error-log.ts'
import { after, begun, dropped, waiting } from './delivery-state.ts'
import { mediumOf } from './media.ts'
import type { Medium, Message, Noted, Post, Sent } from './medium.ts'
import { useless, uselessNotice } from './recipients.ts'
import type { ApprovalRow, ChannelStore, DeliveryRow, NoticeRow } from './store.ts'

export const ENDED = 'the approval had ended'
/** When to look again after messages for which there was no room. */
const CROWDED_MS = 1_000
/**
 * How far off an alarm is at the least. One that is put, by itself, at the time that it is ringing for never rings: the runtime takes
 * it for rung.
 */
const SOON_MS = 10
/** For how long a receiver that wanted patience is sent one message at a time. */
const GENTLE_MS = 30_000
const KEPT_MS = LIMITS.delivery_days * 24 * 3_600_000

export class ChannelOutbox {
  readonly #env: Env
  readonly #ctx: DurableObjectState
  readonly #store: ChannelStore
  readonly #post: Post
  /** What is under way, by the question that it is about. */
  readonly #busy = new Map<string, Omit<DeliveryRow, 'id'>>()
  #alarmAt: number | null = null
  /** Until when a channel's receiver wants nothing. Whoever forgets it is told again. */
  readonly #pausedUntil = new Map<string, number>()

  constructor(env: Env, ctx: DurableObjectState, store: ChannelStore, post: Post) {
    this.#env = env
    this.#ctx = ctx
    this.#store = store
    this.#post = post
  }

  rang(): void {
    this.#alarmAt = null
    this.#store.forgetEndedBefore(Date.now() - KEPT_MS)
    this.pump()
  }

  /** The channel may be another receiver. */
  anew(channel: string): void {
    this.#pausedUntil.delete(channel)
  }

  drop(row: DeliveryRow, why: string): void {
    this.#store.saveCourse(row, dropped(row, why), Date.now())
  }

  /** Begins what is due and finds room. A receiver that is slow takes the room of its own channel alone. */
  pump(): void {
    const now = Date.now()
    for (const { name } of this.#store.channels()) {
      // Of what is due, at most as many are under way, and as many wait for the question that they answer.
      for (const row of this.#store.due(name, now, 3 * LIMITS.deliveries_at_once)) {
        if (!this.#hasRoom(row, now)) break
        if (!this.#busy.has(questionOf(row))) this.#ctx.waitUntil(this.#attempt(row))
      }
    }
    this.#arm(now)
  }

  /** Notices take half of it at the most: people wait for questions. */
  #hasRoom({ channel, kind }: DeliveryRow, now: number): boolean {
    const until = this.#pausedUntil.get(channel) ?? Number.NEGATIVE_INFINITY
    const underWay = [...this.#busy.values()].filter((other) => other.channel === channel)
    const notices = underWay.filter((other) => other.kind === 'notice').length
    const room = now < until + GENTLE_MS ? 1 : LIMITS.deliveries_at_once
    return now >= until && underWay.length < room && (kind !== 'notice' || notices < room / 2)
  }

  /** When there is something to do; `null`: never. What is left of a channel that is gone is nothing to do. */
  #next(): number | null {
    const times = this.#store.channels().flatMap(({ name }) => {
      const due = this.#store.nextDue(name)
      return due === null ? [] : [Math.max(due, this.#pausedUntil.get(name) ?? due)]
    })
    const ended = this.#store.firstEnd()
    if (ended !== null) times.push(ended + KEPT_MS + 1) // to be forgotten
    return times.length === 0 ? null : Math.min(...times)
  }

  /** The alarm stands before anything is sent, and behind everything that is due. */
  #arm(now: number): void {
    const next = this.#next()
    if (next === null) return
    const at = next > now ? Math.max(Math.ceil(next), now + SOON_MS) : now + CROWDED_MS
    // One that should have rung may be lost: it is believed in as long as it lies ahead.
    if (this.#alarmAt !== null && this.#alarmAt > now && this.#alarmAt <= at) return
    this.#alarmAt = at
    void this.#ctx.storage.setAlarm(at)
  }

  async #attempt({ id, ...row }: DeliveryRow): Promise<void> {
    const question = questionOf(row)
    this.#busy.set(question, row)
    try {
      const sent = await this.#send(id).catch((error: unknown): Sent => {
        logError(crypto.randomUUID(), error)
        return err({ again: true, why: 'something of ours broke' })
      })
      const present = this.#store.delivery(id)
      const now = Date.now()
      if (sent?.ok === false && sent.error.pause_ms)
        this.#pausedUntil.set(row.channel, now + sent.error.pause_ms)
      if (sent !== null && present !== undefined)
        this.#store.saveCourse(
          { ...present, ref: sent.ok ? sent.value.ref : present.ref },
          after(present, sent, now, Math.random()),
          now,
        )
    } finally {
      this.#busy.delete(question)
      this.pump()
    }
  }

  /** `null` where it was dropped instead. What it was like before we waited for the directory is not to be believed. */
  async #send(id: string): Promise<Sent | null> {
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
      this.#store.saveCourse(row, waiting(row), now)
      return null
    }
    this.#store.saveCourse(row, begun(row, now), now) // on disk before the first byte leaves: the runtime holds requests back until it is
    this.#arm(now)
    return 'notice' in subject
      ? medium.tell(noted(row, subject), this.#post)
      : this.#tell(row, subject, directory, medium)
  }

  /** Of an approval: asks, asks anew, or tells of the end. */
  #tell(
    row: DeliveryRow,
    subject: ApprovalRow,
    directory: Loaded,
    { deliver, update }: Medium,
  ): Promise<Sent> {
    const ref = this.#refOf(row)
    const message = this.#message(row, subject, directory)
    if (row.kind === 'ended' && update !== null) return update(message, ref, this.#post)
    // Asked anew, the message that there is becomes the question: a second one would leave the first to be pressed.
    if (ref === null || update === null) return deliver(message, this.#post)
    return update(message, ref, this.#post).then((anew) =>
      anew.ok || anew.error.again ? anew : deliver(message, this.#post),
    )
  }

  /** To whoever collects it; what is of no use is dropped instead. */
  handOut(row: DeliveryRow, directory: Loaded, medium: Medium, now: number): Collected[] {
    const subject = this.#store.subject(row)
    const why =
      subject === undefined ? 'it was forgotten' : this.#useless(row, subject, directory, medium, now)
    if (subject === undefined || why !== undefined || medium.collected === undefined) {
      this.drop(row, why ?? 'the channel is not collected any more')
      return []
    }
    const message = medium.collected(
      'notice' in subject ? noted(row, subject) : this.#message(row, subject, directory),
    )
    if (message.ok) return [{ id: row.id, message: message.value }]
    this.drop(row, message.error.why)
    return []
  }

  /** Why it is not to leave, or nothing. */
  #useless(
    row: DeliveryRow,
    subject: ApprovalRow | NoticeRow,
    directory: Loaded,
    { shown, update }: Medium,
    now: number,
  ) {
    if ('notice' in subject) return uselessNotice(row, directory, shown)
    if (row.kind === 'ended' && update === null) return 'the channel tells of no end'
    return useless(row, this.#refOf(row), subject.approval, directory, shown, now)
  }

  /** What the medium calls the question that was asked last, where it can be changed. */
  #refOf(row: DeliveryRow): string | null {
    const known = this.#store
      .ofApproval(row.about)
      .filter(({ kind, ref }) => kind === 'asked' && ref !== null)
    const asked = known.filter((other) => questionOf(other) === questionOf(row))
    return asked.sort((a, b) => b.changedAt - a.changedAt)[0]?.ref ?? null
  }

  #message(row: DeliveryRow, { approval, endedAt }: ApprovalRow, directory: Loaded): Message {
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

/** A question and its end are told in order. */
const questionOf = ({ about, channel, recipient }: Omit<DeliveryRow, 'id'>): string =>
  `${about} ${channel} ${recipient ?? ''}`

const noted = ({ id, recipient }: DeliveryRow, { notice, at }: NoticeRow): Noted => ({
  id,
  recipient,
  notice,
  at_ms: at,
})
