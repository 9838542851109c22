// Removes from the ended runs of an object what the tenant's retention rule no longer keeps. Only a
// rested object gets here: its archive asks. The rows are stored again, changed in steps, and sealed
// again. Until then they win over the entry, so a crash loses and repeats nothing, and the archive asks
// again.

import { objectOfRun } from '../../../shared/ids.ts'
import { type Env, tenantRetention } from '../../bindings.ts'
import type { GroupCommit } from '../../platform/group-commit.ts'
import type { ObjectStore } from '../object/object-store.ts'
import { removePage } from './removal-store.ts'

/** The part of an object's runs that removal needs. */
type Runs = {
  readonly env: Env
  readonly store: ObjectStore
  readonly commits: GroupCommit
  readonly isErased: boolean
  committed(): void
  sealAgain(): Promise<void>
}

/** Called by the archive that has the object's entry. */
export async function removeExpired(runs: Runs): Promise<void> {
  const { env, store, commits } = runs
  const some = store.some()
  if (some === undefined || runs.isErased) return
  const retention = tenantRetention(env, some.tenant)
  const force = await retention.inForce()
  if (force === null || force.held.includes(objectOfRun(some.id))) return
  // An export of what is about to go belongs here: before the first row changes.
  for (let after = -1; ; ) {
    const page = await commits.run(
      () => removePage(store, force.rule, after),
      () => runs.committed(),
    )
    if (page === null) return
    if (page.approvals.length > 0) await retention.redact(page.approvals)
    if (page.last === null) return runs.sealAgain()
    after = page.last
  }
}
