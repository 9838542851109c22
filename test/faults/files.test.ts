// Promise: unused files of a run are deleted automatically, files that a call named much later. An
// agent at its quota can upload again once files have been deleted.

import { afterAll, expect, test } from 'vitest'
import { sha256 } from '../../shared/bytes/json.ts'
import { LIMITS } from '../../shared/limits.ts'
import { inputFilesOf } from '../../shared/plan/plan.ts'
import { bearer, client } from '../../shared/routes/client.ts'
import { eventually } from '../support/eventually.ts'
import { refusalOf, toolSpec, unwrap } from '../support/fixtures.ts'
import { revive, strike } from '../support/stack/hurt-stack.ts'
import { fileOf } from '../support/stack/object-file.ts'
import { startTestStack } from '../support/stack/stack.ts'
import { installation } from '../support/tenants.ts'

const stack = await startTestStack({ worker: 'idle' })
afterAll(() => stack.stop())
const operator = stack.operator
const agent = client(stack.url, bearer(stack.dev.agent_key))
const WITHIN_MS = 20_000

/** Makes all files of the run older by this time. */
async function after(ms: number): Promise<void> {
  await strike(stack.edge)
  const run = fileOf('run', stack.state.dir)
  expect(Number(run.prepare('update files set at = at - ?').run(ms).changes)).toBeGreaterThan(0)
  run.close()
  await revive(stack.edge)
}

test('a file that no call named is deleted after a day, a named one after thirty days, and its quota is freed', {
  timeout: 90_000,
}, async () => {
  unwrap(
    await operator('putTool', { params: { name: 'reads_files' }, body: toolSpec({ input_files: true }) }),
  )
  unwrap(await operator('putAgent', { params: { name: 'dev' }, body: { tools: ['*'], files_bytes: 1_000 } }))
  const run = unwrap(await agent('createRun', { body: {} })).id
  const put = (text: string) =>
    agent('putFile', { params: { run, sha256: sha256(text) }, body: Buffer.from(text) })
  const propose = async (files: { path: string; sha256: string }[] = []) =>
    unwrap(await agent('proposeCall', { params: { run }, body: { tool: 'reads_files', args: {}, files } }))
  const held = async () => unwrap(await agent('listFiles', { params: { run } })).items
  const [idle, named, late] = ['i'.repeat(600), 'n'.repeat(300), 'l'.repeat(500)]

  unwrap(await put(idle))
  unwrap(await put(named))
  const call = await propose([{ path: 'a', sha256: sha256(named) }])
  const before = await held()
  expect(before.map(({ sha256: digest, bytes, named: isNamed }) => [digest, bytes, isNamed])).toEqual([
    [sha256(idle), 600, false],
    [sha256(named), 300, true],
  ])
  const longer =
    (before[1]?.until_ms ?? 0) - (before[0]?.until_ms ?? 0) - (LIMITS.file_named_ms - LIMITS.file_unnamed_ms)
  expect(Math.abs(longer)).toBeLessThan(WITHIN_MS)
  expect(refusalOf(await put(late))).toBe('409 storage_full')
  unwrap(await put(idle)) // the file exists already and takes no additional room

  await after(LIMITS.file_unnamed_ms + 1)
  await propose() // any request wakes the run, whose alarm was set for a day later
  await eventually('the room is there again', async () => (await put(late)).ok, WITHIN_MS)
  expect((await held()).map(({ sha256: digest }) => digest)).toEqual([sha256(named), sha256(late)])

  await after(LIMITS.file_named_ms)
  await propose()
  await eventually('all has gone', async () => (await held()).length === 0, WITHIN_MS)
  const gone = await agent('readFile', { params: { run, call: call.id, sha256: sha256(named) } })
  expect(gone).toMatchObject({
    error: {
      code: 'not_found',
      detail: 'the bytes of this file have expired; only its digest is left in the call',
    },
  })
  expect(inputFilesOf(unwrap(await agent('readCall', { params: { run, call: call.id } })).plan)).toHaveLength(
    1,
  )
  const limit = async (storage_bytes: number) =>
    unwrap(
      await installation(stack.dev)('putQuota', { params: { tenant: 'default' }, body: { storage_bytes } }),
    )
  await limit(0)
  expect(await put(late)).toMatchObject({
    error: {
      code: 'storage_full',
      detail: expect.stringMatching(/^the tenant stores \d+ bytes, and its quota is 0$/),
    },
  })
  await limit(LIMITS.tenant_storage_bytes)
  unwrap(await put(late))
})

test('the quota of a run that reports nothing is freed in time; a run with files reports again', {
  timeout: 90_000,
}, async () => {
  const run = unwrap(await agent('createRun', { body: {} })).id
  const put = (text: string) =>
    agent('putFile', { params: { run, sha256: sha256(text) }, body: Buffer.from(text) })
  const inDirectory = <T>(work: (db: ReturnType<typeof fileOf>) => T): T => {
    const db = fileOf('tenant', stack.state.dir)
    try {
      return work(db)
    } finally {
      db.close()
    }
  }
  const known = () =>
    inDirectory(
      (db) => db.prepare('select until from files_held where run = ?').get(run)?.['until'] as number,
    ) // the column is a number
  const soon = Date.now() + 60_000
  const asIfOld = (more = '') =>
    inDirectory((db) => db.exec(`update files_held set until = ${soon} where run = '${run}'; ${more}`))
  unwrap(await operator('putAgent', { params: { name: 'dev' }, body: { tools: ['*'], files_bytes: 1_000 } }))

  await strike(stack.edge)
  asIfOld(`delete from files_sums; insert into files_sums values ('dev', 900); delete from files_held;
           insert into files_held values ('run_that_is_gone', 'dev', 900, ${Date.now() - 1})`)
  await revive(stack.edge)
  unwrap(await put('r'.repeat(400)))
  expect(known()).toBeGreaterThan(soon)

  await strike(stack.edge)
  asIfOld()
  await revive(stack.edge)
  unwrap(await agent('proposeCall', { params: { run }, body: { tool: 'reads_files', args: {} } })) // any request wakes the run, whose alarm was set for a day later
  await eventually('it has said so again', () => known() > soon, WITHIN_MS)
})
