// Promise: a holder of the Redis password can only ring. No forged doorbell makes a call run that
// should not, makes one run twice, stops the worker or yields a result.

import { Queue } from 'bullmq'
import type { Redis } from 'ioredis'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { callId } from '../../../shared/ids.ts'
import type { Call } from '../../../shared/wire/calls.ts'
import { attested, journalOf } from '../../support/auditor.ts'
import { eventually } from '../../support/eventually.ts'
import { unwrap } from '../../support/fixtures.ts'
import { HurtStack } from '../../support/stack/hurt-stack.ts'

const QUEUE = 'doorbell-default.default'
const KEY = `cs:${QUEUE}`

let hurt: HurtStack
let redis: Redis
let queue: Queue
let pid: number | undefined
beforeAll(async () => {
  hurt = await HurtStack.start()
  redis = hurt.redis()
  queue = new Queue(QUEUE, { connection: redis, prefix: 'cs', skipVersionCheck: true })
  queue.on('error', () => undefined) // a test may take Redis away
  pid = hurt.stack.worker.pid
})
afterAll(async () => {
  await queue?.close()
  redis?.disconnect()
  await hurt?.stop()
})
beforeEach(() => expect(hurt.stack.worker.pid).toBe(pid))

const once = { removeOnComplete: true, removeOnFail: true }
const bell = ({ run, id }: Pick<Call, 'run' | 'id'>) => ({ tenant: 'default', run, call: id })

/** The worker has emptied the queue and still works: a further call succeeds. */
async function allTaken(): Promise<void> {
  await eventually(
    'the queue is empty',
    async () => (await queue.getJobCountByTypes('wait', 'active', 'delayed')) === 0,
    30_000,
  )
  expect((await hurt.propose('text_stats', { text: 'well\n' }, { wait: 10 })).state).toBe('succeeded')
  expect(hurt.stack.worker.pid).toBe(pid)
}

const kindsOf = async ({ run }: Call): Promise<string[]> =>
  (await journalOf(hurt, run)).map(({ kind }) => kind)

describe('Q01 forged doorbells do no harm', () => {
  test('malformed doorbells run nothing, and the worker goes on', async () => {
    const run = 'run_7ZZZZZZZZZZZZZZZZZZZZZZZZZ'
    const call = callId(run, 1)
    const long = 'x'.repeat(10_240)
    const shapes: unknown[] = [
      {},
      [],
      null,
      7,
      long,
      { tenant: 'default' },
      { tenant: 'other', run, call },
      { tenant: long, run, call },
      { tenant: 'default', run: long, call },
      { tenant: 'default', run, call: long },
      { tenant: 'default', run: { $ne: null }, call: [call] },
      { tenant: 'default', run: '../../v1/operators', call: '../../../etc/passwd' },
      { tenant: 'default', run, call: callId('run_7ZZZZZZZZZZZZZZZZZZZZZZZZY', 1) },
      {
        tenant: 'default',
        run,
        call,
        plan: { tier: 'B', executor: { argv: ['touch', '/tmp/pwned'] } },
        grant: {},
      },
      JSON.parse(`{"__proto__":{"tenant":"default","run":"${run}","call":"${call}"}}`),
      { tenant: 'default', run, call }, // well-formed, but of no existing run
    ]
    const from = hurt.workerLog().length
    await queue.addBulk(shapes.map((data) => ({ name: 'ring', data, opts: once })))
    await allTaken()
    const logged = hurt.workerLog().slice(from)
    expect(logged.filter(({ msg }) => msg === 'a doorbell was dropped')).toHaveLength(shapes.length - 1)
    expect(
      logged.filter(({ msg, call: id }) => msg === 'a doorbell was ignored' && id === call),
    ).toHaveLength(1)
    expect(JSON.stringify(logged)).not.toContain(long.slice(0, 200))
  })

  test('doorbells for a call that awaits approval, is cancelled or has ended do not change it', async () => {
    const asking = await hurt.propose('mark_asking', { mark: 'asking\n' })
    const ended = await hurt.propose('mark_quickly', { mark: 'ended\n' }, { wait: 10 })
    const cancelled = await hurt.propose('mark_asking', { mark: 'cancelled\n' })
    unwrap(await hurt.agent('cancelCall', { params: { run: cancelled.run, call: cancelled.id } }))
    const calls = await Promise.all([asking, ended, cancelled].map((call) => hurt.read(call)))
    expect(calls.map(({ state }) => state)).toEqual(['awaiting_approval', 'succeeded', 'cancelled'])
    const before = await Promise.all(calls.map(kindsOf))
    await queue.addBulk(
      calls.flatMap((call) =>
        Array.from({ length: 5 }, () => ({ name: 'ring', data: bell(call), opts: once })),
      ),
    )
    await allTaken()
    expect(await Promise.all(calls.map((call) => hurt.read(call)))).toEqual(calls)
    expect(await Promise.all(calls.map(kindsOf))).toEqual(before)
    expect(calls.map(({ run }) => hurt.marks(run).length)).toEqual([0, 1, 0])
  })

  test('Q04 200 doorbells for a waiting call, and 50 more while it runs, run it once', async () => {
    process.kill(pid ?? 0, 'SIGSTOP')
    const call = await hurt.propose('mark_slowly', { mark: 'two hundred\n', seconds: '1.5' })
    await queue.addBulk(Array.from({ length: 200 }, () => ({ name: 'ring', data: bell(call), opts: once })))
    process.kill(pid ?? 0, 'SIGCONT')
    await eventually('it runs', () => hurt.marks(call.run).length > 0)
    await queue.addBulk(Array.from({ length: 50 }, () => ({ name: 'ring', data: bell(call), opts: once })))
    const ended = await hurt.ended(call)
    await queue.addBulk(Array.from({ length: 20 }, () => ({ name: 'ring', data: bell(call), opts: once })))
    await allTaken()
    expect(ended.state).toBe('succeeded')
    await attested(hurt, ended)
    expect(hurt.marks(call.run)).toEqual(['two hundred'])
    expect(await kindsOf(call)).toEqual(['allowed', 'claimed', 'succeeded'])
  })
})

