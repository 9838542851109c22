// Promise: a publisher's key is trusted exactly as long as operators list it. Keys are listed by
// publisher, pinned on first use only on explicit request, replaced without affecting skills, and
// revoked together with everything they signed. All of it is journalled.

import { describe, expect, test } from 'vitest'
import { verifyCheckpoint } from '../../../../shared/evidence/checkpoint.ts'
import type { JournalEntry } from '../../../../shared/evidence/journal.ts'
import { verifyChain } from '../../../../shared/evidence/journal.ts'
import { inclusion, leafHash, verifyInclusion } from '../../../../shared/evidence/merkle.ts'
import { overTiles, type Tile, tilePath } from '../../../../shared/evidence/tiles.ts'
import { client as anonymous } from '../../../../shared/routes/client.ts'
import type { Skill, SkillPackage } from '../../../../shared/wire/skills.ts'
import { Fixtures, refusalOf, unwrap } from '../../../support/fixtures.ts'
import { logHashes, logHead } from '../../../support/log-reader.ts'
import { component, Publisher } from '../../../support/skills/skill.ts'
import { sharedStack } from '../../../support/stack/stack.ts'

const fixtures = new Fixtures('trust', sharedStack())
const maker = await fixtures.operator(['admin'])
const plain = await component()

/** A publisher who is not listed, and one who is. */
const stranger = (): Publisher => new Publisher(fixtures.name())
const listed = (): Promise<Publisher> => Publisher.listed(fixtures.name(), fixtures.root)
/** A publisher of the same name with another key. */
const again = ({ name }: Publisher): Publisher => new Publisher(name)

const publish = (body: SkillPackage, pin?: string) =>
  maker.client('publishSkill', { body, ...(pin === undefined ? {} : { query: { pin } }) })
const packed = (by: Publisher, id: string, version = '1.0.0'): SkillPackage =>
  by.pack(by.manifest(id, { version }), plain)
const enable = (id: string, version = '1.0.0') =>
  fixtures.root('enableSkill', { params: { id, version }, body: {} })
const read = async (id: string, version = '1.0.0'): Promise<Skill> =>
  unwrap(await fixtures.root('readSkill', { params: { id, version } }))
const revoke = (name: string, kid: string, reason = 'it leaked') =>
  fixtures.root('revokePublisherKey', { params: { name, kid }, body: { reason } })
const goingBack = (id: string) => fixtures.root('readRollBack', { params: { id } })
const back = async (id: string, by = fixtures.root) =>
  by('rollBackSkill', { params: { id }, body: unwrap(await goingBack(id)) })

async function journal(): Promise<JournalEntry[]> {
  const all: JournalEntry[] = []
  for (;;) {
    const { items } = unwrap(
      await fixtures.root('readSkillJournal', { query: { after: all.at(-1)?.seq ?? 0 } }),
    )
    if (items.length === 0) return all
    all.push(...items)
  }
}
const journalled = async (about: string): Promise<[string, Record<string, unknown>][]> =>
  (await journal())
    .filter(({ body }) => body['skill'] === about || body['publisher'] === about)
    .map(({ kind, body }) => [kind, body])

