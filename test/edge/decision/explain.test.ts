// The engine confirms every offered change: each kind of condition has its smallest change, changes
// are combined where needed, and none is offered that would not be allowed.

import { describe, expect, test } from 'vitest'
import type { Reader } from '../../../edge/decision/explain/wording.ts'
import { LIMITS } from '../../../shared/limits.ts'
import type { Change } from '../../../shared/wire/explanation.ts'
import type { ExplanationRequest } from '../../support/explained.ts'
import { explained, NOBODY, OPERATOR, PERMIT } from '../../support/explained.ts'

const forbid = (condition: string, kind = 'when'): string =>
  `${PERMIT}@id("forbid") forbid (principal, action, resource) ${kind} { ${condition} };`
const words = (changes: Change[][]): string[] =>
  changes.map((together) => together.map((change) => change.words).join(' & '))

describe('each kind of condition has its smallest change', () => {
  const CASES: readonly (readonly [string, readonly string[], Omit<ExplanationRequest, 'text'>?])[] = [
    ['context.args.amount > 100', ['args.amount ≤ 100'], { args: { amount: 250 } }],
    ['context.args.amount >= 100', ['args.amount ≤ 99'], { args: { amount: 250 } }],
    ['100 < context.args.amount', ['args.amount ≤ 100'], { args: { amount: 250 } }],
    ['!(context.args.amount < 100)', ['args.amount ≤ 99'], { args: { amount: 250 } }],
    ['context.args.amount < 10', ['args.amount ≥ 10'], { args: { amount: 3 } }],
    [
      'context.args.amount + context.args.fee > 100',
      ['args.amount ≤ 80', 'args.fee ≤ -50'],
      { args: { amount: 150, fee: 20 } },
    ],
    [
      'context.args.amount.greaterThan(decimal("1.5"))',
      ['args.amount ≤ 1.5'],
      { args: { amount: { __extn: { fn: 'decimal', arg: '2.25' } } } },
    ],
    [
      'context.args.amount.greaterThanOrEqual(decimal("1.5"))',
      ['args.amount < 1.5'],
      { args: { amount: { __extn: { fn: 'decimal', arg: '2.25' } } } },
    ],
    ['context.args.to == "x"', ['args.to ≠ `x`'], { args: { to: 'x' } }],
    ['context.args.to != "x"', ['args.to = `x`'], { args: { to: 'y' } }],
    ['context.args.force', ['args.force = false'], { args: { force: true } }],
    ['!context.args.dry', ['args.dry = true'], { args: { dry: false } }],
    ['["a","b"].contains(context.args.to)', ['args.to ≠ `b`'], { args: { to: 'b' } }],
    ['!["a","b"].contains(context.args.to)', ['args.to = `a`', 'args.to = `b`'], { args: { to: 'c' } }],
    ['context.args.tags.contains("a")', ['args.tags without `a`'], { args: { tags: ['a', 'b'] } }],
    ['!context.args.tags.contains("a")', ['args.tags with `a`'], { args: { tags: ['b'] } }],
    [
      'context.args.tags.containsAny(["a","b"])',
      ['args.tags without `a` & args.tags without `b`'],
      { args: { tags: ['a', 'b', 'c'] } },
    ],
    [
      '!context.args.tags.containsAll(["a","b"])',
      ['args.tags with `a` & args.tags with `b`'],
      { args: { tags: [] } },
    ],
    ['!["a"].containsAll(context.args.tags)', ['args.tags without `z`'], { args: { tags: ['a', 'z'] } }],
    ['context.args.tags.isEmpty()', ['args.tags not empty'], { args: { tags: [] } }],
    ['context.args.path like "/etc/*"', ['args.path not like `/etc/*`'], { args: { path: '/etc/passwd' } }],
    [
      'context.args.path like "*.md" && context.args.n > 5',
      ['args.path not like `*.md`', 'args.n ≤ 5'],
      { args: { path: 'x.y.md', n: 9 } },
    ],
    [
      '!(context.args.path like "*.md" && context.args.n < 5)',
      ['args.n ≤ 4'],
      { args: { path: 'x.y.md', n: 9 } },
    ],
    [
      'context.args.path like "*ab" && context.args.n > 5',
      ['args.path not like `*ab`', 'args.n ≤ 5'],
      { args: { path: 'aab', n: 9 } },
    ],
    [
      'context.args.path like "a*ab*b" && context.args.n > 5',
      ['args.path not like `a*ab*b`', 'args.n ≤ 5'],
      { args: { path: 'aaabb', n: 9 } },
    ],
    ['!(context.args.path like "docs/*.md")', ['args.path like `docs/*.md`'], { args: { path: 'x' } }],
    ['context.args has force', ['args.force left out'], { args: { force: 1 } }],
    ['!(context.args has why)', ['args.why given']],
    ['!(context.args has why && context.args.why.n > 3)', ['args.why.n ≥ 4']],
    [
      'if context.args.a then context.args.n > 5 else false',
      ['args.n ≤ 5', 'args.a = false'],
      { args: { a: true, n: 9 } },
    ],
    ['context.plan.tier != "Z"', ['plan.tier = `Z`']],
    ['context.plan.egress_hosts.contains("a.example:443")', ['plan.egress_hosts without `a.example:443`']],
    ['!context.allow_sensitive_tools', ['an approval']],
    ['!context.approval.granted', ['an approval']],
    ['context.approval.granted == false', ['an approval']],
    ['context.approval.count < 2', ['approval.count ≥ 2: 2 different approvers']],
    ['context.approval.count < 2 && !context.allow_sensitive_tools', ['an approval']],
    ['!context.approval.roles.contains("finance")', ['an approval by somebody in the role `finance`']],
    ['!context.approval.quorum.contains("2 of finance")', ['approvals by `2 of finance`']],
    [
      '!context.approval.independent.quorum.contains("2 of finance")',
      ['approvals by `2 of finance`, without the agent’s owners'],
    ],
    ['context.approval.independent.count < 1', ['an approval by somebody other than the agent’s owners']],
    ['!context.approval.approvers.contains("ann")', ['an approval by `ann`']],
    [
      '!context.is_allowlisted_tool',
      ['the tool on the agent’s allowlist'],
      { context: { is_allowlisted_tool: false } },
    ],
    [
      'context.budget.run.calls >= context.budget.run.max_calls',
      ['budget.run.calls ≤ 9', 'budget.run.max_calls ≥ 11'],
    ],
    ['context.weekday > 5', ['weekday ≤ 5']],
    ['context.now >= datetime("2026-11-14T17:00:00Z")', ['now < `2026-11-14T17:00:00.000Z`']],
    ['principal in Group::"interns"', ['the agent not in the group `interns`'], { groups: ['interns', 'x'] }],
    [
      '!(principal in [Group::"a", Group::"b"])',
      ['the agent in the group `a`', 'the agent in the group `b`'],
    ],
  ]
  test.each(CASES.map(([condition, expected, asked = {}]) => [condition, expected, asked] as const))(
    'the condition %s has its smallest change',
    (condition, expected, asked) => {
      expect(words(explained({ text: forbid(condition), ...asked }).changes)).toEqual(expected)
    },
  )
})

