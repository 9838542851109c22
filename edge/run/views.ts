// Views of a stored run and its calls for the wire, the journal and signed statements. Pure.

import { digestOf } from '../../shared/bytes/json.ts'
import { identityOfActor } from '../../shared/evidence/actor.ts'
import type { CallOrigin } from '../../shared/evidence/origin.ts'
import { originMember } from '../../shared/evidence/origin.ts'
import type { ApprovalFacts, Facts } from '../../shared/evidence/statement.ts'
import { callId } from '../../shared/ids.ts'
import type { InputFile } from '../../shared/plan/call-files.ts'
import type { Approval } from '../../shared/wire/approvals.ts'
import type { Call, CallResult } from '../../shared/wire/calls.ts'
import type { LiveEnd } from '../../shared/wire/output-events.ts'
import type { Run } from '../../shared/wire/runs.ts'
import { assuranceOf } from '../approvals/assurance.ts'
import { optionsFor } from '../approvals/card.ts'
import { subjectOf } from '../approvals/standing.ts'
import type { ApprovalRecord, CallRecord, Status } from '../call/lifecycle.ts'
import { hasEnded } from '../call/lifecycle.ts'
import type { RunRecord, RunRow, StoredOutput } from '../call/run.ts'

export function runView({ record, cancelled, allowed, denied, seq, head }: RunRow): Run {
  const { id, agent, session, channel, device, budget, createdAt } = record
  return {
    id,
    agent,
    session,
    channel,
    device,
    budget,
    state: cancelled ? 'cancelled' : 'open',
    used: { calls: allowed, denied },
    created_at_ms: createdAt,
    journal: { seq, head },
  }
}

export function callView(
  run: RunRecord,
  { proposal, status, removed }: CallRecord,
  kept: StoredOutput | null,
  publicUrl: string,
): Call {
  const { approval } = status
  return {
    id: callId(run.id, proposal.n),
    run: run.id,
    tool: proposal.tool.name,
    state: status.state,
    digest: proposal.digest,
    decision: status.decision,
    ...(approval === null || removed?.evidence !== undefined
      ? {}
      : {
          approval: {
            id: approval.id,
            status: approvalStatus(status),
            expires_at: approval.expiresAt,
            page: `${publicUrl}/console/approvals/${approval.id}`,
          },
        }),
    ...(proposal.plan === null ? {} : { plan: proposal.plan }),
    ...(proposal.asked === undefined || removed?.arguments !== undefined
      ? {}
      : { edited: { arguments: proposal.args, from: proposal.asked.digest } }),
    ...originMember(proposal.origin),
    created_at_ms: proposal.createdAt,
    ...(status.state === 'running'
      ? {
          running: {
            worker: status.worker,
            since_ms: status.claimedAt,
            cancel_requested: status.cancelRequested,
          },
        }
      : {}),
    ...(hasEnded(status) ? { ended_at_ms: status.at, result: resultOf(status, kept) } : {}),
    ...(hasEnded(status) && status.attestation !== null ? { attestation: status.attestation } : {}),
    ...(removed === undefined ? {} : { removed }),
  }
}

/** Input and output files of the call. */
export const callFilesOf = ({ proposal, status }: CallRecord): readonly InputFile[] => [
  ...(proposal.files ?? []),
  ...(hasEnded(status) ? (status.finished?.files?.files ?? []) : []),
]

function resultOf(status: Extract<Status, { at: number }>, kept: StoredOutput | null): CallResult {
  const stdout = kept?.stdout ?? Buffer.alloc(0)
  const text = decode(stdout)
  return {
    ok: status.state === 'succeeded',
    output: text ?? stdout.toString('base64'),
    encoding: text === undefined ? 'base64' : 'utf-8',
    stderr: kept?.stderr.toString('utf8') ?? '',
    exit_code: status.finished?.exit_code ?? null,
    truncated: status.finished?.truncated ?? false,
    ...(status.finished?.files === undefined ? {} : { files: status.finished.files }),
    ...(status.error === null
      ? {}
      : { error: { code: status.error, detail: status.detail ?? status.finished?.detail ?? '' } }),
  }
}

