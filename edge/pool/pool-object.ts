// One pool of workers: puts a doorbell into Redis for each call that waits for a worker. The edge's
// only importer of BullMQ and ioredis. It stores nothing, because runs ring again while their calls
// wait; so Redis may lose, duplicate, reorder or forge doorbells.

import { DurableObject } from 'cloudflare:workers'
import { Queue } from 'bullmq'
import { Redis } from 'ioredis'
import { doorbellQueue } from '../../shared/ids.ts'
import type { Env } from '../bindings.ts'
import { type Doorbell, DoorbellQueue } from './doorbell-queue.ts'
import { localPools } from './local-pools.ts'

const ONCE = { removeOnComplete: true, removeOnFail: true }

export class PoolObject extends DurableObject<Env> {
  /** BullMQ queues: the pool's, under the empty key, and those of single workers. */
  readonly #queues = new Map<string, Queue>()
  #redis: Redis | undefined
  readonly #doorbells = new DoorbellQueue()
  /**
   * Doorbells that Redis has not accepted yet, by call, so that an outage queues each call once.
   */
  readonly #pending = new Map<string, Doorbell>()
  #sending = false

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env)
    if (env.ONE_PROCESS === 'yes') localPools.set(this.#name, this.#doorbells)
  }

  /**
   * Returns before Redis has the doorbell: a caller that waits for the call must not wait for
   * Redis.
   */
  async ring(doorbell: Doorbell): Promise<void> {
    const due = this.#doorbells.add(doorbell, Date.now())
    const areTaken = this.#doorbells.hasStale(doorbell, Date.now()) && (await this.#isQueueEmpty(doorbell))
    this.#enqueue(areTaken ? [...due, ...this.#doorbells.releaseStale(doorbell, Date.now())] : due)
  }

  /** The call no longer waits for a worker, which frees its doorbell's slot. */
  async left(call: Pick<Doorbell, 'agent' | 'run' | 'call'>): Promise<void> {
    this.#enqueue(this.#doorbells.remove(call, Date.now()))
  }

  /** Whether one more call of this run would exceed the pool's bounds. */
  async full(run: Pick<Doorbell, 'agent' | 'run'>): Promise<boolean> {
    return this.#doorbells.isFull(run, Date.now())
  }

  /** Whether this doorbell's queue is empty; `false` if Redis does not answer. */
  async #isQueueEmpty({ worker }: Doorbell): Promise<boolean> {
    const waiting = await this.#queueOf(worker)
      .getWaitingCount()
      .catch(() => null)
    return waiting === 0
  }

  #enqueue(due: readonly Doorbell[]): void {
    for (const doorbell of due) this.#pending.set(doorbell.call, doorbell)
    if (due.length > 0) void this.#send()
  }

  /** Whether Redis answers. */
  async ready(): Promise<boolean> {
    try {
      return (await this.#connection.ping()) === 'PONG'
    } catch {
      return false
    }
  }

  /**
   * Sends what has gathered, in batches that share one write. A failed batch is sent again when
   * Redis is back.
   */
  async #send(): Promise<void> {
    if (this.#sending) return
    this.#sending = true
    while (this.#pending.size > 0) {
      const batch = [...this.#pending.values()].filter(({ until }) => until > Date.now())
      this.#pending.clear()
      try {
        const tenant = this.#tenant
        await Promise.all(
          batch.map(({ run, call, worker }) =>
            this.#queueOf(worker).add('ring', { tenant, run, call }, ONCE),
          ),
        )
      } catch {
        for (const doorbell of batch) this.#pending.set(doorbell.call, doorbell)
        break
      }
    }
    this.#sending = false
  }

  /** Part of deleting the tenant: removes the doorbells of the pool and of these workers. */
  async erase(workers: readonly string[]): Promise<void> {
    localPools.delete(this.#name)
    await Promise.all([null, ...workers].map((worker) => this.#queueOf(worker).drain()))
  }

  get #name(): string {
    return this.ctx.id.name ?? ''
  }
  get #tenant(): string {
    return this.#name.split('/')[0] ?? ''
  }
  get #pool(): string {
    return this.#name.split('/')[1] ?? ''
  }

  /** Removes the doorbells of a worker that will not come back; nobody else empties its queue. */
  async silence(worker: string): Promise<void> {
    await this.#queueOf(worker).drain()
    this.#queues.delete(worker)
  }

  /** The queue of a worker or, for `null`, of the pool. Ids of workers are never names of pools. */
  #queueOf(worker: string | null): Queue {
    const key = worker ?? ''
    const known = this.#queues.get(key)
    if (known !== undefined) return known
    const queue = new Queue(doorbellQueue(this.#tenant, worker ?? this.#pool), {
      connection: this.#connection,
      prefix: 'cs',
      skipMetasUpdate: true,
      skipVersionCheck: true,
    })
    queue.on('error', () => undefined)
    this.#queues.set(key, queue)
    return queue
  }

  /** Opened once and owned by the object, so that it outlives the request that opened it. */
  get #connection(): Redis {
    if (this.#redis !== undefined) return this.#redis
    const redis = new Redis(this.env.REDIS_URL, {
      maxRetriesPerRequest: 0,
      enableOfflineQueue: true,
      connectTimeout: 2_000,
      commandTimeout: 5_000,
      retryStrategy: (times) => Math.min(100 * times, 1_000),
    })
    redis.on('error', () => undefined) // `ready` and failed commands report it; the runs ring again
    redis.on('ready', () => void this.#send())
    this.#redis = redis
    return redis
  }
}
