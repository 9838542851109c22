// The database of one run. Its tables are made with its first call or record. A run of one call has
// no index and no table for output or files, because each takes a page of the disk.

import { and, asc, desc, eq, gt, isNotNull, isNull, lte, sql } from 'drizzle-orm'
import migrations from '../../migrations/run/migrations.js'
import schemas from '../../migrations/run/schemas.json' with { type: 'json' }
import type { Envelope } from '../../shared/evidence/dsse.ts'
import type { JournalEntry } from '../../shared/evidence/journal.ts'
import { entryHash, GENESIS } from '../../shared/evidence/journal.ts'
import { callId } from '../../shared/ids.ts'
import type { Page, Row } from '../archive/entry.ts'
import type { CallRecord } from '../call/lifecycle.ts'
import type { RunRecord, RunRow, StoredOutput } from '../call/run.ts'
import type { Snapshot } from '../decision/snapshot.ts'
import { type Database, preparedOnce } from '../platform/database.ts'
import { Tables } from '../platform/object-tables.ts'
import { FileStore } from './file-store.ts'
import { type SealedRows, sealedReads } from './sealing/sealed-rows.ts'
import { attestations, calls, journal, output, run, snapshots } from './tables.ts'

/** The most journal entries that one read returns. */
export const PAGE = 500
/** The rows of one statement of an export. An output has up to 1 MiB. */
const ROWS = 8

/** The keys by which an equal proposal finds the call: its idempotency key, or its content. */
export type CallKeys = { readonly key: string | null; readonly joinKey: string | null }

const p = sql.placeholder

/**
 * Statements on the run and its calls. drizzle's types don't allow placeholders in `set`, hence
 * `never`.
 */
function callStatements(db: Database) {
  /** The columns of the run that its calls change. */
  const changing = {
    cancelled: p('cancelled'),
    calls: p('calls'),
    allowed: p('allowed'),
    denied: p('denied'),
    seq: p('seq'),
    head: p('head'),
    logged: p('logged'),
    folder: p('folder'),
  }
  return {
    run: db.select().from(run).prepare(),
    createRun: db
      .insert(run)
      .values({ id: 1, record: p('record'), ...changing })
      .prepare(),
    saveRun: db
      .update(run)
      .set(changing as never)
      .prepare(),
    call: db
      .select({ record: calls.record })
      .from(calls)
      .where(eq(calls.n, p('n')))
      .prepare(),
    callByKey: db
      .select({ record: calls.record })
      .from(calls)
      .where(eq(calls.key, p('key')))
      .prepare(),
    insertCall: db
      .insert(calls)
      .values({
        n: p('n'),
        state: p('state'),
        dueAt: p('dueAt'),
        key: p('key'),
        record: p('record'),
        unmirrored: p('unmirrored'),
        joinKey: p('joinKey'),
      })
      .prepare(),
    updateCall: db
      .update(calls)
      .set({
        state: p('state'),
        dueAt: p('dueAt'),
        record: p('record'),
        unmirrored: sql`${calls.unmirrored} or ${p('unmirrored')}`,
      } as never)
      .where(eq(calls.n, p('n')))
      .prepare(),
    everyCall: db.select({ record: calls.record }).from(calls).prepare(),
    due: db
      .select({ n: calls.n, record: calls.record })
      .from(calls)
      .where(lte(calls.dueAt, p('now')))
      .orderBy(asc(calls.dueAt))
      .limit(200)
      .prepare(),
    nextDue: db
      .select({ at: sql<number | null>`min(${calls.dueAt})` })
      .from(calls)
      .where(isNotNull(calls.dueAt))
      .prepare(),
    unmirrored: db
      .select({ n: calls.n, record: calls.record })
      .from(calls)
      .where(sql`${calls.unmirrored} = 1`)
      .limit(100)
      .prepare(),
    markMirrored: db
      .update(calls)
      .set({ unmirrored: false })
      .where(and(eq(calls.n, p('n')), eq(calls.record, p('record'))))
      .prepare(),
    live: db.select({ n: calls.n, record: calls.record }).from(calls).where(isNotNull(calls.dueAt)).prepare(),
    pending: db
      .select({ count: sql<number>`count(*)` })
      .from(calls)
      .where(and(isNotNull(calls.dueAt), eq(calls.state, 'awaiting_approval')))
      .prepare(),
  }
}

