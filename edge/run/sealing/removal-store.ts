// The rows of an object from which the tenant's retention rule removes something. Each step here is one
// transaction. Calls come first, then journals: a call's tombstone needs the entry that ended it.

import { and, asc, between, eq, gt, inArray, sql } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/durable-sqlite'
import { sha256 } from '../../../shared/bytes/json.ts'
import type { Envelope } from '../../../shared/evidence/dsse.ts'
import type { EvidenceRemoval, Removal } from '../../../shared/evidence/removal.ts'
import { LIMITS } from '../../../shared/limits.ts'
import type { Approval } from '../../../shared/wire/approvals.ts'
import type { Kept, RetentionRule } from '../../../shared/wire/retention.ts'
import type { CallRecord } from '../../call/lifecycle.ts'
import { expiredAfter, withoutExpired } from '../../call/removal.ts'
import type { Database } from '../../platform/database.ts'
import type { ObjectStore } from '../object/object-store.ts'
import { REMOVED } from '../object/page.ts'
import { ROWS_OF_RUN } from '../object/rows-of-run.ts'
import { attestations, calls, journal, output, run, snapshots } from '../tables.ts'
import { approvalView } from '../views.ts'

/**
 * `after`: the key of the last row that was processed. `last`: when a journal last got an entry.
 * `now`: when the pass began, the same for all its steps, so that all of them remove the same kinds.
 */
export type Place = { readonly after: number; readonly last: number; readonly now: number }
export type Step = {
  /** Ended approvals as they are now, and the ids of those of which nothing is left. */
  readonly approvals: readonly Approval[]
  readonly forgotten: readonly string[]
  /** The place of the next step; null if this was the last one. */
  readonly next: number | null
}
type OwnerRow = typeof run.$inferSelect

/**
 * Removes what has expired of some calls. Call it in a transaction. Null if nothing is due: the object
 * may have changed since it was sealed. Without a time in `last`, nothing is due.
 */
export const removeFromCalls = (store: ObjectStore, rule: RetentionRule, place: Place): Step | null =>
  step(store, rule, place, (db, kinds, removal) => {
    const rows = db
      .select({ n: calls.n, record: calls.record })
      .from(calls)
      .where(gt(calls.n, place.after))
      .orderBy(asc(calls.n))
      .limit(LIMITS.removal_calls)
      .all()
    const approvals: Approval[] = []
    const forgotten: string[] = []
    const buries = kinds.includes('evidence')
    for (const [id, own] of Map.groupBy(rows, ({ n }) => Math.floor(n / ROWS_OF_RUN) + 1)) {
      const owner = db.select().from(run).where(eq(run.id, id)).get()
      if (owner === undefined) continue // a crash has left rows of a run that was being put back
      const ends = buries ? endsOf(db, owner, own[0]?.n ?? 0, own.at(-1)?.n ?? 0) : new Map()
      for (const { n, record: before } of own) {
        const isFresh = buries && before.removed?.evidence === undefined
        const record = withoutExpired(before, {
          ...(kinds.includes('outputs') ? { outputs: removal('outputs') } : {}),
          ...(kinds.includes('arguments') ? { arguments: removal('arguments') } : {}),
          ...(isFresh
            ? { evidence: { ...removal('evidence'), ...digestsOf(db, owner, n, ends.get(n)) } }
            : {}),
        })
        if (record !== before) db.update(calls).set({ record }).where(eq(calls.n, n)).run()
        noteApproval(owner, record, approvals, forgotten)
      }
    }
    const keys = rows.map(({ n }) => n)
    if (store.tables.has('output')) db.delete(output).where(inArray(output.n, keys)).run()
    if (buries) db.delete(attestations).where(inArray(attestations.n, keys)).run()
    return { approvals, forgotten, next: nextOf(keys) }
  })

/** Each time, in case the inbox did not get it before a crash. */
function noteApproval(owner: OwnerRow, record: CallRecord, approvals: Approval[], forgotten: string[]): void {
  const { removed, status } = record
  if (removed?.evidence !== undefined) {
    if (status.approval !== null) forgotten.push(status.approval.id)
    return
  }
  const approval = removed?.arguments === undefined ? undefined : approvalView(owner.record, record)
  if (approval !== undefined) approvals.push(approval)
}

