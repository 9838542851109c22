// Reads of a run for authorized callers: calls, journal, attestations, snapshots, files.

import { BUNDLE_FORMAT, type Bundle, type CallEvidence } from '../../shared/evidence/bundle.ts'
import type { JournalEntry } from '../../shared/evidence/journal.ts'
import type { PolicySnapshot } from '../../shared/evidence/policy-snapshot.ts'
import { type Removal, sealTombstone } from '../../shared/evidence/removal.ts'
import { failure } from '../../shared/failures.ts'
import { callId } from '../../shared/ids.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { HeldFile } from '../../shared/plan/call-files.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Call, DryRun } from '../../shared/wire/calls.ts'
import { journalRemovalText, type Kept } from '../../shared/wire/retention.ts'
import type { Run } from '../../shared/wire/runs.ts'
import { identityOf, logObject } from '../bindings.ts'
import type { CallRecord } from '../call/lifecycle.ts'
import { hasEnded } from '../call/lifecycle.ts'
import { removalOf } from '../call/removal.ts'
import { isOwner, type RunOwner, type RunRow } from '../call/run.ts'
import { digestInput, dryRunAgain } from '../decision/proposal.ts'
import { directoryOf } from '../directory/directory.ts'
import type { RunContext } from './context.ts'
import { REMOVED } from './object/page.ts'
import { rowOf } from './outbox.ts'
import { callFilesOf, callView, runView } from './views.ts'

const NO_RUN = failure('not_found', 'no such run')
const NO_CALL = failure('not_found', 'no such call')
const NO_FILE = failure('not_found', 'this call has no such file')
const NO_BYTES = failure(
  'not_found',
  'the bytes of this file have expired; only its digest is left in the call',
)
const NO_ATTESTATION = failure('not_found', 'no attestation yet: the call has not ended')
const LOG_BEHIND = failure('log_behind', 'the tenant’s log does not have the end of this call yet')
const NO_SNAPSHOT = failure('not_found', 'the call was decided before snapshots were kept')

/** `agent` is null if the caller may read every agent's runs. */
export const mayRead = (row: RunRow | undefined, agent: RunOwner | null): row is RunRow =>
  row !== undefined && (agent === null || isOwner(row.record, agent))

export const readableCall = (run: RunContext, agent: RunOwner | null, n: number): CallRecord | undefined =>
  mayRead(run.row, agent) ? run.store.call(n) : undefined

/** A readable call from which the retention rule has not removed this kind of data. */
function callWith(
  kind: Kept,
  run: RunContext,
  agent: RunOwner | null,
  n: number,
): Result<{ row: RunRow; record: CallRecord }> {
  const record = readableCall(run, agent, n)
  if (run.row === undefined || record === undefined) return err(NO_CALL)
  const removed = removalOf(record, kind)
  return removed === undefined ? ok({ row: run.row, record }) : err(removed)
}

export function viewCall(run: RunContext, record: CallRecord): Call {
  if (run.row === undefined) throw new Error('this run does not exist')
  const hasOutput = hasEnded(record.status) && record.status.finished !== null
  const output = hasOutput ? run.store.output(record.proposal.n) : null
  return callView(run.row.record, record, output, identityOf(run.env).publicUrl)
}

/** Waits up to `waitMs` for the end of the call. */
export async function readCall(
  run: RunContext,
  agent: RunOwner | null,
  n: number,
  waitMs: number,
): Promise<Result<Call>> {
  const record = readableCall(run, agent, n)
  if (record === undefined) return err(NO_CALL)
  if (hasEnded(record.status) || waitMs <= 0) return ok(viewCall(run, record))
  await run.waiters.wait(n, waitMs)
  return readCall(run, agent, n, 0)
}

export const readRun = ({ row }: RunContext, agent: RunOwner | null): Result<Run> =>
  mayRead(row, agent) ? ok(runView(row)) : err(NO_RUN)

export const listFiles = ({ row, store }: RunContext, agent: RunOwner | null): Result<HeldFile[]> =>
  mayRead(row, agent) ? ok(store.files.list()) : err(NO_RUN)

/** The entries after `after`; if there are none yet, waits up to `waitMs` for the next one. */
export async function readJournal(
  run: RunContext,
  agent: RunOwner | null,
  after: number,
  waitMs: number,
): Promise<Result<JournalEntry[]>> {
  if (!mayRead(run.row, agent)) return err(NO_RUN)
  const { record, seq } = run.row
  if (seq <= after) await run.waiters.wait('journal', waitMs)
  const entries = run.store.journal(record.id, after, agent === null)
  const [first] = entries
  return first?.kind === REMOVED
    ? err(failure('removed', journalRemovalText(first.seq, first.body as Removal))) // `removeJournals` wrote it
    : ok(entries)
}