/** Statements on calls whose clients have not received the answer, or have gone. */
function clientStatements(db: Database) {
  return {
    callToJoin: db
      .select({ record: calls.record })
      .from(calls)
      .where(eq(calls.joinKey, p('joinKey')))
      .orderBy(desc(calls.n))
      .limit(1)
      .prepare(),
    markDelivered: db
      .update(calls)
      .set({ joinKey: null, cancelAt: null })
      .where(eq(calls.n, p('n')))
      .prepare(),
    isDelivered: db
      .select({ n: calls.n })
      .from(calls)
      .where(and(eq(calls.n, p('n')), isNull(calls.joinKey), isNull(calls.cancelAt)))
      .prepare(),
    cancelAt: db
      .update(calls)
      .set({ cancelAt: p('at') } as never)
      .where(eq(calls.n, p('n')))
      .prepare(),
    abandoned: db
      .select({ record: calls.record })
      .from(calls)
      .where(lte(calls.cancelAt, p('now')))
      .prepare(),
    isAbandoned: db
      .select({ n: calls.n })
      .from(calls)
      .where(and(eq(calls.n, p('n')), isNotNull(calls.cancelAt)))
      .prepare(),
    nextCancel: db
      .select({ at: sql<number | null>`min(${calls.cancelAt})` })
      .from(calls)
      .where(isNotNull(calls.cancelAt))
      .prepare(),
  }
}

/** Statements on journal, attestations, snapshots and output. */
function recordStatements(db: Database) {
  return {
    append: db
      .insert(journal)
      .values({ seq: p('seq'), at: p('at'), kind: p('kind'), n: p('n'), body: p('body'), hash: p('hash') })
      .prepare(),
    journal: db
      .select()
      .from(journal)
      .where(gt(journal.seq, p('after')))
      .orderBy(asc(journal.seq))
      .limit(PAGE)
      .prepare(),
    before: db
      .select({ hash: journal.hash })
      .from(journal)
      .where(eq(journal.seq, p('seq')))
      .prepare(),
    lastEntry: db.select({ at: journal.at }).from(journal).orderBy(desc(journal.seq)).limit(1).prepare(),
    saveAttestation: db
      .insert(attestations)
      .values({ n: p('n'), envelope: p('envelope'), grant: p('grant') })
      .prepare(),
    attestation: db
      .select()
      .from(attestations)
      .where(eq(attestations.n, p('n')))
      .prepare(),
    keepSnapshot: db
      .insert(snapshots)
      .values({ digest: p('digest'), snapshot: p('text') })
      .onConflictDoNothing()
      .prepare(),
    snapshot: db
      .select({ text: snapshots.snapshot })
      .from(snapshots)
      .where(eq(snapshots.digest, p('digest')))
      .prepare(),
    saveOutput: db
      .insert(output)
      .values({ n: p('n'), stream: p('stream'), offset: p('offset'), bytes: p('bytes') })
      .onConflictDoNothing()
      .prepare(),
    output: db
      .select()
      .from(output)
      .where(eq(output.n, p('n')))
      .orderBy(asc(output.offset))
      .prepare(),
    outputFrom: db
      .select({
        bytes:
          sql<Buffer>`substr(${output.bytes}, max(0, ${p('from')} - ${output.offset}) + 1, ${p('most')})`.mapWith(
            output.bytes,
          ),
      })
      .from(output)
      .where(
        and(
          eq(output.n, p('n')),
          eq(output.stream, p('stream')),
          sql`${output.offset} < ${p('from')} + ${p('most')} and ${output.offset} + length(${output.bytes}) > ${p('from')}`,
        ),
      )
      .orderBy(asc(output.offset))
      .prepare(),
    outputEnd: db
      .select({ end: sql<number>`${output.offset} + length(${output.bytes})` })
      .from(output)
      .where(and(eq(output.n, p('n')), eq(output.stream, p('stream'))))
      .orderBy(desc(output.offset))
      .limit(1)
      .prepare(),
    dropOutput: db
      .delete(output)
      .where(eq(output.n, p('n')))
      .prepare(),
  }
}

