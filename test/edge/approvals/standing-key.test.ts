// A standing answer covers only calls that agree in everything the human was shown (L3).

import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ROOT } from '../../../infra/state.ts'
import { DEFAULT_LIMITS } from '../../../shared/limits.ts'
import type { ProcessPlan } from '../../../shared/plan/plan.ts'

type RunFacts = {
  id: string
  agentSince: number
  device: string | null
  channel: string | null
  createdAt: number
}
type ToolFacts = { name: string; version: number; digest: string }
/**
 * Imported by a variable path, because the type check of tests lacks the types of workerd that it
 * needs.
 */
const { keyOf, mayStand } = (await import(/* @vite-ignore */ join(ROOT, 'edge/approvals/standing.ts'))) as {
  keyOf: (
    run: RunFacts,
    proposed: { tool: ToolFacts; argsSha256: string; origin?: { actor: object } },
    plan: ProcessPlan,
    policySet: string,
  ) => string
  mayStand: (plan: ProcessPlan) => boolean
}

const run: RunFacts = {
  id: 'run_01KA5XJ3M0000000000000000A',
  agentSince: 1,
  channel: 'chat',
  device: 'laptop',
  createdAt: 1,
}
const tool = { name: 'pay', version: 1, digest: '1'.repeat(64) }
const plan: ProcessPlan = {
  tier: 'C',
  executor: { kind: 'process', argv: ['curl', 'a'], stdin: 'none', env: {}, cwd: '' },
  egress: { mode: 'strict', hosts: ['a.example:443'] },
  secrets: ['token'],
  workspace: 'call',
  limits: DEFAULT_LIMITS,
}
const POLICY_SET = '2'.repeat(64)
type Change = {
  run?: Partial<RunFacts>
  tool?: Partial<ToolFacts>
  plan?: Partial<ProcessPlan>
  policySet?: string
  args?: string
  actor?: { issuer: string; subject: string; jti_sha256?: string }
}
const key = (change: Change = {}): string =>
  keyOf(
    { ...run, ...change.run },
    {
      tool: { ...tool, ...change.tool },
      argsSha256: (change.args ?? '5').repeat(64),
      ...(change.actor && { origin: { actor: change.actor } }),
    },
    { ...plan, ...change.plan },
    change.policySet ?? POLICY_SET,
  )

test.each<[string, Change]>([
  ['an agent that was made again under the name', { run: { agentSince: 2 } }],
  ['another device', { run: { device: 'phone' } }],
  ['another channel', { run: { channel: null } }],
  ['another tool', { tool: { name: 'pay_more' } }],
  ['another version of the tool', { tool: { version: 2, digest: '3'.repeat(64) } }],
  ['another policy set', { policySet: '4'.repeat(64) }],
  ['a weaker tier', { plan: { tier: 'B' } }],
  ['another program', { plan: { executor: { ...plan.executor, argv: ['wget', 'a'] } } }],
  ['another host', { plan: { egress: { mode: 'strict', hosts: ['a.example:443', 'b.example:443'] } } }],
  ['another profile', { plan: { profile: 'compiler' } }],
  ['another secret', { plan: { secrets: ['token', 'db'] } }],
  [
    'a credential',
    { plan: { credentials: [{ secret: 'token', host: 'a.example:80', header: 'x-api-key' }] } },
  ],
  ['another workspace', { plan: { workspace: 'run' } }],
  ['a call on behalf of somebody', { actor: { issuer: 'https://idp.example', subject: 'alice' } }],
])('L3 a standing answer does not cover %s', (_name, change) => {
  expect(key(change)).not.toBe(key())
})

test('a standing answer covers calls by other tokens on behalf of the same person, and of nobody else', () => {
  const of = (subject: string, jti_sha256?: string) =>
    key({ actor: { issuer: 'https://idp.example', subject, ...(jti_sha256 && { jti_sha256 }) } })
  expect(of('alice', '1'.repeat(64))).toBe(of('alice', '2'.repeat(64)))
  expect(of('alice')).not.toBe(of('bob'))
})

test('a standing answer covers other arguments and other runs of its session', () => {
  expect(key({ plan: { executor: { ...plan.executor, argv: ['curl', 'b', 'c'] } }, args: '6' })).toBe(key())
  expect(key({ run: { id: 'run_01KA5XJ3M0000000000000000B', createdAt: 2 } })).toBe(key())
})

test('D17 L3 a standing answer to an interpreter covers only the same arguments', () => {
  const shell = { executor: { ...plan.executor, argv: ['sh', '-c', 'a'] } }
  expect(key({ plan: shell, args: '6' })).not.toBe(key({ plan: shell }))
  expect(key({ plan: shell })).toBe(key({ plan: shell }))
})

test('L3 a standing answer to a tool of an MCP server covers other arguments, and no other definition', () => {
  const server = (definition: string, argv: string[] = ['node', '/opt/docs-mcp.js']) => ({
    executor: {
      ...plan.executor,
      argv,
      mcp: { method: 'tools/call' as const, upstream: 'docs', tool: 'search', definition },
    },
  })
  const of = key({ plan: server('a'.repeat(64)) })
  expect(key({ plan: server('a'.repeat(64)), args: '6' })).toBe(of)
  expect(key({ plan: server('b'.repeat(64)) })).not.toBe(of)
  expect(key({ plan: server('a'.repeat(64), ['node', '/opt/other.js']) })).not.toBe(of)
  // Another call of the run could have changed the script that the interpreter reads.
  expect(mayStand({ ...plan, ...server('a'.repeat(64)), workspace: 'run' })).toBe(false)
})

test('L3 no standing answer covers a call with input files', () => {
  expect(mayStand(plan)).toBe(true)
  expect(mayStand({ ...plan, files: [{ path: 'a', sha256: '0'.repeat(64), bytes: 1 }] })).toBe(false)
})
