// The manifest of a backup: what it holds and of which installation it is, signed with the
// installation's key, so that nobody who can write the backup decides what a restore brings back.

import { z } from 'zod'
import { Envelope, payloadBytes, type Signer, seal, signedByExactly } from '../../shared/evidence/dsse.ts'
import type { KeyEntry } from '../../shared/evidence/keys.ts'
import { LIMITS } from '../../shared/limits.ts'
import { err, ok, type Result } from '../../shared/result.ts'
import type { Trouble } from '../shell/command.ts'
import { trouble } from '../shell/command.ts'
import { readBytes } from '../shell/files.ts'

const TYPE = 'application/vnd.countersign.backup+json'
const FORMAT = 'countersign-backup/v1'

const Sha256 = z.string().regex(/^[0-9a-f]{64}$/)
/** A class of objects, and the file of one of them. No other path is restored (S44). */
const ObjectFile = z.string().regex(/^countersign-[a-z]{1,32}\/[0-9a-z]{1,64}\.sqlite$/)
const Manifest = z.strictObject({
  format: z.literal(FORMAT),
  version: z.string(),
  migrations: z.array(z.string()),
  cut_at_ms: z.int(),
  /** How often the installation had been restored before. */
  restores: z.int().min(0),
  /** The head of each log. */
  logs: z.array(z.strictObject({ path: ObjectFile, size: z.int().min(0), root: Sha256 })),
  files: z.array(z.strictObject({ path: ObjectFile, bytes: z.int().min(0), sha256: Sha256 })),
})
export type Manifest = z.infer<typeof Manifest>

export const MANIFEST_FILE = 'manifest.json'

const Sealed = Envelope.extend({ payload: z.string().max(LIMITS.backup_manifest_bytes) })

export const sealManifest = (manifest: Omit<Manifest, 'format'>, signer: Signer): string =>
  `${JSON.stringify(seal(TYPE, { format: FORMAT, ...manifest }, signer))}\n`

/** The manifest of a backup of the installation with these keys. */
export function readManifest(path: string, keys: readonly KeyEntry[]): Result<Manifest, Trouble> {
  const bytes = readBytes(path, LIMITS.backup_manifest_bytes)
  if (!bytes.ok)
    return err(
      trouble(
        'no_backup',
        bytes.error.detail,
        'name the folder of a finished backup; its manifest is written last',
      ),
    )
  const damaged = trouble('damaged', `\`${path}\` is damaged or was changed`, 'use another backup')
  const sealed = Sealed.safeParse(parsed(bytes.value))
  if (!sealed.success) return err(damaged)
  const key = keys.find(({ kid }) => kid === sealed.data.signatures[0]?.keyid)
  if (key === undefined)
    return err(
      trouble(
        'other_installation',
        'the backup is of another installation: its key is not in `secrets.json`',
        'put the `secrets.json` of the installation that was backed up into the state folder',
      ),
    )
  if (!signedByExactly(sealed.data, TYPE, new Map([[key.kid, key.x]]))) return err(damaged)
  const manifest = Manifest.safeParse(parsed(payloadBytes(sealed.data)))
  if (!manifest.success) return err(newer('an unknown format'))
  return manifest.data.cut_at_ms < (key.distrusted_from_ms ?? Number.POSITIVE_INFINITY)
    ? ok(manifest.data)
    : err(
        trouble(
          'distrusted_key',
          'the edge key that signed the backup was no longer trusted at that time',
          'use a backup from before the theft, or one that a later key signed',
        ),
      )
}

export const newer = (what: string): Trouble =>
  trouble(
    'newer_version',
    `the backup was made by a newer version of Countersign: it has ${what}`,
    'update this host to that version first',
  )

function parsed(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(bytes).toString('utf8'))
  } catch {
    return undefined // which fits no schema
  }
}
