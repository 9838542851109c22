// Seals an object whose runs have ended and rested: its rows become an entry of an archive, and it
// stores nothing. The entry is on disk before the rows are removed, so after a crash the rows are in
// one place or in both, and those of the object win. A read holds the entry in memory; a change
// stores the rows again.

import { objectOfRun } from '../../../shared/ids.ts'
import { LIMITS } from '../../../shared/limits.ts'
import { archiveOf, bornAt, isShared } from '../../archive/archive-of.ts'
import { damaged, type EntryPart, entryOf, openPart } from '../../archive/entry.ts'
import { archiveObject, type Env, identityOf } from '../../bindings.ts'
import { logError } from '../../platform/error-log.ts'
import type { GroupCommit } from '../../platform/group-commit.ts'
import type { ObjectStore } from '../object/object-store.ts'
import { restedAt } from './rest.ts'
import { SealedRows } from './sealed-rows.ts'

/** The part of an object's runs that sealing needs. */
type Runs = {
  readonly env: Env
  readonly store: ObjectStore
  readonly commits: GroupCommit
  readonly changes: number
  readonly unsealedAt: number
  readonly isErased: boolean
  isDelivered(): Promise<boolean>
  committed(): void
  becomeSealed(rows: SealedRows): Promise<void>
  arm(due: number): void
}

/**
 * A new run asks no archive: nothing is sealed before this. An id from the future shows that the clock
 * was set back. Runs to which a key leads always ask: none of them may look new (L2).
 */
const mayBeSealed = (name: string, now: number): boolean =>
  isShared(name) || Math.abs(now - (bornAt(name) ?? 0)) >= LIMITS.seal_never_before_ms

/**
 * Loads the entry of a sealed object. `name`: of the object. Rejects if the archive does not answer
 * or the entry is damaged: a run that looked new could run a call a second time (L2).
 */
export async function loadSealed(runs: Runs, name: string | undefined): Promise<void> {
  if (name === undefined) throw new Error('the object does not know its name') // L2
  const slash = name.indexOf('/')
  const [tenant, own] = [name.slice(0, slash), name.slice(slash + 1)]
  if (!mayBeSealed(own, Date.now())) return
  const entry = await archiveObject(runs.env, tenant, archiveOf(own)).get(own)
  const rows = new SealedRows()
  for (const [number, part] of entry.entries()) {
    if (number > 0) await pause()
    const opened = openPart(own, number, entry.length, part)
    if (!opened.ok) throw damaged(own, opened.error)
    rows.add(opened.value.migration, opened.value.pages)
  }
  if (entry.length === 0) return
  runs.store.holdSealed(rows)
  if (rows.migration === runs.store.tables.migration) return
  await runs.commits.run(
    () => runs.store.putBack(),
    () => runs.committed(),
  )
}

/** Called by the alarm. Seals the object, or sets the alarm for when it may be sealed. */
export async function sealIfRested(runs: Runs): Promise<void> {
  const { store, env } = runs
  const some = store.some()
  if (some === undefined || store.sealed !== undefined || runs.isErased) return
  const own = objectOfRun(some.id)
  const { sealAfterMs } = identityOf(env)
  const changed = Math.max(store.lastEntryAt(), runs.unsealedAt)
  // The other facts are in all rows of an object, which a busy one would read at each alarm.
  if (Date.now() < changed + sealAfterMs) return runs.arm(changed + sealAfterMs)
  const at = restedAt({
    isDelivered: await runs.isDelivered(),
    nextDue: store.nextDue(),
    storedBytes: store.storage.sql.databaseSize,
    born: isShared(own) ? null : bornAt(own), // a key may be of any time
    changed,
    sealAfterMs,
  })
  if (at === null) return
  if (Date.now() < at) return runs.arm(at)
  const isSealed = await seal(runs, some.tenant, own).catch((thrown: unknown) => {
    logError(thrown)
    return false
  })
  if (!isSealed && !runs.isErased) runs.arm(Date.now() + sealAfterMs)
}

/** Returns whether it is sealed: not if it changes in the meantime. */
async function seal(runs: Runs, tenant: string, own: string): Promise<boolean> {
  const { changes, store } = runs
  const age = { removed: store.removedOfAll(), changed: store.lastEntryAt() }
  const { migration } = store.tables
  const rows = new SealedRows()
  const entry: EntryPart[] = []
  for (const part of entryOf(own, migration, rows.filledBy(migration, store.pages()))) {
    entry.push(part)
    await pause()
    if (runs.changes !== changes) return false
  }
  await archiveObject(runs.env, tenant, archiveOf(own)).put(own, entry, age)
  if (runs.changes !== changes) return false
  await runs.becomeSealed(rows)
  return true
}

const pause = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 0))
