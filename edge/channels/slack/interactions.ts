// Handles what people do in Slack, step by step: verify the signature, then the app and workspace,
// the seal of the button, and the operator; then pass the answer to the run, which accepts or
// refuses it. A button answers its own approval or none.

import { failure } from '../../../shared/failures.ts'
import { splitId } from '../../../shared/ids.ts'
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
import { endedCard, escaped, FIELDS, form, notice, parseChoice, sealUse } from './card.ts'
import type { About, Interaction, SignedRequest } from './request.ts'
import { FORGED, isFresh, readInteraction, signers } from './request.ts'
import type { SlackSpec } from './slack.ts'
import { openForm, reply } from './slack.ts'

const OTHER_APP = err(
  failure('slack_refused', 'the request comes from another Slack app or another workspace'),
)
const NO_CARD = err(failure('slack_refused', 'this button belongs to no pending approval of this channel'))
const BROKEN = 'an internal error occurred; the approval’s page shows whether your answer was recorded'

/** A channel, and the approval of one of its cards. */
type CardContext = { name: string; spec: SlackSpec; approval: Approval }
type ButtonPress = Extract<Interaction, { kind: 'pressed' }>
type FormSubmission = Extract<Interaction, { kind: 'sent' }>

export class SlackInteractions {
  readonly #env: Env
  readonly #store: ChannelStore
  readonly #post: Post
  /** Lets work continue after its request was answered. */
  readonly #later: (work: Promise<unknown>) => void

  constructor(env: Env, store: ChannelStore, post: Post, later: (work: Promise<unknown>) => void) {
    this.#env = env
    this.#store = store
    this.#post = post
    this.#later = later
  }

