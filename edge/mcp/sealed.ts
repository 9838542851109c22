// Seals state that clients keep for us: sessions, places in a list, waits and tasks (M03). The edge
// stores none of it. AES-256-GCM hides it and detects each change. The purpose is bound to the
// text, so a text sealed for one use can't be opened for another. The agent is part of the text, so
// no other agent can use it.

import { Buffer } from 'node:buffer'
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import { z } from 'zod'
import { CallId, Sha256, Time } from '../../shared/fields.ts'

const ALGORITHM = 'aes-256-gcm'
const NONCE_BYTES = 12
const TAG_BYTES = 16
/** The texts that we seal have fewer than 500 characters. */
const MOST_CHARS = 1_024

/** The sealed values of each purpose, besides their owner. Times are in ms of the edge's clock. */
const PURPOSES = {
  /** A legacy client's session: one connection, one run. */
  session: z.strictObject({ nonce: z.string() }),
  /** A place in the list of tools: the last name before it. */
  cursor: z.strictObject({ after: z.string() }),
  /** A client's wait for a call, and the request that it repeats to continue waiting. */
  wait: z.strictObject({
    call: CallId,
    tool: z.string(),
    args: Sha256,
    round: z.int().min(1),
    until: Time,
  }),
  task: z.strictObject({ call: CallId, until: Time }),
} as const
export type Purpose = keyof typeof PURPOSES
export type Sealed<P extends Purpose> = z.infer<(typeof PURPOSES)[P]>

/** The agent. A later agent of the same name is another one. */
type Owner = { readonly tenant: string; readonly name: string; readonly since: number }
const ownerOf = ({ tenant, name, since }: Owner): readonly unknown[] => [tenant, name, since]

const boundTo = (purpose: Purpose): Buffer => Buffer.from(`countersign mcp ${purpose} v1`)

/** Returns ASCII without spaces, so that a header can carry it. */
export function seal<P extends Purpose>(key: Buffer, purpose: P, owner: Owner, value: Sealed<P>): string {
  const nonce = randomBytes(NONCE_BYTES)
  const cipher = createCipheriv(ALGORITHM, key, nonce).setAAD(boundTo(purpose))
  const text = JSON.stringify([ownerOf(owner), value])
  const bytes = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()])
  return Buffer.concat([nonce, bytes, cipher.getAuthTag()]).toString('base64url')
}

/** Undefined if it was changed, sealed for another purpose or for another agent, or has expired. */
export function unseal<P extends Purpose>(
  key: Buffer,
  purpose: P,
  owner: Owner,
  sealed: string,
  now: number,
): Sealed<P> | undefined {
  if (sealed.length > MOST_CHARS) return undefined
  const bytes = Buffer.from(sealed, 'base64url')
  // Several texts decode to the same bytes; only the one that we made is accepted.
  if (bytes.length < NONCE_BYTES + TAG_BYTES || bytes.toString('base64url') !== sealed) return undefined
  const opening = createDecipheriv(ALGORITHM, key, bytes.subarray(0, NONCE_BYTES), {
    authTagLength: TAG_BYTES,
  })
  opening.setAAD(boundTo(purpose)).setAuthTag(bytes.subarray(-TAG_BYTES))
  let text: string
  try {
    text = Buffer.concat([
      opening.update(bytes.subarray(NONCE_BYTES, -TAG_BYTES)),
      opening.final(),
    ]).toString()
  } catch {
    return undefined
  }
  const [whose, value] = JSON.parse(text) as [unknown, unknown] // `seal` wrote it
  if (JSON.stringify(whose) !== JSON.stringify(ownerOf(owner))) return undefined
  const read = PURPOSES[purpose].safeParse(value)
  if (!read.success) return undefined
  const known = read.data as Sealed<P> // the schema of this purpose has parsed it
  return 'until' in known && now >= known.until ? undefined : known
}