describe('a key on the list', () => {
  test('W14 a key is trusted only for the publisher it is listed for, and can’t be listed for a second one', async () => {
    const [acme, umbrella] = [await listed(), await listed()]
    const id = fixtures.name()
    const asUmbrella = { ...acme.manifest(id), publisher: umbrella.name }
    expect(refusalOf(await publish(acme.pack(asUmbrella, plain)))).toBe('422 publisher_unknown')
    expect(refusalOf(await publish(packed(again(acme), id)))).toBe('422 publisher_unknown')
    const both = { keys: [umbrella.signer.x, acme.signer.x] }
    expect(
      refusalOf(await fixtures.root('putPublisher', { params: { name: umbrella.name }, body: both })),
    ).toBe('409 conflict')
    expect(unwrap(await publish(packed(acme, id))).signed_by).toBe(acme.signer.kid)
  })

  test('skills signed with a replaced key stay, run, and can be rolled back to', async () => {
    const acme = await listed()
    const [next, id] = [again(acme), fixtures.name()]
    unwrap(await publish(packed(acme, id)))
    unwrap(await enable(id))
    unwrap(
      await fixtures.root('putPublisher', {
        params: { name: acme.name },
        body: { keys: [acme.signer.x, next.signer.x] },
      }),
    )
    unwrap(await publish(packed(next, id, '1.1.0')))
    unwrap(
      await fixtures.root('putPublisher', { params: { name: acme.name }, body: { keys: [next.signer.x] } }),
    )
    expect((await read(id)).state).toBe('enabled')
    expect(refusalOf(await publish(packed(acme, id, '1.2.0')))).toBe('422 publisher_unknown')
    unwrap(await enable(id, '1.1.0'))
    expect(unwrap(await back(id))).toMatchObject({ version: '1.0.0', state: 'enabled' })
  })

  test('a skill whose key was removed from the list can’t be enabled for the first time', async () => {
    const acme = await listed()
    const id = fixtures.name()
    unwrap(await publish(packed(acme, id)))
    unwrap(await fixtures.root('deletePublisher', { params: { name: acme.name } }))
    expect(refusalOf(await enable(id))).toBe('409 conflict')
    unwrap(
      await fixtures.root('putPublisher', { params: { name: acme.name }, body: { keys: [acme.signer.x] } }),
    )
    expect(unwrap(await enable(id)).state).toBe('enabled')
  })

  test.each([
    ['an empty list', []],
    ['five keys', Array.from({ length: 5 }, () => stranger().signer.x)],
    ['a duplicate', Array(2).fill(stranger().signer.x) as string[]],
    ['a key that anybody can sign with', [Buffer.alloc(32).toString('base64url')]],
    ['a text that is not a key', ['x']],
  ])('a publisher’s list of keys is refused with %s', async (_, keys) => {
    expect(
      refusalOf(await fixtures.root('putPublisher', { params: { name: fixtures.name() }, body: { keys } })),
    ).toBe('400 invalid_request')
  })
})

describe('a key that is pinned on first use', () => {
  test('a key is pinned on explicit request, and answer, list and journal name who did it', async () => {
    const [acme, id] = [stranger(), fixtures.name()]
    expect(refusalOf(await publish(packed(acme, id)))).toBe('422 publisher_unknown')
    expect(unwrap(await publish(packed(acme, id), acme.signer.x))).toMatchObject({
      state: 'quarantined',
      pinned_by: maker.name,
    })
    expect(unwrap(await publish(packed(acme, id), acme.signer.x)).pinned_by).toBe(maker.name) // repeating it returns the same
    const publisher = unwrap(await fixtures.root('listPublishers', {})).items.find(
      ({ name }) => name === acme.name,
    )
    expect(publisher).toMatchObject({
      keys: [{ kid: acme.signer.kid, pinned: true, by: maker.name }],
      revoked: [],
    })
    expect((await journalled(acme.name)).slice(0, 2)).toMatchObject([
      ['publisher.pinned', { publisher: acme.name, keys: [acme.signer.kid], by: maker.name }],
      ['skill.published', { skill: id, version: '1.0.0', key: acme.signer.kid, by: maker.name }],
    ])
    expect(unwrap(await publish(packed(acme, id, '1.1.0'))).pinned_by).toBeUndefined() // from then on it is on the list
  })

  test('only a publisher’s first key can be pinned, not a second one at the same time or later', async () => {
    const acme = stranger()
    unwrap(await publish(packed(acme, fixtures.name()), acme.signer.x))
    const other = again(acme)
    expect(refusalOf(await publish(packed(other, fixtures.name()), other.signer.x))).toBe(
      '422 publisher_unknown',
    )
    unwrap(await fixtures.root('deletePublisher', { params: { name: acme.name } }))
    for (const one of [other, acme])
      expect(refusalOf(await publish(packed(one, fixtures.name()), one.signer.x))).toBe(
        '422 publisher_unknown',
      )
    const put = await listed()
    const third = again(put)
    expect(refusalOf(await publish(packed(third, fixtures.name()), third.signer.x))).toBe(
      '422 publisher_unknown',
    )
  })

  test('the key that signed is pinned, and a refused package pins nothing', async () => {
    const [acme, other] = [stranger(), stranger()]
    expect(refusalOf(await publish(packed(acme, fixtures.name()), other.signer.x))).toBe(
      '422 publisher_unknown',
    )
    expect(
      refusalOf(
        await publish(acme.pack(acme.manifest(fixtures.name()), Buffer.from('not wasm')), acme.signer.x),
      ),
    ).toBe('422 invalid_skill')
    expect(await journalled(acme.name)).toEqual([])
  })

  test('pinning a key requires its own action in policy', async () => {
    const acme = stranger()
    const forbid = 'forbid (principal is Operator, action == Action::"publisher.pin", resource);'
    await fixtures.withPolicies({ 'no-pins': forbid }, async () => {
      expect(refusalOf(await publish(packed(acme, fixtures.name()), acme.signer.x))).toBe('403 forbidden')
      unwrap(await publish(packed(await listed(), fixtures.name())))
    })
  })
})

