// The rows of an object from which the tenant's retention rule removes something.

import { asc, eq, gt, inArray } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/durable-sqlite'
import { LIMITS } from '../../../shared/limits.ts'
import type { Approval } from '../../../shared/wire/approvals.ts'
import type { RetentionRule } from '../../../shared/wire/retention.ts'
import { expiredAfter, withoutExpired } from '../../call/removal.ts'
import type { ObjectStore } from '../object/object-store.ts'
import { ROWS_OF_RUN } from '../object/rows-of-run.ts'
import { calls, output, run } from '../tables.ts'
import { approvalView } from '../views.ts'

/** `last`: the key of the last call that was looked at; null if there are no more. */
type Page = {
  readonly approvals: readonly Approval[]
  readonly last: number | null
}

/**
 * Removes what has expired of some calls, whose keys are after `after`. `last`: when something was last
 * added to a journal; without a time, nothing is removed. Call it in a transaction. Null if nothing is
 * due: the object may have changed since it was sealed.
 */
export function removePage(
  store: ObjectStore,
  rule: RetentionRule,
  { after, last }: { readonly after: number; readonly last: number },
): Page | null {
  try {
    const now = Date.now()
    const age = now - (Math.max(last, store.lastEntryAt()) || now)
    const kinds = expiredAfter(rule.keep, age, LIMITS.retention_day_ms)
    if (kinds.length === 0 || store.nextDue() !== null || !store.isMirrored()) return null
    const db = drizzle(store.storage)
    const rows = db
      .select({ n: calls.n, record: calls.record })
      .from(calls)
      .where(gt(calls.n, after))
      .orderBy(asc(calls.n))
      .limit(LIMITS.removal_calls)
      .all()
    const removal = (kind: (typeof kinds)[number]) => ({
      at_ms: now,
      rule: rule.rule,
      days: rule.keep[kind] ?? 0,
    })
    const approvals: Approval[] = []
    for (const { n, record: before } of rows) {
      const record = withoutExpired(before, kinds, removal)
      if (record !== before) db.update(calls).set({ record }).where(eq(calls.n, n)).run()
      const owner = db
        .select()
        .from(run)
        .where(eq(run.id, Math.floor(n / ROWS_OF_RUN) + 1))
        .get()
      const approval = owner === undefined ? undefined : approvalView(owner.record, record)
      // Each time, in case the inbox did not get it before a crash.
      if (approval !== undefined && record.removed?.arguments !== undefined) approvals.push(approval)
    }
    const keys = rows.map(({ n }) => n)
    if (store.tables.has('output')) db.delete(output).where(inArray(output.n, keys)).run()
    return {
      approvals,
      last: rows.length < LIMITS.removal_calls ? null : (keys.at(-1) ?? null),
    }
  } catch (thrown) {
    store.rolledBack()
    throw thrown
  }
}
