// Promise: a real edge shows its log to a real witness, which finds that the edge runs on the state of
// yesterday, and refuses that log; the edge goes on deciding, and tells. A forked log is found too.

import { once } from 'node:events'
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import type { WitnessedLog } from '../../cli/witness/log-keys.ts'
import { witnessServer } from '../../cli/witness/server.ts'
import { StateFolder } from '../../cli/witness/state-folder.ts'
import { Witness } from '../../cli/witness/witness.ts'
import { cosignedBy, verifierKey } from '../../shared/evidence/cosignature.ts'
import { countersign } from '../support/countersign.ts'
import { eventually } from '../support/eventually.ts'
import { Fixtures, unwrap } from '../support/fixtures.ts'
import { logHead } from '../support/log-reader.ts'
import { startTestStack } from '../support/stack/stack.ts'

const folder = mkdtempSync(join(tmpdir(), 'witness-'))
const state = await StateFolder.open(join(folder, 'state'))
if (!state.ok) throw new Error(state.error.detail)
const logs: WitnessedLog[] = []
const witness = new Witness('witness.example/w1', logs, state.value)
const server = witnessServer(witness, () => undefined).listen(0, '127.0.0.1')
await once(server, 'listening')
const key = verifierKey(witness.key)
const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`

const stack = await startTestStack({
  worker: 'idle',
  loopbackChannels: true,
  witnesses: [{ url, key }],
  limits: { witness_delay_ms: 100, witness_fresh_ms: 1, witness_pause_max_ms: 200 },
})
afterAll(async () => {
  server.close()
  server.closeAllConnections()
  state.value.close()
  await stack.stop()
  rmSync(folder, { recursive: true, force: true })
})
const edgeKey = stack.dev.keys.keys.find(({ role }) => role === 'edge')
logs.push({ origin: `${new URL(stack.url).host}/`, keys: [edgeKey?.x ?? ''] })
const fixtures = new Fixtures('witness', stack.dev)
const tool = await fixtures.tool()
const agent = await fixtures.agent({ tools: [] })
const { operator } = stack
const tenant = 'default'

/** A call that policy denies, which ends at once. */
const end = async () => unwrap(await agent.client('proposeCallInNewRun', { body: { tool, args: {} } }))
const states = async () => unwrap(await operator('logWitnesses', { params: { tenant } })).items
/** The newest head, once it has this many leaves and is cosigned. */
const cosigned = (leaves: number) =>
  eventually(`a head of ${leaves} leaves is cosigned`, async () => {
    const head = await logHead(operator)
    const isCosigned = cosignedBy(head.note, [witness.key]).length > 0
    return isCosigned && head.size >= leaves ? head : undefined
  })
const refused = (reason: string) =>
  eventually(`the log is ${reason}`, async () => {
    const [one] = await states()
    return one?.refused?.reason === reason ? one.refused : undefined
  })
async function withStoppedEdge(work: () => void): Promise<void> {
  await stack.edge.stop()
  work()
  const started = await stack.edge.start()
  if (!started.ok) throw new Error(started.error)
}
const env = { COUNTERSIGN_URL: stack.url, COUNTERSIGN_KEY: stack.dev.operator_key, XDG_STATE_HOME: folder }
const keys = join(folder, 'keys.json')
writeFileSync(keys, JSON.stringify(stack.dev.keys))

test('a witness detects that the edge runs on the state of yesterday or forked its log, and the edge goes on', async () => {
  const call = await end()
  // With all that the tenant's journal already has, so that nothing is on its way to the log yesterday.
  const journal = unwrap(await operator('readTenantJournal', { query: {} })).items
  const before = await cosigned(journal.length + 1)
  const bundle = await countersign(['attestation', call.id], { env })
  const file = join(folder, 'bundle.json')
  writeFileSync(file, bundle.out)
  const verified = await countersign(['verify', file, '--keys', keys, '--witness', key], { env })
  expect([verified.code, verified.out]).toEqual([0, expect.stringContaining('at least 1 of 1 witnesses')])
  expect(verified.out).toMatch(/cosigned +witness\.example\/w1 at 20/)

  const objects = join(stack.state.edge, 'objects')
  const yesterday = join(folder, 'yesterday')
  await withStoppedEdge(() => cpSync(objects, yesterday, { recursive: true }))
  for (let i = 0; i < 3; i++) await end()
  const after = await cosigned(before.size + 3)
  const shown = await countersign(['log', 'checkpoint', '--keys', keys, '--witness', key], { env })
  expect([shown.code, shown.out]).toEqual([
    0,
    expect.stringMatching(/witness witness\.example\/w1 +\d+ leaves/),
  ])

  await withStoppedEdge(() => {
    rmSync(objects, { recursive: true })
    cpSync(yesterday, objects, { recursive: true })
  })
  expect((await logHead(operator)).size).toBe(before.size) // which wakes the log, and no call is made
  expect((await refused('rolled_back')).detail).toBe(
    `the log was rolled back: it has ${before.size} leaves, and the witness has cosigned ${after.size}`,
  )
  const stale = await countersign(['log', 'checkpoint', '--keys', keys, '--witness', key], {
    env: { ...env, XDG_STATE_HOME: join(folder, 'somebody-else') },
  })
  expect([stale.code, stale.out]).toEqual([1, expect.stringContaining('the log was rolled back')])

  for (let i = 0; i < 5; i++) expect((await end()).state).toBe('denied')
  await refused('forked')
  expect(state.value.head(after.origin)).toMatchObject({ size: after.size, root: after.root })
  const forked = await logHead(operator)
  expect(forked.size).toBeGreaterThan(after.size)
  expect(cosignedBy(forked.note, [witness.key])).toEqual([])
})
