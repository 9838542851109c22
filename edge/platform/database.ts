// Opens a Durable Object's database with its tables, prepares statements once per isolate, and
// erases objects.

import { drizzle } from 'drizzle-orm/durable-sqlite'
import { type Schema, Tables } from './object-tables.ts'

export type Database = ReturnType<typeof drizzle>
/** The file of an object that stores nothing. workerd makes it for the first request, and keeps it. */
export const EMPTY_FILE_BYTES = 4_096

/** Runs writes in one transaction, and notifies those who depend on them. */
export type Change = <T>(write: () => T) => T

/** The database of an object that has all its tables from the start. */
export function openDatabase(ctx: DurableObjectState, schema: Schema): Database {
  const tables = new Tables(ctx, schema)
  ctx.storage.transactionSync(() => tables.make())
  return drizzle(ctx.storage)
}

/**
 * Statements for the storage of one object, bound once for each. They are built once per isolate,
 * because building takes drizzle longer than making the tables of an object takes SQLite.
 */
export function preparedOnce<T extends Readonly<Record<string, object>>>(
  build: (db: Database) => T,
): (storage: DurableObjectStorage) => T {
  let built: T | undefined
  const bound = new WeakMap<DurableObjectStorage, T>()
  return (storage) => {
    const known = bound.get(storage)
    if (known !== undefined) return known
    built ??= build(drizzle({} as DurableObjectStorage)) // building reads nothing
    const entries = Object.entries(built).map(([name, statement]) => [
      name,
      Object.assign(Object.create(statement), { client: storage }),
    ])
    const statements = Object.fromEntries(entries) as T
    bound.set(storage, statements)
    return statements
  }
}

/**
 * Removes all storage of an object, including its alarm. The object is aborted soon after, when its
 * answer has been sent, so that its memory is gone too; the next request starts a new object.
 */
export async function eraseObject(ctx: DurableObjectState): Promise<void> {
  await ctx.storage.deleteAll()
  setTimeout(() => ctx.abort('its tenant was deleted'), 100)
}
