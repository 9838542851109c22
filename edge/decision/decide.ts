// The decision on a call. It tries each plan from least to most isolated and evaluates it twice:
// with the approvals given, and with those that could still be given. So policy picks the sandbox.
// Pure over a loaded directory. Dry runs and proposals share this code, so they can't differ.

import { canonical } from '../../shared/bytes/json.ts'
import type { Actor } from '../../shared/evidence/actor.ts'
import { identityOfActor } from '../../shared/evidence/actor.ts'
import type { Failure } from '../../shared/failures.ts'
import { failure } from '../../shared/failures.ts'
import type { InputFile } from '../../shared/plan/call-files.ts'
import type { Budget, Plan } from '../../shared/plan/plan.ts'
import { isEdgePlan, secretsOf } from '../../shared/plan/plan.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Decision } from '../../shared/wire/calls.ts'
import type { Explanation } from '../../shared/wire/explanation.ts'
import { type Tool, upstreamOf } from '../../shared/wire/tools.ts'
import { SPANS } from '../approvals/standing.ts'
import type { RecordedAnswer } from '../call/lifecycle.ts'
import type { Used } from '../call/usage.ts'
import type { AgentPrincipal, LoadedDirectory, LoadedTool, Principal } from '../directory/loaded-directory.ts'
import { isRead } from '../policy/attribute-reads.ts'
import type { CedarValueJson, Matter, Verdict } from '../policy/engine.ts'
import { about, ask, isFinalDenial, readable } from '../policy/engine.ts'
import { programOf } from '../tools/interpreters.ts'
import { plansFor, upstreamCredentials } from '../tools/planner.ts'
import { secretNeedsOf } from '../tools/stdio-server.ts'
import type { ApprovalContext, Approvers } from './approval-context.ts'
import { approversOf, givenApprovals, possibleApprovals } from './approval-context.ts'
import { readerOf } from './explain/audience.ts'
import type { Reader } from './explain/wording.ts'
import type { Grounds } from './explain.ts'
import { explain } from './explain.ts'
import { snapshotOf } from './snapshot.ts'

export type Situation = {
  agent: AgentPrincipal
  tool: LoadedTool
  args: Record<string, unknown>
  files: readonly InputFile[]
  run: { id: string; session: string; channel: string | null; device: string | null; budget: Budget }
  answers: readonly RecordedAnswer[]
  /** Whether the folder that the calls of the run share may contain a secret. */
  folderMetSecret: boolean
  /** The usage of run, session and agent; `null` if the active set reads none of it. */
  used: Used | null
  /** The actor behind the agent when it proposed the call; `null` if it sent a key. */
  actor: Actor | null
  now: number
}
export type DecidedPlan = { decision: Decision; plan: Plan | null }

/** The reader of the explanation: the agent (also the call's record), an operator, or nobody. */
export type ExplanationReader = Reader['kind'] | 'nobody'

/**
 * Asks policy first and the vault second, so that a denied agent learns no secret's name. An error
 * means that there is nothing to decide, because the arguments make no plan.
 */
export function decide(
  directory: LoadedDirectory,
  situation: Situation,
  reader: ExplanationReader = 'agent',
): Result<DecidedPlan> {
  const decided = decideByPolicy(directory, situation, reader)
  if (!decided.ok || decided.value.decision.effect === 'deny') return decided
  const withheld = directory.vault.withholds(secretNeedsOf(situation.tool.tool))
  if (withheld !== undefined)
    return denied(directory, situation, { code: 'denied', by: 'vault.secrets', reason: withheld }, reader)
  const disabled = notEnabled(directory, situation.tool.tool)
  if (disabled === undefined) return decided
  return denied(directory, situation, { code: 'denied', by: 'skill.state', reason: disabled }, reader)
}

