// Executes one skill call: loads the skill's isolate, calls it, and maps its answer to an outcome.
// The isolate's answer is untrusted; one of another shape counts as a failure of the isolate. Never
// throws.

import { canonical, sha256 } from '../../../shared/bytes/json.ts'
import { SIGNED_TEXT_CHARS, toSignableText } from '../../../shared/bytes/signable-text.ts'
import type { Outcome, SkillPlan } from '../../../shared/plan/plan.ts'
import type { Env } from '../../bindings.ts'
import { tenantSkills } from '../../bindings.ts'
import type { EnabledSkill } from '../../directory/enabled-skill.ts'
import type { SkillHost } from './host.ts'
import { HostRpc } from './host-rpc.ts'
import { HARNESS_SHA256, isolateCode } from './isolate.ts'
import { IsolateAnswer } from './isolate-answer.ts'
import { answerAfterStop, stopSignal } from './stop-signal.ts'

export type ExecutionResult = {
  readonly outcome: Outcome
  readonly stdout: Buffer
  readonly stderr: Buffer
  readonly used: {
    readonly fuel_used: number
    readonly memory_bytes: number
    readonly host_calls: Record<string, number>
  }
}
type IsolateInput = {
  readonly tool: string
  readonly input: string
  readonly fuel: number
  readonly granted: readonly string[]
  readonly now: number
  /** Bytes repeated endlessly instead of randomness; only trials set it. */
  readonly random?: Uint8Array
}
export type Isolate = { call: (asked: IsolateInput, host: HostRpc) => Promise<unknown> }

const NOTHING = { fuel_used: 0, memory_bytes: 0, host_calls: {} }
/** The result of a call that never began, or of whose execution nothing is known. */
export const emptyResult = (outcome: Outcome): ExecutionResult => ({
  outcome,
  stdout: Buffer.alloc(0),
  stderr: Buffer.alloc(0),
  used: NOTHING,
})
const infra = (why: unknown): ExecutionResult =>
  emptyResult({
    kind: 'infra',
    detail: toSignableText(`the isolate failed: ${String(why)}`, SIGNED_TEXT_CHARS.detail),
  })

/** `ends`: the deadline by the edge's clock. `signal`: cancels the call. */
type CallInput = Pick<IsolateInput, 'input' | 'now' | 'random'> & {
  readonly ends: number
  readonly signal?: AbortSignal
}

export async function executeCall(
  env: Env,
  tenant: string,
  skill: EnabledSkill,
  plan: SkillPlan,
  input: CallInput,
  host: SkillHost,
): Promise<ExecutionResult> {
  let isGone = false
  const isolate = loadIsolate(env, tenant, skill, () => {
    isGone = true
  })
  const performed = await executeInIsolate(isolate, plan, input, host)
  return isGone ? emptyResult(skillDisabled(plan, 'while its isolate was made')) : performed
}

/** The outcome of a call that did not run because its version was disabled. */
export const skillDisabled = ({ executor: { skill, version } }: SkillPlan, when: string): Outcome => ({
  kind: 'refused',
  code: 'skill_disabled',
  detail: `version ${version} of the skill \`${skill}\` was disabled ${when}`,
})

export async function executeInIsolate(
  isolate: Isolate,
  { executor, limits }: SkillPlan,
  { ends, signal, ...input }: CallInput,
  host: SkillHost,
): Promise<ExecutionResult> {
  const stop = stopSignal(ends, signal)
  const { tool, capabilities: granted } = executor
  try {
    const answering = isolate.call({ tool, fuel: limits.fuel, granted, ...input }, new HostRpc(host))
    const first = await Promise.race([answering.then((answer) => ({ answer })), stop.stopped])
    if (typeof first === 'string') return await awaitFinalAnswer(first, answering, host)
    const read = IsolateAnswer.safeParse(first.answer)
    return read.success
      ? resultOf(read.data, limits.output_bytes)
      : infra('its answer has an unexpected shape')
  } catch (thrown) {
    return infra(thrown instanceof Error ? thrown.message : thrown)
  } finally {
    host.close()
    stop.dispose()
  }
}

/**
 * Closes the host side, so that the skill's next request fails, and waits briefly for the isolate
 * to report its log and the fuel that it used.
 */
async function awaitFinalAnswer(
  kind: 'timeout' | 'cancelled',
  answering: Promise<unknown>,
  host: SkillHost,
): Promise<ExecutionResult> {
  host.close()
  const read = IsolateAnswer.safeParse(await answerAfterStop(answering))
  const nothing = emptyResult({ kind })
  if (!read.success) return nothing
  const { log, end: _, ...used } = read.data
  return { ...nothing, stderr: Buffer.from(log), used }
}

/**
 * How often each isolate failed to load. The number is part of its name, because the platform
 * caches a failed load and would fail every later call with the same error.
 */
const failures = new Map<string, number>()

/**
 * Gets the isolate of this tenant and version of the skill (W13), loading it if necessary. Calls
 * `gone` if the version no longer has code, because it was disabled in the meantime.
 */
function loadIsolate(env: Env, tenant: string, { digest, modules }: EnabledSkill, gone: () => void): Isolate {
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
      return fail('the skill is no longer enabled')
    }
    // W14: the code that runs must be the code made at publication, whose digests are attested.
    if (
      canonical(files.map(([name, bytes]) => [name, sha256(bytes)])) !==
      canonical(modules.map(({ name, sha256 }) => [name, sha256]))
    )
      return fail('its code is not what was published')
    return isolateCode(files)
  }
  // The loader's stub is untyped; it exports our harness.
  return env.LOADER.get(`${name}/${failed}`, code).getEntrypoint() as unknown as Isolate
}

function resultOf({ end, log, ...used }: IsolateAnswer, most: number): ExecutionResult {
  const stdout = Buffer.from(end.kind === 'returned' ? end.output : '')
  const fits = stdout.byteLength <= most
  return {
    outcome: fits ? outcomeOf(end) : { kind: 'output_cap' },
    stdout: fits ? stdout : Buffer.alloc(0),
    stderr: Buffer.from(log),
    used,
  }
}

function outcomeOf(end: IsolateAnswer['end']): Outcome {
  if (end.kind === 'returned') return { kind: end.kind }
  return end
}
