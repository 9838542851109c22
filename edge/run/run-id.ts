// Run ids carry a check that only this edge can make: a guessed or foreign id is refused before an
// object is made for it (G11). 6 bytes of time, 5 of chance (or of the idempotency key's digest), 5
// of HMAC over tenant and the rest.

import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import { base32 } from '../../shared/ids.ts'

const CROCKFORD = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'

function sealed(tenant: string, head: Buffer, key: Buffer): string {
  return `run_${base32(Buffer.concat([head, check(tenant, head, key)]))}`
}

const check = (tenant: string, head: Buffer, key: Buffer): Buffer =>
  createHmac('sha256', key).update(tenant).update('\0').update(head).digest().subarray(0, 5)

export function newRunId(tenant: string, key: Buffer, nowMs: number): string {
  const head = randomBytes(11)
  head.writeUIntBE(nowMs, 0, 6)
  return sealed(tenant, head, key)
}

/**
 * The run that one idempotency key of one agent makes: the same key leads to the same object,
 * without an index.
 */
export function runIdFor(tenant: string, agent: string, idempotencyKey: string, key: Buffer): string {
  const seed = createHash('sha256')
    .update(JSON.stringify([tenant, agent, idempotencyKey]))
    .digest()
  seed[0] = 0x7f // beyond the time of any minted id, so the two can't meet
  return sealed(tenant, seed.subarray(0, 11), key)
}

/** Ids found to be ours, for each key: every call of a run asks again. */
const proven = new WeakMap<Buffer, Set<string>>()
const PROVEN_KEPT = 10_000

export function isRunOf(tenant: string, run: string, key: Buffer): boolean {
  const known = proven.get(key) ?? new Set()
  proven.set(key, known)
  const id = `${tenant} ${run}`
  if (known.has(id)) return true
  const ours = isSealed(tenant, run, key)
  if (known.size >= PROVEN_KEPT) known.clear()
  if (ours) known.add(id)
  return ours
}

function isSealed(tenant: string, run: string, key: Buffer): boolean {
  let value = 0n
  for (const char of run.slice(4)) value = (value << 5n) | BigInt(CROCKFORD.indexOf(char))
  if (value >> 128n !== 0n) return false
  const bytes = Buffer.from(value.toString(16).padStart(32, '0'), 'hex')
  return timingSafeEqual(bytes.subarray(11), check(tenant, bytes.subarray(0, 11), key))
}
