// Proposes a call: gather facts from other objects, decide, store. A call is decided once. Only if
// policy would ask people, a second stage follows with the session's standing answers and the
// call's number among the agent's questions.

import { digestOf } from '../../../shared/bytes/json.ts'
import { identityOfActor } from '../../../shared/evidence/actor.ts'
import { failure } from '../../../shared/failures.ts'
import { isSharedRun } from '../../../shared/ids.ts'
import { LIMITS } from '../../../shared/limits.ts'
import type { FileRef, InputFile } from '../../../shared/plan/call-files.ts'
import type { Result } from '../../../shared/result.ts'
import { err, ok } from '../../../shared/result.ts'
import type { Call } from '../../../shared/wire/calls.ts'
import { type CallRecord, hasEnded } from '../../call/lifecycle.ts'
import { isOwner, type RunRecord, type RunRow } from '../../call/run.ts'
import type { Used } from '../../call/usage.ts'
import {
  type NewCall,
  type PreparedProposal,
  prepareProposal,
  type ResolvedProposal,
  replayProposal,
} from '../../decision/proposal.ts'
import { directoryAt } from '../../directory/directory.ts'
import type { LoadedDirectory } from '../../directory/loaded-directory.ts'
import type { RunContext } from '../context.ts'
import { hasRoomAtEdge } from '../edge-calls.ts'
import { countCall, isPoolFull, needsWorker, queueIsFull } from '../outbox.ts'
import { readCall, viewCall } from '../reads.ts'
import {
  applyStandingAnswers,
  findStandingAnswers,
  type StandingAnswers,
  standingKey,
} from '../standing-answers.ts'
import type { CallKeys } from '../store.ts'
import type { RunTransaction } from '../transaction.ts'
import type { UsageReservation } from '../usage-ledger.ts'

/** A proposal as sent. Its files are references to files that were put into the run. */
export type ProposalInput = Omit<ResolvedProposal, 'files'> & { files: readonly FileRef[] } & {
  version: number
  key: string | null
  /** The run to create, if the proposal makes its own. */
  create: RunRecord | null
  /** Whether an equal call that is unfinished, or whose answer was not received, is the answer. */
  join: boolean
  waitMs: number
}
/** `joined`: the call is that of an earlier proposal. */
export type ProposedCall = { readonly call: Call; readonly joined: boolean }

const NO_RUN = failure('not_found', 'no such run')
const OTHER_RUN = failure('idempotency_key_reused', 'this key has created a run with other settings')
export const NO_ROOM = failure(
  'unavailable',
  'there was no room to store this run with others; propose the call again',
)
const RECEIVED_SINCE = failure(
  'unavailable',
  'an identical call ended, and its client received the answer just now; propose the call again',
)
const TOO_MANY_PENDING = failure(
  'too_many_pending',
  'this run already has the most open approvals that a run may have',
)

/** Resolves when the call has ended, or after `waitMs`. */
export async function proposeCall(run: RunContext, input: ProposalInput): Promise<Result<ProposedCall>> {
  if (hasNoPlace(run, run.row, input)) return err(NO_ROOM) // before it is counted anywhere
  const record = run.row?.record ?? input.create
  if (record === undefined || record === null || !isOwner(record, input.agent)) return err(NO_RUN)
  const facts = await lookUpProposal(run, record, input)
  const first = await run.transact((tx) => commitProposal(run, tx, input, facts))
  if (!first.ok) return finish(run, record, input, facts, first)
  if (first.value.kind !== 'undecided') return finish(run, record, input, facts, ok(first.value))
  const asking = await lookUpQuestion(run, record, facts, first.value)
  const second = await run.transact((tx) => commitProposal(run, tx, input, asking))
  return finish(run, record, input, asking, second.ok ? ok(storedCall(second.value)) : second)
}

/** Facts from other objects about a proposal. Only the second stage has `asking`. */
type ProposalFacts = {
  readonly directory: LoadedDirectory
  readonly joinKey: string | null
  /** An earlier call is the answer, so nothing was reserved or counted. */
  readonly isRepeated: boolean
  readonly reservation: UsageReservation | null
  /** Whether the tenant's quotas have room for a new call. If not, nothing is stored for it. */
  readonly counted: Result<true>
  readonly isPoolFull: boolean
  readonly asking: { readonly standing: StandingAnswers; readonly undecided: UndecidedCall } | null
}
/**
 * A call that policy asks about, and to which standing answers may apply, with the row from which
 * it was decided.
 */
type UndecidedCall = {
  readonly kind: 'undecided'
  readonly key: string
  readonly call: NewCall
  readonly row: RunRow
  readonly reservation: UsageReservation | null
}
type StoredCall = { readonly kind: 'new' | 'earlier'; readonly call: CallRecord }
type Outcome = StoredCall | UndecidedCall

