// What workers do to the calls of a run: claim one, stream its output, settle it, speak for it. Each is checked against the call as it is
// stored, and is one event of it, applied by the run. It decides nothing itself: policy is asked with the grounds that the answers give.

import type { Envelope } from '../shared/dsse.ts'
import { countersign } from '../shared/dsse.ts'
import { failure } from '../shared/failures.ts'
import type { OutputFiles } from '../shared/files.ts'
import { canonical } from '../shared/json.ts'
import { LIMITS } from '../shared/limits.ts'
import { type ProcessPlan, secretsOf } from '../shared/plan.ts'
import type { Result } from '../shared/result.ts'
import { err, ok } from '../shared/result.ts'
import type { CallState, Grant } from '../shared/statement.ts'
import { sealGrant } from '../shared/statement.ts'
import { type Means, narrowed, unmet } from '../shared/worker-proof.ts'
import type { Claim, Settlement } from '../shared/worker-wire.ts'
import { directoryOf, type Loaded } from './directory.ts'
import type { Env } from './env.ts'
import { identityOf, tenantObject } from './env.ts'
import { claimedUnder } from './granted-under.ts'
import type { Leases } from './leases.ts'
import type { CallRecord, Event } from './lifecycle.ts'
import { hasEnded } from './lifecycle.ts'
import type { Answers, RunAccess } from './run-answers.ts'
import type { RunFiles } from './run-files.ts'
import { folderGone, holderOf, sharesFolder } from './run-folder.ts'
import type { RunRow } from './run-record.ts'
import { factsOf } from './run-record.ts'
import type { RunStore } from './run-store.ts'
import type { WorkerKey } from './settlement.ts'
import { checkSettlement, finishedOf } from './settlement.ts'
import type { EnrolledWorker } from './worker-gate.ts'
import { meansNow, unclaimable } from './worker-means.ts'

/** `process`: the worker's process that claims. */
export type Claimant = WorkerKey & Pick<EnrolledWorker, 'pool' | 'tiers' | 'proven' | 'process'>

const SECRET_GONE = failure('not_claimable', 'the tool of the call may not have a secret that it needs any more')

const SENT_ON_MS = 5_000

/** What others know of calls whose time may have come; nothing where they could not be asked. */
export type Known = { readonly folderGone?: string | undefined; readonly pool?: (name: string) => readonly EnrolledWorker[] }

/** What the worker has proven of its sandbox, and so what its statement may claim later. */
function provenFor({ profile }: ProcessPlan, { cgroups, profiles }: Means): NonNullable<Grant['proven']> {
  const own = profiles.find(({ name }) => name === profile)
  return { cgroups, ...(own === undefined ? {} : { profile_sha256: own.sha256 }) }
}

const keepsFiles = ({ proposal: { plan } }: Pick<CallRecord, 'proposal'>): boolean =>
  plan !== null && plan.tier !== 'A' && plan.outputs === true

export class Work {
  readonly #env: Env
  readonly #store: RunStore
  readonly #answers: Answers
  readonly #leases: Leases
  readonly #files: RunFiles
  readonly #run: RunAccess
  /** When a call was last sent on to a worker that can have it. */
  readonly #sentOn = new Map<number, number>()

  constructor(env: Env, store: RunStore, answers: Answers, leases: Leases, files: RunFiles, run: RunAccess) {
    this.#env = env
    this.#store = store
    this.#answers = answers
    this.#leases = leases
    this.#files = files
    this.#run = run
  }

