// The rows of one run. Its tables are made with its first call or record. An object with one call has
// no index and no table for output or files, because each takes a page of the disk.

import { and, asc, between, desc, eq, isNotNull, isNull, lte, sql } from 'drizzle-orm'
import type { Envelope } from '../../shared/evidence/dsse.ts'
import type { JournalEntry } from '../../shared/evidence/journal.ts'
import { entryHash, GENESIS } from '../../shared/evidence/journal.ts'
import { callId, isSharedRun } from '../../shared/ids.ts'
import type { CallRecord } from '../call/lifecycle.ts'
import type { RunRecord, RunRow, StoredOutput } from '../call/run.ts'
import type { Snapshot } from '../decision/snapshot.ts'
import { type Database, preparedOnce } from '../platform/database.ts'
import type { Tables } from '../platform/object-tables.ts'
import { FileStore } from './file-store.ts'
import { INDEXES, type ObjectStore, UNLISTED } from './object/object-store.ts'
import { recordStatements, type Scope } from './object/record-store.ts'
import { ROWS_OF_RUN } from './object/rows-of-run.ts'
import { type SealedReads, type SealedRun, SealedWrite, sealedReads } from './sealing/sealed-rows.ts'
import { calls, run } from './tables.ts'

/** The keys by which an equal proposal finds the call: its idempotency key, or its content. */
export type CallKeys = { readonly key: string | null; readonly joinKey: string | null }

const p = sql.placeholder

const ONE_RUN: Scope = { rowsOf: () => undefined, unindexed: (column) => sql`${column}` }
const OF_MANY: Scope = {
  rowsOf: (column) => between(column, p('first'), p('last')),
  unindexed: (column) => sql`+${column}`,
}

/**
 * Statements on the run and its calls. drizzle's types don't allow placeholders in `set`, hence
 * `never`.
 */
function callStatements(db: Database, { rowsOf, unindexed }: Scope) {
  const dueAt = unindexed(calls.dueAt)
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
    run: db
      .select()
      .from(run)
      .where(eq(run.id, p('id')))
      .prepare(),
    createRun: db
      .insert(run)
      .values({ id: p('id'), record: p('record'), ...changing })
      .prepare(),
    saveRun: db
      .update(run)
      .set(changing as never)
      .where(eq(run.id, p('id')))
      .prepare(),
    saveLogged: db
      .update(run)
      .set({ logged: p('logged') } as never)
      .where(eq(run.id, p('id')))
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
    everyCall: db.select({ record: calls.record }).from(calls).where(rowsOf(calls.n)).prepare(),
    due: db
      .select({ record: calls.record })
      .from(calls)
      .where(and(rowsOf(calls.n), lte(dueAt, p('now'))))
      .orderBy(asc(calls.dueAt))
      .limit(200)
      .prepare(),
    unmirrored: db
      .select({ record: calls.record })
      .from(calls)
      .where(and(rowsOf(calls.n), sql`${unindexed(calls.unmirrored)} = 1`))
      .limit(100)
      .prepare(),
    markMirrored: db
      .update(calls)
      .set({ unmirrored: false })
      .where(and(eq(calls.n, p('n')), eq(calls.record, p('record'))))
      .prepare(),
    live: db
      .select({ record: calls.record })
      .from(calls)
      .where(and(rowsOf(calls.n), isNotNull(dueAt)))
      .prepare(),
    someLive: db
      .select({ n: calls.n })
      .from(calls)
      .where(and(rowsOf(calls.n), isNotNull(dueAt)))
      .limit(1)
      .prepare(),
    pending: db
      .select({ count: sql<number>`count(*)` })
      .from(calls)
      .where(and(rowsOf(calls.n), isNotNull(dueAt), eq(calls.state, 'awaiting_approval')))
      .prepare(),
  }
}

