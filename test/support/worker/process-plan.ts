// The plan of a call that must be one of tier B or C.

import type { Plan, ProcessPlan } from '../../../shared/plan/plan.ts'

export function processPlan(plan: Plan | null | undefined): ProcessPlan {
  if (plan === null || plan === undefined || plan.tier === 'A')
    throw new Error(`this is no plan of a process: ${JSON.stringify(plan)}`)
  return plan
}
