// Promise: the recorded storage of a trial behaves like a real skill's storage: the same operations
// get the same answers, even at each limit.

import { expect, test } from 'vitest'
import { totalsAfterSet } from '../../../../edge/skills/storage/quota.ts'
import { LIMITS } from '../../../../shared/limits.ts'
import { Fixtures, refusalOf, unwrap } from '../../../support/fixtures.ts'
import { javaScriptSkill } from '../../../support/skills/javascript-skill.ts'
import { Publisher } from '../../../support/skills/skill.ts'
import { sharedStack } from '../../../support/stack/stack.ts'

const fixtures = new Fixtures('trial-storage', sharedStack())
const acme = await Publisher.listed('trial-storage-acme', fixtures.root)
const [author, agent] = await Promise.all([fixtures.operator(['admin']), fixtures.agent()])

/** A skill that executes the storage operations in its input and returns each distinct answer. */
const code = await javaScriptSkill(
  `import * as kv from 'countersign:skill/kv'
  export function run(tool, input) {
    const told = []
    const tell = (what) => { if (told.at(-1) !== what) told.push(what) }
    for (const [deed, key, size, times = 1] of JSON.parse(input).deeds)
      for (let n = 0; n < times; n++) {
        const name = times === 1 ? key : key + String(n).padStart(4, '0')
        try {
          if (deed === 'set') tell(kv.set(name, new Uint8Array(size)) ?? 'set')
          else if (deed === 'delete') tell(kv.delete(name) ?? 'deleted')
          else if (deed === 'get') tell(kv.get(name)?.length ?? 'none')
          else tell(kv.keys(name).length)
        } catch (why) { tell(String(why)) }
      }
    return JSON.stringify({ told })
  }`,
  ['kv'],
)
type Deed = readonly [deed: 'set' | 'get' | 'delete' | 'keys', key: string, size?: number, times?: number]
const CHANGE = { capabilities: { kv: ['a/', 'b/'] }, limits: { fuel: 10_000_000_000, timeout_ms: 10_000 } }
const id = fixtures.name()
unwrap(await author.client('publishSkill', { body: acme.pack(acme.manifest(id, CHANGE), code) }))
unwrap(await fixtures.root('enableSkill', { params: { id, version: '1.0.0' }, body: {} }))

const told = (output: string | undefined): unknown => JSON.parse(output ?? '{}').told
async function called(deeds: readonly Deed[]): Promise<unknown> {
  const { state, result } = unwrap(
    await agent.client('proposeCallInNewRun', { body: { tool: `${id}_run`, args: { deeds } }, wait: 60 }),
  )
  return state === 'succeeded' ? told(result?.output) : result?.error
}
const trial = (deeds: readonly Deed[], kv: Record<string, string>) =>
  author.client('trySkill', {
    body: {
      manifest: acme.manifest(id, CHANGE),
      component: Buffer.from(code).toString('base64'),
      trials: [{ tool: 'run', input: { deeds }, host: { kv } as never }], // the edge fills in defaults
    },
  })
async function tried(deeds: readonly Deed[], kv: Record<string, string> = {}): Promise<unknown> {
  const [one] = unwrap(await trial(deeds, kv)).items
  return one?.outcome.kind === 'returned' ? told(one.output) : one?.outcome
}

const LARGEST = LIMITS.skill_value_bytes
const FULL = LIMITS.skill_storage_bytes / LARGEST

test('a trial’s storage treats values at their limits like the real one, and counts an overwritten value once', async () => {
  const deeds: Deed[] = [
    ['set', 'a/', LARGEST - 'a/0000'.length, FULL],
    ['set', 'a/0000', LARGEST - 'a/0000'.length],
    ['set', 'a/0000', LARGEST],
    ['set', 'b/one', 0],
    ['set', 'a/0000', 1],
    ['set', 'b/one', LARGEST + 1],
    ['set', 'b/one', 9],
    ['get', 'b/one'],
    ['set', 'a/..', 1],
    ['set', 'a/ü', 1],
    ['delete', 'a/', 0, FULL],
    ['keys', 'a/'],
  ]
  const real = await called(deeds)
  const full = `the skill’s storage has ${LIMITS.skill_storage_bytes} of ${LIMITS.skill_storage_bytes} bytes already; delete some keys`
  const large = `the value has ${LARGEST + 1} bytes; the limit for one key is ${LARGEST}`
  expect(real).toEqual(['set', full, 'set', large, 'set', 9, ...(real as string[]).slice(6, 8), 'deleted', 0])
  expect(await tried(deeds)).toEqual(real)
})

test('a trial’s storage lists keys up to the same limit as the real one', async () => {
  const before = LIMITS.skill_keys_listed - 50
  // Each operation is a message, so one call could not write all of them in its time on a busy machine.
  const parts = 10
  for (let part = 0; part < parts; part++)
    expect(await called([['set', `b/k${part}`, 1, before / parts]])).toEqual(['set'])
  const deeds: Deed[] = [
    ['set', 'b/n', 1, 49],
    ['keys', 'b/'],
    ['set', 'b/one', 1],
    ['keys', 'b/'],
    ['set', 'b/more', 1],
    ['keys', 'b/'],
    ['keys', 'b/k'],
  ]
  const real = await called([['delete', 'b/one'], ...deeds])
  const many = `more than ${LIMITS.skill_keys_listed} keys have this prefix; list with a longer one`
  expect(real).toEqual(['deleted', 'set', before + 49, 'set', before + 50, 'set', many, before])
  const recorded = Object.fromEntries(
    Array.from({ length: before }, (_, n) => [`b/k${String(n).padStart(4, '0')}`, 'x']),
  )
  expect(await tried([['delete', 'b/one'], ...deeds], recorded)).toEqual(real)
})

test('a trial with recorded values that no storage could contain is refused', async () => {
  for (const key of ['', 'a/..', 'ü', '-'])
    expect(refusalOf(await trial([], { 'a/fine': '', [key]: '' }))).toBe('422 invalid_arguments')
})

test('a full storage refuses new keys, and existing keys can be overwritten', () => {
  const all = { keys: LIMITS.skill_keys, bytes: 0 }
  expect(totalsAfterSet(all, undefined, 'k', new Uint8Array(1))).toMatchObject({
    ok: false,
    error: { code: 'limit_reached' },
  })
  expect(totalsAfterSet(all, 1, 'k', new Uint8Array(1))).toEqual({
    ok: true,
    value: { keys: LIMITS.skill_keys, bytes: 1 },
  })
})
