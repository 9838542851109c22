// The runs of one object: each has its context, all have one alarm, one queue of commits and one
// delivery to the log.

import { isSharedRun } from '../../../shared/ids.ts'
import { dropEntry } from '../../archive/drop-entry.ts'
import { type Env, identityOf } from '../../bindings.ts'
import { isDeleted } from '../../directory/directory.ts'
import { Alarm } from '../../platform/alarm.ts'
import { eraseObject } from '../../platform/database.ts'
import { GroupCommit } from '../../platform/group-commit.ts'
import { handleDueCalls } from '../commands/handle-due.ts'
import { RunContext } from '../context.ts'
import type { SealedRows } from '../sealing/sealed-rows.ts'
import { sealIfRested } from '../sealing/sealing.ts'
import { LogDelivery } from './log-delivery.ts'
import { ObjectStore } from './object-store.ts'

/** A context, and how many requests and pieces of work use it now. */
type Held = { readonly run: RunContext; users: number }

export class Runs {
  readonly env: Env
  readonly store: ObjectStore
  readonly commits: GroupCommit
  readonly log: LogDelivery
  readonly #ctx: DurableObjectState
  readonly #alarm: Alarm
  readonly #held = new Map<string, Held>()
  /** How many transactions have been committed while this object is in memory. */
  changes = 0
  isErased = false
  #sealing: Promise<void> | undefined
  /** When the rows of a sealed object were last stored again. */
  unsealedAt = 0

  constructor(ctx: DurableObjectState, env: Env) {
    this.env = env
    this.store = new ObjectStore(ctx)
    this.commits = new GroupCommit(ctx.storage)
    this.log = new LogDelivery(this)
    this.#ctx = ctx
    this.#alarm = new Alarm(ctx.storage, () => this.store.nextDue())
  }

  use<T>(id: string, work: (run: RunContext) => T | Promise<T>): Promise<T> {
    const held = this.#hold(id)
    return this.#release([held], () => work(held.run))
  }

  useAll<T>(ids: readonly string[], work: (runs: RunContext[]) => Promise<T>): Promise<T> {
    const held = ids.map((id) => this.#hold(id))
    return this.#release(held, () => work(held.map(({ run }) => run)))
  }

  #hold(id: string): Held {
    const held = this.#held.get(id) ?? { run: new RunContext(this, id), users: 0 }
    this.#held.set(id, held)
    held.users++
    return held
  }

  /** Drops the contexts after the work, unless they are in use or have something to remember. */
  async #release<T>(used: readonly Held[], work: () => T | Promise<T>): Promise<T> {
    try {
      return await work()
    } finally {
      for (const held of used) {
        held.users--
        if (held.users === 0 && this.#isAtRest(held.run)) this.#held.delete(held.run.id)
      }
    }
  }

  /**
   * Whether memory has nothing of a run that its rows lack: no lease, nobody who waits. A run with an
   * object to itself stays as long as the object.
   */
  #isAtRest({ id, row, store }: RunContext): boolean {
    return isSharedRun(id) && !this.log.awaits(id) && (row === undefined || store.live().length === 0)
  }

  /** Whether this is the context of its run. An earlier one does not know what has changed since. */
  isCurrent(run: RunContext): boolean {
    return this.#held.get(run.id)?.run === run
  }

  /** Keeps the run in memory until the work is done. */
  keep(id: string, work: Promise<unknown>): void {
    this.#ctx.waitUntil(this.use(id, () => work))
  }

  /** Called after each transaction. */
  committed(): void {
    this.changes++
    if (!this.store.committed()) return
    this.unsealedAt = Date.now()
    this.arm(this.unsealedAt + identityOf(this.env).sealAfterMs)
  }

  /** Wakes the object at `due` or earlier. */
  arm(due: number): void {
    this.#alarm.arm(due)
  }

  /**
   * Handles the alarm. After our own pause every lease restarts, because we can't tell which workers
   * missed a heartbeat.
   */
  async alarm(): Promise<void> {
    if (this.#alarm.rang()) for (const { run } of this.#held.values()) run.leases.restartAll()
    await this.#handleDue()
  }

  /** Something was removed of all calls: their entry is replaced now. */
  async sealAgain(): Promise<void> {
    this.unsealedAt = 0
    await this.#handleDue()
  }

  async #handleDue(): Promise<void> {
    const some = this.store.some()
    if (some === undefined || this.store.sealed !== undefined) return
    if (await isDeleted(this.env, some.tenant)) return this.erase()
    const due = isSharedRun(some.id) ? this.store.runsDue(Date.now()) : [some.id]
    await Promise.all(due.map((id) => this.use(id, handleDue)))
    await this.log.deliver([...due, ...this.store.takeUnlogged()])
    const next = this.store.nextDue()
    if (next !== null) this.arm(next)
    this.#sealing = sealIfRested(this)
    await this.#sealing
  }

  /** The rows are in the archive, and removed here. */
  async becomeSealed(rows: SealedRows): Promise<void> {
    const removed = this.#ctx.storage.deleteAll() // takes effect at once, and removes the alarm
    this.#alarm.removed()
    this.store.holdSealed(rows)
    await removed
  }

  /** Removes the object and its entry in an archive. Nothing is sealed from now on. */
  async erase(): Promise<void> {
    this.isErased = true
    this.changes++ // an entry that is being made does not replace the rows
    await this.#sealing?.catch(() => undefined)
    const some = this.store.some()
    if (some !== undefined) await dropEntry(this.env, some.tenant, some.id)
    await eraseObject(this.#ctx)
    this.store.erased()
  }

  /** Whether the tenant's log and lists have all of the object's runs. */
  async isDelivered(): Promise<boolean> {
    if (!this.store.isDelivered()) return false
    const [id = ''] = this.store.runs
    if (isSharedRun(id)) return true
    return this.use(id, ({ row, outbox }) => outbox.isListed && row !== undefined && row.logged === row.seq)
  }
}

async function handleDue(run: RunContext): Promise<void> {
  await handleDueCalls(run)
  await Promise.all([run.outbox.deliverApprovals(run), run.uploads.report(run)])
}
