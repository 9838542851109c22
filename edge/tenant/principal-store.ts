// A tenant's agents and operators, with the hashes of their keys. A write goes through the
// TenantObject's `change`, so it applies to the next request everywhere.

import { count, eq } from 'drizzle-orm'
import { failure } from '../../shared/failures.ts'
import { mintKey } from '../../shared/ids.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { AgentSpec, OperatorSpec } from '../../shared/wire/principals.ts'
import type { Change, Database } from '../platform/database.ts'
import { agents, operators } from './tables.ts'

/** `key`: only if it was created by this request. */
export type PrincipalRecord<S> = { name: string; spec: S; created_at_ms: number; key?: string }

/** `webhookMadeAt`: when the secret was made that this request made for its webhook. */
export type AgentRecord = PrincipalRecord<AgentSpec> & { webhookMadeAt?: number }

const TABLES = { agent: agents, operator: operators } as const
type Kind = keyof typeof TABLES
const tableOf = (kind: Kind): typeof agents | typeof operators => TABLES[kind]
type Specs = { agent: AgentSpec; operator: OperatorSpec }
type Rows = { agent: typeof agents.$inferSelect; operator: typeof operators.$inferSelect }

const LAST_ADMIN = failure('conflict', 'this is the last admin; create another one first')

export class PrincipalStore {
  readonly #db: Database
  readonly #change: Change
  #removedAt = 0

  constructor(db: Database, change: Change) {
    this.#db = db
    this.#change = change
  }

  /** An agent always has owners: those of the request, those it had, or its creator. */
  putAgent(tenant: string, name: string, spec: AgentSpec, by: string): Result<AgentRecord> {
    const known = this.#known('agent', name)
    const owners = spec.owners ?? known?.spec.owners ?? [by]
    const before = known?.webhookSecrets ?? []
    // Another URL is another receiver: it must not know a secret that the former one knows.
    const isKept = before.length > 0 && known?.spec.webhook?.url === spec.webhook?.url
    const made = spec.webhook === undefined || isKept ? undefined : newTime(before)
    const secrets = spec.webhook === undefined ? null : made === undefined ? before : [made]
    const put = this.#put('agent', tenant, name, { ...spec, owners }, { webhookSecrets: secrets })
    return put.ok && made !== undefined ? ok({ ...put.value, webhookMadeAt: made }) : put
  }

  /** The former secret signs too, until receivers know the new one. */
  rotateWebhook(name: string): Result<AgentRecord> {
    const known = this.#known('agent', name)
    if (known?.spec.webhook === undefined)
      return err(failure('not_found', `there is no agent \`${name}\` with a webhook`))
    const before = known.webhookSecrets ?? []
    const made = newTime(before)
    const webhookSecrets = [made, ...before.slice(0, 1)]
    this.#change(() => this.#db.update(agents).set({ webhookSecrets }).where(eq(agents.name, name)).run())
    return ok({ name, spec: known.spec, created_at_ms: known.createdAt, webhookMadeAt: made })
  }

  putOperator(tenant: string, name: string, spec: OperatorSpec): Result<PrincipalRecord<OperatorSpec>> {
    return !spec.roles.includes('admin') && this.#isLastAdmin(name)
      ? err(LAST_ADMIN)
      : this.#put('operator', tenant, name, spec, {})
  }

  #put<K extends Kind>(
    kind: K,
    tenant: string,
    name: string,
    spec: Specs[K],
    more: K extends 'agent' ? Pick<typeof agents.$inferInsert, 'webhookSecrets'> : Record<never, never>,
  ): Result<PrincipalRecord<Specs[K]>> {
    const table = tableOf(kind)
    const known = this.#known(kind, name)
    if (known !== undefined) {
      this.#change(() =>
        this.#db
          .update(table)
          .set({ spec, ...more })
          .where(eq(table.name, name))
          .run(),
      )
      return ok({ name, spec, created_at_ms: known.createdAt })
    }
    const held = this.#db.select({ n: count() }).from(table).get()?.n ?? 0
    if (held >= LIMITS.principals)
      return err(failure('limit_reached', `a tenant can have at most ${LIMITS.principals} ${kind}s`))
    const now = Math.max(Date.now(), this.#removedAt + 1) // a principal created in the same millisecond would pass for the previous one of that name
    const { key, hash } = mintKey(kind, tenant, now)
    const row = { name, keyHash: hash, spec, createdAt: now, ...more } as typeof table.$inferInsert // the two tables differ only in `spec`
    this.#change(() => this.#db.insert(table).values(row).run())
    return ok({ name, spec, created_at_ms: now, key })
  }

  rotate<K extends Kind>(kind: K, tenant: string, name: string): Result<PrincipalRecord<Specs[K]>> {
    const known = this.#known(kind, name)
    if (known === undefined) return err(failure('not_found', `no such ${kind}`))
    const table = tableOf(kind)
    const { key, hash } = mintKey(kind, tenant, Date.now())
    this.#change(() => this.#db.update(table).set({ keyHash: hash }).where(eq(table.name, name)).run())
    return ok({ name, spec: known.spec as Specs[K], created_at_ms: known.createdAt, key }) // as above
  }

  remove(kind: Kind, name: string): Result<{ done: true }> {
    if (kind === 'operator' && this.#isLastAdmin(name)) return err(LAST_ADMIN)
    if (this.#known(kind, name) === undefined) return err(failure('not_found', `no \`${name}\``))
    const table = tableOf(kind)
    this.#change(() => this.#db.delete(table).where(eq(table.name, name)).run())
    this.#removedAt = Math.max(Date.now(), this.#removedAt + 1)
    return ok({ done: true })
  }

  list<K extends Kind>(kind: K): PrincipalRecord<Specs[K]>[] {
    const rows = this.#db.select().from(tableOf(kind)).all()
    return rows.map(({ name, spec, createdAt }) => ({
      name,
      spec: spec as Specs[K],
      created_at_ms: createdAt,
    })) // the row comes from the table of this kind
  }

  #known<K extends Kind>(kind: K, name: string): Rows[K] | undefined {
    const table = tableOf(kind)
    return this.#db.select().from(table).where(eq(table.name, name)).get() as Rows[K] | undefined // as above
  }

  /** Without an admin, nobody could administer the tenant. */
  #isLastAdmin(name: string): boolean {
    const admins = this.list('operator').filter(({ spec }) => spec.roles.includes('admin'))
    return admins.length === 1 && admins[0]?.name === name
  }
}

/** Secrets are derived from these times, so no two may be equal. */
const newTime = ([latest = 0]: readonly number[]): number => Math.max(Date.now(), latest + 1)
