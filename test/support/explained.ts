// Explains a decision without an edge: given policies and one call of the tool `pay` by the agent
// `me`, returns the explanation.

import type { Reader } from '../../edge/decision/explain/wording.ts'
import type { Grounds } from '../../edge/decision/explain.ts'
import { explain } from '../../edge/decision/explain.ts'
import type { CedarValueJson } from '../../edge/policy/engine.ts'
import { about, ask, compile, readable } from '../../edge/policy/engine.ts'
import { Redaction } from '../../edge/secrets/redaction.ts'
import type { Decision } from '../../shared/wire/calls.ts'
import type { Explanation } from '../../shared/wire/explanation.ts'

export const NOBODY = {
  granted: false,
  count: 0,
  approvers: [],
  roles: [],
  quorum: [],
  assurance: 'none',
  standing_s: 0,
  independent: { count: 0, roles: [], quorum: [] },
}
const PLAN = {
  tier: 'C',
  egress_mode: 'strict',
  egress_hosts: ['a.example:443'],
  secrets: ['db'],
  workspace: 'call',
  timeout_ms: 1_000,
  memory_bytes: 1_000,
  cgroup: false,
}
const CONTEXT = {
  tool_name: 'pay',
  capabilities: ['network'],
  is_sensitive_action: true,
  is_allowlisted_tool: true,
  is_allowed_channel: true,
  allow_sensitive_tools: false,
  session_id: 's',
  run_id: 'r',
  owners: [],
  weekday: 6,
  now: { __extn: { fn: 'datetime', arg: '2026-11-14T20:00:00.000Z' } },
  plan: PLAN,
  approval: NOBODY,
  budget: {
    run: {
      max_calls: 10,
      calls: 10,
      denied: 0,
      time_ms: 0,
      asks: 0,
      tool: { calls: 3, denied: 0, time_ms: 0, spent: 40, asks: 0 },
    },
  },
  args: {},
} satisfies Record<string, CedarValueJson>

export const OPERATOR: Reader = {
  kind: 'operator',
  redaction: new Redaction(() => '«redacted»'),
  names: () => false,
  byArguments: ['plan.egress_hosts'],
  reach: () => [reachOf('key'), reachOf('link')],
}
function reachOf(assurance: string): ReturnType<Reader['reach']>[0] {
  return {
    granted: true,
    assurance,
    standing_s: 0,
    count: 3,
    approvers: ['ann', 'bob', 'cid'],
    roles: ['finance'],
    quorum: ['1 of finance', '2 of finance'],
    independent: { count: 3, roles: ['finance'], quorum: ['1 of finance', '2 of finance'] },
  }
}
export const PERMIT = '@id("permit") permit (principal, action, resource);\n'

export type ExplanationRequest = {
  text: string
  args?: Record<string, CedarValueJson>
  context?: Record<string, CedarValueJson>
  groups?: string[]
}

export function groundsOf({ text, args = {}, context = {}, groups = [] }: ExplanationRequest): Grounds {
  const set = compile({ set: text })
  if (!set.ok) throw new Error(JSON.stringify(set.error))
  const matter = about(set.value, {
    principal: { type: 'Agent', id: 'me' },
    action: 'tool.execute/pay',
    resource: { type: 'Tool', id: 'pay' },
    entities: [
      { uid: { type: 'Agent', id: 'me' }, attrs: {}, parents: groups.map((id) => ({ type: 'Group', id })) },
      {
        uid: { type: 'Action', id: 'tool.execute/pay' },
        attrs: {},
        parents: [{ type: 'Action', id: 'tool.execute' }],
      },
      {
        uid: { type: 'Tool', id: 'pay' },
        attrs: { version: 1, sensitive: true, capabilities: [] },
        parents: [],
      },
    ],
  })
  const seen = readable(matter, { ...CONTEXT, ...context, args })
  return { matter, context: seen, verdict: ask(matter, seen), refused: [] }
}

export const denialOf = ({ verdict }: ReturnType<typeof groundsOf>): Decision => ({
  effect: 'deny',
  code: 'denied',
  policies: [...verdict.policies],
  reason: '',
  policy_set: '',
  snapshot: '',
})

export function explained(
  request: ExplanationRequest,
  reader = OPERATOR,
  fits: (args: Record<string, unknown>) => boolean = () => true,
): Explanation {
  const grounds = groundsOf(request)
  return explain(denialOf(grounds), grounds, { args: request.args ?? {}, fits }, reader)
}
