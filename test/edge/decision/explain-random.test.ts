// Random policies and calls: the engine allows each offered change, and if one fact is enough, a
// change of one fact is offered.

import { expect, test } from 'vitest'
import type { CedarValueJson } from '../../../edge/policy/engine.ts'
import { LIMITS } from '../../../shared/limits.ts'
import type { Change } from '../../../shared/wire/explanation.ts'
import { seeded } from '../../shared/random-json.ts'
import type { ExplanationRequest } from '../../support/explained.ts'
import { explained, groundsOf, NOBODY, PERMIT } from '../../support/explained.ts'

/** Values that fulfil a change, chosen independently of the edge's own samples. */
function standing(
  { needs: { op, value } }: Change,
  before: CedarValueJson | undefined,
): (CedarValueJson | undefined)[] {
  const list = Array.isArray(before) ? before : []
  if (op === 'absent') return [undefined]
  if (op === 'present') return ['x', 1]
  if (op === '!=') return [typeof value === 'number' ? value + 1 : `${String(value)}~`]
  if (op === 'like') return [String(value).replaceAll('*', '')]
  if (op === 'not like') return ['']
  if (op === 'has') return [[...list, value as string]] // the lists of this test contain texts
  if (op === 'lacks') return [list.filter((item) => item !== value)]
  if (op === 'not empty') return [['x']]
  return op === 'empty' ? [[]] : [value as CedarValueJson]
}

/** Whether the changed call is allowed; tries every value that the change leaves open. */
function allowedWith(asked: ExplanationRequest, changes: readonly Change[]): boolean {
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

const factsIn = (changes: readonly Change[]): number => new Set(changes.map(({ fact }) => fact)).size

/**
 * Every call that differs in one fact: arguments over their range, one group more or fewer,
 * approvals.
 */
function* neighbours({
  args = {},
  groups = [],
  ...asked
}: ExplanationRequest): Generator<ExplanationRequest> {
  const values: Record<string, (CedarValueJson | undefined)[]> = {
    n: Array.from({ length: 42 }, (_, i) => i - 1),
    m: Array.from({ length: 42 }, (_, i) => i - 1),
    s: ['', 'a', 'b', 'c', 'ab', 'z'],
    t: [[], ['a'], ['b'], ['c'], ['a', 'b'], ['a', 'c'], ['b', 'c'], ['a', 'b', 'c']],
    f: [true, false],
    o: [undefined, 0, 1, 2, 3, 'x'],
  }
  for (const [name, some] of Object.entries(values))
    for (const value of some) {
      const { [name]: _, ...others } = args
      yield { ...asked, groups, args: value === undefined ? others : { ...others, [name]: value } }
    }
  for (const group of ['g', 'h'])
    yield {
      ...asked,
      args,
      groups: groups.includes(group) ? groups.filter((one) => one !== group) : [...groups, group],
    }
  for (const count of [1, 2, 3])
    yield {
      ...asked,
      args,
      groups,
      context: { allow_sensitive_tools: true, approval: { ...NOBODY, granted: true, count } },
    }
}

test('the engine allows each proposed alternative, and a single-fact alternative is offered if there is one', () => {
  const next = seeded(20_261_118)
  const random = (n: number): number => Math.floor(next() * n)
  const pick = <T>(items: readonly T[]): T => items[random(items.length)] as T // never empty
  const atom = (): string =>
    pick([
      () => `context.args.n ${pick(['<', '<=', '>', '>=', '==', '!='])} ${random(20)}`,
      () => `context.args.m ${pick(['<', '>'])} context.args.n`,
      () => `context.args.n + context.args.m > ${random(30)}`,
      () => `context.args.s ${pick(['==', '!='])} "${pick(['a', 'b', 'c'])}"`,
      () => `["a", "b"].contains(context.args.s)`,
      () => `context.args.s like "${pick(['a*', '*b', '*', 'a*b', '*ab', 'ab*'])}"`,
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
  const policy = (effect: string): string =>
    `${effect} (principal, action, resource) when { ${condition(1 + random(2))} };`

  const seen = { denied: 0, offered: 0, alternatives: 0, together: 0, lone: 0, missed: 0 }
  for (let round = 0; round < 600; round++) {
    const forbids = Array.from({ length: 1 + random(3) }, () => policy('forbid'))
    const permits = random(2) === 0 ? [PERMIT] : [policy('permit'), policy('permit')]
    const asked: ExplanationRequest = {
      text: [...forbids, ...permits].join('\n'),
      args: {
        n: random(20),
        m: random(20),
        s: pick(['a', 'b', 'z', 'aab']),
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
    if (factsIn(changes[0] ?? []) !== 1 && round % 3 === 0) {
      seen.lone++
      seen.missed += [...neighbours(asked)].some((call) => groundsOf(call).verdict.allowed) ? 1 : 0
    }
    for (const together of changes) {
      seen.alternatives++
      seen.together += together.length > 1 ? 1 : 0
      expect(factsIn(together)).toBeLessThanOrEqual(LIMITS.explanation_facts)
      expect(allowedWith(asked, together), `${JSON.stringify(asked)} with ${JSON.stringify(together)}`).toBe(
        true,
      )
    }
  }
  // Checks that the random walk covered enough of each kind.
  expect(seen.denied).toBeGreaterThan(200)
  expect(seen.offered / seen.denied).toBeGreaterThan(0.5)
  expect(seen.together).toBeGreaterThan(40)
  // The sample for an open value may be one that another rule refuses, so a few changes are missed.
  expect(seen.lone).toBeGreaterThan(40)
  expect(seen.missed / seen.lone).toBeLessThan(0.05)
})
