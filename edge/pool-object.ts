// One pool of workers: the calls that wait for one, and the doorbell that tells of them. The only importer of BullMQ and
// ioredis here. Redis may lose, double, reorder or forge doorbells; this object rings again from its own store.

import { DurableObject } from 'cloudflare:workers'
import { Queue } from 'bullmq'
import { asc, eq, lte, min, sql } from 'drizzle-orm'
import { Redis } from 'ioredis'
import migrations from '../migrations/pool/migrations.js'
import { callId, split } from '../shared/ids.ts'
import type { Env } from './env.ts'
import { runObject } from './env.ts'
import { GroupCommit } from './group-commit.ts'
import { openDatabase } from './tables/open.ts'
import { waiting } from './tables/pool.ts'

/** Nothing but names: whoever reads Redis learns no argument, no secret, no result (L7). */
export type Ring = { run: string; call: string; until: number }

const AGAIN_MS = 10_000
const BATCH = 500

export class PoolObject extends DurableObject<Env> {
  readonly #db = openDatabase(this.ctx, migrations)
  readonly #commits = new GroupCommit(this.ctx.storage)
  #queue: Queue | undefined
  #redis: Redis | undefined
  #pending: Array<{ run: string; call: string }> = []
  #sending = false
  #alarmAt = Number.POSITIVE_INFINITY
  #insert

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env)
    const p = sql.placeholder
    this.#insert = this.#db
      .insert(waiting)
      .values({ call: p('call'), run: p('run'), until: p('until'), nextAt: p('nextAt'), rings: 1 })
      .onConflictDoUpdate({
        target: waiting.call,
        set: { until: sql`excluded.until`, nextAt: sql`excluded.next_at`, rings: 1 },
        setWhere: sql`${waiting.until} <> excluded.until`, // granted anew
      })
      .returning({ call: waiting.call })
      .prepare()
  }

  /** A run asks again while its call waits; the bell is rung at once for what is new, and by the alarm for what is known. */
  async ring(ring: Ring): Promise<void> {
    const isNew = await this.#commits.run(() => {
      const nextAt = Date.now() + AGAIN_MS
      this.#arm(nextAt)
      return this.#insert.get({ ...ring, nextAt }) !== undefined
    })
    if (!isNew) return
    this.#pending.push(ring)
    if (!this.#sending) void this.#send()
  }

  /** Whether Redis answers. */
  async ready(): Promise<boolean> {
    try {
      return (await this.#connection.ping()) === 'PONG'
    } catch {
      return false
    }
  }

  /** One round trip for all that gathered meanwhile. What fails stays in the store and is rung by the alarm. */
  async #send(): Promise<void> {
    this.#sending = true
    while (this.#pending.length > 0) {
      const batch = this.#pending
      this.#pending = []
      try {
        const opts = { removeOnComplete: true, removeOnFail: true }
        await this.#open().addBulk(batch.map(({ run, call }) => ({ name: 'ring', data: { tenant: this.#tenant, run, call }, opts })))
      } catch {
        break // Redis is away; the alarm rings
      }
    }
    this.#sending = false
  }

  /** Rings again for what still waits, and forgets what does not. */
  override async alarm(): Promise<void> {
    this.#alarmAt = Number.POSITIVE_INFINITY
    const now = Date.now()
    const due = this.#db.select().from(waiting).where(lte(waiting.nextAt, now)).orderBy(asc(waiting.nextAt)).limit(BATCH).all()
    const runs = Map.groupBy(due, ({ run }) => run)
    const still = await Promise.all([...runs].map(([run, rows]) => this.#stillWaiting(run, rows)))
    const again = new Set(still.flat())
    this.ctx.storage.transactionSync(() => {
      for (const { call, rings } of due) {
        if (!again.has(call)) this.#db.delete(waiting).where(eq(waiting.call, call)).run()
        else
          this.#db
            .update(waiting)
            .set({ nextAt: now + Math.min(AGAIN_MS * 2 ** Math.min(rings, 3), 60_000), rings: rings + 1 })
            .where(eq(waiting.call, call))
            .run()
      }
    })
    const next = this.#db
      .select({ at: min(waiting.nextAt) })
      .from(waiting)
      .get()?.at
    if (next !== null && next !== undefined) this.#arm(Math.max(next, now + 1_000))
    this.#pending.push(...due.filter(({ call, until }) => again.has(call) && until > now).map(({ run, call }) => ({ run, call })))
    if (!this.#sending) await this.#send()
  }

  /** Which of these calls still wait. A run that can't be asked is asked again later: until then they do. */
  async #stillWaiting(run: string, rows: ReadonlyArray<{ call: string }>): Promise<string[]> {
    try {
      const ns = await runObject(this.env, this.#tenant, run).waiting(rows.map(({ call }) => split(call).n))
      return ns.map((n) => callId(run, n))
    } catch {
      return rows.map(({ call }) => call)
    }
  }

  get #name(): string {
    return this.ctx.id.name ?? ''
  }
  get #tenant(): string {
    return this.#name.split('/')[0] ?? ''
  }

  #arm(at: number): void {
    if (at >= this.#alarmAt) return
    this.#alarmAt = at
    void this.ctx.storage.setAlarm(at)
  }

  /** Connected once; the object owns the connection, so it outlives the request that made it. */
  #open(): Queue {
    if (this.#queue !== undefined) return this.#queue
    const queue = new Queue(`doorbell-${this.#name.replace('/', '-')}`, {
      connection: this.#connection,
      prefix: 'cs',
      skipMetasUpdate: true,
      skipVersionCheck: true,
    })
    queue.on('error', () => undefined)
    this.#queue = queue
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
    redis.on('error', () => undefined) // told by `ready` and by what fails; the calls are in the store
    this.#redis = redis
    return redis
  }
}