/** Statements on calls whose clients have not received the answer, or have gone. */
function clientStatements(db: Database, { rowsOf, unindexed }: Scope) {
  return {
    callToJoin: db
      .select({ record: calls.record })
      .from(calls)
      .where(and(rowsOf(calls.n), eq(calls.joinKey, p('joinKey'))))
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
      .where(and(rowsOf(calls.n), lte(unindexed(calls.cancelAt), p('now'))))
      .prepare(),
    isAbandoned: db
      .select({ n: calls.n })
      .from(calls)
      .where(and(eq(calls.n, p('n')), isNotNull(calls.cancelAt)))
      .prepare(),
  }
}

const statementsOn = (scope: Scope) =>
  preparedOnce((db) => ({
    ...callStatements(db, scope),
    ...clientStatements(db, scope),
    ...recordStatements(db, scope),
  }))
const ofOneRun = statementsOn(ONE_RUN)
const ofManyRuns = statementsOn(OF_MANY)

type Statements = ReturnType<typeof ofOneRun>
/** The statements that read, on the object's storage or on the rows of a sealed run. */
type Reads = { readonly [K in keyof SealedReads]: Pick<Statements[K], 'get' | 'all'> }

export class RunStore {
  readonly #object: ObjectStore
  readonly #tables: Tables
  readonly #id: string
  readonly #isShared: boolean
  readonly #statements: Statements
  readonly #sealed: Reads | undefined
  /** Undefined until the run is created. */
  #number: number | undefined
  readonly files: FileStore

  /** `sealed`: the run, if it is sealed now. */
  constructor(object: ObjectStore, id: string, sealed?: SealedRun) {
    this.#object = object
    this.#tables = object.tables
    this.#id = id
    this.#isShared = isSharedRun(id)
    this.#statements = (this.#isShared ? ofManyRuns : ofOneRun)(object.storage)
    this.#number = object.numberOf(id) ?? sealed?.number
    this.#sealed = sealed && (sealedReads(sealed) as unknown as Reads) // they return what these statements return
    const tables = {
      has: (name: string) => this.#tables.has(name),
      add: (...names: readonly string[]) => this.#addTables(...names),
    }
    this.files = new FileStore(object.storage, tables, () => (this.#isShared ? this.#place : null))
  }

  /** True until the rows are put back, which another request may do. */
  get #isSealed(): boolean {
    return this.#sealed !== undefined && this.#object.numberOf(this.#id) === undefined
  }

  get #read(): Reads {
    return this.#sealed !== undefined && this.#isSealed ? this.#sealed : this.#write
  }

  get #write(): Statements {
    if (this.#isSealed) throw new SealedWrite()
    this.#object.makeTables()
    return this.#statements
  }

