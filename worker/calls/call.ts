// Takes one call through this worker: claim, verify, run, settle. Nothing runs before its grant is
// verified against the exact bytes that will run (L1, P08), nothing runs twice (L2), and every end
// is reported (L5). Logs contain ids and codes, never arguments or output.

import { endingOf } from '../../shared/evidence/statement.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Output } from '../../shared/routes/client.ts'
import type { Config } from '../config.ts'
import { errorReport } from '../host/error-report.ts'
import type { Log } from '../host/log.ts'
import type { EdgeLink } from '../link/client.ts'
import type { EdgeKeys } from '../link/edge-keys.ts'
import type { Identity } from '../link/identity.ts'
import { meansOf, type ProvenSandbox } from '../proof/proof.ts'
import type { Doorbell } from '../queue/doorbells.ts'
import { type ExecutionResult, notStarted, settlementOf } from './attestation.ts'
import type { CallInFlight, CallsInFlight } from './in-flight.ts'
import type { OutputStreams } from './output-stream.ts'
import type { RunFolders } from './run-folders.ts'
import { abortedBefore, runInSandbox } from './run-in-sandbox.ts'
import type { SettlementSender } from './settlements.ts'
import type { Spool } from './spool.ts'
import { type ClaimVerdict, signerOf, verifyClaim } from './verify-grant.ts'

export type CallContext = {
  readonly identity: Identity
  readonly edgeKeys: EdgeKeys
  /** This process's random id, by which the edge allows one process per worker. */
  readonly process: string
  readonly link: EdgeLink
  readonly spool: Spool
  readonly settling: SettlementSender
  readonly streaming: OutputStreams
  readonly running: CallsInFlight
  readonly runFolders: RunFolders
  /** The result of the latest probe. */
  readonly proven: () => ProvenSandbox
  /** Limits that no call exceeds, whatever its plan says. */
  readonly ceilings: Config['limits']
  /** Aborted when the worker stops starting calls. */
  readonly draining: AbortSignal
  readonly log: Log
}

export async function executeCall(doorbell: Doorbell, context: CallContext): Promise<void> {
  const inFlight = context.running.add(doorbell.call)
  // A second doorbell of a call in progress (Q04).
  if (inFlight === undefined)
    return context.log.say('dropped a second doorbell of a call in progress', { call: doorbell.call })
  const release = context.proven().sandbox.prepared?.callStarted() ?? (() => undefined)
  try {
    await claimAndRun(doorbell, inFlight, context, release)
  } finally {
    release()
    await Promise.all(inFlight.cleanups)
    context.running.remove(inFlight)
  }
}

/** Calls `release` once only the edge's answer to the settlement is outstanding. */
async function claimAndRun(
  doorbell: Doorbell,
  inFlight: CallInFlight,
  context: CallContext,
  release: () => void,
): Promise<void> {
  const { call } = doorbell
  const { identity, link, log, spool } = context
  const ignore = (reason: string, code?: string): void =>
    log.say('a doorbell was ignored', { call, reason, code })
  await context.settling.whenOffered()
  if (context.draining.aborted) return ignore('the worker is stopping; the edge will ring again')
  if (spool.full) return ignore('the spool is full')
  const room = spool.prepare()
  if (!room.ok) return ignore(`the spool is not writable (${room.error})`)

  const rang_ms = performance.now()
  const claim = await link.requestUntilFinal(
    'claim',
    { body: { ...doorbell, ...meansOf(context.proven()), process: context.process } },
    // The edge rings again for an unclaimed call.
    { patience_ms: LIMITS.claim_again_ms, signal: context.draining },
  )
  if (!claim.ok) return ignore(claim.error.detail, claim.error.code)
  const claimed_ms = performance.now()

  const verdict = await verifiedOnceKeyKnown(claim.value, doorbell, inFlight, context)
  if (verdict.kind === 'stray')
    return log.warn('the answer to a claim holds no grant for this call and worker', {
      call,
      reason: verdict.reason,
    })
  const { grant } = verdict
  const begun = spool.begin(call, grant.fence)
  // L2: the earlier execution's end is unknown, so report none.
  if (begun.ok && !begun.value) return ignore('this worker already started it')
  inFlight.fence = grant.fence
  const result = begun.ok
    ? await runUnlessUntrusted(verdict, inFlight, context).catch(
        (error): ExecutionResult => resultOfBug(error, call, context),
      )
    : notStarted(
        { kind: 'infra', detail: `the worker’s spool is not writable (${begun.error})` },
        link.clock.now(),
      )
  const ended_ms = performance.now()

  const settlement = settlementOf(grant, verdict.grant_sha256, result, identity.signer)
  const settling = context.settling.settle({ call, deadline_ms: grant.deadline_ms, settlement })
  release()
  const sent = await settling
  log.say('ended', {
    call,
    tool: grant.facts.tool.name,
    ...endingFields(result),
    tier: verdict.kind === 'verified' ? verdict.plan.tier : null,
    claim_ms: tenths(claimed_ms - rang_ms),
    run_ms: tenths(ended_ms - claimed_ms),
    settle_ms: tenths(performance.now() - ended_ms),
    ...(sent === 'acknowledged' ? {} : { result: sent }),
  })
}

