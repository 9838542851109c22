// Cases decided: what comes of each call that a file of cases describes, under a set of policies that need not be in force, around what the
// tenant has and what the file brings. By the functions that decide real calls, and by no other. Nothing is stored, runs or asks anybody.

import type { Failure, FieldError } from '../shared/failures.ts'
import { failure } from '../shared/failures.ts'
import { digestOf } from '../shared/json.ts'
import { LIMITS } from '../shared/limits.ts'
import type { CaseResult, PolicyCase, SentCases } from '../shared/policy-cases.ts'
import { toolOfCase } from '../shared/policy-cases.ts'
import type { Result } from '../shared/result.ts'
import { err, ok } from '../shared/result.ts'
import type { Decision } from '../shared/wire.ts'
import type { Decided, Situation } from './decide.ts'
import { decide, decideAgain } from './decide.ts'
import type { Loaded } from './directory.ts'
import { including } from './directory.ts'
import type { PolicySet, PolicyTexts } from './policy.ts'
import { budgetOf } from './run-record.ts'
import { checkSchema } from './schemas.ts'
import type { Counters } from './usage.ts'
import { NOTHING } from './usage.ts'

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
  if (around.tools.size > LIMITS.tools) return err(failure('limit_reached', `a tenant holds ${LIMITS.tools} tools at the most`))
  if (around.agents.size + around.operators.size > LIMITS.principals)
    return err(failure('limit_reached', `a tenant holds ${LIMITS.principals} principals at the most`))
  return ok(around)
}

/** A set that can be asked, and what is probably not meant in it. */
export type Checked = { readonly set: PolicySet; readonly warnings: readonly FieldError[] }
type Check = (texts: PolicyTexts, around: Loaded) => Result<Checked>

/** `texts`: the set that the cases are about, without the floor. `check` makes a changed set ready, or says why it can't be. */
export function decideCases(directory: Loaded, texts: PolicyTexts, { sets, cases }: SentCases, check: Check): Result<CaseResult[]> {
  const changed = new Map(cases.filter(isChanged).map((one) => [changeOf(one), changedTexts(texts, sets, one)]))
  const bytes = [...changed.values()].reduce((sum, each) => sum + (each.ok ? sizeOf(each.value) : 0), 0)
  if (bytes > LIMITS.policy_case_bytes) {
    const detail = `the cases change the policies in ${changed.size} ways, which are ${bytes} bytes to check; write several files`
    return err(failure('limit_reached', detail))
  }
  const under = new Map([...changed].map(([change, each]) => [change, each.ok ? check(each.value, directory) : each]))
  return ok(
    cases.map((one) => {
      const set = under.get(changeOf(one)) ?? ok({ set: directory.policies })
      return judged(one, set.ok ? outcomeOf({ ...directory, policies: set.value.set }, one) : refused(set.error))
    }),
  )
}

const isChanged = ({ with: beside, without }: PolicyCase): boolean => beside.length + without.length > 0
const changeOf = ({ with: beside, without }: PolicyCase): string => JSON.stringify([beside, without])
const sizeOf = (texts: PolicyTexts): number => Object.values(texts).reduce((sum, text) => sum + text.length, 0)

function changedTexts(texts: PolicyTexts, sets: SentCases['sets'], { with: beside, without }: PolicyCase): Result<PolicyTexts> {
  const missing = [...beside.filter((name) => sets[name] === undefined), ...without.filter((name) => texts[name] === undefined)]
  if (missing.length > 0) return err(failure('not_found', `neither the file nor the policies have \`${missing.join('`, `')}\``))
  const kept = Object.entries(texts).filter(([name]) => !without.includes(name))
  return ok({ ...Object.fromEntries(kept), ...Object.fromEntries(beside.map((name) => [name, (sets[name] ?? []).join('\n')])) })
}

/** A call's way from its proposal over each yes, by what is decided at each step. */
function outcomeOf(directory: Loaded, one: PolicyCase): Got {
  const situation = situationOf(directory, one)
  if (!situation.ok) return refused(situation.error)
  const fitting = situation.value.tool.check(one.request.args)
  const decided = fitting.ok ? decide(directory, situation.value) : fitting
  if (!decided.ok) return refused(decided.error)
  const { plan } = decided.value
  let { decision } = decided.value
  const answers: Situation['answers'][number][] = []
  for (const by of one.approved_by) {
    if (decision.effect !== 'ask' || plan === null) return { ...told({ decision, plan }), unasked: by }
    if (!directory.operators.has(by)) return refused(failure('not_found', `no operator \`${by}\`; the file can bring one`))
    answers.push({ by, decision: 'approve', channel: 'api', scope: 'once', reason: '', at_ms: situation.value.now })
    decision = decideAgain(directory, { ...situation.value, answers }, plan)
  }
  return told({ decision, plan })
}

const NOON = '2026-11-18T12:00:00Z'

function situationOf(directory: Loaded, { request, used = {}, at = NOON }: PolicyCase): Result<Situation> {
  const agent = directory.agents.get(request.agent)
  const tool = directory.tools.get(request.tool)
  if (agent === undefined) return err(failure('not_found', `no agent \`${request.agent}\`; the file can bring one`))
  if (tool === undefined) return err(failure('not_found', `no tool \`${request.tool}\`; the file can bring one`))
  const id = 'run of a case'
  const { session = id, channel = null, device = null } = request.run ?? {}
  const run = countersOf(used.run, NOTHING)
  return ok({
    agent,
    tool,
    args: request.args,
    answers: [],
    run: { id, session, channel, device, budget: budgetOf(agent.spec, request.run) },
    // A session has at least what its run has.
    used: { run, session: countersOf(used.session, run) },
    now: Date.parse(at),
  })
}

type Said = {
  readonly [K in keyof Counters]?: (K extends 'tool' ? { readonly [L in keyof Counters['tool']]?: number | undefined } : number) | undefined
}

const countersOf = (said: Said = {}, otherwise: Counters): Counters => ({
  calls: said.calls ?? Math.max(otherwise.calls, said.tool?.calls ?? 0),
  denied: said.denied ?? Math.max(otherwise.denied, said.tool?.denied ?? 0),
  time_ms: said.time_ms ?? Math.max(otherwise.time_ms, said.tool?.time_ms ?? 0),
  tool: {
    calls: said.tool?.calls ?? otherwise.tool.calls,
    denied: said.tool?.denied ?? otherwise.tool.denied,
    time_ms: said.tool?.time_ms ?? otherwise.tool.time_ms,
    spent: said.tool?.spent ?? otherwise.tool.spent,
  },
})

const told = ({ decision: { effect, code, policies, reason }, plan }: Pick<Decided, 'plan'> & { decision: Decision }): Got => ({
  effect,
  code,
  policies,
  reason,
  plan: plan === null ? null : { tier: plan.tier, egress: plan.egress.mode, hosts: plan.egress.hosts },
})

/** What was proposed, or the policies that it was held against, do not stand: there is nothing to decide. */
function refused({ code, detail, errors = [] }: Failure): Got {
  const places = errors.map(({ at, message }) => `${at}: ${message}`)
  return { effect: 'refused', code, policies: [], reason: [detail, ...places].join('; '), plan: null }
}

function judged({ description, expect: expected, silent }: PolicyCase, got: Got): CaseResult {
  const said = JSON.stringify([got.policies, got.reason])
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

const planFits = (expected: NonNullable<PolicyCase['expect']['plan']>, { tier, egress, hosts }: NonNullable<Got['plan']>): boolean =>
  expected.tier === tier && expected.egress === egress && (expected.hosts === undefined || sameNames(expected.hosts, hosts))