const INDEXES = ['calls_due', 'calls_key', 'calls_unmirrored', 'calls_join', 'calls_cancel'] as const
const prepared = preparedOnce((db) => ({
  ...callStatements(db),
  ...clientStatements(db),
  ...recordStatements(db),
}))

type Statements = ReturnType<typeof prepared>
/** A statement on the object's storage, or on the rows of a sealed run. */
type Queries = { readonly [K in keyof Statements]: Pick<Statements[K], 'get' | 'all' | 'run'> }

export class RunStore {
  readonly #storage: DurableObjectStorage
  readonly #tables: Tables
  readonly #statements: Statements
  readonly files: FileStore
  /** The rows of a sealed run, of which the object stores nothing. */
  #sealed: { readonly rows: SealedRows; readonly queries: Queries } | undefined
  /** The open transaction has stored the sealed rows again. */
  #isPutBack = false

  constructor(ctx: DurableObjectState) {
    this.#storage = ctx.storage
    this.#tables = new Tables(ctx, { migrations, schemas }, [...INDEXES, 'output', 'files', 'file_parts'])
    this.#statements = prepared(ctx.storage)
    this.files = new FileStore(ctx.storage, {
      has: (name) => this.#tables.has(name),
      add: (...names) => this.#add(...names),
    })
  }

  get #q(): Queries {
    if (this.isSealed && this.#sealed !== undefined) return this.#sealed.queries
    this.#tables.make()
    return this.#statements
  }

