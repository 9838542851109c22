// Cases decided: what comes of each call that a file of cases describes, under a set of policies that need not be in force, among what the
// tenant has and what the file brings. By the functions that prepare, decide and step real calls, and by no other. It stores nothing, runs
// nothing and asks nobody.

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
import type { Answered } from '../call/lifecycle.ts'
import { step as lifecycle } from '../call/lifecycle.ts'
import { budgetOf, type RunRow } from '../call/run.ts'
import type { Counters } from '../call/usage.ts'
import { NOTHING } from '../call/usage.ts'
import { judgeAgain, prepare } from '../decision/proposal.ts'
import type { AgentPrincipal, Loaded } from '../directory/directory.ts'
import { including } from '../directory/directory.ts'
import type { PolicySet, PolicyTexts } from '../policy/engine.ts'
import { checkSchema } from '../tools/schema-rules.ts'

type Got = CaseResult['got']
type Differing = CaseResult['differs'][number]

/** The directory as it would be if what a file brings were registered too. */
export function aroundCases(directory: Loaded, { tools, agents, operators }: SentCases): Result<Loaded> {
  const brought = Object.entries(tools).map(([name, said]) => ({ name, spec: toolOfCase(said) }))
  for (const { name, spec } of brought) {
    const schema = checkSchema(spec.input_schema)
    if (!schema.ok) return err({ ...schema.error, detail: `\`${name}\`: ${schema.error.detail}` })
  }
  const around = including(directory, {
    tools: brought.map(({ name, spec }) => ({ ...spec, name, version: 1, digest: digestOf(spec) })),
    agents: Object.entries(agents),
    operators: Object.entries(operators),
  })
  if (around.tools.size > LIMITS.tools)
    return err(failure('limit_reached', `a tenant can have at most ${LIMITS.tools} tools`))
  if (around.agents.size + around.operators.size > LIMITS.principals)
    return err(failure('limit_reached', `a tenant holds ${LIMITS.principals} principals at the most`))
  return ok({ ...around, shadow: null })
}

/** A set that can be asked, and what is probably not meant in it. */
export type Checked = { readonly set: PolicySet; readonly warnings: readonly FieldError[] }
type Check = (texts: PolicyTexts, around: Loaded) => Result<Checked>

type Cases = Promise<Result<CaseResult[]>>

