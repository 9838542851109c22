// The tables that the runs of one object share, and the numbers by which each run has its rows. Most
// runs have an object to themselves. Calls that make a run of their own share objects, because a
// database file takes longer to make than such a call, and more of the disk.

import { and, between, desc, isNotNull, lt, lte, ne, type SQL, sql } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/durable-sqlite'
import migrations from '../../../migrations/run/migrations.js'
import schemas from '../../../migrations/run/schemas.json' with { type: 'json' }
import { LIMITS } from '../../../shared/limits.ts'
import { KEPT, type Kept } from '../../../shared/wire/retention.ts'
import type { Page, Row } from '../../archive/entry.ts'
import type { RunRecord } from '../../call/run.ts'
import { Tables } from '../../platform/object-tables.ts'
import { FileStore } from '../file-store.ts'
import { calls, journal, run } from '../tables.ts'
import { REMOVED } from './page.ts'
import { ROWS_OF_RUN } from './rows-of-run.ts'

/** `logged` of a run that the tenant's lists do not have yet. */
export const UNLISTED = -1

export const INDEXES = ['calls_due', 'calls_key', 'calls_unmirrored', 'calls_join', 'calls_cancel'] as const
/** Tables and indexes that a new object lacks. */
const LATER: readonly string[] = [...INDEXES, 'output', 'files', 'file_parts']

const SNAPSHOTS_KNOWN = 100
/** The most due calls that one alarm handles; it rings again at once. */
const AT_ONCE = 200
/** An empty view, which takes no page. It says that the archive has others of the object's runs. */
const ARCHIVED = 'archived'

export class ObjectStore {
  readonly storage: DurableObjectStorage
  readonly tables: Tables
  readonly #db
  #known: Map<string, number> | undefined
  #next = 0
  #unlogged: string[] = []
  #reportedAt = 0
  #lastEntryAt: number | undefined
  /** Digests of some of the stored snapshots, so that calls do not store theirs again. */
  readonly #snapshots = new Set<string>()
  /** Runs in the archive have numbers below this. */
  #archived = 0

  constructor(ctx: DurableObjectState) {
    this.storage = ctx.storage
    this.tables = new Tables(ctx, { migrations, schemas }, LATER)
    this.#db = drizzle(ctx.storage)
  }

  /** The number of each stored run, by its id. Read once. */
  get #numbers(): Map<string, number> {
    if (this.#known !== undefined) return this.#known
    this.#known = new Map()
    this.#next = this.#archived
    if (!this.tables.exist) return this.#known
    const id = sql<string>`${run.record} ->> '$.id'`
    const isLogged = sql<number>`${run.logged} >= ${run.seq}`
    for (const row of this.#db.select({ key: run.id, id, isLogged }).from(run).orderBy(run.id).all()) {
      this.#known.set(row.id, row.key - 1)
      this.#next = Math.max(this.#next, row.key)
      if (row.isLogged === 0) this.#unlogged.push(row.id)
    }
    return this.#known
  }

