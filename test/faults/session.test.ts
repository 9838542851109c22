// The usage and the standing answers of a session survive a kill of the edge, and a session that
// can't be read allows nothing (L6).

import { globSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterAll, expect, test } from 'vitest'
import { LIMITS } from '../../shared/limits.ts'
import { bearer, client } from '../../shared/routes/client.ts'
import type { Call } from '../../shared/wire/calls.ts'
import { unwrap } from '../support/fixtures.ts'
import { HurtStack, insist, revive, strike } from '../support/stack/hurt-stack.ts'

const hurt = await HurtStack.start()
afterAll(() => hurt.stop())

const CAP =
  '@id("three-a-session") forbid (principal, action == Action::"tool.execute/text_stats", resource) when { context.budget.session.calls >= 3 };'
const { policies } = unwrap(await hurt.operator('readPolicies', {}))
unwrap(await hurt.operator('putPolicies', { body: { policies: { ...policies, cap: CAP } } }))

const propose = async (session: string, tool = 'text_stats'): Promise<Call> =>
  unwrap(
    await insist(() =>
      hurt.agent('proposeCallInNewRun', { body: { tool, args: { text: 'x' }, run: { session } } }),
    ),
  )
const objects = () => globSync(join(hurt.stack.state.edge, 'objects/countersign-session/*.sqlite'))

test('the usage of a session survives a kill of the edge', async () => {
  const first = await propose('killed')
  await propose('killed')
  await hurt.ended(first)
  await strike(hurt.stack.edge)
  await revive(hurt.stack.edge)
  expect((await propose('killed')).decision.effect).toBe('allow')
  expect((await propose('killed')).decision.policies).toEqual(['three-a-session'])
})

test('open approvals, standing answers and revocations survive a kill of the edge', async () => {
  const args = { command: 'id', args: [] }
  const ask = async (session: string): Promise<Call> =>
    unwrap(
      await insist(() =>
        hurt.agent('proposeCallInNewRun', { body: { tool: 'process_run', args, run: { session } } }),
      ),
    )
  const yes = async ({ approval }: Call) =>
    unwrap(
      await hurt.operator('answerApproval', {
        params: { id: approval?.id ?? '' },
        body: { decision: 'approve', scope: 'session' },
      }),
    )
  const [kept, gone, waiting] = [await ask('kept'), await ask('gone'), await ask('waiting')]
  await yes(kept)
  await yes(gone)
  const { items } = unwrap(await hurt.operator('listStanding', {}))
  const id = items.find(({ session }) => session === 'gone')?.id ?? ''
  unwrap(await hurt.operator('revokeStanding', { params: { id } }))
  await strike(hurt.stack.edge)
  await revive(hurt.stack.edge)
  expect((await ask('kept')).approval?.status).toBe('approved')
  expect((await ask('gone')).approval?.status).toBe('pending')
  expect(unwrap(await hurt.operator('listStanding', {})).items.map(({ session }) => session)).toEqual([
    'kept',
  ])
  expect((await yes(waiting)).status).toBe('approved')
  await hurt.ended(waiting)
})

test('an edited call survives a kill of the edge, with each answer and its digest', async () => {
  const two =
    '@id("two") forbid (principal, action == Action::"tool.execute/process_run", resource) when { context.approval.count < 2 };'
  const operator = unwrap(
    await hurt.operator('putOperator', { params: { name: 'second' }, body: { roles: ['approver'] } }),
  )
  const second = client(hurt.stack.dev.url, bearer(operator.key ?? ''))
  const before = unwrap(await hurt.operator('readPolicies', {})).policies
  unwrap(await hurt.operator('putPolicies', { body: { policies: { ...before, two } } }))
  const call = unwrap(
    await insist(() =>
      hurt.agent('proposeCallInNewRun', {
        body: { tool: 'process_run', args: { command: 'echo', args: ['long', 'text'] } },
      }),
    ),
  )
  const params = { id: call.approval?.id ?? '' }
  unwrap(await second('answerApproval', { params, body: { decision: 'approve' } }))
  const changed = { command: 'echo', args: ['short'] }
  const { digest } = unwrap(
    await hurt.operator('answerApproval', { params, body: { decision: 'approve', arguments: changed } }),
  )
  await strike(hurt.stack.edge)
  await revive(hurt.stack.edge)
  const approval = unwrap(await insist(() => second('readApproval', { params })))
  expect(approval).toMatchObject({
    status: 'pending',
    digest,
    answers: [{ by: 'root' }],
    edits: [{ by: 'root', from: call.digest }],
  })
  expect(
    unwrap(await insist(() => second('answerApproval', { params, body: { decision: 'approve', digest } })))
      .status,
  ).toBe('approved')
  const ended = await hurt.ended(call)
  expect(ended).toMatchObject({
    state: 'succeeded',
    digest,
    result: { output: 'short\n' },
    edited: { arguments: changed, from: call.digest },
  })
  unwrap(await hurt.operator('putPolicies', { body: { policies: before } }))
})

/** The file of the session's object, which the session's first call makes. */
async function madeBy(session: string): Promise<string> {
  const others = new Set(objects())
  await hurt.ended(await propose(session))
  const [file, ...more] = objects().filter((path) => !others.has(path))
  if (file === undefined || more.length > 0) throw new Error('the session’s object is not one new file')
  return file
}

/** Adds open calls whose run has not stored them yet, so that a session need not make each of them. */
function addOpenCalls(file: string, calls: number): void {
  const db = new DatabaseSync(file)
  db.prepare(
    `with recursive n(i) as (select 1 union all select i + 1 from n where i < ?)
     insert into open (place, run, key, tool, spent, at)
     select 'place ' || i, run, 'key ' || i, tool, 0, ? from open, n`,
  ).run(calls, Date.now() + 60_000)
  db.close()
}

test('a session counts at most `session_open_calls` open calls, and a call above that is denied', async () => {
  const [almost, full] = [await madeBy('almost'), await madeBy('full')]
  await strike(hurt.stack.edge)
  addOpenCalls(almost, LIMITS.session_open_calls - 1)
  addOpenCalls(full, LIMITS.session_open_calls)
  await revive(hurt.stack.edge)
  expect((await propose('almost')).decision.policies).toEqual(['three-a-session'])
  expect((await propose('full')).decision).toMatchObject({
    code: 'policy_error',
    policies: ['session.budget'],
  })
})

test('if a session can’t be read, calls that policy counts there are denied and attested; another session goes on', async () => {
  const file = await madeBy('broken')
  await hurt.stack.edge.stop()
  for (const ending of ['-wal', '-shm']) rmSync(`${file}${ending}`, { force: true })
  writeFileSync(file, 'no database at all'.repeat(1_000))
  await revive(hurt.stack.edge)
  const call = await propose('broken')
  expect(call).toMatchObject({
    state: 'denied',
    decision: { code: 'policy_error', policies: ['session.budget'] },
  })
  expect(call.attestation?.executor).toBe('edge')
  const tried = await hurt.agent('decide', {
    body: { tool: 'text_stats', args: { text: 'x' }, run: { session: 'broken' } },
  })
  expect(tried.ok ? tried.value.decision.effect : tried.error.code).toBe('unavailable')
  expect((await propose('whole')).decision.effect).toBe('allow')
})
