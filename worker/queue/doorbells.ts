// Receives doorbells from Redis over BullMQ. A doorbell only says that a call waits. An attacker
// with the Redis password may forge, repeat or drop doorbells and gains nothing: the claim decides,
// and the edge rings again for unclaimed calls (Q01, Q02, Q03, Q04, Q06, Q07, Q09).

import { setTimeout as sleep } from 'node:timers/promises'
import { type Job, Worker } from 'bullmq'
import { Redis } from 'ioredis'
import { z } from 'zod'
import { doorbellQueue, PATTERNS, splitId } from '../../shared/ids.ts'
import { err, ok, type Result } from '../../shared/result.ts'
import { errorReport } from '../host/error-report.ts'
import type { Log } from '../host/log.ts'
import { Mutex, PauseSwitch, Slots } from './concurrency.ts'

export type Doorbell = { readonly run: string; readonly call: string }

const Data = z.strictObject({
  tenant: z.string().regex(PATTERNS.tenant),
  run: z.string().regex(PATTERNS.run),
  call: z.string().regex(PATTERNS.call),
})

export function readDoorbell(data: unknown, tenant: string): Result<Doorbell, string> {
  const job = Data.safeParse(data)
  if (!job.success) return err('it is not a doorbell')
  if (job.data.tenant !== tenant) return err('it is for another tenant')
  const { run, call } = job.data
  return splitId(call).run === run ? ok({ run, call }) : err('its call does not belong to its run')
}

export type DoorbellQueue = {
  /** Resolves when doorbells are being received. */
  readonly listening: Promise<void>
  readonly pause: () => void
  readonly resume: () => void
  /**
   * Stops receiving; resolves when nothing more can arrive. A doorbell that arrived too late has
   * gone back to Redis.
   */
  readonly stopReceiving: () => Promise<void>
  /** Stops receiving; resolves when the doorbells taken are done and Redis is disconnected. */
  readonly close: () => Promise<void>
}

type Options = {
  readonly redis_url: string
  readonly tenant: string
  readonly pool: string
  /** Our own id, the name of our own queue: it rings for calls that only this host can run. */
  readonly worker: string
  readonly concurrency: number
  readonly log: Log
  readonly ring: (doorbell: Doorbell) => Promise<void>
}

const PREFIX = 'cs'
const RECONNECT_MAX_MS = 2_000
/**
 * A black-holed TCP connection never errors, so reconnect after this long without a reply. It
 * exceeds the 10 s for which BullMQ, on a copy of our connection, blocks while it waits for a
 * doorbell.
 */
const SILENCE_MAX_MS = 15_000

export function openDoorbellQueue({
  redis_url,
  tenant,
  pool,
  worker: self,
  concurrency,
  log,
  ring,
}: Options): DoorbellQueue {
  const connection = connect(redis_url)
  const outage = watchOutages(connection, log)
  const [slots, pauseSwitch, handling] = [new Slots(concurrency), new PauseSwitch(), new Set<Promise<void>>()]
  const handle = async ({ data }: { data: unknown }): Promise<void> => {
    const doorbell = readDoorbell(data, tenant)
    if (!doorbell.ok) return log.warn('a doorbell was dropped', { reason: doorbell.error })
    await ring(doorbell.value).catch((error) =>
      log.warn('a bug in the worker ended its work on a call', errorReport(error)),
    )
  }
  const queues = [pool, self].map((name) => {
    const bullWorker = new Worker(doorbellQueue(tenant, name), null, {
      connection,
      prefix: PREFIX,
      removeOnComplete: { count: 0 },
      removeOnFail: { count: 0 },
      // A doorbell whose worker died is put back once. The edge rings for the call again in any
      // case.
      maxStalledCount: 1,
    })
    bullWorker.on('error', outage.noted)
    return { bullWorker, mutex: new Mutex() }
  })
  /** Completes the job at once, before its call runs: Redis stores nothing about running calls. */
  const fetchOne = async ({ bullWorker, mutex }: ListenedQueue): Promise<void> => {
    const job = await nextDoorbell({ bullWorker, mutex }, slots, pauseSwitch)
    if (job === undefined) return
    job.moveToCompleted(null, bullWorker.id, false).catch(outage.noted)
    const handled = handle(job).finally(() => {
      slots.release()
      handling.delete(handled)
    })
    handling.add(handled)
  }
  const fetchAll = async (queue: ListenedQueue): Promise<void> => {
    for (await pauseSwitch.whenOpen(); !pauseSwitch.ended; await pauseSwitch.whenOpen())
      await fetchOne(queue).catch(async (error: Error) => {
        outage.noted(error)
        await sleep(ERROR_PAUSE_MS)
      })
  }
  const fetching: Promise<void>[] = []
  const ready = queues.map(async (queue) => {
    await queue.bullWorker.waitUntilReady()
    queue.bullWorker.startStalledCheckTimer().catch(outage.noted)
    for (let count = 0; count < FETCHES; count++) fetching.push(fetchAll(queue))
  })
  let stopped: Promise<unknown> | undefined
  const hush = async (): Promise<void> => {
    pauseSwitch.end()
    slots.releaseWaiters()
    stopped ??= Promise.all(queues.map(({ bullWorker }) => bullWorker.close(true))).then(() =>
      Promise.race([Promise.all(fetching), sleep(ERROR_PAUSE_MS)]),
    )
    await stopped
  }
  return {
    listening: Promise.all(ready).then(() => undefined),
    pause: () => pauseSwitch.pause(),
    resume: () => pauseSwitch.resume(),
    stopReceiving: hush,
    close: async () => {
      await hush()
      await Promise.all(handling)
      outage.ignore()
      connection.disconnect()
    },
  }
}

