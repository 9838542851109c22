// Promise: new default policies of an edge reach only tenants that never put their own set. A set
// that the edge can't read allows nothing, and can be replaced.

import { rmSync } from 'node:fs'
import { expect, onTestFinished, test } from 'vitest'
import { bearer, client } from '../../shared/routes/client.ts'
import { Fixtures, refusalOf, unwrap } from '../support/fixtures.ts'
import { fileOf } from '../support/stack/object-file.ts'
import { seededState, startTestStack } from '../support/stack/stack.ts'

/** The state that an older edge left, whose defaults let nobody activate a set. */
function leftByAnotherEdge(state: string, versions: number): void {
  const db = fileOf('tenant', state)
  const older = `replace(policies, ', Action::\\"policy.activate\\"', '')`
  const { changes } = db
    .prepare(
      `update policy_sets set policies = ${older}, digest = 'of another edge', author = 'countersign' where policies != ${older} and version = 1`,
    )
    .run()
  expect(Number(changes)).toBe(1)
  expect(db.prepare('select count(*) as n from policy_sets').get()).toMatchObject({ n: versions })
  db.prepare('delete from policy_activations').run() // the older edge stored no activations
  db.close()
}

async function stateFolder(): Promise<string> {
  const dir = await seededState()
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }))
  return dir
}

test('a tenant that never stored a set gets the new defaults as an active version', async () => {
  const dir = await stateFolder()
  leftByAnotherEdge(dir, 1)
  for (const _start of ['first', 'second']) {
    const { operator, stop } = await startTestStack({ state: dir, worker: 'idle' })
    const set = unwrap(await operator('readPolicies', {}))
    const { items } = unwrap(await operator('listPolicyVersions', {}))
    await stop()
    expect(set).toMatchObject({ version: 2, author: 'the edge', activated_by: 'the edge', previous: null })
    expect(set.policies['operators']).toContain('policy.activate')
    expect(items.map(({ version, active, activated_by }) => [version, active, activated_by])).toEqual([
      [2, true, 'the edge'],
      [1, false, null],
    ])
  }
})

test('a tenant that has stored a set, active or not, keeps its policies', async () => {
  const dir = await stateFolder()
  const before = await startTestStack({ state: dir, worker: 'idle' })
  const { policies } = unwrap(await before.operator('readPolicies', {}))
  const own = { ...policies, mine: 'forbid (principal in Role::"none", action, resource);' }
  unwrap(await before.operator('putPolicies', { body: { policies: own, activate: false } }))
  await before.stop()
  leftByAnotherEdge(dir, 2)
  const { operator, stop } = await startTestStack({ state: dir, worker: 'idle' })
  const set = unwrap(await operator('readPolicies', {}))
  await stop()
  expect(set).toMatchObject({ version: 1, digest: 'of another edge' })
})

test('if the edge can’t read the active set, it allows nothing, says why, and root can store another set', async () => {
  const dir = await stateFolder()
  const before = await startTestStack({ state: dir, worker: 'idle' })
  const { policies } = unwrap(await before.operator('readPolicies', {}))
  unwrap(
    await before.operator('putPolicies', {
      body: {
        policies: { ...policies, mine: '@id("mine") forbid (principal in Role::"none", action, resource);' },
      },
    }),
  )
  const { key } = await new Fixtures('repair', before.dev).operator(['admin'])
  await before.stop()
  const db = fileOf('tenant', dir)
  db.prepare(
    `update policy_sets set policies = replace(policies, 'forbid (principal in', 'forbid principal in (') where active = 1`,
  ).run()
  db.close()

  const { operator, dev, stop } = await startTestStack({ state: dir, worker: 'idle' })
  onTestFinished(stop)
  const agent = client(dev.url, bearer(dev.agent_key))
  const call = await agent('proposeCallInNewRun', {
    body: { tool: 'process_run', args: { command: 'true' } },
  })
  expect(call).toMatchObject({
    ok: false,
    error: { status: 403, detail: expect.stringContaining('can’t read the tenant’s policies') },
  })
  expect(refusalOf(await client(dev.url, bearer(key))('readPolicies', {}))).toBe('403 forbidden')
  expect(refusalOf(await operator('listAgents', {}))).toBe('403 forbidden')
  const { refusal: why, findings } = unwrap(await operator('checkPolicies', { body: {} }))
  expect([why?.code, findings[0]?.at]).toEqual(['invalid_policy', expect.stringMatching(/^mine:1:/)])
  unwrap(await operator('putPolicies', { body: { policies } }))
  expect(unwrap(await operator('listAgents', {})).items.length).toBeGreaterThan(0)
  const next = unwrap(
    await agent('proposeCallInNewRun', { body: { tool: 'process_run', args: { command: 'true' } } }),
  )
  expect(next.state).not.toBe('denied')
})
