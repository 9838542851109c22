// Stores the tenant's export target, with the secret of its access key sealed. There is one at most.

import { digestOf } from '../../shared/bytes/json.ts'
import { failure } from '../../shared/failures.ts'
import { err, ok, type Result } from '../../shared/result.ts'
import type { SealedTarget } from '../export/target.ts'
import type { Database } from '../platform/database.ts'
import type { RecordedChange } from './journal-store.ts'
import { exportTarget } from './tables.ts'

export class ExportTargetStore {
  readonly #note: RecordedChange
  readonly #db: Database

  constructor(db: Database, note: RecordedChange) {
    this.#db = db
    this.#note = note
  }

  put(target: SealedTarget): void {
    const row = { id: 1, ...target }
    const { put_by: by, put_at_ms: _, ...settings } = target.shown
    const about = { bucket: settings.bucket, spec_sha256: digestOf(settings) }
    this.#note(['export_target.put', by, about], () =>
      this.#db
        .insert(exportTarget)
        .values(row)
        .onConflictDoUpdate({ target: exportTarget.id, set: row })
        .run(),
    )
  }

  get(): SealedTarget | null {
    const row = this.#db.select().from(exportTarget).get()
    return row === undefined ? null : { shown: row.shown, sealed: row.sealed }
  }

  remove(by: string): Result<{ done: true }> {
    const target = this.get()
    if (target === null) return err(failure('no_export_target', 'the tenant has no export target'))
    this.#note(['export_target.removed', by, { bucket: target.shown.bucket }], () => this.forgo())
    return ok({ done: true })
  }

  /** Part of deleting the tenant, which the installation's journal records. */
  forgo(): void {
    this.#db.delete(exportTarget).run()
  }
}
