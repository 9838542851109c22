// Promise: slices are an optimization only. For every set and request, the slice, the whole set,
// and the bare engine with the whole text and every entity answer alike; a policy that errs never
// allows (L6); and a denial reported as final can't be changed by approvals. Random sets and
// requests from a printed seed.
// @project processes

import type { PolicySet as CedarSet } from '@cedar-policy/cedar-wasm/web'
import { initSync, isAuthorized, preparsePolicySet, statefulIsAuthorized } from '@cedar-policy/cedar-wasm/web'
import { describe, expect, test } from 'vitest'
import type { CedarValueJson, EntityJson, PolicySet, Verdict } from '../../../edge/policy/engine.ts'
import { about, ask, compile, isFinalDenial, readable } from '../../../edge/policy/engine.ts'
import type { Subject } from '../../../edge/policy/slices.ts'
import { seeded } from '../../shared/random-json.ts'

type Context = Record<string, CedarValueJson>

const compiled = (files: Record<string, string>): PolicySet => {
  const set = compile(files)
  if (!set.ok) throw new Error(JSON.stringify(set.error))
  return set.value
}
const evaluate = (set: PolicySet, subject: Subject, context: Context): Verdict => {
  const matter = about(set, subject)
  return ask(matter, readable(matter, context))
}

/** The engine without our code, with nothing left out. */
const call = (subject: Subject, context: Context) => ({
  principal: subject.principal,
  action: { type: 'Action', id: subject.action },
  resource: subject.resource,
  context,
  entities: [...subject.entities],
})
type Answer = ReturnType<typeof isAuthorized>
function verdictOf(answer: Answer): Verdict {
  if (answer.type === 'failure')
    return { allowed: false, policies: [], errors: answer.errors.map(({ message }) => message) }
  const { decision, diagnostics } = answer.response
  const errors = diagnostics.errors.map(({ policyId, error }) => `${policyId}: ${error.message}`)
  return { allowed: decision === 'allow' && errors.length === 0, policies: diagnostics.reason, errors }
}
const sorted = ({ allowed, policies, errors }: Verdict): Verdict => ({
  allowed,
  policies: [...policies].sort(),
  errors: [...errors].sort(),
})

const GROUPS: Readonly<Record<string, string[]>> = { a: ['red', 'blue'], b: ['blue'], c: [] }
const agent = (id: string): EntityJson => ({
  uid: { type: 'Agent', id },
  attrs: { level: id === 'a' ? 3 : 1, favourite: { __entity: { type: 'Tool', id: 'pay' } } },
  parents: (GROUPS[id] ?? []).map((group) => ({ type: 'Group', id: group })),
})
const operator = (id: string): EntityJson => ({
  uid: { type: 'Operator', id },
  attrs: {},
  parents: [{ type: 'Role', id: 'admin' }],
})
const tool = (id: string): EntityJson => ({
  uid: { type: 'Tool', id },
  attrs: { sensitive: id === 'pay', version: 2 },
  parents: id === 'pay' ? [{ type: 'Kind', id: 'money' }] : [],
})
const execute = (id: string): EntityJson => ({
  uid: { type: 'Action', id: `tool.execute/${id}` },
  attrs: {},
  parents: [{ type: 'Action', id: 'tool.execute' }],
})
const calls = (who: string, name: string): Subject => ({
  principal: { type: 'Agent', id: who },
  action: `tool.execute/${name}`,
  resource: { type: 'Tool', id: name },
  entities: [agent(who), execute(name), tool(name)],
})
const acts = (who: string, action: string): Subject => ({
  principal: { type: 'Operator', id: who },
  action,
  resource: { type: 'Tenant', id: 'default' },
  entities: [operator(who)],
})
/** The principal is also the resource, as when operators change themselves. */
const actsOnSelf = (who: string, action: string): Subject => ({
  ...acts(who, action),
  resource: { type: 'Operator', id: who },
})
/** The principal is in the resource, and through it in the resource's parents. */
const actsOnRole = (who: string, action: string): Subject => ({
  ...acts(who, action),
  resource: { type: 'Role', id: 'admin' },
  entities: [
    operator(who),
    { uid: { type: 'Role', id: 'admin' }, attrs: {}, parents: [{ type: 'Role', id: 'staff' }] },
  ],
})

