// Promise: a policy that holds and never applies, because it names what there is not, is told by its place. Pure: the engine, no stack.

import { expect, test } from 'vitest'
import { DEFAULTS, underFloor } from '../../edge/policies.ts'
import { compile } from '../../edge/policy.ts'
import { namesNothing, placesOfTool } from '../../edge/policy-names.ts'

const THERE = {
  agents: new Map([['bot', { spec: { groups: ['interns'] } }]]),
  tools: new Map([['pay', { tool: { groups: ['money'] } }]]),
}

function compiled(texts: Readonly<Record<string, string>>) {
  const whole = underFloor(texts)
  const set = whole.ok ? compile(whole.value) : whole
  if (!set.ok) throw new Error(set.error.detail)
  return set.value
}
const rule = (scope: string, condition = 'true') => `@id("a") @reason("b")\nforbid (${scope})\nwhen { ${condition} };`
const told = (scope: string, condition?: string) => namesNothing(compiled({ mine: rule(scope, condition) }), THERE)
const ANY = 'principal, action, resource'

test('what ships with the edge, and what is there, is not told', () => {
  expect(namesNothing(compiled(DEFAULTS), THERE)).toEqual([])
  expect(told('principal == Agent::"bot", action, resource == Tool::"pay"')).toEqual([])
  expect(told('principal in Group::"interns", action, resource in ToolGroup::"money"')).toEqual([])
  const all = [
    'context.plan.tier == "C"',
    '["B","C"].contains(context.plan.tier)',
    'context.plan.egress_mode != "strict"',
    'context.plan.workspace == "run"',
    'context.capabilities.containsAny(["network", "secrets_read"])',
    'context.approval.assurance == "link"',
    'context.approval.count >= 2',
    'context.tool_name == "pay"',
    'context.args.tier == "z"',
    'context.session_id == "z"',
  ]
  expect(told(ANY, all.join(' && '))).toEqual([])
})

test.each([
  ['principal == Agent::"bat", action, resource', 'true', 'no agent `bat`'],
  ['principal in Group::"Interns", action, resource', 'true', 'no group of agents `Interns`', 'did you mean `interns`?'],
  ['principal, action, resource == Tool::"refund"', 'true', 'no tool `refund`'],
  ['principal, action, resource in ToolGroup::"gold"', 'true', 'no group of tools `gold`'],
  [ANY, 'principal in [Group::"interns", Group::"x"]', 'no group of agents `x`'],
  [ANY, 'context.tool_name == "refund"', 'no tool `refund`'],
  [ANY, 'context.plan.tier == "c"', '`plan.tier` never holds `c`; there are `B`, `C`', 'did you mean `C`?'],
  [ANY, '"open" != context.plan.egress_mode', '`plan.egress_mode` never holds `open`'],
  [ANY, '["shared"].contains(context.plan.workspace)', '`plan.workspace` never holds `shared`'],
  [ANY, 'context.capabilities.contains("proces_exec")', '`capabilities` never holds `proces_exec`'],
  [ANY, 'context.capabilities.containsAll(["network", "net"])', '`capabilities` never holds `net`'],
  [ANY, 'context.approval.assurance == "passkey"', '`approval.assurance` never holds `passkey`'],
  [ANY, 'context.approval.count == 2', '`approval.count ==`', 'write `>=` or `<`'],
  [ANY, 'context.approval.independent.count != 1', '`approval.independent.count !=`', 'write `>=` or `<`'],
])('(%s) when %s', (scope, condition, message, hint?: string) => {
  const text = rule(scope, condition)
  const found = told(scope, condition)
  expect(found).toMatchObject([{ message: expect.stringContaining(message), ...(hint === undefined ? {} : { hint }) }])
  const said = found[0]?.message ?? ''
  const name = (/(?:holds|no [a-z ]+) `([^`]+)`/.exec(said) ?? /^`([^` ]+)/.exec(said))?.[1]
  const [file, line = 0, column = 0] = found[0]?.at.split(':').map((part, i) => (i === 0 ? part : Number(part))) ?? []
  expect(file).toBe('mine')
  expect(text.split('\n')[Number(line) - 1]?.slice(Number(column) - 1)).toMatch(new RegExp(`^"?${name}`))
})

test('where a tool is named as a resource is found, in scopes and conditions, and nowhere else', () => {
  const texts = {
    scope: rule('principal, action, resource == Tool::"pay"'),
    text: rule(ANY, 'context.tool_name == "pay"').replace('"a"', '"c"'),
  }
  const list = rule(ANY, '[Tool::"pay", Tool::"x"].contains(resource)').replace('"a"', '"d"')
  expect(placesOfTool(compiled({ ...texts, list }), 'pay').map(({ at }) => at.split(':')[0])).toEqual(['scope', 'list'])
})
