// Opens an object's database with its migrations applied.

import { drizzle } from 'drizzle-orm/durable-sqlite'
import { migrate } from 'drizzle-orm/durable-sqlite/migrator'

type Migrations = Parameters<typeof migrate>[1]

export type Database = ReturnType<typeof openDatabase>
/** Writes as one, and makes what depends on them known. */
export type Change = <T>(write: () => T) => T

export function openDatabase(ctx: DurableObjectState, migrations: Migrations) {
  const db = drizzle(ctx.storage)
  // The work is done when the call returns, so the object can read at once; a failure comes as a rejection, and ends the object.
  const migrated = migrate(db, migrations)
  void ctx.blockConcurrencyWhile(() => migrated)
  return db
}

/**
 * Removes all storage of an object, its alarm included. The object ends soon after its answer is sent, so its memory is gone too; the next
 * request starts a new object.
 */
export async function eraseObject(ctx: DurableObjectState): Promise<void> {
  await ctx.storage.deleteAll()
  setTimeout(() => ctx.abort('its tenant was deleted'), 100)
}
