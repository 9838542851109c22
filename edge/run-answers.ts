// How humans' answers reach a call: those given to it, and those that stand from before. Who may give one, and what the policy of that
// moment makes of it. Whatever comes of an answer is one event of the call, applied by its run; no state is changed here.

import type { Failure } from '../shared/failures.ts'
import { failure } from '../shared/failures.ts'
import type { Result } from '../shared/result.ts'
import { err, ok } from '../shared/result.ts'
import type { Answer, Approval, ArgumentChange, Decision, DryRun, Revision as Previewed } from '../shared/wire.ts'
import { isRevoked, onYesOf, type Unfolded, unfolded, written } from './approvals.ts'
import { editable, wholeChangesOf } from './argument-changes.ts'
import { assuranceOf, SUREST_WAY } from './assurance.ts'
import type { Told } from './decide.ts'
import { stillCounts } from './decide.ts'
import type { Loaded } from './directory.ts'
import { directoryOf } from './directory.ts'
import type { Env } from './env.ts'
import { sessionObject } from './env.ts'
import type { Answered, CallRecord, Event } from './lifecycle.ts'
import { whyNotAsked, withAnswer } from './lifecycle.ts'
import type { NewCall } from './proposal.ts'
import { byHumans, decideAnew, judgeAgain } from './proposal.ts'
import type { Redaction } from './redaction.ts'
import type { Revision } from './revision.ts'
import { revise } from './revision.ts'
import type { Booked, Ledger } from './run-ledger.ts'
import type { Room } from './run-outbox.ts'
import type { RunRow } from './run-record.ts'
import { approvalView } from './run-record.ts'
import type { RunStore } from './run-store.ts'
import type { UsedBy } from './shadow.ts'
import { keyOf, mayStand, standingOf } from './standing.ts'

const NO_APPROVAL = failure('not_found', 'no such approval')
const NO_OPERATOR = failure('forbidden', 'you are no operator any more')
const REVOKED = failure('link_revoked', 'the link was taken back')
const ONCE_ONLY = failure(
  'once_only',
  'policy does not let this yes stand for further calls, or not for so long: answer for this call alone, or for less time; nothing was recorded',
)
const BY_ITSELF = failure(
  'once_only',
  'the call brings files, or runs an interpreter in a folder that other calls can change, so its answer can’t cover other calls; nothing was recorded',
)
const SURER_ONLY = failure(
  'surer_only',
  'policy takes a yes to this call in the console or on the command line alone; nothing was recorded',
)
const OUTDATED = failure('outdated', 'this is not the call that you were shown')
const UNKNOWN = failure('unavailable', 'the session could not say whether the approval still stands')

/** The run as it is at this moment, and its one commit point. */
export type RunAccess = {
  row: () => RunRow | undefined
  commit: <T>(work: () => Result<T>) => Promise<Result<T>>
  apply: (record: CallRecord, event: Event) => Result<CallRecord>
  /** Of the one worker, where it is given. */
  ring: (record: CallRecord, worker?: string) => void
  /** Of the output of a call there is more. */
  wrote: (n: number) => void
}

/** What stands for a call, under the key that it was looked up by. */
export type Standings = { key: string; answers: readonly Answered[] }

/** What was found out for a proposal before it is decided. */
export type Found = { booked: Booked | null; room: Room; standings: Standings | null }

/** What changed arguments would come to; and whatever that leaves out, whole. */
export type Preview = { preview: Previewed; whole: { changes: ArgumentChange[] | null; texts: Unfolded[] } }

/** The reader of an approval, and the way in which they would answer it. */
export type Reader = { readonly by: string; readonly channel: string }

type Grounds = { booked: Booked | null; live: readonly string[] }

export class Answers {
  readonly #env: Env
  readonly #store: RunStore
  readonly #ledger: Ledger
  readonly #run: RunAccess
  /** Told by the session in the life of this object: what asked it just before must not act on its answer. */
  readonly #withdrawn = new Set<string>()

  constructor(env: Env, store: RunStore, ledger: Ledger, run: RunAccess) {
    this.#env = env
    this.#store = store
    this.#ledger = ledger
    this.#run = run
  }

