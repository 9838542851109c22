// A tenant's channels and the outbox behind them. Runs tell it of their approvals, at least once; it writes to people, at least once,
// until the approval has ended. It decides nothing: whoever answers does so at the run. Its secrets go in, and out to their receivers
// alone.

import { DurableObject } from 'cloudflare:workers'
import type { Channel, ChannelSpec, Collected, Delegation, Delivery, DeliveryState } from '../shared/channels.ts'
import { failure } from '../shared/failures.ts'
import { digestOf } from '../shared/json.ts'
import { LIMITS } from '../shared/limits.ts'
import type { Result } from '../shared/result.ts'
import { err, ok } from '../shared/result.ts'
import type { Approval } from '../shared/wire.ts'
import { sealFor } from './approvals.ts'
import type { ChannelRow, DeliveryRow } from './channel-store.ts'
import { ChannelStore } from './channel-store.ts'
import { after, begun, dropped, returned, waiting } from './channels/attempt.ts'
import { withStandIns } from './channels/away.ts'
import { mediumOf } from './channels/media.ts'
import { postThrough } from './channels/outside.ts'
import type { Medium, Message, Sent } from './channels/port.ts'
import { recipientsOf, useless } from './channels/recipients.ts'
import { sample } from './channels/sample.ts'
import type { Signed } from './channels/slack-request.ts'
import { authorize } from './decide.ts'
import type { Loaded } from './directory.ts'
import { directoryOf } from './directory.ts'
import type { Env } from './env.ts'
import { identityOf } from './env.ts'
import { linkOf } from './link-of.ts'
import { logError } from './log.ts'
import { SlackDesk } from './slack-desk.ts'

const NO_CHANNEL = failure('not_found', 'no such channel')
const ENDED = 'the approval had ended'
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

export class ChannelObject extends DurableObject<Env> {
  readonly #store = new ChannelStore(this.ctx)
  readonly #loopback = this.env.LOOPBACK_CHANNELS !== undefined
  readonly #post = postThrough(this.env.OUTSIDE ?? { fetch: (to, init) => fetch(to, init) }, this.env.LOOPBACK_CHANNELS)
  readonly #slack = new SlackDesk(this.env, this.#store, this.#post, (work) => this.ctx.waitUntil(work))
  /** What is under way, by the question that it is about; with its channel. */
  readonly #busy = new Map<string, string>()
  #alarmAt: number | null = null
  /** Until when a channel's receiver wants nothing. Whoever forgets it is told again. */
  readonly #pausedUntil = new Map<string, number>()

  // ── Operators ──

  async list(): Promise<Channel[]> {
    return this.#store
      .channels()
      .sort((a, b) => a.spec.after_s - b.spec.after_s)
      .map(shown)
  }

