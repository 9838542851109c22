// A skill that nobody has published, tried: transpiled as it would be when it is published, each trial in an instance of its own, held against
// its manifest by the host's side that holds real calls. Only what would leave the edge stays in it: hosts, storage and
// channels are what the trial has recorded. It keeps nothing.

import { canonical, sha256 } from '../../shared/bytes/json.ts'
import { failure } from '../../shared/failures.ts'
import { DEFAULT_BUDGET, LIMITS } from '../../shared/limits.ts'
import type { SkillPlan } from '../../shared/plan/plan.ts'
import { secretsOf } from '../../shared/plan/plan.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Recorded, Trial, Tried } from '../../shared/wire/skill-trials.ts'
import type { UnboundManifest } from '../../shared/wire/skills.ts'
import type { Env } from '../bindings.ts'
import type { Outside } from '../platform/outbound-fetch.ts'
import { argumentCheck } from '../tools/argument-check.ts'
import { plansFor } from '../tools/planner.ts'
import type { Turn, Turns } from './execution/cpu-turns.ts'
import { HostSide } from './execution/host.ts'
import type { Kept } from './execution/host-storage.ts'
import { isolateOf } from './execution/isolate.ts'
import { promised, told } from './execution/output-check.ts'
import { type Isolate, performIn } from './execution/run-call.ts'
import { holding } from './publish/audit.ts'
import { transpiled } from './publish/prepare.ts'
import { specOf } from './publish/tool-contract.ts'
import { afterSetting, listed, type Sums, sizeOf } from './storage/quota.ts'

type Sent = Tried['requests'][number]
type Posted = Tried['posts'][number]

export type Asked = {
  readonly manifest: UnboundManifest
  readonly component: Uint8Array
  readonly trials: readonly Trial[]
}

export async function tried(
  env: Env,
  { manifest, component, trials }: Asked,
  turns: Turns,
): Promise<Result<Tried[]>> {
  const digest = sha256(component)
  const plans = trials.map((trial, index) => planOf(manifest, digest, trial, index))
  const misplanned = plans.find((plan) => !plan.ok)
  if (misplanned?.ok === false) return misplanned
  const made = await transpiled(env, manifest, component)
  if (!made.ok) return made
  const held = holding({ manifest, imports: made.value.capabilities })
  if (!held.ok) return held
  // The loader's stub tells no types: what it exports is our own harness.
  const isolate = env.LOADER.load(isolateOf(made.value.files)).getEntrypoint() as unknown as Isolate
  const ends = Date.now() + LIMITS.trials_ms
  let left: number = LIMITS.trials_fuel
  const done: Tried[] = []
  for (const [index, trial] of trials.entries()) {
    const plan = plans[index]
    if (!plan?.ok) continue
    const { limits } = plan.value
    const fuel = Math.min(left, limits.fuel)
    const each = await turns.takeWithin(ends - Date.now(), (turn) =>
      one(isolate, { ...plan.value, limits: { ...limits, fuel } }, trial, turn, ends),
    )
    const over = tooMuch(index, each?.outcome.kind, fuel < limits.fuel)
    if (over !== undefined) return over
    if (each !== undefined) done.push(each)
    left -= each?.fuel_used ?? 0
  }
  return ok(done)
}

/** What became of a trial is the skill's doing alone, the same each time: where the request is over, nobody knows. */
function tooMuch(index: number, ended: Tried['outcome']['kind'] | undefined, isShort: boolean) {
  if (ended === undefined || ended === 'timeout')
    return err(
      failure(
        'unavailable',
        `after ${LIMITS.trials_ms} ms, trial ${index + 1} has not ended; try fewer at once, or again`,
      ),
    )
  return ended === 'fuel_exhausted' && isShort
    ? err(
        failure(
          'invalid_arguments',
          `${index + 1} trials burn more than ${LIMITS.trials_fuel} units of fuel; try fewer at once`,
        ),
      )
    : undefined
}

