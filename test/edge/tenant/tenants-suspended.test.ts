// Promise: suspending a tenant locks out all its callers at once, running calls may finish, its
// data is kept, and resuming restores it.

import { beforeAll, describe, expect, test } from 'vitest'
import { sha256 } from '../../../shared/bytes/json.ts'
import { client } from '../../../shared/routes/client.ts'
import { ConsoleSession, signIn } from '../../support/browser/console-session.ts'
import { type Fixtures, refusalOf, unwrap } from '../../support/fixtures.ts'
import { logHead } from '../../support/log-reader.ts'
import { sharedStack } from '../../support/stack/stack.ts'
import { installation, newTenant } from '../../support/tenants.ts'
import { newSigner, PeerWorker } from '../../support/worker/peer-worker.ts'

const dev = sharedStack()
const governor = installation(dev)
const SUSPENDED = '403 tenant_suspended'
const suspend = (tenant: string) =>
  governor('suspendTenant', { params: { tenant }, body: { reason: 'unpaid' } })
const resume = (tenant: string) => governor('resumeTenant', { params: { tenant }, body: {} })

const FILE = 'what the running call reads'

type Principal = Awaited<ReturnType<Fixtures['agent']>>

describe('D18 a suspended tenant', () => {
  const name = 'suspended-acme'
  let fixtures: Fixtures
  let agent: Principal
  let peer: PeerWorker
  let session: ConsoleSession
  let link: string
  let token: string
  let approval: string
  const calls: Record<string, { run: string; id: string }> = {}

  beforeAll(async () => {
    fixtures = await newTenant(dev, name)
    agent = await fixtures.agent()
    peer = await PeerWorker.enrol(dev.url, fixtures.root, fixtures.pool)
    session = await ConsoleSession.open(dev.url, fixtures.rootKey)
    const [tool, sensitive] = [
      await fixtures.tool({ executor: { tiers: ['B', 'C'] } }),
      await fixtures.tool({ capabilities: ['network'] }),
    ]
    const reader = await fixtures.tool({ input_files: true, executor: { tiers: ['B', 'C'] } })
    const { id: run } = unwrap(await agent.client('createRun', { body: {} }))
    unwrap(await agent.client('putFile', { params: { run, sha256: sha256(FILE) }, body: Buffer.from(FILE) }))
    const files = [{ path: 'in.txt', sha256: sha256(FILE) }]
    calls['running'] = unwrap(
      await agent.client('proposeCall', { params: { run }, body: { tool: reader, args: {}, files } }),
    )
    calls['waiting'] = unwrap(await agent.client('proposeCallInNewRun', { body: { tool, args: {} } }))
    const asked = await fixtures.proposeForApproval(agent.client, sensitive)
    calls['asking'] = asked
    approval = asked.approval.id
    link = await fixtures.link(fixtures.root, asked.approval.id)
    token = unwrap(await fixtures.root('createEnrolment', { body: { pool: fixtures.pool } })).token
  })

  test('a suspended tenant refuses keys, console sessions, links and new workers from the next request on', async () => {
    const claim = unwrap(await peer.claim(calls['running']?.id ?? ''))
    expect(unwrap(await suspend(name))).toMatchObject({ name, state: 'suspended' })

    expect(refusalOf(await agent.client('proposeCallInNewRun', { body: { tool: 'any', args: {} } }))).toBe(
      SUSPENDED,
    )
    expect(refusalOf(await agent.client('readRun', { params: { run: calls['running']?.run ?? '' } }))).toBe(
      SUSPENDED,
    )
    expect(refusalOf(await fixtures.root('listApprovals', { query: {} }))).toBe(SUSPENDED)
    const answer = { params: { id: approval }, body: { decision: 'approve' as const } }
    expect(refusalOf(await fixtures.root('answerApproval', answer))).toBe(SUSPENDED)
    expect(refusalOf(await peer.claim(calls['waiting']?.id ?? ''))).toBe(SUSPENDED)
    const x = newSigner().x
    expect(refusalOf(await client(dev.url)('enrol', { body: { token, x, name: 'late', tiers: [] } }))).toBe(
      SUSPENDED,
    )

    const page = await session.get('/console')
    expect([page.status, await page.text()]).toEqual([
      403,
      expect.stringContaining('has suspended this tenant'),
    ])
    expect((await signIn(dev.url, fixtures.rootKey)).status).toBe(403)
    const opened = await fetch(link)
    expect([opened.status, await opened.text()]).toEqual([
      403,
      expect.stringContaining('has suspended this tenant'),
    ])

    // A running call may finish, because an unknown outcome would be worse.
    const body = {
      tiers: ['B' as const, 'C' as const],
      running: [{ call: calls['running']?.id ?? '', fence: 1 }],
    }
    expect(unwrap(await peer.client('heartbeat', { body })).stop).toEqual([])
    const part = { call: calls['running']?.id ?? '', sha256: sha256(FILE), part: '0' }
    expect(
      Buffer.from(unwrap(await peer.client('readInput', { params: part })).data, 'base64').toString(),
    ).toBe(FILE)
    expect(unwrap(await peer.settle(claim)).state).toBe('succeeded')
    expect((await logHead(client(dev.url), name)).origin).toContain(name)
  })

  test('a resumed tenant works as before', async () => {
    expect(unwrap(await resume(name)).state).toBe('active')
    const read = async (which: string) => {
      const { run = '', id = '' } = calls[which] ?? {}
      return unwrap(await agent.client('readCall', { params: { run, call: id } })).state
    }
    expect([await read('running'), await read('waiting'), await read('asking')]).toEqual([
      'succeeded',
      'granted',
      'awaiting_approval',
    ])
    expect((await session.get('/console')).status).toBe(200)
    expect((await fetch(link)).status).toBe(200)
    expect((await peer.run(calls['waiting']?.id ?? '')).state).toBe('succeeded')
    expect(unwrap(await fixtures.approve(approval)).status).toBe('approved')
  })

  test('suspending a tenant does not affect other tenants', async () => {
    const other = await newTenant(dev, 'suspended-other')
    unwrap(await suspend(name))
    const [by, tool] = [await other.agent(), await other.tool()]
    expect(unwrap(await by.client('proposeCallInNewRun', { body: { tool, args: {} } })).state).toBe('granted')
    unwrap(await resume(name))
  })
})

