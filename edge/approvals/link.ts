// The links that let one approver answer one approval, and the MACs of forms and of channels'
// buttons. Pure.
//
// A link is `<tenant>.<approval>.<approver>.<expiry>.<mac>`. It is useless for another approval,
// for another approver and after its expiry (P06, P07). The MAC also covers the digest and the hash
// of the approver's key, so an operator with a new key, or a new operator with an old name, can't
// use older links. An approval ends with its answer, which makes a link single-use (P04).

import { createHmac, timingSafeEqual } from 'node:crypto'
import { canonical } from '../../shared/bytes/json.ts'
import { PATTERNS } from '../../shared/ids.ts'
import type { Approval } from '../../shared/wire/approvals.ts'

export type Link = { tenant: string; approval: string; approver: string; expiresAt: number; mac: string }
/** Data that the MAC covers and the link does not contain. */
type HiddenClaims = { digest: string; approverKey: string }
type LinkClaims = Omit<Link, 'mac'> & HiddenClaims

const macOf = (
  key: Buffer,
  use: string,
  { tenant, approval, approver, approverKey, expiresAt, digest }: LinkClaims,
): Buffer =>
  createHmac('sha256', key)
    .update(canonical({ use, tenant, approval, approver, approver_key: approverKey, expiresAt, digest }))
    .digest()

export const linkFor = (key: Buffer, bound: LinkClaims): string =>
  [
    bound.tenant,
    bound.approval,
    bound.approver,
    bound.expiresAt.toString(36),
    macOf(key, 'link', bound).toString('base64url'),
  ].join('.')

/** The nonce of the form: only somebody who was served the page has it. */
export const nonceFor = (key: Buffer, bound: LinkClaims): string =>
  macOf(key, 'form', bound).toString('base64url')

/**
 * The seal in the buttons of a channel's messages. It binds the channel, as a link binds its
 * approver.
 */
export const sealFor = (
  key: Buffer,
  use: string,
  { channel, ...bound }: Omit<LinkClaims, 'approver' | 'approverKey'> & { channel: string },
): string =>
  macOf(key, `channel ${use}`, { ...bound, approver: channel, approverKey: '' }).toString('base64url')

const LINK =
  /^([a-z0-9-]{1,32})\.(apr_[0-9A-Z]{26}_[0-9]{1,7})\.([a-z][a-z0-9_.-]{0,63})\.([0-9a-z]{1,10})\.([A-Za-z0-9_-]{43})$/

/** Whether this approver's link was revoked. */
export const isRevoked = (
  { links_revoked = [] }: Pick<Approval, 'links_revoked'>,
  approver: string,
): boolean => links_revoked === 'all' || links_revoked.includes(approver)

/** Parses a link. Its MAC is not checked yet. */
export function readLink(text: string): Link | undefined {
  const match = LINK.exec(text)
  if (match === null) return undefined
  const [, tenant = '', approval = '', approver = '', expiry = '', mac = ''] = match
  return PATTERNS.tenant.test(tenant) && PATTERNS.approval.test(approval)
    ? { tenant, approval, approver, expiresAt: Number.parseInt(expiry, 36), mac }
    : undefined
}

export const macHolds = (
  key: Buffer,
  use: 'link' | 'form',
  link: Link,
  unseen: HiddenClaims,
  mac: string,
): boolean => sameText(macOf(key, use, { ...link, ...unseen }).toString('base64url'), mac)

/** Compares in constant time, so that the time does not reveal where the texts differ. */
export function sameText(expected: string, given: string): boolean {
  const [left, right] = [Buffer.from(expected), Buffer.from(given)]
  return left.byteLength === right.byteLength && timingSafeEqual(left, right)
}
