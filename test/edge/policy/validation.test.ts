// Promise: a policy set that passes validation is valid for every possible call. Unknown names,
// wrong types, texts too large or deep for the engine and confusable characters are refused with
// position and hint. No stack.
// @project processes

import { expect, test } from 'vitest'
import { DEFAULTS, withFloor } from '../../../edge/policy/built-in.ts'
import { checkPolicies, checkToolChange } from '../../../edge/policy/check.ts'
import { compile, policiesIn } from '../../../edge/policy/engine.ts'
import type { Failure } from '../../../shared/failures.ts'
import { LIMITS } from '../../../shared/limits.ts'
import type { Result } from '../../../shared/result.ts'
import { ROUTES } from '../../../shared/routes/all.ts'
import type { Route } from '../../../shared/routes/route.ts'
import { cpuTime } from '../../support/cpu-time.ts'
import { toolSpec } from '../../support/fixtures.ts'

const properties = {
  amount: { type: 'integer' },
  price: { type: 'number' },
  memo: { type: 'string' },
  tags: { type: 'array', items: { type: 'string' } },
  free: {},
}
const refund = {
  name: 'refund',
  input_schema: { type: 'object', properties, required: ['amount', 'price', 'tags'] },
}
const other = { name: 'other', input_schema: { type: 'object', properties: { amount: { type: 'string' } } } }
const TOOLS = [refund, other]

const check = (text: string, tools: Parameters<typeof checkPolicies>[1] = TOOLS) =>
  checkPolicies({ mine: text }, tools)
const on = (condition: string, scope = 'action == Action::"tool.execute/refund"') =>
  `forbid (principal, ${scope}, resource) when { ${condition} };`
const refused = <T>(answer: Result<T>): Failure => {
  if (answer.ok) throw new Error('nothing was refused')
  return answer.error
}

test('floor and defaults are valid for a tenant without tools and with any', () => {
  for (const tools of [[], TOOLS]) expect(checkPolicies(DEFAULTS, tools)).toEqual({ ok: true, value: [] })
})

test('policies can name every action that a route checks, with exactly its callers', () => {
  const types = {
    agent: 'Agent',
    operator: 'Operator',
    worker: 'Worker',
    link: 'Operator',
    slack: 'Operator',
    console: 'Operator',
  } as const
  // A tenant's policies can't name the installation's actions.
  const routes = Object.values<Route>(ROUTES).filter(({ callers }) => !callers.includes('installation'))
  const rules = routes.flatMap(({ action, callers }) =>
    callers.flatMap((caller) => {
      if (action === null) return []
      if (caller === 'anyone' || caller === 'installation')
        throw new Error(`\`${action}\` is asked of anyone`)
      return [`permit (principal is ${types[caller]}, action == Action::"${action}", resource is Tenant);`]
    }),
  )
  expect(rules.length).toBeGreaterThan(100)
  // In one set, because most of the time of a check is the schema's. An error names its line.
  expect(check([...new Set(rules)].join('\n'))).toEqual({ ok: true, value: [] })
})

test.each([
  ['integers', 'context.args.amount > 100 && context.args.amount <= 9223372036854775807'],
  ['decimals', 'context.args.price.greaterThan(decimal("0.5"))'],
  ['an optional argument after `has`', 'context.args has memo && context.args.memo like "*urgent*"'],
  ['lists', 'context.args.tags.containsAny(["a", "b"])'],
  [
    'plan, clock, usage and approvals',
    'context.plan.program == "rm" && context.weekday > 5 && context.budget.run.calls > 3 && context.approval.independent.count < 2',
  ],
  [
    'groups of principal and tool',
    'principal in Group::"finance" && resource in ToolGroup::"money" && resource.sensitive',
  ],
  ['an argument of some tools after `has`', 'context.args has memo', 'action in Action::"tool.execute"'],
  ['non-ASCII text of one script', 'context.args has memo && context.args.memo == "přílohy"'],
])('a rule that uses %s is valid', (_name, condition, scope?: string) => {
  expect(check(on(condition, scope))).toEqual({ ok: true, value: [] })
})

