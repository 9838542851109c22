// Policy can read whether an earlier call in the shared folder of a run received a secret, which
// may still be there.

import { afterAll, expect, test } from 'vitest'
import { folderAfter, hasMetSecret } from '../../../edge/call/shared-folder.ts'
import { Fixtures, unwrap } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'
import { PeerWorker } from '../../support/worker/peer-worker.ts'

const fixtures = new Fixtures('folder-secrets', sharedStack())
const peer = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool)
const agent = await fixtures.agent()
const [shares, apart, fetches, secret] = [
  await fixtures.tool({ workspace: 'run' }),
  await fixtures.tool(),
  fixtures.name(),
  fixtures.name(),
]
afterAll(() => fixtures.root('deleteSecret', { params: { name: secret } }))

const HOST = 'api.example.com:8080'
const ASKS = [
  `@id("met") @reason("a secret may lie in the folder")`,
  `forbid (principal == Agent::"${agent.name}", action in Action::"tool.execute", resource)`,
  'when { context.plan.workspace == "run" && context.folder_met_secret } unless { context.approval.granted };',
].join('\n')

const propose = async (run: string, tool: string) =>
  unwrap(await agent.client('proposeCall', { params: { run }, body: { tool, args: {} } }))
const newRun = async () => unwrap(await agent.client('createRun', { body: {} })).id

test('D5 policy sees that a call with a credential has used the run’s folder, when a later call is proposed and claimed', async () => {
  unwrap(
    await fixtures.root('putSecret', {
      params: { name: secret },
      body: { value: 'a-value-of-the-host', tools: [fetches], hosts: [HOST] },
    }),
  )
  const credentials = [{ secret, host: HOST, header: 'x-api-key' }]
  await fixtures.tool({ workspace: 'run', egress: { mode: 'strict', hosts: [HOST] }, credentials }, fetches)
  await fixtures.withPolicies({ met: ASKS }, async () => {
    const [run, other] = [await newRun(), await newRun()]
    const before = await propose(run, shares)
    expect(before.state).toBe('granted')
    const fetching = await propose(run, fetches)
    unwrap(await fixtures.approve(fetching.approval?.id ?? ''))
    expect((await propose(run, shares)).state).toBe('granted') // it was only granted: no worker has received the secret yet
    unwrap(await peer.claim(fetching.id))
    const after = await propose(run, shares)
    expect([after.state, after.decision.policies]).toEqual(['awaiting_approval', ['met']])
    expect(after.decision.explanation?.changes.flat().map(({ by, words }) => [by, words])).toContainEqual([
      'agent',
      'a new run, whose folder has held no secret',
    ])
    expect((await peer.claim(before.id)).ok).toBe(false) // the current policy, with the current state of the folder
    expect(unwrap(await agent.client('readCall', { params: { run, call: before.id } })).state).toBe(
      'cancelled',
    )
    expect((await propose(run, apart)).state).toBe('granted')
    expect((await propose(other, shares)).state).toBe('granted')
    unwrap(await fixtures.approve(after.approval?.id ?? ''))
    expect((await peer.claim(after.id)).ok).toBe(true)
  })
})

test('D5 a folder of an earlier version, which has no record, counts as one that has held a secret', () => {
  const [worker, live] = ['wrk_01ARZ3NDEKTSV4RRFFQ69G5FAV', () => []]
  expect([
    hasMetSecret(null),
    hasMetSecret({ worker, used: true }),
    hasMetSecret({ worker, used: true, metSecret: false }),
  ]).toEqual([false, true, false])
  const plan = { tier: 'C', workspace: 'run', secrets: [] }
  const call = { proposal: { plan }, status: { state: 'running' } } as never
  const claimed = { kind: 'claimed', worker } as never
  expect(hasMetSecret(folderAfter({ worker, used: true }, call, claimed, live))).toBe(true)
  expect(hasMetSecret(folderAfter(null, call, claimed, live))).toBe(false)
})
