// Decides the calls that a file of cases describes, under a policy set that need not be in force,
// with the tenant's tools and people plus those that the file brings. Uses the functions that
// prepare, decide and step real calls. Stores nothing, runs nothing and asks nobody.

import { digestOf } from '../../shared/bytes/json.ts'
import type { Failure, FieldError } from '../../shared/failures.ts'
import { failure } from '../../shared/failures.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Plan } from '../../shared/plan/plan.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Decision } from '../../shared/wire/calls.ts'
import type { CaseResult, PolicyCase, SentCases } from '../../shared/wire/policy-cases.ts'
import { toolOfCase } from '../../shared/wire/policy-cases.ts'
import type { RunSpec } from '../../shared/wire/runs.ts'
import type { RecordedAnswer } from '../call/lifecycle.ts'
import { step as lifecycle } from '../call/lifecycle.ts'
import { budgetOf, type RunRow } from '../call/run.ts'
import type { Counters } from '../call/usage.ts'
import { NOTHING } from '../call/usage.ts'
import { judgeAgain, prepareProposal } from '../decision/proposal.ts'
import { withHypothetical } from '../directory/directory.ts'
import type { AgentPrincipal, LoadedDirectory } from '../directory/loaded-directory.ts'
import type { PolicySet, PolicyTexts } from '../policy/engine.ts'
import { checkSchema } from '../tools/schema-rules.ts'

type ActualResult = CaseResult['got']
type Differing = CaseResult['differs'][number]

/** The directory as if the file's tools, agents and operators were registered too. */
export function withCaseFixtures(
  directory: LoadedDirectory,
  { tools, agents, operators }: SentCases,
): Result<LoadedDirectory> {
  const brought = Object.entries(tools).map(([name, tool]) => ({ name, spec: toolOfCase(tool) }))
  for (const { name, spec } of brought) {
    const schema = checkSchema(spec.input_schema)
    if (!schema.ok) return err({ ...schema.error, detail: `\`${name}\`: ${schema.error.detail}` })
  }
  const around = withHypothetical(directory, {
    tools: brought.map(({ name, spec }) => ({ ...spec, name, version: 1, digest: digestOf(spec) })),
    agents: Object.entries(agents),
    operators: Object.entries(operators),
  })
  if (around.tools.size > LIMITS.tools)
    return err(failure('limit_reached', `a tenant can have at most ${LIMITS.tools} tools`))
  if (around.agents.size + around.operators.size > LIMITS.principals)
    return err(failure('limit_reached', `a tenant may have at most ${LIMITS.principals} principals`))
  return ok({ ...around, shadow: null })
}

/** A valid policy set and its warnings. */
export type CheckedSet = { readonly set: PolicySet; readonly warnings: readonly FieldError[] }
type Check = (texts: PolicyTexts, around: LoadedDirectory) => Result<CheckedSet>

type Cases = Promise<Result<CaseResult[]>>

/**
 * `texts`: the set under test, without the floor. `check` validates and compiles a set that a case
 * has changed.
 */
export async function decideCases(
  directory: LoadedDirectory,
  texts: PolicyTexts,
  { sets, cases }: SentCases,
  check: Check,
): Cases {
  const changed = new Map(
    cases.filter(isChanged).map((one) => [changeOf(one), changedTexts(texts, sets, one)]),
  )
  const bytes = [...changed.values()].reduce((sum, each) => sum + (each.ok ? sizeOf(each.value) : 0), 0)
  if (bytes > LIMITS.policy_case_bytes) {
    const detail = `the cases change the policies in ${changed.size} ways, which are ${bytes} bytes to check; split the file`
    return err(failure('limit_reached', detail))
  }
  const until = Date.now() + LIMITS.policy_cases_ms
  const tooLong = (what: string) => err(failure('limit_reached', `${what} took too long; split the file`))
  const under = new Map<string, Result<LoadedDirectory>>()
  for (const [change, each] of changed) {
    await scheduler.wait(0) // lets other requests run, and the clock advance
    if (Date.now() > until)
      return tooLong(
        `checking ${under.size} of the ${changed.size} ways in which the cases change the policies`,
      )
    const set = each.ok ? check(each.value, directory) : each
    under.set(change, set.ok ? ok({ ...directory, policies: set.value.set }) : set)
  }
  const results: CaseResult[] = []
  for (const one of cases) {
    await scheduler.wait(0)
    if (Date.now() > until) return tooLong(`${results.length} of ${cases.length} cases`)
    const among = under.get(changeOf(one)) ?? ok(directory)
    results.push(compare(one, among.ok ? outcomeOf(among.value, one) : refusedOutcome(among.error)))
  }
  return ok(results)
}

