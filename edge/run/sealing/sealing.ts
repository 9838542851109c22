// Seals a run that has ended and rested: its rows become an entry of an archive, and its object
// stores nothing. The entry is on disk before the rows are removed, so after a crash the run is in
// one place or in both, and rows of the object win. A read holds the entry in memory; a change
// stores the rows again.

import { LIMITS } from '../../../shared/limits.ts'
import { archiveOf, bornAt } from '../../archive/archive-of.ts'
import { damaged, type EntryPart, entryOf, openPart } from '../../archive/entry.ts'
import { archiveObject, identityOf } from '../../bindings.ts'
import type { RunRow } from '../../call/run.ts'
import { logError } from '../../platform/error-log.ts'
import type { RunContext } from '../context.ts'
import { type RestFacts, restedAt } from './rest.ts'
import { SealedRows } from './sealed-rows.ts'

/** A new run asks no archive: nothing is sealed before this. */
const mayBeSealed = (run: string, now: number): boolean =>
  now - (bornAt(run) ?? 0) >= LIMITS.seal_never_before_ms

/**
 * Loads the entry of a sealed run into an object that stores nothing. `name`: of the object. Rejects
 * if the archive does not answer or the entry is damaged: a run that looked new could run a call a
 * second time (L2).
 */
export async function loadSealed(run: RunContext, name: string): Promise<void> {
  const slash = name.indexOf('/')
  const [tenant, id] = [name.slice(0, slash), name.slice(slash + 1)]
  if (!mayBeSealed(id, Date.now())) return
  const entry = await archiveObject(run.env, tenant, archiveOf(id)).get(id)
  const rows = new SealedRows()
  for (const [number, part] of entry.entries()) {
    if (number > 0) await pause()
    const opened = openPart(id, number, entry.length, part)
    if (!opened.ok) throw damaged(id, opened.error)
    rows.add(opened.value.migration, opened.value.pages)
  }
  if (entry.length > 0) await run.holdSealed(rows)
}

/** Called by the alarm. Seals the run, or sets the alarm for when it may be sealed. */
export async function sealIfRested(run: RunContext): Promise<void> {
  const at = run.row === undefined || run.isSealed ? null : restedAt(factsOf(run, run.row))
  if (at === null) return
  if (Date.now() < at) return run.arm(at)
  const isSealed = await seal(run).catch((thrown: unknown) => {
    logError(thrown)
    return false
  })
  if (!isSealed) run.arm(Date.now() + identityOf(run.env).sealAfterMs)
}

function factsOf(run: RunContext, { record, calls, seq, logged }: RunRow): RestFacts {
  const { store, outbox, env } = run
  return {
    calls,
    isDelivered: outbox.isListed && logged === seq && store.unmirrored().length === 0,
    nextDue: store.nextDue(),
    storedBytes: run.storedBytes,
    born: bornAt(record.id),
    changed: Math.max(store.lastEntryAt() ?? 0, run.unsealedAt),
    sealAfterMs: identityOf(env).sealAfterMs,
  }
}

/** Returns whether it is sealed: not if it changes in the meantime. */
async function seal(run: RunContext): Promise<boolean> {
  const { changes, row } = run
  if (row === undefined) return false
  const { id, tenant } = row.record
  const rows = new SealedRows()
  const entry: EntryPart[] = []
  for (const part of entryOf(id, run.migration, rows.filledBy(run.migration, run.pages()))) {
    entry.push(part)
    await pause()
    if (run.changes !== changes) return false
  }
  await archiveObject(run.env, tenant, archiveOf(id)).put(id, entry)
  if (run.changes !== changes) return false
  await run.becomeSealed(rows)
  return true
}

const pause = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 0))