/** The end of a call as the last event of its stream, which has sent the output before. */
export function liveEndOf({ status }: CallRecord): LiveEnd | null {
  if (!hasEnded(status)) return null
  const { output: _output, encoding: _encoding, stderr: _stderr, ...result } = resultOf(status, null)
  return { state: status.state, ...result }
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
function decode(bytes: Buffer): string | undefined {
  try {
    return utf8.decode(bytes)
  } catch {
    return undefined // not text: the caller gets base64
  }
}

function approvalStatus(status: Status): Approval['status'] {
  if (status.state === 'awaiting_approval') return 'pending'
  if (status.state === 'rejected' || status.state === 'denied') return 'denied'
  if (status.state === 'expired') return 'expired'
  const withoutAnswer = status.state === 'cancelled' || status.state === 'indeterminate'
  return withoutAnswer && status.approval?.enough !== true ? 'cancelled' : 'approved'
}

/**
 * Calls with different reasons, or on behalf of different people, are not answered together. Each
 * token has its own id, which makes no difference.
 */
const sameAsked = ({ actor, ...words }: CallOrigin = {}): object => ({
  ...originMember(words),
  ...(actor === undefined ? {} : { actor: identityOfActor(actor) }),
})

export function approvalView(run: RunRecord, { proposal, status }: CallRecord): Approval | undefined {
  const { approval } = status
  if (approval === null) return undefined
  return {
    id: approval.id,
    status: approvalStatus(status),
    subject: subjectOf(proposal.tool),
    digest: proposal.digest,
    group: digestOf({
      agent: run.agent,
      tool: proposal.tool,
      args: proposal.argsSha256,
      plan: proposal.planSha256,
      ...sameAsked(proposal.origin),
    }),
    call: callId(run.id, proposal.n),
    prompt: approval.prompt,
    options: optionsFor(approval.prompt),
    requested_at: approval.requestedAt,
    expires_at: approval.expiresAt,
    answers: approval.answers.map(({ since_ms: _, ...answer }) => ({
      ...answer,
      assurance: assuranceOf(answer.channel),
    })),
    ...(approval.edits === undefined ? {} : { edits: [...approval.edits] }),
    ...(approval.linksRevoked === undefined
      ? {}
      : { links_revoked: approval.linksRevoked === 'all' ? 'all' : [...approval.linksRevoked] }),
  }
}

/**
 * The parts of a journal entry besides the event: the identity of a new call, the attestation of an
 * ended one.
 */
export function journalFacts({ proposal, status }: CallRecord, isNew: boolean): Record<string, unknown> {
  const { tool, digest, argsSha256, shadow, origin } = proposal
  return {
    ...(isNew
      ? {
          tool: tool.name,
          version: tool.version,
          digest,
          args_sha256: argsSha256,
          ...originMember(origin),
        }
      : {}),
    ...(isNew && shadow !== undefined ? { shadow_sha256: digestOf(shadow) } : {}),
    ...(hasEnded(status) && status.attestation !== null
      ? { attestation: status.attestation.id, execution_sha256: status.attestation.execution_sha256 }
      : {}),
  }
}

/**
 * The facts that the edge vouches for about a call: the part of a statement that no worker can
 * choose.
 */
export function factsOf(run: RunRecord, { proposal, status }: CallRecord): Facts {
  const { plan, tool, digest, argsSha256, planSha256 } = proposal
  const { effect, policies, policy_set, snapshot } = status.decision
  return {
    tenant: run.tenant,
    run: run.id,
    call: callId(run.id, proposal.n),
    agent: run.agent,
    session: run.session,
    tool,
    digest,
    args_sha256: argsSha256,
    plan_sha256: planSha256,
    limits: plan?.limits ?? null,
    egress: plan?.egress ?? null,
    decision: { effect, policies, policy_set, snapshot },
    approval: approvalFacts(status.approval),
    ...originMember(proposal.origin),
  }
}

/** The approval as statements contain it. */
const approvalFacts = (approval: ApprovalRecord | null): ApprovalFacts | null =>
  approval === null
    ? null
    : {
        id: approval.id,
        scope:
          (['session', 'timeboxed'] as const).find((wide) =>
            approval.answers.some(({ scope }) => scope === wide),
          ) ?? 'once',
        answers: approval.answers.map(({ by, decision, channel, at_ms, standing }) => ({
          by,
          decision,
          channel,
          at_ms,
          ...(standing === undefined ? {} : { standing }),
        })),
      }
