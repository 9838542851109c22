// The plan of a call that must be one of tier B or C.

import { isEdgePlan, type Plan, type ProcessPlan } from '../../../shared/plan/plan.ts'

export function processPlan(plan: Plan | null | undefined): ProcessPlan {
  if (plan === null || plan === undefined || isEdgePlan(plan))
    throw new Error(`this is no plan of a process: ${JSON.stringify(plan)}`)
  return plan
}
