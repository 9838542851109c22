// How much the tenant's objects of runs and sessions store, as each reports it, for the quota of
// storage. Reports are absolute, so one that comes twice does no harm.

import { eq, sql } from 'drizzle-orm'
import type { Database } from '../platform/database.ts'
import { objects } from './tables.ts'

/** The bytes of an object's own rows and, if they have changed, of those in its archive. */
export type SizeReport = { readonly object: string; readonly live: number; readonly sealed?: number }

const ALL = ''
const p = sql.placeholder

function statements(db: Database) {
  const row = { name: p('name'), live: p('live'), sealed: p('sealed') }
  const put = (set: object) =>
    db.insert(objects).values(row).onConflictDoUpdate({ target: objects.name, set })
  return {
    of: db
      .select()
      .from(objects)
      .where(eq(objects.name, p('name')))
      .prepare(),
    set: put({ live: sql`excluded.live`, sealed: sql`excluded.sealed` }).prepare(),
    add: put({
      live: sql`${objects.live} + excluded.live`,
      sealed: sql`${objects.sealed} + excluded.sealed`,
    }).prepare(),
  }
}

export class ObjectSizes {
  readonly #q: ReturnType<typeof statements>

  constructor(db: Database) {
    this.#q = statements(db)
  }

  /** The caller opens the transaction. */
  put({ object, live, sealed }: SizeReport): void {
    const before = this.#of(object)
    const after = { live, sealed: sealed ?? before.sealed }
    this.#q.set.run({ name: object, ...after })
    this.#q.add.run({ name: ALL, live: after.live - before.live, sealed: after.sealed - before.sealed })
  }

  has(object: string): boolean {
    return this.#q.of.get({ name: object }) !== undefined
  }

  get total(): number {
    const { live, sealed } = this.#of(ALL)
    return live + sealed
  }

  #of(name: string): { readonly live: number; readonly sealed: number } {
    return this.#q.of.get({ name }) ?? { live: 0, sealed: 0 }
  }
}