function random(seed: number) {
  const next = seeded(seed)
  const pick = <T>(of: readonly T[]): T => of[Math.floor(next() * of.length)] as T // never empty
  return { next, pick }
}
type Random = ReturnType<typeof random>

const TOOLS = ['pay', 'mail', 'read']
const PRINCIPALS = [
  'principal',
  'principal is Agent',
  'principal is Operator',
  'principal == Agent::"a"',
  'principal == Operator::"a"',
  'principal in Group::"red"',
  'principal is Agent in Group::"blue"',
  'principal in Agent::"b"',
  'principal in Role::"admin"',
  'principal in Role::"staff"',
]
const ACTIONS = [
  'action',
  'action == Action::"tool.execute/pay"',
  'action == Action::"tool.execute/mail"',
  'action == Action::"tool.execute"',
  'action in Action::"tool.execute"',
  'action in Action::"tool.execute/pay"',
  'action in [Action::"run.read", Action::"tool.execute/read"]',
  'action in [Action::"run.read", Action::"tool.execute"]',
  'action in []',
]
const RESOURCES = [
  'resource',
  'resource is Tool',
  'resource is Tenant',
  'resource == Tool::"pay"',
  'resource == Tool::"p\\u{61}y"',
  'resource == Tenant::"default"',
  'resource is Operator',
  'resource is Role',
  'resource in Tool::"mail"',
  'resource in Kind::"money"',
  'resource is Tool in Kind::"money"',
]
const ATOMS = [
  'context.args.amount > 100',
  'context.args has amount && context.args.amount <= 50',
  'context has args.deep.flag && context.args.deep.flag',
  'context.args.price.lessThan(decimal("9.9"))',
  'context.args.to like "*@ok.com"',
  'context.args.tags.contains("red")',
  'context.args.tags.isEmpty()',
  'context.args.amount * 9223372036854775807 > 1',
  'context.args == {amount: 5}',
  'context.plan.tier == "C"',
  'context.approval.granted',
  'context.approval.count >= 2',
  'context.absent',
  'context has absent',
  'resource.sensitive',
  'resource has sensitive && resource.version > 1',
  'resource in Kind::"money"',
  'Tool::"pay".sensitive',
  'Tool::"pay" has sensitive',
  'Tool::"pay" in Kind::"money"',
  'principal.level > 2',
  'principal has favourite && principal.favourite has sensitive',
  'principal has favourite && principal.favourite in Kind::"money"',
  'principal in Group::"red"',
  'principal in Role::"admin"',
  'principal in Role::"staff"',
  'principal == resource',
  'principal in [Group::"green", Group::"blue"]',
  'principal is Agent in Group::"red"',
  'action in Action::"tool.execute"',
  'action == Action::"tool.execute/pay"',
  '[Tool::"pay", Tool::"mail"].contains(resource)',
  'ip(context.args.to).isLoopback()',
  'true',
  'false',
]

function condition({ next, pick }: Random): string {
  const kind = next()
  if (kind < 0.5) return pick(ATOMS)
  const [one, other] = [pick(ATOMS), pick(ATOMS)]
  if (kind < 0.7) return `(${one}) && (${other})`
  if (kind < 0.9) return `(${one}) || (${other})`
  return `if ${one} then ${other} else !(${pick(ATOMS)})`
}
function policy(by: Random): string {
  const { next, pick } = by
  const clause = next() < 0.25 ? '' : ` ${pick(['when', 'when', 'unless'])} { ${condition(by)} }`
  return `${pick(['permit', 'permit', 'forbid'])} (${pick(PRINCIPALS)}, ${pick(ACTIONS)}, ${pick(RESOURCES)})${clause};`
}
function context({ next, pick }: Random): Context {
  const maybe = (name: string, values: readonly CedarValueJson[]): Context =>
    next() < 0.75 ? { [name]: pick(values) } : {}
  return {
    args: {
      ...maybe('amount', [5, 50, 101, 'many']),
      ...maybe('price', [
        { __extn: { fn: 'decimal', arg: '1.5' } },
        { __extn: { fn: 'decimal', arg: '10.0' } },
      ]),
      ...maybe('to', ['a@ok.com', '127.0.0.1', 'x']),
      ...maybe('tags', [[], ['red'], ['blue', 'red']]),
      ...maybe('deep', [{}, { flag: true }, { flag: false }]),
    },
    plan: { tier: pick(['B', 'C']) },
    approval: { granted: next() < 0.5, count: pick([0, 1, 2]) },
    unread: 'never named by a policy',
  }
}
const subject = ({ next, pick }: Random): Subject =>
  next() < 0.7
    ? calls(pick(['a', 'b', 'c']), pick(TOOLS))
    : pick([acts, actsOnSelf, actsOnRole])(
        pick(['a', 'z']),
        pick(['run.read', 'tool.execute', 'policy.write']),
      )

