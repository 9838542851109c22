// A call whose arguments an operator changed before approving it. The new arguments pass the same
// checks, planning and policy as proposed ones, and may not reach further than the agent's call.
// Pure.

import { canonical, sha256 } from '../../shared/bytes/json.ts'
import type { Code } from '../../shared/failures.ts'
import { failure } from '../../shared/failures.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Plan } from '../../shared/plan/plan.ts'
import { isEdgePlan } from '../../shared/plan/plan.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { ArgumentChange } from '../../shared/wire/approvals.ts'
import type { Tool } from '../../shared/wire/tools.ts'
import { changesOf, onlyRemoves, restoreHidden } from '../approvals/argument-edits.ts'
import { assuranceOf } from '../approvals/assurance.ts'
import type { CallRecord, RevisedProposal } from '../call/lifecycle.ts'
import type { RunRow } from '../call/run.ts'
import { hasMetSecret } from '../call/shared-folder.ts'
import { agentNamed, toolNamed } from '../directory/directory.ts'
import type { LoadedDirectory } from '../directory/loaded-directory.ts'
import { isRiskier, riskOf } from '../tools/risk.ts'
import { decide } from './decide.ts'
import type { JudgementInput } from './proposal.ts'
import { approvalFor, checkArguments, proposalOf, spentBy } from './proposal.ts'
import type { Snapshot } from './snapshot.ts'
import { snapshotOf } from './snapshot.ts'

type Args = Record<string, unknown>
/** The operator's arguments, with marks for hidden values, and the channel of the answer. */
export type EditedArguments = { args: Args; channel: string }

export type Revision = RevisedProposal & { snapshot: Snapshot; changes: ArgumentChange[]; more: number }

/** Builds the changed call, or says why it is refused. */
export function revise(
  directory: LoadedDirectory,
  row: RunRow,
  { proposal: before, status }: CallRecord,
  { args: given, channel }: EditedArguments,
  { used, now }: JudgementInput,
): Result<Revision> {
  const refuse = (code: Code, detail: string) => err(failure(code, detail))
  const { record } = row
  const [agent, tool] = [
    agentNamed(directory, record.agent),
    toolNamed(directory, record.agent, before.tool.name),
  ]
  if (agent === undefined) return refuse('denied', 'the agent was revoked')
  if (tool === undefined || tool.tool.digest !== before.tool.digest)
    return refuse('conflict', 'the tool has changed since the call was proposed')
  if ((status.approval?.edits?.length ?? 0) >= LIMITS.edits)
    return refuse(
      'limit_reached',
      `the arguments were already changed ${LIMITS.edits} times, which is the limit`,
    )
  if (used === 'uncounted')
    return refuse('unavailable', 'the usage of this session could not be read; try again')
  const meant = restoreHidden(given, before.args, directory.redaction)
  if (!meant.ok) return meant
  const args = meant.value
  const text = canonical(args)
  const fit = checkArguments(tool, args, text)
  if (!fit.ok) return err(failure(fit.error.code, fit.error.detail, fit.error.errors))
  const argsSha256 = sha256(text)
  if (argsSha256 === before.argsSha256)
    return refuse('conflict', 'these are the current arguments; answer without sending any')
  const folderMetSecret = hasMetSecret(row.folder)
  const situation = {
    agent,
    tool,
    args,
    files: before.files ?? [],
    answers: [],
    run: record,
    folderMetSecret,
    actor: before.origin?.actor ?? null,
    used,
    now,
  }
  const decided = decide(directory, situation)
  if (!decided.ok) return decided
  const { plan, decision } = decided.value
  if (decision.effect === 'deny' || plan === null)
    return refuse('denied', `policy denies the changed call: ${decision.reason}`)
  const spent = spentBy(tool, args)
  const wider = before.plan === null ? 'there was no plan' : widerIn(tool.tool, before.plan, plan)
  if (wider !== undefined || spent > (before.spent ?? 0))
    return refuse(
      'edit_too_wide',
      `the changed call reaches further than the proposed one: ${wider ?? 'it spends more'}`,
    )
  if (assuranceOf(channel) !== 'key' && !onlyRemoves(...unspent(tool.tool, before.args, args)))
    return refuse(
      'edit_too_wide',
      'through a link you can only remove arguments or spend less; sign in with your key to make other changes',
    )
  const { spent: _, ...kept } = before
  const parts = {
    args,
    argsSha256,
    plan,
    tool,
    pool: before.pool,
    now: before.createdAt,
    ...(spent > 0 ? { spent } : {}),
  }
  const proposal = {
    ...kept,
    ...proposalOf(row, before.n, parts),
    asked: before.asked ?? { digest: before.digest, argsSha256: before.argsSha256 },
  }
  const { prompt } = approvalFor(directory, row, before.n, situation, {
    ...decided.value,
    origin: before.origin ?? {},
  })
  const snapshot = snapshotOf(directory, { agent, tool, run: record })
  return ok({ proposal, decision, prompt, snapshot, ...changesOf(before.args, args, directory.redaction) })
}

const OPENNESS = ['strict', 'preflight', 'none'] as const

/**
 * How a plan reaches further than another plan of the same tool; secrets and folder are then the
 * same.
 */
function widerIn(tool: Tool, before: Plan, after: Plan): string | undefined {
  if (isEdgePlan(before) || isEdgePlan(after))
    return before.tier === after.tier ? undefined : 'it runs in another tier' // the same tool version has the same skill or upstream
  if (before.executor.argv[0] !== after.executor.argv[0]) return 'it runs another program'
  if ((before.tier === 'C' && after.tier !== 'C') || (before.cgroup === true && after.cgroup !== true))
    return 'it is less isolated'
  if (OPENNESS.indexOf(after.egress.mode) > OPENNESS.indexOf(before.egress.mode))
    return 'its network is less restricted'
  const host = after.egress.hosts.find((one) => !before.egress.hosts.includes(one))
  if (host !== undefined) return `it reaches \`${host}\``
  if (after.limits.timeout_ms > before.limits.timeout_ms) return 'it may take longer'
  const [was, is] = [riskOf(tool, before), riskOf(tool, after)]
  return isRiskier(was, is) ? `its risk is ${is}, and was ${was}` : undefined
}

/** Both without the spent argument, for which the caller compares amounts. */
const unspent = ({ spends }: Tool, ...both: readonly [Args, Args]): readonly [Args, Args] => {
  const without = (args: Args): Args =>
    Object.fromEntries(Object.entries(args).filter(([name]) => name !== spends?.arg))
  return [without(both[0]), without(both[1])]
}