test.each<[name: string, text: string, at: string, message: RegExp, hint?: RegExp]>([
  [
    'an unknown attribute',
    on('context.args.amont > 100'),
    'mine:1:78',
    /`args\.amont`.*not found/,
    /did you mean `amount`/,
  ],
  ['an attribute of a later line', `// é\n\n${on('\n  context.args.amont > 100')}`, 'mine:4:3', /not found/],
  ['a wrong type', on('context.args.amount > "a"'), 'mine:1:100', /expected Long but saw String/],
  [
    'a comparison of different types',
    on('context.args.amount == "a"'),
    'mine:1:78',
    /Long and String are not compatible/,
  ],
  ['an argument that policy does not see', on('context.args.free == 1'), 'mine:1:78', /not found/],
  [
    'an optional argument that may be absent',
    on('context.args.memo == "a"'),
    'mine:1:78',
    /optional attribute/,
    /context\.args has memo/,
  ],
  [
    'a decimal read from a text',
    on('decimal(context.args.memo).lessThan(decimal("1.0"))'),
    'mine:1:78',
    /non-literal/,
  ],
  ['an attribute that principals don’t have', on('principal.clearance == "high"'), 'mine:1:78', /not found/],
  [
    'an unknown tool',
    on('true', 'action == Action::"tool.execute/refnd"'),
    'mine:1:30',
    /unrecognized action/,
    /tool\.execute\/refund/,
  ],
  [
    'a tool that is not registered',
    on('true', 'action == Action::"tool.execute/payment"'),
    'mine:1:30',
    /unrecognized action/,
    /^no tool `payment` is registered/,
  ],
  [
    'a tool that is named without its action',
    on('true', 'action == Action::"refund"'),
    'mine:1:30',
    /unrecognized/,
    /tool\.execute\/refund/,
  ],
  [
    'an unknown entity type',
    'permit (principal == Agant::"x", action, resource);',
    'mine:1:22',
    /`Agant`/,
    /`Agent`/,
  ],
  [
    'a rule about all tools that reads the argument of one',
    on('context.args.amount > 1', 'action in Action::"tool.execute"'),
    'mine:1:71',
    /./,
  ],
  [
    'a rule about all actions that reads what only calls have',
    on('context.plan.tier == "B"', 'action'),
    'mine:1:45',
    /`plan`/,
    /covers \d+ actions/,
  ],
  [
    'a syntax error',
    'permit (principal, action, resource);\n\nforbid (principal, action resource);',
    'mine:3:27',
    /unexpected token/,
    /expected/,
  ],
  [
    'a number beyond 64 bits',
    on('context.args.amount > 9223372036854775808'),
    'mine:1:100',
    /too large/,
    /9223372036854775807/,
  ],
])('a policy is refused with its position: %s', (_name, text, at, message, hint) => {
  const parsed = compile({ mine: text })
  const { code, errors } = refused(parsed.ok ? check(text) : parsed)
  expect(code).toBe('invalid_policy')
  expect(errors?.[0]).toMatchObject({ at, message: expect.stringMatching(message) })
  expect(errors?.[0]?.message).not.toMatch(/policy\d/)
  if (hint !== undefined) expect(errors?.[0]?.hint).toMatch(hint)
})

test.each([
  ['mixed scripts in a text', on('context.args has memo && context.args.memo == "раypal"')],
  ['a bidirectional control', on('context.args has memo && context.args.memo == "user\u202enimda"')],
  ['a confusable letter', on('true', 'action').replace('principal', 'principal in Group::"аdmin"')],
  [
    'an entity in a confusable script',
    on('true', 'action').replace('principal', 'principal in Group::"асе"'),
  ],
  [
    'a confusable letter after a comment',
    on('true', 'action').replace('principal', 'principal in Group:: //\n"асе"'),
  ],
  [
    'an entity with an escape',
    on('true', 'action').replace('principal', 'principal in Group::"\\u{61}dmin"'),
  ],
])('a policy is refused because of %s', (_name, text) => {
  const { code, errors } = refused(check(text))
  expect(code).toBe('invalid_policy')
  expect(errors?.[0]?.at).toMatch(/^mine:[12]:\d+$/)
})