describe('a key that is revoked', () => {
  test('W14 revoking a key permanently revokes everything it signed, at once and in any state', async () => {
    const acme = await listed()
    const [id, other] = [fixtures.name(), fixtures.name()]
    for (const version of ['1.0.0', '1.1.0']) unwrap(await publish(packed(acme, id, version)))
    unwrap(await publish(packed(acme, other)))
    unwrap(await enable(id))
    const agent = await fixtures.agent()
    const call = { body: { tool: `${id}_run`, args: {} }, wait: 20 } as const
    expect(unwrap(await agent.client('proposeCallInNewRun', call)).state).toBe('succeeded')
    const { kid } = acme.signer
    expect(unwrap(await revoke(acme.name, kid))).toMatchObject({
      keys: [],
      revoked: [{ kid, by: 'root', reason: 'it leaked' }],
    })
    expect(unwrap(await agent.client('proposeCallInNewRun', call)).decision).toMatchObject({
      effect: 'deny',
      policies: ['skill.state'],
    })
    for (const [of, version] of [
      [id, '1.0.0'],
      [id, '1.1.0'],
      [other, '1.0.0'],
    ] as const) {
      const { state, changes } = await read(of, version)
      expect([state, changes[0]]).toMatchObject([
        'revoked',
        { to: 'revoked', by: 'root', reason: `the key \`${kid}\` that signed it was revoked: it leaked` },
      ])
      expect(refusalOf(await enable(of, version))).toBe('409 conflict')
    }
    expect(refusalOf(await publish(packed(acme, id, '1.2.0')))).toBe('422 publisher_unknown')
  })

  test('a revoked key is never listed again, nor pinned, for any publisher', async () => {
    const acme = await listed()
    unwrap(await revoke(acme.name, acme.signer.kid))
    for (const name of [acme.name, fixtures.name()])
      expect(
        refusalOf(await fixtures.root('putPublisher', { params: { name }, body: { keys: [acme.signer.x] } })),
      ).toBe('422 key_revoked')
    const elsewhere = { ...acme.manifest(fixtures.name()), publisher: fixtures.name() }
    expect(refusalOf(await publish(acme.pack(elsewhere, plain), acme.signer.x))).toBe('422 key_revoked')
    expect(refusalOf(await publish(packed(acme, fixtures.name()), acme.signer.x))).toBe('422 key_revoked')
  })

  test('revoking a key spares what the publisher’s other keys signed, and works for a replaced key', async () => {
    const acme = await listed()
    const [next, id] = [again(acme), fixtures.name()]
    unwrap(await publish(packed(acme, id)))
    unwrap(await enable(id))
    unwrap(
      await fixtures.root('putPublisher', { params: { name: acme.name }, body: { keys: [next.signer.x] } }),
    )
    unwrap(await publish(packed(next, id, '1.1.0')))
    unwrap(await enable(id, '1.1.0'))
    unwrap(await revoke(acme.name, acme.signer.kid))
    expect([(await read(id)).state, (await read(id, '1.1.0')).state]).toEqual(['revoked', 'enabled'])
    expect(refusalOf(await goingBack(id))).toBe('409 conflict')
    const revoked = { from: '1.1.0', to: '1.0.0' }
    expect(refusalOf(await fixtures.root('rollBackSkill', { params: { id }, body: revoked }))).toBe(
      '409 conflict',
    )
  })

  test('revoking a key revokes what it signed for an earlier publisher too', async () => {
    const acme = await listed()
    const [id, other] = [fixtures.name(), fixtures.name()]
    unwrap(await publish(packed(acme, id)))
    unwrap(await fixtures.root('deletePublisher', { params: { name: acme.name } }))
    const heir = fixtures.name()
    unwrap(await fixtures.root('putPublisher', { params: { name: heir }, body: { keys: [acme.signer.x] } }))
    unwrap(await publish(acme.pack({ ...acme.manifest(other), publisher: heir }, plain)))
    unwrap(await enable(other))
    unwrap(await revoke(acme.name, acme.signer.kid))
    expect([(await read(id)).state, (await read(other)).state]).toEqual(['revoked', 'revoked'])
    expect(
      refusalOf(await publish(acme.pack({ ...acme.manifest(fixtures.name()), publisher: heir }, plain))),
    ).toBe('422 publisher_unknown')
  })

  test('a key is revoked with a reason, once, and only if it is the publisher’s', async () => {
    const [acme, other] = [await listed(), await listed()]
    const { kid } = acme.signer
    expect(refusalOf(await revoke(acme.name, kid, ''))).toBe('400 invalid_request')
    expect(refusalOf(await revoke(other.name, kid))).toBe('404 not_found')
    expect(refusalOf(await revoke(acme.name, stranger().signer.kid))).toBe('404 not_found')
    unwrap(await revoke(acme.name, kid, 'first'))
    expect(unwrap(await revoke(acme.name, kid, 'second')).revoked).toMatchObject([{ reason: 'first' }])
    expect((await journalled(acme.name)).map(([kind]) => kind)).toEqual([
      'publisher.put',
      'publisher.key_revoked',
    ])
  })
})

