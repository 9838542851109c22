// Promise: a second user of a worker's key, such as a cloned host or a recorder of its requests,
// can't run a call twice or get a secret twice, and operators see a warning.

import { randomBytes } from 'node:crypto'
import { cpSync, existsSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Child } from '../../../infra/child-process.ts'
import { readSecrets, type State } from '../../../infra/state.ts'
import { enrolledWorkerId, prepareWorker, workerSpec } from '../../../infra/worker-process.ts'
import { type PrivateJwk, signerFromJwk } from '../../../shared/evidence/dsse.ts'
import { signRequest } from '../../../shared/evidence/http-signature.ts'
import { LIMITS } from '../../../shared/limits.ts'
import { client } from '../../../shared/routes/client.ts'
import type { Call } from '../../../shared/wire/calls.ts'
import { bundledWorker } from '../../support/bundled.ts'
import { eventually } from '../../support/eventually.ts'
import { unwrap } from '../../support/fixtures.ts'
import { about, HurtStack, processesWith, revive, strike } from '../../support/stack/hurt-stack.ts'
import { SHORT_LEASES } from '../../support/stack/other-limits.ts'
import { PeerWorker } from '../../support/worker/peer-worker.ts'

let hurt: HurtStack
let copy: Child
let clone: State
beforeAll(async () => {
  hurt = await HurtStack.start({ limits: SHORT_LEASES })
  const { state, url, redisPort } = hurt.stack
  clone = { ...state, worker: join(state.dir, 'clone'), log: join(state.dir, 'clone-log') }
  mkdirSync(clone.log)
  cpSync(state.worker, clone.worker, {
    recursive: true,
    preserveTimestamps: true,
    filter: (path) => !/\/(?:spool|runs|sandbox)$/.test(path),
  })
  prepareWorker(clone, { url, redisPort, stack: { concurrency: 4, private_hosts: [] } }, readSecrets(state))
  const refused = (log: () => string) => Promise.resolve(/"code":"worker_in_use"/.test(log()))
  copy = new Child(
    { ...workerSpec(clone, await bundledWorker(SHORT_LEASES)), ready: refused },
    () => undefined,
  )
})
afterAll(async () => {
  await copy?.kill()
  await hurt?.stop()
})

const cloneLog = (): string => readFileSync(join(clone.log, 'worker.log'), 'utf8')
/** Marks that executions left, on both hosts. */
function marks({ run }: Call): string[] {
  const path = join(clone.worker, 'runs', run, 'ran')
  return [
    ...hurt.marks(run),
    ...(existsSync(path) ? readFileSync(path, 'utf8').split('\n').filter(Boolean) : []),
  ]
}
const doubledAt = async (): Promise<number | null> => {
  const { items } = unwrap(await hurt.operator('listWorkers', {}))
  return items.find(({ id }) => id === enrolledWorkerId(hurt.stack.state))?.doubled_at_ms ?? null
}

/** A request of the clone's process, signed with the copied key. */
async function claimAsClone(call: Call, process: string) {
  const key = JSON.parse(readFileSync(join(hurt.stack.state.worker, 'key.json'), 'utf8')) as PrivateJwk & {
    worker: string
  }
  let epoch = ''
  const asking = client(hurt.stack.url, ({ method, url, body }) =>
    signRequest(
      { method, authority: url.host, path: url.pathname, body },
      { tenant: 'default', worker: key.worker, key: signerFromJwk(key).key, epoch },
      Date.now(),
    ),
  )
  const claim = () =>
    asking('claim', { body: { run: call.run, call: call.id, tiers: ['B', 'C'], egress: true, process } })
  const first = await claim()
  if (first.ok || first.error.code !== 'stale_epoch') return first
  epoch = first.error.epoch ?? ''
  return claim()
}