  /** Makes tables or indexes that are needed from now on. */
  #addTables(...names: readonly string[]): void {
    void this.#write // makes the object's tables first, and throws if the run is sealed
    this.#tables.add(...names)
  }

  /** No row has the number of a run that is not created. */
  get #place(): number {
    return this.#number ?? -1
  }

  /** The key of the run's row for the number `n`. */
  #at(n: number): number {
    return this.#place * ROWS_OF_RUN + n
  }

  get #rows(): { first: number; last: number } {
    return { first: this.#at(0), last: this.#at(ROWS_OF_RUN - 1) }
  }

  /** Two runs of an object may have calls with the same idempotency key. */
  #keyOf(key: string): string {
    return this.#isShared ? `${this.#place}§${key}` : key
  }

  /** Call it if a transaction is rolled back: it may have made the run, or tables. */
  rolledBack(isCreated: boolean): void {
    this.#object.rolledBack()
    if (isCreated) return
    this.#object.takeBack(this.#id)
    this.#number = undefined
  }

  run(): RunRow | undefined {
    return this.#number === undefined ? undefined : this.#read.run.get({ id: this.#number + 1 })
  }

  /** Numbers a new run. Its row is stored at the end of the transaction. */
  newRun(record: RunRecord): RunRow {
    this.#number = this.#object.add(this.#id)
    return {
      record,
      cancelled: false,
      calls: 0,
      allowed: 0,
      denied: 0,
      seq: 0,
      head: GENESIS.hash,
      logged: this.#isShared ? UNLISTED : 0,
      folder: null,
    }
  }

  createRun(row: RunRow): void {
    this.#write.createRun.run({ id: this.#place + 1, ...row })
  }

  /** Called outside a transaction. The log has all entries of a sealed run. */
  saveLogged(seq: number): void {
    if (this.#isSealed) return
    this.#write.saveLogged.run({ id: this.#place + 1, logged: seq })
  }

  saveRun(row: RunRow): void {
    this.#write.saveRun.run({ id: this.#place + 1, ...row })
  }

  call(n: number): CallRecord | undefined {
    if (this.#number === undefined) return undefined // a read makes no tables
    return this.#read.call.get({ n: this.#at(n) })?.record
  }

  /** Asked before the run exists, when its tables must not be made yet: that is another commit. */
  callByKey(key: string): CallRecord | undefined {
    if (this.#number === undefined) return undefined
    return this.#read.callByKey.get({ key: this.#keyOf(key) })?.record
  }

  insertCall(
    record: CallRecord,
    { key, joinKey }: CallKeys,
    dueAt: number | null,
    unmirrored: boolean,
  ): void {
    const { proposal, status } = record
    if (proposal.n > 1 || this.#place > 0) this.#addTables(...INDEXES)
    this.#write.insertCall.run({
      n: this.#at(proposal.n),
      state: status.state,
      dueAt,
      key: key === null ? null : this.#keyOf(key),
      record,
      unmirrored,
      joinKey,
    })
  }

  /** The latest call with these arguments whose client has not received the answer. */
  callToJoin(joinKey: string): CallRecord | undefined {
    if (this.#number === undefined) return undefined
    return this.#read.callToJoin.get({ joinKey, ...this.#rows })?.record
  }

  markDelivered(n: number): void {
    this.#write.markDelivered.run({ n: this.#at(n) })
  }

  /** Whether nothing is left to note once the client has the answer. */
  isDelivered(n: number): boolean {
    return this.#read.isDelivered.get({ n: this.#at(n) }) !== undefined
  }

  cancelAt(n: number, at: number | null): void {
    this.#write.cancelAt.run({ n: this.#at(n), at })
  }

  /** Whether the call's client has gone, and the call will be cancelled. */
  isAbandoned(n: number): boolean {
    return this.#read.isAbandoned.get({ n: this.#at(n) }) !== undefined
  }

  /** Calls whose client has been gone for long enough. */
  abandoned(now: number): CallRecord[] {
    return this.#read.abandoned.all({ now, ...this.#rows }).map(({ record }) => record)
  }

  updateCall(record: CallRecord, dueAt: number | null, unmirrored: boolean): void {
    this.#write.updateCall.run({
      n: this.#at(record.proposal.n),
      state: record.status.state,
      dueAt,
      record,
      unmirrored: unmirrored ? 1 : 0,
    })
  }

  everyCall(): CallRecord[] {
    return this.#read.everyCall.all(this.#rows).map(({ record }) => record)
  }

  /** Calls whose deadline has passed, the longest due first. */
  due(now: number): CallRecord[] {
    return this.#read.due.all({ now, ...this.#rows }).map(({ record }) => record)
  }

  unmirrored(): CallRecord[] {
    return this.#read.unmirrored.all(this.#rows).map(({ record }) => record)
  }

  /** Only if the call has not changed since it was sent: a later change has to be sent as well. */
  markMirrored({ proposal, status }: CallRecord): void {
    if (this.#isSealed) return // its approvals are all delivered
    // drizzle encodes a placeholder's value where it is stored, and not where it is compared.
    this.#write.markMirrored.run({ n: this.#at(proposal.n), record: JSON.stringify({ proposal, status }) })
  }

  live(): CallRecord[] {
    return this.#read.live.all(this.#rows).map(({ record }) => record)
  }

  hasLive(): boolean {
    return this.#read.someLive.get(this.#rows) !== undefined
  }

  pendingApprovals(): number {
    return this.#read.pending.get(this.#rows)?.count ?? 0
  }

  /** Appends to the journal and returns the row with its new head, which the caller stores. */
  append(row: RunRow, at: number, kind: string, n: number | null, body: Record<string, unknown>): RunRow {
    const seq = row.seq + 1
    const call = n === null ? null : callId(row.record.id, n)
    const hash = entryHash({ seq, at_ms: at, kind, call, body, prev: row.head })
    this.#write.append.run({ seq: this.#at(seq), at, kind, n, body: JSON.stringify(body), hash })
    this.#object.entryAdded(at)
    return { ...row, seq, head: hash }
  }

  /** `whole` adds the entries' parts that the run's agent may not read. */
  journal(run: string, after: number, whole = false): JournalEntry[] {
    const before = after <= 0 ? GENESIS : this.#read.before.get({ seq: this.#at(after) })
    let prev = before?.hash ?? GENESIS.hash
    const rows = this.#read.journal.all({ ...this.#rows, after: this.#at(after) })
    return rows.map(({ seq, at, kind, n, body, hash }) => {
      const call = n === null ? null : callId(run, n)
      const entry: JournalEntry = {
        seq: seq - this.#at(0),
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

  /** The positions of the entries of one call. */
  entriesOf(n: number): number[] {
    return this.#read.entriesOf.all({ n, ...this.#rows }).map(({ seq }) => seq - this.#at(0))
  }

  saveAttestation(n: number, envelope: Envelope, grant: Envelope | null): void {
    this.#write.saveAttestation.run({
      n: this.#at(n),
      envelope: JSON.stringify(envelope),
      grant: grant === null ? null : JSON.stringify(grant),
    })
  }

  attestation(n: number): { envelope: Envelope; grant: Envelope | null } | undefined {
    const row = this.#read.attestation.get({ n: this.#at(n) })
    if (row === undefined) return undefined
    const { envelope, grant } = row // `saveAttestation` wrote both
    return {
      envelope: JSON.parse(envelope) as Envelope,
      grant: grant === null ? null : (JSON.parse(grant) as Envelope),
    }
  }

  keepSnapshot(snapshot: Snapshot): void {
    if (this.#object.hasSnapshot(snapshot.digest)) return
    this.#write.keepSnapshot.run(snapshot)
    this.#object.snapshotAdded(snapshot.digest)
  }

  snapshot(digest: string): string | undefined {
    return this.#read.snapshot.get({ digest })?.text
  }

  saveOutput(n: number, stream: 'stdout' | 'stderr', offset: number, bytes: Buffer): void {
    this.#addTables('output')
    this.#write.saveOutput.run({ n: this.#at(n), stream, offset, bytes })
  }

  get #hasOutput(): boolean {
    return this.#isSealed || this.#tables.has('output')
  }

  outputEnd(n: number, stream: 'stdout' | 'stderr'): number {
    return this.#hasOutput ? (this.#read.outputEnd.get({ n: this.#at(n), stream })?.end ?? 0) : 0
  }

  /** Returns at most `most` bytes of a stream, from the offset `from`. */
  outputFrom(n: number, stream: 'stdout' | 'stderr', from: number, most: number): Buffer {
    const rows = this.#hasOutput ? this.#read.outputFrom.all({ n: this.#at(n), stream, from, most }) : []
    return Buffer.concat(rows.map(({ bytes }) => bytes)).subarray(0, most)
  }

  dropOutput(n: number): void {
    const statements = this.#write
    if (this.#hasOutput) statements.dropOutput.run({ n: this.#at(n) })
  }

  /** Replaces the streamed output of a call by the settled one. */
  replaceOutput(n: number, kept: StoredOutput): void {
    this.dropOutput(n)
    for (const stream of ['stdout', 'stderr'] as const)
      if (kept[stream].byteLength > 0) this.saveOutput(n, stream, 0, kept[stream])
  }

  output(n: number): StoredOutput {
    const rows = this.#hasOutput ? this.#read.output.all({ n: this.#at(n) }) : []
    const join = (name: string) =>
      Buffer.concat(rows.filter(({ stream }) => stream === name).map(({ bytes }) => bytes))
    return { stdout: join('stdout'), stderr: join('stderr') }
  }
}