describe('two publishers', () => {
  test('W15 a skill belongs to the publisher who published it first', async () => {
    const [acme, umbrella] = [await listed(), await listed()]
    const id = fixtures.name()
    unwrap(await publish(packed(acme, id)))
    expect(refusalOf(await publish(packed(umbrella, id, '2.0.0')))).toBe('409 skill_conflict')
  })

  test('W15 G07 a tool name that two skills would share belongs to the first skill, enabled or not', async () => {
    const [acme, umbrella] = [await listed(), await listed()]
    const tool = (name: string) => [{ name, description: 'a tool', input_schema: { type: 'object' } }]
    const pack = (by: Publisher, [id, name]: readonly [string, string], version = '1.0.0') =>
      by.pack(by.manifest(id, { version, tools: tool(name) }), plain)
    for (const isEnabled of [true, false]) {
      const id = fixtures.name()
      const [long, short] = [
        [`${id}_mail`, 'send'],
        [id, 'mail_send'],
      ] as const // both would be the tool `ID_mail_send`
      const [first, second] = isEnabled ? [long, short] : [short, long]
      unwrap(await publish(pack(acme, first)))
      if (isEnabled) unwrap(await enable(first[0]))
      expect(await publish(pack(umbrella, second))).toMatchObject({
        error: {
          code: 'skill_conflict',
          detail: `the tool \`${id}_mail_send\` belongs to the skill \`${first[0]}\``,
        },
      })
      unwrap(await publish(pack(umbrella, [second[0], 'other'])))
      const next = await publish(pack(umbrella, second, '1.1.0'))
      expect(refusalOf(next)).toBe('409 skill_conflict')
    }
  })
})