  async put(name: string, spec: ChannelSpec, by: string): Promise<Result<Channel>> {
    const fault = mediumOf(spec).fault(this.#loopback)
    if (fault !== undefined) return err(failure('channel_refused', fault))
    if (this.#store.channel(name) === undefined && this.#store.channels().length >= LIMITS.channels)
      return err(failure('limit_reached', `there are ${LIMITS.channels} channels already`))
    const row = { name, spec, by, at: Date.now() }
    this.#store.putChannel(name, spec, by, row.at)
    this.#pausedUntil.delete(name) // it may be another receiver
    this.#store.wake(name, row.at) // what waited to be collected may be sent from now on
    this.#pump()
    return ok(shown(row))
  }

  async remove(name: string): Promise<Result<{ done: true }>> {
    if (this.#store.channel(name) === undefined) return err(NO_CHANNEL)
    this.#store.atOnce(() => {
      this.#store.removeChannel(name)
      for (let rows = this.#due(name); rows.length > 0; rows = this.#due(name))
        for (const row of rows) this.#drop(row, 'the channel was removed')
    })
    return ok({ done: true as const })
  }

  async test(name: string, by: string): Promise<Result<{ sent: boolean; why: string | null }>> {
    const channel = this.#store.channel(name)
    if (channel === undefined) return err(NO_CHANNEL)
    const id = `msg_${crypto.randomUUID().replaceAll('-', '')}`
    const approval = sample(Date.now())
    const medium = mediumOf(channel.spec)
    const recipient = medium.shown.recipients?.operators.includes(by) ? by : null
    const page = `${identityOf(this.env).publicUrl}/console`
    const message: Message = { id, kind: 'test', approval, recipient, link: null, page, seal: () => '', at_ms: approval.requested_at }
    const sent = await medium.deliver(message, this.#post)
    return ok({ sent: sent.ok, why: sent.ok ? null : sent.error.why })
  }

  async deliveries(name: string, state?: DeliveryState, after?: string): Promise<Result<Delivery[]>> {
    if (this.#store.channel(name) === undefined) return err(NO_CHANNEL)
    const last = after === undefined ? undefined : this.#store.delivery(after)
    if (after !== undefined && last?.channel !== name) return err(failure('not_found', `the channel has no message \`${after}\``))
    return ok(this.#store.inState(name, state === undefined ? ['due', 'sent', 'failed', 'dropped'] : [state], last).map(told))
  }

  async retry(name: string): Promise<Result<{ due: number }>> {
    if (this.#store.channel(name) === undefined) return err(NO_CHANNEL)
    const due = this.#store.reviveFailed(name, Date.now())
    this.#pump()
    return ok({ due })
  }

  /** Done with those; here are the next. What is never said to be done is handed out again. */
  async collect(tenant: string, name: string, { done, failed }: Carried): Promise<Result<Collected[]>> {
    const channel = this.#store.channel(name)
    const medium = channel === undefined ? undefined : mediumOf(channel.spec)
    if (medium?.collected === undefined) return err(failure('not_found', `no channel \`${name}\` whose messages are collected`))
    const directory = await directoryOf(this.env, tenant)
    const now = Date.now()
    const carried = [...done.map((id) => ({ id, why: null })), ...failed]
    return this.#store.atOnce(() => {
      for (const { id, why } of carried) {
        const row = this.#store.delivery(id)
        if (row?.channel !== name || row.state !== 'due' || row.nextAt !== null) continue
        this.#store.saveCourse(row, why === null ? after(begun(row, now), ok({ ref: null }), now, 0) : returned(row, why), now)
      }
      for (;;) {
        const waits = this.#store.waiting(name)
        const out = waits.flatMap((row) => this.#handedOut(row, directory, medium, now))
        if (out.length > 0 || waits.length === 0) return ok(out) // what was not handed out was dropped: others may wait behind it
      }
    })
  }

  #handedOut(row: DeliveryRow, directory: Loaded, { shown, collected }: Medium, now: number): Collected[] {
    const approval = this.#store.approval(row.approval)?.approval
    const why = approval === undefined ? ENDED : useless(row, null, approval, directory, shown, now)
    if (approval === undefined || why !== undefined || collected === undefined) {
      this.#drop(row, why ?? ENDED)
      return []
    }
    const message = collected(this.#message(row, approval, directory, approval.requested_at))
    if (message.ok) return [{ id: row.id, message: message.value }]
    this.#drop(row, message.error.why)
    return []
  }

  // ── Who is away ──

  async delegations(): Promise<Delegation[]> {
    return this.#store.delegations(Date.now())
  }

  /** For what is asked from now on. Whether they may answer is asked here, and again whenever something is sent to them. */
  async delegate(tenant: string, operator: string, to: string, for_s: number): Promise<Result<Delegation>> {
    const directory = await directoryOf(this.env, tenant)
    const other = directory.operators.get(to)
    if (other === undefined || to === operator || !authorize(directory, other, 'approval.decide').allowed)
      return err(failure('delegate_refused', `\`${to}\` is no other operator whom policy lets answer approvals`))
    const now = Date.now()
    const delegation = { operator, to, until_ms: now + for_s * 1_000, put_at_ms: now }
    this.#store.putDelegation(delegation)
    return ok(delegation)
  }

  async back(operator: string): Promise<Result<{ done: true }>> {
    return this.#store.removeDelegation(operator)
      ? ok({ done: true as const })
      : err(failure('not_found', 'you have nobody asked in your stead'))
  }

  // ── Slack ──

  async hasSlack(): Promise<boolean> {
    return this.#slack.isOpen()
  }

  async slackInteraction(tenant: string, signed: Signed): Promise<Result<string>> {
    return this.#slack.take(tenant, signed)
  }

  // ── Runs ──

  /** What has become of these approvals. Told twice, or late, it changes nothing. */
  async notice(tenant: string, approvals: readonly Approval[]): Promise<void> {
    // Without a channel nobody is told of what is new; what is known has its end all the same.
    const ours = approvals.filter(({ id }) => this.#store.channels().length > 0 || this.#store.approval(id) !== undefined)
    if (ours.length === 0) return
    const directory = await directoryOf(this.env, tenant)
    this.#store.atOnce(() => {
      for (const approval of ours) this.#take(directory, approval, this.#store.channels())
    })
    this.#pump()
  }

  #take(directory: Loaded, approval: Approval, channels: readonly ChannelRow[]): void {
    const known = this.#store.approval(approval.id)
    if (known?.endedAt != null) return // what has ended does not come back, in whatever order news arrive
    const now = Date.now()
    const pending = approval.status === 'pending'
    this.#store.saveApproval(directory.tenant, approval, pending ? null : now)
    if (!pending) this.#end(approval, channels, now)
    if (pending && known !== undefined && known.approval.digest !== approval.digest) this.#askAgain(approval, now)
    if (!pending || known !== undefined) return
    for (const { name, spec } of channels) {
      const at = approval.requested_at + spec.after_s * 1000
      if (at >= approval.expires_at) continue
      const asked = recipientsOf(directory, mediumOf(spec).shown)
      const all = asked === null ? [NOBODY] : withStandIns(asked, this.#store.delegations(now), now)
      for (const one of all) this.#add(approval.id, name, one, 'asked', at, now)
    }
  }

  /** Somebody has changed what is asked: whoever may have been asked about something else is asked anew. */
  #askAgain({ id, digest }: Approval, now: number): void {
    const asked = this.#store.ofApproval(id).filter(({ kind, state, tries }) => kind === 'asked' && state !== 'dropped' && tries > 0)
    const there = new Set(this.#store.channels().map(({ name }) => name))
    for (const row of asked.filter(({ channel }) => there.has(channel))) this.#add(id, row.channel, row, 'asked', now, now, digest)
  }

  /** Nobody is asked any more, and whoever may have been is told. */
  #end({ id }: Approval, channels: readonly ChannelRow[], now: number): void {
    for (const row of this.#store.ofApproval(id).filter(({ kind }) => kind === 'asked')) {
      if (row.state === 'due') this.#drop(row, ENDED)
      const channel = channels.find(({ name }) => name === row.channel)
      if (row.tries > 0 && channel !== undefined && mediumOf(channel.spec).update !== null)
        this.#add(id, row.channel, row, 'ended', now, now)
    }
  }

  /** `anew`: the digest that is asked about now, where another one was before. */
  #add(
    approval: string,
    channel: string,
    whom: Whom,
    kind: Delivery['kind'],
    nextAt: number,
    now: number,
    ...anew: readonly string[]
  ): void {
    const { recipient, insteadOf } = whom
    const id = `msg_${digestOf([approval, channel, recipient, kind, ...anew]).slice(0, 32)}`
    const course = { state: 'due' as const, tries: 0, nextAt, why: null }
    this.#store.addDelivery({ id, approval, channel, recipient, insteadOf, kind, ...course, changedAt: now, ref: null })
  }

  #drop(row: DeliveryRow, why: string): void {
    this.#store.saveCourse(row, dropped(row, why), Date.now())
  }

  // ── The outbox ──

  override async alarm(): Promise<void> {
    this.#alarmAt = null
    this.#store.forgetEndedBefore(Date.now() - KEPT_MS)
    this.#pump()
  }

  #due(channel: string): DeliveryRow[] {
    return this.#store.inState(channel, ['due'])
  }

