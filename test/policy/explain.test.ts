// What would change a denial is what the engine says would change it: every kind of condition has its smallest change, what must go
// together goes together, and nothing is offered that would not be allowed.

import { describe, expect, test } from 'vitest'
import type { Reader } from '../../edge/explain/telling.ts'
import type { Grounds } from '../../edge/explain.ts'
import { explain } from '../../edge/explain.ts'
import type { CedarValueJson } from '../../edge/policy.ts'
import { about, ask, compile, readable } from '../../edge/policy.ts'
import type { Change, Explanation } from '../../shared/explanation.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Decision } from '../../shared/wire.ts'

const NOBODY = {
  granted: false,
  count: 0,
  approvers: [],
  roles: [],
  quorum: [],
  assurance: 'none',
  independent: { count: 0, roles: [], quorum: [] },
}
const PLAN = {
  tier: 'C',
  egress_mode: 'strict',
  egress_hosts: ['a.example:443'],
  workspace: 'call',
  timeout_ms: 1_000,
  memory_bytes: 1_000,
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
  budget: { run: { max_calls: 10, calls: 10, denied: 0, time_ms: 0, tool: { calls: 3, denied: 0, time_ms: 0, spent: 40 } } },
  args: {},
} satisfies Record<string, CedarValueJson>

const OPERATOR: Reader = {
  kind: 'operator',
  names: () => false,
  byArguments: ['plan.egress_hosts'],
  reach: {
    count: 3,
    approvers: ['ann', 'bob', 'cid'],
    roles: ['finance'],
    quorum: ['1 of finance', '2 of finance'],
    independent: { count: 3, roles: ['finance'], quorum: ['1 of finance', '2 of finance'] },
  },
}
const PERMIT = '@id("permit") permit (principal, action, resource);\n'

type Asked = { text: string; args?: Record<string, CedarValueJson>; context?: Record<string, CedarValueJson>; groups?: string[] }

function groundsOf({ text, args = {}, context = {}, groups = [] }: Asked): Grounds {
  const set = compile({ set: text })
  if (!set.ok) throw new Error(JSON.stringify(set.error))
  const matter = about(set.value, {
    principal: { type: 'Agent', id: 'me' },
    action: 'tool.execute/pay',
    resource: { type: 'Tool', id: 'pay' },
    entities: [
      { uid: { type: 'Agent', id: 'me' }, attrs: {}, parents: groups.map((id) => ({ type: 'Group', id })) },
      { uid: { type: 'Action', id: 'tool.execute/pay' }, attrs: {}, parents: [{ type: 'Action', id: 'tool.execute' }] },
      { uid: { type: 'Tool', id: 'pay' }, attrs: { version: 1, sensitive: true, capabilities: [] }, parents: [] },
    ],
  })
  const seen = readable(matter, { ...CONTEXT, ...context, args })
  return { matter, context: seen, verdict: ask(matter, seen), refused: [] }
}

function explained(asked: Asked, reader = OPERATOR, fits: (args: Record<string, unknown>) => boolean = () => true): Explanation {
  const grounds = groundsOf(asked)
  const { policies } = grounds.verdict
  const decision: Decision = { effect: 'deny', code: 'denied', policies: [...policies], reason: '', policy_set: '', snapshot: '' }
  return explain(decision, grounds, { args: asked.args ?? {}, fits }, reader)
}

const forbid = (condition: string, kind = 'when'): string =>
  `${PERMIT}@id("forbid") forbid (principal, action, resource) ${kind} { ${condition} };`
const words = (changes: Change[][]): string[] => changes.map((together) => together.map((change) => change.words).join(' & '))

