// One call of a skill: its isolate, found or made, and what came of it. The isolate's answer is a stranger's: what does not fit its shape is
// no ending of ours. It never throws, and knows nothing of grants.

import { z } from 'zod'
import { canonical, sha256 } from '../../../shared/bytes/json.ts'
import { asTold, TOLD_CHARS } from '../../../shared/bytes/signable-text.ts'
import { LIMITS } from '../../../shared/limits.ts'
import type { Outcome, SkillPlan } from '../../../shared/plan/plan.ts'
import type { Env } from '../../bindings.ts'
import { tenantSkills } from '../../bindings.ts'
import type { EnabledSkill } from '../../directory/enabled-skill.ts'
import { Asking, type HostSide } from './host.ts'
import { HARNESS_SHA256, isolateOf } from './isolate.ts'
import { stopping } from './stop-signal.ts'

export type Performed = {
  readonly outcome: Outcome
  readonly stdout: Buffer
  readonly stderr: Buffer
  readonly used: {
    readonly fuel_used: number
    readonly memory_bytes: number
    readonly host_calls: Record<string, number>
  }
}
type Asked = {
  readonly tool: string
  readonly input: string
  readonly fuel: number
  readonly granted: readonly string[]
  readonly now: number
  /** Over and over, in the place of what is random: in trials alone. */
  readonly random?: Uint8Array
}
export type Isolate = { call: (asked: Asked, host: Asking) => Promise<unknown> }

const Detail = z.string().max(LIMITS.skill_detail_chars)
const Answer = z.strictObject({
  end: z.discriminatedUnion('kind', [
    z.strictObject({ kind: z.literal('returned'), output: z.string() }),
    z.strictObject({ kind: z.literal('skill_error'), detail: Detail }),
    z.strictObject({ kind: z.literal('trap'), detail: Detail }),
    z.strictObject({ kind: z.literal('fuel_exhausted') }),
    z.strictObject({ kind: z.literal('capability_denied'), detail: Detail }),
  ]),
  log: z.string().max(LIMITS.skill_log_chars + LIMITS.skill_log_spare_chars),
  fuel_used: z.int().min(0),
  memory_bytes: z.int().min(0),
  host_calls: z.record(z.string().max(64), z.int().min(0)),
})
type Answer = z.infer<typeof Answer>

const NOTHING = { fuel_used: 0, memory_bytes: 0, host_calls: {} }
/** Of what never began, or whose end nobody saw. */
export const unseen = (outcome: Outcome): Performed => ({
  outcome,
  stdout: Buffer.alloc(0),
  stderr: Buffer.alloc(0),
  used: NOTHING,
})
const infra = (why: unknown): Performed =>
  unseen({ kind: 'infra', detail: asTold(`the isolate failed: ${String(why)}`, TOLD_CHARS.detail) })

/** `ends`: by our clock, when its time is over. `signal`: somebody wants it ended before. */
type Begun = Pick<Asked, 'input' | 'now' | 'random'> & {
  readonly ends: number
  readonly signal?: AbortSignal
}

export async function perform(
  env: Env,
  tenant: string,
  skill: EnabledSkill,
  plan: SkillPlan,
  begun: Begun,
  host: HostSide,
): Promise<Performed> {
  let isGone = false
  const within = isolate(env, tenant, skill, () => {
    isGone = true
  })
  const performed = await performIn(within, plan, begun, host)
  return isGone ? unseen(disabled(plan, 'while its isolate was made')) : performed
}

/** Nothing of it ran. */
export const disabled = ({ executor: { skill, version } }: SkillPlan, when: string): Outcome => ({
  kind: 'refused',
  code: 'skill_disabled',
  detail: `version ${version} of the skill \`${skill}\` was disabled ${when}`,
})

export async function performIn(
  within: Isolate,
  { executor, limits }: SkillPlan,
  { ends, signal, ...begun }: Begun,
  host: HostSide,
): Promise<Performed> {
  const stop = stopping(ends, signal)
  const { tool, capabilities: granted } = executor
  try {
    const answering = within.call({ tool, fuel: limits.fuel, granted, ...begun }, new Asking(host))
    const first = await Promise.race([answering.then((answer) => ({ answer })), stop.came])
    if (typeof first === 'string') return await farewell(first, answering, host)
    const read = Answer.safeParse(first.answer)
    return read.success ? seen(read.data, limits.output_bytes) : infra('its answer has another shape')
  } catch (thrown) {
    return infra(thrown instanceof Error ? thrown.message : thrown)
  } finally {
    host.shut()
    stop.forget()
  }
}

/** It hears so when it asks for its next slice of fuel, or for anything, and may still say what it has burnt. */
async function farewell(
  kind: 'timeout' | 'cancelled',
  answering: Promise<unknown>,
  host: HostSide,
): Promise<Performed> {
  host.shut()
  const patience = Promise.withResolvers<undefined>()
  const timer = setTimeout(() => patience.resolve(undefined), LIMITS.skill_farewell_ms)
  const answer = await Promise.race([answering.catch(() => undefined), patience.promise])
  clearTimeout(timer)
  const read = Answer.safeParse(answer)
  const nothing = unseen({ kind })
  if (!read.success) return nothing
  const { log, end: _, ...used } = read.data
  return { ...nothing, stderr: Buffer.from(log), used }
}

/** How often each could not be made: the platform keeps what it failed to load, and fails each call after with the same error. */
const failures = new Map<string, number>()

/** One for each version of a skill and tenant (W13). `gone`: it has no code any more, so nothing of it runs. */
function isolate(env: Env, tenant: string, { digest, modules }: EnabledSkill, gone: () => void): Isolate {
  const name = `${tenant}/${digest}/${HARNESS_SHA256}`
  const failed = failures.get(name) ?? 0
  const fail = (why: string): never => {
    failures.set(name, failed + 1)
    throw new Error(why)
  }
  const code = async (): Promise<WorkerLoaderWorkerCode> => {
    const files = await tenantSkills(env, tenant)
      .code(digest)
      .catch((error) => fail(`its code could not be read: ${String(error)}`))
    if (files === undefined) {
      gone()
      return fail('the skill is not enabled any more')
    }
    // W14: what runs is what was made when it was published, and what will be attested.
    if (
      canonical(files.map(([name, bytes]) => [name, sha256(bytes)])) !==
      canonical(modules.map(({ name, sha256 }) => [name, sha256]))
    )
      return fail('its code is not what was published')
    return isolateOf(files)
  }
  // The loader's stub tells no types: what it exports is our own harness.
  return env.LOADER.get(`${name}/${failed}`, code).getEntrypoint() as unknown as Isolate
}

function seen({ end, log, ...used }: Answer, most: number): Performed {
  const stdout = Buffer.from(end.kind === 'returned' ? end.output : '')
  const fits = stdout.byteLength <= most
  return {
    outcome: fits ? outcomeOf(end) : { kind: 'output_cap' },
    stdout: fits ? stdout : Buffer.alloc(0),
    stderr: Buffer.from(log),
    used,
  }
}

function outcomeOf(end: Answer['end']): Outcome {
  if (end.kind === 'returned') return { kind: end.kind }
  return end
}