function decideByPolicy(
  directory: LoadedDirectory,
  situation: Situation,
  reader: ExplanationReader,
): Result<DecidedPlan> {
  const { tool, args, files, run } = situation
  const plans = plansFor(tool.tool, args, run.budget, files)
  if (!plans.ok) return refusedByTool(directory, situation, plans.error, reader)
  const seen = tool.types.convert(args)
  if (!seen.ok) return seen
  const matter = matterOf(directory, situation)
  const context = readable(matter, contextOf(matter, situation, seen.value))
  // The plan of a tool that is not the agent's stays secret too.
  const isTold = isListed(situation.agent, tool.tool.name)
  const refused: Explanation['plans'] = []
  let asking: (() => DecidedPlan) | undefined
  let last: (() => DecidedPlan) | undefined
  for (const plan of plansToTry(plans.value, matter)) {
    const asked = (approval: ApprovalContext) => fullContext(matter, context, plan, approval)
    const present = asked(approvalContextOf(directory, situation))
    const real = ask(matter, present)
    const decided = (effect: Decision['effect'], verdict: Verdict, others = refused): DecidedPlan => {
      const decision = decisionOf(directory, situation, effect, verdict)
      const grounds = { matter, context: present, verdict: real, refused: others }
      return {
        plan: effect === 'deny' && !isTold ? null : plan,
        decision: explained(directory, situation, decision, grounds, reader),
      }
    }
    if (real.allowed) return ok(decided('allow', real))
    if (real.errors.length > 0) return ok(decided('deny', real)) // L6: neither an approval nor another plan fixes an error
    if (asking !== undefined) continue // humans are asked about the less isolated plan, unless another one needs no approval
    const question = (approval: ApprovalContext) => ask(matter, asked(approval))
    const utmost = isFinalDenial(matter, real)
      ? finalDenial(directory, real)
      : verdictWithMostApprovals(directory, situation, question)
    const tried = plan === null ? [] : [{ tier: plan.tier, egress: plan.egress.mode }]
    if (utmost.allowed) {
      const before = [...refused]
      asking = () => decided('ask', real, before)
      refused.push(...tried.map((one) => ({ ...one, policies: [...real.policies], asks: true as const })))
      continue
    }
    refused.push(...tried.map((one) => ({ ...one, policies: [...utmost.policies] })))
    last = () => decided('deny', utmost)
  }
  const best = asking ?? last
  return best === undefined ? err(failure('invalid_arguments', NO_PLAN)) : ok(best())
}

const NO_PLAN =
  'the tool’s contract is wrong, not the arguments: it allows only tier B but uses features of tier C, such as strict egress; an operator has to register the tool again with tier C'

/**
 * The plans in order; if a rule reads `plan.cgroup`, also each plan limited to workers with
 * cgroups.
 */
const plansToTry = (
  plans: readonly (Plan | null)[],
  { slice: { reads } }: Matter,
): readonly (Plan | null)[] =>
  isRead(reads.context, ['plan', 'cgroup'])
    ? plans.flatMap((plan): (Plan | null)[] =>
        plan === null || isEdgePlan(plan) ? [plan] : [plan, { ...plan, cgroup: true }],
      )
    : plans

/**
 * Adds the explanation. An allow has none for agents, to whom its policies and reasons are enough.
 */
function explained(
  directory: LoadedDirectory,
  situation: Situation,
  decision: Decision,
  grounds: Grounds | null,
  reader: ExplanationReader,
): Decision {
  if (reader === 'nobody' || (decision.effect === 'allow' && reader === 'agent')) return decision
  const { agent, tool, args } = situation
  const subject = { args, fits: (changed: Record<string, unknown>) => tool.check(changed).ok }
  const reach = () =>
    possibleApprovals(
      approversIn(directory),
      ownersOf(situation),
      answersOfPresentOperators(directory, situation),
    )
  return {
    ...decision,
    explanation: explain(decision, grounds, subject, readerOf(directory, reader, agent, tool, reach)),
  }
}

/**
 * Why the tool's skill or upstream may not be called now; `undefined` if it may, or the tool has
 * neither.
 */
export function notEnabled(
  { skills, upstreams, vault }: LoadedDirectory,
  { executor }: Tool,
): string | undefined {
  if (executor.kind === 'upstream') {
    const { upstream, url } = executor
    const spec = upstreams.get(upstream)?.spec
    if (spec?.kind !== 'http' || spec.url !== url) return `the upstream \`${upstream}\` has a new address`
    return vault.withholds({ name: `upstream:${upstream}`, credentials: upstreamCredentials(executor) })
  }
  if (executor.kind === 'stdio') {
    const spec = upstreams.get(executor.request.upstream)?.spec
    return spec?.kind === 'stdio' && canonical(spec.command) === canonical(executor.command)
      ? undefined
      : `the upstream \`${executor.request.upstream}\` has a new command`
  }
  if (executor.kind !== 'skill' || skills.get(executor.skill)?.digest === executor.digest) return undefined
  return `version ${executor.version} of the skill \`${executor.skill}\` is not enabled`
}

