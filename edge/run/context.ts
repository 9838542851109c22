// The commands' view of a run: its stored state, read-only, and `transact`, the only way to change
// it (L5). It owns the in-memory parts of one RunObject and performs the effects of each commit.

import { callId } from '../../shared/ids.ts'
import { ok, type Result } from '../../shared/result.ts'
import type { Page } from '../archive/entry.ts'
import { type Env, identityOf } from '../bindings.ts'
import { hasEnded } from '../call/lifecycle.ts'
import type { RunRow } from '../call/run.ts'
import { Alarm } from '../platform/alarm.ts'
import { GroupCommit } from '../platform/group-commit.ts'
import { Waiters } from '../platform/waiters.ts'
import { notifyWatches } from './call-watch.ts'
import { EdgeCalls } from './edge-calls.ts'
import type { FileStore } from './file-store.ts'
import { FileUploads } from './file-uploads.ts'
import { needsWorker, Outbox } from './outbox.ts'
import { OutputSubscribers } from './output-subscribers.ts'
import type { SealedRows } from './sealing/sealed-rows.ts'
import { RunStore } from './store.ts'
import { type CallChange, type Doorbell, type FollowUp, RunTransaction } from './transaction.ts'
import { UsageLedger } from './usage-ledger.ts'
import { WorkerLeases } from './worker-leases.ts'

/**
 * A run without calls has no deadline that would deliver its report to the tenant's list again. The
 * list may also miss it when the tenant is deleted, so the run itself checks once a day whether its
 * tenant still exists.
 */
const LIST_AGAIN_MS = 2_000
const IDLE_CHECK_MS = 24 * 3600_000

/** The read methods of the run's store. */
export type RunReads = Pick<
  RunStore,
  | 'call'
  | 'callByKey'
  | 'callToJoin'
  | 'abandoned'
  | 'isAbandoned'
  | 'isDelivered'
  | 'everyCall'
  | 'due'
  | 'nextDue'
  | 'unmirrored'
  | 'live'
  | 'pendingApprovals'
  | 'lastEntryAt'
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
   * Standing answers that their session revoked while this object is in memory. A request to the
   * session from shortly before may still return them.
   */
  readonly withdrawnAnswers = new Set<string>()
  /** Requests that are being answered, by a client's id for them, and the call of each. */
  readonly requests = new Map<string, number>()
  /** How many transactions have been committed while this object is in memory. */
  changes = 0
  /** When the rows of the run were last stored again. */
  unsealedAt = 0
  readonly #ctx: DurableObjectState
  readonly #store: RunStore
  readonly #commits: GroupCommit
  readonly #alarm: Alarm
  readonly #edgeCalls = new EdgeCalls()
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

  get isEmpty(): boolean {
    return this.#store.isEmpty
  }

  get isSealed(): boolean {
    return this.#store.isSealed
  }

  get storedBytes(): number {
    return this.#ctx.storage.sql.databaseSize
  }

  get migration(): number {
    return this.#store.migration
  }

  /** All rows of the run, table by table. The caller may pause between two pages. */
  pages(): Generator<Page> {
    return this.#store.pages()
  }

  /** From now on the run is what these rows say, and this object stores nothing of it. */
  async holdSealed(rows: SealedRows): Promise<void> {
    this.#store.holdSealed(rows)
    const row = this.#store.run()
    this.#row = row === undefined ? undefined : { ...row, logged: row.seq } // nothing is sealed before that
    if (rows.migration === this.migration) return
    await this.transact((tx) => {
      tx.putBack()
      return ok(true)
    })
  }

  /** The rows are in the archive, and removed here. */
  async becomeSealed(rows: SealedRows): Promise<void> {
    const removed = this.#ctx.storage.deleteAll() // takes effect at once
    await Promise.all([removed, this.holdSealed(rows)])
  }

  /** The current row of the run; undefined until it is created. */
  get row(): RunRow | undefined {
    return this.#row
  }

  /**
   * Runs `work` as one synchronous transaction; resolves when its batch is on disk. An exception
   * rolls it back; a refusal that `work` returns does not.
   */
  transact<T>(work: (tx: RunTransaction) => Result<T>): Promise<Result<T>> {
    const identity = identityOf(this.env)
    const committed = this.#commits.run(
      () => {
        const tx = new RunTransaction(this.#store, identity, this.#row)
        try {
          const result = work(tx)
          tx.saveRow()
          return { tx, result }
        } catch (thrown) {
          this.#store.rolledBack()
          throw thrown
        }
      },
      ({ tx }) => {
        this.#row = tx.row
        this.#committed()
        for (const next of tx.followUps) this.#follow(next)
        if (tx.row?.calls === 0) this.arm(Date.now() + (this.outbox.isListed ? IDLE_CHECK_MS : LIST_AGAIN_MS))
      },
    )
    return committed.then(({ result }) => result)
  }

  #committed(): void {
    this.changes++
    if (!this.#store.committed()) return
    this.unsealedAt = Date.now()
    this.arm(this.unsealedAt + identityOf(this.env).sealAfterMs)
  }

  #follow(next: FollowUp): void {
    if (next.kind === 'change') this.#performEffects(next)
    else if (next.kind === 'doorbell') this.#ring(next)
    else if (next.kind === 'output') this.output.wake(next.n)
    else if (next.kind === 'run') this.#runChanged()
    else this.arm(next.at)
  }

  /**
   * Performs the effects of one applied event: doorbells, deliveries, waiters. The alarm repeats
   * lost ones.
   */
  #performEffects({ record, before, event, effects, due }: CallChange): void {
    const { proposal, status } = record
    const mirror = effects.includes('mirror')
    this.usage.count(record)
    if (due !== null) this.arm(due)
    if (effects.includes('ring')) this.#ring({ record })
    if (event.kind === 'cancel') this.#edgeCalls.stop(proposal.n)
    if (before?.state === 'granted' && status.state !== 'granted' && needsWorker(proposal))
      this.outbox.leave(this, proposal)
    if (mirror || hasEnded(status)) this.outbox.deliverSoon(this, mirror)
    else this.outbox.listSoon(this)
    if (hasEnded(status)) this.waiters.wake(proposal.n)
    if (this.#row !== undefined) notifyWatches(callId(this.#row.record.id, proposal.n))
    this.output.wake(proposal.n)
    this.waiters.wake('journal')
  }

  #runChanged(): void {
    this.waiters.wake('journal')
    if (this.#row?.cancelled === true) this.outbox.deliverSoon(this, false)
    else this.outbox.listSoon(this)
  }

  #ring({ record: { proposal, status }, worker }: Doorbell): void {
    if (status.state !== 'granted') return
    if (needsWorker(proposal)) this.outbox.ring(this, proposal, status.until, worker)
    else this.waitUntil(this.#edgeCalls.start(this, proposal.n))
  }

  /** Wakes the object at `due` or earlier. */
  arm(due: number): void {
    this.#alarm.arm(due)
  }

  /**
   * Handles the alarm. After our own pause every lease restarts, because we can't tell which
   * workers missed a heartbeat.
   */
  alarmRang(): void {
    if (this.#alarm.rang()) this.leases.restartAll()
  }

  waitUntil(work: Promise<unknown>): void {
    this.#ctx.waitUntil(work)
  }

  /**
   * Notes that the tenant's log has the journal up to `seq`. It is stored with the run's next
   * change; without one, the log receives the entries twice.
   */
  noteLogged(seq: number): void {
    if (this.#row !== undefined) this.#row = { ...this.#row, logged: seq }
  }
}
