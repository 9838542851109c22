// HTTP Message Signatures (RFC 9421) with Ed25519 and Content-Digest (RFC 9530), in the one form
// that workers use. The covered components are fixed, so a signature over fewer of them is refused
// (K02). Both sides build the signature base here.

import type { KeyObject } from 'node:crypto'
import { createHash, randomBytes, sign } from 'node:crypto'
import { PATTERNS } from '../ids.ts'
import { isSignedBy, signatureIn } from './ed25519.ts'

const COVERED = '("@method" "@authority" "@path" "content-digest")'
const TAG = 'countersign-worker'

export type SignedRequest = {
  readonly method: string
  readonly authority: string
  readonly path: string
  readonly body: Uint8Array
}
export type SignatureInput = {
  readonly tenant: string
  readonly worker: string
  readonly created: number
  readonly nonce: string
}

export const contentDigest = (body: Uint8Array): string =>
  `sha-256=:${createHash('sha256').update(body).digest('base64')}:`

const parameters = ({ tenant, worker, created, nonce }: SignatureInput): string =>
  `${COVERED};created=${created};nonce="${nonce}";keyid="${tenant}/${worker}";alg="ed25519";tag="${TAG}"`

function base(request: SignedRequest, digest: string, input: SignatureInput): Buffer {
  const { method, authority, path } = request
  return Buffer.from(
    `"@method": ${method}\n"@authority": ${authority.toLowerCase()}\n"@path": ${path}\n"content-digest": ${digest}\n"@signature-params": ${parameters(input)}`,
  )
}

/** `epoch`: the prefix that nonces need, from the edge's last refusal. */
export type SigningWorker = {
  readonly tenant: string
  readonly worker: string
  readonly key: KeyObject
  readonly epoch?: string
}

export function signRequest(
  request: SignedRequest,
  { tenant, worker, key, epoch = '' }: SigningWorker,
  nowMs: number,
): Record<string, string> {
  const nonce = `${epoch}${randomBytes(18).toString('base64url')}`
  const input = { tenant, worker, created: Math.floor(nowMs / 1000), nonce }
  const digest = contentDigest(request.body)
  return {
    'content-digest': digest,
    'signature-input': `w=${parameters(input)}`,
    signature: `w=:${sign(null, base(request, digest, input), key).toString('base64')}:`,
  }
}

const INPUT =
  /^w=\(.{1,80}\);created=([0-9]{1,12});nonce="([A-Za-z0-9_-]{16,64})";keyid="([a-z0-9-]{1,32})\/(wrk_[0-9A-Z]{26})";alg="ed25519";tag="countersign-worker"$/
const SIGNATURE = /^w=:([^:]{88}):$/

/**
 * Parses the claimed signer without verifying anything. Any form other than the fixed one is
 * refused.
 */
export function readSignatureInput(header: string | undefined): SignatureInput | undefined {
  const match = header === undefined || header.length > 400 ? null : INPUT.exec(header)
  if (match === null) return undefined
  const [, created = '', nonce = '', tenant = '', worker = ''] = match
  const input = { created: Number(created), nonce, tenant, worker }
  if (!PATTERNS.tenant.test(tenant) || !PATTERNS.worker.test(worker) || header !== `w=${parameters(input)}`)
    return undefined
  return input
}

export function signatureHolds(
  request: SignedRequest,
  input: SignatureInput,
  headers: { digest: string | undefined; signature: string | undefined },
  x: string,
): boolean {
  const match = headers.signature === undefined ? null : SIGNATURE.exec(headers.signature)
  if (match === null || headers.digest !== contentDigest(request.body)) return false
  return isSignedBy(x, base(request, headers.digest, input), signatureIn(match[1] ?? ''))
}
