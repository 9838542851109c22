// Promise: an acknowledged change of a skill survives a kill of the edge at that moment: its state,
// its journal entry, and one leaf of the log for each entry.

import { afterAll, beforeAll, expect, test } from 'vitest'
import { verifyChain } from '../../shared/evidence/journal.ts'
import { bearer, client } from '../../shared/routes/client.ts'
import { eventually } from '../support/eventually.ts'
import { unwrap } from '../support/fixtures.ts'
import { logHashes } from '../support/log-reader.ts'
import { component, Publisher } from '../support/skills/skill.ts'
import { HurtStack } from '../support/stack/hurt-stack.ts'

let hurt: HurtStack
beforeAll(async () => {
  hurt = await HurtStack.start({ worker: 'idle' })
})
afterAll(() => hurt?.stop())

async function restartEdge(): Promise<void> {
  const back = await hurt.stack.edge.restart()
  if (!back.ok) throw new Error(back.error)
}
const named = { id: 'faulty', version: '1.0.0' } as const
const journal = async () => unwrap(await hurt.operator('readSkillJournal', {})).items
const leaves = () => logHashes(hurt.operator)

test('an edge that is killed after each step of a skill’s life loses no step and logs none twice', async () => {
  const acme = await Publisher.listed('faulty-acme', hurt.operator)
  await restartEdge()
  const { key = '' } = unwrap(
    await hurt.operator('putOperator', { params: { name: 'maker' }, body: { roles: ['admin'] } }),
  )
  const maker = client(hurt.stack.url, bearer(key))
  unwrap(await maker('publishSkill', { body: acme.pack(acme.manifest(named.id), await component()) }))
  await restartEdge()
  expect(unwrap(await hurt.operator('readSkill', { params: named })).state).toBe('quarantined')
  unwrap(await hurt.operator('enableSkill', { params: named, body: {} }))
  await restartEdge()
  const call = await hurt.propose(`${named.id}_run`, {})
  expect((await hurt.ended(call)).state).toBe('succeeded')
  unwrap(
    await hurt.operator('revokePublisherKey', {
      params: { name: acme.name, kid: acme.signer.kid },
      body: { reason: 'a test' },
    }),
  )
  await restartEdge()
  expect(unwrap(await hurt.operator('readSkill', { params: named })).state).toBe('revoked')
  expect((await hurt.propose(`${named.id}_run`, {})).state).toBe('denied')
  const entries = await journal()
  expect(verifyChain(entries).ok).toBe(true)
  expect(entries.map(({ kind }) => kind)).toEqual([
    'publisher.put',
    'skill.published',
    'skill.enabled',
    'publisher.key_revoked',
    'skill.revoked',
  ])
  const hashes = entries.map(({ hash }) => hash)
  const ours = async () => (await leaves()).filter((hash) => hashes.includes(hash))
  await eventually('the log has all of them', async () => (await ours()).length >= hashes.length)
  expect(await ours()).toEqual(hashes)
})
