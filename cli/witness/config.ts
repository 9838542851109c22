// The configuration of a witness: a JSON file without secrets.

import { z } from 'zod'
import { PublicKey } from '../../shared/evidence/ed25519.ts'
import { NOTE_NAME } from '../../shared/evidence/note.ts'
import { LIMITS } from '../../shared/limits.ts'
import { err, ok, type Result } from '../../shared/result.ts'
import { type Trouble, usage } from '../shell/command.ts'
import { readJson } from '../shell/files.ts'

const NoteName = z.string().regex(NOTE_NAME, 'is not a name such as `witness.example.com/w1`')

const WitnessConfig = z.strictObject({
  name: NoteName,
  listen: z.strictObject({ host: z.string().min(1).max(255), port: z.int().min(0).max(65_535) }),
  state: z.string().min(1),
  logs: z
    .array(
      z.strictObject({
        origin: NoteName,
        keys: z.array(PublicKey).min(1).max(LIMITS.witness_keys),
        edge: z
          .url({
            protocol: /^https?$/,
            error: 'is not the address of an edge, such as `https://edge.example.com`',
          })
          .max(LIMITS.witness_url_chars)
          .optional(),
      }),
    )
    .min(1)
    .max(LIMITS.witness_entries),
})
type WitnessConfig = z.infer<typeof WitnessConfig>

export function readWitnessConfig(file: string): Result<WitnessConfig, Trouble> {
  const json = readJson(file)
  if (!json.ok) return json
  const config = WitnessConfig.safeParse(json.value)
  if (config.success) return ok(config.data)
  const [first] = config.error.issues
  return err(usage(`\`${file}\`: \`${first?.path.join('.') || '(the whole)'}\`: ${first?.message}`))
}
