// Run ids are authenticated: a made-up id and an id of another tenant are refused.

import { randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { isRunOf, newRunId, runIdFor, sharedRunId } from '../../../edge/run/run-id.ts'
import { isSharedRun, PATTERNS, runObjectName, ulid } from '../../../shared/ids.ts'

const key = Buffer.alloc(32, 1)
const NOW = 1_800_000_000_000
const CROCKFORD = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'

test('run ids are well formed, valid and unique, and sort by time', () => {
  const ids = Array.from({ length: 500 }, (_, i) => newRunId('default', key, NOW + i))
  expect(new Set(ids).size).toBe(500)
  expect(ids.toSorted()).toEqual(ids)
  for (const id of ids) expect([PATTERNS.run.test(id), isRunOf('default', id, key)]).toEqual([true, true])
})

test('G11 a guessed run id is refused', () => {
  for (let i = 0; i < 20_000; i++) expect(isRunOf('default', `run_${ulid(NOW + i)}`, key)).toBe(false)
})

test('G11 a run id with any one character changed is refused', () => {
  const id = newRunId('default', key, NOW)
  for (let at = 4; at < id.length; at++) {
    for (const char of CROCKFORD) {
      if (char === id[at]) continue
      const other = id.slice(0, at) + char + id.slice(at + 1)
      expect([other, isRunOf('default', other, key)]).toEqual([other, false])
    }
  }
})

test('G11 a run id is valid for one tenant and one edge', () => {
  const id = newRunId('default', key, NOW)
  for (const tenant of ['other', '', 'defaul', 'default\0', 'Default'])
    expect(isRunOf(tenant, id, key)).toBe(false)
  expect(isRunOf('default', id, randomBytes(32))).toBe(false)
})

test('G12 an idempotency key of an agent leads to one run, and no other agent or key leads to it', () => {
  const dev = { name: 'dev', since: 1 }
  const id = runIdFor('default', dev, 'call k', key)
  expect(runIdFor('default', dev, 'call k', key)).toBe(id)
  expect(isRunOf('default', id, key)).toBe(true)
  const others = [
    runIdFor('default', dev, 'run k', key),
    runIdFor('default', { ...dev, name: 'dev2' }, 'call k', key),
    runIdFor('default', { ...dev, since: 2 }, 'call k', key),
    runIdFor('other', dev, 'call k', key),
    runIdFor('default', { ...dev, name: 'de' }, 'vcall k', key),
    runIdFor('default', dev, 'call k ', key),
    newRunId('default', key, NOW),
  ]
  expect(new Set([id, ...others]).size).toBe(others.length + 1)
})

test('G11 a run id that was accepted for one tenant is still refused for another', () => {
  const id = newRunId('default', key, NOW)
  expect([isRunOf('default', id, key), isRunOf('other', id, key), isRunOf('default', id, key)]).toEqual([
    true,
    false,
    true,
  ])
})

test('runs of one agent and one time share an object, and other runs do not', () => {
  const dev = { name: 'dev', since: 1 }
  const at = 2 ** 20 * 1_700_000
  const id = (agent = dev, time = at, k: string | null = null, tenant = 'default') =>
    sharedRunId(tenant, agent, k, key, time)
  const ids = Array.from({ length: 500 }, (_, i) => id(dev, at + i))
  expect(new Set(ids).size).toBe(500)
  expect(ids.toSorted()).toEqual(ids)
  expect(
    ids.every((each) => PATTERNS.run.test(each) && isRunOf('default', each, key) && isSharedRun(each)),
  ).toBe(true)
  const object = runObjectName('default', id())
  expect(new Set(ids.map((each) => runObjectName('default', each)))).toEqual(new Set([object]))
  expect(runObjectName('default', id(dev, at + 2 ** 20 - 1))).toBe(object)
  const others = [
    runObjectName('default', id(dev, at + 2 ** 20)),
    runObjectName('default', id({ ...dev, name: 'dev2' })),
    runObjectName('default', id({ ...dev, since: 2 })),
    runObjectName('other', id(dev, at, null, 'other')),
    runObjectName('default', newRunId('default', key, at)),
    runObjectName('default', runIdFor('default', dev, 'call k', key)),
  ]
  expect(new Set([object, ...others]).size).toBe(others.length + 1)
  expect([newRunId('default', key, at), runIdFor('default', dev, 'call k', key)].some(isSharedRun)).toBe(
    false,
  )
})

test('G12 a key that names its time leads to one run in its object, and no other key or agent does', () => {
  const [dev, dev2] = [
    { name: 'dev', since: 1 },
    { name: 'dev2', since: 1 },
  ]
  const id = sharedRunId('default', dev, 'k', key, NOW)
  expect(sharedRunId('default', dev, 'k', key, NOW)).toBe(id)
  const others = [
    sharedRunId('default', dev, 'l', key, NOW),
    sharedRunId('default', dev, 'k', key, NOW + 1),
    sharedRunId('default', dev2, 'k', key, NOW),
    sharedRunId('default', dev, null, key, NOW),
  ]
  expect(new Set([id, ...others]).size).toBe(others.length + 1)
})
