// Removes from the ended runs of an object what the tenant's retention rule no longer keeps. Only a
// rested object gets here: its archive asks. The rows are stored again, changed in steps, and sealed
// again. Until then they win over the entry, so a crash loses and repeats nothing, and the archive asks
// again.

import type { RetentionRule } from '../../../shared/wire/retention.ts'
import { tenantRetention } from '../../bindings.ts'
import { exportBeforeRemoval } from '../object/export.ts'
import type { Runs } from '../object/runs.ts'
import { type Place, removeFromCalls, removeJournals, type Step } from './removal-store.ts'

/** Called by the archive that has the object's entry. */
export async function removeExpired(runs: Runs): Promise<void> {
  const { env, store, commits, archived } = runs
  if (runs.isErased) return
  const retention = tenantRetention(env, archived.tenant)
  /** Null while nothing of this object may be removed. */
  const ruleInForce = async (): Promise<RetentionRule | null> => {
    const force = await retention.inForce()
    return force === null || force.held.includes(archived.object) ? null : force.rule
  }
  const rule = await ruleInForce()
  if (rule === null) return
  await exportBeforeRemoval(runs)
  for (const id of (await archived.ids()).values()) await archived.putBack(id)
  if (!store.tables.exist) return
  // One time for all steps: a journal goes only if the same pass has made tombstones of its calls.
  const pass = { last: store.lastOfAll(), now: Date.now() }
  for (const remove of [removeFromCalls, removeJournals])
    for (let after: number | null = -1; after !== null; ) {
      // A hold may have been put, or the rule changed, during the export or the step before.
      if ((await ruleInForce())?.rule !== rule.rule) return
      const place: Place = { ...pass, after }
      const step: Step | null = await commits.run(
        () => remove(store, rule, place),
        () => runs.committed(),
      )
      if (step === null) return
      const { approvals, forgotten } = step
      if (approvals.length + forgotten.length > 0) await retention.redact(approvals, forgotten)
      after = step.next
    }
  return runs.sealAgain()
}
