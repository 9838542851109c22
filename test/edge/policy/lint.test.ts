// Promise: lint reports, with their positions, quorums that nobody can meet, names that don't
// exist, caps on spending that no tool reports, and policies without an id or reason. No stack.

import { expect, test } from 'vitest'
import { compileWithFloor, DEFAULTS } from '../../../edge/policy/built-in.ts'
import { allWarnings } from '../../../edge/policy/lint.ts'
import { placesOfTool } from '../../../edge/policy/tool-rules.ts'
import { cpuTime } from '../../support/cpu-time.ts'
import { toolSpec } from '../../support/fixtures.ts'

const operator = (name: string, ...roles: string[]) => {
  const parents = roles.map((id) => ({ type: 'Role', id }))
  return [name, { entities: [{ uid: { type: 'Operator', id: name }, attrs: {}, parents }] }] as const
}
const tool = (name: string, change: Parameters<typeof toolSpec>[0] = {}) =>
  [name, { tool: { ...toolSpec(change), name } }] as const
const THERE = {
  agents: new Map([['bot', { spec: { groups: ['interns'] } }]]),
  operators: new Map([
    operator('ann', 'approver', 'finance'),
    operator('ben', 'approver', 'finance'),
    operator('zoe', 'security'),
  ]),
  tools: new Map([
    tool('pay', { groups: ['money'] }),
    tool('refund', { groups: ['money', 'back'], spends: { arg: 'amount' } }),
    tool('grep'),
  ]),
}

function compiled(texts: Readonly<Record<string, string>>) {
  const set = compileWithFloor(texts)
  if (!set.ok) throw new Error(set.error.detail)
  return set.value
}
const found = (texts: Readonly<Record<string, string>>) => allWarnings([], compiled(texts), THERE)
const ANY = 'principal, action, resource'
const rule = (scope: string, condition = 'true', notes = '@id("a") @reason("b")') =>
  `${notes}\nforbid (${scope})\nwhen { ${condition} };`
const warningsFor = (scope: string, condition?: string) => found({ mine: rule(scope, condition) })
const unless = (condition: string) =>
  `@id("a")\n@reason("b")\nforbid (principal, action, resource)\nunless { ${condition} };`

test.each([
  'context.approval.quorum.contains("2 of finance")',
  'context.approval.independent.quorum.containsAny(["1 of finance", "1 of security"])',
  'context.approval.roles.contains("finance")',
  'context.args has list && context.args.list.contains("2 of nobody")',
])('lint accepts an approval condition that people can meet: %s', (condition) => {
  expect(found({ mine: unless(condition) })).toEqual([])
})

test.each([
  [
    'quorum.contains("two of finance")',
    'no approval can have the quorum `two of finance`',
    'did you mean `2 of finance`?',
  ],
  [
    'quorum.contains("2 finance")',
    'no approval can have the quorum `2 finance`',
    'did you mean `2 of finance`?',
  ],
  [
    'quorum.contains("3 Of Finance")',
    'no approval can have the quorum `3 Of Finance`',
    'did you mean `3 of finance`?',
  ],
  ['quorum.contains("many")', 'no approval can have the quorum `many`', 'such as "2 of finance"'],
  ['quorum.contains("2 of finence")', 'no operator has the role `finence`', 'operators put'],
  ['quorum.contains("2 of security")', 'only one operator has the role `security`', 'operators put'],
  [
    'independent.quorum.containsAll(["3 of finance"])',
    'only 2 operators have the role `finance`',
    'operators put',
  ],
  ['roles.contains("legal")', 'no operator has the role `legal`', 'operators put'],
])(
  'lint reports an approval condition that nobody can meet, with its position: %s',
  (asked, message, hint) => {
    const condition = `context.approval.${asked}`
    expect(found({ mine: unless(condition) })).toEqual([
      {
        at: `mine:4:${'unless { '.length + condition.indexOf('"') + 1}`,
        message: expect.stringContaining(message),
        hint: expect.stringContaining(hint),
      },
    ])
  },
)