  approval(n: number): Result<Approval> {
    const [row, record] = [this.#run.row(), this.#store.call(n)]
    const view = row === undefined || record === undefined ? undefined : approvalView(row.record, record)
    return view === undefined ? err(NO_APPROVAL) : ok(view)
  }

  /** The approval as one approver sees it, with the effect that their own yes would have now, given in this way. */
  async approvalFor(n: number, { by, channel }: Reader): Promise<Result<Approval>> {
    const row = this.#run.row()
    const directory = row === undefined ? undefined : await directoryOf(this.#env, row.record.tenant)
    const [shown, record, giver] = [this.approval(n), this.#store.call(n), directory?.operators.get(by)]
    if (!shown.ok || shown.value.status !== 'pending' || row === undefined || directory === undefined) return shown
    if (record === undefined || giver === undefined) return shown
    const yes: Answered = { by, since_ms: giver.since, decision: 'approve', channel, scope: 'once', reason: '', at_ms: Date.now() }
    if (!stillCounts(directory, yes)) return shown
    const answers = withAnswer(record.status.approval?.answers ?? [], yes)
    const { decision } = judgeAgain(directory, row, record, this.#ledger.knowing(directory, row, record, answers, null), 'operator')
    return ok({ ...shown.value, prompt: { ...shown.value.prompt, on_yes: onYesOf(decision, byHumans(decision)) } })
  }

  /** What the card of an approval left out. */
  async unfolded(n: number): Promise<Result<Unfolded[]>> {
    const [row, record] = [this.#run.row(), this.#store.call(n)]
    if (row === undefined || record === undefined || record.status.approval === null) return err(NO_APPROVAL)
    return ok(unfolded(record.status.approval.prompt, record.proposal.args, record.proposal.plan, await this.#redaction(row)))
  }

  /** What an operator would start from who changes the arguments. */
  async editable(n: number): Promise<Result<{ digest: string; arguments: Record<string, unknown> }>> {
    const [row, record] = [this.#run.row(), this.#store.call(n)]
    if (row === undefined || record === undefined || record.status.approval === null) return err(NO_APPROVAL)
    return ok({ digest: record.proposal.digest, arguments: editable(record.proposal.args, await this.#redaction(row)) })
  }

  async #redaction({ record }: RunRow): Promise<Redaction> {
    return (await directoryOf(this.#env, record.tenant)).redaction
  }

  async answer(n: number, by: string, channel: string, said: Answer): Promise<Result<Approval>> {
    const row = this.#run.row()
    if (row === undefined) return err(NO_APPROVAL)
    const directory = await directoryOf(this.#env, row.record.tenant)
    const giver = directory.operators.get(by)
    if (giver === undefined) return err(NO_OPERATOR) // P09: identity counts when the answer is given
    const booked = await this.#ledger.bookCall(directory, row.record, n)
    const answered = await this.#run.commit((): Result<{ record: CallRecord; given: Answered }> => {
      const record = this.#store.call(n)
      if (record === undefined || record.status.approval === null) return err(NO_APPROVAL)
      const { decision, scope, ttl_s } = said
      const reason = written(String(directory.redaction.of(said.reason))) // agents, journals and channels get it as it is kept
      const once: Answered = { by, since_ms: giver.since, decision, channel, scope: 'once', reason, at_ms: Date.now() }
      const given: Answered = { ...once, scope, ...(ttl_s === undefined ? {} : { ttl_s }) }
      const event = this.#heard(directory, row, record, booked, given, said)
      const done = event.ok ? this.#run.apply(record, event.value) : event
      return done.ok ? ok({ record: done.value, given }) : done
    })
    if (!answered.ok) return answered
    const stood = await this.#stand(row, answered.value.record, answered.value.given, directory.policies.digest)
    return stood.ok ? this.approval(n) : stood
  }

  /** What an answer is to a call: by whom it may be given, to what, and what policy makes of it. An ended call refuses it by itself. */
  #heard(directory: Loaded, row: RunRow, record: CallRecord, booked: Booked | null, given: Answered, said: Answer): Result<Event> {
    const { by, channel, decision: word } = given
    const { status, proposal } = record
    const { answers = [], edits = [] } = status.approval ?? {}
    const judged = (answer: Answered) => this.judge(directory, record, withAnswer(answers, answer), booked)
    if (status.state !== 'awaiting_approval') return ok({ kind: 'answered', answer: given, decision: judged(given) })
    if (given.scope !== 'once' && proposal.plan !== null && !mayStand(proposal.plan)) return err(BY_ITSELF)
    if (channel === 'link' && this.#isRevoked(proposal.n, by)) return err(REVOKED) // meanwhile
    if (said.digest === undefined ? word === 'approve' && edits.length > 0 : said.digest !== proposal.digest) return err(OUTDATED) // L3
    if (said.arguments !== undefined) return this.#edit(directory, row, record, booked, given, said)
    const decision = judged(given)
    const instead = word === 'approve' && decision.effect === 'deny' ? insteadOf(given, judged) : undefined
    return instead === undefined ? ok({ kind: 'answered', answer: given, decision }) : err(instead)
  }

  /** A yes to other arguments. What policy denies is refused, and the question stays as it was. */
  #edit(directory: Loaded, row: RunRow, record: CallRecord, booked: Booked | null, given: Answered, said: Answer): Result<Event> {
    const { digest } = record.proposal
    const changed = this.#revised(directory, row, record, booked, given, said.arguments ?? {})
    if (!changed.ok) return changed
    const { permitted, revision } = changed.value
    if (said.becomes !== undefined && said.becomes !== revision.proposal.digest) return err(OUTDATED)
    this.#store.keepSnapshot(revision.snapshot)
    const { changes, more, ...revised } = revision
    const edit = { by: given.by, channel: given.channel, at_ms: given.at_ms, from: digest, changes, more }
    return ok({ kind: 'edited', answer: given, revised, edit, permitted })
  }

  #revised(
    directory: Loaded,
    row: RunRow,
    record: CallRecord,
    booked: Booked | null,
    given: Answered,
    args: Record<string, unknown>,
  ): Result<{ revision: Revision; permitted: Decision }> {
    const revision = revise(
      directory,
      row,
      record,
      { args, channel: given.channel },
      this.#ledger.knowing(directory, row, record, [], booked),
    )
    if (!revision.ok) return revision
    const { proposal, decision } = revision.value
    const changed: CallRecord = { proposal, status: { ...record.status, decision } }
    const { decision: permitted } = judgeAgain(directory, row, changed, this.#ledger.knowing(directory, row, changed, [given], booked))
    return permitted.effect === 'deny'
      ? err(failure('denied', `policy denies the changed call: ${permitted.reason}`))
      : ok({ revision: revision.value, permitted })
  }

  /** What changed arguments would come to with the yes of whoever asks. Nothing comes of it. */
  async preview(n: number, by: string, channel: string, args: Record<string, unknown>): Promise<Result<Preview>> {
    const row = this.#run.row()
    if (row === undefined) return err(NO_APPROVAL)
    const directory = await directoryOf(this.#env, row.record.tenant)
    const giver = directory.operators.get(by)
    if (giver === undefined) return err(NO_OPERATOR)
    const record = this.#store.call(n)
    if (record === undefined || record.status.approval === null) return err(NO_APPROVAL)
    if (record.status.state !== 'awaiting_approval') return err(whyNotAsked(record.status))
    const given: Answered = { by, since_ms: giver.since, decision: 'approve', channel, scope: 'once', reason: '', at_ms: Date.now() }
    const changed = this.#revised(directory, row, record, null, given, args)
    if (!changed.ok) return changed
    const { permitted, revision } = changed.value
    const { changes, more, prompt, proposal } = revision
    const effect = permitted.effect === 'allow' ? 'allow' : 'ask'
    const { redaction } = directory
    const whole = {
      changes: wholeChangesOf(record.proposal.args, proposal.args, redaction),
      texts: unfolded(prompt, proposal.args, proposal.plan, redaction),
    }
    return ok({ preview: { digest: record.proposal.digest, becomes: proposal.digest, changes, more, effect, prompt }, whole })
  }

  /** The question stays. Asked again, it is done already. */
  async revokeLinks(n: number, by: string, of: string | null): Promise<Result<Approval>> {
    const done = await this.#run.commit((): Result<unknown> => {
      const [record, before] = [this.#store.call(n), this.approval(n)]
      if (record === undefined || !before.ok) return err(NO_APPROVAL)
      const { links_revoked } = before.value
      if (links_revoked === 'all' || (of !== null && isRevoked(before.value, of))) return before
      return this.#run.apply(record, { kind: 'links_revoked', by, of })
    })
    return done.ok ? this.approval(n) : done
  }

  #isRevoked(n: number, approver: string): boolean {
    const approval = this.approval(n)
    return approval.ok && isRevoked(approval.value, approver)
  }

  /** Only what was taken as an answer stands: a late one, or one that policy overruled, does not (N19). */
  async #stand({ record: run }: RunRow, record: CallRecord, given: Answered, policySet: string): Promise<Result<true>> {
    const taken = given.decision === 'deny' ? record.status.state === 'rejected' : record.status.state !== 'denied'
    const kept = taken ? standingOf(run, record, given, policySet) : null
    if (kept === null) return ok(true)
    const besides = 'your answer to this call is recorded, and stands for no other'
    const stood = await sessionObject(this.#env, run)
      .stand(kept)
      .catch(() => err(failure('unavailable', 'the session could not be reached')))
    return stood.ok ? stood : err(failure(stood.error.code, `${besides}: ${stood.error.detail}`))
  }

  /** What stands for a call that policy asks about. Who can't be asked has said nothing, and a human is (L6). */
  async standing({ record: run }: RunRow, key: string): Promise<Standings> {
    const answers = await sessionObject(this.#env, run)
      .said(key, run.id)
      .catch(() => [])
    return { key, answers }
  }

  /** The key under which an answer could stand for this call; `null` where nobody has to be asked. */
  #keyFor({ record: run }: RunRow, { proposal, decision, ask }: NewCall): string | null {
    const { plan } = proposal
    return decision.effect !== 'ask' || ask === null || plan === null || !mayStand(plan)
      ? null
      : keyOf(run, proposal, plan, decision.policy_set)
  }

  /**
   * A new call with what stands for it, or the key to look it up by. What counts are the answers of those who may still give one, as policy
   * takes them: a yes that policy does not let stand for this call is none, and humans are asked as if it were not there.
   */
  resolve(directory: Loaded, row: RunRow, call: NewCall, standings: Standings | null, used: UsedBy): NewCall | { key: string } {
    const { proposal, decision, ask } = call
    const key = this.#keyFor(row, call)
    if (key === null || ask === null) return call
    if (standings === null) return { key }
    const answers = standings.key === key ? standings.answers : []
    const counts = answers.filter((answer) => stillCounts(directory, answer) && !this.#withdrawn.has(answer.standing ?? ''))
    const no = counts.find(({ decision }) => decision === 'deny')
    if (no !== undefined) return { ...call, ask: { ...ask, answers: [no] } }
    if (counts.length === 0) return call
    const record: CallRecord = { proposal, status: { state: 'awaiting_approval', decision, approval: ask } }
    const { decision: permitted } = judgeAgain(directory, row, record, { answers: counts, used: used(directory), now: proposal.createdAt })
    if (permitted.effect === 'deny') return call
    const which = counts.map(({ standing }) => `\`${standing}\``).join(', ') // an agent reads it: whose they are is in the journal
    const named = permitted.effect === 'allow' ? { ...decision, reason: `${decision.reason}; approved by what stands: ${which}` } : decision
    return { ...call, decision: named, ask: { ...ask, answers: counts }, permitted }
  }

  /** What a claim is judged on: a place in the session's count, and which of the answers that stand behind the call still do. */
  async grounds(directory: Loaded, row: RunRow, n: number): Promise<Result<Grounds>> {
    const booked = await this.#ledger.bookCall(directory, row.record, n)
    const status = this.#store.call(n)?.status
    const ids = status?.approval?.answers.flatMap(({ standing }) => standing ?? []) ?? []
    if (status?.state !== 'granted' || ids.length === 0) return ok({ booked, live: [] })
    const live = await sessionObject(this.#env, row.record)
      .stands(ids)
      .catch(() => null)
    return live === null ? err(UNKNOWN) : ok({ booked, live }) // L6
  }

  /** Nothing runs under an answer that was taken back: policy is asked without it. */
  judgeClaim(directory: Loaded, record: CallRecord, { booked, live }: Grounds): Decision {
    const counts = ({ standing }: Answered) => standing === undefined || (live.includes(standing) && !this.#withdrawn.has(standing))
    return this.judge(directory, record, (record.status.approval?.answers ?? []).filter(counts), booked)
  }

  withdrawn(ids: readonly string[]): void {
    for (const id of ids) this.#withdrawn.add(id)
  }

  /** What would be decided of a known call now. */
  async explanation(record: CallRecord, told: Told): Promise<Result<DryRun>> {
    const row = this.#run.row()
    if (row === undefined) return err(NO_APPROVAL)
    const directory = await directoryOf(this.#env, row.record.tenant)
    const knowing = this.#ledger.knowing(directory, row, record, record.status.approval?.answers ?? [], null)
    return decideAnew(directory, row, record, knowing, told)
  }

  /** The policy of now on a known call, with these answers; what was in force is kept. */
  judge(directory: Loaded, record: CallRecord, answers: readonly Answered[], booked: Booked | null): Decision {
    const row = this.#run.row()
    if (row === undefined) throw new Error('this run does not exist')
    const { decision, snapshot } = judgeAgain(directory, row, record, this.#ledger.knowing(directory, row, record, answers, booked))
    if (snapshot !== null) this.#store.keepSnapshot(snapshot)
    return decision
  }
}

/** Where policy takes another yes of theirs, this one must not end the question: it is refused, and they are told which. */
function insteadOf(given: Answered, judged: (answer: Answered) => Decision): Failure | undefined {
  const takes = (answer: Answered): boolean => judged(answer).effect !== 'deny'
  const once: Answered = { ...given, scope: 'once' }
  if (given.scope !== 'once' && takes(once)) return ONCE_ONLY
  const surer: Answered = { ...given, channel: SUREST_WAY }
  if (assuranceOf(given.channel) !== assuranceOf(SUREST_WAY) && (takes(surer) || takes({ ...surer, scope: 'once' }))) return SURER_ONLY
  return undefined
}
