// The TenantObject's RPC target for retention: `tenantRetention(env, tenant).put(…)`. It stores the
// rules and the legal holds, and tells each archive of a change. Objects of runs ask it before they
// remove anything.

import { RpcTarget } from 'cloudflare:workers'
import { asc, count, desc, eq, lt } from 'drizzle-orm'
import type { JournalEntry } from '../../shared/evidence/journal.ts'
import { failure } from '../../shared/failures.ts'
import { objectOfRun } from '../../shared/ids.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Approval } from '../../shared/wire/approvals.ts'
import { type Hold, KEEP_ALL, type Keep, type RetentionRule } from '../../shared/wire/retention.ts'
import { archiveObject, type Env } from '../bindings.ts'
import type { Alarm } from '../platform/alarm.ts'
import type { Database } from '../platform/database.ts'
import type { InboxStore } from './inbox-store.ts'
import type { Journal, RecordedChange, TenantEntry } from './journal-store.ts'
import { archives, holds, retentionRules } from './tables.ts'

/** The entries of which archives must know. */
const OF_ARCHIVES: readonly TenantEntry[0][] = ['retention.set', 'hold.put', 'hold.lifted']
const WHOLE = 'tenant'
/** The most archives that hear of a change at the same time. */
const AT_ONCE = 20
const RETRY_MS = 2_000

type Home = { readonly env: Env; readonly tenant: string }

export class Retention extends RpcTarget {
  readonly #db: Database
  readonly #record: RecordedChange
  readonly #journal: Journal<TenantEntry[0]>
  readonly #alarm: Alarm
  readonly #inbox: InboxStore
  readonly #home: Home

  constructor(
    db: Database,
    record: RecordedChange,
    journal: Journal<TenantEntry[0]>,
    alarm: Alarm,
    inbox: InboxStore,
    home: Home,
  ) {
    super()
    this.#db = db
    this.#record = record
    this.#journal = journal
    this.#alarm = alarm
    this.#inbox = inbox
    this.#home = home
  }

  // ── Operators ──

  async rule(): Promise<RetentionRule | null> {
    const row = this.#db.select().from(retentionRules).orderBy(desc(retentionRules.rule)).limit(1).get()
    if (row === undefined) return null
    const { rule, keep, by, at } = row
    return { rule, keep: { ...KEEP_ALL, ...keep }, by, at_ms: at } // rules of earlier builds lack `evidence`
  }

  async put(keep: Keep, by: string): Promise<RetentionRule> {
    const at = Date.now()
    return this.#record(
      ({ rule }) => ['retention.set', by, { rule, keep }],
      () => {
        const { rule } = this.#db.insert(retentionRules).values({ keep, by, at }).returning().get()
        return { rule, keep, by, at_ms: at }
      },
    )
  }

  async holds(): Promise<Hold[]> {
    const rows = this.#db.select().from(holds).orderBy(asc(holds.at), asc(holds.subject)).all()
    return rows.map(({ at, ...hold }) => ({ ...hold, at_ms: at }))
  }

  /** The caller has checked that the run exists. */
  async hold(subject: string, reason: string, by: string): Promise<Result<Hold>> {
    const [known, held] = [this.#held(subject), this.#db.select({ n: count() }).from(holds).get()?.n ?? 0]
    if (known === undefined && held >= LIMITS.holds)
      return err(
        failure('limit_reached', `the tenant has ${held} legal holds; hold the whole tenant, or lift some`),
      )
    const row = { subject, reason, by, at: Date.now() }
    this.#record(['hold.put', by, { subject, reason }], () =>
      this.#db.insert(holds).values(row).onConflictDoUpdate({ target: holds.subject, set: row }).run(),
    )
    return ok({ subject, reason, by, at_ms: row.at })
  }

  async lift(subject: string, reason: string, by: string): Promise<Result<Hold>> {
    const known = this.#held(subject)
    if (known === undefined) return err(failure('not_found', `there is no legal hold on \`${subject}\``))
    this.#record(['hold.lifted', by, { subject, reason }], () =>
      this.#db.delete(holds).where(eq(holds.subject, subject)).run(),
    )
    return ok({ subject, reason: known.reason, by: known.by, at_ms: known.at })
  }

  #held(subject: string) {
    return this.#db.select().from(holds).where(eq(holds.subject, subject)).get()
  }

  // ── Archives and objects of runs ──

  /** The rule, and the objects of which nothing may be removed: all of them, if it returns `null`. */
  async inForce(): Promise<{ rule: RetentionRule; held: string[] } | null> {
    const [rule, held] = [await this.rule(), await this.holds()]
    if (rule === null || held.some(({ subject }) => subject === WHOLE)) return null
    return { rule, held: held.map(({ subject }) => objectOfRun(subject)) }
  }

  /** Called before an archive stores its first entry. */
  async noteArchive(name: string): Promise<void> {
    this.#db.insert(archives).values({ name, notified: this.#lastOfArchives }).onConflictDoNothing().run()
  }

  /** Approvals that lost their arguments, or everything: the inbox must not keep that either. */
  async redact(approvals: readonly Approval[], forgotten: readonly string[]): Promise<void> {
    this.#inbox.redact(approvals, forgotten)
  }

  /** Called by the alarm. Tells archives of the latest change, each at least once. */
  async notifyArchives(): Promise<void> {
    const { env, tenant } = this.#home
    const seq = this.#lastOfArchives
    const late = this.#db.select().from(archives).where(lt(archives.notified, seq)).limit(AT_ONCE).all()
    if (late.length === 0) return
    const told = await Promise.allSettled(
      late.map(async ({ name }) => {
        await archiveObject(env, tenant, name).ruleChanged()
        this.#db.update(archives).set({ notified: seq }).where(eq(archives.name, name)).run()
      }),
    )
    const failed = told.some(({ status }) => status === 'rejected')
    this.#alarm.arm(Date.now() + (failed ? RETRY_MS : 1))
  }

  get #lastOfArchives(): number {
    return this.#journal.lastOf(OF_ARCHIVES)
  }

  async entries(after: number): Promise<JournalEntry[]> {
    return this.#journal.page(after)
  }
}