test('a policy that can never apply is a warning, not an error', () => {
  const answer = check(on('context.args has nothing && true'))
  expect(answer).toMatchObject({
    ok: true,
    value: [{ at: 'mine:1:1', message: expect.stringContaining('impossible') }],
  })
})

test('positions count all kinds of line ends, and ten thousand confusable letters are reported quickly', () => {
  expect(
    check(on('context.amount > 1').replaceAll(' ', '\r\n').replace('context.amount', 'context.args.amount')),
  ).toMatchObject({
    ok: true,
  })
  const began = cpuTime()
  expect(refused(check('::"é"'.repeat(10_900))).errors).toHaveLength(20)
  expect(cpuTime() - began).toBeLessThan(1_000)
})

test('policy errors are listed in the order of the text, one per position, at most 20', () => {
  const text = Array.from({ length: 25 }, (_, i) => on(`context.args.a${i} == 1`)).join('\n')
  const { detail, errors = [] } = refused(check(text))
  expect(errors.map(({ at }) => at)).toEqual(Array.from({ length: 20 }, (_, i) => `mine:${i + 1}:78`))
  expect(detail).toBe('20 mistakes or more in the policies')
})

test('a policy id of the floor is refused in a tenant’s file', () => {
  const whole = withFloor({ mine: '@id("sensitive-needs-approval") permit (principal, action, resource);' })
  const { errors } = refused(whole.ok ? compile(whole.value) : whole)
  expect(errors).toEqual([
    {
      at: 'mine',
      message:
        'the id `sensitive-needs-approval` is taken by a policy of `floor.sensitive`; name each policy once',
    },
  ])
})

test.each(['run.budget', 'session.budget', 'tool.egress', 'tool.executables'])(
  'a policy id that the edge uses itself is refused: %s',
  (id) => {
    expect(refused(compile({ mine: `\n@id("${id}") permit (principal, action, resource);` })).errors).toEqual(
      [{ at: 'mine:2:1', message: `the id \`${id}\` is the edge’s own; choose another` }],
    )
  },
)

test('policies without an id are numbered in their order, and semicolons in comments and strings don’t count', () => {
  const one = 'forbid (principal, action, resource) when { "//" == "a\\";b" };'
  const rest = Array.from(
    { length: 24 },
    (_, i) => `forbid (principal, action, resource) when { ${i + 2} == 0 // not; yet\n };`,
  )
  const text = `// ${one}\n${[one, ...rest].join(' // ; "\r\n')}\n// ${one}`
  const set = compile({ mine: text })
  if (!set.ok) throw new Error(set.error.detail)
  const rules = [...set.value.rules]
  expect(rules.map(([id, { source }]) => [id, source.text])).toEqual(
    [one, ...rest].map((each, i) => [`mine/${i + 1}`, each]),
  )
  expect([...policiesIn({ mine: text })].map(([id, { text: each }]) => [id, each])).toEqual(
    rules.map(([id, { source }]) => [id, source.text]),
  )
  expect(rules[0]?.[1].source.at).toBe(`// ${one}\n`.length)
  for (const [, { source }] of rules) expect(text.startsWith(source.text, source.at)).toBe(true)
})

