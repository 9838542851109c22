// Trials: runs an unpublished skill for its author. The component is transpiled as at publication,
// each trial gets a fresh instance, and the host side of real calls checks it against the manifest.
// Hosts, storage and channels are replaced by what the trial has recorded. Nothing is stored.

import { canonical, sha256 } from '../../shared/bytes/json.ts'
import { failure } from '../../shared/failures.ts'
import { DEFAULT_BUDGET, LIMITS } from '../../shared/limits.ts'
import type { SkillPlan } from '../../shared/plan/plan.ts'
import { secretsOf } from '../../shared/plan/plan.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { RecordedAnswers, Trial, TrialResult } from '../../shared/wire/skill-trials.ts'
import type { UnboundManifest } from '../../shared/wire/skills.ts'
import type { Env } from '../bindings.ts'
import type { Outside } from '../platform/outbound-fetch.ts'
import { argumentCheck } from '../tools/argument-check.ts'
import { plansFor } from '../tools/planner.ts'
import type { CpuTurn, CpuTurns } from './execution/cpu-turns.ts'
import { SkillHost } from './execution/host.ts'
import type { HostServices } from './execution/host-storage.ts'
import { isolateCode } from './execution/isolate.ts'
import { checkOutput, cleanDetail } from './execution/output-check.ts'
import { executeInIsolate, type Isolate } from './execution/run-call.ts'
import { checkManifest } from './publish/audit.ts'
import { transpile } from './publish/prepare.ts'
import { toolContract } from './publish/tool-contract.ts'
import { checkListing, type StorageTotals, sizeOf, totalsAfterSet } from './storage/quota.ts'

type SentRequest = TrialResult['requests'][number]
type PostedNotice = TrialResult['posts'][number]

export type TrialRequest = {
  readonly manifest: UnboundManifest
  readonly component: Uint8Array
  readonly trials: readonly Trial[]
}

export async function runTrials(
  env: Env,
  { manifest, component, trials }: TrialRequest,
  turns: CpuTurns,
): Promise<Result<TrialResult[]>> {
  const digest = sha256(component)
  const plans = trials.map((trial, index) => planOf(manifest, digest, trial, index))
  const refused = plans.find((plan) => !plan.ok)
  if (refused?.ok === false) return refused
  const transpiled = await transpile(env, manifest, component)
  if (!transpiled.ok) return transpiled
  const checked = checkManifest({ manifest, imports: transpiled.value.capabilities })
  if (!checked.ok) return checked
  // The loader's stub is untyped; it exports our harness.
  const isolate = env.LOADER.load(isolateCode(transpiled.value.files)).getEntrypoint() as unknown as Isolate
  const ends = Date.now() + LIMITS.trials_ms
  let left: number = LIMITS.trials_fuel
  const done: TrialResult[] = []
  for (const [index, trial] of trials.entries()) {
    const plan = plans[index]
    if (!plan?.ok) continue
    const { limits } = plan.value
    const fuel = Math.min(left, limits.fuel)
    const each = await turns.takeWithin(ends - Date.now(), (turn) =>
      runTrial(isolate, { ...plan.value, limits: { ...limits, fuel } }, trial, turn, ends),
    )
    const over = exceededLimit(index, each?.outcome.kind, fuel < limits.fuel)
    if (over !== undefined) return over
    if (each !== undefined) done.push(each)
    left -= each?.fuel_used ?? 0
  }
  return ok(done)
}

/**
 * Fails the whole request if it ran out of time or fuel. A trial's result must depend on the skill
 * alone, so a trial that the request's own limits ended has no result.
 */
function exceededLimit(index: number, ended: TrialResult['outcome']['kind'] | undefined, isShort: boolean) {
  if (ended === undefined || ended === 'timeout')
    return err(
      failure(
        'unavailable',
        `trial ${index + 1} had not ended after ${LIMITS.trials_ms} ms; send fewer trials at once, or try again`,
      ),
    )
  return ended === 'fuel_exhausted' && isShort
    ? err(
        failure(
          'invalid_arguments',
          `the first ${index + 1} trials use more than ${LIMITS.trials_fuel} units of fuel; send fewer at once`,
        ),
      )
    : undefined
}

/** The plan that the call would get if the skill were published. */
function planOf(
  manifest: UnboundManifest,
  digest: string,
  { tool: name, input, host: recorded }: Trial,
  index: number,
): Result<SkillPlan> {
  const tool = manifest.tools.find((one) => one.name === name)
  if (tool === undefined)
    return err(
      failure('invalid_arguments', `trial ${index + 1} calls \`${name}\`, which is not a tool of the skill`),
    )
  const fits = argumentCheck(tool.input_schema)(input)
  if (!fits.ok) return err({ ...fits.error, detail: `trial ${index + 1}: ${fits.error.detail}` })
  const fault = faultInRecordedValues(recorded)
  if (fault !== undefined) return err(failure('invalid_arguments', `trial ${index + 1}: ${fault}`))
  const plans = plansFor(toolContract(manifest, digest, tool), input, DEFAULT_BUDGET)
  const [plan] = plans.ok ? plans.value : []
  return plan?.tier === 'A' ? ok(plan) : err(failure('invalid_skill', 'the edge has no plan for the tool'))
}