/** One queue, and the mutex of those who block on it. */
type ListenedQueue = { readonly bullWorker: Worker; readonly mutex: Mutex }

/** Concurrent fetches per queue, so that a distant Redis does not serialise them. */
const FETCHES = 4

/** The pause after an error of Redis or of BullMQ. */
const ERROR_PAUSE_MS = 500

/**
 * Fetches a doorbell and takes a slot for it. A doorbell without a slot goes back to Redis for
 * another worker, so a slot is held during a non-blocking fetch, and none while blocking. Undefined
 * if none arrived in time, or if the queue was paused in the meantime.
 */
async function nextDoorbell(
  { bullWorker, mutex }: ListenedQueue,
  slots: Slots,
  pauseSwitch: PauseSwitch,
): Promise<Job | undefined> {
  const fetch = async (block: boolean): Promise<Job | undefined> =>
    pauseSwitch.isOpen ? bullWorker.getNextJob(bullWorker.id, { block }) : undefined
  await slots.acquire()
  const waiting = await fetch(false).catch(() => undefined)
  if (waiting !== undefined && pauseSwitch.isOpen) return waiting
  slots.release()
  const job = waiting ?? (await mutex.run(() => fetch(true)))
  if (job === undefined || (pauseSwitch.isOpen && slots.tryAcquire())) return job
  await job.moveToWait(bullWorker.id)
  return undefined
}

const connect = (redis_url: string): Redis =>
  new Redis(redis_url, {
    maxRetriesPerRequest: null,
    retryStrategy: (attempt) => Math.min(50 * 2 ** attempt, RECONNECT_MAX_MS),
    connectTimeout: 5_000,
    socketTimeout: SILENCE_MAX_MS,
  })

/**
 * Logs one line when Redis goes away and one when it is back, however many commands fail in
 * between.
 */
function watchOutages(connection: Redis, log: Log): { noted: (error: Error) => void; ignore: () => void } {
  let down = false
  const ignore = (): void => {
    down = true // we are stopping, so log no outage
  }
  const logOutage = ({ message }: Error): void => {
    if (!down)
      log.warn('Redis is unreachable; doorbells wait, and running calls continue', { reason: message })
    down = true
  }
  const noted = (error: Error): void => {
    if (connection.status !== 'ready') logOutage(error)
    else if (!down) log.warn('Redis refused a command', { reason: error.message })
  }
  // Registered before BullMQ's listener, which passes the same errors on to us.
  connection.on('error', logOutage)
  connection.on('close', () => logOutage(new Error('the connection was closed')))
  connection.on('ready', () => {
    if (down) log.say('Redis is back')
    down = false
  })
  return { noted, ignore }
}

/**
 * For `doctor`: whether Redis answers, its access list confines us (Q08), and it keeps doorbells.
 */
type RedisCheck = {
  readonly answers: Result<void, string>
  readonly confined: Result<void, string>
  /** The error names the directives of redis.conf that should be set. */
  readonly keeps: Result<void, string>
}

export async function checkRedis(redis_url: string): Promise<RedisCheck> {
  const redis = new Redis(redis_url, {
    lazyConnect: true,
    maxRetriesPerRequest: 1,
    retryStrategy: () => null,
    connectTimeout: 3_000,
  })
  let why = 'no answer'
  redis.on('error', (error: Error) => {
    why = error.message
  })
  try {
    await redis.connect()
    await redis.ping()
  } catch (error) {
    redis.disconnect()
    const why_not = why === 'no answer' && error instanceof Error ? error.message : why
    const unchecked = err('not checked, because Redis does not answer')
    return { answers: err(why_not), confined: unchecked, keeps: unchecked }
  }
  const permitted: string[] = []
  for (const [name, ...args] of FORBIDDEN) {
    const refused = await redis.call(name, ...args).then(
      () => false,
      (error: Error) => error.message.startsWith('NOPERM'),
    )
    if (!refused) permitted.push([name, ...args].join(' '))
  }
  const info = await redis.info().catch(() => '')
  redis.disconnect()
  const lost = PERSISTENCE.filter(({ bullWorker }) => !info.includes(bullWorker)).map(
    ({ directive }) => directive,
  )
  return {
    answers: ok(undefined),
    confined: permitted.length === 0 ? ok(undefined) : err(`may ${permitted.join(', ')}`),
    keeps: lost.length === 0 ? ok(undefined) : err(`not set: ${lost.join(', ')}`),
  }
}

/**
 * Each line of INFO, with the directive of redis.conf that sets it. A lost doorbell only delays its
 * call.
 */
const PERSISTENCE = [
  { bullWorker: 'maxmemory_policy:noeviction', directive: '`maxmemory-policy noeviction`' },
  { bullWorker: 'aof_enabled:1', directive: '`appendonly yes`' },
] as const

/** Read-only commands that the access list must refuse. */
const FORBIDDEN: readonly (readonly [string, ...string[]])[] = [
  ['CONFIG', 'GET', 'maxmemory'],
  ['ACL', 'WHOAMI'],
  ['GET', 'not-ours'],
]
