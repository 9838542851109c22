// A link answers one approval, for one approver, until its expiry. Every character of it counts.

import { createHmac, randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { linkFor, macHolds, nonceFor, readLink } from '../../../edge/approvals/link.ts'
import { alterations } from '../../conformance/approval-links/tampering.ts'

const key = Buffer.alloc(32, 7)
const bound = {
  tenant: 'default',
  approval: 'apr_01ARZ3NDEKTSV4RRFFQ69G5FAV_1',
  approver: 'ann',
  approverKey: 'e'.repeat(64),
  expiresAt: 1_800_000_000_000,
  digest: 'd'.repeat(64),
}
const link = linkFor(key, bound)
const holds = (text: string, digest = bound.digest, by = key): boolean => {
  const read = readLink(text)
  return (
    read !== undefined && macHolds(by, 'link', read, { digest, approverKey: bound.approverKey }, read.mac)
  )
}

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_.~%/ \n\0é'

test('a link parses into its parts and its MAC is valid', () => {
  expect(readLink(link)).toMatchObject({
    tenant: 'default',
    approval: bound.approval,
    approver: 'ann',
    expiresAt: bound.expiresAt,
  })
  expect(holds(link)).toBe(true)
})

test('P06 a link with any one character replaced is invalid', () => {
  let tried = 0
  for (let at = 0; at < link.length; at++) {
    for (const char of ALPHABET) {
      if (char === link[at]) continue
      tried++
      const changed = link.slice(0, at) + char + link.slice(at + 1)
      if (holds(changed)) expect.fail(`character ${at} may be \`${char}\``)
    }
  }
  expect(tried).toBeGreaterThan(5_000)
})

test('P06 10,000 links with up to three random changes are invalid', () => {
  const changed = alterations(link, 10_000, 1)
  expect(changed.length).toBeGreaterThanOrEqual(9_999)
  expect(changed.filter((text) => holds(text))).toEqual([])
})

test('P06 a link with any one bit flipped is invalid', () => {
  const bytes = Buffer.from(link, 'latin1')
  for (let bit = 0; bit < bytes.length * 8; bit++) {
    const flipped = Buffer.from(bytes)
    flipped[bit >> 3] = (flipped[bit >> 3] ?? 0) ^ (1 << (bit & 7))
    expect([bit, holds(flipped.toString('latin1'))]).toEqual([bit, false])
  }
})

test('P06 a link that is truncated, extended, doubled or shifted is invalid', () => {
  for (let length = 0; length < link.length; length++)
    expect([length, holds(link.slice(0, length))]).toEqual([length, false])
  for (const text of [
    `${link}A`,
    `${link}.`,
    ` ${link}`,
    `${link}\n`,
    `${link}=`,
    link + link,
    link.toUpperCase(),
    link.toLowerCase(),
    '',
    '.'.repeat(200),
  ])
    expect([text, holds(text)]).toEqual([text, false])
  const parts = link.split('.')
  for (let i = 0; i < parts.length; i++) expect(holds(parts.toSpliced(i, 1).join('.'))).toBe(false)
})

test('P06 a link is invalid under another key or with the MAC of another use', () => {
  expect(holds(link, bound.digest, randomBytes(32))).toBe(false)
  expect(holds(link, bound.digest, Buffer.alloc(32))).toBe(false)
  const head = link.slice(0, link.lastIndexOf('.'))
  for (const mac of [
    nonceFor(key, bound),
    createHmac('sha256', key).update(head).digest('base64url'),
    createHmac('sha256', '').update(head).digest('base64url'),
    'A'.repeat(43),
  ]) {
    expect(holds(`${head}.${mac}`)).toBe(false)
  }
})

test('P07 a link is for one approval, one approver, one tenant, one expiry and one digest', () => {
  const mac = link.slice(link.lastIndexOf('.') + 1)
  for (const change of [
    { approval: 'apr_01ARZ3NDEKTSV4RRFFQ69G5FAV_2' },
    { approval: 'apr_01ARZ3NDEKTSV4RRFFQ69G5FAW_1' },
    { approver: 'bob' },
    { tenant: 'other' },
    { expiresAt: bound.expiresAt + 1 },
  ]) {
    const other = linkFor(key, { ...bound, ...change })
    expect(holds(other)).toBe(true)
    expect(holds(`${other.slice(0, other.lastIndexOf('.'))}.${mac}`)).toBe(false)
  }
  expect(holds(link, 'e'.repeat(64))).toBe(false)
})

test('P07 moving characters between the parts of a link makes it invalid', () => {
  const shifted = linkFor(key, { ...bound, approver: 'an', tenant: 'defaultn' })
  expect(shifted.slice(shifted.lastIndexOf('.'))).not.toBe(link.slice(link.lastIndexOf('.')))
  for (const approver of ['ann.lee', 'a.b.c', 'ann.5', 'a_b-c'])
    expect(readLink(linkFor(key, { ...bound, approver }))).toMatchObject({
      approver,
      expiresAt: bound.expiresAt,
    })
  for (const approver of ['', '../x', 'Ann', 'ann ', '.ann'])
    expect([approver, readLink(linkFor(key, { ...bound, approver }))?.approver === approver]).toEqual([
      approver,
      false,
    ])
})

test('P03 the form nonce can’t be derived from the link and differs for each page', () => {
  const nonce = nonceFor(key, bound)
  expect(link).not.toContain(nonce)
  const read = readLink(link)
  if (read === undefined) throw new Error('the link can’t be read')
  expect(macHolds(key, 'form', read, bound, nonce)).toBe(true)
  for (const other of [
    '',
    nonce.slice(1),
    `${nonce}A`,
    nonce.slice(0, -1),
    read.mac,
    nonceFor(key, { ...bound, approver: 'bob' }),
    nonceFor(randomBytes(32), bound),
  ])
    expect([other, macHolds(key, 'form', read, bound, other)]).toEqual([other, false])
  for (let at = 0; at < nonce.length; at++) {
    for (const char of 'AQgwabcz019-_+/= ') {
      if (char === nonce[at]) continue
      expect(macHolds(key, 'form', read, bound, nonce.slice(0, at) + char + nonce.slice(at + 1))).toBe(false)
    }
  }
})

test('P07 a link is refused once its approver has a new key or was created again', () => {
  const read = readLink(link)
  if (read === undefined) throw new Error('the link can’t be read')
  expect(macHolds(key, 'link', read, { digest: bound.digest, approverKey: 'f'.repeat(64) }, read.mac)).toBe(
    false,
  )
})
