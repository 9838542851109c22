// The mark of a restore of the edge's storage. `countersign restore` writes it beside the objects, and
// the edge gets it as the variable `RESTORED`.

import { z } from 'zod'
import { LIMITS } from '../limits.ts'

/** Its name in the folder of the objects. */
export const RESTORE_FILE = 'restored.json'

/** The kind of its entries in the journal of the installation. */
export const RESTORED_ENTRY = 'installation.restored'

/** The operator's reason for a rollback of the log, on one line. */
export const RollbackReason = z
  .string()
  .min(1)
  .max(LIMITS.reason_chars)
  .regex(/^[^\p{C}\p{Zl}\p{Zp}]+$/u)

const OneRestore = z.strictObject({
  /** How often the storage was restored, this time included. */
  restores: z.int().min(1),
  /** When the backup was taken. */
  cut_at_ms: z.int().min(0),
  restored_at_ms: z.int().min(0),
  /** Why the log may be shorter than heads that others have seen; null if none was longer. */
  rollback: RollbackReason.nullable(),
})

export const Restore = OneRestore.extend({
  /** Restores with a reason that the restored storage has not journalled, oldest first. */
  earlier: z.array(OneRestore).max(LIMITS.restores_unjournalled).default([]),
})
export type Restore = z.infer<typeof Restore>