/**
 * Verifies the claim. If the grant names a key that is unknown here, asks the edge for it first, until
 * the deadline of the grant: a refusal is final, so an edge that can't be reached must not cause one.
 */
async function verifiedOnceKeyKnown(
  claim: Output<'claim'>,
  doorbell: Doorbell,
  inFlight: CallInFlight,
  { identity: { tenant, worker }, edgeKeys, link }: CallContext,
): Promise<ClaimVerdict> {
  const edgeKey = (kid: string) => edgeKeys.accepted(kid, link.clock.now())
  const verify = () => verifyClaim(claim, { tenant, ...doorbell, worker, edgeKey, now_ms: link.clock.now() })
  const verdict = verify()
  if (verdict.kind !== 'untrusted' || edgeKey(signerOf(claim.grant)) !== undefined) return verdict
  const { fence, deadline_ms } = verdict.grant
  inFlight.fence = fence // heartbeats name the call, so its lease holds while we ask
  await edgeKeys.learn({ patience_ms: deadline_ms - link.clock.now(), signal: inFlight.stop.signal })
  return verify()
}

async function runUnlessUntrusted(
  verdict: Exclude<ClaimVerdict, { kind: 'stray' }>,
  inFlight: CallInFlight,
  context: CallContext,
): Promise<ExecutionResult> {
  const { link, runFolders, streaming } = context
  const { signal } = inFlight.stop
  if (verdict.kind === 'untrusted')
    return notStarted(
      signal.aborted
        ? abortedBefore(signal) // perhaps while it waited for the key
        : { kind: 'refused', code: 'grant_invalid', detail: verdict.reason },
      link.clock.now(),
    )
  return runInSandbox(verdict, inFlight, {
    link,
    runFolders,
    sandbox: context.proven().sandbox,
    ceilings: context.ceilings,
    output: streaming.open(inFlight, verdict.grant.fence),
  })
}

/**
 * L5: a bug in the worker ends the call, too. Its message is withheld, because it may quote an
 * argument.
 */
function resultOfBug(error: unknown, call: string, { link, log }: CallContext): ExecutionResult {
  const fault = errorReport(error)
  log.warn('a call failed because of a bug in the worker', { call, ...fault })
  return notStarted(
    {
      kind: 'infra',
      detail: `the call failed because of a bug in the worker (${fault.code}); its log says where`,
    },
    link.clock.now(),
  )
}

function endingFields({ execution: { outcome } }: ExecutionResult): { state: string; code?: string } {
  if (outcome === null) throw new Error('a worker always saw an outcome')
  const { state, error } = endingOf(outcome)
  return error === null ? { state } : { state, code: error }
}

const tenths = (ms: number): number => Math.round(ms * 10) / 10