/** Decides by the current policy on a plan that was approved or granted before. */
export function decideAgain(
  directory: LoadedDirectory,
  situation: Situation,
  plan: Plan | null,
  reader: ExplanationReader = 'agent',
): Decision {
  const seen = situation.tool.types.convert(situation.args)
  if (!seen.ok)
    return decisionOf(directory, situation, 'deny', {
      allowed: false,
      policies: [],
      errors: [seen.error.detail],
    }) // L6
  const matter = matterOf(directory, situation)
  const context = readable(matter, contextOf(matter, situation, seen.value))
  const asked = (approval: ApprovalContext) => fullContext(matter, context, plan, approval)
  const present = asked(approvalContextOf(directory, situation))
  const real = ask(matter, present)
  const decided = (effect: Decision['effect'], verdict: Verdict): Decision => {
    const decision = decisionOf(directory, situation, effect, verdict)
    return explained(
      directory,
      situation,
      decision,
      { matter, context: present, verdict: real, refused: [] },
      reader,
    )
  }
  if (real.allowed) return decided('allow', real)
  if (real.errors.length > 0) return decided('deny', real) // L6
  const utmost = verdictWithMostApprovals(directory, situation, (approval) => ask(matter, asked(approval)))
  return utmost.allowed ? decided('ask', real) : decided('deny', utmost)
}

/**
 * The longest offered duration that policy allows for a standing approval; 0: each call needs its
 * own.
 */
export function longestStanding(directory: LoadedDirectory, situation: Situation, plan: Plan): number {
  const seen = situation.tool.types.convert(situation.args)
  if (!seen.ok) return 0
  const matter = matterOf(directory, situation)
  const context = readable(matter, contextOf(matter, situation, seen.value))
  const stands = (standing_s: number) =>
    verdictWithMostApprovals(directory, situation, (approval) =>
      ask(matter, fullContext(matter, context, plan, { ...approval, standing_s })),
    ).allowed
  return SPANS.find(stands) ?? 0
}

/**
 * Whether an answer still counts: its operator still exists and may still answer, by the current
 * policy (P09).
 */
export const stillCounts = (directory: LoadedDirectory, answer: AnswerOrigin): boolean =>
  isOf(directory, answer) && approversIn(directory).has(answer.by)
type AnswerOrigin = Pick<RecordedAnswer, 'by' | 'since_ms'>
const isOf = ({ operators }: LoadedDirectory, { by, since_ms }: AnswerOrigin): boolean =>
  operators.get(by)?.since === since_ms

/** Whether a principal may do an API action. Every route asks. */
export function authorize(directory: LoadedDirectory, principal: Principal, action: string): Verdict {
  const subject = {
    principal: { type: principal.kind, id: principal.name },
    action,
    resource: { type: 'Tenant', id: directory.tenant },
    entities: principal.entities,
  }
  return ask(about(directory.policies, subject), {})
}

/** The same as a result whose error contains policy's reason. */
export function requirePermission(
  directory: LoadedDirectory,
  principal: Principal,
  action: string,
): Result<true> {
  const verdict = authorize(directory, principal, action)
  if (verdict.allowed) return ok(true)
  const why =
    verdict.policies.length === 0 && verdict.errors.length === 0
      ? ''
      : `: ${reasonOf(directory, 'deny', verdict)}`
  return err(failure('forbidden', `policy does not permit \`${action}\`${why}`))
}

/** Reduces a denial that no approval can change to the policies that cause it. */
function finalDenial({ policies: { rules } }: LoadedDirectory, verdict: Verdict): Verdict {
  return { ...verdict, policies: verdict.policies.filter((id) => rules.get(id)?.byApproval === false) }
}

/** The slice of the active set that can concern this agent and this tool. */
const matterOf = ({ policies }: LoadedDirectory, { agent, tool }: Situation): Matter =>
  about(policies, {
    principal: { type: 'Agent', id: agent.name },
    action: `tool.execute/${tool.tool.name}`,
    resource: { type: 'Tool', id: tool.tool.name },
    entities: [...agent.entities, tool.action, tool.entity],
  })

