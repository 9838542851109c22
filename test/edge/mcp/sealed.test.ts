// State that clients keep for the edge opens only unchanged, for its own purpose and agent, and in
// time.

import { expect, test } from 'vitest'
import { seal, unseal } from '../../../edge/mcp/sealed.ts'
import { sha256 } from '../../../shared/bytes/json.ts'

const key = Buffer.alloc(32, 1)
const agent = { tenant: 'one', name: 'bot', since: 1 }
const CALL = 'call_01ARZ3NDEKTSV4RRFFQ69G5FAV_1'
const state = { call: CALL, tool: 'mail_send', args: sha256('{}'), round: 1, until: 1_000 }

test('unsealing a wait returns the sealed values, and the sealed text reveals nothing of the call', () => {
  const sealed = seal(key, 'wait', agent, state)
  expect(unseal(key, 'wait', agent, sealed, 999)).toEqual(state)
  expect(sealed).toMatch(/^[\w-]+$/)
  expect(Buffer.from(sealed, 'base64url').toString('latin1')).not.toContain('mail_send')
  expect(seal(key, 'wait', agent, state)).not.toBe(sealed)
})

test('M03 a sealed text with any changed, missing or additional byte does not open', () => {
  const sealed = seal(key, 'wait', agent, state)
  const bytes = Buffer.from(sealed, 'base64url')
  const broken = [
    ...Array.from(bytes, (byte, at) => bytes.with(at, byte ^ 1)),
    ...Array.from(bytes, (byte, at) => bytes.with(at, byte ^ 0x80)),
    ...Array.from({ length: bytes.length }, (_, length) => bytes.subarray(0, length)),
    Buffer.concat([bytes, Buffer.alloc(1)]),
  ].map((changed) => Buffer.from(changed).toString('base64url'))
  for (const text of [
    ...broken,
    `${sealed}=`,
    `${sealed} `,
    sealed.replace('-', '+'),
    'x'.repeat(100_000),
    '✓',
  ])
    if (text !== sealed) expect(unseal(key, 'wait', agent, text, 0), text.slice(0, 80)).toBeUndefined()
})

test('M03 a sealed text opens for no other purpose, agent, tenant, later agent of the same name, key or time', () => {
  const sealed = seal(key, 'wait', agent, state)
  const task = seal(key, 'task', agent, { call: CALL, until: 1_000 })
  expect([
    unseal(key, 'task', agent, sealed, 0),
    unseal(key, 'wait', agent, task, 0),
    unseal(key, 'session', agent, sealed, 0),
    unseal(key, 'wait', { ...agent, name: 'other' }, sealed, 0),
    unseal(key, 'wait', { ...agent, tenant: 'two' }, sealed, 0),
    unseal(key, 'wait', { ...agent, since: 2 }, sealed, 0),
    unseal(Buffer.alloc(32, 2), 'wait', agent, sealed, 0),
    unseal(key, 'wait', agent, sealed, 1_000),
    unseal(key, 'task', agent, task, 1_001),
  ]).toEqual(Array.from({ length: 9 }, () => undefined))
  expect(unseal(key, 'task', agent, task, 999)).toEqual({ call: CALL, until: 1_000 })
})