  /** The numbers of the stored runs. */
  get numbers(): ReadonlySet<number> {
    return new Set(this.#numbers.values())
  }

  /** The number of the next run. */
  get next(): number {
    return Math.max(this.#numbers.size, this.#next)
  }

  numberOf(id: string): number | undefined {
    return this.#numbers.get(id)
  }

  /** Numbers a new run. */
  add(id: string): number {
    this.#numbers.set(id, this.#next)
    return this.#next++
  }

  /** Takes back the number of the run that was added last. */
  takeBack(id: string): void {
    if (this.#numbers.delete(id)) this.#next--
  }

  /** The runs that are stored here. */
  get runs(): string[] {
    return [...this.#numbers.keys()]
  }

  /**
   * Whether the object takes no more runs. It must never take some again: a key whose run is in
   * another object, because this one was full, would then make a second run (L2).
   */
  isFull(): boolean {
    return this.next >= LIMITS.runs_per_object
  }

  /** The agent and session of each stored run. */
  owners(): Array<Pick<RunRecord, 'agent' | 'session'>> {
    if (!this.tables.exist) return []
    const field = (name: 'agent' | 'session') => sql<string>`${run.record} ->> ${`$.${name}`}`
    return this.#db
      .selectDistinct({ agent: field('agent'), session: field('session') })
      .from(run)
      .all()
  }

  // ── Sealing ──

  /** Whether every run of the object is stored here, as far as its tables say. */
  get isWhole(): boolean {
    return this.tables.exist && !this.tables.has(ARCHIVED)
  }

  /** Call it when the archive has runs. Their numbers are below `next`. */
  noteArchived(next: number): void {
    this.#archived = next
    this.#next = Math.max(this.#next, next)
  }

  /** Makes the tables if there are none. Call it before each write, in its transaction. */
  makeTables(): void {
    this.tables.make()
    if (this.#archived > 0) this.tables.mark(ARCHIVED)
  }

  /** Stores rows again that were sealed. They may be there already, if the edge died halfway. */
  putBack(pages: readonly Page[]): void {
    this.makeTables()
    this.tables.add(...INDEXES)
    for (const { table, rows } of pages) {
      this.tables.add(table)
      const columns = Object.keys(rows[0] ?? {})
      const how = table === 'snapshots' ? 'IGNORE' : 'REPLACE'
      const insert = `INSERT OR ${how} INTO "${table}" (${columns.map((column) => `"${column}"`)}) VALUES (${columns.map(() => '?')})`
      for (const row of rows) this.storage.sql.exec(insert, ...Object.values(row))
    }
  }

  /** Call it when the run's row is back. */
  gotBack(id: string, number: number): void {
    this.#numbers.set(id, number)
  }

  /** Whether the object is known to store the snapshot of this digest. */
  hasSnapshot(digest: string): boolean {
    return this.#snapshots.has(digest)
  }

  snapshotAdded(digest: string): void {
    if (this.#snapshots.size >= SNAPSHOTS_KNOWN) this.#snapshots.clear()
    this.#snapshots.add(digest)
  }

  /** Call it if a transaction is rolled back: it may have made tables and added snapshots. */
  rolledBack(): void {
    this.tables.forget()
    this.snapshotsRemoved()
  }

  snapshotsRemoved(): void {
    this.#snapshots.clear()
  }

  /** Call it after everything stored was removed. */
  removed(): void {
    this.rolledBack()
    this.#known = undefined
  }

  /** Rows with keys after `after` and up to `last`; -1 for no limit. */
  rows(table: string, key: string, after: number, last: number, most: number): Row[] {
    if (!this.tables.has(table)) return []
    const text = `SELECT * FROM "${table}" WHERE "${key}" > ? AND "${key}" <= ? ORDER BY "${key}" LIMIT ?`
    return this.storage.sql.exec(text, after, last, most).toArray()
  }

  snapshotsOf(first: number, last: number): Row[] {
    const named = "SELECT record ->> '$.status.decision.snapshot' FROM calls WHERE n BETWEEN ? AND ?"
    return this.storage.sql.exec(`SELECT * FROM snapshots WHERE digest IN (${named})`, first, last).toArray()
  }

  snapshotsBut(digests: readonly string[]): Row[] {
    const text = 'SELECT * FROM snapshots WHERE digest NOT IN (SELECT value FROM json_each(?))'
    return this.storage.sql.exec(text, JSON.stringify(digests)).toArray()
  }

  /** The bytes of its rows, without the files of its runs, which are counted separately. */
  get ownBytes(): number {
    return this.storage.sql.databaseSize - this.#files.held().bytes
  }

  /** Call it with each entry that is added to a journal. */
  entryAdded(at: number): void {
    this.#lastEntryAt = Math.max(at, this.#lastEntryAt ?? 0)
  }

  /**
   * When an entry was last added to a journal; 0 if none was. If this instance has added none, it is the
   * time of the last entry of the last run.
   */
  lastEntryAt(): number {
    if (this.#lastEntryAt !== undefined || !this.tables.exist) return this.#lastEntryAt ?? 0
    const last = this.#db.select({ at: journal.at }).from(journal).orderBy(desc(journal.seq)).limit(1)
    return last.get()?.at ?? 0
  }

  /** How many of `KEPT` the retention rule has removed of every stored call, and of the journals. */
  removedOfAll(): number {
    const keeps = (kind: Kept) => sql`${calls.record} ->> ${`$.removed.${kind}`} is null`
    const kept = KEPT.findIndex(
      (kind) => this.#db.select({ n: calls.n }).from(calls).where(keeps(kind)).limit(1).get() !== undefined,
    )
    if (kept !== -1) return kept
    const isWhole = ne(journal.kind, REMOVED) // journals are removed last: a removal may have stopped before
    const left = this.#db.select({ seq: journal.seq }).from(journal).where(isWhole).limit(1).get()
    return left === undefined ? KEPT.length : KEPT.indexOf('evidence')
  }

  /** When an entry was last added to a journal of any stored run; 0 without one. Reads all entries. */
  lastOfAll(): number {
    const latest = sql<number | null>`max(${journal.at})`
    return this.#db.select({ at: latest }).from(journal).get()?.at ?? 0
  }

  /** Whether the object has calls, and the inbox has the approvals of all. */
  isMirrored(): boolean {
    if (!this.tables.exist) return false
    const some = (condition?: SQL) =>
      this.#db.select({ n: calls.n }).from(calls).where(condition).limit(1).get() !== undefined
    return some() && !some(sql`${calls.unmirrored} = 1`)
  }

  /** Takes the runs whose last entries were not in the log when the object started. */
  takeUnlogged(): string[] {
    return this.#numbers.size === 0 ? [] : this.#unlogged.splice(0)
  }

  /** When something in the object is due; null if nothing is. */
  nextDue(): number | null {
    if (!this.tables.exist) return null
    const { dueAt, cancelAt } = calls
    const earliest = (column: typeof dueAt | typeof cancelAt) =>
      this.#db
        .select({ at: sql<number | null>`min(${column})` })
        .from(calls)
        .where(isNotNull(column))
        .get()
    const times = [earliest(dueAt)?.at ?? null, earliest(cancelAt)?.at ?? null, this.#files.nextDue()]
    const due = times.filter((at) => at !== null)
    return due.length === 0 ? null : Math.min(...due)
  }

  /**
   * Runs in which something is due: a call, its news for the inbox, the end of a file. Once a day all
   * that hold files, because each reports to the tenant that it does.
   */
  runsDue(now: number): string[] {
    if (!this.tables.exist) return []
    const { dueAt, cancelAt, unmirrored } = calls
    const isReport = this.#reportedAt + LIMITS.file_unnamed_ms < now
    if (isReport) this.#reportedAt = now
    return this.#withNumbers([
      ...this.#runsWith(lte(dueAt, now), AT_ONCE),
      ...this.#runsWith(lte(cancelAt, now)),
      ...this.#runsWith(sql`${unmirrored} = 1`),
      ...this.#files.runsDue(isReport ? Number.POSITIVE_INFINITY : now),
    ])
  }

  /** Sets when the due calls of a run are checked next. */
  postpone(id: string, at: number): void {
    const first = (this.numberOf(id) ?? -1) * ROWS_OF_RUN
    const rows = between(calls.n, first, first + ROWS_OF_RUN - 1)
    const { dueAt, cancelAt } = calls
    this.#db
      .update(calls)
      .set({ dueAt: at })
      .where(and(rows, lt(dueAt, at)))
      .run()
    this.#db
      .update(calls)
      .set({ cancelAt: at })
      .where(and(rows, lt(cancelAt, at)))
      .run()
  }

  /** Runs with calls that have not ended. */
  runsLive(): string[] {
    return this.tables.exist ? this.#withNumbers(this.#runsWith(isNotNull(calls.dueAt))) : []
  }

  #runsWith(condition: SQL, most = -1): number[] {
    const rows = this.#db.select({ n: calls.n }).from(calls).where(condition).limit(most).all()
    return rows.map(({ n }) => Math.floor(n / ROWS_OF_RUN))
  }

  #withNumbers(numbers: readonly number[]): string[] {
    const idOf = "SELECT record ->> '$.id' AS id FROM run WHERE id = ?"
    return [...new Set(numbers)].flatMap((number) =>
      this.storage.sql
        .exec<{ id: string }>(idOf, number + 1)
        .toArray()
        .map(({ id }) => id),
    )
  }

  get #files(): FileStore {
    return new FileStore(this.storage, this.tables, () => null)
  }
}