describe('each kind of condition has its smallest change', () => {
  const CASES: readonly (readonly [string, readonly string[], Omit<Asked, 'text'>?])[] = [
    ['context.args.amount > 100', ['args.amount ≤ 100'], { args: { amount: 250 } }],
    ['context.args.amount >= 100', ['args.amount ≤ 99'], { args: { amount: 250 } }],
    ['100 < context.args.amount', ['args.amount ≤ 100'], { args: { amount: 250 } }],
    ['!(context.args.amount < 100)', ['args.amount ≤ 99'], { args: { amount: 250 } }],
    ['context.args.amount < 10', ['args.amount ≥ 10'], { args: { amount: 3 } }],
    ['context.args.amount + context.args.fee > 100', ['args.amount ≤ 80', 'args.fee ≤ -50'], { args: { amount: 150, fee: 20 } }],
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
    ['context.args.tags.containsAny(["a","b"])', ['args.tags without `a` & args.tags without `b`'], { args: { tags: ['a', 'b', 'c'] } }],
    ['!context.args.tags.containsAll(["a","b"])', ['args.tags with `a` & args.tags with `b`'], { args: { tags: [] } }],
    ['!["a"].containsAll(context.args.tags)', ['args.tags without `z`'], { args: { tags: ['a', 'z'] } }],
    ['context.args.tags.isEmpty()', ['args.tags not empty'], { args: { tags: [] } }],
    ['context.args.path like "/etc/*"', ['args.path not like `/etc/*`'], { args: { path: '/etc/passwd' } }],
    ['!(context.args.path like "docs/*.md")', ['args.path like `docs/*.md`'], { args: { path: 'x' } }],
    ['context.args has force', ['args.force left out'], { args: { force: 1 } }],
    ['!(context.args has why)', ['args.why given']],
    ['!(context.args has why && context.args.why.n > 3)', ['args.why.n ≥ 4']],
    ['if context.args.a then context.args.n > 5 else false', ['args.n ≤ 5', 'args.a = false'], { args: { a: true, n: 9 } }],
    ['context.plan.tier != "Z"', ['plan.tier = `Z`']],
    ['context.plan.egress_hosts.contains("a.example:443")', ['plan.egress_hosts without `a.example:443`']],
    ['!context.allow_sensitive_tools', ['an approval']],
    ['!context.approval.granted', ['an approval']],
    ['context.approval.granted == false', ['an approval']],
    ['context.approval.count < 2', ['approval.count ≥ 2: 2 different approvers']],
    ['context.approval.count < 2 && !context.allow_sensitive_tools', ['an approval']],
    ['!context.approval.roles.contains("finance")', ['an approval by somebody in the role `finance`']],
    ['!context.approval.quorum.contains("2 of finance")', ['approvals by `2 of finance`']],
    ['!context.approval.independent.quorum.contains("2 of finance")', ['approvals by `2 of finance`, without the agent’s owners']],
    ['context.approval.independent.count < 1', ['an approval by others than the agent’s owners']],
    ['!context.approval.approvers.contains("ann")', ['an approval by `ann`']],
    ['!context.is_allowlisted_tool', ['the tool on the agent’s allowlist'], { context: { is_allowlisted_tool: false } }],
    ['context.budget.run.calls >= context.budget.run.max_calls', ['budget.run.calls ≤ 9', 'budget.run.max_calls ≥ 11']],
    ['context.weekday > 5', ['weekday ≤ 5']],
    ['context.now >= datetime("2026-11-14T17:00:00Z")', ['now < `2026-11-14T17:00:00.000Z`']],
    ['principal in Group::"interns"', ['the agent not in the group `interns`'], { groups: ['interns', 'x'] }],
    ['!(principal in [Group::"a", Group::"b"])', ['the agent in the group `a`', 'the agent in the group `b`']],
  ]
  test.each(CASES.map(([condition, expected, asked = {}]) => [condition, expected, asked] as const))('%s', (condition, expected, asked) => {
    expect(words(explained({ text: forbid(condition), ...asked }).changes)).toEqual(expected)
  })
})

