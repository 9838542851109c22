// Routes for hooks of programs that execute their agent's tools themselves. The answer is advice
// with a record: Countersign can't make the program follow it.

import { ClaudeCodeAnswer, ClaudeCodeHook } from '../wire/hooks.ts'
import { routes } from './route.ts'

export const HOOKS = routes({
  adviseClaudeCode: {
    method: 'POST',
    path: '/v1/hooks/claude-code',
    callers: ['agent'],
    action: 'run.create',
    summary:
      'Advise Claude Code (`PreToolUse` hook) whether to run a tool: decided, asked about and journalled like a call, but neither executed nor enforced by Countersign. Refusals deny, with status 200',
    body: ClaudeCodeHook,
    status: 200,
    result: ClaudeCodeAnswer,
    failures: [],
    refusals: 'claude-code-hook',
  },
})
