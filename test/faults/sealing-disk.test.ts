// Promise: on a full disk no run is sealed, and no run loses anything. Each is sealed once there is room.

import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { archiveOf } from '../../edge/archive/archive-of.ts'
import { objectOfRun } from '../../shared/ids.ts'
import type { Call } from '../../shared/wire/calls.ts'
import { attested } from '../support/auditor.ts'
import { eventually } from '../support/eventually.ts'
import { Fixtures, unwrap } from '../support/fixtures.ts'
import { HurtStack, insist, revive, strike } from '../support/stack/hurt-stack.ts'
import { objectId } from '../support/stack/object-file.ts'
import { SmallDisk } from '../support/stack/small-disk.ts'
import { PeerWorker } from '../support/worker/peer-worker.ts'

const REST_S = 3

const disk = new SmallDisk()
let hurt: HurtStack
let fixtures: Fixtures
let agent: Awaited<ReturnType<Fixtures['agent']>>
beforeAll(async () => {
  hurt = await HurtStack.start({ state: disk.folder, sealAfterS: REST_S, worker: 'idle' })
  fixtures = new Fixtures('full', hurt.stack.dev)
  agent = await fixtures.agent()
})
afterAll(async () => {
  await hurt?.stop()
  disk.remove()
})

/** Whether the archive has the run. It only reads the file, so the edge may run. */
function isArchived({ run }: Call): boolean {
  const archive = objectId('countersign-archive', `default/${archiveOf(objectOfRun(run))}`)
  const file = join(hurt.stack.state.edge, 'objects/countersign-archive', `${archive}.sqlite`)
  if (!existsSync(file)) return false
  const db = new DatabaseSync(file, { readOnly: true, timeout: 5_000 })
  try {
    const isMade = db.prepare("select 1 from sqlite_schema where name = 'entries'").get() !== undefined
    const whole = 'select 1 from entries where object = ? and "index" is not null'
    return isMade && db.prepare(whole).get(objectOfRun(run)) !== undefined
  } finally {
    db.close()
  }
}

test('runs are not sealed on a full disk, are read as before, and are sealed once there is room', async () => {
  const name = await fixtures.tool()
  const peer = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool)
  const read = async ({ run, id }: Call): Promise<Call> =>
    unwrap(await insist(() => agent.client('readCall', { params: { run, call: id } })))
  const ranCall = async (run: string): Promise<Call> => {
    const body = { tool: name, args: { text: 'a' } }
    const call = unwrap(await insist(() => agent.client('proposeCall', { params: { run }, body })))
    await peer.run(call.id, { stdout: `out of ${call.id}\n`.repeat(1_000) })
    return read(call)
  }
  const calls = await Promise.all(
    Array.from({ length: 4 }, async () => ranCall(unwrap(await agent.client('createRun', { body: {} })).id)),
  )
  const areUnchanged = async (): Promise<void> => {
    for (const call of calls) expect(await read(call)).toEqual(call)
  }
  disk.fill()
  await sleep(2_000 * REST_S)
  expect(calls.map(isArchived)).toEqual(calls.map(() => false))
  await areUnchanged()

  disk.makeRoom()
  await eventually('all are sealed', () => calls.every(isArchived), 60_000)
  await areUnchanged()
  await strike(hurt.stack.edge)
  await revive(hurt.stack.edge)
  await areUnchanged()
  for (const call of calls) await attested({ ...hurt, agent: agent.client } as HurtStack, call)
  const [{ run } = raise()] = calls
  expect((await ranCall(run)).id.split('_')[2]).toBe('2')
}, 120_000)

const raise = (): never => {
  throw new Error('there is no such call')
}
