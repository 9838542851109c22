// Promise: a tool does not slip from under a rule in force by no longer being in a group, having a capability or spending what the rule
// turns on; and what no rule would miss may go. Pure: the engine, no stack.

import { expect, test } from 'vitest'
import { DEFAULTS } from '../../../edge/policy/built-in.ts'
import { checkToolChange } from '../../../edge/policy/check.ts'
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
    'a group, by the scope',
    `forbid (principal, action, resource in ToolGroup::"payments") ${ASK}`,
    LESS_GROUP,
    '"payments"',
  ],
  [
    'a group, by type too',
    `forbid (principal, action, resource is Tool in ToolGroup::"payments") ${ASK}`,
    LESS_GROUP,
    '"payments"',
  ],
  [
    'a group, by a condition',
    `forbid (${ALL}) when { resource in ToolGroup::"payments" } ${ASK}`,
    LESS_GROUP,
    '"payments"',
  ],
  [
    'a group, among others',
    `forbid (${ALL}) when { resource in [ToolGroup::"a", ToolGroup::"payments"] && context.args has amount } ${ASK}`,
    LESS_GROUP,
    '"payments"',
  ],
  [
    'a group that lifts a permit',
    `permit (${ALL}) unless { resource in ToolGroup::"payments" };`,
    LESS_GROUP,
    '"payments"',
  ],
  [
    'a group that calls have a say beside',
    `forbid (${ALL}) when { resource in ToolGroup::"payments" || context.plan.tier == "B" };`,
    LESS_GROUP,
    '"payments"',
  ],
  [
    'a group, compared',
    `forbid (${ALL}) when { (resource in ToolGroup::"payments") == true };`,
    LESS_GROUP,
    '"payments"',
  ],
  [
    'a group, in a branch',
    `forbid (${ALL}) when { if resource in ToolGroup::"payments" then context.plan.tier == "B" else false };`,
    LESS_GROUP,
    '"payments"',
  ],
  [
    'a capability',
    `forbid (${ALL}) when { context.capabilities.contains("filesystem_write") } ${ASK}`,
    LESS_CAPABILITY,
    '"filesystem_write"',
  ],
  [
    'a capability of the resource',
    `forbid (${ALL}) when { resource is Tool && resource.capabilities.containsAny(["filesystem_write", "secrets_read"]) } ${ASK}`,
    LESS_CAPABILITY,
    '"filesystem_write"',
  ],
  [
    'capabilities as a whole',
    `forbid (${ALL}) unless { context.capabilities == context.plan.secrets };`,
    LESS_CAPABILITY,
    'forbid',
  ],
  [
    'a capability that kept it from being let through',
    `forbid (${ALL}) unless { ["process_exec", "network", "filesystem_read"].containsAll(context.capabilities) };`,
    LESS_CAPABILITY,
    'forbid',
  ],
  [
    'a capability, though hosts go too',
    `forbid (${ALL}) when { context.capabilities.contains("process_exec") } ${ASK}`,
    { capabilities: [] },
    '"process_exec"',
  ],
  [
    'what it spends, where the scope names it',
    'forbid (principal, action == Action::"tool.execute/refund", resource) when { context.budget.session.tool.spent + context.args.amount > 500 };',
    LESS_SPENDS,
    'tool.spent',
  ],
  [
    'what it spends, by a rule over all',
    `forbid (${ALL}) when { context.budget.run.tool.spent > 500 };`,
    LESS_SPENDS,
    'tool.spent',
  ],
])('%s does not go from under a rule', (_what, text, change, at) => {
  const told = broken(text, change)
  expect(told[0]).toBe('tool_breaks_policies')
  const places = told.slice(1)
  expect(places).toHaveLength(1)
  expect(places[0]).toContain(`mine:1:${text.indexOf(at) + 1} it turns on `)
})

const NAMED = `forbid (principal, action, resource in ToolGroup::"payments") unless { resource == Tool::"refund" };`
test.each([
  ['the policy says so first', NAMED, LESS_GROUP],
  [
    'the policy says so first, in its way',
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
    'the rule was of groups with less',
    `forbid (${ALL}) unless { resource in ToolGroup::"payments" };`,
    LESS_GROUP,
  ],
  [
    'what else the tool is in suffices',
    `forbid (principal, action, resource) when { resource in [ToolGroup::"payments", ToolGroup::"eu"] };`,
    LESS_GROUP,
  ],
  ['it permits less', `permit (principal, action, resource in ToolGroup::"payments");`, LESS_GROUP],
  [
    'it was permitted for want of the capability',
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
    'more of everything',
    `forbid (${ALL}) unless { resource in ToolGroup::"payments" };`,
    { groups: ['payments', 'eu', 'more'] },
  ],
])('what no rule would miss may go: %s', (_what, text, change) => {
  expect(broken(text, change)).toEqual([])
})

test('a network that the kernel shuts, and secrets that are gone, are no loss; a network that is open is', () => {
  const rule = `forbid (${ALL}) when { context.capabilities.containsAny(["network", "secrets_read"]) } ${ASK}`
  const was = tool({ ...FULL, secrets: ['db'], egress: { mode: 'strict', hosts: ['a.example'] } })
  expect(put(rule, { capabilities: [], secrets: [] }, was).ok).toBe(true)
  expect(put(rule, { capabilities: [], egress: { mode: 'none', hosts: [] } }, was).ok).toBe(false)
})

test('with the rules that ship, a tool that composes commands stays one that does; a tool that is new loses nothing', () => {
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
