// The `PreToolUse` hook of Claude Code: the document that it posts before it runs a tool, and the
// answer that it reads. Members that are not named here are ignored.

import { z } from 'zod'
import { Opaque } from '../fields.ts'
import { LIMITS } from '../limits.ts'

export const ClaudeCodeHook = z.object({
  hook_event_name: z.literal('PreToolUse', {
    error: 'must be `PreToolUse`: configure this URL for no other event',
  }),
  session_id: Opaque,
  tool_name: z
    .string()
    .min(1)
    .max(LIMITS.hook_tool_chars)
    .regex(/^[A-Za-z0-9_.-]+$/, 'is not the name of a tool'),
  tool_input: z.record(z.string(), z.unknown()),
})

export const ClaudeCodeAnswer = z.strictObject({
  hookSpecificOutput: z.strictObject({
    hookEventName: z.literal('PreToolUse'),
    permissionDecision: z.enum(['allow', 'deny']),
    permissionDecisionReason: z.string(),
  }),
})
export type ClaudeCodeAnswer = z.infer<typeof ClaudeCodeAnswer>