/** The Cedar context for one plan and the given or possible approvals. */
function fullContext(
  matter: Matter,
  context: Record<string, CedarValueJson>,
  plan: Plan | null,
  approval: ApprovalContext,
): Record<string, CedarValueJson> {
  return {
    ...context,
    ...readable(matter, { allow_sensitive_tools: approval.granted, approval, plan: planContext(plan) }),
  }
}

/** Nothing bounds a call that Countersign does not execute. */
const UNEXECUTED: CedarValueJson = {
  tier: 'none',
  program: '',
  egress_mode: 'none',
  egress_hosts: [],
  secrets: [],
  workspace: 'call',
  timeout_ms: Number.MAX_SAFE_INTEGER,
  memory_bytes: Number.MAX_SAFE_INTEGER,
  cgroup: false,
}

function planContext(plan: Plan | null): CedarValueJson {
  if (plan === null) return UNEXECUTED
  const { tier, egress, limits } = plan
  const shared = {
    tier,
    egress_mode: egress.mode,
    egress_hosts: egress.hosts,
    timeout_ms: limits.timeout_ms,
    memory_bytes: 'memory_bytes' in limits ? limits.memory_bytes : 0,
  }
  // An isolate has no program, no lasting folder, and no process that could outlive the call.
  if (plan.tier === 'A')
    return {
      ...shared,
      program: '',
      secrets: secretsOf(plan),
      workspace: 'call',
      cgroup: true,
      fuel: plan.limits.fuel,
    }
  // Nothing is known of what a remote server does, so `cgroup` promises nothing.
  if (plan.tier === 'M')
    return { ...shared, program: '', secrets: secretsOf(plan), workspace: 'call', cgroup: false }
  const { executor, profile, workspace, cgroup, ...given } = plan
  return {
    ...shared,
    program: programOf(executor.argv),
    ...(profile === undefined ? {} : { profile }),
    secrets: secretsOf(given),
    workspace,
    cgroup: cgroup === true,
  }
}

function contextOf(
  { slice: { reads } }: Matter,
  { agent, tool, files, run, folderMetSecret, used, actor, now }: Situation,
  args: CedarValueJson,
): Record<string, CedarValueJson> {
  const { channels } = agent.spec
  const upstream = upstreamOf(tool.tool)
  return {
    tool_name: tool.tool.name,
    ...(tool.tool.executor.kind === 'skill' ? { skill_id: tool.tool.executor.skill } : {}),
    ...(upstream === undefined ? {} : { upstream_id: upstream }),
    capabilities: [...tool.capabilities],
    is_sensitive_action: tool.sensitive,
    is_allowlisted_tool: isListed(agent, tool.tool.name),
    is_allowed_channel: channels === undefined || (run.channel !== null && channels.includes(run.channel)),
    session_id: run.session,
    run_id: run.id,
    folder_met_secret: folderMetSecret,
    ...(run.device === null ? {} : { device_id: run.device }),
    ...(run.channel === null ? {} : { channel_id: run.channel }),
    args,
    files: filesContext(files),
    owners: agent.spec.owners ?? [],
    ...(actor === null ? {} : { actor: identityOfActor(actor) }),
    ...(isRead(reads.context, ['now']) || isRead(reads.context, ['weekday']) ? clockOf(now) : {}),
    ...(used === null ? {} : { budget: budgetOf(run.budget, used) }),
  }
}

const filesContext = (files: readonly InputFile[]): CedarValueJson => ({
  count: files.length,
  bytes: files.reduce((sum, { bytes }) => sum + bytes, 0),
  paths: files.map(({ path }) => path),
  sha256: files.map(({ sha256 }) => sha256),
})

export const isListed = ({ spec: { tools } }: AgentPrincipal, name: string): boolean =>
  tools.includes('*') || tools.includes(name)

/**
 * In whole seconds, so that equal questions within a second share one evaluation. The weekday (ISO,
 * Monday is 1, UTC) is an attribute because Cedar can't compute it.
 */
const clockOf = (now: number): Record<string, CedarValueJson> => {
  const second = new Date(now - (now % 1_000))
  return { now: { __extn: { fn: 'datetime', arg: second.toISOString() } }, weekday: second.getUTCDay() || 7 }
}

const budgetOf = (budget: Budget, { run, session, agent }: Used): CedarValueJson => ({
  run: { max_calls: budget.max_calls_per_run, ...run },
  ...(session === null ? {} : { session }),
  ...(agent == null ? {} : { agent }), // absent in old records
})

