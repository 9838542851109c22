// The signed head of a log: a C2SP checkpoint (tlog-checkpoint) in a signed note, signed and
// checked with Ed25519. It stores nothing: callers keep the heads and compare them.

import { sign } from 'node:crypto'
import { sha256 } from '../bytes/json.ts'
import type { Result } from '../result.ts'
import { err, ok } from '../result.ts'
import type { Signer } from './dsse.ts'
import { isSignedBy } from './ed25519.ts'

export type Checkpoint = { readonly origin: string; readonly size: number; readonly root: string }

/**
 * By convention a host and path; it names both log and key. The note format reserves spaces and
 * `+`.
 */
const ORIGIN = /^[A-Za-z0-9][A-Za-z0-9./:_-]{0,200}$/
const SIZE = /^(?:0|[1-9][0-9]{0,15})$/
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/
const ED25519 = 0x01
const HASH_BYTES = 32
const KEY_HASH_BYTES = 4
export const NOTE_CHARS = 16_384
const SIGNATURE_LINES = 16

/** The key id of a signed note, in hex: four bytes of a hash over key name, algorithm and key. */
const keyHash = (name: string, x: string): string =>
  sha256(Buffer.concat([Buffer.from(`${name}\n`), Buffer.of(ED25519), Buffer.from(x, 'base64url')])).slice(
    0,
    2 * KEY_HASH_BYTES,
  )

const textOf = ({ origin, size, root }: Checkpoint): string =>
  `${origin}\n${size}\n${Buffer.from(root, 'hex').toString('base64')}\n`

export function signCheckpoint(checkpoint: Checkpoint, signer: Signer): string {
  if (!ORIGIN.test(checkpoint.origin)) throw new TypeError(`\`${checkpoint.origin}\` can't name a log`)
  const text = textOf(checkpoint)
  const signature = Buffer.concat([
    Buffer.from(keyHash(checkpoint.origin, signer.x), 'hex'),
    sign(null, Buffer.from(text), signer.key),
  ])
  return `${text}\n— ${checkpoint.origin} ${signature.toString('base64')}\n`
}

/**
 * Reads a note as a checkpoint of `origin`, signed by the key `x`. Signatures by others, such as
 * witnesses, are ignored.
 */
export function verifyCheckpoint(note: string, origin: string, x: string): Result<Checkpoint, string> {
  if (note.length > NOTE_CHARS) return err('the note is too long')
  const cut = note.lastIndexOf('\n\n') + 1
  if (cut === 0 || !note.endsWith('\n')) return err('the note has no signature block')
  const text = note.slice(0, cut)
  const signatures = note.slice(cut + 1, -1).split('\n')
  if (signatures.length > SIGNATURE_LINES) return err('the note has too many signatures')
  const head = readText(text)
  if (!head.ok) return head
  if (head.value.origin !== origin)
    return err(`the checkpoint is of \`${head.value.origin}\`, not of \`${origin}\``)
  const signed = signedBy(text, signatures, origin, x)
  return signed.ok ? head : signed
}

function readText(text: string): Result<Checkpoint, string> {
  const [origin = '', size = '', encoded = '', rest, ...more] = text.split('\n')
  if (rest !== '' || more.length > 0) return err('the checkpoint has not exactly three lines')
  if (!ORIGIN.test(origin)) return err('the origin is malformed')
  if (!SIZE.test(size) || !Number.isSafeInteger(Number(size))) return err('the size is malformed')
  const root = decode(encoded, HASH_BYTES)
  return root === undefined
    ? err('the root is malformed')
    : ok({ origin, size: Number(size), root: root.toString('hex') })
}

function signedBy(text: string, lines: readonly string[], name: string, x: string): Result<true, string> {
  let holds = false
  for (const line of lines) {
    const match = /^— ([^\s+]{1,201}) (\S{1,512})$/.exec(line)
    if (match === null) return err('a signature line is malformed')
    const [, signer = '', encoded = ''] = match
    const bytes = decode(encoded)
    if (bytes === undefined || bytes.length <= KEY_HASH_BYTES) return err('a signature line is malformed')
    if (signer !== name || bytes.subarray(0, KEY_HASH_BYTES).toString('hex') !== keyHash(name, x)) continue
    if (!isSignedBy(x, Buffer.from(text), bytes.subarray(KEY_HASH_BYTES)))
      return err('the signature is invalid')
    holds = true
  }
  return holds ? ok(true) : err('the log’s key has not signed it')
}

/** Decodes canonical base64 only. */
function decode(text: string, length?: number): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64')
  if (!BASE64.test(text) || bytes.toString('base64') !== text) return undefined
  return length === undefined || bytes.length === length ? bytes : undefined
}