describe('what must change together', () => {
  const two = (first: string, second: string): string =>
    `${forbid(first)}\n@id("other") forbid (principal, action, resource) when { ${second} };`
  test.each<readonly [string, Asked, string[]]>([
    [
      'two forbids, two facts',
      { text: two('context.args.amount > 100', 'context.args.to == "x"'), args: { amount: 250, to: 'x' } },
      ['args.amount ≤ 100 & args.to ≠ `x`'],
    ],
    [
      'two thresholds of one fact: the tighter',
      { text: two('context.args.amount > 100', 'context.args.amount > 50'), args: { amount: 250 } },
      ['args.amount ≤ 50'],
    ],
    [
      'a way out of both at once comes before two of one each',
      {
        text: two('context.args.amount > 100 && !context.args.dry', 'context.args.to == "x" && !context.args.dry'),
        args: { amount: 250, to: 'x', dry: false },
      },
      ['args.dry = true', 'args.amount ≤ 100 & args.to ≠ `x`'],
    ],
    [
      'two people, one of them of a role',
      { text: two('context.approval.count < 2', '!context.approval.roles.contains("finance")') },
      ['approval.count ≥ 2: 2 different approvers & an approval by somebody in the role `finance`'],
    ],
    [
      'one approval is not told beside one of a role',
      { text: two('!context.allow_sensitive_tools', '!context.approval.roles.contains("finance")') },
      ['an approval by somebody in the role `finance`'],
    ],
    [
      'a denial that a smaller amount would turn into a question',
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
    ['what contradicts itself is not offered', { text: two('context.args.n > 5', 'context.args.n < 7'), args: { n: 6 } }, []],
    [
      'no permit: what a permit would want',
      { text: 'permit (principal in Group::"pay", action, resource) when { context.args.amount <= 10 };', args: { amount: 12 } },
      ['args.amount ≤ 10 & the agent in the group `pay`'],
    ],
    [
      'no permit: any of several would do',
      {
        text: `permit (principal, action, resource) when { context.args.amount <= 10 };
          permit (principal, action, resource) when { context.approval.count >= 2 };`,
        args: { amount: 12 },
      },
      ['args.amount ≤ 10', 'approval.count ≥ 2: 2 different approvers'],
    ],
  ])('%s', (_name, asked, expected) => {
    expect(words(explained(asked).changes).map((line) => line.split(' & ').sort())).toEqual(
      expected.map((line) => line.split(' & ').sort()),
    )
  })

  test('no more alternatives than are told, the smallest first, and none that asks for all of another', () => {
    const members = Array.from({ length: 9 }, (_, i) => `context.args.a${i}`)
    const args = Object.fromEntries(members.map((_, i) => [`a${i}`, true]))
    const { changes } = explained({ text: forbid(members.join(' && ')), args })
    expect(changes.length).toBe(LIMITS.explanation_changes)
    expect(changes.map((together) => together.length)).toEqual([1, 1, 1])
  })
})

describe('nothing is offered', () => {
  const nothing = { changes: [] }
  test('T7 where a policy errs: an error is mended, not met', () => {
    const told = explained({
      text: `${forbid('context.args.amount > 100')} forbid (principal, action, resource) when { context.args.absent };`,
      args: { amount: 250 },
    })
    expect(told).toMatchObject(nothing)
    expect(told.errors?.[0]).toContain('absent')
  })
  test.each([
    ['what the tool is', 'context.is_sensitive_action', 'is_sensitive_action'],
    ['which tool it is', 'context.tool_name == "pay"', 'tool_name'],
    ['what the tool can do', 'context.capabilities.contains("network")', 'capabilities'],
    ['which run it is', 'context.run_id == "r"', 'run_id'],
    ['who the agent is', 'principal == Agent::"me"', 'principal'],
    ['what kind of principal it is', 'principal is Agent', 'principal'],
    ['what is said of the tool', 'resource.sensitive', 'resource'],
    ['what the tool is in', 'resource == Tool::"pay"', 'resource'],
  ])('against %s, and the fact is named', (_name, condition, fact) => {
    expect(explained({ text: forbid(condition) })).toMatchObject({ ...nothing, fixed: [fact] })
  })
  test('against a forbid without conditions', () =>
    expect(explained({ text: `${PERMIT} forbid (principal, action, resource);` })).toMatchObject(nothing))
  test('where nobody permits such a call at all', () =>
    expect(explained({ text: 'permit (principal, action == Action::"other", resource);' })).toMatchObject(nothing))
  test('that humans would have to take back', () => {
    const given = { allow_sensitive_tools: true, approval: { ...NOBODY, granted: true, count: 1 } }
    for (const condition of ['context.allow_sensitive_tools', 'context.approval.granted', 'context.approval.count > 0'])
      expect(explained({ text: forbid(condition), context: given }).changes, condition).toEqual([])
  })
  test('that does not fit the tool', () => {
    const asked = { text: forbid('context.args.amount > 100 || context.args.amount < 0'), args: { amount: 250 } }
    expect(words(explained(asked).changes)).toEqual(['args.amount ≤ 100'])
    const fits = ({ amount }: Record<string, unknown>) => typeof amount === 'number' && amount >= 200
    expect(explained(asked, OPERATOR, fits)).toMatchObject(nothing)
  })
  test('that would take more than the limit of facts', () => {
    const members = Array.from({ length: LIMITS.explanation_facts + 1 }, (_, i) => `context.args.a${i}`)
    const args = Object.fromEntries(members.map((_, i) => [`a${i}`, true]))
    expect(explained({ text: forbid(members.join(' || ')), args })).toMatchObject(nothing)
  })
})

test('each change says who can bring it about', () => {
  const by = (condition: string, asked: Omit<Asked, 'text'> = {}) =>
    explained({ text: forbid(condition), ...asked })
      .changes.flat()
      .map((change) => change.by)
  expect(by('context.args.n > 1', { args: { n: 2 } })).toEqual(['agent'])
  expect(by('context.plan.egress_hosts.contains("a.example:443")')).toEqual(['agent'])
  expect(by('context.plan.tier == "C"')).toEqual(['operator'])
  expect(by('!context.allow_sensitive_tools')).toEqual(['human'])
  expect(by('context.approval.count < 3')).toEqual(['human'])
  expect(by('context.approval.count < 4')).toEqual(['operator']) // there are three approvers
  expect(by('!context.approval.roles.contains("security")')).toEqual(['operator']) // nobody has it
  expect(by('!context.approval.quorum.contains("3 of finance")')).toEqual(['operator'])
  expect(by('!context.is_allowlisted_tool', { context: { is_allowlisted_tool: false } })).toEqual(['operator'])
  expect(by('context.weekday > 5')).toEqual(['time'])
})

test('as JSON: the fact, what it is, what it needs, by whom', () => {
  const told = explained({
    text: forbid('context.args.amount.greaterThan(decimal("100.5"))'),
    args: { amount: { __extn: { fn: 'decimal', arg: '250.25' } } },
  })
  expect(told.changes).toEqual([
    [{ fact: 'args.amount', is: 250.25, needs: { op: '<=', value: 100.5 }, by: 'agent', words: 'args.amount ≤ 100.5' }],
  ])
})

describe('an agent is told nothing of others', () => {
  const CANARIES = ['canary-operator', 'canary-group', 'canary-role', 'canary-agent', 'canary-text']
  const AGENT: Reader = { ...OPERATOR, kind: 'agent', names: (text) => CANARIES.some((name) => text.includes(name)) }
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
  ] as [string, Omit<Asked, 'text'>][])('T8 %s', (condition, asked) => {
    const text = forbid(`${condition}\n`)
    const [agent, operator] = [explained({ text, ...asked }, AGENT), explained({ text, ...asked })]
    expect(operator.changes.length).toBeGreaterThan(0)
    expect(JSON.stringify(operator)).toContain('canary')
    expect(agent.changes.length).toBe(operator.changes.length)
    expect(JSON.stringify(agent)).not.toMatch(/canary|Group::|permit \(|forbid \(/)
  })
})

// ── Any policies, any call ──

/** A value that is as the change says, chosen without a look at how the edge chooses its own. */
function standing({ needs: { op, value } }: Change, before: CedarValueJson | undefined): (CedarValueJson | undefined)[] {
  const list = Array.isArray(before) ? before : []
  if (op === 'absent') return [undefined]
  if (op === 'present') return ['x', 1]
  if (op === '!=') return [typeof value === 'number' ? value + 1 : `${String(value)}~`]
  if (op === 'like') return [String(value).replaceAll('*', '')]
  if (op === 'not like') return ['']
  if (op === 'has') return [[...list, value as string]] // the lists of this test hold texts
  if (op === 'lacks') return [list.filter((item) => item !== value)]
  if (op === 'not empty') return [['x']]
  return op === 'empty' ? [[]] : [value as CedarValueJson]
}

/** Whether the call, with the change made to what was asked, is allowed: every value that the change leaves open is tried. */
function allowedWith(asked: Asked, changes: readonly Change[]): boolean {
  const [first, ...rest] = changes
  if (first === undefined) return groundsOf(asked).verdict.allowed
  const { args = {}, context = {}, groups = [] } = asked
  const [root = '', name = ''] = first.fact.split('.')
  if (root === 'agent') {
    const group = String(first.needs.value)
    const changed = first.needs.op === 'has' ? [...groups, group] : groups.filter((one) => one !== group)
    return allowedWith({ ...asked, groups: changed }, rest)
  }
  if (root === 'approval') {
    const approval = { ...NOBODY, granted: true, count: Number(first.needs.value) }
    return allowedWith({ ...asked, context: { ...context, allow_sensitive_tools: true, approval } }, rest)
  }
  return standing(first, args[name]).some((value) => {
    const { [name]: _, ...others } = args
    return allowedWith({ ...asked, args: value === undefined ? others : { ...others, [name]: value } }, rest)
  })
}

test('whatever policies and call: each alternative, made, is allowed by the engine; and of three facts at the most', () => {
  let seed = 20261118
  const random = (n: number): number => {
    seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648
    return Math.floor((seed / 2_147_483_648) * n)
  }
  const pick = <T>(items: readonly T[]): T => items[random(items.length)] as T // never empty
  const atom = (): string =>
    pick([
      () => `context.args.n ${pick(['<', '<=', '>', '>=', '==', '!='])} ${random(20)}`,
      () => `context.args.m ${pick(['<', '>'])} context.args.n`,
      () => `context.args.n + context.args.m > ${random(30)}`,
      () => `context.args.s ${pick(['==', '!='])} "${pick(['a', 'b', 'c'])}"`,
      () => `["a", "b"].contains(context.args.s)`,
      () => `context.args.s like "${pick(['a*', '*b', '*', 'a*b'])}"`,
      () => `context.args.t.contains("${pick(['a', 'b'])}")`,
      () => `context.args.t.${pick(['containsAny', 'containsAll'])}(["a", "c"])`,
      () => 'context.args.t.isEmpty()',
      () => 'context.args.f',
      () => 'context.args has o',
      () => `(context.args has o && context.args.o == ${random(3)})`,
      () => `principal in Group::"${pick(['g', 'h'])}"`,
      () => 'context.allow_sensitive_tools',
      () => `context.approval.count >= ${1 + random(3)}`,
      () => 'context.is_sensitive_action',
    ])()
  const condition = (depth: number): string => {
    if (depth === 0) return atom()
    const part = (): string => condition(depth - 1)
    return pick([
      part,
      () => `!(${part()})`,
      () => `(${part()} && ${part()})`,
      () => `(${part()} || ${part()})`,
      () => `(if ${part()} then ${part()} else ${part()})`,
    ])()
  }
  const policy = (effect: string): string => `${effect} (principal, action, resource) when { ${condition(1 + random(2))} };`

  const seen = { denied: 0, offered: 0, alternatives: 0, together: 0 }
  for (let round = 0; round < 1_500; round++) {
    const forbids = Array.from({ length: 1 + random(3) }, () => policy('forbid'))
    const permits = random(2) === 0 ? [PERMIT] : [policy('permit'), policy('permit')]
    const asked: Asked = {
      text: [...forbids, ...permits].join('\n'),
      args: {
        n: random(20),
        m: random(20),
        s: pick(['a', 'b', 'z']),
        t: pick([[], ['a'], ['a', 'c'], ['b']]),
        f: random(2) === 0,
        ...(random(2) === 0 ? {} : { o: random(3) }),
      },
      groups: pick([[], ['g'], ['g', 'h']]),
    }
    if (groundsOf(asked).verdict.allowed) continue
    const { changes } = explained(asked)
    seen.denied++
    seen.offered += changes.length > 0 ? 1 : 0
    for (const together of changes) {
      seen.alternatives++
      seen.together += together.length > 1 ? 1 : 0
      expect(together.length).toBeLessThanOrEqual(LIMITS.explanation_facts)
      expect(allowedWith(asked, together), `${JSON.stringify(asked)} with ${JSON.stringify(together)}`).toBe(true)
    }
  }
  // The walk is worth its time only where it met much of each.
  expect(seen.denied).toBeGreaterThan(400)
  expect(seen.offered / seen.denied).toBeGreaterThan(0.5)
  expect(seen.together).toBeGreaterThan(100)
})
