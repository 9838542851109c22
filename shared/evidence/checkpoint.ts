// The signed head of a log: a C2SP checkpoint (tlog-checkpoint) in a signed note, signed and
// checked with Ed25519. It stores nothing: callers keep the heads and compare them.

import { sign } from 'node:crypto'
import type { Result } from '../result.ts'
import { err, ok } from '../result.ts'
import type { Signer } from './dsse.ts'
import { isSignedBy } from './ed25519.ts'
import { decodeBase64, linesOf, NOTE_ED25519, NOTE_NAME, parseNote, signatureLine } from './note.ts'

/** `origin` names both log and key. */
export type Checkpoint = { readonly origin: string; readonly size: number; readonly root: string }

const SIZE = /^(?:0|[1-9][0-9]{0,15})$/
const HASH_BYTES = 32

const textOf = ({ origin, size, root }: Checkpoint): string =>
  `${origin}\n${size}\n${Buffer.from(root, 'hex').toString('base64')}\n`

export function signCheckpoint(checkpoint: Checkpoint, { x, key }: Signer): string {
  const { origin } = checkpoint
  if (!NOTE_NAME.test(origin)) throw new TypeError(`\`${origin}\` can't name a log`)
  const text = textOf(checkpoint)
  return `${text}\n${signatureLine(NOTE_ED25519, { name: origin, x }, sign(null, Buffer.from(text), key))}`
}

/**
 * Reads a note as a checkpoint of `origin`, signed by the key `x`. Signatures by others, such as
 * witnesses, are ignored.
 */
export function verifyCheckpoint(note: string, origin: string, x: string): Result<Checkpoint, string> {
  const parsed = parseNote(note)
  if (!parsed.ok) return parsed
  const head = headIn(parsed.value.text)
  if (!head.ok) return head
  if (head.value.origin !== origin)
    return err(`the checkpoint is of \`${head.value.origin}\`, not of \`${origin}\``)
  const own = linesOf(parsed.value, NOTE_ED25519, { name: origin, x })
  if (own.length === 0) return err('the log’s key has not signed it')
  const text = Buffer.from(parsed.value.text)
  return own.every(({ signature }) => isSignedBy(x, text, signature)) ? head : err('the signature is invalid')
}

/** Reads a note as a checkpoint, and does not verify who signed it. */
export function readCheckpoint(note: string): Result<Checkpoint, string> {
  const parsed = parseNote(note)
  return parsed.ok ? headIn(parsed.value.text) : parsed
}

function headIn(text: string): Result<Checkpoint, string> {
  const [origin = '', size = '', encoded = '', rest, ...more] = text.split('\n')
  if (rest !== '' || more.length > 0) return err('the checkpoint has not exactly three lines')
  if (!NOTE_NAME.test(origin)) return err('the origin is malformed')
  const leaves = readSize(size)
  if (leaves === undefined) return err('the size is malformed')
  const root = decodeBase64(encoded, HASH_BYTES)
  return root === undefined
    ? err('the root is malformed')
    : ok({ origin, size: leaves, root: root.toString('hex') })
}

/** A number of leaves, in the one spelling that it has. */
export function readSize(text: string): number | undefined {
  const size = Number(text)
  return SIZE.test(text) && Number.isSafeInteger(size) ? size : undefined
}
