// Opens a Durable Object's database with its migrations applied, and erases an object.

import { drizzle } from 'drizzle-orm/durable-sqlite'
import { migrate } from 'drizzle-orm/durable-sqlite/migrator'

type Migrations = Parameters<typeof migrate>[1]

export type Database = ReturnType<typeof openDatabase>
/** Runs writes in one transaction, and notifies those who depend on them. */
export type Change = <T>(write: () => T) => T

export function openDatabase(ctx: DurableObjectState, migrations: Migrations) {
  const db = drizzle(ctx.storage)
  // `migrate` works synchronously, so the object can read at once. A failure rejects, which ends
  // the object.
  const migrated = migrate(db, migrations)
  void ctx.blockConcurrencyWhile(() => migrated)
  return db
}

/**
 * Removes all storage of an object, including its alarm. The object is aborted soon after, when its
 * answer has been sent, so that its memory is gone too; the next request starts a new object.
 */
export async function eraseObject(ctx: DurableObjectState): Promise<void> {
  await ctx.storage.deleteAll()
  setTimeout(() => ctx.abort('its tenant was deleted'), 100)
}