test('D18 a stream that was open when its tenant was suspended sends nothing more', async () => {
  const fixtures = await newTenant(dev, 'suspended-stream')
  const agent = await fixtures.agent()
  const run = unwrap(await agent.client('createRun', { body: {} }))
  const tool = await fixtures.tool({ executor: { tiers: ['B', 'C'] } })
  const peer = await PeerWorker.enrol(dev.url, fixtures.root, fixtures.pool)
  const call = unwrap(
    await agent.client('proposeCall', { params: { run: run.id }, body: { tool, args: {} } }),
  )
  const claim = unwrap(await peer.claim(call.id))
  const stream = await fetch(new URL(`/v1/runs/${run.id}/events`, dev.url), {
    headers: { authorization: `Bearer ${agent.key}` },
  })
  unwrap(await suspend('suspended-stream'))
  unwrap(await peer.settle(claim))
  expect(await stream.text()).not.toContain('settled')
})

test('D18 suspending twice, resuming an active tenant and changing an unknown tenant are refused', async () => {
  await newTenant(dev, 'suspended-twice')
  expect(refusalOf(await resume('suspended-twice'))).toBe('409 conflict')
  unwrap(await suspend('suspended-twice'))
  expect(refusalOf(await suspend('suspended-twice'))).toBe('409 conflict')
  expect(refusalOf(await suspend('suspended-never'))).toBe('404 not_found')
  const { items } = unwrap(await governor('readInstallationJournal', { query: {} }))
  const ours = items.filter(({ body }) => body['tenant'] === 'suspended-twice')
  expect(ours.map(({ kind, body }) => [kind, body['reason']])).toEqual([
    ['tenant.created', undefined],
    ['tenant.suspended', 'unpaid'],
  ])
})