test.each([
  ['10,000 policies', 'permit (principal, action, resource);\n'.repeat(10_000), /1000\d policies/],
  ['1 MB of conditions', on(`${'true && '.repeat(130_000)}true`), /more than 256 conditions/],
  ['deep brackets', on(`${'('.repeat(5_000)}true${')'.repeat(5_000)}`), /nested deeper/],
  ['unclosed brackets', on('('.repeat(100_000)), /nested deeper/],
  ['a chain of sums', on(`${'1 + '.repeat(5_000)}1 > 0`), /nested deeper/],
  ['a chain of attributes', on(`context${'.a'.repeat(5_000)} == 1`), /nested deeper/],
  [
    'nested branches',
    on(`${'if true then '.repeat(1_000)}true${' else false'.repeat(1_000)}`),
    /more than 256 conditions/,
  ],
  ['nested lists', on(`${'['.repeat(400)}1${']'.repeat(400)} == 1`), /nested deeper/],
  [
    'deep brackets in a text that only one reader takes for a comment',
    `//\r${on(`${'('.repeat(400)}true${')'.repeat(400)}`)}`,
    /control character/,
  ],
  ['a Unicode line separator', `//\u2028${on('true')}`, /control character/],
])('a policy text is refused before the engine sees it: %s', (_name, text, message) => {
  const began = cpuTime()
  for (const answer of [compile({ mine: text }) as Result<unknown>, check(text)]) {
    expect(refused(answer)).toMatchObject({
      code: 'invalid_policy',
      errors: [{ message: expect.stringMatching(message) }],
    })
  }
  expect(cpuTime() - began).toBeLessThan(2_000)
})

test.each<[name: string, of: (n: number) => string]>([
  ['brackets', (n) => `${'('.repeat(n)}true${')'.repeat(n)}`],
  ['comparisons in brackets', (n) => `${'(true == '.repeat(n)}true${')'.repeat(n)}`],
  ['negations', (n) => `${'!('.repeat(n)}true${')'.repeat(n)}`],
  ['lists', (n) => `${'['.repeat(n)}1${']'.repeat(n)}.isEmpty()`],
  ['records', (n) => `${'{a: '.repeat(n)}1${'}'.repeat(n)} == 1`],
  ['sums', (n) => `${'1 + '.repeat(n)}1 > 0`],
  ['conditions', (n) => `${'true && '.repeat(n * 6)}true`],
  ['branches', (n) => `${'if true then '.repeat(n)}true${' else false'.repeat(n)}`],
])('the engine survives the deepest accepted text, and a deeper one is refused: %s', (_name, of) => {
  const depths = Array.from({ length: 60 }, (_, i) => i + 1)
  const stood = depths.filter((n) => compile({ mine: on(of(n)) }).ok)
  // A check takes far longer than reading, so the shallow texts are not all checked.
  for (const n of depths.filter((n) => n % 8 === 0 || n > stood.length - 2)) {
    const text = on(of(n))
    const read = compile({ mine: text })
    const checked = check(text) // any answer is fine
    if (!read.ok)
      expect([read.error.errors?.[0]?.message, checked.ok]).toEqual([
        expect.stringMatching(/nested deeper|conditions/),
        false,
      ])
  }
  expect([stood.length > 10, stood.length < depths.length]).toEqual([true, true])
  expect(stood).toEqual(depths.slice(0, stood.length))
})

test('a policy nested deeper than 48 levels (`policy_depth`), or with more than 256 conditions (`policy_conditions`), is refused', () => {
  const errors = (text: string) => {
    const answer = check(text)
    return answer.ok ? [] : (answer.error.errors ?? []).map(({ message }) => message)
  }
  const joined = (count: number) => on(Array(count).fill('true').join(' && '))
  const nested = (levels: number) => on(`${'('.repeat(levels)}true${')'.repeat(levels)}`)
  const within = [joined(200), nested(40)].map(errors)
  expect(within).toEqual([[], []])
  expect(errors(joined(257))).toEqual([expect.stringMatching(/^more than 256 conditions in one policy/)])
  expect(errors(nested(49))).toEqual([expect.stringMatching(/^nested deeper than 48 levels/)])
})

