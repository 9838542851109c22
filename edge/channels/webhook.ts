// The channel for machines: Standard Webhooks 1.0, signed with every key of the channel. The
// receiver answers through the API with its own key, or passes the link on to its recipient. The
// body of its response is not read.

import { createHmac, createPrivateKey, createPublicKey, type KeyObject, sign } from 'node:crypto'
import { LIMITS } from '../../shared/limits.ts'
import { err, ok } from '../../shared/result.ts'
import type { Approval } from '../../shared/wire/approvals.ts'
import type { ChannelSpec } from '../../shared/wire/channels.ts'
import { faultInAddress } from '../platform/outbound-fetch.ts'
import { shorten } from '../platform/visible-text.ts'
import type { DeliveryResult, Medium, Message, Post } from './medium.ts'
import { acceptance } from './medium.ts'

const TYPES = { asked: 'approval.requested', ended: 'approval.ended', test: 'channel.test' } as const

export function webhook(spec: Extract<ChannelSpec, { kind: 'webhook' }>): Medium {
  const { keys, url, ...rest } = spec
  const send = (id: string, body: string, post: Post) => postSigned({ url, keys }, id, body, post)
  const deliver = (message: Message, post: Post): Promise<DeliveryResult> =>
    send(message.id, payload(message), post)
  return {
    shown: { ...rest, to: URL.canParse(url) ? new URL(url).origin : '', keys: keys.map(shownKey) },
    fault: (loopback) =>
      faultInAddress(url, loopback) ?? keys.map(faultInKey).find((fault) => fault !== undefined),
    deliver,
    update: (message, _ref, post) => deliver(message, post),
    notify: ({ id, notice, at_ms }, post) => send(id, event('notice', at_ms, { notice }), post),
  }
}

/** One attempt to post a body, signed with every key. */
export async function postSigned(
  { url, keys }: { readonly url: string; readonly keys: readonly string[] },
  id: string,
  body: string,
  post: Post,
): Promise<DeliveryResult> {
  const headers = {
    'content-type': 'application/json',
    'user-agent': 'countersign',
    ...signed(keys, id, Date.now(), body),
  }
  const answer = await post({ to: url, headers, body })
  const done = answer.ok ? acceptance(answer.value) : answer
  return done.ok ? ok({ ref: null }) : err(done.error)
}

/** The headers of one attempt. The id is the same for each attempt, the timestamp is not. */
export function signed(keys: readonly string[], id: string, now: number, body: string) {
  const timestamp = String(Math.floor(now / 1000))
  const content = Buffer.from(`${id}.${timestamp}.${body}`)
  return {
    'webhook-id': id,
    'webhook-timestamp': timestamp,
    'webhook-signature': keys.map((key) => signatureBy(key, content)).join(' '),
  }
}

const signatureBy = (key: string, content: Buffer): string =>
  isHmac(key)
    ? `v1,${createHmac('sha256', bytesOf(key)).update(content).digest('base64')}`
    : `v1a,${sign(null, content, privateKey(key)).toString('base64')}`

/** Long texts are cut; each says how much is missing and the digest of the whole. */
function payload({ kind, approval, recipient, insteadOf, link, at_ms }: Message): string {
  const { prompt } = approval
  const short = (text: string): string => shorten(text, LIMITS.message_chars)
  const shortened: Approval = {
    ...approval,
    prompt: {
      ...prompt,
      command: short(prompt.command),
      arguments: short(prompt.arguments),
      ...(prompt.agent_says === undefined ? {} : { agent_says: short(prompt.agent_says) }),
    },
  }
  const data = {
    approval: link === null ? shortened : { ...shortened, url: link },
    recipient,
    ...(insteadOf == null ? {} : { instead_of: insteadOf }),
  }
  return event(TYPES[kind], at_ms, data)
}

export const event = (type: string, at_ms: number, data: object): string =>
  JSON.stringify({ type, timestamp: new Date(at_ms).toISOString(), data })

// ── Keys ──
//
// `whsec_` and 24 to 64 bytes for HMAC; `whsk_` and 64 bytes for Ed25519: the seed, then the public
// key.

const isHmac = (key: string): boolean => key.startsWith('whsec_')
const bytesOf = (key: string): Buffer => Buffer.from(key.slice(key.indexOf('_') + 1), 'base64')

const PKCS8 = Buffer.from('302e020100300506032b657004220420', 'hex')
const privateKey = (key: string): KeyObject =>
  createPrivateKey({
    key: Buffer.concat([PKCS8, bytesOf(key).subarray(0, 32)]),
    format: 'der',
    type: 'pkcs8',
  })
const publicBytes = (key: string): Buffer =>
  createPublicKey(privateKey(key)).export({ format: 'der', type: 'spki' }).subarray(-32)

function faultInKey(key: string): string | undefined {
  const { byteLength } = bytesOf(key)
  if (isHmac(key))
    return byteLength >= 24 && byteLength <= 64 ? undefined : 'a `whsec_` key is 24 to 64 bytes in base64'
  if (byteLength !== 64) return 'a `whsk_` key is 64 bytes in base64: the Ed25519 seed, then its public key'
  return publicBytes(key).equals(bytesOf(key).subarray(32))
    ? undefined
    : 'the two halves of a `whsk_` key do not match'
}

/**
 * The public part of a key. It need not be sound here: `fault` refuses unsound ones before they are
 * stored.
 */
const shownKey = (key: string) =>
  isHmac(key)
    ? { scheme: 'v1' as const }
    : { scheme: 'v1a' as const, public: `whpk_${bytesOf(key).subarray(32).toString('base64')}` }
