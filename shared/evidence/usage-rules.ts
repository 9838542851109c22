// Rules about what an execution wrote and used: within its limits, and as its outcome says. Pure.

import { sha256 } from '../bytes/json.ts'
import { LIMITS } from '../limits.ts'
import type { Outcome, Plan, SkillPlan, StreamSummary } from '../plan/plan.ts'
import { FLOOD_FACTOR, mcpRequestOf } from '../plan/plan.ts'
import type { Context, Contradiction } from './checks.ts'
import type { Execution, SkillUse } from './statement.ts'
import { EDGE_EXECUTOR, ISOLATE, UNSTARTED } from './statement.ts'

/** The digest of nothing. */
export const NOTHING = sha256('')

export function* streamFaults(
  at: '/stdout' | '/stderr',
  summary: StreamSummary | null,
  limits: Execution['limits'],
  { who, ran }: Context,
): Generator<Contradiction> {
  if ((summary === null) !== (who === EDGE_EXECUTOR || who === UNSTARTED)) yield { at, what: 'started' }
  if (summary === null) return
  const { bytes, kept, truncated } = summary
  if (bytes > 0 && !ran) yield { at, what: 'started' }
  const isLog = who === ISOLATE && at === '/stderr'
  const most = isLog ? UTF8_BYTES * LIMITS.skill_log_chars : (limits?.output_bytes ?? 0)
  if (kept > bytes || kept > most) yield { at, what: 'output' }
  if (truncated !== kept < bytes) yield { at, what: 'output' }
  if ((bytes === 0) !== (summary.sha256 === NOTHING)) yield { at: `${at}/sha256`, what: 'output' }
}

/**
 * Whether these are the bytes that a statement describes, whose contradictions have been looked for. Of a
 * truncated stream only the length can be compared.
 */
export function isStreamOf(summary: StreamSummary | null, kept: Uint8Array): boolean {
  if (summary === null) return kept.byteLength === 0
  return summary.kept === kept.byteLength && (summary.truncated || sha256(kept) === summary.sha256)
}

/** The most bytes that a character of a text, as JavaScript counts them, has in UTF-8. */
const UTF8_BYTES = 3

/** A skill's use, compared with its plan. */
export function* usageFaults(
  { fuel_used, memory_bytes, host_calls }: Pick<SkillUse, 'fuel_used' | 'memory_bytes' | 'host_calls'>,
  { limits, executor: { capabilities } }: SkillPlan,
): Generator<Contradiction> {
  if (fuel_used > limits.fuel) yield { at: '/fuel_used', what: 'limits' }
  if (memory_bytes > limits.memory_bytes) yield { at: '/memory_bytes', what: 'limits' }
  // Each host call is paid for; the last one may be what exhausts the fuel.
  const most = 1 + Math.floor(limits.fuel / LIMITS.skill_host_call_fuel)
  for (const [name, count] of Object.entries(host_calls)) {
    const isGranted = capabilities.some((capability) => name.startsWith(`${capability}.`))
    if (!isGranted || count > most) yield { at: `/host_calls/${name}`, what: 'limits' }
  }
}

/** Whether the numbers of an execution allow its outcome. */
export function* outcomeFaults(execution: Execution, known: Context): Generator<Contradiction> {
  const { outcome, skill, stdout, stderr, limits } = execution
  const { plan, who } = known
  const at = '/outcome'
  if (outcome?.kind === 'refused') yield* executedThoughRefused(execution, outcome.code, known)
  // Code that can't be suspended has a part of the fuel, so it may run out of that earlier.
  const fuel = plan?.tier === 'A' ? Math.min(plan.limits.fuel, LIMITS.skill_alone_fuel) : 0
  if (outcome?.kind === 'fuel_exhausted' && (skill?.fuel_used ?? 0) < fuel) yield { at, what: 'outcome' }
  if (who !== 'sandbox' || outcome === null || mcpRequestOf(plan) !== undefined) return
  const most = limits?.output_bytes ?? 0
  const flooded = [stdout, stderr].some((stream) => (stream?.bytes ?? 0) > FLOOD_FACTOR * most)
  if (flooded && UNSTOPPED.includes(outcome.kind)) yield { at, what: 'outcome' }
  // An output that was cut can't be the whole value that the tool's contract promises.
  const isCut = plan?.executor.output !== undefined && (stdout?.bytes ?? 0) > most
  if (isCut && outcome.kind === 'exit' && outcome.code === 0) yield { at, what: 'outcome' }
}

/** Outcomes of a process that nobody stopped. */
const UNSTOPPED: readonly string[] = [
  'exit',
  'signal',
  'memory_cap',
  'invalid_output',
] satisfies Outcome['kind'][]

type RefusalCode = Extract<Outcome, { kind: 'refused' }>['code']
/** Refusals that come after something was started, but before the tool. */
const REFUSED_LATE: Readonly<Record<Plan['tier'], readonly RefusalCode[]>> = {
  A: ['skill_disabled'],
  B: ['sandbox_unavailable', 'invalid_input'],
  C: [
    'sandbox_unavailable',
    'invalid_input',
    'workspace_scope_denied',
    'upstream_unavailable',
    'tool_changed',
  ],
  M: ['upstream_unavailable'],
}

/** Signs that a call was executed, although its outcome says that it was refused. */
function* executedThoughRefused(
  { stdout, stderr, connections, upstream, skill, files }: Execution,
  code: RefusalCode,
  { plan, ran }: Context,
): Generator<Contradiction> {
  const what = 'outcome'
  if (ran && plan !== null && !REFUSED_LATE[plan.tier].includes(code)) yield { at: '/outcome/code', what }
  if ((stdout?.bytes ?? 0) > 0) yield { at: '/stdout', what }
  if (plan?.tier === 'A' && (stderr?.bytes ?? 0) > 0) yield { at: '/stderr', what }
  // The server may be reached before the tool is called: to look at it, to log in.
  const reaches = plan?.tier === 'M' || mcpRequestOf(plan) !== undefined
  if (connections.length > 0 && !reaches) yield { at: '/connections', what }
  if (typeof upstream?.request_sha256 === 'string') yield { at: '/upstream/request_sha256', what }
  if (files !== undefined) yield { at: '/files', what }
  if (skill === undefined) return
  if (skill.fuel_used > 0) yield { at: '/skill/fuel_used', what }
  if (skill.memory_bytes > 0) yield { at: '/skill/memory_bytes', what }
  if (Object.keys(skill.host_calls).length > 0) yield { at: '/skill/host_calls', what }
}
