// Witnesses of the logs of an installation: the setting that names them, and the edge's
// report on each.

import { z } from 'zod'
import { Time } from '../fields.ts'
import { LIMITS } from '../limits.ts'
import { parseVerifierKey } from './cosignature.ts'
import type { NoteKey } from './note.ts'

/** `url`: the prefix of `add-checkpoint`. `key`: the line that the witness prints. */
export type WitnessSetting = { readonly url: string; readonly key: string; readonly witness: NoteKey }

const One = z.strictObject({ url: z.url().max(LIMITS.witness_url_chars), key: z.string().max(512) })

/** The setting, as JSON: `[{"url", "key"}]`. One key is one witness, so none is named twice. */
export const WitnessSettings = z
  .array(
    One.transform((given, context): WitnessSetting => {
      const witness = parseVerifierKey(given.key)
      if (witness.ok) return { ...given, witness: witness.value }
      context.addIssue({ code: 'custom', message: `\`key\`: ${witness.error}` })
      return z.NEVER
    }),
  )
  .max(LIMITS.witnesses)
  .pipe(
    z
      .array(z.custom<WitnessSetting>())
      .refine(
        (all) => new Set(all.map(({ witness }) => witness.x)).size === all.length,
        'two witnesses have the same key',
      ),
  )

/**
 * Why a witness does not follow the log. `rolled_back`: it has cosigned a larger head than the log's.
 * `forked`: what it has cosigned is not the beginning of the log.
 */
export const WitnessRefusal = z.enum(['rolled_back', 'forked'])
export type WitnessRefusal = z.infer<typeof WitnessRefusal>

/** The edge's report on a witness. `note`: the largest head that it cosigned. */
export const WitnessState = z.strictObject({
  key: z.string(),
  cosigned: z.strictObject({ note: z.string(), size: z.int().min(0), at_ms: Time }).nullable(),
  refused: z.strictObject({ reason: WitnessRefusal, detail: z.string(), since_ms: Time }).nullable(),
  /** Why the last request failed; null if it did not. */
  failing: z.string().nullable(),
})
export type WitnessState = z.infer<typeof WitnessState>
