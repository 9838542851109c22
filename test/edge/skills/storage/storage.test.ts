// Promise: values that a skill stores in one call are there in the next, for all its versions and
// for nobody else, within its grants and quotas, across a kill of the edge, until an operator
// clears them.

import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { LIMITS } from '../../../../shared/limits.ts'
import type { Call } from '../../../../shared/wire/calls.ts'
import { eventually } from '../../../support/eventually.ts'
import { unwrap } from '../../../support/fixtures.ts'
import { Publisher, type Unbound } from '../../../support/skills/skill.ts'
import {
  argumentsOf,
  LARGE,
  type StorageOperation,
  storageSkill,
} from '../../../support/skills/storage-skill.ts'
import { HurtStack, insist, revive, strike } from '../../../support/stack/hurt-stack.ts'
import { objectId, skillFileOf } from '../../../support/stack/object-file.ts'

const acme = new Publisher('acme')
let hurt: HurtStack
let code: Uint8Array
beforeAll(async () => {
  hurt = await HurtStack.start({ worker: 'idle' })
  code = await storageSkill()
  await acme.listBySoleAdmin(hurt.operator)
})
afterAll(async () => {
  await hurt?.stop()
})

async function enabled(id: string, kv: string[], change: Partial<Unbound> = {}): Promise<void> {
  const wildcards = kv.includes('') ? { wildcards: ['kv' as const] } : {}
  const manifest = acme.manifest(id, { capabilities: { kv }, ...wildcards, ...change })
  unwrap(await hurt.operator('publishSkill', { body: acme.pack(manifest, code) }))
  unwrap(await hurt.operator('enableSkill', { params: { id, version: manifest.version }, body: {} }))
}
const does = (skill: string, deed: StorageOperation, key: string, value?: string): Promise<Call> =>
  hurt.propose(`${skill}_run`, argumentsOf(deed, key, value), { wait: 20 })
/** The result of the call, or its error. */
const outcomeOf = async (
  skill: string,
  deed: StorageOperation,
  key: string,
  value?: string,
): Promise<unknown> => {
  const { state, result } = await does(skill, deed, key, value)
  return state === 'succeeded'
    ? (JSON.parse(result?.output ?? '') as unknown)
    : `${result?.error?.code}: ${result?.error?.detail}`
}
const storage = async (id: string, after?: string) =>
  unwrap(
    await hurt.operator('readSkillStorage', { params: { id }, query: after === undefined ? {} : { after } }),
  )

test('a skill’s stored value is there in the next call until it is deleted, and keys are listed by prefix', async () => {
  await enabled('keeps', ['cache/', 'log/'])
  expect(await outcomeOf('keeps', 'get', 'cache/01')).toBe(null)
  expect(await outcomeOf('keeps', 'set', 'cache/01', 'grüße')).toBe(true)
  expect(await outcomeOf('keeps', 'set', 'cache/02', 'two')).toBe(true)
  expect(await outcomeOf('keeps', 'set', 'log/0001', 'three')).toBe(true)
  expect([await outcomeOf('keeps', 'get', 'cache/01'), await outcomeOf('keeps', 'get', 'cache/02')]).toEqual([
    'grüße',
    'two',
  ])
  expect(await outcomeOf('keeps', 'keys', '        ', 'cache/')).toEqual(['cache/01', 'cache/02'])
  expect(await outcomeOf('keeps', 'keys', '        ', 'cache/01')).toEqual(['cache/01'])
  expect(await outcomeOf('keeps', 'set', 'cache/01', 'anew')).toBe(true)
  expect(await outcomeOf('keeps', 'get', 'cache/01')).toBe('anew')
  expect([
    await outcomeOf('keeps', 'delete', 'cache/01'),
    await outcomeOf('keeps', 'delete', 'cache/01'),
  ]).toEqual([true, true])
  expect([
    await outcomeOf('keeps', 'get', 'cache/01'),
    await outcomeOf('keeps', 'keys', '        ', 'cache/'),
  ]).toEqual([null, ['cache/02']])
  expect(await storage('keeps')).toMatchObject({
    keys: 2,
    bytes: 8 + 5 + 8 + 7,
    items: [
      { key: 'cache/02', bytes: 13 },
      { key: 'log/0001', bytes: 15 },
    ],
  })
})

