// The risk of a call and its reason, for approvers. It follows the capabilities of the tool's contract, is lower where this call can only
// read, and is at least what a skill's publisher states, what tier B implies, and what policy asks for. Pure. Pages show it and lists sort
// by it; policies decide by capabilities, never by risk.

import type { Plan } from '../../shared/plan/plan.ts'
import type { Change } from '../../shared/wire/explanation.ts'
import { Risk, type Tool } from '../../shared/wire/tools.ts'
import { capabilitiesOf } from './capabilities.ts'

/** The risk of a question to humans. `wanted`: each set of answers that would allow it, as `needed` finds them. */
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

/** Whether policy wants more than one yes by any approver: several people, a role, an independent approver, a surer way. */
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
    return 'its publisher says so'
  if (risk === 'critical') return 'it reads secrets'
  if (plan?.tier === 'B') return 'it runs on the worker’s host, which tier B does not protect'
  if (risk === 'high') return capabilities.includes('process_exec') ? 'it runs programs' : 'it writes files'
  if (risk === 'low') return 'its contract gives it nothing that changes or sends anything'
  if (capabilities.includes('process_exec') || capabilities.includes('filesystem_write'))
    return 'the tool could change things, but this call only reads'
  return capabilities.includes('network') ? 'it reaches the network' : 'its contract calls it sensitive'
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

/** Programs that read and print; and of those that can do more, the arguments that make them. */
const READERS: ReadonlyMap<string, RegExp> = new Map([
  ...['cat', 'grep', 'head', 'id', 'ls', 'pwd', 'stat', 'tail', 'uname', 'wc', 'whoami'].map(
    (name) => [name, /(?!)/] as const,
  ),
  ['find', /^-(?:delete|exec|ok|fprint|fls)/],
  ['rg', /^--(?:pre|hostname-bin)/],
])

/** The system's own programs: one of that name in the workspace may be anything. */
function onlyReads([program = '', ...args]: readonly string[]): boolean {
  const acts = READERS.get(program.replace(/^(?:\/usr)?\/bin\//, ''))
  return acts !== undefined && !args.some((arg) => acts.test(arg))
}
