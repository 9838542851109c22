// Owns the doorbell: the one place of BullMQ and Redis in the worker. A doorbell says that a call waits, no more; whoever holds the Redis
// password may forge, repeat or lose one and gains nothing: the claim decides, and the edge rings again for what nobody claimed (Q01–Q09).

import { setTimeout as sleep } from 'node:timers/promises'
import { type Job, Worker } from 'bullmq'
import { Redis } from 'ioredis'
import { z } from 'zod'
import { doorbellQueue, PATTERNS, split } from '../../shared/ids.ts'
import { err, ok, type Result } from '../../shared/result.ts'
import { faultOf } from '../host/error-report.ts'
import type { Log } from '../host/log.ts'
import { Gate, Mutex, Places } from './concurrency.ts'

export type Doorbell = { readonly run: string; readonly call: string }

const Data = z.strictObject({
  tenant: z.string().regex(PATTERNS.tenant),
  run: z.string().regex(PATTERNS.run),
  call: z.string().regex(PATTERNS.call),
})

export function readDoorbell(data: unknown, tenant: string): Result<Doorbell, string> {
  const job = Data.safeParse(data)
  if (!job.success) return err('not a doorbell')
  if (job.data.tenant !== tenant) return err('for another tenant')
  const { run, call } = job.data
  return split(call).run === run ? ok({ run, call }) : err('the call is not of that run')
}

export type Queue = {
  /** Resolves when doorbells are heard. */
  readonly listening: Promise<void>
  readonly pause: () => void
  readonly resume: () => void
  /** Takes no more; resolves when nothing more can come. What came too late has gone back. */
  readonly hush: () => Promise<void>
  /** The same; resolves when what it took is done too, and Redis is left. */
  readonly close: () => Promise<void>
}

type Options = {
  readonly redis_url: string
  readonly tenant: string
  readonly pool: string
  /** Ours, by which we are rung alone: for calls that only this host can run. */
  readonly worker: string
  readonly concurrency: number
  readonly log: Log
  readonly ring: (doorbell: Doorbell) => Promise<void>
}

const PREFIX = 'cs'
const RECONNECT_MAX_MS = 2_000
/**
 * A path that goes dark closes no connection: one on which we wait for an answer for so long is given up, and made anew. BullMQ, on a
 * connection that it copies from ours, waits 10 s at the most for a doorbell before it hears that there is none.
 */
const SILENT_MAX_MS = 15_000

export function openQueue({ redis_url, tenant, pool, worker: self, concurrency, log, ring }: Options): Queue {
  const connection = connect(redis_url)
  const outage = watchOutages(connection, log)
  const [places, gate, inHand] = [new Places(concurrency), new Gate(), new Set<Promise<void>>()]
  const hear = async ({ data }: { data: unknown }): Promise<void> => {
    const doorbell = readDoorbell(data, tenant)
    if (!doorbell.ok) return log.warn('a doorbell was dropped', { reason: doorbell.error })
    await ring(doorbell.value).catch((error) =>
      log.warn('a call was left by a fault of ours', faultOf(error)),
    )
  }
  const lines = [pool, self].map((name) => {
    const line = new Worker(doorbellQueue(tenant, name), null, {
      connection,
      prefix: PREFIX,
      removeOnComplete: { count: 0 },
      removeOnFail: { count: 0 },
      // One that was taken by a worker that died then is put back once for somebody to drop; the edge rings for the call itself.
      maxStalledCount: 1,
    })
    line.on('error', outage.noted)
    return { line, one: new Mutex() }
  })
  /** Heard is done: Redis keeps nothing of what runs. */
  const answer = async ({ line, one }: Line): Promise<void> => {
    const job = await nextOf({ line, one }, places, gate)
    if (job === undefined) return
    job.moveToCompleted(null, line.id, false).catch(outage.noted)
    const answered = hear(job).finally(() => {
      places.leave()
      inHand.delete(answered)
    })
    inHand.add(answered)
  }
  const listen = async (line: Line): Promise<void> => {
    for (await gate.passed(); !gate.over; await gate.passed())
      await answer(line).catch(async (error: Error) => {
        outage.noted(error)
        await sleep(REST_MS)
      })
  }
  const ears: Promise<void>[] = []
  const ready = lines.map(async (line) => {
    await line.line.waitUntilReady()
    line.line.startStalledCheckTimer().catch(outage.noted)
    for (let ear = 0; ear < EARS; ear++) ears.push(listen(line))
  })
  let hushed: Promise<unknown> | undefined
  const hush = async (): Promise<void> => {
    gate.end()
    places.end()
    hushed ??= Promise.all(lines.map(({ line }) => line.close(true))).then(() =>
      Promise.race([Promise.all(ears), sleep(REST_MS)]),
    )
    await hushed
  }
  return {
    listening: Promise.all(ready).then(() => undefined),
    pause: () => gate.shut(),
    resume: () => gate.open(),
    hush,
    close: async () => {
      await hush()
      await Promise.all(inHand)
      outage.ignore()
      connection.disconnect()
    },
  }
}