const isChanged = ({ with: beside, without }: PolicyCase): boolean => beside.length + without.length > 0
const changeOf = ({ with: beside, without }: PolicyCase): string => JSON.stringify([beside, without])
const sizeOf = (texts: PolicyTexts): number =>
  Object.values(texts).reduce((sum, text) => sum + text.length, 0)

function changedTexts(
  texts: PolicyTexts,
  sets: SentCases['sets'],
  { with: beside, without }: PolicyCase,
): Result<PolicyTexts> {
  const missing = [
    ...beside.filter((name) => !Object.hasOwn(sets, name)),
    ...without.filter((name) => !Object.hasOwn(texts, name)),
  ]
  if (missing.length > 0)
    return err(
      failure('not_found', `neither the file nor the policy set contains \`${missing.join('`, `')}\``),
    )
  const kept = Object.entries(texts).filter(([name]) => !without.includes(name))
  return ok({
    ...Object.fromEntries(kept),
    ...Object.fromEntries(beside.map((name) => [name, (sets[name] ?? []).join('\n')])),
  })
}

/** `agentText`: everything that the agent would be able to read about the decision. */
type Outcome = { readonly got: ActualResult; readonly agentText: string }

/** Takes a call from its proposal through each approval, by the steps of real calls. */
function outcomeOf(
  directory: LoadedDirectory,
  { request, approved_by, folder_met_secret: metSecret, used = {}, at = NOON }: PolicyCase,
): Outcome {
  const agent = directory.agents.get(request.agent)
  if (agent === undefined)
    return refusedOutcome(
      failure('not_found', `there is no agent \`${request.agent}\`; the file can define it`),
    )
  if (!directory.tools.has(request.tool))
    return refusedOutcome(
      failure('not_found', `there is no tool \`${request.tool}\`; the file can define it`),
    )
  const run = countersOf(used.run, NOTHING)
  const asked = { asks_hour: used.agent?.asks_hour ?? run.asks }
  const counted = { run, session: countersOf(used.session, run), agent: asked } // session and agent include the run
  const now = Date.parse(at)
  const row = { ...runOf(agent, request.run, run, now), folder: { worker: '', used: true, metSecret } }
  const prepared = prepareProposal(
    directory,
    row,
    { ...request, agent, origin: request.actor === undefined ? {} : { actor: request.actor } },
    { used: counted, shadowUsed: counted, now },
  )
  if (prepared.kind !== 'new') return refusedOutcome(prepared.failure)
  const { proposal, ask } = prepared
  let { decision } = prepared
  let step = lifecycle(proposal, { kind: 'proposed', decision, ask }, now)
  const answers: RecordedAnswer[] = []
  for (const by of approved_by) {
    const giver = directory.operators.get(by)
    if (giver === undefined)
      return refusedOutcome(failure('not_found', `there is no operator \`${by}\`; the file can define it`))
    if (!step.ok) return refusedOutcome(step.error)
    const record = { proposal, status: step.value.status }
    if (record.status.state !== 'awaiting_approval') return decidedOutcome(decision, proposal.plan, by)
    const answer: RecordedAnswer = {
      by,
      since_ms: giver.since,
      decision: 'approve',
      channel: 'api',
      scope: 'once',
      reason: '',
      at_ms: now,
    }
    answers.push(answer)
    decision = judgeAgain(directory, row, record, { answers, used: counted, now }).decision
    step = lifecycle(record, { kind: 'answered', answer, decision }, now)
  }
  return step.ok ? decidedOutcome(decision, proposal.plan) : refusedOutcome(step.error)
}