test('Q02 a doorbell with another name, other options or in another queue does not change its call', async () => {
  process.kill(pid ?? 0, 'SIGSTOP')
  const call = await hurt.propose('mark_quickly', { mark: 'as proposed\n' })
  const [job] = await eventually('its doorbell lies there', async () => {
    const jobs = await queue.getJobs(['wait'])
    return jobs.length > 0 && jobs
  })
  await job?.updateData({ ...bell(call), args: { mark: 'forged\n' }, tool: 'process_run' })
  await queue.add('cancel', { ...bell(call), state: 'cancelled' }, once)
  await queue.add('claim', bell(call), { ...once, attempts: 5, priority: 1, lifo: true })
  const elsewhere = new Queue('doorbell-default.other', {
    connection: redis,
    prefix: 'cs',
    skipVersionCheck: true,
  })
  await elsewhere.add('ring', bell(call))
  process.kill(pid ?? 0, 'SIGCONT')
  const ended = await hurt.ended(call)
  await allTaken()
  await elsewhere.obliterate({ force: true }).catch(() => undefined) // cleaning up; the access list may forbid it
  await elsewhere.close()
  expect(ended).toMatchObject({ state: 'succeeded', result: { output: 'as proposed\n' } })
  await attested(hurt, ended)
  expect(hurt.marks(call.run)).toEqual(['as proposed'])
})

test('Q03 the replayed doorbells of a whole day run nothing: the edge refuses each claim', async () => {
  const run = await hurt.run()
  const calls = await Promise.all(
    Array.from({ length: 20 }, (_, n) =>
      hurt.propose('mark_quickly', { mark: `old ${n}\n` }, { run, wait: 20 }),
    ),
  )
  const marks = hurt.marks(run).toSorted()
  expect(marks).toHaveLength(20)
  const journal = await journalOf(hurt, run)
  await queue.addBulk(calls.map((call) => ({ name: 'ring', data: bell(call), opts: once })))
  await allTaken()
  expect(hurt.marks(run).toSorted()).toEqual(marks)
  expect(await journalOf(hurt, run)).toEqual(journal)
})

test('Q06 a forged result in Redis, wherever BullMQ could keep one, never becomes the result of a call', async () => {
  const asking = await hurt.propose('mark_asking', { mark: 'asking\n' })
  const running = await hurt.propose('mark_slowly', { mark: 'true\n', seconds: '2' })
  await eventually('it runs', () => hurt.marks(running.run).length > 0)
  for (const call of [asking, running]) {
    const result = JSON.stringify({ state: 'succeeded', ok: true, output: 'forged', exit_code: 0 })
    const job = await queue.add('ring', bell(call), { ...once, jobId: call.id })
    await redis.hset(`${KEY}:${job.id}`, {
      returnvalue: result,
      finishedOn: `${Date.now()}`,
      processedOn: `${Date.now()}`,
    })
    await redis.zadd(`${KEY}:completed`, Date.now(), call.id)
    await redis.xadd(`${KEY}:events`, '*', 'event', 'completed', 'jobId', call.id, 'returnvalue', result)
    await redis.set(`cs:result:${call.id}`, result)
    await redis.publish(`cs:result:${call.id}`, result)
  }
  await allTaken()
  const ended = await hurt.ended(running)
  expect(ended).toMatchObject({ state: 'succeeded', result: { output: 'true\n' } })
  await attested(hurt, ended)
  expect((await hurt.read(asking)).state).toBe('awaiting_approval')
  expect(hurt.marks(asking.run)).toEqual([])
})

test('an unusable queue delays a call without losing it: its doorbell rings again once the queue works', async () => {
  await redis.del(`${KEY}:wait`)
  await redis.set(`${KEY}:wait`, 'no list')
  const call = await hurt.propose('mark_quickly', { mark: 'delayed\n' }, { wait: 2 })
  expect(call.state).toBe('granted')
  await redis.del(`${KEY}:wait`)
  expect((await hurt.ended(call, 65_000)).state).toBe('succeeded')
  expect(hurt.marks(call.run)).toEqual(['delayed'])
  expect(hurt.stack.worker.pid).toBe(pid)
})

/** The last test, because its entries stay in the queue. */
test('Q01 queue entries that are not BullMQ jobs (broken JSON, no data, missing) do not hold up calls', async () => {
  await redis.hset(`${KEY}:broken`, {
    name: 'ring',
    data: '{"tenant":',
    opts: '{}',
    timestamp: '1',
    delay: '0',
    priority: '0',
  })
  await redis.hset(`${KEY}:options`, {
    name: 'ring',
    data: '{}',
    opts: 'no JSON',
    timestamp: 'NaN',
    delay: '-1',
    priority: 'x',
  })
  await redis.hset(`${KEY}:bare`, { name: 'ring' })
  await redis.lpush(`${KEY}:wait`, 'broken', 'options', 'bare', 'absent', '', 'x'.repeat(300))
  await redis.zadd(`${KEY}:marker`, 0, '0')
  const call = await hurt.propose('mark_quickly', { mark: 'behind broken ones\n' }, { wait: 30 })
  expect((await hurt.ended(call, 65_000)).state).toBe('succeeded')
  expect(hurt.marks(call.run)).toHaveLength(1)
  expect(hurt.stack.worker.pid).toBe(pid)
})