describe('enabling a skill', () => {
  test('somebody other than the publisher must enable a skill, the first time and on a rollback', async () => {
    const acme = await listed()
    const id = fixtures.name()
    const own = { params: { id, version: '1.0.0' }, body: {} } as const
    unwrap(await publish(packed(acme, id)))
    expect(refusalOf(await maker.client('enableSkill', own))).toBe('403 forbidden')
    unwrap(await enable(id))
    unwrap(await publish(packed(acme, id, '1.1.0')))
    unwrap(await enable(id, '1.1.0'))
    expect(refusalOf(await back(id, maker.client))).toBe('403 forbidden')
    expect(unwrap(await back(id)).version).toBe('1.0.0')
    unwrap(await fixtures.root('disableSkill', own))
    expect(refusalOf(await maker.client('enableSkill', own))).toBe('403 forbidden')
  })

  test('versions of skills are listed by page, for all skills and for one', async () => {
    const acme = await listed()
    const [id, other] = [fixtures.name(), fixtures.name()]
    for (const version of ['1.0.0', '1.1.0', '2.0.0']) unwrap(await publish(packed(acme, id, version)))
    unwrap(await publish(packed(acme, other)))
    const page = async (query: { id?: string; after?: string }) =>
      unwrap(await fixtures.root('listSkills', { query })).items.map(
        (skill) => `${skill.id}@${skill.version}`,
      )
    expect(await page({ id })).toEqual([`${id}@1.0.0`, `${id}@1.1.0`, `${id}@2.0.0`])
    expect(await page({ id, after: `${id}@1.0.0` })).toEqual([`${id}@1.1.0`, `${id}@2.0.0`])
    expect((await page({ after: `${id}@1.1.0` }))[0]).toBe(`${id}@2.0.0`)
    expect(await page({ id: other, after: `${id}@1.1.0` })).toEqual(other > id ? [`${other}@1.0.0`] : [])
    expect(refusalOf(await fixtures.root('listSkills', { query: { after: id } }))).toBe('400 invalid_request')
  })

  test('a skill can be rolled back through all its versions, skipping revoked ones', async () => {
    const acme = await listed()
    const id = fixtures.name()
    const versions = ['1.0.0', '1.1.0', '1.2.0', '1.3.0'] as const
    for (const version of versions) {
      unwrap(await publish(packed(acme, id, version)))
      unwrap(await enable(id, version))
    }
    const next = async () => unwrap(await back(id)).version
    expect(await next()).toBe('1.2.0')
    unwrap(await fixtures.root('revokeSkill', { params: { id, version: '1.1.0' }, body: {} }))
    expect(await next()).toBe('1.0.0')
    expect(refusalOf(await goingBack(id))).toBe('409 conflict')
    unwrap(await enable(id, '1.3.0'))
    unwrap(await fixtures.root('disableSkill', { params: { id, version: '1.3.0' }, body: {} }))
    expect(unwrap(await goingBack(id))).toEqual({ from: null, to: '1.0.0' })
    expect(await next()).toBe('1.0.0') // also for a version that is no longer enabled
    expect(refusalOf(await goingBack(fixtures.name()))).toBe('404 not_found')
    const nothing = { params: { id: fixtures.name() }, body: { from: null, to: '1.0.0' } }
    expect(refusalOf(await fixtures.root('rollBackSkill', nothing))).toBe('404 not_found')
  })

  test('a repeated rollback from the same version is done once', async () => {
    const acme = await listed()
    const id = fixtures.name()
    for (const version of ['1.0.0', '1.1.0', '1.2.0']) {
      unwrap(await publish(packed(acme, id, version)))
      unwrap(await enable(id, version))
    }
    const seen = unwrap(await goingBack(id))
    expect(seen).toEqual({ from: '1.2.0', to: '1.1.0' })
    const rollBack = () => fixtures.root('rollBackSkill', { params: { id }, body: seen })
    const two = await Promise.all([rollBack(), rollBack()])
    expect(two.map((one) => (one.ok ? one.value.version : refusalOf(one))).sort()).toEqual([
      '1.1.0',
      '409 conflict',
    ])
    expect(refusalOf(await rollBack())).toBe('409 conflict')
    for (const other of [
      { from: '1.1.0', to: '1.2.0' },
      { from: null, to: '1.0.0' },
    ])
      expect(refusalOf(await fixtures.root('rollBackSkill', { params: { id }, body: other }))).toBe(
        '409 conflict',
      )
    expect(
      await Promise.all(['1.0.0', '1.1.0', '1.2.0'].map(async (version) => (await read(id, version)).state)),
    ).toEqual(['disabled', 'enabled', 'disabled'])
  })
})

test('actions on skills form a hash chain, and each entry is a leaf of the signed log', async () => {
  const acme = await listed()
  const id = fixtures.name()
  unwrap(await publish(packed(acme, id)))
  unwrap(await enable(id))
  const all = await journal()
  expect(verifyChain(all).ok).toBe(true)
  const enabled = all.findLast(({ kind, body }) => kind === 'skill.enabled' && body['skill'] === id)
  expect(enabled?.body).toMatchObject({
    version: '1.0.0',
    from: 'quarantined',
    to: 'enabled',
    by: 'root',
    publisher: acme.name,
  })
  const changed = all.map((entry) =>
    entry === enabled ? { ...entry, body: { ...entry.body, by: 'somebody else' } } : entry,
  )
  expect(verifyChain(changed).ok).toBe(false)

  const anyone = anonymous(fixtures.url)
  const hash = enabled?.hash ?? ''
  let index = -1
  await expect
    .poll(
      async () => {
        index = (await logHashes(anyone)).indexOf(hash)
        return index
      },
      { timeout: 15_000 },
    )
    .toBeGreaterThanOrEqual(0)
  const { note, origin } = await logHead(anyone)
  const { keys } = unwrap(await anyone('keys', {}))
  const head = verifyCheckpoint(note, origin, keys.find(({ role }) => role === 'edge')?.x ?? '')
  if (!head.ok) throw new Error(head.error)
  const { size, root } = head.value
  const tileOf = (tile: Tile) => anyone('logTile', { params: { tenant: 'default', tile: tilePath(tile) } })
  const proof = unwrap(await overTiles(size, tileOf, (read) => inclusion(index, size, read)))
  const leaf = leafHash(Buffer.from(hash, 'hex'))
  expect(verifyInclusion({ leaf, index, size, proof, root })).toBe(true)
  const calls = unwrap(await fixtures.root('listEndedCalls', { query: { last: 100 } })).items
  expect(calls.filter(({ call }) => call === '')).toEqual([]) // none of them is listed as a call
})