const NOON = '2026-11-18T12:00:00Z'
const RUN = `run_${'0'.repeat(26)}`

const runOf = (
  { tenant, name, spec, since }: AgentPrincipal,
  runSpec: RunSpec = {},
  { calls, denied }: Counters,
  now: number,
): Omit<RunRow, 'folder'> => ({
  record: {
    id: RUN,
    tenant,
    agent: name,
    agentSince: since,
    session: runSpec.session ?? RUN,
    channel: runSpec.channel ?? null,
    device: runSpec.device ?? null,
    budget: budgetOf(spec, runSpec),
    fingerprint: '',
    createdAt: now,
  },
  cancelled: false,
  calls: calls + denied,
  allowed: calls,
  denied,
  seq: 0,
  head: '',
  logged: 0,
})

type GivenCounters = {
  readonly [K in keyof Counters]?:
    | (K extends 'tool' ? { readonly [L in keyof Counters['tool']]?: number | undefined } : number)
    | undefined
}

const countersOf = (given: GivenCounters = {}, otherwise: Counters): Counters => ({
  calls: given.calls ?? Math.max(otherwise.calls, given.tool?.calls ?? 0),
  denied: given.denied ?? Math.max(otherwise.denied, given.tool?.denied ?? 0),
  time_ms: given.time_ms ?? Math.max(otherwise.time_ms, given.tool?.time_ms ?? 0),
  asks: given.asks ?? Math.max(otherwise.asks, given.tool?.asks ?? 0),
  tool: {
    calls: given.tool?.calls ?? otherwise.tool.calls,
    denied: given.tool?.denied ?? otherwise.tool.denied,
    time_ms: given.tool?.time_ms ?? otherwise.tool.time_ms,
    spent: given.tool?.spent ?? otherwise.tool.spent,
    asks: given.tool?.asks ?? otherwise.tool.asks,
  },
})

const decidedOutcome = (decision: Decision, plan: Plan | null, unasked?: string): Outcome => {
  const { effect, code, policies, reason } = decision
  const short = plan === null ? null : { tier: plan.tier, egress: plan.egress.mode, hosts: plan.egress.hosts }
  return {
    got: { effect, code, policies, reason, plan: short, ...(unasked === undefined ? {} : { unasked }) },
    agentText: JSON.stringify(decision),
  }
}

/** The outcome of a case that can't be decided: the proposal or the policy set is invalid. */
function refusedOutcome({ code, detail, errors = [] }: Failure): Outcome {
  const reason = [detail, ...errors.map(({ at, message }) => `${at}: ${message}`)].join('; ')
  return { got: { effect: 'refused', code, policies: [], reason, plan: null }, agentText: reason }
}

function compare(
  { description, expect: expected, silent }: PolicyCase,
  { got, agentText }: Outcome,
): CaseResult {
  const checks: readonly [Differing, boolean][] = [
    ['effect', expected.effect === got.effect],
    ['code', expected.code === undefined || expected.code === got.code],
    ['policies', expected.policies === undefined || sameNames(expected.policies, got.policies)],
    ['reason', expected.reason === undefined || expected.reason === got.reason],
    ['plan', expected.plan === undefined || (got.plan !== null && planFits(expected.plan, got.plan))],
    ['approved_by', got.unasked === undefined],
    ['silent', silent.every((words) => !agentText.includes(words))],
  ]
  const differs = checks.flatMap(([what, holds]) => (holds ? [] : [what]))
  return { description, passed: differs.length === 0, differs, expected, got }
}

const sameNames = (some: readonly string[], others: readonly string[]): boolean =>
  some.length === others.length && [...some].sort().every((name, i) => name === [...others].sort()[i])

const planFits = (
  expected: NonNullable<PolicyCase['expect']['plan']>,
  { tier, egress, hosts }: NonNullable<ActualResult['plan']>,
): boolean =>
  expected.tier === tier &&
  expected.egress === egress &&
  (expected.hosts === undefined || sameNames(expected.hosts, hosts))