describe('changes that are only enough together', () => {
  const two = (first: string, second: string): string =>
    `${forbid(first)}\n@id("other") forbid (principal, action, resource) when { ${second} };`
  test.each<readonly [string, ExplanationRequest, string[]]>([
    [
      'two forbids, two facts',
      { text: two('context.args.amount > 100', 'context.args.to == "x"'), args: { amount: 250, to: 'x' } },
      ['args.amount ≤ 100 & args.to ≠ `x`'],
    ],
    [
      'two thresholds of one fact become the stricter one',
      { text: two('context.args.amount > 100', 'context.args.amount > 50'), args: { amount: 250 } },
      ['args.amount ≤ 50'],
    ],
    [
      'one change that lifts both forbids comes before two changes',
      {
        text: two(
          'context.args.amount > 100 && !context.args.dry',
          'context.args.to == "x" && !context.args.dry',
        ),
        args: { amount: 250, to: 'x', dry: false },
      },
      ['args.dry = true', 'args.amount ≤ 100 & args.to ≠ `x`'],
    ],
    [
      'two approvers, one of them with a role',
      { text: two('context.approval.count < 2', '!context.approval.roles.contains("finance")') },
      ['approval.count ≥ 2: 2 different approvers & an approval by somebody in the role `finance`'],
    ],
    [
      'an approval by a role already includes one approval',
      { text: two('!context.allow_sensitive_tools', '!context.approval.roles.contains("finance")') },
      ['an approval by somebody in the role `finance`'],
    ],
    [
      'a smaller amount that would then ask for an approval',
      { text: two('context.args.amount > 100', '!context.allow_sensitive_tools'), args: { amount: 250 } },
      ['args.amount ≤ 100 & an approval'],
    ],
    [
      'three facts',
      {
        text: `${two('context.args.a > 1', 'context.args.b > 1')} forbid (principal, action, resource) when { context.args.c > 1 };`,
        args: { a: 2, b: 2, c: 2 },
      },
      ['args.a ≤ 1 & args.b ≤ 1 & args.c ≤ 1'],
    ],
    [
      'no contradictory change',
      { text: two('context.args.n > 5', 'context.args.n < 7'), args: { n: 6 } },
      [],
    ],
    [
      'no permit applies: the change that one needs',
      {
        text: 'permit (principal in Group::"pay", action, resource) when { context.args.amount <= 10 };',
        args: { amount: 12 },
      },
      ['args.amount ≤ 10 & the agent in the group `pay`'],
    ],
    [
      'no permit applies: any of several would do',
      {
        text: `permit (principal, action, resource) when { context.args.amount <= 10 };
          permit (principal, action, resource) when { context.approval.count >= 2 };`,
        args: { amount: 12 },
      },
      ['args.amount ≤ 10', 'approval.count ≥ 2: 2 different approvers'],
    ],
  ])('changes are combined if no single one is enough: %s', (_name, asked, expected) => {
    expect(words(explained(asked).changes).map((line) => line.split(' & ').sort())).toEqual(
      expected.map((line) => line.split(' & ').sort()),
    )
  })

  test('an explanation has a limited number of alternatives, smallest first, and none that includes another', () => {
    const members = Array.from({ length: 9 }, (_, i) => `context.args.a${i}`)
    const args = Object.fromEntries(members.map((_, i) => [`a${i}`, true]))
    const { changes } = explained({ text: forbid(members.join(' && ')), args })
    expect(changes.length).toBe(LIMITS.explanation_changes)
    expect(changes.map((together) => together.length)).toEqual([1, 1, 1])
  })
})

