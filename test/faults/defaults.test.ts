// Promise: an edge that comes with other defaults than the last one brings them to tenants that never put a set of their own, and to no other.

import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, onTestFinished, test } from 'vitest'
import { granted } from '../support/desk.ts'
import { startTestStack } from '../support/stack.ts'

/** The state as another edge left it, whose defaults knew nobody who may put a set in force. */
function leftByAnotherEdge(state: string, versions: number): void {
  const folder = join(state, 'edge/objects/countersign-tenant')
  const [file, ...more] = readdirSync(folder).filter((name) => /^[0-9a-f]{64}\.sqlite$/.test(name))
  if (file === undefined || more.length > 0) throw new Error('there is one tenant')
  const db = new DatabaseSync(join(folder, file))
  const older = `replace(policies, ', Action::\\"policy.activate\\"', '')`
  const { changes } = db
    .prepare(
      `update policy_sets set policies = ${older}, digest = 'of another edge', author = 'countersign' where policies != ${older} and version = 1`,
    )
    .run()
  expect(Number(changes)).toBe(1)
  expect(db.prepare('select count(*) as n from policy_sets').get()).toMatchObject({ n: versions })
  db.prepare('delete from policy_activations').run() // that edge kept none
  db.close()
}

function stateFolder(): string {
  const dir = mkdtempSync(join(tmpdir(), 'countersign-'))
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }))
  return dir
}

test('a tenant that never put a set has the new defaults, in force, as a version like any other', async () => {
  const dir = stateFolder()
  const before = await startTestStack({ state: dir })
  await before.stop()
  leftByAnotherEdge(dir, 1)
  for (const _start of ['first', 'second']) {
    const { operator, stop } = await startTestStack({ state: dir })
    const set = granted(await operator('readPolicies', {}))
    const { items } = granted(await operator('listPolicyVersions', {}))
    await stop()
    expect(set).toMatchObject({ version: 2, author: 'the edge', activated_by: 'the edge', previous: null })
    expect(set.policies['operators']).toContain('policy.activate')
    expect(items.map(({ version, active, activated_by }) => [version, active, activated_by])).toEqual([
      [2, true, 'the edge'],
      [1, false, null],
    ])
  }
})

test('who has put a set, in force or not, is left alone', async () => {
  const dir = stateFolder()
  const before = await startTestStack({ state: dir })
  const { policies } = granted(await before.operator('readPolicies', {}))
  const own = { ...policies, mine: 'forbid (principal in Role::"none", action, resource);' }
  granted(await before.operator('putPolicies', { body: { policies: own, activate: false } }))
  await before.stop()
  leftByAnotherEdge(dir, 2)
  const { operator, stop } = await startTestStack({ state: dir })
  const set = granted(await operator('readPolicies', {}))
  await stop()
  expect(set).toMatchObject({ version: 1, digest: 'of another edge' })
})
