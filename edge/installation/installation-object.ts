// The registry of all tenants, existing and deleted: one object for the whole installation. Its row
// decides whether a tenant is active. Each change is stored with its journal entry and then sent to
// the tenant's object, with retries until that object accepts it. It knows nothing of what is
// inside a tenant.

import { DurableObject } from 'cloudflare:workers'
import { and, asc, count, desc, eq, gt, lte, or } from 'drizzle-orm'
import migrations from '../../migrations/installation/migrations.js'
import schemas from '../../migrations/installation/schemas.json' with { type: 'json' }
import type { JournalEntry } from '../../shared/evidence/journal.ts'
import { type Failure, failure } from '../../shared/failures.ts'
import { INSTALLATION_LOG, mintKey } from '../../shared/ids.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import { RESTORED_ENTRY } from '../../shared/wire/restore.ts'
import type { QuotaChange, Tenant, TenantState, TenantUse } from '../../shared/wire/tenants.ts'
import { DEFAULT_QUOTA, MAX_TENANTS, withChange } from '../../shared/wire/tenants.ts'
import type { Env } from '../bindings.ts'
import { DEFAULT_TENANT, identityOf, logObject, tenancy } from '../bindings.ts'
import { forgetTenant } from '../http/known-tenants.ts'
import { entriesAfter, nextEntry } from '../platform/chained-journal.ts'
import { openDatabase } from '../platform/database.ts'
import { logError } from '../platform/error-log.ts'
import { journal, tenants } from './tables.ts'

/** The name of this journal as a source of leaves in the installation's log. */
const SOURCE = 'tenants'
const RETRY_MS = 2_000

type Row = typeof tenants.$inferSelect
export type NewTenant = { readonly name: string; readonly operator: string; readonly quota: QuotaChange }

const UNERASED = and(eq(tenants.state, 'deleted'), eq(tenants.erased, false))

const NO_TENANT = failure('not_found', 'no such tenant')
const WAS_DELETED = failure('not_found', 'the tenant was deleted, and its name can’t be used again')
const nameTaken = ({ name, state }: Row): Failure =>
  failure(
    'conflict',
    state === 'deleted'
      ? `the tenant \`${name}\` was deleted, and its name can’t be used again; choose another name`
      : `the tenant \`${name}\` exists already; choose another name`,
  )
/** Why a tenant can't be suspended, resumed or deleted now. */
const conflictWith = ({ name, state }: Row, wanted: TenantState): string =>
  state === wanted
    ? `the tenant is ${state} already`
    : `the tenant is ${state}; suspend it first: \`countersign tenants suspend ${name}\``
const UNREACHABLE = failure(
  'unavailable',
  'the change is recorded and takes effect as soon as the tenant can be reached',
)

