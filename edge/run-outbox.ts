// What a run owes others: approvals to the tenant's inbox, ends of calls to the tenant's log. Both are derived from what
// is stored, delivered at least once, and taken at most once by the other side. What fails is tried again by the alarm.

import { split } from '../shared/ids.ts'
import type { Env } from './env.ts'
import { logObject, tenantObject } from './env.ts'
import type { Leaf } from './log-object.ts'
import type { RunRow } from './run-record.ts'
import { approvalView } from './run-record.ts'
import type { RunStore } from './run-store.ts'

const LOG_DELAY_MS = 200
const RETRY_MS = 2_000

export class Outbox {
  readonly #env: Env
  readonly #store: RunStore
  readonly #arm: (at: number) => void
  #timer = false

  constructor(env: Env, store: RunStore, arm: (at: number) => void) {
    this.#env = env
    this.#store = store
    this.#arm = arm
  }

  /** Delivers soon: an approval at once, the log in batches. The alarm stands behind it. */
  soon(row: RunRow, current: () => RunRow, save: (row: RunRow) => void, mirror: boolean): void {
    this.#arm(Date.now() + RETRY_MS)
    if (mirror) setTimeout(() => void this.#mirror(row), 0)
    if (this.#timer) return
    this.#timer = true
    setTimeout(() => {
      this.#timer = false
      void this.#log(current(), current, save)
    }, LOG_DELAY_MS)
  }

  async flush(row: RunRow, save: (row: RunRow) => void): Promise<void> {
    await this.#mirror(row)
    await this.#log(row, () => row, save)
  }

  async #mirror({ record }: RunRow): Promise<void> {
    const rows = this.#store.unmirrored()
    if (rows.length === 0) return
    try {
      await tenantObject(this.#env, record.tenant).mirror(rows.flatMap((row) => approvalView(record, row.record) ?? []))
      for (const row of rows) this.#store.mirrored(row.n, row.record.status.state)
    } catch {
      this.#arm(Date.now() + RETRY_MS)
    }
  }

  async #log({ record, logged }: RunRow, current: () => RunRow, save: (row: RunRow) => void): Promise<void> {
    const entries = this.#store.journal(record.id, logged)
    const last = entries.at(-1)?.seq
    if (last === undefined) return
    const leaves = entries.flatMap(({ seq, call, hash, body, at_ms }): Leaf[] => {
      const ended = call === null || body['attestation'] === undefined ? undefined : this.#store.call(split(call).n)
      if (call === null || ended === undefined) return []
      const { proposal, status } = ended
      return [
        {
          run: record.id,
          seq,
          hash,
          call,
          agent: record.agent,
          tool: proposal.tool.name,
          state: status.state,
          at: at_ms,
          took: at_ms - proposal.createdAt,
        },
      ]
    })
    try {
      await logObject(this.#env, record.tenant).append(leaves)
      save({ ...current(), logged: last })
      if (last < current().seq) this.#arm(Date.now() + LOG_DELAY_MS)
    } catch {
      this.#arm(Date.now() + RETRY_MS)
    }
  }
}
