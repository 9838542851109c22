// Promise: metrics count each approval once when it is asked and once when it has ended, and the
// public ones name nobody.

import { expect, test } from 'vitest'
import { testApproval } from '../../../edge/channels/test-approval.ts'
import { asksPeople, measureWait, openMetrics } from '../../../edge/tenant/metrics.ts'
import type { Approval } from '../../../shared/wire/approvals.ts'
import { eventually } from '../../support/eventually.ts'
import { Fixtures, unwrap } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'
import { PeerWorker } from '../../support/worker/peer-worker.ts'

const fixtures = new Fixtures('metrics', sharedStack())

const answer = (
  at_ms: number,
  more: Partial<Approval['answers'][number]> = {},
): Approval['answers'][number] => ({
  by: 'ann',
  decision: 'approve',
  channel: 'link',
  assurance: 'link',
  scope: 'once',
  reason: '',
  at_ms,
  ...more,
})
const approval = (change: Partial<Approval>): Approval => ({
  ...testApproval(1_000),
  expires_at: 61_000,
  status: 'approved',
  ...change,
})
const STANDING = { standing: 'std_00000000000000000000000000' }

test('an ended approval is counted under the channel of its last answer, or `none` without one, and bucket bounds are inclusive', () => {
  expect(
    measureWait(approval({ answers: [answer(2_000, { channel: 'api' }), answer(3_000)] }), 9_000),
  ).toEqual({
    channel: 'link',
    outcome: 'approved',
    bucket: 1,
    wait_ms: 2_000,
  })
  expect(measureWait(approval({ answers: [answer(3_001)] }), 9_000)).toMatchObject({ bucket: 2 })
  expect(measureWait(approval({ status: 'expired', answers: [answer(2_000)] }), 99_000)).toMatchObject({
    channel: 'none',
    outcome: 'expired',
    wait_ms: 60_000,
  })
  expect(measureWait(approval({ status: 'cancelled' }), 4_000)).toMatchObject({
    channel: 'none',
    outcome: 'cancelled',
    wait_ms: 3_000,
  })
  expect(measureWait(approval({ status: 'denied', answers: [answer(1_000 + 90_000_000)] }), 0)).toMatchObject(
    {
      bucket: 13,
    },
  )
  expect(measureWait(approval({ answers: [answer(0)] }), 0)).toMatchObject({ wait_ms: 0, bucket: 0 }) // a clock that was set back
})

test('an approval that only standing answers settled does not count as asked', () => {
  expect(asksPeople(approval({ answers: [answer(1_000, STANDING)] }))).toBe(false)
  expect(asksPeople(approval({ status: 'pending', answers: [answer(1_000, STANDING)] }))).toBe(true)
  expect(asksPeople(approval({ answers: [answer(1_000, STANDING), answer(2_000)] }))).toBe(true)
  for (const answers of [[], [answer(1_000, STANDING)]])
    expect(asksPeople(approval({ status: 'expired', answers }))).toBe(true) // the standing answers did not suffice
})

test('a histogram is cumulative, its last bucket equals its count, and labels are escaped', () => {
  const row = { outcome: 'approved', n: 2, total_ms: 3_000 }
  const lines = openMetrics(7, {
    waits: [
      { ...row, channel: 'a"\\\nb', bucket: 0 },
      { ...row, channel: 'a"\\\nb', bucket: 13 },
    ],
    asks: [{ agent: 'secret', n: 4 }],
  }).split('\n')
  const labels = 'channel="a\\"\\\\\\nb",outcome="approved"'
  expect(lines).toContain(`countersign_approval_wait_seconds_bucket{${labels},le="2"} 2`)
  expect(lines).toContain(`countersign_approval_wait_seconds_bucket{${labels},le="86400"} 2`)
  expect(lines).toContain(`countersign_approval_wait_seconds_bucket{${labels},le="+Inf"} 4`)
  expect(lines).toContain(`countersign_approval_wait_seconds_count{${labels}} 4`)
  expect(lines).toContain(`countersign_approval_wait_seconds_sum{${labels}} 6`)
  expect(lines).toContain('countersign_approvals_asked_total 4')
  expect(lines.join()).not.toContain('secret')
})

type Samples = Readonly<Record<string, number>>
const read = (text: string): Samples =>
  Object.fromEntries(
    text
      .split('\n')
      .filter((line) => line !== '' && !line.startsWith('#'))
      .map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ') + 1))]),
  )
const open = async (): Promise<Samples> => read(await (await fetch(`${fixtures.url}/metrics`)).text())
const series = (channel: string, outcome: string): string =>
  `countersign_approval_wait_seconds_count{channel="${channel}",outcome="${outcome}"}`

test('approvals that are answered, settled by a standing answer or cancelled are each counted once, for their agent', async () => {
  const agent = await fixtures.agent()
  const approver = await fixtures.operator(['approver'])
  const tool = await fixtures.tool({ sensitive: true })
  const before = await open()
  const run = unwrap(await agent.client('createRun', { body: { session: 'counted' } })).id
  const propose = async () =>
    unwrap(await agent.client('proposeCall', { params: { run }, body: { tool, args: {} } }))
  const [first, second, third] = [await propose(), await propose(), await propose()]
  const say = async (id = '', body: { decision: 'approve' | 'deny'; scope?: 'session' }) =>
    unwrap(await approver.client('answerApproval', { params: { id }, body }))
  await say(first.approval?.id, { decision: 'deny' })
  await say(second.approval?.id, { decision: 'approve', scope: 'session' })
  unwrap(await agent.client('cancelCall', { params: { run, call: third.id } }))
  expect((await propose()).state).toBe('granted') // by the standing answer
  const more = async (name: string): Promise<number> => ((await open())[name] ?? 0) - (before[name] ?? 0)
  await eventually(
    'all has been mirrored',
    async () =>
      (await more(series('none', 'cancelled'))) === 1 && (await more(series('api', 'approved'))) === 1,
    20_000,
  )
  expect(await more(series('api', 'denied'))).toBe(1)
  expect(await more('countersign_approvals_asked_total')).toBe(3)
  const auditor = await fixtures.operator(['auditor'])
  const mine = async (key: string) =>
    fetch(`${fixtures.url}/v1/metrics`, { headers: { authorization: `Bearer ${key}` } })
  expect(
    read(await (await mine(auditor.key)).text())[`countersign_agent_asks_total{agent="${agent.name}"}`],
  ).toBe(3)
  expect((await mine(agent.key)).status).toBe(403)
  expect(JSON.stringify(await open())).not.toContain(agent.name)
})

test('worker metrics count by pool what workers have proven, and only operators can read them', async () => {
  const worker = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool, ['B'])
  const auditor = await fixtures.operator(['auditor'])
  const counted = async (key: string) =>
    fetch(`${fixtures.url}/v1/metrics/workers`, { headers: { authorization: `Bearer ${key}` } })
  const has = async () => {
    const all = read(await (await counted(auditor.key)).text())
    return ['B', 'C', 'egress', 'cgroups'].map(
      (means) => all[`countersign_workers{pool="${worker.pool}",means="${means}"}`],
    )
  }
  expect(await has()).toEqual([1, 0, 0, 1])
  await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool)
  expect(await has()).toEqual([2, 1, 1, 2])
  expect((await counted((await fixtures.agent()).key)).status).toBe(403)
})
