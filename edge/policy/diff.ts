// Compares two policy sets policy by policy. The position of a policy in its text and the comments
// around it don't affect decisions, so they are not differences.

import type { PolicyChange } from '../../shared/routes/policies.ts'
import type { PolicyTexts } from './engine.ts'
import { policiesIn } from './engine.ts'

/** The changes, sorted by the policies' names. */
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