export class InstallationObject extends DurableObject<Env> {
  readonly #db = openDatabase(this.ctx, { migrations, schemas })

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env)
    if (this.#row(DEFAULT_TENANT) === undefined) this.#foundDefault()
    this.#journalRestore()
  }

  /**
   * Once for each restore, and for those before it that no edge has served. An edge is ready only
   * when this object has answered, so the entries come before the first call.
   */
  #journalRestore(): void {
    const { restore } = identityOf(this.env)
    if (restore === null) return
    const last = this.#db
      .select({ body: journal.body })
      .from(journal)
      .where(eq(journal.kind, RESTORED_ENTRY))
      .orderBy(desc(journal.seq))
      .limit(1)
      .get()
    if (last?.body['restores'] === restore.restores) return
    const { earlier, ...latest } = restore
    this.ctx.storage.transactionSync(() => {
      for (const one of [...earlier, latest]) this.#journal(RESTORED_ENTRY, '', one)
    })
  }

  /**
   * The tenant that set-up makes, whose operator's key is in the environment: nothing has to be
   * sent to its object.
   */
  #foundDefault(): void {
    const now = Date.now()
    const times = { createdAt: now, changedAt: now, revision: 0 }
    this.#db
      .insert(tenants)
      .values({
        name: DEFAULT_TENANT,
        state: 'active',
        quota: DEFAULT_QUOTA,
        ...times,
        accepted: true,
        operator: 'root',
        keyHash: '',
      })
      .run()
  }

  /** Whether the tenant exists, so that one of its keys may be looked up. */
  async has(name: string): Promise<boolean> {
    const state = this.#row(name)?.state
    return state === 'active' || state === 'suspended'
  }

  async list(after: string): Promise<Tenant[]> {
    return this.#db
      .select()
      .from(tenants)
      .where(gt(tenants.name, after))
      .orderBy(asc(tenants.name))
      .limit(LIMITS.page)
      .all()
      .map(shown)
  }

  async read(name: string): Promise<Result<Tenant & { use: TenantUse | null }>> {
    const row = this.#row(name)
    if (row === undefined) return err(NO_TENANT)
    return ok({ ...shown(row), use: row.state === 'deleted' ? null : await tenancy(this.env, name).use() })
  }

  /**
   * A name is used only once, so that nobody else is taken for the signer of a deleted tenant’s
   * evidence.
   */
  async create({
    name,
    operator,
    quota,
  }: NewTenant): Promise<Result<Tenant & { operator: string; key: string }>> {
    const now = Date.now()
    const { key, hash } = mintKey('operator', name, now)
    const made = this.ctx.storage.transactionSync((): Result<Row> => {
      const before = this.#row(name)
      if (before !== undefined) return err(nameTaken(before))
      const held = this.#db.select({ n: count() }).from(tenants).get()?.n ?? 0
      if (held >= MAX_TENANTS)
        return err(
          failure(
            'limit_reached',
            `the installation has reached its limit of ${MAX_TENANTS} tenants, deleted ones included`,
          ),
        )
      const times = { createdAt: now, changedAt: now, revision: 1 }
      const row: Row = {
        name,
        state: 'active',
        quota: withChange(DEFAULT_QUOTA, quota),
        ...times,
        accepted: false,
        erased: false,
        operator,
        keyHash: hash,
      }
      this.#db.insert(tenants).values(row).run()
      this.#journal('tenant.created', name, { operator, quota: row.quota })
      return ok(row)
    })
    if (!made.ok) return made
    await this.#notifyTenant(name) // the key is shown even if this fails: the name is taken, and the alarm finishes the creation
    return ok({ ...shown(made.value), operator, key })
  }

  async putQuota(name: string, quota: QuotaChange): Promise<Result<Tenant>> {
    return this.#change(name, 'tenant.quota', { quota }, (row) =>
      row.state === 'deleted' ? err(WAS_DELETED) : ok({ quota: withChange(row.quota, quota) }),
    )
  }

  async suspend(name: string, reason: string): Promise<Result<Tenant>> {
    return this.#move(name, 'active', 'suspended', { reason })
  }

  async resume(name: string, reason: string): Promise<Result<Tenant>> {
    return this.#move(name, 'suspended', 'active', { reason })
  }

  /**
   * Deletes only a suspended tenant, so that a slip does not delete one in use. `withoutExport` also gives
   * up the export of a deleted tenant whose runs still wait for it.
   */
  async remove(name: string, withoutExport: boolean): Promise<Result<Tenant>> {
    if (!withoutExport) return this.#move(name, 'suspended', 'deleted', {})
    const state = this.#row(name)?.state
    const waits = state === 'deleted' && this.#known(name).erased === false
    const done = waits
      ? this.#change(name, 'tenant.export_waived', {}, () => ok({}))
      : this.#move(name, 'suspended', 'deleted', { without_export: true })
    const removed = await done
    if (removed.ok) await tenancy(this.env, name).forgoExport()
    return removed
  }

  #move(
    name: string,
    from: TenantState,
    state: TenantState,
    details: Record<string, unknown>,
  ): Promise<Result<Tenant>> {
    const kind = state === 'active' ? 'tenant.resumed' : `tenant.${state}`
    return this.#change(name, kind, details, (row) => {
      if (row.state === 'deleted') return err(WAS_DELETED)
      return row.state === from ? ok({ state }) : err(failure('conflict', conflictWith(row, state)))
    })
  }

  /**
   * Stores and journals the change in one transaction; returns success once the tenant's object has
   * accepted it.
   */
  async #change(
    name: string,
    kind: string,
    details: Record<string, unknown>,
    changed: (row: Row) => Result<Partial<Row>>,
  ): Promise<Result<Tenant>> {
    const done = this.ctx.storage.transactionSync((): Result<true> => {
      const row = this.#row(name)
      const change = row === undefined ? err(NO_TENANT) : changed(row)
      if (row === undefined || !change.ok) return change.ok ? err(NO_TENANT) : change
      const stamp = { changedAt: Date.now(), revision: row.revision + 1, accepted: false }
      this.#db
        .update(tenants)
        .set({ ...change.value, ...stamp })
        .where(eq(tenants.name, name))
        .run()
      this.#journal(kind, name, details)
      return ok(true)
    })
    if (!done.ok) return done
    if (this.#known(name).state === 'deleted') forgetTenant(name)
    const sent = await this.#notifyTenant(name)
    return sent.ok ? ok(shown(this.#known(name))) : sent
  }

  /**
   * Sends the current row. The tenant's object ignores a message older than one that it has
   * accepted.
   */
  async #notifyTenant(name: string): Promise<Result<true>> {
    const { revision, state, quota, operator, keyHash } = this.#known(name)
    try {
      await tenancy(this.env, name).govern({ revision, state, quota, first: { name: operator, keyHash } })
    } catch {
      return err(UNREACHABLE) // the alarm sends it again
    }
    if (this.#known(name).revision === revision)
      this.#db.update(tenants).set({ accepted: true }).where(eq(tenants.name, name)).run()
    return ok(true)
  }

  async entries(after: number): Promise<JournalEntry[]> {
    const before =
      after === 0 ? undefined : this.#db.select().from(journal).where(eq(journal.seq, after)).get()
    const rows = this.#db
      .select()
      .from(journal)
      .where(gt(journal.seq, after))
      .orderBy(asc(journal.seq))
      .limit(LIMITS.page)
      .all()
    return entriesAfter(before, rows)
  }

  /** Runs in the transaction of the change it records; the alarm is set in the same commit. */
  #journal(kind: string, tenant: string, details: Record<string, unknown>): void {
    const last = this.#db.select().from(journal).orderBy(desc(journal.seq)).limit(1).get()
    const entry = nextEntry(last, kind, { tenant, ...details })
    this.#db
      .insert(journal)
      .values({ tenant, ...entry })
      .run()
    void this.ctx.storage.setAlarm(Date.now() + 1)
  }

  override async alarm(): Promise<void> {
    const pending = this.#db
      .select()
      .from(tenants)
      .where(eq(tenants.accepted, false))
      .limit(LIMITS.page)
      .all()
    for (const { name } of pending) await this.#notifyTenant(name)
    await this.#erase()
    const logged = await this.#sendToLog().catch(() => false)
    const left = this.#db
      .select()
      .from(tenants)
      .where(or(eq(tenants.accepted, false), UNERASED))
      .limit(1)
      .get()
    if (!logged || left !== undefined) void this.ctx.storage.setAlarm(Date.now() + RETRY_MS)
  }

  /** Erases deleted tenants in rounds, until nothing of them is left. */
  async #erase(): Promise<void> {
    for (const { name, accepted } of this.#db
      .select()
      .from(tenants)
      .where(UNERASED)
      .limit(LIMITS.page)
      .all()) {
      const done =
        accepted &&
        (await tenancy(this.env, name)
          .erase()
          .catch((thrown: unknown) => {
            logError(thrown, { tenant: name }) // the alarm tries again; the error says why an export failed
            return false
          }))
      if (!done) continue
      this.ctx.storage.transactionSync(() => {
        this.#db.update(tenants).set({ erased: true }).where(eq(tenants.name, name)).run()
        this.#journal('tenant.erased', name, {})
      })
    }
  }

  /** Delivers at least once; the log ignores entries whose number it has. */
  async #sendToLog(): Promise<boolean> {
    const rows = this.#db
      .select()
      .from(journal)
      .where(eq(journal.logged, false))
      .orderBy(asc(journal.seq))
      .limit(LIMITS.page)
      .all()
    const last = rows.at(-1)?.seq
    if (last === undefined) return true
    const about = { call: '', agent: '', tool: '', took: 0, shadow: null }
    const leaves = rows.map(({ seq, hash, kind, at }) => ({ seq, hash, state: kind, at, ...about }))
    await logObject(this.env, INSTALLATION_LOG).append(SOURCE, leaves)
    this.#db.update(journal).set({ logged: true }).where(lte(journal.seq, last)).run()
    return rows.length < LIMITS.page
  }

  #row(name: string): Row | undefined {
    return this.#db.select().from(tenants).where(eq(tenants.name, name)).get()
  }

  #known(name: string): Row {
    const row = this.#row(name)
    if (row === undefined) throw new Error(`the registry lacks the tenant ${name}`) // a bug: rows are never removed
    return row
  }
}

const shown = ({ name, state, createdAt, changedAt, quota, erased }: Row): Tenant => ({
  name,
  state,
  created_at_ms: createdAt,
  changed_at_ms: changedAt,
  quota: withChange(DEFAULT_QUOTA, quota), // an earlier edge stored other names
  ...(state === 'deleted' ? { erased } : {}),
})
