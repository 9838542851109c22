// What a run owes others: approvals to the tenant's inbox and its channels, ends of calls to the tenant's log. Both are derived from what
// is stored, delivered at least once, and taken at most once by the other side. What fails is tried again by the alarm.

import { type Failure, failure } from '../../shared/failures.ts'
import { callId, split } from '../../shared/ids.ts'
import { err, ok, type Result } from '../../shared/result.ts'
import type { Env } from '../bindings.ts'
import { channelObject, logObject, poolObject, tenantObject } from '../bindings.ts'
import type { Proposal } from '../call/lifecycle.ts'
import type { RunRecord, RunRow } from '../call/run.ts'
import { holderOf } from '../call/shared-folder.ts'
import { type Loaded, takeCall } from '../directory/directory.ts'
import type { Leaf } from '../log/log-object.ts'
import type { RunStore } from './store.ts'
import { PAGE } from './store.ts'
import { approvalView } from './views.ts'

const LOG_DELAY_MS = 200
const RETRY_MS = 2_000
const UNCOUNTED = failure(
  'unavailable',
  'the call could not be counted towards the quota of the tenant; propose it again',
)

export const needsWorker = ({ plan }: Pick<Proposal, 'plan'>): boolean => plan !== null && plan.tier !== 'A'

export const queueIsFull = (proposal: Proposal): Failure =>
  failure(
    'queue_full',
    needsWorker(proposal)
      ? 'as many calls wait for this pool’s workers as may'
      : 'as many calls of skills wait for their turn as may',
  )

/** Whether there is room for one more call: in the pool's queue, and in the tenant's quota for today. */
export type Room = { readonly full: boolean; readonly counted: Result<true> }

/**
 * Asked beside what a proposal waits for anyway. A pool that can't be asked is not full: what it is not told now it is told again.
 * `repeated`: the call exists, so the request makes none and uses up no quota.
 */
export async function roomFor(
  env: Env,
  { agents }: Loaded,
  { tenant, id, agent }: RunRecord,
  repeated: boolean,
): Promise<Room> {
  if (repeated) return { full: false, counted: ok(true) }
  const pool = poolObject(env, tenant, agents.get(agent)?.spec.pool ?? 'default')
  const [full, counted] = await Promise.all([
    pool.full({ agent, run: id }).catch(() => false),
    takeCall(env, tenant).catch(() => err(UNCOUNTED)), // L6
  ])
  return { full, counted }
}

/**
 * The run's row as it is at this moment: awaiting others, it may have moved on. What is noted in it is stored with the next change of the
 * run; if that never comes, the log is told again and knows it.
 */
export type RowAccess = { row: () => RunRow; note: (row: RunRow) => void; arm: (at: number) => void }

export class Outbox {
  readonly #env: Env
  readonly #store: RunStore
  readonly #run: RowAccess
  #timer = false

  constructor(env: Env, store: RunStore, run: RowAccess) {
    this.#env = env
    this.#store = store
    this.#run = run
  }

  /** A lost ring is rung again by the alarm. */
  ring({ n, pool, plan }: Proposal, until: number, one?: string): void {
    const { record, folder } = this.#run.row()
    const { tenant, agent, id } = record
    const ring = { agent, run: id, call: callId(id, n), until, worker: holderOf(folder, plan) ?? one ?? null }
    const told = poolObject(this.#env, tenant, pool).ring(ring)
    told.catch(() => undefined)
  }

  /** It waits for no worker any more: the next of its agent may be rung. Where this is lost, its doorbell holds a place for seconds. */
  left({ n, pool }: Proposal): void {
    const { tenant, agent, id } = this.#run.row().record
    const told = poolObject(this.#env, tenant, pool).left({ agent, run: id, call: callId(id, n) })
    told.catch(() => undefined)
  }

  /** What was rung for the worker that had the folder of this run; its other runs ring again. */
  silence({ pool }: Proposal, worker: string): void {
    const silenced = poolObject(this.#env, this.#run.row().record.tenant, pool).silence(worker)
    silenced.catch(() => undefined)
  }

  /** Delivers soon: an approval at once, the log in batches. The alarm stands behind both. */
  soon(mirror: boolean): void {
    this.#run.arm(Date.now() + RETRY_MS)
    if (mirror) setTimeout(() => void this.#mirror(), 0)
    if (this.#timer) return
    this.#timer = true
    setTimeout(() => {
      this.#timer = false
      void this.#log()
    }, LOG_DELAY_MS)
  }

  async flush(): Promise<void> {
    await this.#mirror()
    await this.#log()
  }

  async #mirror(): Promise<void> {
    const { record } = this.#run.row()
    const rows = this.#store.unmirrored()
    if (rows.length === 0) return
    try {
      const approvals = rows.flatMap((row) => approvalView(record, row) ?? [])
      await tenantObject(this.#env, record.tenant).mirror(approvals)
      await channelObject(this.#env, record.tenant).mirror(record.tenant, approvals)
      for (const row of rows) this.#store.mirrored(row)
    } catch {
      this.#run.arm(Date.now() + RETRY_MS)
    }
  }

  async #log(): Promise<void> {
    const { record, logged } = this.#run.row()
    const entries = this.#store.journal(record.id, logged)
    const last = entries.at(-1)?.seq
    if (last === undefined) return
    const leaves = entries.flatMap(({ seq, call, hash, body, at_ms }): Leaf[] => {
      const ended =
        call === null || body['attestation'] === undefined ? undefined : this.#store.call(split(call).n)
      if (call === null || ended === undefined) return []
      const { proposal, status } = ended
      const took = at_ms - proposal.createdAt
      return [
        {
          seq,
          hash,
          call,
          agent: record.agent,
          tool: proposal.tool.name,
          state: status.state,
          at: at_ms,
          took,
          shadow: proposal.shadow ?? null,
        },
      ]
    })
    try {
      await logObject(this.#env, record.tenant).append(record.id, leaves)
    } catch {
      return this.#run.arm(Date.now() + RETRY_MS)
    }
    const row = this.#run.row()
    if (last <= row.logged) return // another delivery was faster
    this.#run.note({ ...row, logged: last })
    if (entries.length === PAGE) this.soon(false)
  }
}
