// One open transaction of a run: the only place from which a call can be changed (L5). It stores
// what `step` returns together with the journal entry and the edge's attestation, and lists what is
// to follow the commit. It never awaits and reaches no other object.

import { type Envelope, type Signer, seal } from '../../shared/evidence/dsse.ts'
import { STATEMENT_TYPE } from '../../shared/evidence/statement.ts'
import { attestationId } from '../../shared/ids.ts'
import type { FileRef } from '../../shared/plan/call-files.ts'
import type { Result } from '../../shared/result.ts'
import { ok } from '../../shared/result.ts'
import { dueAt } from '../call/due-at.ts'
import type { CallRecord, Canceller, Effect, Event, Proposal, Status } from '../call/lifecycle.ts'
import { hasEnded, step } from '../call/lifecycle.ts'
import type { Kept, RunRecord, RunRow } from '../call/run.ts'
import { edgeStatement, finishedOf } from '../call/settlement.ts'
import { folderAfter } from '../call/shared-folder.ts'
import type { Snapshot } from '../decision/snapshot.ts'
import type { RunStore } from './store.ts'
import { factsOf, journalFacts } from './views.ts'

/** One event that this transaction applied; `before` is null for a new call. */
export type CallChange = {
  readonly record: CallRecord
  readonly before: Status | null
  readonly event: Event
  readonly effects: readonly Effect[]
  readonly due: number | null
}
/** A doorbell that no event asks for; for one worker where `worker` is given. */
export type Doorbell = { readonly record: CallRecord; readonly worker?: string }
/** What the context does once the transaction is committed, in the order of the list. */
export type FollowUp =
  | ({ readonly kind: 'change' } & CallChange)
  | ({ readonly kind: 'doorbell' } & Doorbell)
  | { readonly kind: 'output'; readonly n: number }
  | { readonly kind: 'journal' }
  | { readonly kind: 'wake'; readonly at: number }

export class RunTransaction {
  readonly #store: RunStore
  readonly #signer: Signer
  readonly #followUps: FollowUp[] = []
  #row: RunRow | undefined
  /** The row as its table has it. */
  #stored: RunRow | undefined

  constructor(store: RunStore, signer: Signer, row: RunRow | undefined) {
    this.#store = store
    this.#signer = signer
    this.#row = row
    this.#stored = row
  }

  /** The run as it is at this moment of the transaction; undefined until it is created. */
  get row(): RunRow | undefined {
    return this.#row
  }

  get followUps(): readonly FollowUp[] {
    return this.#followUps
  }

  /** The run's row, which this creates where there is none yet. */
  createRun(record: RunRecord): RunRow {
    this.#row ??= this.#stored = this.#store.createRun(record)
    return this.#row
  }

  /**
   * The one commit point of a call: its new status, the journal entry, the edge's attestation, the
   * run's head. A refusal changes nothing. `key`: the idempotency key of a new call.
   */
  apply(from: CallRecord | Proposal, event: Event, key: string | null = null): Result<CallRecord> {
    const now = Date.now()
    const before = 'status' in from ? from.status : null
    const stepped = step(from, event, now)
    if (!stepped.ok) return stepped
    const { effects, journal } = stepped.value
    const proposal = stepped.value.proposal ?? ('status' in from ? from.proposal : from)
    const record = this.#attested(
      { proposal, status: stepped.value.status },
      before,
      effects.includes('attest'),
    )
    const { status } = record
    const due = dueAt(status, now)
    if (before === null) this.#store.insertCall(record, key, due, effects.includes('mirror'))
    else this.#store.updateCall(record, due, effects.includes('mirror'))
    const row = this.#store.append(this.#run, now, journal.kind, proposal.n, {
      ...journal.body,
      ...journalFacts(record, before === null),
    })
    this.#row = { ...row, folder: folderAfter(row.folder, record, event, () => this.#store.live()) }
    if (before?.state === 'running' && status.state !== 'running' && event.kind !== 'settled')
      this.#store.dropOutput(proposal.n) // no statement covers it
    this.#followUps.push({ kind: 'change', record, before, event, effects, due })
    return ok(record)
  }

  /**
   * Where nothing ran, the edge is the executor: a denial, an expiry, a lost worker are attested
   * too (L5).
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
   * Counts the number of the next call, and whether policy let it in. The row is stored at the end
   * of the transaction.
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
   * Counts a proposal that became no call, so that nobody tries arguments without end. Dry runs are
   * not counted.
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
    this.#followUps.push({ kind: 'journal' })
  }

  /** Stores a policy snapshot, once for each digest. */
  keepSnapshot(snapshot: Snapshot): void {
    this.#store.keepSnapshot(snapshot)
  }

  saveAttestation(n: number, envelope: Envelope, grant: Envelope | null): void {
    this.#store.saveAttestation(n, envelope, grant)
  }

  /** A call names these files, so they stay for longer than any call lives. */
  nameFiles(files: readonly FileRef[]): void {
    this.#store.files.keep(files, Date.now())
  }

  putFile(digest: string, bytes: Uint8Array): { sha256: string; bytes: number } {
    return this.#store.files.put(digest, bytes, Date.now())
  }

  /** Returns whether any file's time was over. */
  dropFiles(now: number): boolean {
    return this.#store.files.dropDue(now)
  }

  saveOutput(n: number, stream: 'stdout' | 'stderr', offset: number, bytes: Buffer): void {
    this.#store.saveOutput(n, stream, offset, bytes)
    this.#followUps.push({ kind: 'output', n })
  }

  /** Replaces the streamed output by the settled output. */
  replaceOutput(n: number, output: Kept): void {
    this.#store.replaceOutput(n, output)
  }

  /** Rings again for a call that waits for its executor. The doorbell goes out after the commit. */
  ring(record: CallRecord, worker?: string): void {
    this.#followUps.push({ kind: 'doorbell', record, ...(worker === undefined ? {} : { worker }) })
  }

  /** Wakes the run's object at this time, or earlier where something is due before. */
  wakeAt(at: number): void {
    this.#followUps.push({ kind: 'wake', at })
  }

  /** Looks at a call again at `due`. It changes nothing of the call. */
  lookAgainAt(record: CallRecord, due: number | null): void {
    this.#store.updateCall(record, due, false)
  }

  /**
   * Stores the row once, whatever changed in it. The context calls this at the end of each
   * transaction.
   */
  saveRow(): void {
    if (this.#row !== undefined && this.#row !== this.#stored) this.#store.saveRun(this.#row)
  }

  get #run(): RunRow {
    if (this.#row === undefined) throw new Error('this run does not exist')
    return this.#row
  }
}
