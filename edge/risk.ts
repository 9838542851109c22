// How much an approver should mind: by what the tool's contract gives it, less where this very call can only read, and no less than the
// publisher of a skill says. Pure. It is told,
// and sorted by; policies decide by capabilities, never by it.

import type { Plan } from '../shared/plan.ts'
import { Risk, type Tool } from '../shared/wire.ts'
import { capabilitiesOf } from './capabilities.ts'

export function riskOf(tool: Tool, plan: Plan | null): Risk {
  const contract = riskOfContract(tool)
  const risk = contract === 'high' && plan?.tier === 'C' && onlyReads(plan.executor.argv) ? 'medium' : contract
  return tool.risk !== undefined && isRiskier(risk, tool.risk) ? tool.risk : risk
}

export const isRiskier = (was: Risk, is: Risk): boolean => Risk.options.indexOf(is) > Risk.options.indexOf(was)

function riskOfContract(tool: Tool): Risk {
  const capabilities = capabilitiesOf(tool)
  if (capabilities.includes('secrets_read')) return 'critical'
  if (capabilities.includes('process_exec') || capabilities.includes('filesystem_write')) return 'high'
  return capabilities.includes('network') || tool.sensitive === true ? 'medium' : 'low'
}

/** Programs that read and print; and of those that can do more, the arguments that make them. */
const READERS: ReadonlyMap<string, RegExp> = new Map([
  ...['cat', 'grep', 'head', 'id', 'ls', 'pwd', 'stat', 'tail', 'uname', 'wc', 'whoami'].map((name) => [name, /(?!)/] as const),
  ['find', /^-(?:delete|exec|ok|fprint|fls)/],
  ['rg', /^--(?:pre|hostname-bin)/],
])

/** The system's own programs: one of that name in the workspace may be anything. */
function onlyReads([program = '', ...args]: readonly string[]): boolean {
  const acts = READERS.get(program.replace(/^(?:\/usr)?\/bin\//, ''))
  return acts !== undefined && !args.some((arg) => acts.test(arg))
}
