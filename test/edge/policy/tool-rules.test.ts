// Promise: a tool's contract can't be changed so that a rule in force applies to it less strictly,
// by dropping a group, a capability or `spends`, or so that the rule is no longer valid. Changes that
// weaken no rule are accepted. No stack.

import { expect, test } from 'vitest'
import { DEFAULTS } from '../../../edge/policy/built-in.ts'
import { checkPolicies, checkToolChange } from '../../../edge/policy/check.ts'
import type { ProcessToolSpec } from '../../../shared/wire/tools.ts'
import { toolSpec } from '../../support/fixtures.ts'

const schema = {
  type: 'object',
  properties: { amount: { type: 'integer', minimum: 0 } },
  required: ['amount'],
}
const tool = (change: Partial<ProcessToolSpec>, name = 'refund') => ({
  ...toolSpec({ input_schema: schema, ...change }),
  name,
})
const FULL = {
  groups: ['payments', 'eu'],
  spends: { arg: 'amount' },
  capabilities: ['process_exec', 'filesystem_write', 'network'] satisfies ProcessToolSpec['capabilities'],
}
const refund = tool(FULL)
const OTHER = tool({ groups: ['payments'] }, 'other')

const put = (text: string, change: Partial<ProcessToolSpec>, was = refund) =>
  checkToolChange({ mine: text }, [was, OTHER], 'refund', tool({ ...FULL, ...change }))
const broken = (text: string, change: Partial<ProcessToolSpec>) => {
  const answer = put(text, change)
  return answer.ok
    ? []
    : [answer.error.code, ...(answer.error.errors ?? []).map(({ at, message }) => `${at} ${message}`)]
}
const ALL = 'principal, action in Action::"tool.execute", resource'
const ASK = 'unless { context.approval.granted };'
const LESS_GROUP = { groups: ['eu'] }
const LESS_CAPABILITY = {
  capabilities: ['process_exec', 'network'] satisfies ProcessToolSpec['capabilities'],
}
const LESS_SPENDS = { spends: undefined }

test.each([
  [
    'the group that a rule’s scope names',
    `forbid (principal, action, resource in ToolGroup::"payments") ${ASK}`,
    LESS_GROUP,
    '"payments"',
  ],
  [
    'the group that a rule’s scope names beside a type',
    `forbid (principal, action, resource is Tool in ToolGroup::"payments") ${ASK}`,
    LESS_GROUP,
    '"payments"',
  ],
  [
    'the group that a rule’s condition names',
    `forbid (${ALL}) when { resource in ToolGroup::"payments" } ${ASK}`,
    LESS_GROUP,
    '"payments"',
  ],
  [
    'a group that a rule names among others',
    `forbid (${ALL}) when { resource in [ToolGroup::"a", ToolGroup::"payments"] && context.args has amount } ${ASK}`,
    LESS_GROUP,
    '"payments"',
  ],
  [
    'a group that a permit excludes',
    `permit (${ALL}) unless { resource in ToolGroup::"payments" };`,
    LESS_GROUP,
    '"payments"',
  ],
  [
    'a group in a condition that also depends on the call',
    `forbid (${ALL}) when { resource in ToolGroup::"payments" || context.plan.tier == "B" };`,
    LESS_GROUP,
    '"payments"',
  ],
  [
    'a group in a comparison',
    `forbid (${ALL}) when { (resource in ToolGroup::"payments") == true };`,
    LESS_GROUP,
    '"payments"',
  ],
  [
    'a group in an if-then-else',
    `forbid (${ALL}) when { if resource in ToolGroup::"payments" then context.plan.tier == "B" else false };`,
    LESS_GROUP,
    '"payments"',
  ],
  [
    'a capability that a rule names',
    `forbid (${ALL}) when { context.capabilities.contains("filesystem_write") } ${ASK}`,
    LESS_CAPABILITY,
    '"filesystem_write"',
  ],
  [
    'a capability that a rule reads from the resource',
    `forbid (${ALL}) when { resource is Tool && resource.capabilities.containsAny(["filesystem_write", "secrets_read"]) } ${ASK}`,
    LESS_CAPABILITY,
    '"filesystem_write"',
  ],
  [
    'a capability, where a rule reads the whole list',
    `forbid (${ALL}) unless { context.capabilities == context.plan.secrets };`,
    LESS_CAPABILITY,
    'forbid',
  ],
  [
    'a capability that a rule’s exception does not list',
    `forbid (${ALL}) unless { ["process_exec", "network", "filesystem_read"].containsAll(context.capabilities) };`,
    LESS_CAPABILITY,
    'forbid',
  ],
  [
    'a capability that hosts imply, even with its hosts',
    `forbid (${ALL}) when { context.capabilities.contains("process_exec") } ${ASK}`,
    { capabilities: [] },
    '"process_exec"',
  ],
  [
    '`spends`, where a rule for this tool counts it',
    'forbid (principal, action == Action::"tool.execute/refund", resource) when { context.budget.session.tool.spent + context.args.amount > 500 };',
    LESS_SPENDS,
    'tool.spent',
  ],
  [
    '`spends`, where a rule for all tools counts it',
    `forbid (${ALL}) when { context.budget.run.tool.spent > 500 };`,
    LESS_SPENDS,
    'tool.spent',
  ],
])('a tool change that drops %s is refused', (_what, text, change, at) => {
  const answer = broken(text, change)
  expect(answer[0]).toBe('tool_breaks_policies')
  const places = answer.slice(1)
  expect(places).toHaveLength(1)
  expect(places[0]).toContain(`mine:1:${text.indexOf(at) + 1} this policy depends on `)
})

