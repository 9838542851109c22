// A journal of the tenant: hash-chained, and each entry is a leaf of the tenant's log. There is one of
// upstreams (without it, nobody could say later what agents and approvers were shown), and one of all
// else that is administered.

import { and, asc, eq, gt, inArray, lte, max, type SQL, sql } from 'drizzle-orm'
import type { JournalEntry } from '../../shared/evidence/journal.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Keep } from '../../shared/wire/retention.ts'
import { entriesAfter, nextEntry, type StoredEntry } from '../platform/chained-journal.ts'
import type { Change, Database } from '../platform/database.ts'
import type { LogDelivery, LoggedJournal } from './log-delivery.ts'
import type { tenantJournal, upstreamJournal } from './tables.ts'

type Hold = { subject: string; reason: string }
type Agent = { agent: string }
type Operator = { operator: string }
type Policies = { version: number; digest: string }
type Tool = Policies & { tool: string }
type Secret = { secret: string; version: number }
/** `spec_sha256`: the digest of the settings as the API shows them, so it never covers a secret. */
type Settings = { spec_sha256: string }

/**
 * The bodies of entries of the tenant's journal, by kind. None has a key, the value of a secret or a
 * digest of it, or a URL, which may contain a secret.
 */
type TenantBodies = {
  'retention.set': { rule: number; keep: Keep }
  'hold.put': Hold
  'hold.lifted': Hold
  'agent.put': Agent & Settings & { created: boolean }
  'agent.key_rotated': Agent
  'agent.webhook_rotated': Agent
  'agent.removed': Agent
  'operator.put': Operator & { roles: readonly string[]; created: boolean }
  'operator.key_rotated': Operator
  'operator.removed': Operator
  'policies.put': Policies & { active: boolean }
  'policies.activated': Policies
  'policies.shadowed': { version: number | null }
  'tool.put': Tool
  'tool.removed': Tool
  'enrolment.created': { enrolment: string; pool: string }
  'worker.enrolled': { worker: string; name: string; pool: string; kid: string; enrolment: string }
  'worker.key_rotated': { worker: string; kid: string; former: string }
  'worker.revoked': { worker: string; kid: string; distrusted_from_ms: number | null }
  'secret.put': Secret & { tools: readonly string[]; hosts: readonly string[] | null }
  'secret.removed': Secret
  'issuer.put': { issuer: string } & Settings
  'issuer.removed': { issuer: string }
  'export_target.put': { bucket: string } & Settings
  'export_target.removed': { bucket: string }
  'channel.put': { channel: string; kind: string } & Settings
  'channel.removed': { channel: string }
  'standing.revoked': Agent & { standing: string; session: string }
  'session.reset': Agent & { session: string }
}

/** `by`: an operator's name, `agent NAME`, `worker ID` or `the edge`. Names have no spaces. */
type Entries<Kind extends keyof TenantBodies> = {
  [K in Kind]: readonly [kind: K, by: string, body: TenantBodies[K]]
}[Kind]
export type TenantEntry = Entries<keyof TenantBodies>
/** Of changes that other objects make. */
export type EntryAhead = Entries<'channel.put' | 'channel.removed' | 'standing.revoked' | 'session.reset'>

/** Makes a change and writes its entry, in one transaction. The entry may depend on what `write` returns. */
export type RecordedChange = <T>(entry: TenantEntry | ((done: T) => TenantEntry), write: () => T) => T

export const recording =
  (journal: Pick<Journal<TenantEntry[0]>, 'append'>, delivery: LogDelivery, change: Change): RecordedChange =>
  (entry, write) =>
    delivery.soon(
      change(() => {
        const done = write()
        const [kind, by, body] = typeof entry === 'function' ? entry(done) : entry
        journal.append(kind, { ...body, by })
        return done
      }),
    )

const statements = (db: Database, table: typeof upstreamJournal) => ({
  last: db
    .select({ seq: table.seq, hash: table.hash })
    .from(table)
    .where(eq(table.seq, sql`(select max(seq) from ${table})`))
    .prepare(),
  add: db
    .insert(table)
    .values({
      seq: sql.placeholder('seq'),
      at: sql.placeholder('at'),
      kind: sql.placeholder('kind'),
      body: sql.placeholder('body'),
      hash: sql.placeholder('hash'),
    })
    .prepare(),
})

export class Journal<Kind extends string> implements LoggedJournal {
  readonly source: string
  readonly #db: Database
  readonly #table: typeof upstreamJournal
  readonly #q: ReturnType<typeof statements>

  constructor(db: Database, source: string, table: typeof upstreamJournal | typeof tenantJournal) {
    this.#db = db
    this.source = source
    this.#table = table as typeof upstreamJournal // both have the same columns
    this.#q = statements(db, this.#table)
  }

  /** Must run in the transaction of the change that it records. */
  append(kind: Kind, body: Record<string, unknown>): void {
    this.#q.add.run(nextEntry(this.#q.last.get(), kind, body))
  }

  /** The number of the last entry of these kinds; 0 if there is none. */
  lastOf(kinds: readonly Kind[]): number {
    const { seq, kind } = this.#table
    const last = this.#db
      .select({ seq: max(seq) })
      .from(this.#table)
      .where(inArray(kind, [...kinds]))
    return last.get()?.seq ?? 0
  }

  page(after: number): JournalEntry[] {
    const [last] = this.#page(eq(this.#table.seq, after))
    return entriesAfter(last, this.#page(gt(this.#table.seq, after)))
  }

  unlogged(): StoredEntry[] {
    return this.#page(eq(this.#table.logged, false))
  }

  logged(last: number): void {
    const accepted = and(eq(this.#table.logged, false), lte(this.#table.seq, last))
    this.#db.update(this.#table).set({ logged: true }).where(accepted).run()
  }

  #page(which: SQL): StoredEntry[] {
    const rows = this.#db.select().from(this.#table).where(which).orderBy(asc(this.#table.seq))
    return rows.limit(LIMITS.page).all()
  }
}