const SETS = 100
const QUESTIONS = 12

test('L6 slice, whole set and bare engine answer alike, and a policy that errs never allows', () => {
  const seed = Math.floor(Math.random() * 2 ** 31)
  console.log(`seed ${seed}`)
  const seen = { allowed: 0, denied: 0, stands: 0, erred: 0, smaller: 0 }
  for (let round = 0; round < SETS; round++) {
    const by = random(seed + round)
    const policies = Object.fromEntries(
      Array.from({ length: 1 + Math.floor(by.next() * 14) }, (_, i) => [`p${i}`, policy(by)]),
    )
    const ids = Object.fromEntries(Object.entries(policies).map(([id, text]) => [id, `@id("${id}") ${text}`]))
    const set = compiled(ids)
    const whole: CedarSet = { staticPolicies: policies }
    expect(preparsePolicySet('differential', whole)).toEqual({ type: 'success' })
    for (let i = 0; i < QUESTIONS; i++) {
      const [who, given] = [subject(by), context(by)]
      const sliced = evaluate(set, who, given)
      const say = JSON.stringify({ seed, round, policies, who, given }, null, 1)
      const bare = sorted(verdictOf(isAuthorized({ ...call(who, given), policies: whole })))
      const stateful = sorted(
        verdictOf(statefulIsAuthorized({ ...call(who, given), preparsedPolicySetId: 'differential' })),
      )
      expect(sorted(sliced), say).toEqual(bare)
      expect(stateful, say).toEqual(bare)
      expect(evaluate(set, who, given), say).toEqual(sliced) // from memory
      expect(sliced.allowed && sliced.errors.length > 0, say).toBe(false)
      const stands = !sliced.allowed && isFinalDenial(about(set, who), sliced)
      const yes = [0, 1, 2, 9].flatMap((count) =>
        [true, false].map((granted) => evaluate(set, who, { ...given, approval: { granted, count } })),
      )
      if (stands)
        expect(
          yes.filter(({ allowed }) => allowed),
          say,
        ).toEqual([])
      seen.stands += Number(stands)
      seen.allowed += Number(sliced.allowed)
      seen.denied += Number(!sliced.allowed)
      seen.erred += Number(sliced.errors.length > 0)
      seen.smaller += Number(Object.keys(about(set, who).slice.texts).length < Object.keys(policies).length)
    }
  }
  // Otherwise the test would have compared nothing.
  for (const count of Object.values(seen))
    expect(count, JSON.stringify(seen)).toBeGreaterThan((SETS * QUESTIONS) / 40)
})

describe('D12 the resource’s entity is kept if policies read it only elsewhere', () => {
  const REFUSED = { allowed: false, policies: ['it'], errors: [] }
  test('a forbid about the principal’s role applies if the resource is the principal too', () => {
    const set = compiled({
      a: '@id("it") forbid (principal in Role::"admin", action, resource);',
      b: '@id("all") permit (principal, action, resource);',
    })
    expect(evaluate(set, actsOnSelf('z', 'policy.write'), {})).toEqual(REFUSED)
  })
  test('a forbid about the resource’s parent applies if the principal is in the resource', () => {
    const set = compiled({
      a: '@id("it") forbid (principal in Role::"staff", action, resource);',
      b: '@id("all") permit (principal, action, resource);',
    })
    expect(evaluate(set, actsOnRole('z', 'policy.write'), {})).toEqual(REFUSED)
  })
})

