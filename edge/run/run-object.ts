// One run: its calls, budget, approvals and journal. Every change of a call goes through `step`; this object stores what
// it returns, in one transaction with the journal entry and the edge's attestation (L5), and then performs the effects.
// It never talks to Redis and knows nothing of HTTP.

import { DurableObject } from 'cloudflare:workers'
import type { Bundle } from '../../shared/evidence/bundle.ts'
import type { Envelope } from '../../shared/evidence/dsse.ts'
import type { JournalEntry } from '../../shared/evidence/journal.ts'
import type { PolicySnapshot } from '../../shared/evidence/policy-snapshot.ts'
import type { CallState } from '../../shared/evidence/statement.ts'
import type { Means } from '../../shared/evidence/worker-proof.ts'
import { failure } from '../../shared/failures.ts'
import type { HeldFile } from '../../shared/plan/call-files.ts'
import { err, ok, type Result } from '../../shared/result.ts'
import type { Answer, Approval, Editable } from '../../shared/wire/approvals.ts'
import type { Call, DryRun } from '../../shared/wire/calls.ts'
import type { Run } from '../../shared/wire/runs.ts'
import type { Claim, Settlement } from '../../shared/wire/workers.ts'
import type { Preview } from '../approvals/argument-edits.ts'
import type { Unfolded } from '../approvals/card.ts'
import { type Env, identityOf } from '../bindings.ts'
import { dueAt } from '../call/due-at.ts'
import {
  type CallRecord,
  type Canceller,
  type Event,
  hasEnded,
  type Proposal,
  step,
} from '../call/lifecycle.ts'
import type { RunRecord, RunRow } from '../call/run.ts'
import type { WorkerKey } from '../call/settlement.ts'
import { folderAfter, holderOf } from '../call/shared-folder.ts'
import { type Propose, prepare, sameAgain } from '../decision/proposal.ts'
import { directoryAt, isDeleted, type Loaded } from '../directory/directory.ts'
import { Alarm } from '../platform/alarm.ts'
import { eraseObject } from '../platform/database.ts'
import { GroupCommit } from '../platform/group-commit.ts'
import { Waiters } from '../platform/waiters.ts'
import type { Outcome } from '../rehearsal/past-call.ts'
import { Answers, type Found, type Reader, type RunAccess } from './approval-answers.ts'
import { Evidence } from './evidence.ts'
import { RunFiles } from './file-uploads.ts'
import { needsWorker, Outbox, queueIsFull, roomFor } from './outbox.ts'
import { type Heard, type Listener, LiveOutput, type News } from './output-subscribers.ts'
import { rehearseRun, type Script } from './rehearse.ts'
import { SkillWork } from './skill-calls.ts'
import { RunStore } from './store.ts'
import { type Booked, Ledger } from './usage-ledger.ts'
import { callView, journalled, runView } from './views.ts'
import { type Claimant, type Known, Work } from './worker-calls.ts'
import { Leases } from './worker-leases.ts'

const IDLE_CHECK_MS = 24 * 3600_000
const NO_CALL = failure('not_found', 'no such call')
const NO_RUN = failure('not_found', 'no such run')
const CANCELLED = failure('run_cancelled', 'the run was cancelled')
const OTHER_RUN = failure('idempotency_key_reused', 'the key made a run with other settings')

/** A call; or the key of a standing answer for it that has not been looked up yet. */
type Proposed = Result<CallRecord | { key: string }>

