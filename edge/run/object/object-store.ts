// The tables that the runs of one object share, and the numbers by which each run has its rows. Most
// runs have an object to themselves. Calls that make a run of their own share objects, because a
// database file takes longer to make than such a call, and more of the disk.

import { isNotNull, lte, type SQL, sql } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/durable-sqlite'
import migrations from '../../../migrations/run/migrations.js'
import schemas from '../../../migrations/run/schemas.json' with { type: 'json' }
import { isSharedRun } from '../../../shared/ids.ts'
import { LIMITS } from '../../../shared/limits.ts'
import { KEPT, type Kept } from '../../../shared/wire/retention.ts'
import type { Page, Row } from '../../archive/entry.ts'
import type { RunRecord } from '../../call/run.ts'
import { Tables } from '../../platform/object-tables.ts'
import { FileStore } from '../file-store.ts'
import { type SealedReads, type SealedRows, sealedReads } from '../sealing/sealed-rows.ts'
import { calls, journal, run } from '../tables.ts'

/**
 * A run's number is part of the keys of its rows: call n of run r has the key r × 2^32 + n, and its
 * journal is numbered in the same way. The first run of an object has number 0, so the rows of a
 * run with an object to itself have their own numbers.
 */
export const ROWS_OF_RUN = 2 ** 32

/** `logged` of a run that the tenant's lists do not have yet. */
export const UNLISTED = -1

export const INDEXES = ['calls_due', 'calls_key', 'calls_unmirrored', 'calls_join', 'calls_cancel'] as const
/** Tables and indexes that a new object lacks. */
const LATER: readonly string[] = [...INDEXES, 'output', 'files', 'file_parts']

/** The most due calls that one alarm handles; it rings again at once. */
const AT_ONCE = 200
/** The rows of one statement of an export. An output has up to 1 MiB. */
const ROWS = 8

const sizeOf = (row: Row): number =>
  Object.values(row).reduce<number>((sum, value) => {
    if (typeof value === 'string') return sum + value.length
    return sum + (value instanceof ArrayBuffer ? value.byteLength : 8)
  }, 0)

export class ObjectStore {
  readonly storage: DurableObjectStorage
  readonly tables: Tables
  readonly #db
  #known: Map<string, number> | undefined
  #next = 0
  #unlogged: string[] = []
  #reportedAt = 0
  #lastEntryAt: number | undefined
  /** The rows of a sealed object, which stores nothing. */
  #sealed: { readonly rows: SealedRows; readonly reads: SealedReads } | undefined
  /** The open transaction has stored the sealed rows again. */
  #isPutBack = false

  constructor(ctx: DurableObjectState) {
    this.storage = ctx.storage
    this.tables = new Tables(ctx, { migrations, schemas }, LATER)
    this.#db = drizzle(ctx.storage)
  }