/** What would be made of the call if the skill were published. */
function planOf(
  manifest: UnboundManifest,
  digest: string,
  { tool: name, input, host: kept }: Trial,
  index: number,
): Result<SkillPlan> {
  const tool = manifest.tools.find((one) => one.name === name)
  if (tool === undefined)
    return err(failure('invalid_arguments', `trial ${index + 1} is of \`${name}\`, which the skill has not`))
  const fits = argumentCheck(tool.input_schema)(input)
  if (!fits.ok) return err({ ...fits.error, detail: `trial ${index + 1}: ${fits.error.detail}` })
  const unkept = faultInKept(kept)
  if (unkept !== undefined) return err(failure('invalid_arguments', `trial ${index + 1}: ${unkept}`))
  const plans = plansFor(specOf(manifest, digest, tool), input, DEFAULT_BUDGET)
  const [plan] = plans.ok ? plans.value : []
  return plan?.tier === 'A' ? ok(plan) : err(failure('invalid_skill', 'there is no plan for it'))
}

const keptBefore = ({ kv }: Recorded): Map<string, Uint8Array> =>
  new Map(Object.entries(kv).map(([key, text]) => [key, new TextEncoder().encode(text)]))

/** Why no skill could have kept it. */
function faultInKept(recorded: Recorded): string | undefined {
  let all: Sums = { keys: 0, bytes: 0 }
  for (const [key, value] of keptBefore(recorded)) {
    const after = afterSetting(all, undefined, key, value)
    if (!after.ok) return `\`host.kv\`: \`${key.slice(0, 64)}\`: ${after.error.detail}`
    all = after.value
  }
  return undefined
}

/** Its fuel ends it, as it would a call, and no time of its own: how long that takes is the machine's doing, and who else runs there. */
async function one(
  isolate: Isolate,
  plan: SkillPlan,
  { input, host: recorded }: Trial,
  turn: Turn,
  ends: number,
): Promise<Tried> {
  const requests: Sent[] = []
  const posts: Posted[] = []
  const values = keptBefore(recorded)
  const secrets = Object.fromEntries(
    secretsOf(plan).map((name) => [name, recorded.secrets[name] ?? `value-of-${name}`]),
  )
  const asked = {
    input: canonical(input),
    now: recorded.clock,
    random: Buffer.from(recorded.random, 'hex'),
    ends,
  }
  const [outside, kept] = [recordedOutside(recorded, requests), recordedKept(values, posts)]
  const host = new HostSide({ plan, secrets, outside, standIns: undefined, turn, kept })
  const { outcome, stdout, stderr, used } = await performIn(isolate, plan, asked, host)
  const { fuel_used, memory_bytes, host_calls } = used
  return {
    outcome: told(promised(outcome, plan, stdout), (text) => text),
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

function setting(values: ReadonlyMap<string, Uint8Array>, key: string, value: Uint8Array): Result<Sums> {
  const had = values.get(key)
  const bytes = [...values].reduce((sum, [name, one]) => sum + sizeOf(name, one), 0)
  return afterSetting(
    { keys: values.size, bytes },
    had === undefined ? undefined : sizeOf(key, had),
    key,
    value,
  )
}

/** For the time of one call, by the rules of an object of its own. */
function recordedKept(values: Map<string, Uint8Array>, posts: Posted[]): Kept {
  return {
    storage: {
      get: async (key) => ok(values.get(key) ?? null),
      async set(key, value) {
        const after = setting(values, key, value)
        if (after.ok) values.set(key, value)
        return after.ok ? ok(true) : after
      },
      async delete(key) {
        values.delete(key)
        return ok(true)
      },
      keys: async (beginning) => listed([...values.keys()].filter((key) => key.startsWith(beginning))),
    },
    async post(channel, number, text) {
      if (number > LIMITS.notices_per_call)
        return err(failure('limit_reached', `a call may post ${LIMITS.notices_per_call} times`))
      posts.push({ channel, text: text.slice(0, LIMITS.notice_chars) })
      return ok(true)
    },
  }
}

/** Answers each request by the first answer to it that nobody has had. */
function recordedOutside({ http }: Recorded, requests: Sent[]): Outside {
  const left = [...http]
  return {
    async fetch(to, { method = 'GET', headers, body }) {
      const request = `${method} ${to}`
      const at = left.findIndex((one) => one.request === request)
      const [answer] = at < 0 ? [] : left.splice(at, 1)
      const said = Object.fromEntries(new Headers(headers))
      const text = body instanceof Uint8Array ? textOf(body) : ''
      requests.push({ request, headers: said, body: text, answered: answer !== undefined })
      if (answer === undefined || 'unreachable' in answer) throw new Error('nobody answers')
      const bodiless = answer.status === 204 || answer.status === 205 || answer.status === 304
      return new Response(bodiless ? null : answer.body, { status: answer.status, headers: answer.headers })
    },
  }
}
