// The runs of one object: each has its context, all have one alarm, one queue of commits and one
// delivery to the log.

import { isSharedRun } from '../../../shared/ids.ts'
import { isShared } from '../../archive/archive-of.ts'
import type { Index } from '../../archive/entry.ts'
import { type Env, identityOf } from '../../bindings.ts'
import { isDeleted } from '../../directory/directory.ts'
import { Alarm } from '../../platform/alarm.ts'
import { eraseObject } from '../../platform/database.ts'
import { logError } from '../../platform/error-log.ts'
import { GroupCommit } from '../../platform/group-commit.ts'
import { handleDueCalls } from '../commands/handle-due.ts'
import { RunContext } from '../context.ts'
import { Archived } from '../sealing/archived.ts'
import { sealIfRested, sealInTurn } from '../sealing/sealing.ts'
import { Backoff } from './backoff.ts'
import { exportBeforeRemoval } from './export.ts'
import { LogDelivery } from './log-delivery.ts'
import { ObjectStore } from './object-store.ts'

/** If a run failed, the alarm waits at least this long, because its due calls would ring it at once. */
const RETRY_MS = 2_000

/** A context, and how many requests and pieces of work use it now. */
type Held = { readonly run: RunContext; users: number }

export class Runs {
  readonly env: Env
  readonly store: ObjectStore
  readonly commits: GroupCommit
  readonly log: LogDelivery
  readonly archived: Archived
  readonly name: string
  readonly #ctx: DurableObjectState
  readonly #alarm: Alarm
  readonly #held = new Map<string, Held>()
  readonly #backoff = new Backoff()
  /** How many transactions have been committed while this object is in memory. */
  changes = 0
  isErased = false
  #sealing: Promise<void> | undefined
  /** When a sealed run was last stored again. */
  unsealedAt = 0

  constructor(ctx: DurableObjectState, env: Env) {
    if (ctx.id.name === undefined) throw new Error('the object does not know its name') // L2
    this.name = ctx.id.name
    this.env = env
    this.store = new ObjectStore(ctx)
    this.commits = new GroupCommit(ctx.storage)
    this.log = new LogDelivery(this)
    this.archived = new Archived(this)
    this.#ctx = ctx
    this.#alarm = new Alarm(ctx.storage, () => this.store.nextDue())
  }

  async use<T>(id: string, work: (run: RunContext) => T | Promise<T>): Promise<T> {
    for (let more = this.archived.missing(id); more !== undefined; more = this.archived.missing(id))
      await more
    const held = this.#hold(id)
    return this.#release([held], () => work(held.run))
  }

  /** Does the work with those of the given runs that are stored here. */
  useAll<T>(given: readonly string[], work: (runs: RunContext[]) => Promise<T>): Promise<T> {
    const held: Held[] = []
    return this.#release(held, () => {
      for (const id of given) if (this.store.numberOf(id) !== undefined) held.push(this.#hold(id))
      return work(held.map(({ run }) => run))
    })
  }

  #hold(id: string): Held {
    const held = this.#held.get(id) ?? { run: new RunContext(this, id, this.archived.run(id)), users: 0 }
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
        if (held.users > 0 || !this.#isAtRest(held.run)) continue
        this.#held.delete(held.run.id)
        this.archived.forget(held.run.id)
      }
    }
  }

  /**
   * Whether a run's context may be dropped, because it has nothing that the rows lack: no lease, no
   * waiter. The context of a stored run with an object to itself stays as long as the object.
   */
  #isAtRest({ id, row, store }: RunContext): boolean {
    if (this.store.numberOf(id) === undefined) return true // it is sealed, or was never made
    return isSharedRun(id) && !this.log.awaits(id) && (row === undefined || !store.hasLive())
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
  }

  /** A sealed run is stored again. */
  unsealed(): void {
    this.committed()
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
    await this.#workOff(sealInTurn)
  }

  /** Something was removed of all calls: their entry is replaced now. */
  async sealAgain(): Promise<void> {
    this.unsealedAt = 0
    await this.#workOff((runs) => sealIfRested(runs))
  }

  /** Does what is due, delivers news, and seals the object if it has rested. */
  async #workOff(seal: (runs: Runs) => Promise<void>): Promise<void> {
    if (!this.store.tables.exist) return
    if (await isDeleted(this.env, this.archived.tenant)) return this.erase()
    const due = isShared(this.archived.object) ? this.store.runsDue(Date.now()) : this.store.runs
    const handled = await Promise.all(due.map((id) => this.#handleDue(id)))
    await this.log.deliver([...due, ...this.store.takeUnlogged()])
    const next = this.store.nextDue()
    const soonest = handled.includes(false) ? Date.now() + RETRY_MS : 0
    if (next !== null) this.arm(Math.max(next, soonest))
    this.#sealing = seal(this)
    await this.#sealing
  }

  /** Returns whether it succeeded. A run that fails is tried again later, and delays no other. */
  async #handleDue(id: string): Promise<boolean> {
    try {
      await this.use(id, handleDue)
      this.#backoff.succeeded(id)
      return true
    } catch (thrown) {
      logError(thrown)
      this.store.postpone(id, this.#backoff.failed(id, Date.now()))
      return false
    }
  }

  /** Removes the rows, which the archive has. Returns false, without change, if a request uses a run. */
  async becomeSealed(index: Index): Promise<boolean> {
    if ([...this.#held.values()].some(({ users }) => users > 0)) return false
    const removed = this.#ctx.storage.deleteAll() // takes effect at once, and removes the alarm
    this.#alarm.removed()
    this.#held.clear()
    this.archived.replaced(index)
    await removed
    return true
  }

  /** Removes the object and its entry in an archive. Nothing is sealed from now on. */
  async erase(): Promise<void> {
    await exportBeforeRemoval(this)
    this.isErased = true
    this.changes++ // an entry that is being made does not replace the rows
    await this.#sealing?.catch(() => undefined)
    // The rows go first: rows whose entry is gone are damaged, and no later try could export them.
    await this.#ctx.storage.deleteAll()
    this.store.removed()
    await this.archived.archive.drop(this.archived.object)
    await eraseObject(this.#ctx)
  }

  /** Whether the inbox has received everything and, for an object of one run, the log and lists, too. */
  async isDelivered(): Promise<boolean> {
    if (!this.store.isMirrored()) return false
    const [id = ''] = this.store.runs
    if (isShared(this.archived.object)) return true // sealing checks the row of each run
    return this.use(id, ({ row, outbox }) => outbox.isListed && row !== undefined && row.logged === row.seq)
  }
}

async function handleDue(run: RunContext): Promise<void> {
  await handleDueCalls(run)
  await Promise.all([run.outbox.deliverApprovals(run), run.uploads.report(run)])
}
