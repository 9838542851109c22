// Counts how many approvals each agent caused and how long they were pending. The inbox reports
// each approval once when it is asked and once when it has ended.

import { asc, sql } from 'drizzle-orm'
import type { Approval } from '../../shared/wire/approvals.ts'
import type { Database } from '../platform/database.ts'
import type { ApprovalMetrics } from './metrics.ts'
import { asksPeople, measureWait } from './metrics.ts'
import { asks, waits } from './tables.ts'

export class ApprovalMetricsStore {
  readonly #db: Database

  constructor(db: Database) {
    this.#db = db
  }

  /** `isNew`: the approval is new to the inbox, which stores it in the same write. */
  count(approval: Approval, isNew: boolean): void {
    if (!asksPeople(approval)) return
    const more = { n: sql`n + 1` }
    if (isNew)
      this.#db
        .insert(asks)
        .values({ agent: approval.prompt.agent, n: 1 })
        .onConflictDoUpdate({ target: asks.agent, set: more })
        .run()
    if (approval.status === 'pending') return
    const { wait_ms, ...place } = measureWait(approval, Date.now())
    this.#db
      .insert(waits)
      .values({ ...place, n: 1, total_ms: wait_ms })
      .onConflictDoUpdate({
        target: [waits.channel, waits.outcome, waits.bucket],
        set: { ...more, total_ms: sql`total_ms + ${wait_ms}` },
      })
      .run()
  }

  read(): ApprovalMetrics {
    return {
      waits: this.#db
        .select()
        .from(waits)
        .orderBy(asc(waits.channel), asc(waits.outcome), asc(waits.bucket))
        .all(),
      asks: this.#db.select().from(asks).orderBy(asc(asks.agent)).all(),
    }
  }
}
