// An attacker with the Redis password may forge, repeat, reorder and drop doorbells, and gains
// nothing: only a grant of the edge makes a call run.

import { readFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Queue } from 'bullmq'
import { expect, test } from 'vitest'
import { openLog } from '../../../worker/host/log.ts'
import { openDoorbellQueue, readDoorbell } from '../../../worker/queue/doorbells.ts'
import { eventually } from '../../support/eventually.ts'
import { loneWorkerForTests } from '../../support/worker/lone-worker.ts'

const RUN = 'run_01JZ0000000000000000000000'
const CALL = 'call_01JZ0000000000000000000000_1'

test('Q01, Q09 a doorbell is accepted only if it is for our tenant and its call belongs to its run', () => {
  expect(readDoorbell({ tenant: 'default', run: RUN, call: CALL }, 'default')).toEqual({
    ok: true,
    value: { run: RUN, call: CALL },
  })
  for (const data of [
    undefined,
    null,
    [],
    'call',
    {},
    { run: RUN, call: CALL },
    { tenant: 'other', run: RUN, call: CALL },
    { tenant: 'default', run: RUN, call: CALL, grant: {} },
    { tenant: 'default', run: RUN, call: CALL, argv: ['id'] },
    { tenant: 'default', run: 'run_01JZ0000000000000000000001', call: CALL },
    { tenant: 'default', run: RUN, call: `${CALL}0000000` },
    { tenant: 'default', run: RUN, call: '../../../etc/passwd' },
    { tenant: 'default', run: `${RUN}/x`, call: CALL },
    { tenant: 'default', run: RUN, call: `${CALL}\n` },
    { tenant: '*', run: RUN, call: CALL },
    { tenant: 'default', run: [RUN], call: [CALL] },
  ]) {
    expect(readDoorbell(data, 'default'), JSON.stringify(data)).toMatchObject({ ok: false })
  }
})

const lone = await loneWorkerForTests()

const stillServes = async (): Promise<void> => {
  const call = await lone.call({ argv: ['true'] })
  expect((await lone.settled(call)).statement.predicate.state).toBe('succeeded')
}
const ends = (call: string): number =>
  lone.log.filter((line) => line.msg === 'ended' && line['call'] === call).length

test('Q01 a forged doorbell runs nothing: malformed ones are dropped, and unknown calls get no grant', async () => {
  const before = lone.edge.count('claim')
  const forgeries = [
    { tenant: 'default', run: RUN, call: CALL, argv: ['id'] },
    { tenant: 'other', run: RUN, call: CALL },
    ['x'],
    'x'.repeat(100_000),
  ]
  for (const data of forgeries) await lone.ring(data)
  await eventually(
    'each was dropped',
    () => lone.log.filter(({ msg }) => msg === 'a doorbell was dropped').length === forgeries.length,
  )
  expect(lone.edge.count('claim')).toBe(before)
  await lone.ring({ tenant: 'default', run: RUN, call: CALL })
  await lone.logged('a doorbell was ignored', { call: CALL, code: 'not_claimable' })
  expect(ends(CALL)).toBe(0)
  await stillServes()
})

test('Q02 the name and options of a Redis job have no effect', async () => {
  const call = lone.edge.propose({ argv: ['echo', 'as granted'] })
  await lone.ring({ tenant: 'default', run: call.run, call: call.call }, 'rm -rf /')
  expect((await lone.settled(call)).stdout.toString()).toBe('as granted\n')
})

test('Q03 a replayed old doorbell gets no second grant', async () => {
  const call = await lone.call({ argv: ['true'] })
  await lone.logged('ended', { call: call.call })
  for (let again = 0; again < 5; again++) await lone.ringFor(call)
  await eventually(
    'each was answered',
    () => lone.log.filter((line) => line['call'] === call.call).length === 6,
  )
  expect(ends(call.call)).toBe(1)
})

test('Q04 twenty doorbells for one call cause one execution', async () => {
  const call = lone.edge.propose({ argv: ['sleep', '0.5'] })
  await Promise.all(Array.from({ length: 20 }, () => lone.ringFor(call)))
  await lone.settled(call)
  await eventually(
    'all doorbells were answered',
    () => lone.log.filter((line) => line['call'] === call.call).length >= 20,
  )
  expect(ends(call.call)).toBe(1)
  expect([call.claims, call.settlements]).toEqual([1, 1])
})