async function lookUpProposal(
  run: RunContext,
  record: RunRecord,
  input: ProposalInput,
): Promise<ProposalFacts> {
  const directory = await directoryAt(run.env, record.tenant, input.version)
  const joinKey = joinKeyOf(directory, input)
  const isRepeated = earlierCall(run, input, joinKey) !== undefined
  const facts = { directory, joinKey, isRepeated, asking: null }
  if (isRepeated) return { ...facts, counted: ok(true), reservation: null, isPoolFull: false }
  const counting = countCall(run.env, record.tenant)
  const [counted, reservation, isFull] = await Promise.all([
    counting,
    counting.then((counted) => (counted.ok ? run.usage.reserve(directory, record, input) : null)),
    isPoolFull(run.env, directory, record),
  ])
  return { ...facts, counted, reservation, isPoolFull: isFull }
}

/**
 * An idempotency key says which calls are one, so calls with a key are not joined by content. The
 * actor is part of the content: policy may have decided the call for this actor alone.
 */
function joinKeyOf(
  { tools }: LoadedDirectory,
  { join, key, tool, args, origin: { actor } }: ProposalInput,
): string | null {
  if (!join || key !== null) return null
  const digest = tools.get(tool)?.tool.digest ?? null
  return digestOf([tool, digest, digestOf(args), actor === undefined ? null : identityOfActor(actor)])
}

/**
 * The call of an earlier proposal with the same key or, if its answer was not received, with the
 * same content.
 */
function earlierCall(
  run: RunContext,
  { key }: ProposalInput,
  joinKey: string | null,
): CallRecord | undefined {
  if (key !== null) return run.store.callByKey(key)
  const equal = joinKey === null ? undefined : run.store.callToJoin(joinKey)
  const isRecent =
    equal !== undefined && (!hasEnded(equal.status) || Date.now() - equal.status.at < LIMITS.mcp_join_ms)
  return isRecent ? equal : undefined
}

async function lookUpQuestion(
  run: RunContext,
  record: RunRecord,
  facts: ProposalFacts,
  undecided: UndecidedCall,
): Promise<ProposalFacts> {
  const [reservation, standing] = await Promise.all([
    run.usage.reserveQuestion(record, facts.reservation),
    findStandingAnswers(run.env, record, undecided),
  ])
  return { ...facts, reservation, asking: { standing, undecided } }
}

/** The checks of a proposal, in order. Nothing is stored of a call that is still undecided. */
function commitProposal(
  run: RunContext,
  tx: RunTransaction,
  input: ProposalInput,
  facts: ProposalFacts,
): Result<Outcome> {
  const { directory, joinKey, isRepeated, reservation, counted } = facts
  if (tx.row === undefined && !counted.ok) return counted
  const opened = openRun(run, tx, input)
  if (!opened.ok) return opened
  const row = opened.value
  const earlier = earlierCall(run, input, joinKey) // in the transaction: of two equal proposals at once, one joins (L2)
  if (earlier !== undefined) {
    if (input.join) tx.cancelAt(earlier.proposal.n, null)
    return storedAs('earlier', replayProposal(directory, earlier, input))
  }
  if (isRepeated) return err(RECEIVED_SINCE) // L6: a new call would use no quota and no budget
  if (!counted.ok) return counted
  const files = run.store.files.sized(input.files)
  if (!files.ok) return files
  const uses = usesOf(run, row, input, facts)
  const decided = decideProposal(row, { ...input, files: files.value }, uses, facts, run.withdrawnAnswers)
  if (decided.kind === 'refused') tx.countRefusal()
  if (decided.kind === 'refused' || decided.kind === 'closed') return err(decided.failure)
  const { decision } = decided.call
  if (decision.effect === 'ask' && run.store.pendingApprovals() >= LIMITS.pending_approvals_per_run)
    return err(TOO_MANY_PENDING)
  if (decided.kind === 'undecided') return ok({ ...decided, row, reservation })
  const waits = checkRoom(row, decided.call, facts)
  if (!waits.ok) return waits
  const keys = {
    key: input.key ?? reservation?.key ?? null,
    joinKey: mayBeJoined(decided.call, input) ? joinKey : null,
  }
  return storedAs('new', storeCall(tx, decided.call, files.value, keys))
}

/** The caller's own run; created if the proposal makes one. */
function openRun(run: RunContext, tx: RunTransaction, { agent, create, key }: ProposalInput): Result<RunRow> {
  if (hasNoPlace(run, tx.row, { create, key })) return err(NO_ROOM)
  const row = create === null ? tx.row : tx.createRun(create)
  if (create !== null && !isSameRun(row, create)) return err(OTHER_RUN)
  return row !== undefined && isOwner(row.record, agent) ? ok(row) : err(NO_RUN)
}

/**
 * Whether a new run needs another object, because this one is full or the run of another key has its id.
 * A run with a call belongs to the keys of its calls for good, so each key always leads to the same run
 * (L2).
 */
function hasNoPlace(
  run: RunContext,
  row: RunRow | undefined,
  { create, key }: Pick<ProposalInput, 'create' | 'key'>,
): boolean {
  if (create === null || !isSharedRun(create.id)) return false
  if (row === undefined) return !run.hasRoom
  return row.calls > 0 && (key === null || run.store.callByKey(key) === undefined)
}