test('when there are too many slices, further requests use the whole set and get the same answers', () => {
  const common = Array.from(
    { length: 100 },
    (_, i) => `@id("c${i}") forbid (principal, action, resource) when { context.args.amount == ${i} };`,
  )
  const people = Array.from({ length: 98 }, (_, i) => `p${i}`)
  const own = people.map(
    (who, i) =>
      `@id("${who}") forbid (principal == Agent::"${who}", action, resource) when { context.args.amount == ${1_000 + i} };`,
  )
  const texts = ['@id("all") permit (principal, action, resource);', ...common, ...own]
  const set = compiled(Object.fromEntries(texts.map((text, i) => [`f${i}`, text])))
  const whole: CedarSet = {
    staticPolicies: Object.fromEntries(texts.map((text) => [/"(.*?)"/.exec(text)?.[1] ?? '', text])),
  }
  expect(preparsePolicySet('all', whole)).toEqual({ type: 'success' })
  let [alone, within] = [0, 0]
  for (const [i, who] of people.entries()) {
    const { slice } = about(set, calls(who, 'read'))
    expect(Object.keys(slice.texts)).toEqual(['all', ...common.map((_, j) => `c${j}`), who])
    if (slice.within === null) alone += Object.keys(slice.texts).length
    else within++
    for (const amount of [5, 500, 1_000 + i, 1_001 + i]) {
      const subject = calls(who, 'read')
      const bare = verdictOf(
        statefulIsAuthorized({ ...call(subject, { args: { amount } }), preparsedPolicySetId: 'all' }),
      )
      expect(sorted(evaluate(set, subject, { args: { amount } }))).toEqual(sorted(bare))
    }
  }
  expect(within).toBeGreaterThan(20)
  expect(alone).toBeLessThanOrEqual(5_000)
})

describe('a scope', () => {
  const CASES: ReadonlyArray<readonly [scope: string, of: Subject, inSlice: boolean]> = [
    ['principal, action, resource', calls('a', 'pay'), true],
    ['principal is Agent, action, resource', calls('a', 'pay'), true],
    ['principal is Operator, action, resource', calls('a', 'pay'), false],
    ['principal is Agents, action, resource', calls('a', 'pay'), false],
    ['principal is Agent in Group::"elsewhere", action, resource', calls('a', 'pay'), true],
    ['principal == Agent::"a", action, resource', calls('a', 'pay'), true],
    ['principal == Agent::"b", action, resource', calls('a', 'pay'), false],
    ['principal == Operator::"a", action, resource', calls('a', 'pay'), false],
    ['principal in Group::"elsewhere", action, resource', calls('a', 'pay'), true],
    ['principal in Agent::"b", action, resource', calls('a', 'pay'), true],
    ['principal, action == Action::"tool.execute/pay", resource', calls('a', 'pay'), true],
    ['principal, action == Action::"tool.execute/mail", resource', calls('a', 'pay'), false],
    ['principal, action == Action::"tool.execute/pay2", resource', calls('a', 'pay'), false],
    ['principal, action == Action::"tool.execute", resource', calls('a', 'pay'), false],
    ['principal, action in Action::"tool.execute", resource', calls('a', 'pay'), true],
    ['principal, action in Action::"skill.execute", resource', calls('a', 'pay'), false],
    ['principal, action in [Action::"run.read", Action::"tool.execute"], resource', calls('a', 'pay'), true],
    [
      'principal, action in [Action::"run.read", Action::"tool.execute/pay"], resource',
      calls('a', 'pay'),
      true,
    ],
    [
      'principal, action in [Action::"run.read", Action::"tool.execute/mail"], resource',
      calls('a', 'pay'),
      false,
    ],
    ['principal, action in [], resource', calls('a', 'pay'), false],
    ['principal, action in Action::"tool.execute", resource', acts('z', 'run.read'), false],
    ['principal, action in [Action::"run.read"], resource', acts('z', 'run.read'), true],
    ['principal, action, resource is Tool', calls('a', 'pay'), true],
    ['principal, action, resource is Tenant', calls('a', 'pay'), false],
    ['principal, action, resource is Tool in Kind::"elsewhere"', calls('a', 'pay'), true],
    ['principal, action, resource == Tool::"pay"', calls('a', 'pay'), true],
    ['principal, action, resource == Tool::"p\\u{61}y"', calls('a', 'pay'), true],
    ['principal, action, resource == Tool::"mail"', calls('a', 'pay'), false],
    ['principal, action, resource == Tenant::"pay"', calls('a', 'pay'), false],
    ['principal, action, resource in Tool::"mail"', calls('a', 'pay'), true],
    ['principal, action, resource in Kind::"elsewhere"', calls('a', 'pay'), true],
  ]
  test.each(CASES)(
    'a slice contains a policy if and only if its scope can match: (%s)',
    (scope, who, inSlice) => {
      const set = compiled({
        a: `@id("it") forbid (${scope});`,
        b: '@id("all") permit (principal, action, resource);',
      })
      expect(Object.keys(about(set, who).slice.texts)).toEqual(inSlice ? ['it', 'all'] : ['all'])
      const whole = verdictOf(
        isAuthorized({
          ...call(who, {}),
          policies: {
            staticPolicies: { it: `forbid (${scope});`, all: 'permit (principal, action, resource);' },
          },
        }),
      )
      expect(sorted(evaluate(set, who, {}))).toEqual(sorted(whole))
    },
  )

  test('a scope with a slot makes a template, which is refused', () => {
    for (const scope of [
      'principal == ?principal, action, resource',
      'principal, action, resource in ?resource',
    ])
      expect(compile({ a: `permit (${scope});` })).toMatchObject({
        ok: false,
        error: { code: 'invalid_policy' },
      })
  })

  test('a scope with an action group that the action is not in affects neither the answer nor the slice', () => {
    const set = compiled({ a: '@id("it") permit (principal, action in Action::"tool.execute", resource);' })
    const bare: Subject = { ...calls('a', 'pay'), entities: [] }
    expect(evaluate(set, calls('a', 'pay'), {}).allowed).toBe(true)
    expect(evaluate(set, bare, {})).toEqual({ allowed: false, policies: [], errors: [] })
    expect(evaluate(set, calls('a', 'pay'), {}).allowed).toBe(true)
  })
})