  /** The number of each run, by its id. Read once. */
  get #numbers(): Map<string, number> {
    if (this.#known !== undefined) return this.#known
    this.#known = new Map()
    for (const { id, record } of this.sealed?.run.all({}) ?? []) {
      this.#known.set(record.id, id - 1)
      this.#next = id
    }
    if (!this.tables.exist) return this.#known
    const id = sql<string>`${run.record} ->> '$.id'`
    const isLogged = sql<number>`${run.logged} >= ${run.seq}`
    for (const row of this.#db.select({ key: run.id, id, isLogged }).from(run).orderBy(run.id).all()) {
      this.#known.set(row.id, row.key - 1)
      this.#next = row.key
      if (row.isLogged === 0) this.#unlogged.push(row.id)
    }
    return this.#known
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

  get runs(): string[] {
    return [...this.#numbers.keys()]
  }

  /**
   * Whether the object takes no more runs. It must never take some again: a key whose run is elsewhere
   * for want of room would then make a second one (L2). So its last run keeps its row.
   */
  isFull(): boolean {
    return this.#numbers.size > 0 && this.#next >= LIMITS.runs_per_object
  }

  /** Some run, if there is one. All are of one tenant. */
  some(): RunRecord | undefined {
    if (this.sealed !== undefined) return this.sealed.run.all({})[0]?.record
    return this.tables.exist ? this.#db.select().from(run).limit(1).get()?.record : undefined
  }

  /** The agent and session of each run. */
  owners(): Array<Pick<RunRecord, 'agent' | 'session'>> {
    if (this.sealed !== undefined)
      return this.sealed.run.all({}).map(({ record: { agent, session } }) => ({ agent, session }))
    if (!this.tables.exist) return []
    const field = (name: 'agent' | 'session') => sql<string>`${run.record} ->> ${`$.${name}`}`
    return this.#db
      .selectDistinct({ agent: field('agent'), session: field('session') })
      .from(run)
      .all()
  }

  // ── Sealing ──

  /** Reads of the sealed rows; undefined unless the object is sealed. */
  get sealed(): SealedReads | undefined {
    return this.#isPutBack ? undefined : this.#sealed?.reads
  }

  /** Whether the object stores nothing, and holds no sealed rows. */
  get isEmpty(): boolean {
    return !this.tables.exist && this.sealed === undefined
  }

  /** Makes tables or indexes that are needed from now on, also in a sealed object. */
  addTables(...names: readonly string[]): void {
    this.putBack()
    this.tables.add(...names)
  }

  /**
   * From now on reads find these rows, of which the object stores nothing. The first write of a
   * transaction stores them again.
   */
  holdSealed(rows: SealedRows): void {
    this.tables.forget()
    this.#sealed = { rows, reads: sealedReads(rows) }
    this.#known = undefined
  }

  /** Stores the sealed rows in tables of their version, which are then migrated like any object's. */
  putBack(): void {
    if (this.#sealed === undefined || this.#isPutBack) return
    const { rows } = this.#sealed
    this.#isPutBack = true
    this.tables.makeAt(rows.migration, rows.tables)
    for (const table of rows.tables) {
      const columns = Object.keys(rows.of(table)[0] ?? {})
      const insert = `INSERT INTO "${table}" (${columns.map((column) => `"${column}"`)}) VALUES (${columns.map(() => '?')})`
      for (const row of rows.of(table)) this.storage.sql.exec(insert, ...Object.values(row))
    }
    this.tables.upgrade()
    if (rows.of('calls').length > 1) this.tables.add(...INDEXES)
  }

  /** Call it when a transaction is committed. Returns whether it has stored sealed rows again. */
  committed(): boolean {
    const isUnsealed = this.#isPutBack
    if (isUnsealed) this.#sealed = undefined
    this.#isPutBack = false
    return isUnsealed
  }

  /** Call it if a transaction is rolled back: it may have made tables. */
  rolledBack(): void {
    this.tables.forget()
    this.#isPutBack = false
  }

  /** Call it when the object was removed. */
  erased(): void {
    this.tables.forget()
    this.#sealed = undefined
  }

  /**
   * All rows of the object, table by table. The caller may pause between two pages. A page has one row,
   * or several that are small together.
   */
  *pages(): Generator<Page> {
    for (const table of this.tables.all) {
      let last = -1
      for (let rows = this.#rowsAfter(table, last); rows.length > 0; rows = this.#rowsAfter(table, last)) {
        last = Number(rows.at(-1)?.['_row'])
        const plain = rows.map(({ _row, ...row }) => row)
        const isSmall = plain.reduce((sum, row) => sum + sizeOf(row), 0) <= LIMITS.archive_part_chars
        for (const page of isSmall ? [plain] : plain.map((row) => [row])) yield { table, rows: page }
      }
    }
  }

  #rowsAfter(table: string, last: number): Row[] {
    const text = `SELECT rowid AS _row, * FROM "${table}" WHERE rowid > ? ORDER BY rowid LIMIT ${ROWS}`
    return this.storage.sql.exec(text, last).toArray()
  }

  /** Call it with each entry that is added to a journal. */
  entryAdded(at: number): void {
    this.#lastEntryAt = Math.max(at, this.#lastEntryAt ?? 0)
  }

  /**
   * When an entry was last added to a journal; 0 without one. An object that has added none since it
   * started reads all its entries for it, once.
   */
  lastEntryAt(): number {
    const latest = sql<number | null>`max(${journal.at})`
    this.#lastEntryAt ??= this.tables.exist
      ? (this.#db.select({ at: latest }).from(journal).get()?.at ?? 0)
      : 0
    return this.#lastEntryAt
  }

  /** How many of `KEPT` the retention rule has removed of every call. */
  removedOfAll(): number {
    const keeps = (kind: Kept) => sql`${calls.record} ->> ${`$.removed.${kind}`} is null`
    const kept = KEPT.findIndex(
      (kind) => this.#db.select({ n: calls.n }).from(calls).where(keeps(kind)).limit(1).get() !== undefined,
    )
    return kept === -1 ? KEPT.length : kept
  }

  /**
   * Whether the object has calls, of which all receivers know the end. An object of one run does not
   * store what the log has of it.
   */
  isDelivered(): boolean {
    if (!this.tables.exist) return false
    const counts = this.#db
      .select({ calls: sql<number>`count(*)`, unmirrored: sql<number>`total(${calls.unmirrored})` })
      .from(calls)
      .get()
    const unlogged = this.#db.select({ id: run.id }).from(run).where(sql`${run.logged} < ${run.seq}`)
    const [id = ''] = this.runs
    const isLogged = !isSharedRun(id) || unlogged.limit(1).get() === undefined
    return counts !== undefined && counts.calls > 0 && counts.unmirrored === 0 && isLogged
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

  /** Runs with calls that have not ended. */
  runsLive(): string[] {
    return this.tables.exist ? this.#withNumbers(this.#runsWith(isNotNull(calls.dueAt))) : []
  }

  #runsWith(condition: SQL, most = -1): number[] {
    const rows = this.#db.select({ n: calls.n }).from(calls).where(condition).limit(most).all()
    return rows.map(({ n }) => Math.floor(n / ROWS_OF_RUN))
  }

  #withNumbers(numbers: readonly number[]): string[] {
    const wanted = new Set(numbers)
    return wanted.size === 0 ? [] : this.runs.filter((id) => wanted.has(this.numberOf(id) ?? -1))
  }

  get #files(): FileStore {
    return new FileStore(this.storage, this.tables, () => null)
  }
}
