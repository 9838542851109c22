// One run: its calls, budget, approvals and journal. `RunRequests` is the RPC surface; each method
// names the function that does the work. Every change goes through `transact` of its context (L5).
// It never talks to Redis and knows nothing of HTTP.

import { DurableObject } from 'cloudflare:workers'
import type { Bundle } from '../../shared/evidence/bundle.ts'
import type { Envelope } from '../../shared/evidence/dsse.ts'
import type { JournalEntry } from '../../shared/evidence/journal.ts'
import type { PolicySnapshot } from '../../shared/evidence/policy-snapshot.ts'
import type { CallState } from '../../shared/evidence/statement.ts'
import type { WorkerResources } from '../../shared/evidence/worker-proof.ts'
import { failure } from '../../shared/failures.ts'
import type { HeldFile } from '../../shared/plan/call-files.ts'
import { err, ok, type Result } from '../../shared/result.ts'
import type { Answer, Approval, Editable } from '../../shared/wire/approvals.ts'
import type { Call, DryRun } from '../../shared/wire/calls.ts'
import type { Run } from '../../shared/wire/runs.ts'
import type { Claim, Settlement } from '../../shared/wire/workers.ts'
import type { Preview } from '../approvals/argument-edits.ts'
import type { FullText } from '../approvals/card.ts'
import { type Env, identityOf } from '../bindings.ts'
import type { Canceller } from '../call/lifecycle.ts'
import type { RunOwner, RunRecord } from '../call/run.ts'
import type { WorkerKey } from '../call/settlement.ts'
import type { RehearsalOutcome } from '../rehearsal/past-call.ts'
import type { Responder } from './approval-answers.ts'
import * as approvals from './approval-reads.ts'
import { adviseOn } from './commands/advise.ts'
import { answerApproval, revokeLinks } from './commands/answer.ts'
import { cancelCall, cancelRun } from './commands/cancel.ts'
import { type Claimant, claimForWorker } from './commands/claim.ts'
import * as clients from './commands/clients.ts'
import { endCallsOfBackup } from './commands/end-calls-of-backup.ts'
import { isSameRun, NO_ROOM, type ProposalInput, type ProposedCall, proposeCall } from './commands/propose.ts'
import { settleForWorker } from './commands/settle.ts'
import type { RunContext } from './context.ts'
import type { StoredFile } from './file-uploads.ts'
import { type ExportPart, exportPart } from './object/export.ts'
import { Runs } from './object/runs.ts'
import { roomToStore } from './outbox.ts'
import type { OutputUpdate, StreamPosition, Subscriber } from './output-subscribers.ts'
import * as reads from './reads.ts'
import { rehearseRun, type Script } from './rehearse.ts'
import { isNewRun } from './sealing/new-run.ts'
import { removeExpired } from './sealing/removal.ts'
import { runView } from './views.ts'
import * as workerCalls from './worker-calls.ts'

const NO_RUN = failure('not_found', 'no such run')
const CANCELLED = failure('run_cancelled', 'the run was cancelled')
const OTHER_RUN = failure('idempotency_key_reused', 'this key has created a run with other settings')

/** The requests to one run. */
export class RunRequests {
  readonly #run: RunContext

  constructor(run: RunContext) {
    this.#run = run
  }

  // ── Agents and operators; `agent` is null if the caller may see every agent's ──