describe('the engine’s memory', () => {
  const TOOLS_OF_IT = 12
  /** Policies about all tools make slices big; together they exceed what the engine may hold. */
  const heavy = (mark: string): Record<string, string> => ({
    shared: Array.from(
      { length: 300 },
      (_, i) => `@id("${mark} shared ${i}") forbid (principal, action, resource) when { context.n == -9 };`,
    ).join('\n'),
    own: Array.from(
      { length: TOOLS_OF_IT },
      (_, i) =>
        `@id("${mark} ${i}") permit (principal, action == Action::"tool.execute/${i}", resource) when { context.n > ${i} };`,
    ).join('\n'),
  })

  test('no policy set is answered from another set’s slice, however many alternate', () => {
    const sets = ['one', 'two', 'three'].map((mark) => ({ mark, set: compiled(heavy(mark)) }))
    for (let turn = 0; turn < 2; turn++) {
      for (let i = 0; i < TOOLS_OF_IT; i++) {
        for (const { mark, set } of sets) {
          const who = calls('c', `${i}`)
          expect(evaluate(set, who, { n: i + 1 + turn })).toEqual({
            allowed: true,
            policies: [`${mark} ${i}`],
            errors: [],
          })
          expect(evaluate(set, who, { n: i - turn })).toEqual({ allowed: false, policies: [], errors: [] })
        }
      }
    }
  })

  test('the engine’s memory does not grow with the number of policy sets seen', () => {
    const { memory } = initSync({ module: new Uint8Array() }) // returns the worker that is already running
    const seen = (mark: number): void => {
      const rules = Array.from(
        { length: 1_000 },
        (_, i) => `permit (principal, action, resource) when { context.n == ${mark * 1_000 + i} };`,
      )
      expect(
        evaluate(compiled({ rules: rules.join('\n') }), calls('c', 'x'), { n: mark * 1_000 }).allowed,
      ).toBe(true)
    }
    for (let mark = 0; mark < 6; mark++) seen(mark)
    const full = memory.buffer.byteLength
    for (let mark = 6; mark < 12; mark++) seen(mark)
    expect((memory.buffer.byteLength - full) / 2 ** 20).toBeLessThan(4)
  })

  test('compiling the same files again returns the same policy set', () => {
    const files = { a: 'permit (principal, action, resource);' }
    expect(compiled({ ...files })).toBe(compiled(files))
    expect(compiled({ ...files, b: 'forbid (principal, action, resource);' })).not.toBe(compiled(files))
  })
})