test('lint reports a policy without an id and a reason, and the built-in policies have both', () => {
  expect(found(DEFAULTS)).toEqual([])
  expect(
    found({
      mine: '\nforbid (principal, action, resource);\n@id("x") permit (principal, action == Action::"run.read", resource);',
    }),
  ).toEqual([
    { at: 'mine:2:1', message: 'no `@id` and no `@reason`: decisions call this `mine/1` and give no reason' },
    { at: 'mine:3:1', message: 'no `@reason`: decisions call this `x` and give no reason' },
  ])
})

test('lint accepts names and values that exist', () => {
  expect(warningsFor('principal == Agent::"bot", action, resource == Tool::"pay"')).toEqual([])
  expect(warningsFor('principal in Group::"interns", action, resource in ToolGroup::"money"')).toEqual([])
  const all = [
    'context.plan.tier == "C"',
    '["B","C"].contains(context.plan.tier)',
    'context.plan.egress_mode != "strict"',
    'context.plan.workspace == "run"',
    'context.capabilities.containsAny(["network", "secrets_read"])',
    'context.approval.assurance == "link"',
    'context.approval.count >= 2',
    'context.approval.approvers.contains("ann")',
    '[6, 7].contains(context.weekday)',
    'context.weekday == 1',
    'context.tool_name == "pay"',
    'context.args.tier == "z"',
    'context.session_id == "z"',
  ]
  expect(warningsFor(ANY, all.join(' && '))).toEqual([])
})

