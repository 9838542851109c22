// The Durable Object with a tenant's channels, delegations and outbox. Runs report their approvals
// to it, at least once; its outbox writes to people, at least once, until the approval has ended.
// Answers go to the run, which decides. A channel's secrets leave only towards its receiver.

import { DurableObject } from 'cloudflare:workers'
import { digestOf } from '../../shared/bytes/json.ts'
import { failure } from '../../shared/failures.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Approval } from '../../shared/wire/approvals.ts'
import type {
  Channel,
  ChannelSpec,
  Collected,
  Delegation,
  Delivery,
  DeliveryState,
} from '../../shared/wire/channels.ts'
import type { AgentDelivery } from '../../shared/wire/principals.ts'
import type { Env } from '../bindings.ts'
import { DEFAULT_TENANT, identityOf, outboundNetwork, tenantObject } from '../bindings.ts'
import { authorize } from '../decision/decide.ts'
import { type AgentEvent, isSubscribed } from '../directory/agent-webhook.ts'
import { directoryOf } from '../directory/directory.ts'
import type { LoadedDirectory } from '../directory/loaded-directory.ts'
import { eraseObject } from '../platform/database.ts'
import { escapeConfusables } from '../platform/visible-text.ts'
import { agentChannel, agentDeliveryOf } from './agent-events.ts'
import { withDelegates } from './delegation.ts'
import { applyResult, beginAttempt, returnUndelivered } from './delivery-state.ts'
import { mediumOf } from './media.ts'
import type { Message, Notice } from './medium.ts'
import { APPROVAL_ENDED, ChannelOutbox } from './outbox.ts'
import { postThrough } from './post.ts'
import { readersOf, recipientsOf } from './recipients.ts'
import { SlackInteractions } from './slack/interactions.ts'
import type { SignedRequest } from './slack/request.ts'
import type { ChannelRow, DeliveryRow } from './store.ts'
import { ChannelStore } from './store.ts'
import { testApproval } from './test-approval.ts'

const NO_CHANNEL = failure('not_found', 'no such channel')
const HOUR_MS = 3_600_000

