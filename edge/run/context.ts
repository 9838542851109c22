// The commands' view of a run: its stored state, read-only, and `transact`, the only way to change
// it (L5). It owns what one run has in memory and performs the effects of each commit.

import { callId, isSharedRun } from '../../shared/ids.ts'
import type { Result } from '../../shared/result.ts'
import { type Env, identityOf } from '../bindings.ts'
import { hasEnded } from '../call/lifecycle.ts'
import type { RunRow } from '../call/run.ts'
import { Waiters } from '../platform/waiters.ts'
import { notifyWatches } from './call-watch.ts'
import { EdgeCalls } from './edge-calls.ts'
import type { FileStore } from './file-store.ts'
import { FileUploads } from './file-uploads.ts'
import type { Runs } from './object/runs.ts'
import { needsWorker, Outbox } from './outbox.ts'
import { OutputSubscribers } from './output-subscribers.ts'
import { type SealedRun, SealedWrite } from './sealing/sealed-rows.ts'
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
  | 'unmirrored'
  | 'live'
  | 'hasLive'
  | 'pendingApprovals'
  | 'journal'
  | 'entriesOf'
  | 'attestation'
  | 'snapshot'
  | 'outputEnd'
  | 'outputFrom'
  | 'output'
> & { readonly files: Pick<FileStore, 'fits' | 'held' | 'list' | 'sized' | 'whole' | 'part' | 'nextDue'> }

/** The part of the object's runs that one of them needs. */
type RunsOfObject = Pick<
  Runs,
  'env' | 'store' | 'archived' | 'commits' | 'log' | 'arm' | 'keep' | 'isCurrent' | 'committed'
>

export class RunContext {
  readonly id: string
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
   * Standing answers that their session revoked while this run is in memory. A request to the
   * session from shortly before may still return them.
   */
  readonly withdrawnAnswers = new Set<string>()
  /** Requests that are being answered, by a client's id for them, and the call of each. */
  readonly requests = new Map<string, number>()
  readonly #runs: RunsOfObject
  readonly #store: RunStore
  readonly #edgeCalls = new EdgeCalls()
  #row: RunRow | undefined

  constructor(runs: RunsOfObject, id: string, sealed: SealedRun | undefined) {
    const { env } = runs
    const store = new RunStore(runs.store, id, sealed)
    this.id = id
    this.env = env
    this.store = store
    this.usage = new UsageLedger(env, store)
    this.output = new OutputSubscribers(store)
    this.outbox = new Outbox(store)
    this.#runs = runs
    this.#store = store
    this.#row = store.run()
  }

  /** The current row of the run; undefined until it is created. */
  get row(): RunRow | undefined {
    return this.#row
  }

  /** Whether the run can be created in its object. Only the transaction that creates it knows. */
  get hasRoom(): boolean {
    return !this.#runs.store.isFull()
  }

  /**
   * Runs `work` as one synchronous transaction; resolves when its batch is on disk. An exception
   * rolls it back; a refusal that `work` returns does not. If `work` writes to a sealed run, the run
   * is put back, and `work` runs a second time.
   */
  transact<T>(work: (tx: RunTransaction) => Result<T>): Promise<Result<T>> {
    return this.#transact(work).catch(async (thrown: unknown) => {
      if (!(thrown instanceof SealedWrite)) throw thrown
      await this.#runs.archived.putBack(this.id)
      return this.#transact(work)
    })
  }

  #transact<T>(work: (tx: RunTransaction) => Result<T>): Promise<Result<T>> {
    const identity = identityOf(this.env)
    const committed = this.#runs.commits.run(
      () => {
        if (!this.#runs.isCurrent(this)) throw new Error('the run has a newer context')
        const tx = new RunTransaction(this.#store, identity, this.#row)
        try {
          const result = work(tx)
          tx.saveRow()
          return { tx, result }
        } catch (thrown) {
          this.#store.rolledBack(this.#row !== undefined)
          throw thrown
        }
      },
      ({ tx }) => {
        this.#row = tx.row
        this.#runs.committed()
        for (const next of tx.followUps) this.#follow(next)
        if (tx.row?.calls === 0) this.arm(Date.now() + (this.outbox.isListed ? IDLE_CHECK_MS : LIST_AGAIN_MS))
      },
    )
    return committed.then(({ result }) => result)
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
    else this.logSoon()
    if (hasEnded(status)) this.waiters.wake(proposal.n)
    if (this.#row !== undefined) notifyWatches(callId(this.#row.record.id, proposal.n))
    this.output.wake(proposal.n)
    this.waiters.wake('journal')
  }

  #runChanged(): void {
    this.waiters.wake('journal')
    if (this.#row?.cancelled === true) this.outbox.deliverSoon(this, false)
    else this.logSoon()
  }

  #ring({ record: { proposal, status }, worker }: Doorbell): void {
    if (status.state !== 'granted') return
    if (needsWorker(proposal)) this.outbox.ring(this, proposal, status.until, worker)
    else this.waitUntil(this.#edgeCalls.start(this, proposal.n))
  }

  /** Wakes the object at `due` or earlier. */
  arm(due: number): void {
    this.#runs.arm(due)
  }

  waitUntil(work: Promise<unknown>): void {
    this.#runs.keep(this.id, work)
  }

  /** Reports what has changed to the tenant's log and lists, soon. */
  logSoon(): void {
    this.#runs.log.soon(this.id)
  }

  /** Sends the tenant's log what it lacks of the run. Resolves also if the log does not answer. */
  logNow(): Promise<void> {
    return this.#runs.log.deliver([this.id])
  }

  /**
   * Notes that the tenant's log has the journal up to `seq`. In an object of many runs it is stored,
   * because a restart asks each of them. Otherwise it is stored with the run's next change; without
   * one, the log receives the entries twice.
   */
  noteLogged(seq: number): void {
    if (this.#row === undefined) return
    this.#row = { ...this.#row, logged: seq }
    if (isSharedRun(this.id)) this.#store.saveLogged(seq)
  }
}