describe('an explanation offers no change', () => {
  const nothing = { changes: [] }
  test('an explanation offers no change if a policy has an error', () => {
    const told = explained({
      text: `${forbid('context.args.amount > 100')} forbid (principal, action, resource) when { context.args.absent };`,
      args: { amount: 250 },
    })
    expect(told).toMatchObject(nothing)
    expect(told.errors?.[0]).toContain('absent')
  })
  test.each([
    ['the sensitivity of the tool', 'context.is_sensitive_action', 'is_sensitive_action'],
    ['the tool’s name', 'context.tool_name == "pay"', 'tool_name'],
    ['the tool’s capabilities', 'context.capabilities.contains("network")', 'capabilities'],
    ['the run’s id', 'context.run_id == "r"', 'run_id'],
    ['the agent’s identity', 'principal == Agent::"me"', 'principal'],
    ['the type of the principal', 'principal is Agent', 'principal'],
    ['an attribute of the tool', 'resource.sensitive', 'resource'],
    ['the tool’s entity', 'resource == Tool::"pay"', 'resource'],
  ])('an explanation offers no change of %s but names the fact', (_name, condition, fact) => {
    expect(explained({ text: forbid(condition) })).toMatchObject({ ...nothing, fixed: [fact] })
  })
  test('an explanation offers no change against a forbid without conditions', () =>
    expect(explained({ text: `${PERMIT} forbid (principal, action, resource);` })).toMatchObject(nothing))
  test('an explanation offers no change if no policy permits such a call', () =>
    expect(explained({ text: 'permit (principal, action == Action::"other", resource);' })).toMatchObject(
      nothing,
    ))
  test('an explanation never offers to withdraw an approval', () => {
    const given = { allow_sensitive_tools: true, approval: { ...NOBODY, granted: true, count: 1 } }
    for (const condition of [
      'context.allow_sensitive_tools',
      'context.approval.granted',
      'context.approval.count > 0',
    ])
      expect(explained({ text: forbid(condition), context: given }).changes, condition).toEqual([])
  })
  test('an explanation offers only numbers of approvals that the current approvers can give', () => {
    const changes = (condition: string, asked = {}) =>
      words(explained({ text: forbid(condition, 'unless'), ...asked }).changes)
    expect(changes('context.approval.count == 2')).toEqual([])
    expect(changes('context.args.n < 5 && context.approval.count == 2', { args: { n: 7 } })).toEqual([])
    expect(changes('context.approval.count == 3')).toEqual(['approval.count = 3: 3 different approvers'])
    expect(changes('context.approval.assurance == "link"')).toEqual([
      'an approval with a stronger assurance: `link`',
    ])
  })
  test('an explanation offers no arguments that the tool’s schema refuses', () => {
    const asked = {
      text: forbid('context.args.amount > 100 || context.args.amount < 0'),
      args: { amount: 250 },
    }
    expect(words(explained(asked).changes)).toEqual(['args.amount ≤ 100'])
    const fits = ({ amount }: Record<string, unknown>) => typeof amount === 'number' && amount >= 200
    expect(explained(asked, OPERATOR, fits)).toMatchObject(nothing)
  })
  test('an explanation offers no change of more facts than the limit', () => {
    const members = Array.from({ length: LIMITS.explanation_facts + 1 }, (_, i) => `context.args.a${i}`)
    const args = Object.fromEntries(members.map((_, i) => [`a${i}`, true]))
    expect(explained({ text: forbid(members.join(' || ')), args })).toMatchObject(nothing)
  })
})

