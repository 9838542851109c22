// The mark of a restore of the edge's storage. `countersign restore` writes it beside the objects, and
// the edge gets it as the variable `RESTORED`.

import { z } from 'zod'
import { LIMITS } from '../limits.ts'

/** Its name in the folder of the objects. */
export const RESTORE_FILE = 'restored.json'

/** The operator's reason for a rollback of the log, on one line. */
export const RollbackReason = z
  .string()
  .min(1)
  .max(LIMITS.reason_chars)
  .regex(/^[^\p{C}\p{Zl}\p{Zp}]+$/u)

export const Restore = z.strictObject({
  /** How often the storage was restored, this time included. */
  restores: z.int().min(1),
  /** When the backup was taken. */
  cut_at_ms: z.int().min(0),
  restored_at_ms: z.int().min(0),
  /** Why the log may be shorter than heads that others have seen; null if none was longer. */
  rollback: RollbackReason.nullable(),
})
export type Restore = z.infer<typeof Restore>