  #add(...names: readonly string[]): void {
    this.putBack()
    this.#tables.add(...names)
  }

  /** Call it when a transaction is committed. Returns whether it has stored sealed rows again. */
  committed(): boolean {
    const isUnsealed = this.#isPutBack
    if (isUnsealed) this.#sealed = undefined
    this.#isPutBack = false
    return isUnsealed
  }

  /** Call it if a transaction is rolled back: it may have made the tables. */
  rolledBack(): void {
    this.#tables.forget()
    this.#isPutBack = false
  }

  get isSealed(): boolean {
    return this.#sealed !== undefined && !this.#isPutBack
  }

  /** Whether the object stores nothing, and holds no sealed rows. */
  get isEmpty(): boolean {
    return !this.#tables.exist && !this.isSealed
  }

  /**
   * From now on reads find these rows, of which the object stores nothing. The first write of a
   * transaction stores them again.
   */
  holdSealed(rows: SealedRows): void {
    this.#tables.forget()
    const writes = Object.fromEntries(
      Object.keys(this.#statements).map((name) => [
        name,
        { run: (values: Record<string, unknown>) => this.#unsealed(name as keyof Statements).run(values) },
      ]),
    )
    // Each statement is in one of the two: only reads are used with `get` and `all`.
    this.#sealed = { rows, queries: { ...writes, ...sealedReads(rows, PAGE) } as unknown as Queries }
  }

  #unsealed<K extends keyof Statements>(name: K): Queries[K] {
    this.putBack()
    return this.#statements[name]
  }

  /** Stores the sealed rows in tables of their version, which are then migrated like any object's. */
  putBack(): void {
    if (this.#sealed === undefined || this.#isPutBack) return
    const { rows } = this.#sealed
    this.#isPutBack = true
    this.#tables.makeAt(rows.migration, rows.tables)
    for (const table of rows.tables) {
      const columns = Object.keys(rows.of(table)[0] ?? {})
      const insert = `INSERT INTO "${table}" (${columns.map((column) => `"${column}"`)}) VALUES (${columns.map(() => '?')})`
      for (const row of rows.of(table)) this.#storage.sql.exec(insert, ...Object.values(row))
    }
    this.#tables.upgrade()
    if (rows.of('calls').length > 1) this.#tables.add(...INDEXES)
  }

  get migration(): number {
    return this.#tables.migration
  }

  /** All rows of the run, table by table. The caller may pause between two pages. */
  *pages(): Generator<Page> {
    for (const table of this.#tables.all) {
      let last = -1
      for (let rows = this.#rowsAfter(table, last); rows.length > 0; rows = this.#rowsAfter(table, last)) {
        last = Number(rows.at(-1)?.['_row'])
        yield { table, rows: rows.map(({ _row, ...row }) => row) }
      }
    }
  }

  #rowsAfter(table: string, last: number): Row[] {
    const text = `SELECT rowid AS _row, * FROM "${table}" WHERE rowid > ? ORDER BY rowid LIMIT ${ROWS}`
    return this.#storage.sql.exec(text, last).toArray()
  }

  /** When the journal's last entry was written; null without one. */
  lastEntryAt(): number | null {
    return this.#q.lastEntry.get()?.at ?? null
  }

  run(): RunRow | undefined {
    return this.isEmpty ? undefined : this.#q.run.get()
  }

  createRun(record: RunRecord): RunRow {
    const row = {
      record,
      cancelled: false,
      calls: 0,
      allowed: 0,
      denied: 0,
      seq: 0,
      head: GENESIS.hash,
      logged: 0,
      folder: null,
    }
    this.#q.createRun.run(row)
    return row
  }

  saveRun(row: RunRow): void {
    this.#q.saveRun.run(row)
  }

  call(n: number): CallRecord | undefined {
    return this.#q.call.get({ n })?.record
  }

  /** Asked before the run exists, when its tables must not be made yet: that is another commit. */
  callByKey(key: string): CallRecord | undefined {
    if (this.isEmpty) return undefined
    return this.#q.callByKey.get({ key })?.record
  }

  insertCall(
    record: CallRecord,
    { key, joinKey }: CallKeys,
    dueAt: number | null,
    unmirrored: boolean,
  ): void {
    const { proposal, status } = record
    if (proposal.n === 2) this.#add(...INDEXES)
    this.#q.insertCall.run({
      n: proposal.n,
      state: status.state,
      dueAt,
      key,
      record,
      unmirrored,
      joinKey,
    })
  }

  /** The latest call with these arguments whose client has not received the answer. */
  callToJoin(joinKey: string): CallRecord | undefined {
    return this.#q.callToJoin.get({ joinKey })?.record
  }

  markDelivered(n: number): void {
    this.#q.markDelivered.run({ n })
  }

  /** Whether nothing is left to note once the client has the answer. */
  isDelivered(n: number): boolean {
    return this.#q.isDelivered.get({ n }) !== undefined
  }

  cancelAt(n: number, at: number | null): void {
    this.#q.cancelAt.run({ n, at })
  }

  /** Whether the call's client has gone, and the call will be cancelled. */
  isAbandoned(n: number): boolean {
    return this.#q.isAbandoned.get({ n }) !== undefined
  }

  /** Calls whose client has been gone for long enough. */
  abandoned(now: number): CallRecord[] {
    return this.#q.abandoned.all({ now }).map(({ record }) => record)
  }

  updateCall(record: CallRecord, dueAt: number | null, unmirrored: boolean): void {
    this.#q.updateCall.run({
      n: record.proposal.n,
      state: record.status.state,
      dueAt,
      record,
      unmirrored: unmirrored ? 1 : 0,
    })
  }

  everyCall(): CallRecord[] {
    return this.#q.everyCall.all().map(({ record }) => record)
  }

  /** Calls whose deadline has passed, the longest due first. */
  due(now: number): CallRecord[] {
    return this.#q.due.all({ now }).map(({ record }) => record)
  }

  nextDue(): number | null {
    const times = [
      this.#q.nextDue.get()?.at ?? null,
      this.#q.nextCancel.get()?.at ?? null,
      this.files.nextDue(),
    ].filter((at) => at !== null)
    return times.length === 0 ? null : Math.min(...times)
  }

  unmirrored(): CallRecord[] {
    return this.#q.unmirrored.all().map(({ record }) => record)
  }

  /** Only if the call has not changed since it was sent: a later change has to be sent as well. */
  markMirrored({ proposal, status }: CallRecord): void {
    // drizzle encodes a placeholder's value where it is stored, and not where it is compared.
    this.#q.markMirrored.run({ n: proposal.n, record: JSON.stringify({ proposal, status }) })
  }

  live(): CallRecord[] {
    return this.#q.live.all().map(({ record }) => record)
  }

  pendingApprovals(): number {
    return this.#q.pending.get()?.count ?? 0
  }

  /** Appends to the journal and returns the row with its new head, which the caller stores. */
  append(row: RunRow, at: number, kind: string, n: number | null, body: Record<string, unknown>): RunRow {
    const seq = row.seq + 1
    const call = n === null ? null : callId(row.record.id, n)
    const hash = entryHash({ seq, at_ms: at, kind, call, body, prev: row.head })
    this.#q.append.run({ seq, at, kind, n, body: JSON.stringify(body), hash })
    return { ...row, seq, head: hash }
  }

  /** `whole` adds the entries' parts that the run's agent may not read. */
  journal(run: string, after: number, whole = false): JournalEntry[] {
    let prev = after === 0 ? GENESIS.hash : (this.#q.before.get({ seq: after })?.hash ?? GENESIS.hash)
    return this.#q.journal.all({ after }).map(({ seq, at, kind, n, body, hash }) => {
      const call = n === null ? null : callId(run, n)
      const entry: JournalEntry = {
        seq,
        at_ms: at,
        kind,
        call,
        body: JSON.parse(body) as Record<string, unknown>,
        prev,
        hash,
      } // `append` wrote the body
      const shadow =
        whole && n !== null && 'shadow_sha256' in entry.body ? this.call(n)?.proposal.shadow : undefined
      if (shadow !== undefined) entry.shadow = shadow
      prev = hash
      return entry
    })
  }

  saveAttestation(n: number, envelope: Envelope, grant: Envelope | null): void {
    this.#q.saveAttestation.run({
      n,
      envelope: JSON.stringify(envelope),
      grant: grant === null ? null : JSON.stringify(grant),
    })
  }

  attestation(n: number): { envelope: Envelope; grant: Envelope | null } | undefined {
    const row = this.#q.attestation.get({ n })
    if (row === undefined) return undefined
    const { envelope, grant } = row // `saveAttestation` wrote both
    return {
      envelope: JSON.parse(envelope) as Envelope,
      grant: grant === null ? null : (JSON.parse(grant) as Envelope),
    }
  }

  /** Stores each digest once. */
  keepSnapshot(snapshot: Snapshot): void {
    this.#q.keepSnapshot.run(snapshot)
  }

  snapshot(digest: string): string | undefined {
    return this.#q.snapshot.get({ digest })?.text
  }

  saveOutput(n: number, stream: 'stdout' | 'stderr', offset: number, bytes: Buffer): void {
    this.#add('output')
    this.#q.saveOutput.run({ n, stream, offset, bytes })
  }

  get #hasOutput(): boolean {
    return this.isSealed || this.#tables.has('output')
  }

  outputEnd(n: number, stream: 'stdout' | 'stderr'): number {
    return this.#hasOutput ? (this.#q.outputEnd.get({ n, stream })?.end ?? 0) : 0
  }

  /** Returns at most `most` bytes of a stream, from the offset `from`. */
  outputFrom(n: number, stream: 'stdout' | 'stderr', from: number, most: number): Buffer {
    const rows = this.#hasOutput ? this.#q.outputFrom.all({ n, stream, from, most }) : []
    return Buffer.concat(rows.map(({ bytes }) => bytes)).subarray(0, most)
  }

  dropOutput(n: number): void {
    if (this.#hasOutput) this.#q.dropOutput.run({ n })
  }

  /** Replaces the streamed output of a call by the settled one. */
  replaceOutput(n: number, kept: StoredOutput): void {
    this.dropOutput(n)
    for (const stream of ['stdout', 'stderr'] as const)
      if (kept[stream].byteLength > 0) this.saveOutput(n, stream, 0, kept[stream])
  }

  output(n: number): StoredOutput {
    const rows = this.#hasOutput ? this.#q.output.all({ n }) : []
    const join = (name: string) =>
      Buffer.concat(rows.filter(({ stream }) => stream === name).map(({ bytes }) => bytes))
    return { stdout: join('stdout'), stderr: join('stderr') }
  }
}