const recordedValues = ({ kv }: RecordedAnswers): Map<string, Uint8Array> =>
  new Map(Object.entries(kv).map(([key, text]) => [key, new TextEncoder().encode(text)]))

/** Why a skill's storage could not contain the recorded values; undefined if it could. */
function faultInRecordedValues(recorded: RecordedAnswers): string | undefined {
  let all: StorageTotals = { keys: 0, bytes: 0 }
  for (const [key, value] of recordedValues(recorded)) {
    const after = totalsAfterSet(all, undefined, key, value)
    if (!after.ok) return `\`host.kv\`: \`${key.slice(0, 64)}\`: ${after.error.detail}`
    all = after.value
  }
  return undefined
}

/**
 * Runs one trial. Its fuel limits it as in a real call, but it has no timeout of its own, because
 * duration depends on the machine and on what else runs there.
 */
async function runTrial(
  isolate: Isolate,
  plan: SkillPlan,
  { input, host: recorded }: Trial,
  turn: CpuTurn,
  ends: number,
): Promise<TrialResult> {
  const requests: SentRequest[] = []
  const posts: PostedNotice[] = []
  const values = recordedValues(recorded)
  const secrets = Object.fromEntries(
    secretsOf(plan).map((name) => [name, recorded.secrets[name] ?? `value-of-${name}`]),
  )
  const call = {
    input: canonical(input),
    now: recorded.clock,
    random: Buffer.from(recorded.random, 'hex'),
    ends,
  }
  const [outside, services] = [recordedOutside(recorded, requests), recordedServices(values, posts)]
  const host = new SkillHost({ plan, secrets, outside, standIns: undefined, turn, services: services })
  const { outcome, stdout, stderr, used } = await executeInIsolate(isolate, plan, call, host)
  const { fuel_used, memory_bytes, host_calls } = used
  return {
    outcome: cleanDetail(checkOutput(outcome, plan, stdout), (text) => text),
    output: stdout.toString(),
    log: stderr.toString(),
    fuel_used,
    memory_bytes,
    host_calls: { ...host_calls, ...host.calls },
    requests,
    kv: Object.fromEntries([...values].sort().map(([key, value]) => [key, textOf(value)])),
    posts,
  }
}

const textOf = (bytes: Uint8Array): string =>
  new TextDecoder().decode(bytes).slice(0, LIMITS.trial_text_chars)

function totalsAfterSetting(
  values: ReadonlyMap<string, Uint8Array>,
  key: string,
  value: Uint8Array,
): Result<StorageTotals> {
  const had = values.get(key)
  const bytes = [...values].reduce((sum, [name, one]) => sum + sizeOf(name, one), 0)
  return totalsAfterSet(
    { keys: values.size, bytes },
    had === undefined ? undefined : sizeOf(key, had),
    key,
    value,
  )
}

/** Storage and channels in memory, for one trial, with the quotas of the real ones. */
function recordedServices(values: Map<string, Uint8Array>, posts: PostedNotice[]): HostServices {
  return {
    storage: {
      get: async (key) => ok(values.get(key) ?? null),
      async set(key, value) {
        const after = totalsAfterSetting(values, key, value)
        if (after.ok) values.set(key, value)
        return after.ok ? ok(true) : after
      },
      async delete(key) {
        values.delete(key)
        return ok(true)
      },
      keys: async (prefix) => checkListing([...values.keys()].filter((key) => key.startsWith(prefix))),
    },
    async post(channel, number, text) {
      if (number > LIMITS.notices_per_call)
        return err(failure('limit_reached', `a call may post ${LIMITS.notices_per_call} times`))
      posts.push({ channel, text: text.slice(0, LIMITS.notice_chars) })
      return ok(true)
    },
  }
}

/** Answers each request with the first recorded answer for it that is not used up. */
function recordedOutside({ http }: RecordedAnswers, requests: SentRequest[]): Outside {
  const left = [...http]
  return {
    async fetch(to, { method = 'GET', headers, body }) {
      const request = `${method} ${to}`
      const at = left.findIndex((one) => one.request === request)
      const [answer] = at < 0 ? [] : left.splice(at, 1)
      const sent = Object.fromEntries(new Headers(headers))
      const text = body instanceof Uint8Array ? textOf(body) : ''
      requests.push({ request, headers: sent, body: text, answered: answer !== undefined })
      if (answer === undefined || 'unreachable' in answer) throw new Error('no recorded answer')
      const isBodiless = answer.status === 204 || answer.status === 205 || answer.status === 304
      return new Response(isBodiless ? null : answer.body, { status: answer.status, headers: answer.headers })
    },
  }
}
