// Cosignatures of witnesses on checkpoints (C2SP tlog-cosignature, `cosignature/v1`): an Ed25519
// signature with a time, by which a witness says that at that time this was the largest head of the
// log that it knew, and that it continued all earlier ones.

import { sign } from 'node:crypto'
import type { Result } from '../result.ts'
import { err, ok } from '../result.ts'
import type { Signer } from './dsse.ts'
import { isSignedBy, PublicKey } from './ed25519.ts'
import {
  COSIGNATURE_V1,
  decodeBase64,
  keyId,
  linesOf,
  NOTE_NAME,
  type Note,
  type NoteKey,
  parseNote,
  signatureLine,
} from './note.ts'

export type Cosignature = { readonly name: string; readonly at_ms: number }

const KEY_BYTES = 33
const TIME_BYTES = 8
const LATEST_S = 8_640_000_000_000

const signedBytes = (text: string, at_s: number): Buffer =>
  Buffer.from(`cosignature/v1\ntime ${at_s}\n${text}`)

/** The signature line of a witness for the text of a checkpoint. */
export function cosign(text: string, name: string, { x, key }: Signer, at_ms: number): string {
  const at_s = Math.floor(at_ms / 1_000)
  const time = Buffer.alloc(TIME_BYTES)
  time.writeBigUInt64BE(BigInt(at_s))
  const signature = Buffer.concat([time, sign(null, signedBytes(text, at_s), key)])
  return signatureLine(COSIGNATURE_V1, { name, x }, signature)
}

/**
 * The cosignatures on a note by these witnesses, one for each key: the latest that is valid. The
 * signature does not cover the witness's name, so two names for one key count once.
 */
export function cosignedBy(note: string, witnesses: readonly NoteKey[]): Cosignature[] {
  const parsed = parseNote(note)
  if (!parsed.ok) return []
  const byKey = new Map<string, Cosignature>()
  for (const witness of witnesses)
    for (const at_ms of timesOf(parsed.value, witness)) {
      const known = byKey.get(witness.x)
      if (known === undefined || known.at_ms < at_ms) byKey.set(witness.x, { name: witness.name, at_ms })
    }
  return [...byKey.values()]
}

function timesOf(note: Note, witness: NoteKey): number[] {
  return linesOf(note, COSIGNATURE_V1, witness).flatMap(({ signature }) => {
    if (signature.length <= TIME_BYTES) return []
    const at_s = signature.readBigUInt64BE()
    if (at_s > LATEST_S) return []
    const isValid = isSignedBy(
      witness.x,
      signedBytes(note.text, Number(at_s)),
      signature.subarray(TIME_BYTES),
    )
    return isValid ? [Number(at_s) * 1_000] : []
  })
}

/** The line by which a witness makes its key known: a verifier key of C2SP signed-note. */
export const verifierKey = (witness: NoteKey): string =>
  `${witness.name}+${keyId(COSIGNATURE_V1, witness).toString('hex')}+${Buffer.concat([
    Buffer.of(COSIGNATURE_V1),
    Buffer.from(witness.x, 'base64url'),
  ]).toString('base64')}`

export function parseVerifierKey(text: string): Result<NoteKey, string> {
  const [, name = '', id = '', encoded = ''] = /^([^+]+)\+([0-9a-f]{8})\+(\S{44})$/.exec(text) ?? []
  const bytes = decodeBase64(encoded, KEY_BYTES)
  if (!NOTE_NAME.test(name) || bytes === undefined)
    return err('it is not of the form NAME+HASH+KEY, as a witness prints it')
  if (bytes[0] !== COSIGNATURE_V1) return err('it is not the key of a witness that makes cosignature/v1')
  const witness = { name, x: bytes.subarray(1).toString('base64url') }
  if (!PublicKey.safeParse(witness.x).success) return err('its key is not an Ed25519 public key')
  if (keyId(COSIGNATURE_V1, witness).toString('hex') !== id)
    return err('its hash does not belong to its name and key; check that it was copied whole')
  return ok(witness)
}
