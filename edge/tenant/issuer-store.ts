// A tenant's issuers of tokens. A write is recorded in the tenant's journal, and the next request sees
// it, wherever it arrives.

import { asc, count, eq } from 'drizzle-orm'
import { digestOf } from '../../shared/bytes/json.ts'
import { failure } from '../../shared/failures.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { IssuerSpec } from '../../shared/wire/issuers.ts'
import type { HeldIssuer } from '../directory/trusted-issuer.ts'
import type { Database } from '../platform/database.ts'
import type { RecordedChange } from './journal-store.ts'
import { issuers } from './tables.ts'

export type IssuerRecord = IssuerSpec & { name: string; put_by: string; put_at_ms: number }

export class IssuerStore {
  readonly #record: RecordedChange
  readonly #db: Database

  constructor(db: Database, record: RecordedChange) {
    this.#record = record
    this.#db = db
  }

  /**
   * Binds the rules to the agents that exist now. A rule does not apply to an agent that is created
   * later under the same name.
   */
  put(
    name: string,
    spec: IssuerSpec,
    present: readonly { readonly name: string; readonly createdAt: number }[],
    by: string,
  ): Result<IssuerRecord> {
    const createdAt = new Map(present.map((agent) => [agent.name, agent.createdAt]))
    const missing = spec.rules.findIndex(({ agent }) => !createdAt.has(agent))
    if (missing >= 0)
      return err(
        failure('invalid_request', 'a rule names an agent that does not exist', [
          {
            at: `/rules/${missing}/agent`,
            message: 'is not an agent of this tenant; create the agent first',
          },
        ]),
      )
    const same = this.#db.select().from(issuers).where(eq(issuers.issuer, spec.issuer)).get()
    if (same !== undefined && same.name !== name)
      return err(
        failure('conflict', `\`${same.name}\` is this issuer already; change that one, or remove it first`),
      )
    const known = this.#db.select().from(issuers).where(eq(issuers.name, name)).get()
    const held = this.#db.select({ n: count() }).from(issuers).get()?.n ?? 0
    if (known === undefined && held >= LIMITS.issuers)
      return err(failure('limit_reached', `a tenant can have at most ${LIMITS.issuers} issuers`))
    const agents = Object.fromEntries(spec.rules.map(({ agent }) => [agent, createdAt.get(agent) ?? 0]))
    if (known !== undefined && digestOf([known.spec, known.agents]) === digestOf([spec, agents]))
      return ok(viewOf(known))
    const row = { name, issuer: spec.issuer, spec, agents, by, at: Date.now() }
    this.#record(['issuer.put', by, { issuer: name, spec_sha256: digestOf(spec) }], () =>
      this.#db.insert(issuers).values(row).onConflictDoUpdate({ target: issuers.name, set: row }).run(),
    )
    return ok(viewOf(row))
  }

  remove(name: string, by: string): Result<{ done: true }> {
    if (this.#db.select().from(issuers).where(eq(issuers.name, name)).get() === undefined)
      return err(failure('not_found', `no issuer \`${name}\``))
    this.#record(['issuer.removed', by, { issuer: name }], () =>
      this.#db.delete(issuers).where(eq(issuers.name, name)).run(),
    )
    return ok({ done: true })
  }

  list(): IssuerRecord[] {
    return this.#db.select().from(issuers).orderBy(asc(issuers.name)).all().map(viewOf)
  }

  held(): HeldIssuer[] {
    return this.#db
      .select()
      .from(issuers)
      .all()
      .map(({ name, spec, agents }) => ({ name, spec, agents }))
  }
}

const viewOf = ({ name, spec, by, at }: typeof issuers.$inferSelect): IssuerRecord => ({
  ...spec,
  name,
  put_by: by,
  put_at_ms: at,
})
