// The made-up approval that a test message shows. It belongs to no run and has already ended.

import { sha256 } from '../../shared/bytes/json.ts'
import type { Approval } from '../../shared/wire/approvals.ts'

export const testApproval = (now: number): Approval => ({
  id: `apr_${'0'.repeat(26)}_1`,
  status: 'cancelled',
  subject: 'tool:nothing',
  digest: sha256('a test of this channel'),
  group: sha256('a test of this channel'),
  call: `call_${'0'.repeat(26)}_1`,
  prompt: {
    title: 'this is a test message; there is nothing to answer',
    agent: 'nobody',
    tool: 'nothing',
    tool_version: 1,
    risk: 'low',
    command: '',
    plan: 'nothing runs',
    arguments: '{}',
    on_yes: 'nothing',
    policies: [],
    reason: 'an operator tests the channel',
  },
  options: [],
  requested_at: now,
  expires_at: now,
  answers: [],
})