test('1,000 policies are checked within 2 s', () => {
  const text = Array.from({ length: 1_000 }, (_, i) =>
    on(
      `context.args.amount > ${i} && context.args has memo && context.args.memo like "a*" && !context.approval.granted`,
    ),
  ).join('\n')
  const began = cpuTime()
  expect(check(text)).toEqual({ ok: true, value: [] })
  const took = cpuTime() - began
  console.log(`1,000 policies: ${Math.round(took)} ms`)
  expect(took).toBeLessThan(2_000)
})

const MANY = Array.from({ length: LIMITS.tools }, (_, i) => ({ ...other, name: `t${i}` }))
const ALL = 'action in Action::"tool.execute"'

test.each([
  ['many rules', on('context.plan.tier == "B"', ALL).repeat(200)],
  ['few rules with many conditions', on(Array(250).fill('1 < 2').join(' && '), ALL).repeat(10)],
  ['one rule with a long list', on(`[${'1,'.repeat(5_000)}1].contains(2)`, ALL)],
  [
    'rules that name a tool in a comment',
    `// Action::"\n${on('1 < 2 // Action::"\n', 'action')}`.repeat(200),
  ],
  [
    'rules that name every tool',
    on(
      Array(100).fill('1 < 2').join(' && '),
      `action in [${MANY.map(({ name }) => `Action::"tool.execute/${name}"`).join()}]`,
    ).repeat(20),
  ],
])(
  'a policy set that would cost more than `policy_checks` is refused before the check: %s',
  (_what, text) => {
    const began = cpuTime()
    expect(refused(check(text, MANY)).code).toBe('limit_reached')
    expect(cpuTime() - began).toBeLessThan(2_000)
  },
)

test.each([
  ['in scopes', (names: string) => on('true', `action in [${names}]`)],
  ['in conditions', (names: string) => on(`action in [${names}]`, 'action == Action::"tool.list"')],
])(
  'a set that names thousands of unknown actions is refused before the validator runs: %s',
  (_where, rule) => {
    const nowhere = (from: number) =>
      Array.from({ length: 500 }, (_, i) => `Action::"tool.execute/none${from}x${i}"`).join()
    const began = cpuTime()
    const { code, detail } = refused(
      check(Array.from({ length: 20 }, (_, from) => rule(nowhere(from))).join(''), MANY),
    )
    expect(cpuTime() - began).toBeLessThan(2_000)
    expect([code, detail]).toEqual([
      'invalid_policy',
      expect.stringContaining('10000 actions that do not exist, such as `Action::"tool.execute/none0x0"`'),
    ])
  },
)

/** A rule about every action, with as many unknown attributes as a text of this length can hold. */
const astray = (id: number, length: number): string => {
  const [head, tail] = [
    `@id("p${id}") forbid (principal, action, resource) when { [context.q`,
    '].isEmpty() };',
  ]
  const count = Math.floor((length - head.length - tail.length) / ',context.q1000'.length)
  return `${head}${Array.from({ length: count }, (_, i) => `,context.q${i + 1000}`).join('')}${tail}`
}
test.each([
  ['one rule of 63 KB', [astray(0, 63_000)], 'limit_reached'],
  ['15 such rules', Array.from({ length: 15 }, (_, i) => astray(i, 63_000)), 'limit_reached'],
  [
    '120 rules of 1 KB',
    Array.from({ length: 2 }, (_, i) =>
      Array.from({ length: 60 }, (_, j) => astray(60 * i + j, 1_000)).join('\n'),
    ),
    'invalid_policy',
  ],
])(
  'a policy set full of errors is reported in time (`policy_check_us`), with and without tools: %s',
  (_what, texts, code) => {
    const files = Object.fromEntries(texts.map((text, i) => [`f${i}`, text]))
    for (const tools of [[], TOOLS, MANY]) {
      const began = cpuTime()
      const found = refused(checkPolicies(files, tools)).code
      expect(cpuTime() - began).toBeLessThan(4_000)
      expect(tools === TOOLS ? [code] : ['limit_reached', code]).toContain(found)
    }
  },
)