test('each change says who can make it', () => {
  const by = (condition: string, asked: Omit<ExplanationRequest, 'text'> = {}) =>
    explained({ text: forbid(condition), ...asked })
      .changes.flat()
      .map((change) => change.by)
  expect(by('context.args.n > 1', { args: { n: 2 } })).toEqual(['agent'])
  expect(by('context.plan.egress_hosts.contains("a.example:443")')).toEqual(['agent'])
  expect(by('context.plan.tier == "C"')).toEqual(['operator'])
  expect(by('!context.allow_sensitive_tools')).toEqual(['human'])
  expect(by('context.approval.count < 3')).toEqual(['human'])
  expect(by('context.approval.count < 4')).toEqual(['operator']) // there are three approvers
  expect(by('!context.approval.roles.contains("security")')).toEqual(['operator']) // nobody has that role
  expect(by('!context.approval.quorum.contains("3 of finance")')).toEqual(['operator'])
  expect(by('!context.is_allowlisted_tool', { context: { is_allowlisted_tool: false } })).toEqual([
    'operator',
  ])
  expect(by('context.weekday > 5')).toEqual(['time'])
})

test('a change as JSON has the fact, its current value, the needed value and who can change it', () => {
  const told = explained({
    text: forbid('context.args.amount.greaterThan(decimal("100.5"))'),
    args: { amount: { __extn: { fn: 'decimal', arg: '250.25' } } },
  })
  expect(told.changes).toEqual([
    [
      {
        fact: 'args.amount',
        is: 250.25,
        needs: { op: '<=', value: 100.5 },
        by: 'agent',
        words: 'args.amount ≤ 100.5',
      },
    ],
  ])
})

describe('an agent learns nothing about others', () => {
  const CANARIES = ['canary-operator', 'canary-group', 'canary-role', 'canary-agent', 'canary-text']
  const AGENT: Reader = {
    ...OPERATOR,
    kind: 'agent',
    names: (text) => CANARIES.some((name) => text.includes(name)),
  }
  test.each([
    ['!context.approval.approvers.contains("canary-operator")', {}],
    ['!context.approval.roles.contains("canary-role")', {}],
    ['!context.approval.quorum.contains("2 of canary-role")', {}],
    ['!(principal in Group::"canary-group")', {}],
    ['principal in Group::"canary-group"', { groups: ['canary-group'] }],
    ['!context.owners.contains("canary-operator")', {}],
    ['context.args.to == "canary-agent"', { args: { to: 'canary-agent' } }],
    ['context.args.to != "canary-agent"', { args: { to: 'x' } }],
    ['!["canary-operator"].contains(context.args.to)', { args: { to: 'x' } }],
    ['!(context.args.to like "*canary-group*")', { args: { to: 'x' } }],
    ['!context.args.to.contains("canary-operator")', { args: { to: [] } }],
    ['context.channel_id != "canary-text"', { context: { channel_id: 'x' } }],
    ['"canary-text" == "canary-text" && context.args.n > 1 // canary-text', { args: { n: 2 } }],
  ] as [string, Omit<ExplanationRequest, 'text'>][])(
    'an agent reads no name of another principal in the explanation of %s',
    (condition, asked) => {
      const text = forbid(`${condition}\n`)
      const [agent, operator] = [explained({ text, ...asked }, AGENT), explained({ text, ...asked })]
      expect(operator.changes.length).toBeGreaterThan(0)
      expect(JSON.stringify(operator)).toContain('canary')
      expect(agent.changes.length).toBe(operator.changes.length)
      expect(JSON.stringify(agent)).not.toMatch(/canary|Group::|permit \(|forbid \(/)
    },
  )
  test.each([
    ['context.args.pin != "4711"', { args: { pin: '0000' } }],
    ['context.args.pin > 4711', { args: { pin: 9_999 } }],
    ['context.args.credentials.id != "4711"', { args: { credentials: { id: 'x' } } }],
    ['!(context.args.url like "https://u:4711@*")', { args: { url: 'x' } }],
  ] as [string, Omit<ExplanationRequest, 'text'>][])(
    'an explanation gives an agent no secret and no hint at its value: %s',
    (condition, asked) => {
      const { changes } = explained({ text: forbid(condition), ...asked }, AGENT)
      expect(words(changes)).toEqual([
        expect.stringMatching(/^another value of args\.\S+; an operator can see which$/),
      ])
      expect(JSON.stringify(changes)).not.toMatch(/4711|4710|mark|redacted/)
      const toOperators = JSON.stringify(explained({ text: forbid(condition), ...asked }).changes)
      expect(toOperators).toContain('«redacted»')
      expect(toOperators).not.toMatch(/4711|4710|mark/)
    },
  )
})
