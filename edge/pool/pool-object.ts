// One pool of workers: rings its doorbell in Redis for each call that a run says waits for one. The only importer of
// BullMQ and ioredis here. It keeps nothing: the truth is in the runs, which ask again while their calls wait. So
// Redis may lose, double, reorder or forge doorbells.

import { DurableObject } from 'cloudflare:workers'
import { Queue } from 'bullmq'
import { Redis } from 'ioredis'
import { doorbellQueue } from '../../shared/ids.ts'
import type { Env } from '../bindings.ts'
import { type Ring, Rings } from './doorbell-queue.ts'

const ONCE = { removeOnComplete: true, removeOnFail: true }

export class PoolObject extends DurableObject<Env> {
  /** The pool's, and those of single workers. */
  readonly #queues = new Map<string, Queue>()
  #redis: Redis | undefined
  readonly #rings = new Rings()
  /** What Redis has not taken yet, by call: while it is away each call is to be rung once. */
  readonly #pending = new Map<string, Ring>()
  #sending = false

  /** Nobody waits for this: whoever waits for the call must not wait for Redis. */
  async ring(ring: Ring): Promise<void> {
    const rings = this.#rings.waits(ring, Date.now())
    const heard = this.#rings.stuck(ring, Date.now()) && (await this.#noneLies(ring))
    this.#out(heard ? [...rings, ...this.#rings.heard(ring, Date.now())] : rings)
  }

  /** The call waits for no worker any more. */
  async left(call: Pick<Ring, 'agent' | 'run' | 'call'>): Promise<void> {
    this.#out(this.#rings.left(call, Date.now()))
  }

  /** Whether there is no room for one more call of this run. */
  async full(run: Pick<Ring, 'agent' | 'run'>): Promise<boolean> {
    return this.#rings.full(run, Date.now())
  }

  /** Of the queue of this doorbell. Redis that does not answer has not said so. */
  async #noneLies({ worker }: Ring): Promise<boolean> {
    const waiting = await this.#queueOf(worker)
      .getWaitingCount()
      .catch(() => null)
    return waiting === 0
  }

  #out(rings: readonly Ring[]): void {
    for (const ring of rings) this.#pending.set(ring.call, ring)
    if (rings.length > 0) void this.#send()
  }

  /** Whether Redis answers. */
  async ready(): Promise<boolean> {
    try {
      return (await this.#connection.ping()) === 'PONG'
    } catch {
      return false
    }
  }

  /** All that gathered meanwhile; commands of one turn share a write. What fails waits for Redis to be back. */
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
        for (const ring of batch) this.#pending.set(ring.call, ring)
        break
      }
    }
    this.#sending = false
  }

  /** Part of deleting the tenant: removes the doorbells of the pool and of these workers. */
  async erase(workers: readonly string[]): Promise<void> {
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

  /** Takes away what was rung for a worker that will not come back: nobody else empties its queue. */
  async silence(worker: string): Promise<void> {
    await this.#queueOf(worker).drain()
    this.#queues.delete(worker)
  }

  /** A worker's id is no name of a pool. Connected once; the object owns the connection, so it outlives the request that made it. */
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

  get #connection(): Redis {
    if (this.#redis !== undefined) return this.#redis
    const redis = new Redis(this.env.REDIS_URL, {
      maxRetriesPerRequest: 0,
      enableOfflineQueue: true,
      connectTimeout: 2_000,
      commandTimeout: 5_000,
      retryStrategy: (times) => Math.min(100 * times, 1_000),
    })
    redis.on('error', () => undefined) // told by `ready` and by what fails; the runs ring again
    redis.on('ready', () => void this.#send())
    this.#redis = redis
    return redis
  }
}
