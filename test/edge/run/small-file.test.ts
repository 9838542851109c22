// An object with one call is a small file: tables and indexes that it does not use would each take a
// page.

import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterAll, expect, test } from 'vitest'
import { TENANT } from '../../../infra/state.ts'
import { runObjectName } from '../../../shared/ids.ts'
import { Fixtures, unwrap } from '../../support/fixtures.ts'
import { objectId } from '../../support/stack/object-file.ts'
import { startTestStack } from '../../support/stack/stack.ts'

const stack = await startTestStack({ worker: 'idle' })
afterAll(() => stack.stop())
const fixtures = new Fixtures('small', stack.dev)
const agent = await fixtures.agent()
const tool = await fixtures.tool()
const folder = join(stack.state.edge, 'objects/countersign-run')

/** The tables, indexes and views of a run's object, without those of workerd and SQLite. */
function madeIn(run: string): unknown[] {
  const file = join(folder, `${objectId('countersign-run', runObjectName(TENANT, run))}.sqlite`)
  const db = new DatabaseSync(file, { readOnly: true })
  const rows = db.prepare('select name from sqlite_schema order by name').all()
  db.close()
  return rows.map(({ name }) => name).filter((name) => !/^(?:_cf_|sqlite_)/.test(String(name)))
}

const ONE_CALL = ['attestations', 'calls', 'journal', 'run', 'schema_at_4', 'snapshots']
const INDEXES = ['calls_cancel', 'calls_due', 'calls_join', 'calls_key', 'calls_unmirrored']

test('a run of one call has five tables, and its second call brings the indexes', async () => {
  const { run } = unwrap(await agent.client('proposeCallInNewRun', { body: { tool, args: {} } }))
  expect(madeIn(run)).toEqual(ONE_CALL)
  unwrap(await agent.client('proposeCall', { params: { run }, body: { tool, args: {} } }))
  expect(madeIn(run)).toEqual([...ONE_CALL, ...INDEXES].sort())
})
