// Promise: files that a tier C call leaves are never run as the worker's user. Only tier C calls of
// a run share a folder; each tier B call gets a new home, temporary folder and working directory.

import { expect, test } from 'vitest'
import { Fixtures, refusalOf, toolSpec, unwrap } from '../support/fixtures.ts'
import { sharedStack } from '../support/stack/stack.ts'

const fixtures = new Fixtures('tiers', sharedStack())
const agent = await fixtures.agent({ pool: 'default', groups: ['worker-host-access'] })

/**
 * Plants modules where Python looks first: in its user's folder and in the folder where it starts.
 */
const PLANT = `
at=$(python3 -c "import sys; print('.local/lib/python%d.%d/site-packages' % sys.version_info[:2])")
mkdir -p "$at" && cat > "$at/usercustomize.py" && cp "$at/usercustomize.py" platform.py && ls`
const PLANTED = `
import os
home = os.environ['HOME']
print('planted; the worker’s key:', os.path.exists(os.path.join(home, '../../key.json')), os.path.exists(os.path.join(home, '../../../key.json')))
def python_version(): return 'planted'
`
/** A harmless program, written by the operator. */
const ASKS = [
  'python3',
  '-c',
  'import os, platform; print(platform.python_version(), os.listdir("."), os.listdir(os.environ["HOME"]))',
]

const none = { mode: 'none', hosts: [] } as { mode: 'none'; hosts: string[] }
const plants = await fixtures.tool({
  executor: { argv: ['sh', '-c', PLANT], stdin: { arg: 'text' } },
  workspace: 'run',
})
const both = await fixtures.tool({
  executor: { tiers: ['B', 'C'], argv: ASKS },
  egress: none,
  workspace: 'run',
})
const apart = await fixtures.tool({ executor: { tiers: ['B'], argv: ASKS }, egress: none })

async function ran(run: string, tool: string, args: Record<string, unknown> = {}) {
  const { id, approval } = unwrap(
    await agent.client('proposeCall', { params: { run }, body: { tool, args }, wait: 20 }),
  )
  if (approval !== undefined) unwrap(await fixtures.approve(approval.id))
  const call = unwrap(await agent.client('readCall', { params: { run, call: id }, wait: 20 }))
  expect([call.state, call.result?.error]).toEqual(['succeeded', undefined])
  return { tier: call.plan?.tier, executor: call.attestation?.executor, output: call.result?.output ?? '' }
}

test('modules that a tier C call planted run in tier C only, and tier B finds nothing of them', {
  timeout: 90_000,
}, async () => {
  const run = unwrap(await agent.client('createRun', { body: {} })).id
  expect((await ran(run, plants, { text: PLANTED })).output).toContain('platform.py')
  const shared = await ran(run, both)
  expect(shared).toMatchObject({
    tier: 'C',
    output: expect.stringContaining('planted; the worker’s key: False False'),
  }) // the planted module works there
  const onHost = await ran(run, apart)
  expect(onHost.tier).toBe('B')
  expect(onHost.output).toMatch(/^3\.[0-9.]+ \[\] \[\]\n$/)
  expect([shared.executor, onHost.executor].map((executor) => executor?.slice(0, 14))).toEqual([
    'sandbox_tier_c',
    'sandbox_tier_b',
  ])
})

test('D16 each call of a shell in tier B waits for a human and runs once they approve it, even if its contract names no capability', async () => {
  const shell = await fixtures.tool({
    capabilities: [],
    input_schema: { type: 'object', properties: { command: { type: 'string' } }, required: ['command'] },
    executor: { tiers: ['B'], argv: ['bash', '-c', '{command}'] },
    egress: none,
  })
  const run = unwrap(await agent.client('createRun', { body: {} })).id
  for (const word of ['one', 'two']) {
    const body = { tool: shell, args: { command: `echo ${word}` } }
    const call = unwrap(await agent.client('proposeCall', { params: { run }, body }))
    expect([call.state, call.decision.policies]).toEqual([
      'awaiting_approval',
      ['tier-b-is-approved-call-by-call'],
    ])
    const { id = '' } = call.approval ?? {}
    const { options } = unwrap(await fixtures.root('readApproval', { params: { id } }))
    expect(options.filter(({ decision }) => decision === 'approve')).toEqual([
      { decision: 'approve', scope: 'once' },
    ])
    unwrap(await fixtures.root('answerApproval', { params: { id }, body: { decision: 'approve' } }))
    const ended = unwrap(await agent.client('readCall', { params: { run, call: call.id }, wait: 20 }))
    expect([ended.state, ended.result?.output, ended.plan?.tier]).toEqual(['succeeded', `${word}\n`, 'B'])
  }
})

test('D16 agents outside `worker-host-access` can’t use tier B, whatever other group they are in', async () => {
  for (const groups of [[], ['unrestricted-egress'], ['worker-host']]) {
    const other = await fixtures.agent({ pool: 'default', groups })
    const call = unwrap(await other.client('proposeCallInNewRun', { body: { tool: apart, args: {} } }))
    expect([groups, call.state, call.decision.policies]).toEqual([
      groups,
      'denied',
      ['isolation-worker-host'],
    ])
    expect(call.decision.reason).toMatch(/worker’s key and Redis/)
  }
})

test('a tool of tier B only can’t request the folder of its run, and the error says what to write instead', async () => {
  const body = toolSpec({ executor: { tiers: ['B'] }, egress: none, workspace: 'run' })
  const put = await fixtures.root('putTool', { params: { name: fixtures.name() }, body })
  expect(refusalOf(put)).toBe('400 invalid_request')
  expect(put).toMatchObject({ error: { detail: expect.stringContaining('allow tier C, or use `call`') } })
})
