// Signed notes (C2SP signed-note): a text and the lines with which keys have signed it. It verifies
// nothing: checkpoint.ts and cosignature.ts own the two kinds of signatures.

import { sha256 } from '../bytes/json.ts'
import type { Result } from '../result.ts'
import { err, ok } from '../result.ts'

/** The kinds of signatures, by the byte that the key's id covers. */
export const NOTE_ED25519 = 0x01
export const COSIGNATURE_V1 = 0x04

/** A key that signs notes, under its name. `x`: the Ed25519 public key in base64url. */
export type NoteKey = { readonly name: string; readonly x: string }
export type SignatureLine = { readonly name: string; readonly keyId: Buffer; readonly signature: Buffer }
export type Note = { readonly text: string; readonly signatures: readonly SignatureLine[] }

/**
 * By convention a host and path; it names a log or a witness. The note format reserves spaces and
 * `+`.
 */
export const NOTE_NAME = /^[A-Za-z0-9][A-Za-z0-9./:_-]{0,200}$/
const LINE = /^— ([^\s+]{1,201}) (\S{1,512})$/
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/
const KEY_ID_BYTES = 4
export const NOTE_CHARS = 16_384
const SIGNATURE_LINES = 16

/** Four bytes of a hash over key name, kind and key. They tell keys apart and prove nothing. */
export const keyId = (kind: number, { name, x }: NoteKey): Buffer => {
  const covered = Buffer.concat([Buffer.from(`${name}\n`), Buffer.of(kind), Buffer.from(x, 'base64url')])
  return Buffer.from(sha256(covered).slice(0, 2 * KEY_ID_BYTES), 'hex')
}

export const signatureLine = (kind: number, key: NoteKey, signature: Uint8Array): string =>
  `— ${key.name} ${Buffer.concat([keyId(kind, key), signature]).toString('base64')}\n`

/** The signatures that claim to be of this key. */
export function linesOf({ signatures }: Note, kind: number, key: NoteKey): SignatureLine[] {
  const id = keyId(kind, key).toString('hex')
  return signatures.filter((line) => line.name === key.name && line.keyId.toString('hex') === id)
}

export function parseNote(note: string): Result<Note, string> {
  if (note.length > NOTE_CHARS) return err('the note is too long')
  const cut = note.lastIndexOf('\n\n') + 1
  if (cut === 0 || !note.endsWith('\n')) return err('the note has no signature block')
  const signatures = parseLines(note.slice(cut + 1))
  return signatures.ok ? ok({ text: note.slice(0, cut), signatures: signatures.value }) : signatures
}

/** The lines that follow the text of a note. */
function parseLines(text: string): Result<SignatureLine[], string> {
  const lines = text.slice(0, -1).split('\n')
  if (!text.endsWith('\n')) return err('a signature line is malformed')
  if (lines.length > SIGNATURE_LINES) return err('the note has too many signatures')
  const parsed: SignatureLine[] = []
  for (const line of lines) {
    const [, name = '', encoded = ''] = LINE.exec(line) ?? []
    const bytes = decodeBase64(encoded)
    if (bytes === undefined || bytes.length <= KEY_ID_BYTES) return err('a signature line is malformed')
    const [id, signature] = [bytes.subarray(0, KEY_ID_BYTES), bytes.subarray(KEY_ID_BYTES)]
    parsed.push({ name, keyId: id, signature })
  }
  return ok(parsed)
}

/** Decodes canonical base64 only. */
export function decodeBase64(text: string, length?: number): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64')
  if (!BASE64.test(text) || bytes.toString('base64') !== text) return undefined
  return length === undefined || bytes.length === length ? bytes : undefined
}
