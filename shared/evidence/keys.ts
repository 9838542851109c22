// The public keys of an edge and of a tenant's workers: when each one signed, and the chain by which
// each edge key after the first was introduced by the one before it. From a pinned edge key, a
// reader follows the chain without trusting the connection that delivered it.

import { z } from 'zod'
import { canonical, parseJson } from '../bytes/json.ts'
import { Time } from '../fields.ts'
import { PATTERNS } from '../ids.ts'
import { LIMITS } from '../limits.ts'
import { err, ok, type Result } from '../result.ts'
import { countersign, Envelope, kidOf, payloadBytes, type Signer, seal, signedByExactly } from './dsse.ts'
import { PublicKey } from './ed25519.ts'

export const KEYS_FORMAT = 'countersign-keys/v2'
const LINK_TYPE = 'application/vnd.countersign.key-link+json'

const Kid = z.string().max(64)

const KeyEntry = z.strictObject({
  kid: Kid,
  kty: z.literal('OKP'),
  crv: z.literal('Ed25519'),
  x: PublicKey,
  role: z.enum(['edge', 'worker']),
  worker: z.string().regex(PATTERNS.worker).optional(),
  from_ms: Time,
  /** Until when its signatures count; null while it signs. */
  until_ms: Time.nullable(),
  status: z.enum(['active', 'retired', 'revoked', 'distrusted']),
  /** Somebody else may have had the key since then: nothing that was signed later counts. */
  distrusted_from_ms: Time.optional(),
})
export type KeyEntry = z.infer<typeof KeyEntry>

/**
 * The public keys of an edge and its workers, as `/.well-known/countersign/keys.json` serves them.
 * `readKeys` checks them.
 */
export const Keys = z.strictObject({
  format: z.literal(KEYS_FORMAT),
  tenant: z.string().regex(PATTERNS.tenant),
  keys: z.array(KeyEntry),
  /** One link for each edge key after the first, in order, signed by that key and the one before it. */
  chain: z.array(Envelope).max(LIMITS.edge_keys - 1),
})
export type Keys = z.infer<typeof Keys>

/** `key` signs from `from_ms` on in the place of `follows`, whose signatures count until `until_ms`. */
export const Link = z.strictObject({
  follows: PublicKey,
  key: PublicKey,
  from_ms: Time,
  until_ms: Time,
  /** An earlier key that is no longer trusted since that time. */
  distrusts: z.strictObject({ kid: Kid, from_ms: Time }).nullable(),
  /** A key outside of the edge that signs this link, and must sign every later one. */
  root: PublicKey.optional(),
})
export type Link = z.infer<typeof Link>

/** The link from one edge key to the next, signed by both. */
export const sealLink = (link: Omit<Link, 'follows' | 'key'>, from: Signer, to: Signer): Envelope =>
  countersign(seal(LINK_TYPE, { ...link, follows: from.x, key: to.x }, from), to)

/** The edge keys of the chain that begins with `first`; an error is a sentence for people. */
export function edgeKeysOf(first: string, chain: readonly Envelope[]): Result<KeyEntry[], string> {
  const keys: KeyEntry[] = [entryOf(first, 0)]
  let root: string | undefined
  for (const [index, envelope] of chain.entries()) {
    const last = keys[keys.length - 1]
    const link = linkIn(envelope, last?.x ?? '', root)
    const broken = (why: string): Result<never, string> => err(`link ${index + 1} of the chain ${why}`)
    if (last === undefined || link === undefined)
      return broken('is not signed by the key before it and by the key that it names')
    if (keys.some(({ x }) => x === link.key)) return broken('leads back to an earlier key')
    if (link.from_ms < last.from_ms || link.until_ms < link.from_ms) return broken('goes back in time')
    Object.assign(last, { until_ms: link.until_ms, status: 'retired' })
    if (link.distrusts !== null && !distrust(keys, link.distrusts)) return broken('distrusts an unknown key')
    keys.push(entryOf(link.key, link.from_ms))
    root = link.root
  }
  return ok(keys)
}

const entryOf = (x: string, from_ms: number): KeyEntry => ({
  kid: kidOf(x),
  kty: 'OKP',
  crv: 'Ed25519',
  x,
  role: 'edge',
  from_ms,
  until_ms: null,
  status: 'active',
})

/** The root that the last link names, and that must sign the next one. */
export function rootOf(chain: readonly Envelope[]): string | undefined {
  const last = chain.at(-1)
  const parsed = last === undefined ? undefined : parseJson(payloadBytes(last))
  return parsed?.ok === true ? Link.safeParse(parsed.value).data?.root : undefined
}

function linkIn(envelope: Envelope, follows: string, root: string | undefined): Link | undefined {
  const parsed = parseJson(payloadBytes(envelope))
  const read = Link.safeParse(parsed.ok ? parsed.value : undefined)
  if (!read.success || read.data.follows !== follows) return undefined
  const { key, root: named } = read.data
  if (root !== undefined && named !== root) return undefined // T03: a thief of the edge's key has no root
  const all = new Map([follows, key, ...(named === undefined ? [] : [named])].map((x) => [kidOf(x), x]))
  return signedByExactly(envelope, LINK_TYPE, all) ? read.data : undefined
}