  /** `said`: what the worker says that it has at this moment, which may be less than what it has proven. */
  async claim(n: number, worker: Claimant, said: Means): Promise<Result<Claim>> {
    const row = this.#run.row()
    if (row === undefined) return err(failure('not_claimable', 'no such call'))
    const directory = await directoryOf(this.#env, row.record.tenant)
    const grounds = await this.#answers.grounds(directory, row, n)
    if (!grounds.ok) return grounds
    return this.#run.commit(() => {
      const record = this.#store.call(n)
      // Tier A is no worker's.
      if (record?.proposal.plan == null || record.proposal.plan.tier === 'A' || record.proposal.pool !== worker.pool)
        return err(failure('not_claimable', 'no such call in your pool'))
      const { proposal, status } = record
      const { plan, args, digest } = { ...proposal, plan: record.proposal.plan }
      // L7: values leave here alone, in an answer that is kept nowhere; an earlier answer that was lost is given again, to the process that
      // it was for and while the tool may have them.
      const { vault } = directory
      const withheld = vault.withholds({ name: proposal.tool.name, secrets: plan.secrets, credentials: plan.credentials })
      const secrets = withheld === undefined ? vault.values(secretsOf(plan)) : undefined
      const handOver = (grant: Envelope): Result<Claim> =>
        secrets === undefined ? err(SECRET_GONE) : ok({ grant, plan, args, facts_digest: digest, secrets })
      const lost = this.#lostAnswer(record, worker)
      if (lost !== undefined) return handOver(lost)
      const holder = holderOf(row.folder, plan)
      if (holder !== null && holder !== worker.id) {
        this.#run.ring(record) // it was rung for all before the run had a folder
        return err(failure('not_claimable', 'the folder of its run is on another worker'))
      }
      const now = Date.now()
      const means = narrowed(meansNow(worker, now), said)
      const lacking = unmet(plan, means) // L8, K04: it waits for a worker that has proven it
      if (lacking.length > 0) {
        this.#sendOn(record, worker.id, directory, now)
        return err(failure('sandbox_unavailable', `the call needs what is not proven on the worker: ${lacking.join(', ')}`))
      }
      const decision = this.#answers.judgeClaim(directory, record, grounds.value)
      const grant: Grant = {
        facts: factsOf(row.record, { proposal, status: { ...status, decision: claimedUnder(status.decision, decision) } }),
        worker: worker.id,
        fence: status.state === 'granted' ? status.fence + 1 : 1,
        issued_at_ms: now,
        deadline_ms:
          now +
          (plan.files === undefined && plan.outputs === undefined ? 0 : LIMITS.files_ms) +
          plan.limits.timeout_ms +
          LIMITS.settle_grace_ms,
        proven: provenFor(plan, means),
        ...(sharesFolder(plan) ? { folder: row.folder?.used === true ? ('kept' as const) : ('new' as const) } : {}),
      }
      const envelope = sealGrant(grant, identityOf(this.#env).signer)
      const done = this.#run.apply(record, {
        kind: 'claimed',
        worker: worker.id,
        process: worker.process,
        deadline: grant.deadline_ms,
        grant: envelope,
        decision,
      })
      if (!done.ok) return done
      this.#leases.forget(n) // reports for an earlier fence
      return done.value.status.state === 'running'
        ? handOver(envelope)
        : err(failure('not_claimable', 'policy does not allow the call any more'))
    })
  }

  /**
   * The grant, for the process whose claim was granted, which may ask again because the answer was lost. A process that has reported on the
   * call has the answer, and another process of the same worker never claimed the call (L2, D6).
   */
  #lostAnswer({ proposal: { n }, status }: CallRecord, { id, process }: Claimant): Envelope | undefined {
    if (status.state !== 'running' || status.worker !== id || status.cancelRequested) return undefined
    if (process === null || status.process !== process || Date.now() - status.claimedAt > LIMITS.claim_again_ms) return undefined
    const spoke = this.#leases.isHeld(n) || this.#store.outputEnd(n, 'stdout') + this.#store.outputEnd(n, 'stderr') > 0
    return spoke ? undefined : status.grant
  }

  /**
   * To one that has proven what the call needs, by its own bell: the pool's might wake the same again. Not at once once more, for workers
   * that have less than they have proven would send it to and fro.
   */
  #sendOn(record: CallRecord, from: string, { workers }: Loaded, now: number): void {
    const { n, plan, pool } = record.proposal
    if (plan === null || plan.tier === 'A' || now - (this.#sentOn.get(n) ?? 0) < SENT_ON_MS) return
    const able = [...workers.values()].filter(
      ({ row }) => row.pool === pool && row.id !== from && unmet(plan, meansNow(row, now)).length === 0,
    )
    const one = able[Math.floor(Math.random() * able.length)]
    if (one === undefined) return
    this.#sentOn.set(n, now)
    this.#run.ring(record, one.row.id)
  }

  /** To whom the call runs at, and of what it brings alone. */
  inputPart(n: number, worker: string, digest: string, part: number): Result<{ data: string }> {
    const record = this.#store.call(n)
    const brings = record?.proposal.files?.some(({ sha256 }) => sha256 === digest) ?? false
    const mine = record?.status.state === 'running' && record.status.worker === worker
    const bytes = brings && mine ? this.#store.files.part(digest, part) : undefined
    return bytes === undefined
      ? err(failure('not_found', 'no such part of a file of a call of yours'))
      : ok({ data: bytes.toString('base64') })
  }

  /** Until it is settled nothing names it, and nobody is shown it. */
  putOutput(n: number, worker: string, digest: string, bytes: Uint8Array): Promise<Result<{ sha256: string; bytes: number }>> {
    const refusal = () => {
      const record = this.#store.call(n)
      const mine = record?.status.state === 'running' && record.status.worker === worker && keepsFiles(record)
      return mine ? undefined : failure('not_found', 'no such call of yours that keeps files')
    }
    return this.#files.put(refusal, digest, bytes)
  }

  /** A stream is kept whole from its beginning: what lies behind a gap, was there before or is beyond the plan's bound is not taken. */
  async output(
    n: number,
    worker: string,
    fence: number,
    stream: 'stdout' | 'stderr',
    offset: number,
    data: Uint8Array,
  ): Promise<Result<{ next: number; stop: boolean }>> {
    return this.#run.commit(() => {
      const record = this.#store.call(n)
      const status = record?.status
      if (status?.state !== 'running' || status.worker !== worker || status.fence !== fence)
        return err(failure('stale_fence', 'the call is not running under this fence'))
      this.#leases.hold(n, status.deadline)
      const end = this.#store.outputEnd(n, stream)
      const most = record?.proposal.plan?.limits.output_bytes ?? 0
      const fresh = offset > end ? Buffer.alloc(0) : Buffer.from(data.subarray(end - offset, most - offset))
      if (fresh.byteLength > 0) {
        this.#store.saveOutput(n, stream, end, fresh)
        this.#run.wrote(n)
      }
      return ok({ next: end + fresh.byteLength, stop: status.cancelRequested })
    })
  }

  async settle(n: number, worker: WorkerKey, settlement: Settlement): Promise<Result<{ state: CallState; attestation: Envelope }>> {
    return this.#run.commit(() => {
      const record = this.#store.call(n)
      if (record === undefined) return err(failure('stale_fence', 'no such call'))
      const { status } = record
      const before = this.#store.attestation(n)
      if (hasEnded(status) && before?.envelope.payload === settlement.envelope.payload)
        return ok({ state: status.state, attestation: before.envelope }) // its first answer was lost
      if (status.state !== 'running' || status.worker !== worker.id || status.fence !== settlement.fence)
        return err(failure('stale_fence', `the call is ${status.state}`))
      const { plan } = record.proposal
      const { grant, cancelRequested } = status
      const checked = checkSettlement(settlement, { worker, grant, plan, cancelRequested, now_ms: Date.now() })
      if (!checked.ok) return checked
      const { statement, kept, ending } = checked.value
      const { execution } = statement.predicate
      const held = this.#holds(record, execution.files)
      if (!held.ok) return held
      const attestation = countersign(settlement.envelope, identityOf(this.#env).signer)
      this.#store.saveAttestation(n, attestation, status.grant)
      this.#store.replaceOutput(n, kept)
      const done = this.#run.apply(record, {
        kind: 'settled',
        worker: worker.id,
        fence: settlement.fence,
        ...ending,
        refused: statement.predicate.execution.outcome?.kind === 'refused',
        ...finishedOf(statement),
      })
      return done.ok ? ok({ state: ending.state, attestation }) : done
    })
  }

  /** What is attested as kept is here, byte for byte, and the plan said so. */
  #holds({ proposal }: CallRecord, left: OutputFiles | undefined): Result<true> {
    if (left === undefined) return ok(true)
    const sized = this.#store.files.sized(left.files)
    const fits = keepsFiles({ proposal }) && sized.ok && canonical(sized.value) === canonical(left.files)
    if (!fits) return err(failure('attestation_invalid', 'the files are not those that were put'))
    this.#store.files.keep(left.files, Date.now())
    return ok(true)
  }

  /** Asked before time is judged, and only where a call waits whose end may hang on it. Who can't be asked has not said it. */
  async heard({ folder, record: { tenant } }: RunRow): Promise<Known> {
    const now = Date.now()
    const waiting = this.#store.due(now).filter(({ status }) => status.state === 'granted')
    const shares = folder === null ? undefined : waiting.find(({ proposal }) => sharesFolder(proposal.plan))
    const lapses = waiting.some(({ status }) => status.state === 'granted' && now >= status.until)
    const [heardAt, directory] = await Promise.all([
      folder === null || shares === undefined
        ? now
        : tenantObject(this.#env, tenant)
            .heardOf(folder.worker, shares.proposal.pool)
            .catch(() => now),
      lapses ? directoryOf(this.#env, tenant).catch(() => undefined) : undefined,
    ])
    const workers = directory === undefined ? undefined : [...directory.workers.values()].map(({ row }) => row)
    return {
      folderGone: folderGone(heardAt, now),
      ...(workers === undefined ? {} : { pool: (name) => workers.filter(({ pool }) => pool === name) }),
    }
  }

  /** That time has come for a call, with what is known of whom it waits for. */
  due({ proposal: { n, plan, pool } }: CallRecord, { folder }: RunRow, heard: Known, now: number): Extract<Event, { kind: 'due' }> {
    const lost = holderOf(folder, plan) === null ? undefined : heard.folderGone
    const unclaimed = plan === null || heard.pool === undefined ? undefined : unclaimable(plan, heard.pool(pool), now)
    return {
      kind: 'due',
      leaseUntil: this.#leases.until(n),
      ...(lost === undefined ? {} : { folderGone: lost }),
      ...(unclaimed === undefined ? {} : { unclaimable: unclaimed }),
    }
  }

  /** A worker speaks for what it runs; the answer names what to stop. Leases live in memory: after a restart each call gets one anew. */
  renew(worker: string, running: ReadonlyArray<{ n: number; fence: number }>): number[] {
    return running.flatMap(({ n, fence }) => {
      const status = this.#store.call(n)?.status
      if (status?.state !== 'running' || status.worker !== worker || status.fence !== fence) return [n]
      this.#leases.hold(n, status.deadline)
      return status.cancelRequested ? [n] : []
    })
  }
}