  async create(record: RunRecord): Promise<Result<Run>> {
    const { row, env } = this.#run
    const room = row === undefined ? await roomToStore(env, record.tenant) : ok(true as const)
    if (!room.ok) return room
    return this.#run.transact((tx) => {
      const row = tx.createRun(record)
      return isSameRun(row, record) ? ok(runView(row)) : err(OTHER_RUN)
    })
  }

  async propose(input: ProposalInput): Promise<Result<Call>> {
    const proposed = await proposeCall(this.#run, input)
    return proposed.ok ? ok(proposed.value.call) : proposed
  }

  /** Null if the run needs an object of its own: the object is full, or the id is taken. */
  async proposeIfRoom(input: ProposalInput): Promise<Result<Call> | null> {
    const proposed = await this.propose(input)
    return !proposed.ok && proposed.error === NO_ROOM ? null : proposed
  }

  /** `request`: the client's id of its request, by which it can cancel the call. */
  async proposeOrJoin(input: ProposalInput, request: string | null): Promise<Result<ProposedCall>> {
    return clients.proposeForClient(this.#run, input, request)
  }

  async readForClient(agent: RunOwner, n: number, waitMs: number): Promise<Result<Call>> {
    return clients.readForClient(this.#run, agent, n, waitMs)
  }

  async answered(agent: RunOwner, n: number, request: string | null, delivered: boolean): Promise<void> {
    await clients.noteAnswer(this.#run, agent, n, request, delivered)
  }

  async abandoned(agent: RunOwner, n: number): Promise<void> {
    await clients.abandonCall(this.#run, agent, n)
  }

  async cancelRequest(agent: RunOwner, request: string, by: Canceller): Promise<void> {
    await clients.cancelRequest(this.#run, agent, request, by)
  }

  /** Decides a call that the agent's own program executes. */
  async advise(input: ProposalInput): Promise<Result<Call>> {
    return adviseOn(this.#run, input)
  }

  async cancel(agent: RunOwner | null, n: number, by: Canceller): Promise<Result<Call>> {
    return cancelCall(this.#run, agent, n, by)
  }

  async cancelRun(agent: RunOwner | null, by: Canceller): Promise<Result<Run>> {
    return cancelRun(this.#run, agent, by)
  }

  async putFile(agent: RunOwner, digest: string, bytes: Uint8Array): Promise<Result<StoredFile>> {
    const refusal = () => {
      const { row } = this.#run
      return reads.mayRead(row, agent) ? (row.cancelled ? CANCELLED : undefined) : NO_RUN
    }
    return this.#run.uploads.put(this.#run, refusal, digest, bytes)
  }

  async listFiles(agent: RunOwner | null): Promise<Result<HeldFile[]>> {
    return reads.listFiles(this.#run, agent)
  }

  async read(agent: RunOwner | null, n: number, waitMs: number): Promise<Result<Call>> {
    return reads.readCall(this.#run, agent, n, waitMs)
  }

  async readRun(agent: RunOwner | null): Promise<Result<Run>> {
    return reads.readRun(this.#run, agent)
  }

  async journal(agent: RunOwner | null, after: number, waitMs: number): Promise<Result<JournalEntry[]>> {
    return reads.readJournal(this.#run, agent, after, waitMs)
  }

  async attestation(agent: RunOwner | null, n: number): Promise<Result<Bundle>> {
    return reads.readBundle(this.#run, agent, n)
  }

  async snapshot(agent: RunOwner | null, n: number): Promise<Result<PolicySnapshot>> {
    return reads.readSnapshot(this.#run, agent, n)
  }

  async file(
    agent: RunOwner | null,
    n: number,
    digest: string,
  ): Promise<Result<{ path: string; bytes: Uint8Array }>> {
    return reads.readFile(this.#run, agent, n, digest)
  }

  async explanation(agent: RunOwner | null, n: number): Promise<Result<DryRun>> {
    return reads.explainCall(this.#run, agent, n)
  }

  /** New output of a call for one subscriber; waits for some up to `ms`. */
  async nextOutput(
    agent: RunOwner | null,
    n: number,
    ...subscription: [Subscriber | null, StreamPosition, number]
  ): Promise<Result<OutputUpdate>> {
    return this.#run.output.next(() => reads.readableCall(this.#run, agent, n), ...subscription)
  }

  async unsubscribe(subscriber: Subscriber): Promise<void> {
    this.#run.output.leave(subscriber)
  }

  // ── Approvals ──

  async approval(n: number, reader?: Responder): Promise<Result<Approval>> {
    return reader === undefined
      ? approvals.viewApproval(this.#run, n)
      : approvals.viewApprovalFor(this.#run, n, reader)
  }

  async unfolded(n: number): Promise<Result<FullText[]>> {
    return approvals.readFullTexts(this.#run, n)
  }

  async editable(n: number): Promise<Result<Editable>> {
    return approvals.readEditable(this.#run, n)
  }

  async preview(
    n: number,
    by: string,
    channel: string,
    args: Record<string, unknown>,
  ): Promise<Result<Preview>> {
    return approvals.previewEdit(this.#run, n, { by, channel }, args)
  }

  /** `version`: of the directory that the caller was identified by in the same request. */
  async answer(
    n: number,
    by: string,
    channel: string,
    answer: Answer,
    version?: number,
  ): Promise<Result<Approval>> {
    return answerApproval(this.#run, n, { by, channel }, answer, version ?? null)
  }

  async revokeLinks(n: number, by: string, of: string | null): Promise<Result<Approval>> {
    return revokeLinks(this.#run, n, by, of)
  }

  /** The session has ended these standing answers. */
  async standingWithdrawn(ids: readonly string[]): Promise<void> {
    for (const id of ids) this.#run.withdrawnAnswers.add(id)
  }

  // ── Workers ──

  async claim(n: number, worker: Claimant, reported: WorkerResources): Promise<Result<Claim>> {
    return claimForWorker(this.#run, n, worker, reported)
  }

  async settle(
    n: number,
    worker: WorkerKey,
    settlement: Settlement,
  ): Promise<Result<{ state: CallState; attestation: Envelope }>> {
    return settleForWorker(this.#run, n, worker, settlement)
  }

  async inputPart(
    n: number,
    worker: string,
    digest: string,
    part: number,
  ): Promise<Result<{ data: string }>> {
    return workerCalls.readInputPart(this.#run, n, worker, digest, part)
  }

  async putOutput(n: number, worker: string, digest: string, bytes: Uint8Array): Promise<Result<StoredFile>> {
    return workerCalls.putOutputFile(this.#run, n, worker, digest, bytes)
  }

  async output(n: number, chunk: workerCalls.OutputChunk): Promise<Result<{ next: number; stop: boolean }>> {
    return workerCalls.storeOutput(this.#run, n, chunk)
  }

  async renew(worker: string, running: ReadonlyArray<{ n: number; fence: number }>): Promise<number[]> {
    return workerCalls.renewLeases(this.#run, worker, running)
  }

  // ── Other objects ──

  /** For a session that counts usage: the current state of the calls under these keys. */
  async shares(keys: readonly string[]) {
    return this.#run.usage.shares(keys)
  }

  /** The decisions that another policy set would have made on these calls. Changes nothing. */
  async rehearse(script: Script): Promise<Result<RehearsalOutcome[]>> {
    const { row, store } = this.#run
    return row === undefined ? err(NO_RUN) : rehearseRun(this.#run.env, store, row, script)
  }
}

/** One run, or the short runs of an agent that were made at about the same time. */
export class RunObject extends DurableObject<Env> {
  readonly #runs = new Runs(this.ctx, this.env)

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env)
    const { restores } = identityOf(env)
    // Before any request reaches a run. A failure rejects, which ends the object.
    if (restores > 0)
      void ctx.blockConcurrencyWhile(() => {
        const live = this.#runs.store.runsLive()
        return Promise.all(live.map((id) => this.#runs.use(id, (run) => endCallsOfBackup(run, restores))))
      })
  }

  async request(run: string, method: keyof RunRequests, given: readonly unknown[]): Promise<unknown> {
    if (isNewRun(run, method, given)) this.#runs.archived.isNew()
    return this.#runs.use(run, (context) => {
      const requests = new RunRequests(context)
      return (requests[method] as (...given: unknown[]) => unknown).apply(requests, [...given]) // `runObject` has the types
    })
  }

  /** The agents and sessions of the stored runs. The tenant's log has those of sealed ones. */
  async owners(): Promise<Array<Pick<RunRecord, 'agent' | 'session'>>> {
    return this.#runs.store.owners()
  }

  /** One part of the export of the runs; null if there are none. */
  async exportPart(from: string): Promise<ExportPart | null> {
    return exportPart(this.#runs, from)
  }

  /** The archive has an entry of which the tenant's rule no longer keeps something. */
  async removeExpired(): Promise<void> {
    await removeExpired(this.#runs)
  }

  /** Part of deleting the tenant. */
  async erase(): Promise<void> {
    await this.#runs.erase()
  }

  override async alarm(): Promise<void> {
    await this.#runs.alarm()
  }
}
