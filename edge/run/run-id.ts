// Run ids contain a MAC that only this edge can compute, so a guessed or foreign id is refused
// before an object is created for it (G11). 6 bytes of time, 5 random bytes (or 11 bytes derived
// from the idempotency key), 5 bytes of HMAC over the tenant and the rest. A run that shares its
// object has the first bit set, and 15 bits of the agent's hash after the time.

import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import { base32, base32Number } from '../../shared/ids.ts'
import type { RunOwner } from '../call/run.ts'

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
 * The run id of an agent's idempotency key: the same key reaches the same object without an index,
 * and never the run of an earlier agent of that name (P09).
 */
export function runIdFor(tenant: string, agent: RunOwner, idempotencyKey: string, key: Buffer): string {
  const seed = seedOf(tenant, agent, idempotencyKey)
  seed[0] = 0x7f // later than the time in any id of `newRunId`, so the two never collide
  return sealed(tenant, seed.subarray(0, 11), key)
}

const seedOf = (tenant: string, { name, since }: RunOwner, idempotencyKey: string): Buffer =>
  hashOf(tenant, name, since, idempotencyKey)

const hashOf = (...parts: readonly (string | number)[]): Buffer =>
  createHash('sha256').update(JSON.stringify(parts)).digest()

/** The first bit of an id: the run shares its object. No time has it. */
const SHARED = 0x80

/**
 * The id of a run that shares its object (`runObjectName`) with others of its agent and of that time.
 * `idempotencyKey`: null for a random id.
 */
export function sharedRunId(
  tenant: string,
  owner: RunOwner,
  idempotencyKey: string | null,
  key: Buffer,
  atMs: number,
): string {
  const seed = idempotencyKey === null ? randomBytes(5) : seedOf(tenant, owner, idempotencyKey)
  const agent = hashOf(tenant, owner.name, owner.since)
  const head = Buffer.alloc(11)
  head.writeUIntBE(atMs, 0, 6)
  seed.copy(head, 6, 0, 5)
  head.writeUInt8(head.readUInt8(0) | SHARED, 0)
  head.writeUInt8(agent.readUInt8(0), 6) // 15 bits of the agent
  head.writeUInt8((agent.readUInt8(1) & 0xfe) | (seed.readUInt8(1) & 1), 7)
  return sealed(tenant, head, key)
}

/** Caches valid ids by key, because every call of a run checks its id. */
const validIds = new WeakMap<Buffer, Set<string>>()
const MAX_VALID_IDS = 10_000

export function isRunOf(tenant: string, run: string, key: Buffer): boolean {
  const known = validIds.get(key) ?? new Set()
  validIds.set(key, known)
  const id = `${tenant} ${run}`
  if (known.has(id)) return true
  const isOurs = isSealed(tenant, run, key)
  if (known.size >= MAX_VALID_IDS) known.clear()
  if (isOurs) known.add(id)
  return isOurs
}

function isSealed(tenant: string, run: string, key: Buffer): boolean {
  const value = base32Number(run.slice(4))
  if (value >> 128n !== 0n) return false
  const bytes = Buffer.from(value.toString(16).padStart(32, '0'), 'hex')
  return timingSafeEqual(bytes.subarray(11), check(tenant, bytes.subarray(0, 11), key))
}
