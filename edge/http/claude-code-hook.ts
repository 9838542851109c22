// Answers of Claude Code's hook. Claude Code takes any status other than 200, and a missing answer,
// for a failure of the hook and goes on with the tool. So every refusal denies, with status 200
// (L6).

import type { Failure } from '../../shared/failures.ts'
import { adviceOf } from '../../shared/failures.ts'
import { REFUSAL } from '../../shared/routes/route.ts'
import { inOneLine } from '../../shared/schema/field-errors.ts'
import type { ClaudeCodeAnswer } from '../../shared/wire/hooks.ts'
import { headersOf } from './response-headers.ts'

export const hookAnswer = (permissionDecision: 'allow' | 'deny', reason: string): ClaudeCodeAnswer => ({
  hookSpecificOutput: {
    hookEventName: 'PreToolUse',
    permissionDecision,
    permissionDecisionReason: reason,
  },
})

export function hookRefusal(failure: Failure): Response {
  const { code, detail, errors = [] } = failure
  const what = errors.length === 0 ? detail : `${detail}: ${inOneLine(errors)}`
  const reason = `Countersign refused the request of this hook, so the tool must not run: ${what} (${code}). To do: ${adviceOf(failure)}.`
  return new Response(JSON.stringify(hookAnswer('deny', reason)), {
    headers: { ...headersOf('application/json'), [REFUSAL]: code },
  })
}
