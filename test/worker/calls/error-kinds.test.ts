// Each kind of error of an execution is a stable code with advice; a real worker produces each one
// for real.

import { renameSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { FAILURES } from '../../../shared/failures.ts'
import type { ProcessPlan as Plan } from '../../../shared/plan/plan.ts'
import { Arena, planOf } from '../../escape/arena/arena.ts'
import { eventually } from '../../support/eventually.ts'
import type { Proposal } from '../../support/worker/fake-edge.ts'
import { LoneWorker } from '../../support/worker/lone-worker.ts'

let lone: LoneWorker
beforeAll(async () => {
  lone = await LoneWorker.make({ concurrency: 4 })
  await lone.start()
})
afterAll(() => lone?.end())

type Changes = Partial<Omit<Plan, 'limits' | 'executor'>> & {
  readonly limits?: Partial<Plan['limits']>
  readonly cwd?: string
}

/** Runs a call and returns how it ended; checks that the failure's code has advice. */
async function ended(proposal: Proposal, { limits, cwd, ...changes }: Changes = {}) {
  const call = lone.edge.propose(proposal)
  Object.assign(call.plan, changes)
  Object.assign(call.plan.limits, limits)
  if (cwd !== undefined) Object.assign(call.plan.executor, { cwd })
  await lone.ringFor(call)
  const { state, error, execution } = (await lone.settled(call, 30_000)).statement.predicate
  // `in` was checked on this line.
  const known = error !== null && error in FAILURES ? FAILURES[error as keyof typeof FAILURES] : undefined
  expect(known?.todo, `${error} says what to do`).toMatch(/^[a-z`].{10,}[^.]$/)
  return { state, error, outcome: execution.outcome }
}

const tierB: Changes = { tier: 'B', egress: { mode: 'preflight', hosts: ['169.254.169.254:80'] } }

test.each<[string, Proposal, Changes, object]>([
  [
    'invalid_input',
    { argv: ['cat'], args: { text: 7 }, stdin: { arg: 'text' } },
    {},
    { state: 'failed', outcome: { kind: 'refused' } },
  ],
  [
    'workspace_scope_denied',
    { argv: ['ls'] },
    { cwd: '../..' },
    { state: 'failed', outcome: { kind: 'refused' } },
  ],
  ['egress_denied', { argv: ['ls'], tier: 'B' }, tierB, { state: 'failed', outcome: { kind: 'refused' } }],
  ['quota_exceeded', { argv: ['yes'] }, {}, { state: 'failed', outcome: { kind: 'output_cap' } }],
  [
    'timed_out',
    { argv: ['sleep', '30'], timeout_ms: 300 },
    {},
    { state: 'timed_out', outcome: { kind: 'timeout' } },
  ],
  [
    'spawn_failed',
    { argv: ['no-such-program'] },
    {},
    { state: 'failed', outcome: { kind: 'exit', code: 127 } },
  ],
  [
    'spawn_failed',
    { argv: ['/etc/ssl/certs'] },
    {},
    { state: 'failed', outcome: { kind: 'exit', code: 126 } },
  ],
  [
    'runtime_failure',
    { argv: ['ls', '/no/such/folder'] },
    {},
    { state: 'failed', outcome: { kind: 'exit', code: 2 } },
  ],
  [
    'runtime_failure',
    { argv: ['sh', '-c', 'kill -SEGV $$'] },
    {},
    { state: 'failed', outcome: { kind: 'signal', signal: 'SIGSEGV' } },
  ],
])('a call ends with %s: %j', async (error, proposal, changes, seen) => {
  expect(await ended(proposal, changes)).toMatchObject({ error, ...seen })
})

test('a call that exceeds its CPU time or file size ends with the error `quota_exceeded`', async () => {
  const spinning = await ended(
    { argv: ['sh', '-c', 'while :; do :; done'], timeout_ms: 20_000 },
    { limits: { cpu_ms: 1_000 } },
  )
  expect(spinning).toMatchObject({
    error: 'quota_exceeded',
    outcome: { kind: expect.stringMatching(/^(?:cpu_cap|signal)$/) },
  })
  const filling = await ended(
    { argv: ['dd', 'if=/dev/zero', 'of=f', 'bs=64k', 'count=64'] },
    { limits: { file_bytes: 65_536 } },
  )
  expect(filling).toMatchObject({ error: 'quota_exceeded', outcome: { kind: 'signal', signal: 'SIGXFSZ' } })
})

test('a call whose process can’t start or whose folder can’t be created ends with a reason', async () => {
  const tierB: Changes = { tier: 'B', egress: { mode: 'none', hosts: [] } }
  for (const cwd of ['x'.repeat(256), 'x/'.repeat(2_000)]) {
    const result = await ended({ argv: ['ls'], tier: 'B' }, { ...tierB, cwd })
    expect(result).toMatchObject({ error: 'workspace_scope_denied', outcome: { kind: 'refused' } })
  }
  const folder = join(lone.state.worker, 'sandbox')
  renameSync(folder, `${folder}-away`)
  const detail = expect.stringContaining('(ENOENT)')
  try {
    expect((await ended({ argv: ['ls'], tier: 'B' }, { ...tierB, cwd: 'secret' })).outcome).toEqual({
      kind: 'infra',
      detail,
    })
    expect((await ended({ argv: ['ls'] }, { outputs: true })).outcome).toEqual({ kind: 'infra', detail })
  } finally {
    renameSync(`${folder}-away`, folder)
  }
  await eventually('nothing waits in the spool', () => lone.spool.begun.size === 0, 20_000)
})

test('a call of a tier that the worker’s operator switched off ends with the error `disabled`', async () => {
  await lone.process.stop()
  lone.configure({ tiers: ['C'] })
  await lone.start()
  const result = await ended({ argv: ['true'], tier: 'B' }, { egress: { mode: 'none', hosts: [] } })
  expect(result).toMatchObject({
    state: 'failed',
    error: 'disabled',
    outcome: { kind: 'refused', detail: expect.stringContaining('`tiers`') },
  })
})

test('on a system other than Linux every call is refused with the error `unsupported_platform`', async () => {
  const host = await Arena.open({ host: { platform: 'darwin' } })
  for (const tier of ['B', 'C'] as const) {
    const { outcome, out } = await host.launch({ plan: planOf(['echo', 'ran'], { tier }) })
    expect([outcome, out]).toEqual([
      { kind: 'refused', code: 'unsupported_platform', detail: expect.stringContaining('`darwin`') },
      '',
    ])
  }
  await host.close()
})