const approvers = new WeakMap<LoadedDirectory, Approvers>()

/**
 * The operators who may answer by the current policy; computed once per version of the directory.
 */
function approversIn(directory: LoadedDirectory): Approvers {
  const known =
    approvers.get(directory) ??
    approversOf(directory, (operator) => authorize(directory, operator, 'approval.decide').allowed)
  approvers.set(directory, known)
  return known
}

const ownersOf = ({ agent }: Situation): readonly string[] => agent.spec.owners ?? []

const approvalContextOf = (directory: LoadedDirectory, situation: Situation): ApprovalContext =>
  givenApprovals(
    situation.answers.length === 0 ? NOBODY : approversIn(directory),
    ownersOf(situation),
    answersOfPresentOperators(directory, situation),
  )
const NOBODY: Approvers = new Map()
/** The answers of current operators, without those of earlier operators with the same names. */
const answersOfPresentOperators = (
  directory: LoadedDirectory,
  { answers }: Situation,
): readonly RecordedAnswer[] => answers.filter((answer) => isOf(directory, answer))

/**
 * The verdict with the most approvals that humans could still give; an allow, if any of these
 * allows.
 */
function verdictWithMostApprovals(
  directory: LoadedDirectory,
  situation: Situation,
  question: (approval: ApprovalContext) => Verdict,
): Verdict {
  const [most, ...others] = possibleApprovals(
    approversIn(directory),
    ownersOf(situation),
    answersOfPresentOperators(directory, situation),
  )
  const verdict = question(most)
  return verdict.allowed ? verdict : (others.map(question).find(({ allowed }) => allowed) ?? verdict)
}

function decisionOf(
  directory: LoadedDirectory,
  situation: Situation,
  effect: Decision['effect'],
  verdict: Verdict,
): Decision {
  const denial = verdict.errors.length > 0 ? 'policy_error' : 'denied'
  return {
    effect,
    code: effect === 'allow' ? 'allowed' : effect === 'ask' ? 'approval_required' : denial,
    policies: [...verdict.policies],
    reason: reasonOf(directory, effect, verdict),
    policy_set: directory.policies.digest,
    snapshot: snapshotOf(directory, situation).digest,
  }
}

function reasonOf(directory: LoadedDirectory, effect: Decision['effect'], verdict: Verdict): string {
  if (verdict.errors.length > 0)
    return 'a policy could not be evaluated, so nothing is allowed; `countersign policy explain` shows an operator which one'
  const reasons = verdict.policies.map((id) => {
    const rule = directory.policies.rules.get(id)
    return [
      rule?.reason ?? `policy \`${id}\``,
      ...(rule?.advice === null || rule?.advice === undefined || effect === 'allow' ? [] : [rule.advice]),
    ].join('; ')
  })
  return reasons.length > 0 ? reasons.join('. ') : 'no policy permits it'
}

/**
 * A call that the tool's contract forbids is an ordinary denial: attested, journalled, counted, and
 * named by its cause.
 */
const BY_CONTRACT = [
  { code: 'egress_denied', by: 'tool.egress' },
  { code: 'denied', by: 'tool.executables' },
  { code: 'workspace_scope_denied', by: 'tool.workspace' },
  { code: 'secret_in_run_folder', by: 'tool.secrets' },
] as const

function refusedByTool(
  directory: LoadedDirectory,
  situation: Situation,
  error: Failure,
  reader: ExplanationReader,
): Result<DecidedPlan> {
  const forbidden = BY_CONTRACT.find(({ code }) => code === error.code)
  return forbidden === undefined
    ? err(error)
    : denied(directory, situation, { ...forbidden, reason: error.detail }, reader)
}

type Denial = { code: (typeof BY_CONTRACT)[number]['code']; by: string; reason: string }

function denied(
  directory: LoadedDirectory,
  situation: Situation,
  { code, by, reason }: Denial,
  reader: ExplanationReader,
): Result<DecidedPlan> {
  const snapshot = snapshotOf(directory, situation).digest
  const decision = {
    effect: 'deny' as const,
    code,
    policies: [by],
    reason,
    policy_set: directory.policies.digest,
    snapshot,
  }
  return ok({ plan: null, decision: explained(directory, situation, decision, null, reader) })
}
