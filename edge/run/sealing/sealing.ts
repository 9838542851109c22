// Seals an object whose runs have ended and rested: its rows become an entry of an archive, and it
// stores nothing. The entry is on disk before the rows are removed, so after a crash the rows are in
// one place or in both, and those of the object win.

import { isSharedRun } from '../../../shared/ids.ts'
import { LIMITS } from '../../../shared/limits.ts'
import { type EntryPart, type Index, type PartRef, type Row, sealIndex } from '../../archive/entry.ts'
import { type Env, identityOf } from '../../bindings.ts'
import { logError } from '../../platform/error-log.ts'
import type { LogDelivery } from '../object/log-delivery.ts'
import type { ObjectStore } from '../object/object-store.ts'
import type { Archived } from './archived.ts'
import { partsOf, type RowSource } from './entry-parts.ts'
import { mayRest } from './rest.ts'
import { SealingTurns } from './turns.ts'

/** The part of an object's runs that sealing needs. */
type Runs = {
  readonly env: Env
  readonly store: ObjectStore
  readonly log: LogDelivery
  readonly archived: Archived
  readonly changes: number
  readonly unsealedAt: number
  readonly isErased: boolean
  isDelivered(): Promise<boolean>
  becomeSealed(index: Index): Promise<boolean>
  arm(due: number): void
}

/** About how many bytes of compressed parts one message to the archive has. */
const MESSAGE_BYTES = 256 * 1024

const TURNS = new SealingTurns()

/** Called by the alarm. Seals the object, or sets the alarm for when it may be sealed or has a turn. */
export function sealInTurn(runs: Runs): Promise<void> {
  return sealIfRested(runs, async (work) => {
    const turn = await TURNS.take(Date.now(), work)
    if (turn !== null) runs.arm(turn)
  })
}

/** The same without a turn, unless `inTurn` makes it wait for one. */
export async function sealIfRested(
  runs: Runs,
  inTurn: (work: () => Promise<void>) => Promise<void> = (work) => work(),
): Promise<void> {
  const { store, env } = runs
  if (!store.tables.exist || runs.isErased) return
  const { sealAfterMs } = identityOf(env)
  const rested = Math.max(store.lastEntryAt(), runs.unsealedAt) + sealAfterMs
  // Checked first, so that the alarm of a busy object reads nothing else.
  if (Date.now() < rested) return runs.arm(rested)
  await inTurn(() => sealRested(runs, sealAfterMs))
}

async function sealRested(runs: Runs, sealAfterMs: number): Promise<void> {
  if (!mayRest(await runs.isDelivered(), runs.store.nextDue())) return
  const again = await seal(runs, Date.now() - sealAfterMs).catch((thrown: unknown) => {
    logError(thrown)
    return Date.now()
  })
  if (again !== null && !runs.isErased) runs.arm(again + sealAfterMs)
}

/**
 * Returns null if the object is sealed or too large. Else returns the time since when it has to rest
 * before the next try. `since`: a run with a later entry in its journal has not rested.
 */
async function seal(runs: Runs, since: number): Promise<number | null> {
  const { changes, store, archived } = runs
  const { archive, object } = archived
  const kept = await archived.kept()
  const parts: PartRef[] = [...kept]
  const rows = new RestingRows(store)
  let staged: EntryPart[] = []
  let [ofRun, runBytes] = [-1, 0]
  for (const { part, ref } of partsOf(rows)) {
    parts.push(ref)
    staged.push(part)
    runBytes = part.bytes.byteLength + (ref.ranges !== null && ref.first === ofRun ? runBytes : 0)
    ofRun = ref.first
    if (runBytes > LIMITS.sealed_run_bytes) {
      await archive.unstage(object) // nobody counts these bytes
      return null
    }
    if (staged.reduce((sum, { bytes }) => sum + bytes.byteLength, 0) > MESSAGE_BYTES) {
      await archive.stage(object, staged)
      staged = []
    } else await pause()
    if (runs.changes !== changes) return Date.now()
    if (rows.changed > since) return rows.changed
  }
  await archive.stage(object, staged)
  const index = { migration: store.tables.migration, next: store.next, parts }
  const weight = parts.reduce((sum, part) => sum + part.weight, 0)
  const age = { removed: store.removedOfAll(), changed: rows.changed, isWhole: kept.length === 0 }
  const digests = parts.map(({ digest }) => digest)
  if (runs.changes !== changes) return Date.now()
  const bytes = await archive.publish(object, sealIndex(object, index), { weight, ...age }, digests)
  if (bytes === null || runs.changes !== changes) return Date.now()
  await runs.log.reportSealed(archived.tenant, object, bytes)
  if (runs.changes !== changes) return Date.now()
  return (await runs.becomeSealed(index)) ? null : Date.now()
}

/** The rows of an object, and whether all of them have rested. */
class RestingRows implements RowSource {
  readonly #store: ObjectStore
  /** The time of the latest journal entry read so far; the present time if the log lacks an entry. */
  changed = 0

  constructor(store: ObjectStore) {
    this.#store = store
  }

  rows(table: string, key: string, after: number, last: number, most: number): Row[] {
    const rows = this.#store.rows(table, key, after, last, most)
    for (const { at, logged, seq, record } of rows) {
      if (table === 'journal') this.changed = Math.max(this.changed, Number(at))
      // An object of one run does not store what the log has of it; `isDelivered` has checked that.
      if (table === 'run' && Number(logged) < Number(seq) && isOfShared(record)) this.changed = Date.now()
    }
    return rows
  }

  snapshotsOf(first: number, last: number): Row[] {
    return this.#store.snapshotsOf(first, last)
  }

  snapshotsBut(digests: readonly string[]): Row[] {
    return this.#store.snapshotsBut(digests)
  }
}

const isOfShared = (record: unknown): boolean =>
  isSharedRun((JSON.parse(String(record)) as { id: string }).id) // the store wrote it

const pause = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 0))