test.each([
  ['principal == Agent::"bat", action, resource', 'true', 'no agent `bat`'],
  [
    'principal in Group::"Interns", action, resource',
    'true',
    'no group of agents `Interns`',
    'did you mean `interns`?',
  ],
  ['principal, action, resource == Tool::"repay"', 'true', 'no tool `repay`'],
  ['principal, action, resource in ToolGroup::"gold"', 'true', 'no group of tools `gold`'],
  [ANY, 'principal in [Group::"interns", Group::"x"]', 'no group of agents `x`'],
  [ANY, 'context.tool_name == "repay"', 'no tool `repay`'],
  [ANY, 'context.plan.tier == "c"', '`plan.tier` is never `c`; its values are `B`, `C`', 'did you mean `C`?'],
  [ANY, '"open" != context.plan.egress_mode', '`plan.egress_mode` is never `open`'],
  [ANY, '["shared"].contains(context.plan.workspace)', '`plan.workspace` is never `shared`'],
  [ANY, 'context.capabilities.contains("proces_exec")', '`capabilities` is never `proces_exec`'],
  [ANY, 'context.capabilities.containsAll(["network", "net"])', '`capabilities` is never `net`'],
  [ANY, 'context.approval.assurance == "passkey"', '`approval.assurance` is never `passkey`'],
  [ANY, 'context.approval.approvers.contains("anne")', 'no operator `anne`'],
  [ANY, 'context.approval.approvers.containsAny(["ann", "Ben"])', 'no operator `Ben`', 'did you mean `ben`?'],
  [ANY, 'context.weekday == 0', '`weekday` is never `0`', 'Monday is 1, Sunday is 7'],
  [ANY, '[0, 6].contains(context.weekday)', '`weekday` is never `0`'],
  [ANY, '8 != context.weekday', '`weekday` is never `8`'],
  [ANY, 'context.approval.count == 2', '`approval.count ==`', 'write `>=` or `<`'],
  [ANY, 'context.approval.independent.count != 1', '`approval.independent.count !=`', 'write `>=` or `<`'],
])(
  'lint reports a name or value that does not exist: (%s) when %s',
  (scope, condition, message, hint?: string) => {
    const text = rule(scope, condition)
    const found = warningsFor(scope, condition)
    expect(found).toMatchObject([
      { message: expect.stringContaining(message), ...(hint === undefined ? {} : { hint }) },
    ])
    const shown = found[0]?.message ?? ''
    const named = (/(?:is never|no [a-z ]+) `([^`]+)`/.exec(shown) ?? /^`([^` ]+)/.exec(shown))?.[1] ?? ''
    const name = /^\d$/.test(named) ? 'weekday' : named
    const [file, line = 0, column = 0] =
      found[0]?.at.split(':').map((part, i) => (i === 0 ? part : Number(part))) ?? []
    expect(file).toBe('mine')
    expect(text.split('\n')[Number(line) - 1]?.slice(Number(column) - 1)).toMatch(new RegExp(`^"?${name}`))
  },
)

test('the positions of a tool named as a resource are found in scopes and conditions only', () => {
  const texts = {
    scope: rule('principal, action, resource == Tool::"pay"'),
    text: rule(ANY, 'context.tool_name == "pay"').replace('"a"', '"c"'),
  }
  const list = rule(ANY, '[Tool::"pay", Tool::"x"].contains(resource)').replace('"a"', '"d"')
  expect(placesOfTool(compiled({ ...texts, list }), 'pay').map(({ at }) => at.split(':')[0])).toEqual([
    'scope',
    'list',
  ])
})

const SPENT = 'context.budget.session.tool.spent > 500'
test.each([
  ['principal, action == Action::"tool.execute/pay", resource', SPENT, ['pay']],
  ['principal, action in Action::"tool.execute", resource in ToolGroup::"money"', SPENT, ['pay']],
  [ANY, `resource in ToolGroup::"money" && context.budget.run.tool.spent >= 1`, ['pay']],
  [
    'principal, action in [Action::"tool.execute/pay", Action::"tool.execute/grep"], resource',
    SPENT,
    ['pay', 'grep'],
  ],
  [
    'principal, action in [Action::"tool.execute/refund", Action::"tool.execute/grep"], resource',
    'context.budget.session.tool.calls > 5',
    [],
  ],
  ['principal, action == Action::"tool.execute/refund", resource', SPENT, []],
  ['principal, action in Action::"tool.execute", resource in ToolGroup::"back"', SPENT, []],
  // A rule about all tools is meant for those that spend.
  ['principal, action in Action::"tool.execute", resource', SPENT, []],
  ['principal is Operator, action, resource', SPENT, []],
])('lint reports a cap on spending for tools without `spends`: (%s) when %s', (scope, condition, tools) => {
  const text = rule(scope, condition)
  expect(found({ mine: text })).toEqual(
    tools.map((name) => ({
      at: `mine:3:${(text.split('\n')[2] ?? '').indexOf('tool.spent') + 1}`,
      message: expect.stringContaining(`\`${name}\``),
      hint: expect.stringContaining(`tools put ${name}`),
    })),
  )
})

test('lint reports a cap on spending of all tools if none has `spends`', () => {
  const none = { ...THERE, tools: new Map([tool('pay'), tool('grep')]) }
  const set = compiled({ mine: rule('principal, action in Action::"tool.execute", resource', SPENT) })
  expect(allWarnings([], set, none)).toHaveLength(2)
  expect(allWarnings([], set, { ...none, tools: new Map() })).toEqual([])
})

test('lint checks caps on spending quickly with 500 tools', () => {
  const tools = new Map(Array.from({ length: 500 }, (_, i) => tool(`t${i}`, { groups: ['g'] })))
  const more = Array(20).fill('&& context.budget.run.calls > 5').join(' ')
  const one = (_: unknown, i: number) =>
    rule(
      ANY,
      `resource in ToolGroup::"g" && ${SPENT} ${more} && context.capabilities.contains("network")`,
      `@id("r${i}") @reason("b")`,
    )
  const set = compiled({ mine: Array.from({ length: 200 }, one).join('\n') })
  const began = cpuTime()
  expect(allWarnings([], set, { ...THERE, tools })).toEqual([])
  expect(cpuTime() - began).toBeLessThan(1_000)
})

test.each([
  ['an annotation', '@id("interns2") @reason("finance, \\"legal\\" and \\"legal\\"") @advice("legal")', ANY],
  ['a comment', '@id("a") // "legal" (\n@reason("b") // @id("legal"', ANY],
  ['the scope', '@id("a") @reason("b")', 'principal in Group::"legal", action, resource == Tool::"pay" /*'],
])('lint reports the deciding occurrence of a text that also occurs in %s', (_what, notes, head) => {
  const scope = head.replace(' /*', '')
  const text = `${notes}\nforbid (${scope}) // "legal"\nwhen { context.args has x && context.approval.roles.contains("legal") };`
  const [at] = found({ mine: text }).flatMap((one) => (one.message.includes('role') ? [one.at] : []))
  const line = text.split('\n').length
  expect(at).toBe(`mine:${line}:${(text.split('\n').at(-1) ?? '').indexOf('"legal"') + 1}`)
})

test('lint computes positions and hints only for the warnings it shows, so that many take no time', () => {
  const names = (from: string) => JSON.stringify(Array.from({ length: 6_000 }, (_, i) => `${from}${i}`))
  const texts = Object.fromEntries(
    Array.from({ length: 10 }, (_, i) => [
      `f${i}`,
      `${rule(ANY, `context.approval.roles.containsAny(${names('r')})`, `@id("r${i}") @reason("b")`)}`,
    ]),
  )
  const many = {
    ...THERE,
    agents: new Map(Array.from({ length: 2_000 }, (_, i) => [`a${i}`, { spec: { groups: [`g${i}`] } }])),
  }
  const group = `[${'Group::"x",'.repeat(4_000).slice(0, -1)}]`
  const set = compiled({ ...texts, same: rule(ANY, `principal in ${group}`, '@id("s") @reason("b")') })
  const began = cpuTime()
  expect(allWarnings([], set, many)).toHaveLength(20)
  expect(allWarnings([], compiled({ same: rule(ANY, `principal in ${group}`) }), many)).toHaveLength(1)
  expect(cpuTime() - began).toBeLessThan(1_000)
})

test.each([
  'permit (principal, action, resource);',
  'permit (principal, action, resource) when { true };',
  'permit (principal, action, resource) unless { false };',
  'permit (principal, action, resource) when { 1 == 1 } unless { principal == Agent::"bot" };',
  'permit (principal, action, resource) when { action == action && resource == resource };',
  'permit (principal, action, resource) when { true || context.capabilities.contains("network") };',
  'permit (principal is Agent, action, resource);',
  'permit (principal is Agent, action, resource) when { true };',
  'permit (principal == Agent::"bot", action, resource);',
  'permit (principal in Group::"interns", action, resource);',
  'permit (principal, action, resource) when { principal in Role::"finance" };',
])('D17 lint warns of a permit that limits neither action nor resource: %s', (text) => {
  expect(found({ mine: `@id("a")\n@reason("b")\n${text}` })).toEqual([
    {
      at: 'mine:1:1',
      message: expect.stringContaining('this permits every action on everything'),
      hint: expect.stringContaining('action in Action::"tool.execute"'),
    },
  ])
})

test.each([
  'permit (principal, action, resource is Tool);',
  'permit (principal is Agent, action, resource is Tool);',
  'permit (principal, action, resource) when { resource is Tool };',
  'permit (principal is Agent, action, resource is Tool) when { true };',
  'permit (principal, action, resource is Tool) unless { false };',
])('D17 lint warns of a permit that covers every action on every tool: %s', (text) => {
  expect(found({ mine: `@id("a")\n@reason("b")\n${text}` })).toMatchObject([
    { at: 'mine:1:1', message: expect.stringContaining('this permits every action on every tool') },
  ])
})

test.each([
  'permit (principal, action in Action::"tool.execute", resource);',
  'permit (principal, action, resource is Tool) when { resource.sensitive == false };',
  'permit (principal, action, resource is Tool in ToolGroup::"money");',
  'permit (principal, action in Action::"tool.execute", resource is Tool);',
  'permit (principal, action, resource == Tool::"grep");',
  'permit (principal, action, resource) when { action == Action::"run.read" };',
  'permit (principal, action, resource) when { resource in ToolGroup::"money" };',
  'permit (principal, action, resource) when { context has tool_name };',
  'forbid (principal, action, resource);',
])('D17 lint does not warn of a permit that limits one of them: %s', (text) => {
  expect(found({ mine: `@id("a")\n@reason("b")\n${text}` })).toEqual([])
})
