// Promise: the current edge lists and follows an inbox that an older version stored, before
// identical approvals were grouped and changes numbered.

import { rmSync } from 'node:fs'
import { expect, onTestFinished, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { Fixtures, unwrap } from '../support/fixtures.ts'
import { fileOf } from '../support/stack/object-file.ts'
import { seededState, startTestStack } from '../support/stack/stack.ts'

test('approvals of an older inbox are listed one by one, and their ends are reported', async () => {
  const dir = await seededState()
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }))
  const before = await startTestStack({ state: dir, worker: 'idle' })
  const fixtures = new Fixtures('inbox', before.dev)
  const agent = await fixtures.agent()
  const tool = await fixtures.tool({ capabilities: ['network'] })
  const ids = [
    (await fixtures.proposeForApproval(agent.client, tool)).approval.id,
    (await fixtures.proposeForApproval(agent.client, tool)).approval.id,
  ]
  await eventually(
    'both are listed',
    async () => unwrap(await fixtures.root('listApprovals', { query: {} })).items.length === 2,
  )
  await before.stop()
  const db = fileOf('tenant', dir)
  db.exec(`update inbox set "group" = null, head = 0, changed = null, agent = '', tool = '', risk = 0`)
  db.close()

  const now = await startTestStack({ state: dir, worker: 'idle' })
  onTestFinished(() => now.stop())
  const listed = unwrap(await now.operator('listApprovals', { query: { alike: 'once' } })).items
  expect(listed.map(({ id, alike }) => [id, alike])).toEqual([...ids].reverse().map((id) => [id, 1]))
  const { latest } = unwrap(await now.operator('listChanges', { query: {} }))
  expect(latest).toBe(2)
  unwrap(await now.operator('answerApproval', { params: { id: ids[0] ?? '' }, body: { decision: 'deny' } }))
  const { items } = unwrap(await now.operator('listChanges', { query: { after: latest }, wait: 20 }))
  expect(items.map(({ seq, approval }) => [seq, approval.id, approval.status])).toEqual([
    [3, ids[0], 'denied'],
  ])
})