test('W13 a skill’s storage is separate from that of other skills and other tenants, even with the same keys', async () => {
  await enabled('keeps-a', ['cache/'])
  await enabled('keeps-b', ['cache/'])
  await outcomeOf('keeps-a', 'set', 'cache/01', 'of a')
  expect([
    await outcomeOf('keeps-b', 'get', 'cache/01'),
    await outcomeOf('keeps-b', 'keys', '        ', 'cache/'),
  ]).toEqual([null, []])
  await outcomeOf('keeps-b', 'set', 'cache/01', 'of b')
  expect([
    await outcomeOf('keeps-a', 'get', 'cache/01'),
    await outcomeOf('keeps-b', 'get', 'cache/01'),
  ]).toEqual(['of a', 'of b'])
  // The tenant is part of the object's name.
  const path = (name: string) =>
    join(
      hurt.stack.state.dir,
      'edge/objects/countersign-skill',
      `${objectId('countersign-skill', name)}.sqlite`,
    )
  expect(['default/keeps-a', 'keeps-a', 'other/keeps-a'].map((name) => existsSync(path(name)))).toEqual([
    true,
    false,
    false,
  ])
})

test('W11 using a key that was not granted ends the call; an invalid key returns an error to the skill', async () => {
  await enabled('bounded', ['cache/'])
  for (const deed of ['get', 'set', 'delete'] as const)
    expect(await outcomeOf('bounded', deed, 'other/01', 'x')).toMatch(/^capability_denied: .*`other\/01`/)
  for (const beginning of ['', 'cach', 'other/'])
    expect(await outcomeOf('bounded', 'keys', '        ', beginning)).toMatch(/^capability_denied: /)
  for (const key of ['cache/..', 'cache/ä', '/cache/1', 'cache/ 1', '        '])
    expect([key, await outcomeOf('bounded', 'set', key, 'x')]).toEqual([
      key,
      expect.stringMatching(/^skill_error: .*key/),
    ])
  expect((await storage('bounded')).keys).toBe(0)
})

test('the storage wildcard grants all keys of the skill and none of another skill', async () => {
  await enabled('all-keys', [''])
  expect([
    await outcomeOf('all-keys', 'set', 'anything', 'x'),
    await outcomeOf('all-keys', 'keys', '        '),
  ]).toEqual([true, ['anything']])
})

test('a value and the total size of a skill’s storage are limited: a set beyond the limit fails and changes nothing, and deleting frees space', async () => {
  await enabled('fills', ['large/'])
  expect(await outcomeOf('fills', 'setTooLarge', 'large/00')).toBe(
    `skill_error: the value has ${LARGE + 1} bytes; the limit for one key is ${LARGE}`,
  )
  const most = Math.floor(LIMITS.skill_storage_bytes / (LARGE + 8))
  const key = (n: number): string => `large/${String(n).padStart(2, '0')}`
  for (let n = 0; n < most; n++) expect([n, await outcomeOf('fills', 'setLarge', key(n))]).toEqual([n, true])
  const sums = { keys: most, bytes: most * (LARGE + 8) }
  expect(await outcomeOf('fills', 'setLarge', key(most))).toMatch(
    new RegExp(`^skill_error: the skill’s storage has ${sums.bytes} of ${LIMITS.skill_storage_bytes} bytes`),
  )
  expect(await outcomeOf('fills', 'setLarge', key(0))).toBe(true) // overwrites the old value
  expect(await storage('fills')).toMatchObject(sums)
  expect([
    await outcomeOf('fills', 'delete', key(1)),
    await outcomeOf('fills', 'setLarge', key(most)),
  ]).toEqual([true, true])
  expect(await storage('fills')).toMatchObject(sums)
})

test('the number of a skill’s keys is limited, and a listing is complete or refused', async () => {
  await enabled('counts', ['many/'])
  expect(await outcomeOf('counts', 'set', 'many/zzz', 'x')).toBe(true)
  await strike(hurt.stack.edge)
  const db = skillFileOf('many/zzz', hurt.stack.state.dir)
  const add = db.prepare("insert into entries (key, bytes, changed_at, value) values (?, 9, 0, x'31')")
  db.exec('begin')
  for (let n = 0; n < LIMITS.skill_keys - 2; n++) add.run(`many/${String(n).padStart(5, '0')}`)
  db.prepare('update usage set keys = ?').run(LIMITS.skill_keys - 1)
  db.exec('commit')
  db.close()
  await revive(hurt.stack.edge)
  expect([
    await outcomeOf('counts', 'set', 'many/yyy', 'x'),
    await outcomeOf('counts', 'set', 'many/xxx', 'x'),
  ]).toEqual([
    true,
    `skill_error: the skill’s storage has ${LIMITS.skill_keys} keys already, which is the limit; delete some`,
  ])
  expect(await outcomeOf('counts', 'set', 'many/zzz', 'anew')).toBe(true)
  expect(await outcomeOf('counts', 'keys', '        ', 'many/')).toMatch(
    /^skill_error: more than 1000 keys have this prefix/,
  )
  expect(await outcomeOf('counts', 'keys', '        ', 'many/000')).toHaveLength(100)
  const [first, second] = [await storage('counts'), await storage('counts', 'many/00099')]
  expect([first.keys, first.items.length, first.items.at(-1)?.key, second.items[0]?.key]).toEqual([
    LIMITS.skill_keys,
    LIMITS.page,
    'many/00099',
    'many/00100',
  ])
})

