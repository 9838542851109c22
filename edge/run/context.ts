// A run as its commands see it: everything stored of it, read-only, and `transact`, the only way to
// change it (L5). It holds the in-memory parts of one RunObject and performs the effects of each
// commit. It decides nothing.

import type { Result } from '../../shared/result.ts'
import { type Env, identityOf } from '../bindings.ts'
import { hasEnded } from '../call/lifecycle.ts'
import type { RunRow } from '../call/run.ts'
import { Alarm } from '../platform/alarm.ts'
import { GroupCommit } from '../platform/group-commit.ts'
import { Waiters } from '../platform/waiters.ts'
import type { FileStore } from './file-store.ts'
import { FileUploads } from './file-uploads.ts'
import { needsWorker, Outbox } from './outbox.ts'
import { OutputSubscribers } from './output-subscribers.ts'
import { SkillCalls } from './skill-calls.ts'
import { RunStore } from './store.ts'
import { type CallChange, type Doorbell, type FollowUp, RunTransaction } from './transaction.ts'
import { UsageLedger } from './usage-ledger.ts'
import { WorkerLeases } from './worker-leases.ts'

/**
 * No list of the tenant names a run without calls, so the run itself checks once a day whether its
 * tenant was deleted.
 */
const IDLE_CHECK_MS = 24 * 3600_000

/** The run's tables, without a method that writes to them. */
export type RunReads = Pick<
  RunStore,
  | 'call'
  | 'callByKey'
  | 'everyCall'
  | 'due'
  | 'nextDue'
  | 'unmirrored'
  | 'live'
  | 'pendingApprovals'
  | 'journal'
  | 'attestation'
  | 'snapshot'
  | 'outputEnd'
  | 'outputFrom'
  | 'output'
> & { readonly files: Pick<FileStore, 'fits' | 'held' | 'list' | 'sized' | 'whole' | 'part' | 'nextDue'> }

export class RunContext {
  readonly env: Env
  readonly store: RunReads
  readonly usage: UsageLedger
  readonly leases = new WorkerLeases()
  readonly output: OutputSubscribers
  readonly uploads = new FileUploads()
  readonly outbox: Outbox
  /** Readers that wait for the end of a call, or for the next journal entry. */
  readonly waiters = new Waiters<number | 'journal'>()
  /**
   * Standing answers that their session ended in the life of this object. A run that asked the
   * session shortly before must not act on its reply.
   */
  readonly withdrawnAnswers = new Set<string>()
  readonly #ctx: DurableObjectState
  readonly #store: RunStore
  readonly #commits: GroupCommit
  readonly #alarm: Alarm
  readonly #skills = new SkillCalls()
  #row: RunRow | undefined

  constructor(ctx: DurableObjectState, env: Env) {
    const store = new RunStore(ctx)
    this.env = env
    this.store = store
    this.usage = new UsageLedger(env, store)
    this.output = new OutputSubscribers(store)
    this.outbox = new Outbox(store)
    this.#ctx = ctx
    this.#store = store
    this.#commits = new GroupCommit(ctx.storage)
    this.#alarm = new Alarm(ctx.storage, () => store.nextDue())
    this.#row = store.run()
  }

  /** The run as it is now; undefined until it is created. */
  get row(): RunRow | undefined {
    return this.#row
  }

  /**
   * Runs `work` as one transaction, synchronously and alone, and answers when its batch is on disk.
   * An exception undoes all of it; a refusal that `work` returns undoes nothing.
   */
  transact<T>(work: (tx: RunTransaction) => Result<T>): Promise<Result<T>> {
    const { signer } = identityOf(this.env)
    const committed = this.#commits.run(
      () => {
        const tx = new RunTransaction(this.#store, signer, this.#row)
        const result = work(tx)
        tx.saveRow()
        return { tx, result }
      },
      ({ tx }) => {
        this.#row = tx.row
        for (const next of tx.followUps) this.#follow(next)
        if (tx.row?.calls === 0) this.arm(Date.now() + IDLE_CHECK_MS)
      },
    )
    return committed.then(({ result }) => result)
  }

  #follow(next: FollowUp): void {
    if (next.kind === 'change') this.#performEffects(next)
    else if (next.kind === 'doorbell') this.#ring(next)
    else if (next.kind === 'output') this.output.wake(next.n)
    else if (next.kind === 'journal') this.waiters.wake('journal')
    else this.arm(next.at)
  }

  /**
   * The effects of one applied event: doorbells, deliveries, waiters. The alarm repeats what gets
   * lost.
   */
  #performEffects({ record, before, event, effects, due }: CallChange): void {
    const { proposal, status } = record
    const mirror = effects.includes('mirror')
    this.usage.count(record)
    if (due !== null) this.arm(due)
    if (effects.includes('ring')) this.#ring({ record })
    if (event.kind === 'cancel') this.#skills.stop(proposal.n)
    if (before?.state === 'granted' && status.state !== 'granted' && needsWorker(proposal))
      this.outbox.leave(this, proposal)
    if (mirror || hasEnded(status)) this.outbox.deliverSoon(this, mirror)
    if (hasEnded(status)) this.waiters.wake(proposal.n)
    this.output.wake(proposal.n)
    this.waiters.wake('journal')
  }

  #ring({ record: { proposal, status }, worker }: Doorbell): void {
    if (status.state !== 'granted') return
    if (needsWorker(proposal)) this.outbox.ring(this, proposal, status.until, worker)
    else this.waitUntil(this.#skills.start(this, proposal.n))
  }

  /** Wakes the object at `due`, or earlier where something is due before. */
  arm(due: number): void {
    this.#alarm.arm(due)
  }

  /**
   * The alarm goes off. After a pause of our own every lease restarts: we can't tell which workers
   * missed a heartbeat.
   */
  alarmRang(): void {
    if (this.#alarm.rang()) this.leases.restartAll()
  }

  waitUntil(work: Promise<unknown>): void {
    this.#ctx.waitUntil(work)
  }

  /**
   * The tenant's log has the journal up to `seq`. Stored with the next change of the run; if none
   * comes, the log receives it twice.
   */
  noteLogged(seq: number): void {
    if (this.#row !== undefined) this.#row = { ...this.#row, logged: seq }
  }
}