/** One queue, and whose turn it is to wait there. */
type Line = { readonly line: Worker; readonly one: Mutex }

/** Doorbells of one queue that are asked for at a time: one after the other would be slow where Redis is far. */
const EARS = 4

/** After an error of Redis or of BullMQ. */
const REST_MS = 500

/**
 * A doorbell, with a place. What is fetched without one belongs in Redis, where another worker finds it; so a place is held while one is
 * asked for, and none while one is waited for. Undefined after a while without one, and where the gate was shut meanwhile.
 */
async function nextOf({ line, one }: Line, places: Places, gate: Gate): Promise<Job | undefined> {
  const ask = async (block: boolean): Promise<Job | undefined> =>
    gate.isOpen ? line.getNextJob(line.id, { block }) : undefined
  await places.take()
  const waiting = await ask(false).catch(() => undefined)
  if (waiting !== undefined && gate.isOpen) return waiting
  places.leave()
  const rung = waiting ?? (await one.alone(() => ask(true)))
  if (rung === undefined || (gate.isOpen && places.tryTake())) return rung
  await rung.moveToWait(line.id)
  return undefined
}

const connect = (redis_url: string): Redis =>
  new Redis(redis_url, {
    maxRetriesPerRequest: null,
    retryStrategy: (attempt) => Math.min(50 * 2 ** attempt, RECONNECT_MAX_MS),
    connectTimeout: 5_000,
    socketTimeout: SILENT_MAX_MS,
  })

/** One line when Redis goes and one when it is back, however many commands fail in between. */
function watchOutages(connection: Redis, log: Log): { noted: (error: Error) => void; ignore: () => void } {
  let down = false
  const ignore = (): void => {
    down = true // we are stopping, so report nothing more
  }
  const gone = ({ message }: Error): void => {
    if (!down) log.warn('Redis is away; doorbells wait, and running calls go on', { reason: message })
    down = true
  }
  const noted = (error: Error): void => {
    if (connection.status !== 'ready') gone(error)
    else if (!down) log.warn('Redis refused a command', { reason: error.message })
  }
  connection.on('error', gone) // before BullMQ, which passes the same on to us
  connection.on('close', () => gone(new Error('the connection was closed')))
  connection.on('ready', () => {
    if (down) log.say('Redis is back')
    down = false
  })
  return { noted, ignore }
}

/** For `doctor`: does Redis answer, and does its access list keep us out of what is not ours (Q08)? */
type Examined = {
  readonly answers: Result<void, string>
  readonly confined: Result<void, string>
  /** Each is a directive of redis.conf that stands otherwise. */
  readonly keeps: Result<void, string>
}

export async function examineRedis(redis_url: string): Promise<Examined> {
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
    const said = why === 'no answer' && error instanceof Error ? error.message : why
    const unasked = err('Redis could not be asked')
    return { answers: err(said), confined: unasked, keeps: unasked }
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
  const lost = KEEPS.filter(({ told }) => !info.includes(told)).map(({ directive }) => directive)
  return {
    answers: ok(undefined),
    confined: permitted.length === 0 ? ok(undefined) : err(`may ${permitted.join(', ')}`),
    keeps: lost.length === 0 ? ok(undefined) : err(`not set: ${lost.join(', ')}`),
  }
}

/** As INFO tells it, and as redis.conf sets it. Nothing depends on Redis keeping doorbells; calls that lose theirs wait for another. */
const KEEPS = [
  { told: 'maxmemory_policy:noeviction', directive: '`maxmemory-policy noeviction`' },
  { told: 'aof_enabled:1', directive: '`appendonly yes`' },
] as const

/** None of these changes anything where it is permitted. */
const FORBIDDEN: readonly (readonly [string, ...string[]])[] = [
  ['CONFIG', 'GET', 'maxmemory'],
  ['ACL', 'WHOAMI'],
  ['GET', 'not-ours'],
]