test('Q05 a result under an outdated fence is refused by the edge and dropped', async () => {
  const call = await lone.call({ argv: ['sleep', '2'] }) // long enough to see it running
  await eventually('the call runs', () => call.state === 'running')
  call.fence += 1 // the edge has granted it to another worker
  await lone.logged('the edge refused a result; it is dropped', { call: call.call, code: 'stale_fence' })
  expect(call.settled).toBeUndefined()
  await eventually('nothing of it is kept', () => !lone.spool.begun.has(call.call))
  await stillServes()
})

test('Q06 no result of a call ever appears in Redis', async () => {
  const call = await lone.call({
    argv: ['echo', 'canary-of-output'],
    args: { secret: 'canary-of-args' },
    stdin: 'args',
  })
  await lone.settled(call)
  await stillServes()
  const files = lone.redisFiles()
  expect(files).toContain(call.call) // the doorbell is in the append-only file
  expect(files).not.toContain('canary')
})

test('Q07 after Redis lost all data, the worker receives the next doorbell', async () => {
  await lone.redis.kill()
  await lone.logged('Redis is unreachable; doorbells wait, and running calls continue')
  lone.emptyRedis()
  await lone.startRedis()
  await lone.logged('Redis is back')
  await stillServes()
})

test('while Redis is away a running call ends normally, and later doorbells are received once it is back', async () => {
  const from = lone.log.length
  const running = await lone.call({ argv: ['sleep', '1.5'] })
  await eventually('the call runs', () => running.state === 'running')
  await lone.redis.kill()
  await lone.logged('Redis is unreachable; doorbells wait, and running calls continue', {}, from)
  const rung = lone.call({ argv: ['true'] })
  expect((await lone.settled(running)).statement.predicate.state).toBe('succeeded')
  await lone.startRedis()
  expect((await lone.settled(await rung)).statement.predicate.state).toBe('succeeded')
  const outages = lone.log.slice(from).filter(({ msg }) => msg.startsWith('Redis is unreachable'))
  expect(outages).toHaveLength(1)
})

/** A proxy in front of Redis that delays all bytes. */
async function farAway(redis_url: string, away_ms: number): Promise<{ url: string; close: () => void }> {
  const url = new URL(redis_url)
  const to = Number(url.port)
  const sockets = new Set<Socket>()
  const server = createServer((near) => {
    const far = connect(to, '127.0.0.1')
    for (const [from, into] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(from)
      from.on('data', (bytes) => setTimeout(() => into.write(bytes), away_ms))
      from.on('error', () => undefined).on('close', () => into.destroy())
    }
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  url.port = String((server.address() as AddressInfo).port) // the address of a TCP server
  const close = (): void => {
    for (const socket of sockets) socket.destroy()
    server.close()
  }
  return { url: url.href, close }
}

test.each([
  ['near', 0, 1],
  ['far', 15, 4],
])(
  'a queue closed while doorbells arrive keeps none and takes no more, with a Redis that is %s',
  async (where, away_ms, concurrency) => {
    const { redis_url: near, tenant } = JSON.parse(
      readFileSync(join(lone.state.worker, 'worker.json'), 'utf8'),
    )
    const far = await farAway(near, away_ms)
    const redis_url = away_ms === 0 ? near : far.url
    const data = { tenant, run: RUN, call: CALL }
    for (let n = 0; n < 12; n++) {
      const pool = `left-${where}-${n}`
      const bells = new Queue(`doorbell-${tenant}.${pool}`, { prefix: 'cs', connection: { url: near } })
      let [received, late, left] = [0, 0, false]
      const ring = async (): Promise<void> => {
        received += 1
        if (left) late += 1
        await sleep(5)
      }
      const queue = openDoorbellQueue({
        redis_url,
        tenant,
        pool,
        worker: `alone-${where}-${n}`,
        concurrency,
        log: openLog(true, () => undefined),
        ring,
      })
      await queue.listening
      const rung = Promise.all(Array.from({ length: 8 }, () => bells.add('ring', data)))
      await sleep((2 + away_ms / 4) * n)
      left = true
      await queue.close()
      await rung
      expect(received + (await bells.getWaitingCount()), `left in round ${n}`).toBe(8)
      expect(late, `left in round ${n}`).toBe(0)
      await bells.close()
    }
    far.close()
  },
)