export const isSameRun = (
  row: RunRow | undefined,
  { fingerprint, agent: name, agentSince: since }: RunRecord,
): boolean => row?.record.fingerprint === fingerprint && isOwner(row.record, { name, since })

/** The usage before the call, for the set in force and for the shadow set. */
type Uses = { readonly used: Used | 'uncounted' | null; readonly shadowUsed: Used | 'uncounted' | null }

function usesOf(
  run: RunContext,
  row: RunRow,
  { tool }: ProposalInput,
  { directory, reservation }: ProposalFacts,
): Uses {
  const usedIn = (seen: LoadedDirectory) => run.usage.usedBefore(seen, row, tool, reservation)
  return {
    used: usedIn(directory),
    shadowUsed: directory.shadow === null ? null : usedIn(directory.shadow.directory),
  }
}

type ProposalDecision =
  | Exclude<PreparedProposal, { kind: 'new' }>
  | { kind: 'new'; call: NewCall }
  | { kind: 'undecided'; key: string; call: NewCall }

/** Pure. In the second stage the first decision counts, unless its inputs have changed since. */
function decideProposal(
  row: RunRow,
  request: ResolvedProposal,
  { used, shadowUsed }: Uses,
  { directory, reservation, asking }: ProposalFacts,
  withdrawn: ReadonlySet<string>,
): ProposalDecision {
  const isCurrent = asking !== null && hasSameInputs(asking.undecided, row, reservation)
  const prepared: PreparedProposal = isCurrent
    ? { kind: 'new', ...asking.undecided.call }
    : prepareProposal(directory, row, request, { used, shadowUsed, now: Date.now() })
  if (prepared.kind !== 'new') return prepared
  const { kind, ...call } = prepared
  const key = standingKey(row.record, call)
  if (key === null) return { kind, call }
  if (asking === null) return { kind: 'undecided', key, call }
  const answers = asking.standing.key === key ? asking.standing.answers : []
  return { kind, call: applyStandingAnswers(directory, row, call, used, answers, withdrawn) }
}

/**
 * Whether nothing has happened in the run since (each event has a journal entry, each refusal is
 * counted) and the counts are the same.
 */
const hasSameInputs = (
  undecided: UndecidedCall,
  { seq, denied }: RunRow,
  reservation: UsageReservation | null,
): boolean =>
  undecided.row.seq === seq && undecided.row.denied === denied && undecided.reservation === reservation

/** Checked before anybody is asked. A denied call waits for nothing. */
function checkRoom(
  row: RunRow,
  { proposal, decision }: NewCall,
  { isPoolFull }: ProposalFacts,
): Result<true> {
  const hasRoom = needsWorker(proposal) ? !isPoolFull : hasRoomAtEdge(row, proposal.plan)
  return hasRoom || decision.effect === 'deny' ? ok(true) : err(queueIsFull(proposal))
}

/**
 * A denial is decided again each time. So is a call that the agent's own program executes, unless
 * it waits for people: one yes is for one execution (L2).
 */
const mayBeJoined = ({ decision: { effect }, permitted }: NewCall, { advice }: ProposalInput): boolean =>
  advice === true ? effect === 'ask' && permitted?.effect !== 'allow' : effect !== 'deny'

function storeCall(
  tx: RunTransaction,
  { proposal, decision, ask, snapshot, permitted }: NewCall,
  files: readonly InputFile[],
  keys: CallKeys,
): Result<CallRecord> {
  tx.keepSnapshot(snapshot)
  tx.nameFiles(files)
  tx.countCall(proposal.n, decision.effect === 'deny')
  return tx.apply(
    proposal,
    { kind: 'proposed', decision, ask, ...(permitted === undefined ? {} : { permitted }) },
    keys,
  )
}

const storedAs = (kind: StoredCall['kind'], stored: Result<CallRecord>): Result<Outcome> =>
  stored.ok ? ok({ kind, call: stored.value }) : stored

function storedCall(outcome: Outcome): StoredCall {
  if (outcome.kind === 'undecided')
    throw new Error('a call is undecided though its standing answers are known')
  return outcome
}

/** Returns the unused part of the reservation, and reads the call. */
async function finish(
  run: RunContext,
  record: RunRecord,
  input: ProposalInput,
  { joinKey, reservation }: ProposalFacts,
  stored: Result<StoredCall>,
): Promise<Result<ProposedCall>> {
  // A call that this one joined has its own place in the counts, so ours is returned. Proposals
  // with the same key share one place.
  const ownPlace = stored.ok && !(stored.value.kind === 'earlier' && joinKey !== null)
  const used = ownPlace ? stored.value.call : null
  if (reservation !== null) run.waitUntil(run.usage.release(record, reservation, used))
  if (!stored.ok) return stored
  const { kind, call } = stored.value
  const joined = kind === 'earlier'
  if (hasEnded(call.status)) return ok({ call: viewCall(run, call), joined })
  const read = await readCall(run, input.agent, call.proposal.n, input.waitMs)
  return read.ok ? ok({ call: read.value, joined }) : read
}