test('D6 L2 a clone that starts while its worker runs gets no call, learns why, and raises an alarm', async () => {
  const stays = about(60)
  const running = await hurt.propose('mark_slowly', { mark: 'runs\n', seconds: stays })
  await eventually('it runs', () => marks(running).length === 1)
  const before = Date.now()
  const started = await copy.start()
  expect(started).toEqual({ ok: true, value: undefined })
  expect(cloneLog()).toMatch(/another process serves as this worker/)
  expect(await claimAsClone(running, randomBytes(16).toString('base64url'))).toMatchObject({
    ok: false,
    error: { status: 409, code: 'worker_in_use' },
  })
  await eventually('operators are told', async () => ((await doubledAt()) ?? 0) >= before)
  const calls = await Promise.all(
    Array.from({ length: 12 }, (_, n) => hurt.propose('mark_quickly', { mark: `${n}\n` })),
  )
  for (const call of calls) expect((await hurt.ended(call)).state).toBe('succeeded')
  expect(calls.map((call) => marks(call).length)).toEqual(calls.map(() => 1))
  expect(cloneLog()).not.toMatch(/"msg":"(?:ready|ended)"/)

  await strike(hurt.stack.worker)
  await eventually('the clone serves', () => /"msg":"ready"/.test(cloneLog()), 30_000)
  expect((await hurt.ended(running, 30_000)).state).toBe('indeterminate')
  expect([marks(running), processesWith(stays)]).toEqual([['runs'], []])
})

test('D6 a worker that was killed serves again once its clone has stopped, and a restart alone raises no alarm', async () => {
  await copy.stop()
  await revive(hurt.stack.worker)
  const alarm = await doubledAt()
  await strike(hurt.stack.worker)
  await revive(hurt.stack.worker)
  const call = await hurt.propose('mark_quickly', { mark: 'after\n' })
  expect((await hurt.ended(call)).state).toBe('succeeded')
  expect([marks(call), await doubledAt()]).toEqual([['after'], alarm])
})

test('D9 K02 a claim that was signed ahead of time and recorded is refused when it is sent again after the edge has restarted', async () => {
  const pool = 'recorded'
  const peer = await PeerWorker.enrol(hurt.stack.url, hurt.operator, pool)
  const secret = 'recorded-secret-0001'
  unwrap(
    await hurt.operator('putSecret', {
      params: { name: 'recorded' },
      body: { value: secret, tools: ['with_secret'] },
    }),
  )
  const { ...tool } = unwrap(await hurt.operator('readTool', { params: { name: 'talk_slowly' } }))
  const { description, input_schema, capabilities, executor, egress, limits } = tool
  const spec = {
    description,
    input_schema,
    capabilities,
    executor,
    egress,
    limits,
    workspace: 'call' as const,
    secrets: ['recorded'],
  }
  unwrap(await hurt.operator('putTool', { params: { name: 'with_secret' }, body: spec as never }))
  unwrap(
    await hurt.operator('putAgent', {
      params: { name: 'dev' },
      body: { tools: ['*'], pool, budget: { max_calls_per_run: 10_000 } },
    }),
  )
  const call = await hurt.propose('with_secret', { mark: 'x' })
  if (call.approval !== undefined)
    unwrap(
      await hurt.operator('answerApproval', {
        params: { id: call.approval.id },
        body: { decision: 'approve' },
      }),
    )

  const path = '/v1/worker/claims'
  const body = Buffer.from(
    JSON.stringify({ run: call.run, call: call.id, tiers: ['B', 'C'], egress: true, process: peer.process }),
  )
  const ahead = Date.now() + (LIMITS.signature_age_s - 2) * 1_000
  const recorded = signRequest(
    { method: 'POST', authority: new URL(hurt.stack.url).host, path, body },
    { tenant: 'default', worker: peer.id, key: peer.signer.key, epoch: peer.epoch },
    ahead,
  )
  const send = async () => {
    const answer = await fetch(new URL(path, hurt.stack.url), {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...recorded },
      body,
    })
    return { status: answer.status, text: await answer.text() }
  }
  const first = await send()
  expect([first.status, first.text.includes(secret)]).toEqual([200, true])
  expect((await send()).status).toBe(401)
  const back = await hurt.stack.edge.restart()
  expect(back.ok).toBe(true)
  for (let time = 0; time < 3; time++) {
    const again = await send()
    expect([again.status, JSON.parse(again.text).code, again.text.includes(secret)]).toEqual([
      401,
      'stale_epoch',
      false,
    ])
  }
  expect((await peer.claim(call.id)).ok).toBe(true) // its own process may claim again with a new signature
})