/** `texts`: the set that the cases are about, without the floor. `check` makes a changed set ready, or says why it can't be. */
export async function decideCases(
  directory: Loaded,
  texts: PolicyTexts,
  { sets, cases }: SentCases,
  check: Check,
): Cases {
  const changed = new Map(
    cases.filter(isChanged).map((one) => [changeOf(one), changedTexts(texts, sets, one)]),
  )
  const bytes = [...changed.values()].reduce((sum, each) => sum + (each.ok ? sizeOf(each.value) : 0), 0)
  if (bytes > LIMITS.policy_case_bytes) {
    const detail = `the cases change the policies in ${changed.size} ways, which are ${bytes} bytes to check; write several files`
    return err(failure('limit_reached', detail))
  }
  const until = Date.now() + LIMITS.policy_cases_ms
  const tooLong = (what: string) =>
    err(failure('limit_reached', `${what} took all the time there is; write several files`))
  const under = new Map<string, Result<Loaded>>()
  for (const [change, each] of changed) {
    await scheduler.wait(0) // others have their turn, and the clock goes on
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
    results.push(judged(one, among.ok ? outcomeOf(among.value, one) : refused(among.error)))
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
    return err(failure('not_found', `neither the file nor the policies have \`${missing.join('`, `')}\``))
  const kept = Object.entries(texts).filter(([name]) => !without.includes(name))
  return ok({
    ...Object.fromEntries(kept),
    ...Object.fromEntries(beside.map((name) => [name, (sets[name] ?? []).join('\n')])),
  })
}

/** `said`: all that the agent would read of it. */
type Outcome = { readonly got: Got; readonly said: string }

/** A call's way from its proposal over each yes, by the steps of real calls. */
function outcomeOf(
  directory: Loaded,
  { request, approved_by, folder_met_secret: metSecret, used = {}, at = NOON }: PolicyCase,
): Outcome {
  const agent = directory.agents.get(request.agent)
  if (agent === undefined)
    return refused(failure('not_found', `no agent \`${request.agent}\`; the file can bring one`))
  if (!directory.tools.has(request.tool))
    return refused(failure('not_found', `no tool \`${request.tool}\`; the file can bring one`))
  const run = countersOf(used.run, NOTHING)
  const asked = { asks_hour: used.agent?.asks_hour ?? run.asks }
  const counted = { run, session: countersOf(used.session, run), agent: asked } // session and agent have used what the run has
  const now = Date.parse(at)
  const row = { ...runOf(agent, request.run, run, now), folder: { worker: '', used: true, metSecret } }
  const prepared = prepare(directory, row, request, { used: () => counted, pending: () => 0, now })
  if (prepared.kind !== 'new') return refused(prepared.failure)
  const { proposal, ask } = prepared
  let { decision } = prepared
  let step = lifecycle(proposal, { kind: 'proposed', decision, ask }, now)
  const answers: Answered[] = []
  for (const by of approved_by) {
    const giver = directory.operators.get(by)
    if (giver === undefined)
      return refused(failure('not_found', `no operator \`${by}\`; the file can bring one`))
    if (!step.ok) return refused(step.error)
    const record = { proposal, status: step.value.status }
    if (record.status.state !== 'awaiting_approval') return told(decision, proposal.plan, by)
    const answer: Answered = {
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
  return step.ok ? told(decision, proposal.plan) : refused(step.error)
}

const NOON = '2026-11-18T12:00:00Z'
const RUN = `run_${'0'.repeat(26)}`

const runOf = (
  { tenant, name, spec, since }: AgentPrincipal,
  said: RunSpec = {},
  { calls, denied }: Counters,
  now: number,
): Omit<RunRow, 'folder'> => ({
  record: {
    id: RUN,
    tenant,
    agent: name,
    agentSince: since,
    session: said.session ?? RUN,
    channel: said.channel ?? null,
    device: said.device ?? null,
    budget: budgetOf(spec, said),
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

type Said = {
  readonly [K in keyof Counters]?:
    | (K extends 'tool' ? { readonly [L in keyof Counters['tool']]?: number | undefined } : number)
    | undefined
}

const countersOf = (said: Said = {}, otherwise: Counters): Counters => ({
  calls: said.calls ?? Math.max(otherwise.calls, said.tool?.calls ?? 0),
  denied: said.denied ?? Math.max(otherwise.denied, said.tool?.denied ?? 0),
  time_ms: said.time_ms ?? Math.max(otherwise.time_ms, said.tool?.time_ms ?? 0),
  asks: said.asks ?? Math.max(otherwise.asks, said.tool?.asks ?? 0),
  tool: {
    calls: said.tool?.calls ?? otherwise.tool.calls,
    denied: said.tool?.denied ?? otherwise.tool.denied,
    time_ms: said.tool?.time_ms ?? otherwise.tool.time_ms,
    spent: said.tool?.spent ?? otherwise.tool.spent,
    asks: said.tool?.asks ?? otherwise.tool.asks,
  },
})

const told = (decision: Decision, plan: Plan | null, unasked?: string): Outcome => {
  const { effect, code, policies, reason } = decision
  const short = plan === null ? null : { tier: plan.tier, egress: plan.egress.mode, hosts: plan.egress.hosts }
  return {
    got: { effect, code, policies, reason, plan: short, ...(unasked === undefined ? {} : { unasked }) },
    said: JSON.stringify(decision),
  }
}

/** What was proposed, or the policies that it was held against, do not stand: there is nothing to decide. */
function refused({ code, detail, errors = [] }: Failure): Outcome {
  const reason = [detail, ...errors.map(({ at, message }) => `${at}: ${message}`)].join('; ')
  return { got: { effect: 'refused', code, policies: [], reason, plan: null }, said: reason }
}

function judged({ description, expect: expected, silent }: PolicyCase, { got, said }: Outcome): CaseResult {
  const checks: readonly [Differing, boolean][] = [
    ['effect', expected.effect === got.effect],
    ['code', expected.code === undefined || expected.code === got.code],
    ['policies', expected.policies === undefined || sameNames(expected.policies, got.policies)],
    ['reason', expected.reason === undefined || expected.reason === got.reason],
    ['plan', expected.plan === undefined || (got.plan !== null && planFits(expected.plan, got.plan))],
    ['approved_by', got.unasked === undefined],
    ['silent', silent.every((words) => !said.includes(words))],
  ]
  const differs = checks.flatMap(([what, holds]) => (holds ? [] : [what]))
  return { description, passed: differs.length === 0, differs, expected, got }
}

const sameNames = (some: readonly string[], others: readonly string[]): boolean =>
  some.length === others.length && [...some].sort().every((name, i) => name === [...others].sort()[i])

const planFits = (
  expected: NonNullable<PolicyCase['expect']['plan']>,
  { tier, egress, hosts }: NonNullable<Got['plan']>,
): boolean =>
  expected.tier === tier &&
  expected.egress === egress &&
  (expected.hosts === undefined || sameNames(expected.hosts, hosts))