/** The bundle of an ended call. It is the same for each reader, except for the head of the log. */
export async function readBundle(
  run: RunContext,
  agent: RunOwner | null,
  n: number,
): Promise<Result<Bundle>> {
  const evidence = readEvidence(run, agent, n)
  if (!evidence.ok) return evidence
  const snapshot = readSnapshot(run, agent, n)
  if (!snapshot.ok) return snapshot
  const journal = journalOfCall(run, n)
  const log = await inclusionOf(run, n)
  if (log === null || log.hash !== journal.at(-1)?.hash) return err(LOG_BEHIND)
  const { index, proof, checkpoint } = log
  return ok({
    format: BUNDLE_FORMAT,
    ...evidence.value,
    snapshot: snapshot.value,
    journal,
    log: { index, proof, checkpoint },
  })
}

/** The call's leaf in the tenant's log. The run delivers the end of the call at once if the log lacks it. */
async function inclusionOf(run: RunContext, n: number) {
  const log = logObject(run.env, rowOf(run).record.tenant)
  const call = callId(run.id, n)
  const known = await log.inclusionOf(call, 'cosigned')
  if (known !== null) return known
  await run.logNow()
  return log.inclusionOf(call, 'cosigned')
}

/** The entries from the call's first to its last; only its own, if there are too many others. */
function journalOfCall({ id, store }: RunContext, n: number): JournalEntry[] {
  const own = store.entriesOf(n)
  const [first = 1, last = 0] = [own[0], own.at(-1)]
  if (last - first < LIMITS.bundle_entries)
    return store.journal(id, first - 1).filter(({ seq }) => seq <= last)
  return own.flatMap((seq) => store.journal(id, seq - 1).slice(0, 1))
}

export function readEvidence(run: RunContext, agent: RunOwner | null, n: number): Result<CallEvidence> {
  const found = callWith('evidence', run, agent, n)
  if (!found.ok) return found
  const { row, record } = found.value
  const stored = run.store.attestation(n)
  if (stored === undefined) return err(NO_ATTESTATION)
  const { tool, args, plan } = record.proposal
  const call = digestInput(row.record, n, tool, args, plan)
  if (record.removed === undefined) return ok({ ...stored, call })
  // 0159: signed when it is read, so no row has to store it, and a new key signs it again.
  const { evidence: _evidence, ...removed } = record.removed // with it, the refusal above
  const { tenant } = row.record
  const { digest } = record.proposal
  const of = { of: 'parts', tenant, call: call.call, digest } as const
  const tombstone = sealTombstone({ ...of, removed }, identityOf(run.env).signer)
  const left = removed.arguments === undefined ? call : { ...call, arguments: null, plan: null }
  return ok({ ...stored, call: left, removed: tombstone })
}

export function readSnapshot(run: RunContext, agent: RunOwner | null, n: number): Result<PolicySnapshot> {
  const found = callWith('evidence', run, agent, n)
  if (!found.ok) return found
  const text = run.store.snapshot(found.value.record.status.decision.snapshot)
  return text === undefined ? err(NO_SNAPSHOT) : ok(JSON.parse(text) as PolicySnapshot) // `keepSnapshot` wrote it
}

export function readFile(
  run: RunContext,
  agent: RunOwner | null,
  n: number,
  digest: string,
): Result<{ path: string; bytes: Uint8Array }> {
  const record = readableCall(run, agent, n)
  const named = record === undefined ? undefined : callFilesOf(record).find(({ sha256 }) => sha256 === digest)
  if (named === undefined) return err(NO_FILE)
  const bytes = run.store.files.whole(digest)
  return bytes === undefined ? err(NO_BYTES) : ok({ path: named.path, bytes })
}

/** The decision on the call if it were proposed now, with its current answers. */
export async function explainCall(
  run: RunContext,
  agent: RunOwner | null,
  n: number,
): Promise<Result<DryRun>> {
  const found = callWith('arguments', run, agent, n)
  if (!found.ok) return found
  const { row, record } = found.value
  const directory = await directoryOf(run.env, row.record.tenant)
  const answers = record.status.approval?.answers ?? []
  const facts = run.usage.decisionFacts(directory, row, record, answers, null)
  return dryRunAgain(directory, row, record, facts, agent === null ? 'operator' : 'agent')
}
