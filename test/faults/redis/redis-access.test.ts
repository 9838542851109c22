// Promise: a holder of our Redis password can ring doorbells and nothing else (Q08, Q09), and an
// acknowledged doorbell survives kill -9. Runs against the real server with the real access list;
// each control removes one defence and must fail.

import { chmodSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Queue, Worker } from 'bullmq'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Child } from '../../../infra/child-process.ts'
import { redisAcl, redisProgram, redisSpec } from '../../../infra/redis.ts'
import { freePort, openState, readSecrets, type Secrets, type State } from '../../../infra/state.ts'

const dir = mkdtempSync(join(tmpdir(), 'countersign-'))
let state: State
let secrets: Secrets
let port: number
let server: Child

beforeAll(async () => {
  const opened = openState(dir)
  if (!opened.ok) throw new Error(opened.error)
  state = opened.value
  secrets = readSecrets(state)
  port = await freePort()
  const program = redisProgram(state)
  if (program === undefined) throw new Error('install redis-tools')
  server = new Child(redisSpec(state, program, port, secrets), () => undefined)
  await start()
})

afterAll(async () => {
  await server.stop()
  rmSync(dir, { recursive: true })
})

async function start(): Promise<void> {
  const started = await server.start()
  if (!started.ok) throw new Error(started.error)
}

const connection = (username: 'edge' | 'worker') => ({
  host: '127.0.0.1',
  port,
  username,
  password: secrets.redis[username],
})

/** Sends one command; returns its value, or its error as text. */
async function answer(
  user: 'edge' | 'worker' | 'nobody',
  command: string,
  ...args: string[]
): Promise<unknown> {
  const options = user === 'nobody' ? { host: '127.0.0.1', port } : connection(user)
  const redis = new Redis({
    ...options,
    lazyConnect: true,
    enableReadyCheck: false,
    retryStrategy: () => null,
    maxRetriesPerRequest: 0,
  })
  redis.on('error', () => undefined) // the command reports the same error
  try {
    return await redis.call(command, ...args)
  } catch (error) {
    return error instanceof Error ? error.message : error
  } finally {
    redis.disconnect()
  }
}

const FORBIDDEN: readonly (readonly [string, ...string[]])[] = [
  ['FLUSHALL'],
  ['FLUSHDB'],
  ['CONFIG', 'GET', '*'],
  ['CONFIG', 'SET', 'dir', '/'],
  ['KEYS', '*'],
  ['KEYS', 'cs:*'],
  ['SCAN', '0'],
  ['RANDOMKEY'],
  ['DBSIZE'],
  ['ACL', 'LIST'],
  ['ACL', 'SETUSER', 'edge', 'allkeys'],
  ['SHUTDOWN', 'NOSAVE'],
  ['DEBUG', 'SLEEP', '0'],
  ['MODULE', 'LIST'],
  ['REPLICAOF', '127.0.0.1', '1'],
  ['SAVE'],
  ['BGREWRITEAOF'],
  ['MONITOR'],
  ['CLIENT', 'LIST'],
  ['CLIENT', 'KILL', 'TYPE', 'normal'],
  ['SCRIPT', 'FLUSH'],
  ['FUNCTION', 'LIST'],
  ['MIGRATE', '127.0.0.1', '1', 'cs:a', '0', '1'],
  ['SWAPDB', '0', '0'],
  ['SLOWLOG', 'GET'],
  ['LATENCY', 'RESET'],
  ['DUMP', 'cs:a'],
  ['RESTORE', 'cs:a', '0', ''],
  ['SORT', 'cs:a'],
  ['OBJECT', 'ENCODING', 'cs:a'],
  ['COPY', 'cs:a', 'cs:b'],
  ['PUBSUB', 'CHANNELS'],
]

describe.each(['edge', 'worker'] as const)('Q08 for the user `%s`', (user) => {
  test.each(FORBIDDEN)('Q08 our Redis user may not call %s %s', async (command, ...args) => {
    expect(await answer(user, command, ...args)).toMatch(/^NOPERM|^ERR DEBUG command not allowed/)
  })

  test('Q08 our Redis user may access only keys of its prefix', async () => {
    expect(await answer(user, 'SET', 'cs:probe', '1')).toBe('OK')
    expect(await answer(user, 'GET', 'cs:probe')).toBe('1')
    for (const key of ['probe', 'bull:x', 'CS:x', 'cs', 'xcs:x'])
      expect(await answer(user, 'SET', key, '1')).toMatch(/^NOPERM/)
    expect(await answer(user, 'RENAME', 'cs:probe', 'probe')).toMatch(/^NOPERM/)
    expect(await answer(user, 'PUBLISH', 'other', 'x')).toMatch(/^NOPERM/)
    expect(await answer(user, 'SUBSCRIBE', 'cs:events')).toBe(1)
    expect(await answer(user, 'PSUBSCRIBE', '*')).toMatch(/^NOPERM/)
  })

  test('Q08 our Redis user gains no rights through a script', async () => {
    expect(await answer(user, 'EVAL', "return redis.call('GET', KEYS[1])", '1', 'cs:probe')).toBe('1')
    expect(await answer(user, 'EVAL', "return redis.call('GET', 'elsewhere')", '0')).toMatch(
      /can't access|ACL failure|NOPERM|No permission/i,
    )
    expect(await answer(user, 'EVAL', "return redis.call('FLUSHALL')", '0')).toMatch(
      /can't run|ACL failure|NOPERM|No permission/i,
    )
  })
})

