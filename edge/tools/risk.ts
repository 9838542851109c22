// The risk of a call and its reason, for approvers. It follows from the capabilities of the tool's
// contract and is lower if this call can only read. A skill's publisher, tier B and the
// requirements of policy can raise it. Pure. Pages show it and lists sort by it; policies never see
// it.

import type { Plan } from '../../shared/plan/plan.ts'
import type { Change } from '../../shared/wire/explanation.ts'
import { Risk, type Tool } from '../../shared/wire/tools.ts'
import { capabilitiesOf } from './capabilities.ts'

/** The risk of an approval. `wanted`: each set of answers that would allow the call. */
export function riskWithReason(
  tool: Tool,
  plan: Plan | null,
  wanted: readonly (readonly Change[])[],
): { risk: Risk; ground: string } {
  const own = riskOf(tool, plan)
  const ground = groundOf(tool, plan, own)
  if (!requiresMore(wanted)) return { risk: own, ground }
  const byPolicy = `policy requires ${requirementInWords(wanted)}`
  return own === 'low'
    ? { risk: 'medium', ground: byPolicy }
    : { risk: own, ground: `${ground}, and ${byPolicy}` }
}

/**
 * Whether policy requires more than one yes by any approver: several people, a role, an independent
 * approver, or a stronger assurance.
 */
export const requiresMore = (wanted: readonly (readonly Change[])[]): boolean =>
  wanted.length > 0 &&
  !wanted.some((together) =>
    together.every(({ fact, needs }) => fact === 'approval.count' && needs.value === 1),
  )

/** The alternatives that would allow it, in words. */
export const requirementInWords = (wanted: readonly (readonly Change[])[]): string =>
  wanted.map((together) => together.map(({ words }) => words).join(', and ')).join('; or ')

function groundOf(tool: Tool, plan: Plan | null, risk: Risk): string {
  const capabilities = capabilitiesOf(tool)
  if (tool.risk === risk && riskOf({ ...tool, risk: undefined }, plan) !== risk)
    return 'its publisher states this risk'
  if (risk === 'critical') return 'it reads secrets'
  if (plan?.tier === 'B') return 'it runs on the worker’s host without a sandbox (tier B)'
  if (risk === 'high') return capabilities.includes('process_exec') ? 'it runs programs' : 'it writes files'
  if (tool.executor.kind === 'upstream' && risk === 'medium')
    return 'a server outside of Countersign executes it'
  if (risk === 'low') return 'its contract lets it neither change nor send anything'
  if (capabilities.includes('process_exec') || capabilities.includes('filesystem_write'))
    return 'the tool could change things, but this call only reads'
  return capabilities.includes('network') ? 'it reaches the network' : 'its contract marks it as sensitive'
}

export function riskOf(tool: Tool, plan: Plan | null): Risk {
  const contract = riskOfContract(tool)
  const inPlan = plan?.tier === 'B' && contract !== 'critical' ? 'high' : contract
  const risk = inPlan === 'high' && plan?.tier === 'C' && onlyReads(plan.executor.argv) ? 'medium' : inPlan
  return tool.risk !== undefined && isRiskier(risk, tool.risk) ? tool.risk : risk
}

export const isRiskier = (was: Risk, is: Risk): boolean =>
  Risk.options.indexOf(is) > Risk.options.indexOf(was)

function riskOfContract(tool: Tool): Risk {
  const capabilities = capabilitiesOf(tool)
  if (capabilities.includes('secrets_read')) return 'critical'
  if (capabilities.includes('process_exec') || capabilities.includes('filesystem_write')) return 'high'
  return capabilities.includes('network') || tool.sensitive === true ? 'medium' : 'low'
}

/** Programs that only read and print, with the arguments that make them do more. */
const READERS: ReadonlyMap<string, RegExp> = new Map([
  ...['cat', 'grep', 'head', 'id', 'ls', 'pwd', 'stat', 'tail', 'uname', 'wc', 'whoami'].map(
    (name) => [name, /(?!)/] as const,
  ),
  ['find', /^-(?:delete|exec|ok|fprint|fls)/],
  ['rg', /^--(?:pre|hostname-bin)/],
])

/** Only for programs of the system: one with the same name in the workspace may do anything. */
function onlyReads([program = '', ...args]: readonly string[]): boolean {
  const acts = READERS.get(program.replace(/^(?:\/usr)?\/bin\//, ''))
  return acts !== undefined && !args.some((arg) => acts.test(arg))
}