/** The entries that ended some calls of a run, by the keys of the calls. */
function endsOf(
  db: Database,
  owner: OwnerRow,
  from: number,
  to: number,
): Map<number, EvidenceRemoval['entry']> {
  const [first, last] = rangeOf(owner)
  const isEnd = sql`${journal.body} ->> '$.attestation' is not null`
  const rows = db
    .select({ n: journal.n, seq: journal.seq, hash: journal.hash })
    .from(journal)
    .where(and(between(journal.seq, first, last), between(journal.n, from - first, to - first), isEnd))
    .all()
  return new Map(rows.map(({ n, seq, hash }) => [first + (n ?? 0), { seq: seq - first, hash }]))
}

/** With these, somebody with a copy can show that it is what was removed (shared/evidence/removal.ts). */
function digestsOf(
  db: Database,
  { seq, head, record }: OwnerRow,
  n: number,
  entry: EvidenceRemoval['entry'] | undefined,
): Pick<EvidenceRemoval, 'statement_sha256' | 'entry' | 'head'> {
  const stored = db
    .select({ envelope: attestations.envelope })
    .from(attestations)
    .where(eq(attestations.n, n))
    .get()
  if (entry === undefined || stored === undefined)
    throw new Error(`call ${n % ROWS_OF_RUN} of ${record.id} lacks its evidence`) // a bug
  const { payload } = JSON.parse(stored.envelope) as Envelope // `saveAttestation` wrote it
  return { statement_sha256: sha256(Buffer.from(payload, 'base64')), entry, head: { seq, hash: head } }
}

/**
 * Replaces the journals of some runs, whose calls have lost their evidence, by their last hashes, which
 * later entries name. With the last run, the policy snapshots go. Call it like `removeFromCalls`.
 */
export const removeJournals = (store: ObjectStore, rule: RetentionRule, place: Place): Step | null =>
  step(store, rule, place, (db, kinds, removal) => {
    const nothing = { approvals: [], forgotten: [] }
    if (!kinds.includes('evidence')) return { ...nothing, next: null }
    const owners = db
      .select()
      .from(run)
      .where(gt(run.id, place.after))
      .orderBy(asc(run.id))
      .limit(LIMITS.removal_calls)
      .all()
    for (const owner of owners) {
      const [first, last] = rangeOf(owner)
      const seq = first + owner.seq
      const entry = db.select().from(journal).where(eq(journal.seq, seq)).get()
      if (entry === undefined || entry.kind === REMOVED) continue
      db.delete(journal)
        .where(between(journal.seq, first, last))
        .run()
      const body = JSON.stringify(removal('evidence'))
      db.insert(journal).values({ seq, at: entry.at, kind: REMOVED, n: null, body, hash: owner.head }).run()
    }
    const next = nextOf(owners.map(({ id }) => id))
    if (next === null) {
      db.delete(snapshots).run()
      store.snapshotsRemoved()
    }
    return { ...nothing, next }
  })

function step(
  store: ObjectStore,
  { keep, rule }: RetentionRule,
  { last, now }: Place,
  work: (db: Database, kinds: readonly Kept[], removal: (kind: Kept) => Removal) => Step,
): Step | null {
  try {
    const age = now - (Math.max(last, store.lastEntryAt()) || now)
    const kinds = expiredAfter(keep, age, LIMITS.retention_day_ms)
    if (kinds.length === 0 || store.nextDue() !== null || !store.isMirrored()) return null
    const removal = (kind: Kept) => ({ at_ms: now, rule, days: keep[kind] ?? 0 })
    return work(drizzle(store.storage), kinds, removal)
  } catch (thrown) {
    store.rolledBack()
    throw thrown
  }
}

/** The keys of the rows of a run. */
const rangeOf = ({ id }: OwnerRow): [first: number, last: number] => [
  (id - 1) * ROWS_OF_RUN,
  id * ROWS_OF_RUN - 1,
]

const nextOf = (keys: readonly number[]): number | null =>
  keys.length < LIMITS.removal_calls ? null : (keys.at(-1) ?? null)
