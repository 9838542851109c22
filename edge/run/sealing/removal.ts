// Removes from the ended runs of an object what the tenant's retention rule no longer keeps. Only a
// rested object gets here: its archive asks. The rows are stored again, changed in steps, and sealed
// again. Until then they win over the entry, so a crash loses and repeats nothing, and the archive asks
// again.

import { tenantRetention } from '../../bindings.ts'
import { exportBeforeRemoval } from '../object/export.ts'
import type { Runs } from '../object/runs.ts'
import { removePage } from './removal-store.ts'

/** Called by the archive that has the object's entry. */
export async function removeExpired(runs: Runs): Promise<void> {
  const { env, store, commits, archived } = runs
  if (runs.isErased) return
  const retention = tenantRetention(env, archived.tenant)
  const force = await retention.inForce()
  if (force === null || force.held.includes(archived.object)) return
  await exportBeforeRemoval(runs)
  for (const id of (await archived.ids()).values()) await archived.putBack(id)
  if (!store.tables.exist) return
  const last = store.lastOfAll()
  for (let after = -1; ; ) {
    const page = await commits.run(
      () => removePage(store, force.rule, { after, last }),
      () => runs.committed(),
    )
    if (page === null) return
    if (page.approvals.length > 0) await retention.redact(page.approvals)
    if (page.last === null) return runs.sealAgain()
    after = page.last
  }
}