test('a skill’s storage survives a kill, a new version, disabling and revocation, until it is cleared', async () => {
  await enabled('lasts', ['cache/'])
  expect(await outcomeOf('lasts', 'set', 'cache/01', 'kept')).toBe(true)
  await strike(hurt.stack.edge)
  await revive(hurt.stack.edge)
  expect(await outcomeOf('lasts', 'get', 'cache/01')).toBe('kept')
  await enabled('lasts', ['cache/'], { version: '1.1.0' })
  expect(await outcomeOf('lasts', 'get', 'cache/01')).toBe('kept')
  for (const state of ['disableSkill', 'revokeSkill'] as const)
    unwrap(
      await hurt.operator(state, { params: { id: 'lasts', version: '1.1.0' }, body: { reason: 'a test' } }),
    )
  expect((await does('lasts', 'get', 'cache/01')).state).toBe('denied')
  expect(await storage('lasts')).toMatchObject({ keys: 1, items: [{ key: 'cache/01' }], clearings: [] })
  const cleared = unwrap(await hurt.operator('clearSkillStorage', { params: { id: 'lasts' } }))
  expect(cleared).toMatchObject({ by: 'root', keys: 1, bytes: 14 })
  expect(await storage('lasts')).toEqual({ keys: 0, bytes: 0, items: [], clearings: [cleared] })
  unwrap(await hurt.operator('enableSkill', { params: { id: 'lasts', version: '1.0.0' }, body: {} }))
  expect([
    await outcomeOf('lasts', 'get', 'cache/01'),
    await outcomeOf('lasts', 'set', 'cache/01', 'again'),
  ]).toEqual([null, true])
})

test('operators see the keys and sizes of a skill’s storage, and no values', async () => {
  await enabled('private', ['cache/'])
  await outcomeOf('private', 'set', 'cache/01', 'CANARY0k3pt')
  expect(JSON.stringify(await storage('private'))).not.toContain('CANARY0k3pt')
  const holds = hurt.filesWith('CANARY0k3pt').filter((file) => !file.includes('countersign-run')) // the call's own arguments
  expect(holds).not.toEqual([])
  for (const file of holds) expect(file).toMatch(/^edge\/objects\/countersign-skill\//)
})

test('clearing a skill’s storage is journalled once, even across a kill, and clearing an empty one does nothing', async () => {
  await enabled('noted', ['cache/'])
  const clear = async () => unwrap(await hurt.operator('clearSkillStorage', { params: { id: 'noted' } }))
  const noted = async () =>
    unwrap(await insist(() => hurt.operator('readSkillJournal', { query: {} })))
      .items.filter(({ kind, body }) => kind === 'skill.cleared' && body['skill'] === 'noted')
      .map(({ body }) => body)
  expect([await clear(), await noted()]).toMatchObject([{ keys: 0 }, []])
  await outcomeOf('noted', 'set', 'cache/01', 'x')
  expect((await clear()).keys).toBe(1)
  const first = { publisher: 'acme', skill: 'noted', nth: 1, by: 'root', keys: 1, bytes: 11 }
  expect(await noted()).toEqual([first])
  await outcomeOf('noted', 'set', 'cache/02', 'x')
  await strike(hurt.stack.edge)
  const db = skillFileOf('cache/02', hurt.stack.state.dir)
  db.exec('update clearings set journalled = 0') // as if the object was killed before it learned that the journal has the entry
  db.close()
  await revive(hurt.stack.edge)
  await clear()
  await eventually('it is journalled', async () => (await noted()).length > 1)
  expect(await noted()).toEqual([first, { ...first, nth: 2 }])
})