test('Redis refuses clients without a password', async () => {
  expect(await answer('nobody', 'GET', 'cs:probe')).toMatch(/^NOAUTH/)
  for (const password of ['', 'default', secrets.redis.edge])
    expect(await answer('nobody', 'AUTH', 'default', password)).toMatch(/^WRONGPASS|^NOAUTH/)
  expect(await answer('nobody', 'AUTH', 'edge', secrets.redis.worker)).toMatch(/^WRONGPASS|^NOAUTH/)
})

test('Redis listens only on loopback, and no password is in its files or on its command line', () => {
  const wanted = port.toString(16).toUpperCase().padStart(4, '0')
  const sockets = ['/proc/net/tcp', '/proc/net/tcp6'].flatMap((file) =>
    readFileSync(file, 'utf8').split('\n').slice(1),
  )
  const listening = sockets
    .map((line) => line.trim().split(/\s+/))
    .filter(([, local, , flag]) => flag === '0A' && local?.endsWith(`:${wanted}`))
  expect(listening.map(([, local]) => local)).toEqual([`0100007F:${wanted}`])
  expect(statSync(state.dir).mode & 0o777).toBe(0o700)
  expect(statSync(state.secrets).mode & 0o777).toBe(0o600)
  const exposed = [
    join(state.redis, 'redis.conf'),
    join(state.redis, 'users.acl'),
    `/proc/${server.pid}/cmdline`,
    `/proc/${server.pid}/environ`,
    join(state.log, 'redis.log'),
  ]
  for (const file of exposed)
    for (const secret of Object.values(secrets.redis))
      expect(readFileSync(file, 'utf8')).not.toContain(secret)
})

test('BullMQ adds, processes, retries and reports jobs within the access list', async () => {
  const queue = new Queue('access', { prefix: 'cs', connection: connection('edge') })
  const seen: string[] = []
  const worker = new Worker(
    'access',
    async (job) => {
      seen.push(`${job.name}#${job.attemptsMade}`)
      if (job.name === 'fails once' && job.attemptsMade === 0) throw new Error('once')
    },
    { prefix: 'cs', connection: connection('worker'), concurrency: 4, stalledInterval: 200 },
  )
  const errors: string[] = []
  queue.on('error', (error) => errors.push(error.message))
  worker.on('error', (error) => errors.push(error.message))
  await queue.addBulk([
    { name: 'plain', data: {}, opts: { removeOnComplete: true } },
    { name: 'delayed', data: {}, opts: { delay: 50 } },
  ])
  await queue.add(
    'fails once',
    {},
    { attempts: 2, backoff: { type: 'fixed', delay: 20 }, jobId: 'call_1', deduplication: { id: 'call_1' } },
  )
  await expect
    .poll(() => seen.toSorted(), { timeout: 10_000 })
    .toEqual(['delayed#0', 'fails once#0', 'fails once#1', 'plain#0'])
  await queue.pause()
  await queue.resume()
  await expect
    .poll(() => queue.getJobCounts('active', 'waiting', 'delayed'), { timeout: 5_000 })
    .toEqual({ active: 0, waiting: 0, delayed: 0 })
  await worker.close()
  await queue.close()
  expect(errors).toEqual([])
})

/**
 * The number of 50 acknowledged doorbells that are left after `kill -9` of the server and a
 * restart.
 */
async function surviving(name: string): Promise<number> {
  const queue = new Queue(name, {
    prefix: 'cs',
    connection: { ...connection('edge'), maxRetriesPerRequest: null },
  })
  queue.on('error', () => undefined) // the connection breaks: that is the test
  await queue.addBulk(Array.from({ length: 50 }, (_, n) => ({ name: 'ring', data: { n } })))
  await server.kill()
  await start()
  const left = await queue.getWaitingCount()
  await queue.close()
  return left
}

test('an acknowledged doorbell survives kill -9 of Redis', async () => {
  expect(await surviving('kept')).toBe(50)
})

test('control: if the user `default` lost its rights, the replay would silently drop doorbells', async () => {
  const acl = join(state.redis, 'users.acl')
  writeFileSync(
    acl,
    redisAcl(secrets).replace(/^user default .*$/m, 'user default off resetkeys resetchannels -@all'),
  )
  chmodSync(acl, 0o600)
  await server.restart()
  expect(await surviving('dropped')).toBe(0)
  writeFileSync(acl, redisAcl(secrets))
  await server.restart()
})
