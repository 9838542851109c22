// Stores the tenant's export target, with the secret of its access key sealed. There is one at most.

import { failure } from '../../shared/failures.ts'
import { err, ok, type Result } from '../../shared/result.ts'
import type { SealedTarget } from '../export/target.ts'
import type { Database } from '../platform/database.ts'
import { exportTarget } from './tables.ts'

export class ExportTargetStore {
  readonly #db: Database

  constructor(db: Database) {
    this.#db = db
  }

  put(target: SealedTarget): void {
    const row = { id: 1, ...target }
    this.#db.insert(exportTarget).values(row).onConflictDoUpdate({ target: exportTarget.id, set: row }).run()
  }

  get(): SealedTarget | null {
    const row = this.#db.select().from(exportTarget).get()
    return row === undefined ? null : { shown: row.shown, sealed: row.sealed }
  }

  remove(): Result<{ done: true }> {
    const [gone] = this.#db.delete(exportTarget).returning().all()
    return gone === undefined
      ? err(failure('no_export_target', 'the tenant has no export target'))
      : ok({ done: true })
  }
}