export class RunObject extends DurableObject<Env> {
  readonly #store = new RunStore(this.ctx)
  readonly #commits = new GroupCommit(this.ctx.storage)
  readonly #waiters = new Waiters<number | 'journal'>()
  readonly #alarm = new Alarm(this.ctx.storage, () => this.#store.nextDue())
  readonly #ledger = new Ledger(this.env, this.#store)
  readonly #outbox = new Outbox(this.env, this.#store, {
    row: () => this.#run,
    note: (row) => this.#note(row),
    arm: (at) => this.#alarm.arm(at),
  })
  readonly #access: RunAccess = {
    row: () => this.#row,
    commit: (work) => this.#commit(work),
    apply: (record, event) => this.#apply(record, event),
    ring: (record, worker) => this.#ring(record, worker),
    wrote: (n) => this.#live.wake(n),
  }
  readonly #answers = new Answers(this.env, this.#store, this.#ledger, this.#access)
  readonly #evidence = new Evidence(this.env, this.#store, this.#access)
  readonly #leases = new Leases()
  readonly #live = new LiveOutput(this.#store)
  readonly #files = new RunFiles(this.env, this.#store, this.#access, (at) => this.#alarm.arm(at))
  readonly #skills = new SkillWork(this.env, this.#store, this.#answers, this.#access)
  readonly #work = new Work(this.env, this.#store, this.#answers, this.#leases, this.#files, this.#access)
  #row: RunRow | undefined = this.#store.run()

  // ── Agents and operators; `agent` is null where the caller may see every agent's ──

  async create(record: RunRecord): Promise<Result<Run>> {
    return this.#commit(() => {
      if (!this.#sameOrNew(record)) return err(OTHER_RUN)
      this.#lookAgain()
      return ok(runView(this.#run))
    })
  }

  async propose(input: Propose): Promise<Result<Call>> {
    const run = this.#row?.record ?? input.create
    if (run?.agent !== input.agent) return err(NO_RUN)
    const directory = await directoryAt(this.env, run.tenant, input.version)
    const repeated = input.key !== null && this.#store.callByKey(input.key) !== undefined
    const [booked, room] = await Promise.all([
      this.#ledger.book(directory, run, input),
      roomFor(this.env, directory, run, repeated),
    ])
    const asked = await this.#commit(() => this.#propose(directory, input, { booked, room, standings: null }))
    if (!asked.ok || !('key' in asked.value)) return this.#proposed(run, input, booked, asked)
    const { key } = asked.value
    const [asking, standings] = await Promise.all([
      this.#ledger.asking(run, booked),
      this.#answers.standing(this.#run, key),
    ])
    const proposed = await this.#commit(() =>
      this.#propose(directory, input, { booked: asking, room, standings }),
    )
    return this.#proposed(run, input, asking, proposed)
  }

  /** What came of it is told to whoever counts. */
  async #proposed(
    run: RunRecord,
    input: Propose,
    booked: Booked | null,
    proposed: Proposed,
  ): Promise<Result<Call>> {
    const record = proposed.ok ? (proposed.value as CallRecord) : null // with what stands there is no more to ask
    if (booked !== null) this.ctx.waitUntil(this.#ledger.settled(run, booked, record))
    if (!proposed.ok) {
      this.#lookAgain()
      return proposed
    }
    if (record === null) throw new Error('a call was proposed, and there is none')
    return hasEnded(record.status)
      ? ok(this.#view(record))
      : this.read(input.agent, record.proposal.n, input.waitMs)
  }

  async putFile(
    agent: string,
    digest: string,
    bytes: Uint8Array,
  ): Promise<Result<{ sha256: string; bytes: number }>> {
    return this.#files.put(
      () => (this.#mine(agent) ? (this.#run.cancelled ? CANCELLED : undefined) : NO_RUN),
      digest,
      bytes,
    )
  }

  async listFiles(agent: string | null): Promise<Result<HeldFile[]>> {
    return this.#mine(agent) ? ok(this.#store.files.list()) : err(NO_RUN)
  }

  async read(agent: string | null, n: number, waitMs: number): Promise<Result<Call>> {
    const record = this.#readable(agent, n)
    if (record === undefined) return err(NO_CALL)
    if (hasEnded(record.status) || waitMs <= 0) return ok(this.#view(record))
    await this.#waiters.wait(n, waitMs)
    return this.read(agent, n, 0)
  }

  async readRun(agent: string | null): Promise<Result<Run>> {
    return this.#mine(agent) ? ok(runView(this.#run)) : err(NO_RUN)
  }

  async journal(agent: string | null, after: number, waitMs: number): Promise<Result<JournalEntry[]>> {
    if (!this.#mine(agent)) return err(NO_RUN)
    if (this.#run.seq <= after) await this.#waiters.wait('journal', waitMs)
    return ok(this.#store.journal(this.#run.record.id, after, agent === null))
  }

  async hear(
    agent: string | null,
    n: number,
    ...told: [Listener | null, Heard, number]
  ): Promise<Result<News>> {
    return this.#live.hear(() => this.#readable(agent, n), ...told)
  }

  async unfollow(listener: Listener): Promise<void> {
    this.#live.leave(listener)
  }

  async cancel(agent: string | null, n: number, by: Canceller): Promise<Result<Call>> {
    return this.#commit(() => {
      const record = this.#readable(agent, n)
      if (record === undefined) return err(NO_CALL)
      if (record.status.state === 'running' && record.status.cancelRequested) return ok(this.#view(record)) // asked for before
      const done = this.#apply(record, { kind: 'cancel', by })
      return done.ok ? ok(this.#view(done.value)) : done
    })
  }

  async cancelRun(agent: string | null, by: Canceller): Promise<Result<Run>> {
    return this.#commit(() => {
      if (!this.#mine(agent)) return err(NO_RUN)
      for (const record of this.#store.live()) this.#apply(record, { kind: 'cancel', by })
      if (!this.#run.cancelled)
        this.#save({
          ...this.#store.append(this.#run, Date.now(), 'run_cancelled', null, { by }),
          cancelled: true,
        })
      this.#waiters.wake('journal')
      return ok(runView(this.#run))
    })
  }

  async attestation(agent: string | null, n: number): Promise<Result<Bundle>> {
    return this.#evidence.attestation(this.#readable(agent, n))
  }

  async snapshot(agent: string | null, n: number): Promise<Result<PolicySnapshot>> {
    return this.#evidence.snapshot(this.#readable(agent, n))
  }

  async file(
    agent: string | null,
    n: number,
    digest: string,
  ): Promise<Result<{ path: string; bytes: Uint8Array }>> {
    return this.#evidence.file(this.#readable(agent, n), digest)
  }

  async explanation(agent: string | null, n: number): Promise<Result<DryRun>> {
    const record = this.#readable(agent, n)
    if (record === undefined) return err(NO_CALL)
    return this.#answers.explanation(record, agent === null ? 'operator' : 'agent')
  }

  async approval(n: number, reader?: Reader): Promise<Result<Approval>> {
    return reader === undefined ? this.#answers.approval(n) : this.#answers.approvalFor(n, reader)
  }

  async unfolded(n: number): Promise<Result<Unfolded[]>> {
    return this.#answers.unfolded(n)
  }

  async answer(n: number, by: string, channel: string, answer: Answer): Promise<Result<Approval>> {
    return this.#answers.answer(n, by, channel, answer)
  }

  async editable(n: number): Promise<Result<Editable>> {
    return this.#answers.editable(n)
  }

  async preview(
    n: number,
    by: string,
    channel: string,
    args: Record<string, unknown>,
  ): Promise<Result<Preview>> {
    return this.#answers.preview(n, by, channel, args)
  }

  async revokeLinks(n: number, by: string, of: string | null): Promise<Result<Approval>> {
    return this.#answers.revokeLinks(n, by, of)
  }

  /** By their session, which has ended them. */
  async standingWithdrawn(ids: readonly string[]): Promise<void> {
    this.#answers.withdrawn(ids)
  }

  // ── Workers ──

  async claim(n: number, worker: Claimant, means: Means): Promise<Result<Claim>> {
    return this.#work.claim(n, worker, means)
  }

  async inputPart(
    n: number,
    worker: string,
    digest: string,
    part: number,
  ): Promise<Result<{ data: string }>> {
    return this.#work.inputPart(n, worker, digest, part)
  }

  async putOutput(
    n: number,
    worker: string,
    digest: string,
    bytes: Uint8Array,
  ): Promise<Result<{ sha256: string; bytes: number }>> {
    return this.#work.putOutput(n, worker, digest, bytes)
  }

  async output(...chunk: Parameters<Work['output']>): ReturnType<Work['output']> {
    return this.#work.output(...chunk)
  }

  async settle(
    n: number,
    worker: WorkerKey,
    settlement: Settlement,
  ): Promise<Result<{ state: CallState; attestation: Envelope }>> {
    return this.#work.settle(n, worker, settlement)
  }

  async renew(worker: string, running: ReadonlyArray<{ n: number; fence: number }>): Promise<number[]> {
    return this.#work.renew(worker, running)
  }

  // ── Other objects ──

  /** For a session that counts: what became of the calls under these keys. */
  async shares(keys: readonly string[]) {
    return this.#ledger.shares(keys)
  }

  /** What another policy set would have said of these calls; nothing comes of it. */
  async rehearse(script: Script): Promise<Result<Outcome[]>> {
    return this.#row === undefined ? err(NO_RUN) : rehearseRun(this.env, this.#store, this.#row, script)
  }

  /** Part of deleting the tenant. Returns the session of the run, if the run existed. */
  async erase(): Promise<Pick<RunRecord, 'agent' | 'session'> | null> {
    const { agent, session } = this.#row?.record ?? {}
    await eraseObject(this.ctx)
    return agent === undefined || session === undefined ? null : { agent, session }
  }

  // ── Time ──

  override async alarm(): Promise<void> {
    if (this.#alarm.rang()) this.#leases.slept()
    if (this.#row === undefined) return
    if (await isDeleted(this.env, this.#row.record.tenant)) return eraseObject(this.ctx)
    const heard = await this.#work.heard(this.#row)
    await this.#commit(() => {
      const now = Date.now()
      for (const record of this.#store.due(now)) this.#due(record, now, heard)
      this.#files.drop(now)
      const next = this.#store.nextDue()
      if (next !== null) this.#alarm.arm(next)
      this.#lookAgain()
      return ok(true)
    })
    await Promise.all([this.#outbox.flush(), this.#files.tell()])
  }

  /** No list of the tenant names a run without calls, so the run itself checks once a day whether its tenant was deleted. */
  #lookAgain(): void {
    if (this.#row?.calls === 0) this.#alarm.arm(Date.now() + IDLE_CHECK_MS)
  }

  #due(record: CallRecord, now: number, heard: Known): void {
    const { status, proposal } = record
    const event = this.#work.due(record, this.#run, heard, now)
    if (this.#apply(record, event).ok) {
      const holder = holderOf(this.#run.folder, proposal.plan)
      if (event.folderGone !== undefined && holder !== null) this.#outbox.silence(proposal, holder)
      return
    }
    this.#ring(record)
    this.#store.updateCall(record, dueAt(status, now, event.leaseUntil), false)
  }

  #ring({ proposal, status }: CallRecord, worker?: string): void {
    if (status.state !== 'granted') return
    if (needsWorker(proposal)) this.#outbox.ring(proposal, status.until, worker)
    else this.ctx.waitUntil(this.#skills.carry(proposal.n))
  }

  // ── Inside ──

  #propose(directory: Loaded, input: Propose, { booked, room, standings }: Found): Proposed {
    if (input.create !== null && !this.#sameOrNew(input.create)) return err(OTHER_RUN)
    if (!this.#mine(input.agent)) return err(NO_RUN)
    const known = input.key === null ? undefined : this.#store.callByKey(input.key)
    if (known !== undefined) return sameAgain(directory, known, input)
    if (!room.counted.ok) return room.counted
    const files = this.#store.files.sized(input.files)
    if (!files.ok) return files
    const used = (by: Loaded) => this.#ledger.used(by, this.#run, input.tool, booked)
    const prepared = prepare(
      directory,
      this.#run,
      { ...input, files: files.value },
      { used, pending: () => this.#store.pendingApprovals(), now: Date.now() },
    )
    if (prepared.kind === 'closed') return err(prepared.failure)
    const row = this.#run
    if (prepared.kind === 'refused') {
      this.#save({ ...row, denied: row.denied + 1 }) // who proposes can't grope without end; dry runs are not counted
      return err(prepared.failure)
    }
    const call = this.#answers.resolve(directory, row, prepared, standings, used)
    if ('key' in call) return ok(call)
    const { proposal, decision, ask, snapshot, permitted } = call
    const fits = needsWorker(proposal) ? !room.full : this.#skills.hasRoom(proposal.plan)
    if (!fits && decision.effect !== 'deny') return err(queueIsFull(proposal)) // before anybody is asked
    this.#store.keepSnapshot(snapshot)
    this.#store.files.keep(files.value, Date.now())
    const denied = decision.effect === 'deny' ? 1 : 0
    this.#row = { ...row, calls: proposal.n, allowed: row.allowed + 1 - denied, denied: row.denied + denied }
    return this.#apply(
      proposal,
      { kind: 'proposed', decision, ask, ...(permitted === undefined ? {} : { permitted }) },
      input.key ?? booked?.key ?? null,
    )
  }

  /** The one commit point of a call: its new status, the journal entry, the edge's attestation, the run's head. */
  #apply(from: CallRecord | Proposal, event: Event, key: string | null = null): Result<CallRecord> {
    const now = Date.now()
    const before = 'status' in from ? from.status : null
    const stepped = step(from, event, now)
    if (!stepped.ok) return stepped
    const { effects, journal } = stepped.value
    const proposal = stepped.value.proposal ?? ('status' in from ? from.proposal : from)
    const record = this.#evidence.attested(
      { proposal, status: stepped.value.status },
      before,
      effects.includes('attest'),
    )
    const { status } = record
    const mirror = effects.includes('mirror')
    const due = dueAt(status, now)
    if (before === null) this.#store.insertCall(record, key, due, mirror)
    else this.#store.updateCall(record, due, mirror)
    this.#ledger.note(record)
    const run = this.#store.append(this.#run, now, journal.kind, proposal.n, {
      ...journal.body,
      ...journalled(record, before === null),
    })
    this.#save({ ...run, folder: folderAfter(run.folder, record, event, () => this.#store.live()) })
    if (due !== null) this.#alarm.arm(due)
    if (effects.includes('ring')) this.#ring(record)
    if (event.kind === 'cancel') this.#skills.stop(proposal.n)
    if (before?.state === 'granted' && status.state !== 'granted' && needsWorker(proposal))
      this.#outbox.left(proposal)
    if (mirror || hasEnded(status)) this.#outbox.soon(mirror)
    if (hasEnded(status)) this.#waiters.wake(proposal.n)
    if (before?.state === 'running' && status.state !== 'running' && event.kind !== 'settled')
      this.#store.dropOutput(proposal.n) // nobody vouches for it
    this.#live.wake(proposal.n)
    this.#waiters.wake('journal')
    return ok(record)
  }

  #sameOrNew(record: RunRecord): boolean {
    this.#row ??= this.#store.createRun(record)
    return this.#row.record.fingerprint === record.fingerprint && this.#row.record.agent === record.agent
  }

  get #run(): RunRow {
    if (this.#row === undefined) throw new Error('this run does not exist')
    return this.#row
  }

  #save(row: RunRow): void {
    this.#note(row)
    this.#store.saveRun(row)
  }

  #note(row: RunRow): void {
    this.#row = row
  }

  #mine(agent: string | null): boolean {
    return this.#row !== undefined && (agent === null || agent === this.#row.record.agent)
  }

  #readable(agent: string | null, n: number): CallRecord | undefined {
    return this.#mine(agent) ? this.#store.call(n) : undefined
  }

  #view(record: CallRecord): Call {
    const kept =
      hasEnded(record.status) && record.status.finished !== null
        ? this.#store.output(record.proposal.n)
        : null
    return callView(this.#run.record, record, kept, identityOf(this.env).publicUrl)
  }

  #commit<T>(work: () => Result<T>): Promise<Result<T>> {
    let before = this.#row
    return this.#commits.run(
      () => {
        before = this.#row
        return work()
      },
      () => {
        this.#row = before
        this.#ledger.forget()
      },
    )
  }
}
