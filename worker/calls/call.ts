// Owns one call's way through this worker, from its doorbell to its settlement. It reads as the checklist that it is: nothing runs before
// the grant has been verified against the exact bytes that will run (L1, P08), nothing runs twice (L2), and every end is told (L5). It
// knows no Redis and no HTTP; what it logs names ids and codes, never arguments or output.

import { endingOf } from '../../shared/evidence/statement.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Config } from '../config.ts'
import { faultOf } from '../host/error-report.ts'
import type { Log } from '../host/log.ts'
import type { Link } from '../link/client.ts'
import type { Identity } from '../link/identity.ts'
import { meansOf, type Proven } from '../proof/proof.ts'
import type { Doorbell } from '../queue/doorbells.ts'
import { type Ran, settlementOf, unrun } from './attestation.ts'
import type { InHand, Running } from './in-flight.ts'
import type { Streaming } from './output-stream.ts'
import type { RunFolders } from './run-folders.ts'
import { perform } from './run-in-sandbox.ts'
import type { Settling } from './settlements.ts'
import type { Spool } from './spool.ts'
import { type Judged, verifyClaim } from './verify-grant.ts'

export type Station = {
  readonly identity: Identity
  /** The id of this process at the edge. */
  readonly process: string
  readonly link: Link
  readonly spool: Spool
  readonly settling: Settling
  readonly streaming: Streaming
  readonly running: Running
  readonly runFolders: RunFolders
  /** What the last probe left standing. */
  readonly proven: () => Proven
  /** No call gets more than this, whatever its plan says. */
  readonly ceilings: Config['limits']
  /** Aborted when nothing new is to be begun. */
  readonly draining: AbortSignal
  readonly log: Log
}

export async function execute(doorbell: Doorbell, at: Station): Promise<void> {
  const inHand = at.running.take(doorbell.call)
  if (inHand === undefined) return at.log.say('a doorbell was rung twice', { call: doorbell.call }) // Q04
  const told = at.proven().sandbox.prepared?.begun() ?? (() => undefined)
  try {
    await carryOut(doorbell, inHand, at, told)
  } finally {
    told()
    await Promise.all(inHand.leaving)
    at.running.leave(inHand)
  }
}

/** `told`: to be called when there is nothing left to do for the call but to hear what the edge says of its end. */
async function carryOut(doorbell: Doorbell, inHand: InHand, at: Station, told: () => void): Promise<void> {
  const { call } = doorbell
  const { identity, link, log, spool } = at
  const leaveAlone = (reason: string, code?: string): void =>
    log.say('a call was left alone', { call, reason, code })
  await at.settling.offered()
  if (at.draining.aborted) return leaveAlone('the worker is stopping; the edge rings again')
  if (spool.full) return leaveAlone('the spool is full')
  const room = spool.prepare()
  if (!room.ok) return leaveAlone(`the spool can’t be written (${room.error})`)

  const rung = performance.now()
  const claim = await link.insist(
    'claim',
    { body: { ...doorbell, ...meansOf(at.proven()), process: at.process } },
    { patience_ms: LIMITS.claim_again_ms, signal: at.draining }, // the edge rings again for a call that stays unclaimed
  )
  if (!claim.ok) return leaveAlone(claim.error.detail, claim.error.code)
  const claimed = performance.now()

  const { tenant, worker, edge } = identity
  const judged = verifyClaim(claim.value, { tenant, ...doorbell, worker, edge, now_ms: link.clock.now() })
  if (judged.kind === 'stray')
    return log.warn('a claim was answered with a grant that is not for us', { call, reason: judged.reason })
  const { grant } = judged
  const begun = spool.begin(call, grant.fence)
  if (begun.ok && !begun.value) return leaveAlone('it was begun here before') // L2: nobody saw that end, and nobody will pretend to
  inHand.fence = grant.fence
  const ran = begun.ok
    ? await runAsJudged(judged, inHand, at).catch((error): Ran => failedByUs(error, call, at))
    : unrun({ kind: 'infra', detail: `the spool can’t be written (${begun.error})` }, link.clock.now())
  const ended = performance.now()

  const settlement = settlementOf(grant, judged.grant_sha256, ran, identity.signer)
  const settling = at.settling.settle({ call, deadline_ms: grant.deadline_ms, settlement })
  told()
  const sent = await settling
  log.say('ended', {
    call,
    tool: grant.facts.tool.name,
    ...endOf(ran),
    tier: judged.kind === 'verified' ? judged.plan.tier : null,
    claim_ms: tenths(claimed - rung),
    run_ms: tenths(ended - claimed),
    settle_ms: tenths(performance.now() - ended),
    ...(sent === 'acknowledged' ? {} : { result: sent }),
  })
}

async function runAsJudged(
  judged: Exclude<Judged, { kind: 'stray' }>,
  inHand: InHand,
  at: Station,
): Promise<Ran> {
  const { link, runFolders, streaming } = at
  if (judged.kind === 'mistrusted')
    return unrun({ kind: 'refused', code: 'grant_invalid', detail: judged.reason }, link.clock.now())
  return perform(judged, inHand, {
    link,
    runFolders,
    sandbox: at.proven().sandbox,
    ceilings: at.ceilings,
    output: streaming.open(inHand, judged.grant.fence),
  })
}

/** L5: a bug of ours is an end too, and told; without its text, which may quote an argument. */
function failedByUs(error: unknown, call: string, { link, log }: Station): Ran {
  const fault = faultOf(error)
  log.warn('a call was failed by a fault of ours', { call, ...fault })
  return unrun(
    { kind: 'infra', detail: `the worker failed (${fault.code}); its log says where` },
    link.clock.now(),
  )
}

function endOf({ execution: { outcome } }: Ran): { state: string; code?: string } {
  if (outcome === null) throw new Error('a worker always saw an outcome')
  const { state, error } = endingOf(outcome)
  return error === null ? { state } : { state, code: error }
}

const tenths = (ms: number): number => Math.round(ms * 10) / 10
