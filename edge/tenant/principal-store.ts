// A tenant's agents and operators, with the hashes of their keys. A write is recorded in the tenant's
// journal, and applies to the next request everywhere.

import { eq, sql } from 'drizzle-orm'
import { digestOf } from '../../shared/bytes/json.ts'
import { failure } from '../../shared/failures.ts'
import { mintKey } from '../../shared/ids.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { AgentSpec, OperatorSpec } from '../../shared/wire/principals.ts'
import type { AgentMember, Member } from '../directory/gatekeeper.ts'
import { isOwnAgent } from '../directory/own-agents.ts'
import { CachedRows } from '../platform/cached-rows.ts'
import type { Database } from '../platform/database.ts'
import { faultInAddress } from '../platform/outbound-fetch.ts'
import type { RecordedChange, TenantEntry } from './journal-store.ts'
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
  readonly #record: RecordedChange
  readonly #cached: { readonly [K in Kind]: CachedRows<Rows[K]> }
  #removedAt = 0

  constructor(db: Database, record: RecordedChange) {
    this.#db = db
    this.#record = record
    this.#cached = { agent: cached(db, 'agent'), operator: cached(db, 'operator') }
  }

  // ── For the directory ──

  /** Another store has written to the tables. */
  forget(): void {
    this.#cached.agent.forget()
    this.#cached.operator.forget()
  }
  agents(): AgentMember[] {
    return [...this.#cached.agent.all.values()]
  }
  operators(): Member<OperatorSpec>[] {
    const rows = [...this.#cached.operator.all.values()]
    return rows.map(({ name, keyHash, spec, createdAt }) => ({ name, keyHash, spec, createdAt }))
  }

  // ── Changes ──

  /** An agent always has owners: those of the request, those it had, or its creator. */
  putAgent(
    { tenant, loopback }: { readonly tenant: string; readonly loopback: boolean },
    name: string,
    spec: AgentSpec,
    by: string,
  ): Result<AgentRecord> {
    if (isOwnAgent(name))
      return err(failure('invalid_request', `\`${name}\` stands for the edge itself; choose another name`))
    const fault = spec.webhook && faultInAddress(spec.webhook.url, loopback)
    if (fault !== undefined) return err(failure('channel_refused', `/webhook/url: ${fault}`))
    const known = this.#known('agent', name)
    const owners = spec.owners ?? known?.spec.owners ?? [by]
    const before = known?.webhookSecrets ?? []
    // Another URL is another receiver: it must not know a secret that the former one knows.
    const isKept = before.length > 0 && known?.spec.webhook?.url === spec.webhook?.url
    const made = spec.webhook === undefined || isKept ? undefined : newTime(before)
    const secrets = spec.webhook === undefined ? null : made === undefined ? before : [made]
    const whole = { ...spec, owners }
    const about = { agent: name, spec_sha256: digestOf(whole), created: known === undefined }
    const entry = ['agent.put', by, about] as const
    const put = this.#put('agent', tenant, name, whole, { webhookSecrets: secrets }, entry)
    return put.ok && made !== undefined ? ok({ ...put.value, webhookMadeAt: made }) : put
  }

  /** The former secret signs too, until receivers know the new one. */
  rotateWebhook(name: string, by: string): Result<AgentRecord> {
    const known = this.#known('agent', name)
    if (known?.spec.webhook === undefined)
      return err(failure('not_found', `there is no agent \`${name}\` with a webhook`))
    const before = known.webhookSecrets ?? []
    const made = newTime(before)
    const webhookSecrets = [made, ...before.slice(0, 1)]
    this.#write('agent', name, ['agent.webhook_rotated', by, { agent: name }], () =>
      this.#db.update(agents).set({ webhookSecrets }).where(eq(agents.name, name)).run(),
    )
    return ok({ name, spec: known.spec, created_at_ms: known.createdAt, webhookMadeAt: made })
  }

  putOperator(
    tenant: string,
    name: string,
    spec: OperatorSpec,
    by: string,
  ): Result<PrincipalRecord<OperatorSpec>> {
    if (!spec.roles.includes('admin') && this.#isLastAdmin(name)) return err(LAST_ADMIN)
    const about = { operator: name, roles: spec.roles, created: this.#known('operator', name) === undefined }
    return this.#put('operator', tenant, name, spec, {}, ['operator.put', by, about])
  }

  #put<K extends Kind>(
    kind: K,
    tenant: string,
    name: string,
    spec: Specs[K],
    more: K extends 'agent' ? Pick<Rows['agent'], 'webhookSecrets'> : Record<never, never>,
    entry: TenantEntry,
  ): Result<PrincipalRecord<Specs[K]>> {
    const table = tableOf(kind)
    const known = this.#known(kind, name)
    if (known !== undefined) {
      const record = { name, spec, created_at_ms: known.createdAt }
      const row = { ...known, spec, ...more }
      if (digestOf(row) === digestOf(known)) return ok(record)
      this.#write(kind, name, entry, () =>
        this.#db
          .update(table)
          .set({ spec, ...more })
          .where(eq(table.name, name))
          .run(),
      )
      return ok(record)
    }
    if (this.#cached[kind].all.size >= LIMITS.principals)
      return err(failure('limit_reached', `a tenant can have at most ${LIMITS.principals} ${kind}s`))
    const now = Math.max(Date.now(), this.#removedAt + 1) // a principal created in the same millisecond would pass for the previous one of that name
    const { key, hash } = mintKey(kind, tenant, now)
    const row = { name, keyHash: hash, spec, createdAt: now, ...more } as typeof table.$inferInsert // the two tables differ only in `spec`
    this.#write(kind, name, entry, () => this.#db.insert(table).values(row).run())
    return ok({ name, spec, created_at_ms: now, key })
  }

  rotate<K extends Kind>(
    kind: K,
    tenant: string,
    name: string,
    by: string,
  ): Result<PrincipalRecord<Specs[K]>> {
    const known = this.#known(kind, name)
    if (known === undefined) return err(failure('not_found', `no such ${kind}`))
    const table = tableOf(kind)
    const { key, hash } = mintKey(kind, tenant, Date.now())
    const entry: TenantEntry =
      kind === 'agent'
        ? ['agent.key_rotated', by, { agent: name }]
        : ['operator.key_rotated', by, { operator: name }]
    this.#write(kind, name, entry, () =>
      this.#db.update(table).set({ keyHash: hash }).where(eq(table.name, name)).run(),
    )
    return ok({ name, spec: known.spec as Specs[K], created_at_ms: known.createdAt, key }) // the row comes from the table of this kind
  }

  remove(kind: Kind, name: string, by: string): Result<{ done: true }> {
    if (kind === 'operator' && this.#isLastAdmin(name)) return err(LAST_ADMIN)
    if (this.#known(kind, name) === undefined) return err(failure('not_found', `no \`${name}\``))
    const table = tableOf(kind)
    const entry: TenantEntry =
      kind === 'agent' ? ['agent.removed', by, { agent: name }] : ['operator.removed', by, { operator: name }]
    this.#write(kind, name, entry, () => this.#db.delete(table).where(eq(table.name, name)).run())
    this.#removedAt = Math.max(Date.now(), this.#removedAt + 1)
    return ok({ done: true })
  }

  #write(kind: Kind, name: string, entry: TenantEntry, write: () => unknown): void {
    this.#record(entry, () => {
      this.#cached[kind].written(name)
      write()
    })
  }

  list<K extends Kind>(kind: K): PrincipalRecord<Specs[K]>[] {
    return [...this.#cached[kind].all.values()].map(({ name, spec, createdAt }) => ({
      name,
      spec: spec as Specs[K], // the row comes from the table of this kind
      created_at_ms: createdAt,
    }))
  }

  #known<K extends Kind>(kind: K, name: string): Rows[K] | undefined {
    return this.#cached[kind].all.get(name)
  }

  /** Without an admin, nobody could administer the tenant. */
  #isLastAdmin(name: string): boolean {
    const admins = this.list('operator').filter(({ spec }) => spec.roles.includes('admin'))
    return admins.length === 1 && admins[0]?.name === name
  }
}

function cached<K extends Kind>(db: Database, kind: K): CachedRows<Rows[K]> {
  const table = tableOf(kind)
  const one = db
    .select()
    .from(table)
    .where(eq(table.name, sql.placeholder('name')))
    .prepare()
  return new CachedRows<Rows[K]>(
    () => db.select().from(table).all() as Rows[K][], // the table is the one of this kind
    (name) => one.get({ name }) as Rows[K] | undefined, // as above
  )
}

/** Secrets are derived from these times, so no two may be equal. */
const newTime = ([latest = 0]: readonly number[]): number => Math.max(Date.now(), latest + 1)