export class ChannelObject extends DurableObject<Env> {
  readonly #store = new ChannelStore(this.ctx)
  readonly #loopback = this.env.LOOPBACK_CHANNELS !== undefined
  readonly #post = postThrough(outboundNetwork(this.env))
  readonly #slack = new SlackInteractions(this.env, this.#store, this.#post, (work) =>
    this.ctx.waitUntil(work),
  )
  readonly #outbox = new ChannelOutbox(this.env, this.ctx, this.#store, this.#post)

  // ── Operators ──

  async list(): Promise<Channel[]> {
    return this.#store
      .channels()
      .sort((a, b) => a.spec.after_s - b.spec.after_s)
      .map(channelOf)
  }

  async put(name: string, spec: ChannelSpec, by: string): Promise<Result<Channel>> {
    const medium = mediumOf(spec)
    const fault = medium.fault(this.#loopback)
    if (fault !== undefined) return err(failure('channel_refused', fault))
    const before = this.#room(name)
    if (!before.ok) return before
    const isSame = before.value !== undefined && digestOf(before.value.spec) === digestOf(spec)
    const about = { channel: name, kind: spec.kind, spec_sha256: digestOf(medium.shown) }
    if (!isSame) await this.#tenant.recordAhead(['channel.put', by, about])
    const room = this.#room(name) // another channel may have been added in the meantime
    if (!room.ok) return room
    const row = { name, spec, by, at: Date.now() }
    this.#store.putChannel(name, spec, by, row.at)
    this.#outbox.forgetPause(name)
    this.#store.wake(name, row.at) // the new medium may send messages that waited to be collected
    this.#outbox.pump()
    return ok(channelOf(row))
  }

  /** The channel, which may not exist yet if there is room for it. */
  #room(name: string): Result<ChannelRow | undefined> {
    const known = this.#store.channel(name)
    return known === undefined && this.#store.channels().length >= LIMITS.channels
      ? err(failure('limit_reached', `there are already ${LIMITS.channels} channels, the maximum`))
      : ok(known)
  }

  /** It gets the entry of a change before the change is made, so that no change is without one. */
  get #tenant() {
    return tenantObject(this.env, this.ctx.id.name ?? DEFAULT_TENANT)
  }

  async remove(name: string, by: string): Promise<Result<{ done: true }>> {
    if (this.#store.channel(name) === undefined) return err(NO_CHANNEL)
    await this.#tenant.recordAhead(['channel.removed', by, { channel: name }])
    const due = (): DeliveryRow[] => this.#store.inState(name, ['due'])
    this.#store.inTransaction(() => {
      this.#store.removeChannel(name)
      for (let rows = due(); rows.length > 0; rows = due())
        for (const row of rows) this.#outbox.drop(row, 'the channel was removed')
    })
    return ok({ done: true as const })
  }

  async test(name: string, by: string): Promise<Result<{ sent: boolean; why: string | null }>> {
    const channel = this.#store.channel(name)
    if (channel === undefined) return err(NO_CHANNEL)
    const id = `msg_${crypto.randomUUID().replaceAll('-', '')}`
    const approval = testApproval(Date.now())
    const medium = mediumOf(channel.spec)
    const recipient = medium.shown.recipients?.operators.includes(by) ? by : null
    const page = `${identityOf(this.env).publicUrl}/console`
    const message: Message = {
      id,
      kind: 'test',
      approval,
      recipient,
      link: null,
      page,
      seal: () => '',
      at_ms: approval.requested_at,
    }
    const sent = await medium.deliver(message, this.#post)
    return ok({ sent: sent.ok, why: sent.ok ? null : sent.error.why })
  }

  async deliveries(name: string, state?: DeliveryState, after?: string): Promise<Result<Delivery[]>> {
    if (this.#store.channel(name) === undefined) return err(NO_CHANNEL)
    const last = after === undefined ? undefined : this.#store.delivery(after)
    if (after !== undefined && last?.channel !== name)
      return err(failure('not_found', `the channel has no message \`${after}\``))
    return ok(
      this.#store
        .inState(name, state === undefined ? ['due', 'sent', 'failed', 'dropped'] : [state], last)
        .flatMap(deliveryOf),
    )
  }

  async retry(name: string): Promise<Result<{ due: number }>> {
    if (this.#store.channel(name) === undefined) return err(NO_CHANNEL)
    const due = this.#store.reviveFailed(name, Date.now())
    this.#outbox.pump()
    return ok({ due })
  }

  /**
   * Acknowledges collected messages and returns the next ones. Unacknowledged ones are returned
   * again.
   */
  async collect(
    tenant: string,
    name: string,
    { done, failed }: Acknowledgements,
  ): Promise<Result<Collected[]>> {
    const channel = this.#store.channel(name)
    const medium = channel === undefined ? undefined : mediumOf(channel.spec)
    if (medium?.collected === undefined)
      return err(failure('not_found', `there is no channel \`${name}\` whose messages are collected`))
    const directory = await directoryOf(this.env, tenant)
    const now = Date.now()
    const acknowledged = [...done.map((id) => ({ id, why: null })), ...failed]
    return this.#store.inTransaction(() => {
      for (const { id, why } of acknowledged) {
        const row = this.#store.delivery(id)
        if (row?.channel !== name || row.state !== 'due' || row.nextAt !== null) continue
        this.#store.saveProgress(
          row,
          why === null
            ? applyResult(beginAttempt(row, now), ok({ ref: null }), now, 0)
            : returnUndelivered(row, why),
          now,
        )
      }
      for (;;) {
        const waits = this.#store.waiting(name)
        const out = waits.flatMap((row) => this.#outbox.handOut(row, directory, medium, now))
        // Messages that were not handed out were dropped, so read on: others may wait behind them.
        if (out.length > 0 || waits.length === 0) return ok(out)
      }
    })
  }

  // ── Delegations of absent operators ──

  async delegations(): Promise<Delegation[]> {
    return this.#store.delegations(Date.now())
  }

  /**
   * Applies to later approvals. Policy is asked here, and again before each message, whether the
   * delegate may answer.
   */
  async delegate(tenant: string, operator: string, to: string, for_s: number): Promise<Result<Delegation>> {
    const directory = await directoryOf(this.env, tenant)
    const other = directory.operators.get(to)
    if (other === undefined || to === operator || !authorize(directory, other, 'approval.decide').allowed)
      return err(
        failure(
          'delegate_refused',
          `\`${to}\` has to be another operator whom policy allows to answer approvals`,
        ),
      )
    const now = Date.now()
    const delegation = { operator, to, until_ms: now + for_s * 1_000, put_at_ms: now }
    this.#store.putDelegation(delegation)
    return ok(delegation)
  }

  async back(operator: string): Promise<Result<{ done: true }>> {
    return this.#store.removeDelegation(operator)
      ? ok({ done: true as const })
      : err(failure('not_found', 'you have no delegate'))
  }

  // ── Slack ──

  async hasSlack(): Promise<boolean> {
    return this.#slack.isOpen()
  }

  async slackInteraction(tenant: string, signed: SignedRequest): Promise<Result<string>> {
    return this.#slack.take(tenant, signed)
  }

  // ── Runs ──

  /** Takes the current state of approvals. Idempotent, and reports may arrive out of order. */
  async mirror(tenant: string, approvals: readonly Approval[]): Promise<void> {
    // Without a channel, new approvals are ignored, but known ones still get their end.
    const ours = approvals.filter(
      ({ id }) => this.#store.channels().length > 0 || this.#store.approval(id) !== undefined,
    )
    if (ours.length === 0) return
    const directory = await directoryOf(this.env, tenant)
    this.#store.inTransaction(() => {
      for (const approval of ours) this.#take(directory, approval, this.#store.channels())
    })
    this.#outbox.pump()
  }

  #take(directory: LoadedDirectory, approval: Approval, channels: readonly ChannelRow[]): void {
    const known = this.#store.approval(approval.id)
    if (known?.endedAt != null) return // an end is final, in whatever order reports arrive
    const now = Date.now()
    const pending = approval.status === 'pending'
    this.#store.saveApproval(directory.tenant, approval, pending ? null : now)
    if (!pending) this.#end(approval, channels, now)
    if (pending && known !== undefined && known.approval.digest !== approval.digest)
      this.#askAgain(approval, now)
    if (!pending || known !== undefined) return
    for (const { name, spec } of channels) {
      const at = approval.requested_at + spec.after_s * 1000
      if (at >= approval.expires_at) continue
      const asked = recipientsOf(directory, mediumOf(spec).shown)
      const all = asked === null ? [UNNAMED] : withDelegates(asked, this.#store.delegations(now), now)
      for (const one of all) this.#add(approval.id, name, one, 'asked', at, now)
    }
  }

  /**
   * An operator changed the call: everybody who may have been asked about the old one is asked
   * again.
   */
  #askAgain({ id, digest }: Approval, now: number): void {
    const asked = this.#store
      .ofApproval(id)
      .filter(({ kind, state, tries }) => kind === 'asked' && state !== 'dropped' && tries > 0)
    const existing = new Set(this.#store.channels().map(({ name }) => name))
    for (const row of asked.filter(({ channel }) => existing.has(channel)))
      this.#add(id, row.channel, row, 'asked', now, now, digest)
  }

  /**
   * Drops the questions that have not left, and reports the end to everybody who may have been
   * asked.
   */
  #end({ id }: Approval, channels: readonly ChannelRow[], now: number): void {
    for (const row of this.#store.ofApproval(id).filter(({ kind }) => kind === 'asked')) {
      if (row.state === 'due') this.#outbox.drop(row, APPROVAL_ENDED)
      const channel = channels.find(({ name }) => name === row.channel)
      if (row.tries > 0 && channel !== undefined && mediumOf(channel.spec).update !== null)
        this.#add(id, row.channel, row, 'ended', now, now)
    }
  }

  /**
   * `more`: set when the call was changed, so that the second question is a message of its own, and
   * for events, where agents may have the same name one after the other.
   */
  #add(
    about: string,
    channel: string,
    to: Addressee,
    kind: DeliveryRow['kind'],
    nextAt: number,
    now: number,
    ...more: readonly string[]
  ): void {
    const { recipient, insteadOf } = to
    const id = `msg_${digestOf([about, channel, recipient, kind, ...more]).slice(0, 32)}`
    const course = { state: 'due' as const, tries: 0, nextAt, why: null }
    this.#store.addDelivery({
      id,
      about,
      channel,
      recipient,
      insteadOf,
      kind,
      ...course,
      changedAt: now,
      ref: null,
    })
  }

  // ── Agents' webhooks ──

  /** Takes events of an agent's calls. The same event again adds nothing. */
  async agentEvents(
    tenant: string,
    agent: string,
    since: number,
    events: readonly AgentEvent[],
  ): Promise<void> {
    const directory = await directoryOf(this.env, tenant)
    const channel = agentChannel(agent)
    const wanted = events.filter(
      (event) =>
        isSubscribed(directory, { agent, since }, event.type) &&
        this.#store.agentEvent(event.id) === undefined,
    )
    if (wanted.length === 0) return
    const now = Date.now()
    this.#store.inTransaction(() => {
      for (const event of wanted.slice(0, this.#store.roomForEvents(channel, wanted.length))) {
        this.#store.addAgentEvent({ id: event.id, tenant, agent, since, event, at: now })
        this.#add(event.id, channel, UNNAMED, 'event', now, now, String(since))
      }
    })
    this.#outbox.pump()
  }

  /** The latest deliveries to an agent's webhook. */
  async agentDeliveries(agent: string, state?: DeliveryState): Promise<AgentDelivery[]> {
    const states = state === undefined ? (['due', 'sent', 'failed', 'dropped'] as const) : [state]
    return this.#store.inState(agentChannel(agent), states).flatMap((row) => {
      const found = this.#store.agentEvent(row.about)
      return found === undefined ? [] : [agentDeliveryOf(row, found.event)]
    })
  }

  // ── Skills ──

  /**
   * Posts a skill's notice. The same `number` of a call posts only once. The skill reads the error.
   */
  async notice(tenant: string, channel: string, number: number, notice: Notice): Promise<Result<true>> {
    const directory = await directoryOf(this.env, tenant)
    const { skill, call, text } = notice
    const id = `${call}.${number}`
    const spec = this.#store.channel(channel)?.spec
    if (this.#store.notice(id) !== undefined) return ok(true)
    if (spec?.notices !== true)
      return err(failure('not_found', `there is no channel \`${channel}\` that skills may post to`))
    if (text.trim() === '' || text.length > LIMITS.notice_chars)
      return err(failure('invalid_input', `a notice has from 1 to ${LIMITS.notice_chars} characters`))
    const readers = readersOf(directory, mediumOf(spec).shown)
    const all = readers === null ? [UNNAMED] : readers.map((recipient) => ({ recipient, insteadOf: null }))
    if (all.length === 0) return err(failure('not_found', `the channel \`${channel}\` has no recipients`))
    const now = Date.now()
    if (this.#store.noticesOf(call) >= LIMITS.notices_per_call)
      return err(failure('limit_reached', `the call has already posted ${LIMITS.notices_per_call} notices`))
    if (this.#store.noticesSince(skill, now - HOUR_MS) >= LIMITS.notices_per_hour)
      return err(
        failure('limit_reached', `the skill has posted ${LIMITS.notices_per_hour} notices within the hour`),
      )
    this.#store.inTransaction(() => {
      this.#store.addNotice(
        id,
        tenant,
        { ...notice, text: escapeConfusables(String(directory.redaction.of(text)).toWellFormed()) },
        now,
      )
      for (const one of all) this.#add(id, channel, one, 'notice', now, now)
    })
    this.#outbox.pump()
    return ok(true)
  }

  override async alarm(): Promise<void> {
    this.#outbox.onAlarm()
  }

  /** Part of deleting the tenant. */
  async erase(): Promise<void> {
    await eraseObject(this.ctx)
  }
}

type Acknowledgements = {
  readonly done: readonly string[]
  readonly failed: readonly { readonly id: string; readonly why: string }[]
}

type Addressee = Pick<DeliveryRow, 'recipient' | 'insteadOf'>
/** The unnamed readers of a channel without recipients. */
const UNNAMED: Addressee = { recipient: null, insteadOf: null }

const channelOf = ({ name, spec, by, at }: ChannelRow): Channel => ({
  name,
  put_by: by,
  put_at_ms: at,
  channel: mediumOf(spec).shown,
})

const deliveryOf = ({
  id,
  about,
  kind,
  recipient,
  insteadOf,
  state,
  tries,
  nextAt,
  changedAt,
  why,
}: DeliveryRow): Delivery[] =>
  kind === 'event'
    ? []
    : [
        {
          id,
          approval: kind === 'notice' ? null : about,
          notice: kind === 'notice' ? about : null,
          kind,
          recipient,
          instead_of: insteadOf,
          state,
          tries,
          next_at_ms: nextAt,
          changed_at_ms: changedAt,
          why,
        },
      ] // no named channel has events
