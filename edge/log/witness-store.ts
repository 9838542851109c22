// The answers of each witness, as the object stores them.

import { eq } from 'drizzle-orm'
import type { Database } from '../platform/database.ts'
import { witnesses } from './tables.ts'

export type WitnessRow = typeof witnesses.$inferSelect

export class WitnessStore {
  readonly #db: Database

  constructor(db: Database) {
    this.#db = db
  }

  row(key: string): WitnessRow | undefined {
    return this.#db.select().from(witnesses).where(eq(witnesses.key, key)).get()
  }

  /** Changes these columns, and adds the witness if it is new. */
  put(key: string, values: Partial<WitnessRow>): void {
    this.#db
      .insert(witnesses)
      .values({ key, ...values })
      .onConflictDoUpdate({ target: witnesses.key, set: values })
      .run()
  }
}