  /** Returns the response body for Slack, within the three seconds that Slack waits. */
  async take(tenant: string, signed: SignedRequest): Promise<Result<string>> {
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
    const interaction = read.value
    const ours = apps.filter(
      ({ spec }) => spec.app_id === interaction.app && spec.team_id === interaction.team,
    )
    if (ours.length === 0) return OTHER_APP // P10
    if (interaction.kind === 'other') return ok('')
    const card = this.#cardOf(tenant, ours, interaction.about)
    if (card === undefined) return NO_CARD // P07
    if (interaction.kind === 'sent') return ok(await this.#submitForm(tenant, card, interaction))
    return ok(await this.#withinAck(this.#pressButton(tenant, card, interaction), '', ''))
  }

  /** Whether the tenant has any Slack app. */
  isOpen(): boolean {
    return this.#apps().length > 0
  }

  #apps(): { name: string; spec: SlackSpec }[] {
    return this.#store.channels().flatMap(({ name, spec }) => (spec.kind === 'slack' ? [{ name, spec }] : []))
  }

  /** Finds a card by its seal, which binds the approval, the channel and the use. */
  #cardOf(
    tenant: string,
    apps: { name: string; spec: SlackSpec }[],
    { approval: id, use, seal }: About,
  ): CardContext | undefined {
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

  async #pressButton(
    tenant: string,
    card: CardContext,
    { about, user, trigger, reply: to }: ButtonPress,
  ): Promise<string> {
    const operator = await this.#operatorOf(tenant, card.spec, user)
    if (!operator.ok) return this.#whisper(to, operator.error.detail)
    if (about.use === 'more') return this.#openForm(tenant, card, trigger, to)
    const answered = await this.#answer(tenant, card.approval, operator.value, {
      decision: about.use,
      scope: 'once',
      reason: '',
    })
    if (!answered.ok) await this.#whisper(to, answered.error.detail)
    const present = answered.ok ? answered : await this.#present(tenant, card.approval)
    if (present.ok && present.value.status !== 'pending') return this.#showOutcome(to, present.value)
    return answered.ok ? this.#whisper(to, 'your answer is recorded; more answers are needed') : ''
  }

  async #openForm(
    tenant: string,
    { name, spec, approval }: CardContext,
    trigger: string,
    to: string | null,
  ): Promise<string> {
    const present = await this.#present(tenant, approval)
    if (!present.ok) return this.#whisper(to, present.error.detail)
    if (present.value.status !== 'pending') return this.#showOutcome(to, present.value)
    const state = `${approval.id}.form.${this.#seal(tenant, approval, name, 'form')}`
    const opened = await openForm(spec, trigger, form(present.value, state), this.#post)
    return opened.ok ? '' : this.#whisper(to, `the form did not open: ${opened.error.why}`)
  }

  /** Shows a sentence only to the person who pressed the button. */
  async #whisper(to: string | null, sentence: string): Promise<string> {
    await reply(to, { alone: escaped(sentence) }, this.#post)
    return ''
  }

  /**
   * Replaces the message that was pressed by the outcome, even if the outbox does not know the
   * message.
   */
  async #showOutcome(to: string | null, approval: Approval): Promise<string> {
    await reply(to, { instead: endedCard(approval) }, this.#post)
    return ''
  }

  // ── The form ──

  async #submitForm(
    tenant: string,
    { spec, approval }: CardContext,
    { user, answer, reason }: FormSubmission,
  ): Promise<string> {
    const refused = (sentence: string): string =>
      JSON.stringify({ response_action: 'errors', errors: { [FIELDS.answer]: sentence } })
    const choice = parseChoice(answer)
    if (choice === undefined) return refused('choose an answer')
    const work = async (): Promise<string> => {
      const operator = await this.#operatorOf(tenant, spec, user)
      const answered = operator.ok
        ? await this.#answer(tenant, approval, operator.value, { ...choice, reason })
        : operator
      return answered.ok ? '' : refused(answered.error.detail)
    }
    const instead = (sentence: string): string =>
      JSON.stringify({ response_action: 'update', view: notice(sentence) })
    return this.#withinAck(
      work(),
      instead('your answer is being processed; the message will show the result'),
      instead(BROKEN),
    )
  }

  // ── Both ──

  /** The operator that a Slack user is mapped to, if policy lets that operator answer (P09). */
  async #operatorOf(tenant: string, { users }: SlackSpec, user: string): Promise<Result<string>> {
    const name = Object.hasOwn(users, user) ? users[user] : undefined
    if (name === undefined)
      return err(
        failure('forbidden', `you may not answer here: the channel’s \`users\` do not include ${user}`),
      )
    const directory = await directoryOf(this.#env, tenant)
    if (directory.state === 'suspended') return err(SUSPENDED)
    const operator = directory.operators.get(name)
    if (operator !== undefined && authorize(directory, operator, 'approval.decide').allowed) return ok(name)
    return err(failure('forbidden', 'you may no longer answer approvals'))
  }

  #answer(tenant: string, approval: Approval, by: string, answer: Answer): Promise<Result<Approval>> {
    return this.#run(tenant, approval).answer(splitId(approval.id).n, by, 'slack', {
      ...answer,
      digest: approval.digest, // L3: the digest that the seal covers
    })
  }

  #present(tenant: string, approval: Approval): Promise<Result<Approval>> {
    return this.#run(tenant, approval).approval(splitId(approval.id).n)
  }

  #run(tenant: string, { id }: Approval) {
    return runObject(this.#env, tenant, splitId(id).run)
  }

  /**
   * Returns the result if it is ready while Slack waits, else `interim`. The work continues either
   * way.
   */
  async #withinAck(work: Promise<string>, interim: string, broken: string): Promise<string> {
    const done = work.catch((error: unknown) => {
      logError(error)
      return broken
    })
    this.#later(done)
    const late = Promise.withResolvers<string>()
    const timer = setTimeout(() => late.resolve(interim), LIMITS.slack_ack_ms)
    try {
      return await Promise.race([done, late.promise])
    } finally {
      clearTimeout(timer)
    }
  }
}