/** The earliest time counts: a later link can't give back trust. False if there is no such key. */
function distrust(keys: KeyEntry[], { kid, from_ms }: NonNullable<Link['distrusts']>): boolean {
  const known = keys.find((key) => key.kid === kid)
  if (known === undefined) return false
  const distrusted_from_ms = Math.min(from_ms, known.distrusted_from_ms ?? from_ms)
  Object.assign(known, { status: 'distrusted', distrusted_from_ms })
  return true
}

/** `at`: the first fault, as a JSON pointer into the document. */
export type KeyFault = { readonly at: string; readonly detail: string }

/** Reads a key file. */
export function readKeys(value: unknown): Result<Keys, KeyFault> {
  const read = Keys.safeParse(value)
  if (!read.success) {
    const [issue] = read.error.issues
    return err({ at: `/${issue?.path.map(String).join('/') ?? ''}`, detail: issue?.message ?? '' })
  }
  const fault = faultOf(read.data)
  return fault === undefined ? ok(read.data) : err(fault)
}

/** The edge keys are exactly those of the chain, and each id is that of its key. */
function faultOf({ keys, chain }: Keys): KeyFault | undefined {
  const edges = keys.filter(({ role }) => role === 'edge')
  const led = edgeKeysOf(edges[0]?.x ?? '', chain)
  if (!led.ok) return { at: '/chain', detail: led.error }
  if (canonical(led.value) !== canonical(edges))
    return { at: '/keys', detail: 'the edge keys are not those to which the chain leads' }
  if (keys.some(({ kid, x }) => kid !== kidOf(x)) || new Set(keys.map(({ kid }) => kid)).size < keys.length)
    return { at: '/keys', detail: 'an id does not match its key, or a key is listed twice' }
  return undefined
}

/**
 * The keys that continue those of a pinned file: of the same tenant, with the same first edge key, and
 * with every pinned link. So a key that replaces the pinned one was introduced by it, and a distrust
 * that the file knows stays.
 */
export function followChain(pinned: Keys, fetched: Keys): Result<Keys, string> {
  const first = ({ keys }: Keys): string | undefined => keys.find(({ role }) => role === 'edge')?.x
  if (pinned.tenant !== fetched.tenant) return err('the two key files are of different tenants')
  const start = fetched.chain.slice(0, pinned.chain.length)
  if (first(pinned) !== first(fetched) || canonical(start) !== canonical(pinned.chain))
    return err('the chain does not lead from the pinned edge key')
  return ok(fetched)
}

/** A key from which a chain is followed, and the root that must sign every link after it. */
export type ChainStart = { readonly x: string; readonly root?: string | undefined }

/**
 * The edge keys to which a chain leads, all those from `start` on, and the root of the next link. T03: the
 * links before `start` prove nothing, so the first one after it must name the root that is known.
 */
export function keysFrom(
  start: ChainStart,
  { keys, chain }: Keys,
): Result<
  { readonly all: KeyEntry[]; readonly from: KeyEntry[]; readonly root: string | undefined },
  string
> {
  const led = edgeKeysOf(keys.find(({ role }) => role === 'edge')?.x ?? '', chain)
  if (!led.ok) return led
  const at = led.value.findIndex(({ x }) => x === start.x)
  if (at < 0) return err('none of its keys is the pinned one')
  const next = chain.slice(at, at + 1)
  if (start.root !== undefined && next.length > 0 && rootOf(next) !== start.root)
    return err('the link from the pinned key is not signed by the pinned root')
  return ok({ all: led.value, from: led.value.slice(at), root: start.root ?? rootOf(chain) })
}

/**
 * When something was signed, as far as that is known: not before `after_ms`, and not after
 * `before_ms`.
 */
export type SigningTime = { readonly after_ms: number; readonly before_ms?: number }
type KeyName = Pick<KeyEntry, 'kid' | 'role'> & { readonly worker?: string | undefined }

/** The public key with this id, if it may have signed then; an error is a sentence. */
export function keyAt(
  { keys }: Keys,
  { kid, role, worker }: KeyName,
  signed: SigningTime,
): Result<string, string> {
  const key = keys.find((one) => one.kid === kid && one.role === role && one.worker === worker)
  if (key === undefined) return err(`the key file has no key \`${kid}\` of this signer`)
  const { x, from_ms, until_ms, distrusted_from_ms = Number.POSITIVE_INFINITY } = key
  if (signed.after_ms >= distrusted_from_ms)
    return err(`the key \`${kid}\` has not been trusted since ${isoTime(distrusted_from_ms)}`)
  if (signed.after_ms > (until_ms ?? Number.POSITIVE_INFINITY) + LIMITS.clock_slack_ms)
    return err(`the key \`${kid}\` signed only until ${isoTime(until_ms ?? 0)}`)
  if ((signed.before_ms ?? Number.POSITIVE_INFINITY) < from_ms - LIMITS.clock_slack_ms)
    return err(`the key \`${kid}\` signs only from ${isoTime(from_ms)} on`)
  return ok(x)
}

const isoTime = (ms: number): string => new Date(ms).toISOString()

/** The edge keys that may sign what has no time: a checkpoint, a tombstone. A distrusted key may not. */
export const undatedEdgeKeys = ({ keys }: Keys): KeyEntry[] =>
  keys.filter(({ role, status }) => role === 'edge' && status !== 'distrusted')