const NAMED = `forbid (principal, action, resource in ToolGroup::"payments") unless { resource == Tool::"refund" };`
test.each([
  ['the policy exempts the tool', NAMED, LESS_GROUP],
  [
    'the policy exempts the tool by name',
    `forbid (${ALL}) when { resource in ToolGroup::"payments" && context.tool_name != "refund" };`,
    LESS_GROUP,
  ],
  [
    'no rule names the group',
    `forbid (principal, action, resource in ToolGroup::"other") ${ASK}`,
    LESS_GROUP,
  ],
  [
    'the rule is about another tool',
    `forbid (${ALL}) when { resource == Tool::"other" && resource in ToolGroup::"payments" };`,
    LESS_GROUP,
  ],
  [
    'the rule is about another action',
    'forbid (principal, action == Action::"run.read", resource in ToolGroup::"payments");',
    LESS_GROUP,
  ],
  [
    'the rule is about operators',
    'forbid (principal is Operator, action, resource in ToolGroup::"payments");',
    LESS_GROUP,
  ],
  [
    'the rule applies to tools outside the group',
    `forbid (${ALL}) unless { resource in ToolGroup::"payments" };`,
    LESS_GROUP,
  ],
  [
    'another group of the tool still matches the rule',
    `forbid (principal, action, resource) when { resource in [ToolGroup::"payments", ToolGroup::"eu"] };`,
    LESS_GROUP,
  ],
  [
    'the rule permits less afterwards',
    `permit (principal, action, resource in ToolGroup::"payments");`,
    LESS_GROUP,
  ],
  [
    'a permit requires the capability',
    `permit (${ALL}) when { context.capabilities.contains("filesystem_write") };`,
    LESS_CAPABILITY,
  ],
  [
    'the rule reads another capability',
    `forbid (${ALL}) when { context.capabilities.contains("network") };`,
    LESS_CAPABILITY,
  ],
  [
    'the rule counts calls',
    `forbid (${ALL}) when { context.budget.session.tool.calls > 9223372036854775806 };`,
    LESS_SPENDS,
  ],
  [
    'the cap is about another tool',
    'forbid (principal, action == Action::"tool.execute/other", resource) when { context.budget.session.tool.spent > 500 };',
    LESS_SPENDS,
  ],
  [
    'the change only adds groups',
    `forbid (${ALL}) unless { resource in ToolGroup::"payments" };`,
    { groups: ['payments', 'eu', 'more'] },
  ],
])('a tool change that weakens no rule is accepted: %s', (_what, text, change) => {
  expect(broken(text, change)).toEqual([])
})

test('dropping `network` or `secrets_read` is accepted if the contract really takes the network or the secrets away, else refused', () => {
  const rule = `forbid (${ALL}) when { context.capabilities.containsAny(["network", "secrets_read"]) } ${ASK}`
  const was = tool({ ...FULL, secrets: ['db'], egress: { mode: 'strict', hosts: ['a.example'] } })
  expect(put(rule, { capabilities: [], secrets: [] }, was).ok).toBe(true)
  expect(put(rule, { capabilities: [], egress: { mode: 'none', hosts: [] } }, was).ok).toBe(false)
})

test('the default rules refuse a tool that drops `process_exec`, and accept changes and new tools that no rule names', () => {
  const change = (from: Partial<ProcessToolSpec>, to: Partial<ProcessToolSpec>) =>
    checkToolChange(DEFAULTS, [tool(from)], 'refund', tool(to))
  expect(change({ capabilities: ['process_exec'] }, { capabilities: [] }).ok).toBe(false)
  expect(
    change({ groups: ['x'], spends: { arg: 'amount' }, capabilities: ['filesystem_write'] }, {}).ok,
  ).toBe(true)
  expect(
    checkToolChange(
      { mine: `forbid (principal, action, resource in ToolGroup::"payments");` },
      [OTHER],
      'refund',
      tool({}),
    ).ok,
  ).toBe(true)
})

test('a rule that was valid is checked again when an argument that it reads has another type', () => {
  const rule = `forbid (${ALL}) when { context.args has to && context.args.to == "me" };`
  const withTo = (type: string) =>
    tool({ input_schema: { type: 'object', properties: { to: { type } } } }, 'new')
  for (const [type, ok] of [
    ['string', true],
    ['integer', false],
    ['string', true],
  ] as const) {
    expect(checkPolicies({ rule }, [refund, withTo(type)]).ok).toBe(ok)
    expect(checkToolChange({ rule }, [refund], 'new', withTo(type)).ok).toBe(ok)
  }
})
