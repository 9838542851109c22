// One open transaction of a run, the only way to change a call (L5). It stores the result of `step`
// with the journal entry and the edge's attestation, and lists the effects to perform after the
// commit. It never awaits and calls no other object.

import { type Envelope, type Signer, seal } from '../../shared/evidence/dsse.ts'
import { STATEMENT_TYPE } from '../../shared/evidence/statement.ts'
import { attestationId } from '../../shared/ids.ts'
import type { FileRef } from '../../shared/plan/call-files.ts'
import type { Result } from '../../shared/result.ts'
import { ok } from '../../shared/result.ts'
import type { Identity } from '../bindings.ts'
import { dueAt } from '../call/due-at.ts'
import type { CallRecord, Canceller, Effect, Event, Proposal, Status } from '../call/lifecycle.ts'
import { hasEnded, step } from '../call/lifecycle.ts'
import type { RunRecord, RunRow, StoredOutput } from '../call/run.ts'
import { edgeStatement, finishedOf } from '../call/settlement.ts'
import { folderAfter } from '../call/shared-folder.ts'
import type { Snapshot } from '../decision/snapshot.ts'
import type { CallKeys, RunStore } from './store.ts'
import { factsOf, journalFacts } from './views.ts'

/** One event that this transaction applied; `before` is null for a new call. */
export type CallChange = {
  readonly record: CallRecord
  readonly before: Status | null
  readonly event: Event
  readonly effects: readonly Effect[]
  readonly due: number | null
}
/** A doorbell without an event; only for `worker`, if given. */
export type Doorbell = { readonly record: CallRecord; readonly worker?: string }
/** An effect that the context performs after the commit, in the order of the list. */
export type FollowUp =
  | ({ readonly kind: 'change' } & CallChange)
  | ({ readonly kind: 'doorbell' } & Doorbell)
  | { readonly kind: 'output'; readonly n: number }
  /** The run was created or cancelled. */
  | { readonly kind: 'run' }
  | { readonly kind: 'wake'; readonly at: number }

const NO_KEYS: CallKeys = { key: null, joinKey: null }

export class RunTransaction {
  readonly #store: RunStore
  readonly #signer: Signer
  readonly #restores: number
  readonly #followUps: FollowUp[] = []
  #row: RunRow | undefined
  readonly #stored: RunRow | undefined

  constructor(store: RunStore, identity: Pick<Identity, 'signer' | 'restores'>, row: RunRow | undefined) {
    this.#store = store
    this.#signer = identity.signer
    this.#restores = identity.restores
    this.#row = row
    this.#stored = row
  }

  /** The row with the changes of this transaction; undefined until the run is created. */
  get row(): RunRow | undefined {
    return this.#row
  }

  get followUps(): readonly FollowUp[] {
    return this.#followUps
  }

