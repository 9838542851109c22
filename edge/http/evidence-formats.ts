// The formats of evidence as JSON Schema, made from the schemas that the edge and every verifier parse
// with. `/schemas/` serves them, and docs/schemas/ has the same files for readers without an edge.

import { z } from 'zod'
import { Bundle } from '../../shared/evidence/bundle.ts'
import { Envelope } from '../../shared/evidence/dsse.ts'
import { JournalEntry } from '../../shared/evidence/journal.ts'
import { Keys, Link } from '../../shared/evidence/keys.ts'
import { PolicySnapshot } from '../../shared/evidence/policy-snapshot.ts'
import { Tombstone } from '../../shared/evidence/removal.ts'
import { Grant, Statement } from '../../shared/evidence/statement.ts'
import { Sha256 } from '../../shared/fields.ts'
import { ExportLine } from '../../shared/wire/exports.ts'

/** The title and the schema of each format, by the name of its file without `.json`. */
const FORMATS: Readonly<Record<string, readonly [title: string, schema: z.ZodType]>> = {
  bundle: ['Evidence of one call', Bundle],
  checkpoint: [
    'Signed head of a tenant’s log: a C2SP checkpoint in a signed note',
    z
      .string()
      .max(16_384)
      .regex(
        /^[A-Za-z0-9][A-Za-z0-9./:_-]{0,200}\n(?:0|[1-9][0-9]{0,15})\n[A-Za-z0-9+/]{43}=\n\n(?:— [^\s+]{1,201} [A-Za-z0-9+/]+={0,2}\n){1,16}$/,
      ),
  ],
  envelope: ['DSSE envelope', Envelope],
  'export-line': ['One line of an exported file', ExportLine],
  grant: ['Permission for one worker to run one call once: payload of an envelope', Grant],
  'journal-entry': ['One entry of the journal of a run', JournalEntry],
  'key-link': ['How one edge key follows another: payload of an envelope', Link],
  keys: ['Public keys of an edge and of a tenant’s workers', Keys],
  leaf: ['Data of a leaf of a tenant’s log: the hash of a journal entry', Sha256],
  'policy-snapshot': ['What applied to a call when it was decided', PolicySnapshot],
  tombstone: ['The edge’s record of evidence that it has removed: payload of an envelope', Tombstone],
  statement: ['in-toto statement about one call: payload of an envelope', Statement],
}

export const FORMAT_NAMES: readonly string[] = Object.keys(FORMATS)

/** Made when it is first asked for: an isolate that serves calls needs none. */
const made = new Map<string, string>()

/** The schema as JSON text; undefined if there is no such format. */
export function schemaOf(name: string): string | undefined {
  const format = Object.hasOwn(FORMATS, name) ? FORMATS[name] : undefined
  if (format === undefined) return undefined
  const text = made.get(name) ?? written(...format)
  made.set(name, text)
  return text
}

function written(title: string, schema: z.ZodType): string {
  const { $schema, ...rest } = z.toJSONSchema(schema, { target: 'draft-2020-12', unrepresentable: 'any' })
  return `${JSON.stringify({ $schema, title, ...rest }, null, 2)}\n`
}
