// The secrets of an edge, in one variable: the key that signs now, the chain that leads to it, and the
// secrets from which its other keys are derived. No private key of an earlier edge key is in it. An
// installation that has never changed its key has the key alone, and everything is derived from it.

import { createHmac, generateKeyPairSync, randomBytes } from 'node:crypto'
import { z } from 'zod'
import { LIMITS } from '../limits.ts'
import { err, ok, type Result } from '../result.ts'
import { Envelope, kidOf, type PrivateJwk, type Signer, signedBytes, signerFromJwk } from './dsse.ts'
import { isSignedBy, PublicKey } from './ed25519.ts'
import { edgeKeysOf, type KeyEntry, type Link, sealLink } from './keys.ts'

const BYTES = 32
/** 32 bytes in base64url. */
const Secret = z.string().regex(/^[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]$/)
const SigningKey = z.object({ kty: z.literal('OKP'), crv: z.literal('Ed25519'), x: PublicKey, d: Secret })

const Ring = z.strictObject({
  format: z.literal('countersign-key-ring/v1'),
  signing: SigningKey,
  /** The first edge key, where the chain begins. */
  first: PublicKey,
  chain: z.array(Envelope).max(LIMITS.edge_keys - 1),
  /** The root of the keys of links, marks, webhooks and MCP. A distrust of the edge key replaces it. */
  root: Secret,
  /** The key of the checks in run ids. It never changes, so ids stay valid. */
  ids: Secret,
  /** The keys of the vaults: new values are sealed with the first one, the others open older values. */
  vaults: z.array(Secret).min(1).max(LIMITS.vault_keys),
})
export type KeyRing = z.infer<typeof Ring>

/** HKDF's second step. The first one has made `root` (RFC 5869). */
export const derive = (root: string, use: string): Buffer =>
  createHmac('sha256', Buffer.from(root, 'base64url'))
    .update(`countersign ${use} v1`)
    .update(Buffer.of(1))
    .digest()

/** Reads the variable `EDGE_SIGNING_KEY`. The error never quotes it. */
export function readKeyRing(value: unknown): Result<KeyRing, string> {
  const key = SigningKey.safeParse(value)
  const ring = key.success ? ok(ringOf(key.data)) : parsed(value)
  if (!ring.ok) return ring
  const { signing, first, chain } = ring.value
  const keys = edgeKeysOf(first, chain)
  if (!keys.ok) return keys
  return keys.value.at(-1)?.x === signing.x ? ring : err('the chain does not lead to the signing key')
}

function parsed(value: unknown): Result<KeyRing, string> {
  const read = Ring.safeParse(value)
  return read.success ? ok(read.data) : err('it is neither an Ed25519 key nor a key ring')
}

/** Derives a lone key's ring by RFC 5869, without salt. Any change here would change all derived keys. */
function ringOf({ kty, crv, x, d }: PrivateJwk): KeyRing {
  const root = createHmac('sha256', Buffer.alloc(BYTES))
    .update(Buffer.from(d, 'base64url'))
    .digest('base64url')
  return {
    format: 'countersign-key-ring/v1',
    signing: { kty, crv, x, d },
    first: x,
    chain: [],
    root,
    ids: derive(root, 'run id').toString('base64url'),
    vaults: [derive(root, 'vault').toString('base64url')],
  }
}

export const edgeSigner = ({ signing }: KeyRing): Signer => signerFromJwk(signing)

/** The edge keys of a ring that `readKeyRing` has read. */
export function edgeKeys({ first, chain }: KeyRing): KeyEntry[] {
  const keys = edgeKeysOf(first, chain)
  if (!keys.ok) throw new Error(`the key ring changed: ${keys.error}`)
  return keys.value
}

export type Rotation = Omit<Link, 'follows' | 'key' | 'root'>

/** Signs links outside of the edge: on another host, in a KMS or an HSM. Errors are sentences for people. */
export type RootSigner = {
  readonly x: string
  readonly sign: (bytes: Uint8Array) => Promise<Result<Uint8Array, string>>
}

async function withRoot(link: Envelope, { x, sign }: RootSigner): Promise<Result<Envelope, string>> {
  const bytes = signedBytes(link)
  const signature = await sign(bytes)
  if (!signature.ok) return signature
  // A bridge that signs with another key would end the chain for every verifier.
  if (!isSignedBy(x, bytes, signature.value))
    return err('the root signer signed with another key than the configured one')
  const added = { keyid: kidOf(x), sig: Buffer.from(signature.value).toString('base64') }
  return ok({ ...link, signatures: [...link.signatures, added] })
}

/**
 * The ring with a new signing key, which the present one introduces, and a new key of the vaults. If
 * a key is distrusted, its thief may know every secret of the ring, so all are new, except that of run ids.
 */
export async function rotated(
  ring: KeyRing,
  link: Rotation,
  root?: RootSigner,
): Promise<Result<KeyRing, string>> {
  const full = link.distrusts === null ? noRoomToRotate(ring) : noRoomToDistrust(ring)
  if (full !== undefined) return err(full)
  // Ed25519 keys export in this form.
  const { kty, crv, x, d } = generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' }) as PrivateJwk
  const signing = { kty, crv, x, d }
  const own = sealLink(
    { ...link, ...(root === undefined ? {} : { root: root.x }) },
    edgeSigner(ring),
    signerFromJwk(signing),
  )
  const sealed = root === undefined ? ok(own) : await withRoot(own, root)
  if (!sealed.ok) return sealed
  const next = {
    ...ring,
    signing,
    chain: [...ring.chain, sealed.value],
    vaults: [newSecret(), ...ring.vaults],
    ...(link.distrusts === null ? {} : { root: newSecret() }),
  }
  return readKeyRing(next)
}

function noRoomToDistrust({ chain, vaults }: KeyRing): string | undefined {
  if (chain.length + 1 >= LIMITS.edge_keys)
    return `the edge has had all of its ${LIMITS.edge_keys} keys; set up a new installation and enrol the workers there`
  if (vaults.length >= LIMITS.vault_keys)
    return 'secrets may still be sealed under earlier keys; restart the edge and run `countersign keys forget` first'
  return undefined
}

/** Stops earlier, because a stolen key can't wait until there is room. */
function noRoomToRotate({ chain, vaults }: KeyRing): string | undefined {
  if (chain.length + 1 >= LIMITS.edge_keys_rotated)
    return `the edge has had ${LIMITS.edge_keys_rotated} keys, and the rest of its ${LIMITS.edge_keys} are kept for \`countersign keys distrust\`; keep the present key, or set up a new installation and enrol the workers there`
  if (vaults.length >= LIMITS.vault_keys_rotated)
    return 'secrets may still be sealed under earlier keys, and the last place is kept for `countersign keys distrust`; restart the edge and run `countersign keys forget` first'
  return undefined
}

const newSecret = (): string => randomBytes(BYTES).toString('base64url')

/** The ring without the vaults' earlier keys, once every value is sealed under the first. */
export const withoutFormerVaults = (ring: KeyRing): KeyRing => ({ ...ring, vaults: ring.vaults.slice(0, 1) })

/** Names the vaults' key without showing anything of it. */
export const vaultId = ({ vaults: [current = ''] }: KeyRing): string =>
  derive(current, 'vault id').toString('hex').slice(0, 16)