test.each([
  ['rules about no tool', on('true', 'action == Action::"tool.list"').repeat(900)],
  ['rules about operators', 'permit (principal is Operator, action, resource);'.repeat(900)],
  ['semicolons in a text', on(`context.tool_name == "${';'.repeat(2_000)}"`, ALL)],
  [
    'rules about one tool each',
    MANY.map(({ name }) => on('context.plan.tier == "B"', `action == Action::"tool.execute/${name}"`)).join(
      '',
    ),
  ],
])('a large valid policy set is checked in time with the maximum number of tools: %s', (_what, text) => {
  expect(check(text, MANY)).toMatchObject({ ok: true })
})

const CLOCK = 'context.now.toTime() >= duration("8h30m")'
test.each([
  ['context.now.hour() > 8', CLOCK],
  ['context.now.getHours() > 8', CLOCK],
  ['context.now.hour > 8', CLOCK],
  ['context.now > time("08:00")', CLOCK],
  ['context.now.toTime() > "08:00"', 'duration("8h30m")'],
  ['context.now.dayOfWeek() == 1', 'context.weekday'],
  ['context.budget.day.calls > 1', 'context.budget.run.calls'],
  ['context.budget.calls > 1', 'context.budget.run.calls'],
  ['context.budget.session.spent > 1', 'context.budget.session.tool.spent'],
])('a common policy mistake gets a hint about what to write: %s', (condition, hint) => {
  const { errors } = refused(check(on(condition, 'action in Action::"tool.execute"')))
  expect(errors).toEqual([expect.objectContaining({ hint: expect.stringContaining(hint) })])
  const written = hint.startsWith('context.now')
    ? CLOCK
    : `${hint === 'duration("8h30m")' ? `context.now.toTime() > ${hint}` : `${hint} > 1`}`
  expect(check(on(written, 'action in Action::"tool.execute"'))).toMatchObject({ ok: true })
})

const RULE = on('context.args.amount > 100')
const asTool = (name: string, input_schema: Record<string, unknown>) => ({
  ...toolSpec({ input_schema }),
  name,
})
const REGISTERED = TOOLS.map((tool) => asTool(tool.name, tool.input_schema))
const change = (input_schema: Record<string, unknown> | null, name = 'refund', text = RULE) =>
  checkToolChange({ mine: text }, REGISTERED, name, input_schema === null ? null : asTool(name, input_schema))

test('a tool change that makes the policy set in force invalid is refused, with the position in the set', () => {
  for (const schema of [
    null,
    { type: 'object', properties: {} },
    { type: 'object', properties: { amount: { type: 'string' } }, required: ['amount'] },
    { type: 'object', properties: { amount: { type: 'integer' } } },
  ]) {
    const { code, detail, errors } = refused(change(schema))
    expect([code, errors?.[0]?.at.replace(/\d+$/, '')]).toEqual(['tool_breaks_policies', 'mine:1:'])
    expect(detail).toContain('`refund`')
  }
})

test('a tool that a rule in force names as its resource can’t be deleted', () => {
  for (const text of [
    'forbid (principal, action, resource == Tool::"refund");',
    on('resource == Tool::"refund"', 'action in Action::"tool.execute"'),
  ]) {
    const { code, errors } = refused(change(null, 'refund', text))
    expect([code, errors]).toEqual([
      'tool_breaks_policies',
      [expect.objectContaining({ at: `mine:1:${text.indexOf('"refund"') + 1}` })],
    ])
    expect(change({ ...refund.input_schema, title: 'anew' }, 'refund', text)).toEqual({
      ok: true,
      value: true,
    })
    expect(change(null, 'other', text)).toEqual({ ok: true, value: true })
  }
})

test('a tool change that affects no rule is accepted', () => {
  const more = { ...refund.input_schema, properties: { ...properties, more: { type: 'boolean' } } }
  expect(change(more)).toEqual({ ok: true, value: true })
  expect(change(null, 'other')).toEqual({ ok: true, value: true })
  expect(change({ type: 'object', properties: { amount: { type: 'boolean' } } }, 'new')).toEqual({
    ok: true,
    value: true,
  })
})