  /** Returns the run's row; creates it if there is none. */
  createRun(record: RunRecord): RunRow {
    if (this.#row !== undefined) return this.#row
    this.#row = this.#store.newRun(record)
    this.#followUps.push({ kind: 'run' })
    return this.#row
  }

  /**
   * The one commit point of a call: its new status, the journal entry, the edge's attestation, the
   * run's head. A refusal changes nothing. `keys`: of a new call.
   */
  apply(from: CallRecord | Proposal, event: Event, keys: CallKeys = NO_KEYS): Result<CallRecord> {
    const now = Date.now()
    const before = 'status' in from ? from.status : null
    const stepped = step(from, event, now)
    if (!stepped.ok) return stepped
    const { effects, journal } = stepped.value
    const proposal = this.#dated(stepped.value.proposal ?? ('status' in from ? from.proposal : from))
    const record = this.#attested(
      { proposal, status: stepped.value.status },
      before,
      effects.includes('attest'),
    )
    const { status } = record
    const due = dueAt(status, now)
    if (before === null) this.#store.insertCall(record, keys, due, effects.includes('mirror'))
    else this.#store.updateCall(record, due, effects.includes('mirror'))
    const row = this.#store.append(this.#run, now, journal.kind, proposal.n, {
      ...journal.body,
      ...journalFacts(record, before === null),
    })
    this.#row = { ...row, folder: folderAfter(row.folder, record, event, () => this.#store.live()) }
    if (before?.state === 'running' && status.state !== 'running' && event.kind !== 'settled')
      this.#store.dropOutput(proposal.n) // no attestation covers it
    this.#followUps.push({ kind: 'change', record, before, event, effects, due })
    return ok(record)
  }

  /** A call that has the number of an earlier restore is from a backup (`endCallsOfBackup`). */
  #dated(proposal: Proposal): Proposal {
    return this.#restores === 0 ? proposal : { ...proposal, restores: this.#restores }
  }

  /**
   * The edge attests ends without a worker's statement: a denial, an expiry, a lost worker (L5).
   */
  #attested(record: CallRecord, before: Status | null, attest: boolean): CallRecord {
    const { proposal, status } = record
    if (!attest || !hasEnded(status)) return record
    const { record: run } = this.#run
    const grant = before?.state === 'running' ? before.grant : null
    const statement = edgeStatement(attestationId(run.id, proposal.n), factsOf(run, record), status, grant)
    this.saveAttestation(proposal.n, seal(STATEMENT_TYPE, statement, this.#signer), grant)
    return { proposal, status: { ...status, attestation: finishedOf(statement).attestation } }
  }

  /**
   * Counts a new call, and whether policy allowed it. The row is stored at the end of the
   * transaction.
   */
  countCall(n: number, denied: boolean): void {
    const row = this.#run
    this.#row = {
      ...row,
      calls: n,
      allowed: row.allowed + (denied ? 0 : 1),
      denied: row.denied + (denied ? 1 : 0),
    }
  }

  /**
   * Counts a refused proposal that made no call, so that no agent tries arguments endlessly. Dry
   * runs don't count.
   */
  countRefusal(): void {
    const row = this.#run
    this.#row = { ...row, denied: row.denied + 1 }
  }

  cancelRun(by: Canceller): void {
    this.#row = {
      ...this.#store.append(this.#run, Date.now(), 'run_cancelled', null, { by }),
      cancelled: true,
    }
    this.#followUps.push({ kind: 'run' })
  }

  /** Stores a policy snapshot, once for each digest. */
  keepSnapshot(snapshot: Snapshot): void {
    this.#store.keepSnapshot(snapshot)
  }

  saveAttestation(n: number, envelope: Envelope, grant: Envelope | null): void {
    this.#store.saveAttestation(n, envelope, grant)
  }

  /** Marks files that a call names, so that they stay for longer than a call can live. */
  nameFiles(files: readonly FileRef[]): void {
    this.#store.files.keep(files, Date.now())
  }

  putFile(digest: string, bytes: Uint8Array): { sha256: string; bytes: number } {
    return this.#store.files.put(digest, bytes, Date.now())
  }

  /** Removes expired files; returns whether there were any. */
  dropFiles(now: number): boolean {
    return this.#store.files.dropDue(now)
  }

  saveOutput(n: number, stream: 'stdout' | 'stderr', offset: number, bytes: Buffer): void {
    this.#store.saveOutput(n, stream, offset, bytes)
    this.#followUps.push({ kind: 'output', n })
  }

  /** Replaces the streamed output by the settled output. */
  replaceOutput(n: number, output: StoredOutput): void {
    this.#store.replaceOutput(n, output)
  }

  /** Rings again, after the commit, for a call that waits for its executor. */
  ring(record: CallRecord, worker?: string): void {
    this.#followUps.push({ kind: 'doorbell', record, ...(worker === undefined ? {} : { worker }) })
  }

  /** Wakes the run's object at this time or earlier. */
  wakeAt(at: number): void {
    this.#followUps.push({ kind: 'wake', at })
  }

  /** The client has the answer, so an equal proposal no longer joins the call. */
  markDelivered(n: number): void {
    this.#store.markDelivered(n)
  }

  /** When the call is cancelled unless somebody asks for it again; null: not at all. */
  cancelAt(n: number, at: number | null): void {
    this.#store.cancelAt(n, at)
    if (at !== null) this.wakeAt(at)
  }

  /** Schedules the next check of a call, without changing it. */
  lookAgainAt(record: CallRecord, due: number | null): void {
    this.#store.updateCall(record, due, false)
  }

  /**
   * Stores the row if it has changed. The context calls this at the end of each transaction.
   */
  saveRow(): void {
    if (this.#row === undefined || this.#row === this.#stored) return
    if (this.#stored === undefined) this.#store.createRun(this.#row)
    else this.#store.saveRun(this.#row)
  }

  get #run(): RunRow {
    if (this.#row === undefined) throw new Error('this run does not exist')
    return this.#row
  }
}
