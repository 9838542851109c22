// What one policy set has that another has not, policy by policy. Where a policy stands in its text, and what stands around it, changes
// nothing that is decided, and is no difference.

import type { PolicyChange } from '../../shared/routes/policies.ts'
import type { PolicyTexts } from './engine.ts'
import { policiesIn } from './engine.ts'

/** By name, in the order of names. */
export function changesBetween(before: PolicyTexts, after: PolicyTexts): PolicyChange[] {
  const [old, present] = [policiesIn(before), policiesIn(after)]
  const names = [...new Set([...old.keys(), ...present.keys()])].sort()
  return names.flatMap((policy): PolicyChange[] => {
    const [was, is] = [old.get(policy), present.get(policy)]
    if (was === undefined)
      return is === undefined ? [] : [{ policy, in: is.file, change: 'added', before: null, after: is.text }]
    if (is === undefined) return [{ policy, in: was.file, change: 'removed', before: was.text, after: null }]
    return was.text === is.text
      ? []
      : [{ policy, in: is.file, change: 'changed', before: was.text, after: is.text }]
  })
}