test('a rule about all tools is checked against a changed tool', () => {
  const all = on('context.args has limit && context.args.limit > 5', 'action in Action::"tool.execute"')
  expect(change({ type: 'object', properties: { limit: { type: 'integer' } } }, 'new', all)).toEqual({
    ok: true,
    value: true,
  })
  expect(
    refused(change({ type: 'object', properties: { limit: { type: 'string' } } }, 'new', all)).code,
  ).toBe('tool_breaks_policies')
})

/** Equal tools, one for each letter. */
const equalTools = (letters: string, { input_schema }: (typeof TOOLS)[number]) =>
  [...letters].map((name) => ({ name, input_schema }))

test('with 500 tools that differ only in arguments that no rule reads, a tool change and a policy check take at most three times as long as with 5', () => {
  const beside = (count: number) => {
    const schemaOf = (i: number) => ({ type: 'object', properties: { [`unread_${i}`]: { type: 'string' } } })
    const others = Array.from({ length: count }, (_, i) => asTool(`tool_${i}`, schemaOf(i)))
    const tools = [asTool('refund', refund.input_schema), ...others]
    const costs = Array.from({ length: 5 }, (_, i) => {
      const unchecked = on(`context.args has amount && context.args.amount > ${count + i}`, ALL)
      const texts = { ...DEFAULTS, unchecked }
      const begun = cpuTime()
      expect(checkToolChange(texts, tools, 'new', asTool('new', refund.input_schema)).ok).toBe(true)
      expect(checkPolicies(texts, tools).ok).toBe(true)
      return cpuTime() - begun
    })
    return Math.min(...costs)
  }
  const few = beside(5)
  expect(beside(500)).toBeLessThan(3 * few)
})

test.each([
  ['is the only one it names', 'action == Action::"tool.execute/a"', 'process'],
  ['belongs to a skill', 'action in Action::"skill.execute"', 'skill'],
] as const)(
  'a rule that is valid for a tool only because it %s is refused for equal tools',
  (_, apart, kind) => {
    const valid = { ...asTool('a', other.input_schema), executor: { kind } as never } // the only field that counts
    const equal = equalTools('bcd', other)
    const wrong = 'context.args has amount && context.args.amount > 5' // a text
    const rule = on(`${apart} || (${wrong})`, 'action in Action::"tool.execute"')
    expect(check(rule, [valid])).toEqual({ ok: true, value: [] })
    for (const tools of [
      [valid, ...equal],
      [...equal, valid],
    ])
      expect(refused(check(rule, tools)).code).toBe('invalid_policy')
  },
)

test.each([
  ['in its scope', on('context.plan.tier == "B"', 'action in [Action::"tool.execute", Action::"tool.list"]')],
  ['by not naming any', on('context.plan.tier == "B"', 'action')],
])('a rule that covers an action of the edge too, %s, is checked against that action', (_, rule) => {
  expect(change(refund.input_schema, 'new', rule)).toEqual({ ok: true, value: true })
  expect(refused(check(rule)).errors).toMatchObject([{ message: expect.stringContaining('`plan`') }])
})

test('a rule about all tools is checked against each tool whose arguments differ', () => {
  const rule = on('context.args has amount && context.args.amount > 5', 'action in Action::"tool.execute"')
  expect(check(rule, equalTools('abc', refund))).toEqual({ ok: true, value: [] })
  expect(refused(check(rule, [...equalTools('abc', refund), ...equalTools('d', other)])).code).toBe(
    'invalid_policy',
  )
})

test('errors that the policy set had before don’t prevent a tool change', () => {
  const broken = `${on('context.args.gone == 1')}\n${on('true', 'action == Action::"tool.execute/gone"')}`
  expect(change({ ...refund.input_schema, title: 'anew' }, 'refund', broken)).toEqual({
    ok: true,
    value: true,
  })
})
