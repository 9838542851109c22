// What comes of what people do in Slack: whose app and workspace it was, which card, which operator, and then the run's answer. It reads
// as a checklist. It decides nothing and keeps nothing: a button is an answer to its own approval or to none, and the run takes it or
// does not.

import { failure } from '../../../shared/failures.ts'
import { split } from '../../../shared/ids.ts'
import { LIMITS } from '../../../shared/limits.ts'
import type { Result } from '../../../shared/result.ts'
import { err, ok } from '../../../shared/result.ts'
import type { Answer, Approval } from '../../../shared/wire/approvals.ts'
import { sameText, sealFor } from '../../approvals/link.ts'
import type { Env } from '../../bindings.ts'
import { identityOf, runObject } from '../../bindings.ts'
import { authorize } from '../../decision/decide.ts'
import { directoryOf, SUSPENDED } from '../../directory/directory.ts'
import { logError } from '../../platform/error-log.ts'
import type { Post } from '../medium.ts'
import type { ChannelStore } from '../store.ts'
import { endedCard, escaped, FIELDS, form, notice, saidIn, sealUse } from './card.ts'
import type { About, Interaction, Signed } from './request.ts'
import { FORGED, isFresh, readInteraction, signers } from './request.ts'
import type { SlackSpec } from './slack.ts'
import { openForm, reply } from './slack.ts'

const ELSEWHERE = err(
  failure('slack_refused', 'the request is of another Slack app, or of another workspace'),
)
const NO_CARD = err(failure('slack_refused', 'this button is of no approval that waits here'))
const BROKEN = 'something of ours broke; whether you have answered is shown on the page'

/** A channel of ours, and the approval that one of its cards is about. */
type Card = { name: string; spec: SlackSpec; approval: Approval }
type Pressed = Extract<Interaction, { kind: 'pressed' }>
type Sent = Extract<Interaction, { kind: 'sent' }>

export class SlackDesk {
  readonly #env: Env
  readonly #store: ChannelStore
  readonly #post: Post
  /** Lets work go on after its request was answered. */
  readonly #later: (work: Promise<unknown>) => void

  constructor(env: Env, store: ChannelStore, post: Post, later: (work: Promise<unknown>) => void) {
    this.#env = env
    this.#store = store
    this.#post = post
    this.#later = later
  }