  /** Begins what is due and finds room. A receiver that is slow takes the room of its own channel alone. */
  #pump(): void {
    const now = Date.now()
    for (const { name } of this.#store.channels()) {
      // Of what is due, at most as many are under way, and as many wait for the question that they answer.
      for (const row of this.#store.due(name, now, 3 * LIMITS.deliveries_at_once)) {
        if (!this.#hasRoom(name, now)) break
        if (!this.#busy.has(questionOf(row))) this.ctx.waitUntil(this.#attempt(row))
      }
    }
    this.#arm(now)
  }

  #hasRoom(channel: string, now: number): boolean {
    const until = this.#pausedUntil.get(channel) ?? Number.NEGATIVE_INFINITY
    const underWay = [...this.#busy.values()].filter((other) => other === channel).length
    return now >= until && underWay < (now < until + GENTLE_MS ? 1 : LIMITS.deliveries_at_once)
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
    void this.ctx.storage.setAlarm(at)
  }

  async #attempt({ id, ...row }: DeliveryRow): Promise<void> {
    const question = questionOf(row)
    this.#busy.set(question, row.channel)
    try {
      const sent = await this.#send(id).catch((error: unknown): Sent => {
        logError(crypto.randomUUID(), error)
        return err({ again: true, why: 'something of ours broke' })
      })
      const present = this.#store.delivery(id)
      const now = Date.now()
      if (sent?.ok === false && sent.error.pause_ms) this.#pausedUntil.set(row.channel, now + sent.error.pause_ms)
      if (sent !== null && present !== undefined)
        this.#store.saveCourse({ ...present, ref: sent.ok ? sent.value.ref : present.ref }, after(present, sent, now, Math.random()), now)
    } finally {
      this.#busy.delete(question)
      this.#pump()
    }
  }

  /** `null` where it was dropped instead. What it was like before we waited for the directory is not to be believed. */
  async #send(id: string): Promise<Sent | null> {
    const tenant = this.#store.approval(this.#store.delivery(id)?.approval ?? '')?.tenant
    const directory = tenant === undefined ? undefined : await directoryOf(this.env, tenant)
    const row = this.#store.delivery(id)
    const about = this.#store.approval(row?.approval ?? '')
    const channel = this.#store.channel(row?.channel ?? '')
    if (row?.state !== 'due' || about === undefined || channel === undefined || directory === undefined) return null
    const now = Date.now()
    const { shown, deliver, update, collected } = mediumOf(channel.spec)
    const ref = this.#refOf(row)
    const why =
      row.kind === 'ended' && update === null ? 'the channel tells of no end' : useless(row, ref, about.approval, directory, shown, now)
    if (why !== undefined) {
      this.#drop(row, why)
      return null
    }
    if (collected !== undefined) {
      this.#store.saveCourse(row, waiting(row), now)
      return null
    }
    this.#store.saveCourse(row, begun(row, now), now) // on disk before the first byte leaves: the runtime holds requests back until it is
    this.#arm(now)
    if (row.kind === 'asked' || update === null) {
      const message = this.#message(row, about.approval, directory, about.approval.requested_at)
      // Asked anew, the message that there is becomes the question: a second one would leave the first to be pressed.
      const anew = ref === null || update === null ? null : await update(message, ref, this.#post)
      return anew === null || (!anew.ok && !anew.error.again) ? deliver(message, this.#post) : anew
    }
    return update(this.#message(row, about.approval, directory, about.endedAt ?? now), ref, this.#post)
  }

  /** What the medium calls the question that was asked last, where it can be changed. */
  #refOf(row: DeliveryRow): string | null {
    const known = this.#store.ofApproval(row.approval).filter(({ kind, ref }) => kind === 'asked' && ref !== null)
    const asked = known.filter((other) => questionOf(other) === questionOf(row))
    return asked.sort((a, b) => b.changedAt - a.changedAt)[0]?.ref ?? null
  }

  #message({ id, kind, recipient, insteadOf, channel }: DeliveryRow, approval: Approval, directory: Loaded, at_ms: number): Message {
    const { linkKey, publicUrl } = identityOf(this.env)
    const bound = { tenant: directory.tenant, approval: approval.id, expiresAt: approval.expires_at, digest: approval.digest }
    const link = kind === 'asked' && recipient !== null ? linkOf(this.env, directory, approval, recipient) : null
    const page = `${publicUrl}/console/approvals/${approval.id}`
    const seal = (use: string): string => sealFor(linkKey, use, { ...bound, channel })
    return { id, kind, approval, recipient, insteadOf, link, page, seal, at_ms }
  }
}

/** A question and its end are told in order. */
const questionOf = ({ approval, channel, recipient }: Omit<DeliveryRow, 'id'>): string => `${approval} ${channel} ${recipient ?? ''}`

type Carried = { readonly done: readonly string[]; readonly failed: readonly { readonly id: string; readonly why: string }[] }

/** Whoever reads the channel. */
const NOBODY: Whom = { recipient: null, insteadOf: null }
type Whom = Pick<DeliveryRow, 'recipient' | 'insteadOf'>

const shown = ({ name, spec, by, at }: ChannelRow): Channel => ({ name, put_by: by, put_at_ms: at, channel: mediumOf(spec).shown })

const told = ({ id, approval, kind, recipient, insteadOf, state, tries, nextAt, changedAt, why }: DeliveryRow): Delivery => ({
  id,
  approval,
  kind,
  recipient,
  instead_of: insteadOf,
  state,
  tries,
  next_at_ms: nextAt,
  changed_at_ms: changedAt,
  why,
})