  /** What Slack is answered, within the time that it waits. */
  async take(tenant: string, signed: Signed): Promise<Result<string>> {
    if (!isFresh(signed, Date.now())) return FORGED
    const all = this.#apps()
    const signedBy = signers(
      all.map(({ spec }) => spec.signing_secret),
      signed,
    )
    const apps = all.filter(({ spec }) => signedBy.has(spec.signing_secret))
    if (apps.length === 0) return FORGED
    const read = readInteraction(signed.body)
    if (!read.ok) return read
    const done = read.value
    const ours = apps.filter(({ spec }) => spec.app_id === done.app && spec.team_id === done.team)
    if (ours.length === 0) return ELSEWHERE // P10
    if (done.kind === 'other') return ok('')
    const card = this.#cardOf(tenant, ours, done.about)
    if (card === undefined) return NO_CARD // P07
    if (done.kind === 'sent') return ok(await this.#sent(tenant, card, done))
    return ok(await this.#soon(this.#pressed(tenant, card, done), '', ''))
  }

  /** Whether anything that Slack sends could be ours. */
  isOpen(): boolean {
    return this.#apps().length > 0
  }

  #apps(): { name: string; spec: SlackSpec }[] {
    return this.#store.channels().flatMap(({ name, spec }) => (spec.kind === 'slack' ? [{ name, spec }] : []))
  }

  /** A card is known by its seal: of this approval, in this channel, for this use. */
  #cardOf(
    tenant: string,
    apps: { name: string; spec: SlackSpec }[],
    { approval: id, use, seal }: About,
  ): Card | undefined {
    const approval = this.#store.approval(id)?.approval
    const app =
      approval === undefined
        ? undefined
        : apps.find(({ name }) => sameText(this.#seal(tenant, approval, name, use), seal))
    return approval === undefined || app === undefined ? undefined : { ...app, approval }
  }

  #seal(tenant: string, { id, digest, expires_at }: Approval, channel: string, use: About['use']): string {
    return sealFor(identityOf(this.#env).linkKey, sealUse(use), {
      tenant,
      approval: id,
      digest,
      expiresAt: expires_at,
      channel,
    })
  }

  // ── A button ──

  async #pressed(tenant: string, card: Card, { about, user, trigger, reply: to }: Pressed): Promise<string> {
    const operator = await this.#operatorOf(tenant, card.spec, user)
    if (!operator.ok) return this.#alone(to, operator.error.detail)
    if (about.use === 'more') return this.#openForm(tenant, card, trigger, to)
    const answered = await this.#answer(tenant, card.approval, operator.value, {
      decision: about.use,
      scope: 'once',
      reason: '',
    })
    if (!answered.ok) await this.#alone(to, answered.error.detail)
    const present = answered.ok ? answered : await this.#present(tenant, card.approval)
    if (present.ok && present.value.status !== 'pending') return this.#over(to, present.value)
    return answered.ok ? this.#alone(to, 'your answer is recorded; more answers are needed') : ''
  }

  async #openForm(
    tenant: string,
    { name, spec, approval }: Card,
    trigger: string,
    to: string | null,
  ): Promise<string> {
    const present = await this.#present(tenant, approval)
    if (!present.ok) return this.#alone(to, present.error.detail)
    if (present.value.status !== 'pending') return this.#over(to, present.value)
    const state = `${approval.id}.form.${this.#seal(tenant, approval, name, 'form')}`
    const opened = await openForm(spec, trigger, form(present.value, state), this.#post)
    return opened.ok ? '' : this.#alone(to, `the form did not open: ${opened.error.why}`)
  }

  /** To whoever pressed it, and to nobody else. */
  async #alone(to: string | null, sentence: string): Promise<string> {
    await reply(to, { alone: escaped(sentence) }, this.#post)
    return ''
  }

  /** The very message that was pressed, whether the outbox knows it or not. */
  async #over(to: string | null, approval: Approval): Promise<string> {
    await reply(to, { instead: endedCard(approval) }, this.#post)
    return ''
  }

  // ── The form ──

  async #sent(tenant: string, { spec, approval }: Card, { user, answer, reason }: Sent): Promise<string> {
    const refused = (sentence: string): string =>
      JSON.stringify({ response_action: 'errors', errors: { [FIELDS.answer]: sentence } })
    const said = saidIn(answer)
    if (said === undefined) return refused('choose an answer')
    const work = async (): Promise<string> => {
      const operator = await this.#operatorOf(tenant, spec, user)
      const answered = operator.ok
        ? await this.#answer(tenant, approval, operator.value, { ...said, reason })
        : operator
      return answered.ok ? '' : refused(answered.error.detail)
    }
    const instead = (sentence: string): string =>
      JSON.stringify({ response_action: 'update', view: notice(sentence) })
    return this.#soon(
      work(),
      instead('your answer is under way; the message shows what comes of it'),
      instead(BROKEN),
    )
  }

  // ── Both ──

  /** The operator that somebody of Slack is, while policy lets that operator answer (P09). */
  async #operatorOf(tenant: string, { users }: SlackSpec, user: string): Promise<Result<string>> {
    const name = Object.hasOwn(users, user) ? users[user] : undefined
    if (name === undefined)
      return err(
        failure(
          'forbidden',
          `you are not among the people who may answer here: the channel’s \`users\` do not name ${user}`,
        ),
      )
    const directory = await directoryOf(this.#env, tenant)
    if (directory.state === 'suspended') return err(SUSPENDED)
    const operator = directory.operators.get(name)
    if (operator !== undefined && authorize(directory, operator, 'approval.decide').allowed) return ok(name)
    return err(failure('forbidden', 'you may not answer approvals any more'))
  }

  #answer(tenant: string, approval: Approval, by: string, answer: Answer): Promise<Result<Approval>> {
    return this.#run(tenant, approval).answer(split(approval.id).n, by, 'slack', {
      ...answer,
      digest: approval.digest,
    }) // L3: what the seal holds
  }

  #present(tenant: string, approval: Approval): Promise<Result<Approval>> {
    return this.#run(tenant, approval).approval(split(approval.id).n)
  }

  #run(tenant: string, { id }: Approval) {
    return runObject(this.#env, tenant, split(id).run)
  }

  /** What came of it, if that is known while Slack waits; it goes on in any case. */
  async #soon(work: Promise<string>, meanwhile: string, broken: string): Promise<string> {
    const done = work.catch((error: unknown) => {
      logError(crypto.randomUUID(), error)
      return broken
    })
    this.#later(done)
    const late = Promise.withResolvers<string>()
    const timer = setTimeout(() => late.resolve(meanwhile), LIMITS.slack_ack_ms)
    try {
      return await Promise.race([done, late.promise])
    } finally {
      clearTimeout(timer)
    }
  }
}
