// The cost of an explanation is bounded for hostile arguments and policies. Each of these once
// blocked the edge for one to seventy seconds. Measured in CPU time, so that other load on the
// machine does not count.

import { describe, expect, test } from 'vitest'
import { both, either, search, type Ways } from '../../../edge/decision/explain/alternatives.ts'
import type { Flip } from '../../../edge/decision/explain/facts.ts'
import { explain } from '../../../edge/decision/explain.ts'
import {
  denialOf,
  type ExplanationRequest,
  explained,
  groundsOf,
  OPERATOR,
  PERMIT,
} from '../../support/explained.ts'

const many = <T>(n: number, of: (i: number) => T): T[] => Array.from({ length: n }, (_, i) => of(i))
const texts = (n: number, prefix = 'c'): string[] => many(n, (i) => `${prefix}${i}`)
const forbid = (condition: string, kind = 'when'): string =>
  `forbid (principal, action, resource) ${kind} { ${condition} };\n`
const forbids = (n: number, condition: (i: number) => string, kind?: string): string =>
  PERMIT + many(n, (i) => forbid(condition(i), kind)).join('')
const list = (items: readonly string[]): string => JSON.stringify(items)

const CASES: Readonly<Record<string, ExplanationRequest>> = {
  'two long lists that differ in one item': {
    text: forbids(1, () => 'context.args.to.containsAll(context.args.cc)', 'unless'),
    args: { to: [...texts(15_000), 'x'], cc: [...texts(15_000), 'y'] },
  },
  'a long list in a policy and a long argument': {
    text: forbids(1, () => `${list(texts(5_000))}.containsAll(context.args.tags)`, 'unless'),
    args: { tags: texts(24_000, 'z') },
  },
  'long lists, in many rules': {
    text: forbids(30, () => 'context.args.to.containsAny(context.args.cc)'),
    args: { to: texts(15_000), cc: texts(15_000) },
  },
  'a long text compared with a list': {
    text: forbids(1, () => `${list(texts(5_000))}.contains(context.args.to)`, 'unless'),
    args: { to: 'x'.repeat(500_000) },
  },
  'long texts as possible values': {
    text: forbids(100, (i) => `context.args.to != context.args.cc && context.args.n != ${i}`),
    args: { n: 1_000, to: 'x'.repeat(250_000), cc: 'y'.repeat(250_000) },
  },
  'lists of long texts': {
    text: forbids(100, () => many(20, () => 'context.args.a != context.args.b').join(' || ')),
    args: { a: many(20, () => 'x'.repeat(10_000)), b: [...many(19, () => 'x'.repeat(10_000)), 'y'] },
  },
  'a rule for each item of a list': {
    text: forbids(1_000, (i) => `context.args.tags.contains("c${i}")`),
    args: { tags: texts(2_500) },
  },
  'rules with many conditions': {
    text: forbids(10, (k) => many(250, (i) => `context.args.tags.contains("c${k * 250 + i}")`).join(' || ')),
    args: { tags: texts(2_500) },
  },
  'many permits over a long list': {
    text: many(
      1_000,
      (i) => `permit (principal, action, resource) when { context.args.tags.contains("k${i}") };`,
    ).join('\n'),
    args: { tags: texts(20_000) },
  },
  'many groups': {
    text: forbids(
      100,
      (k) => `principal in [${texts(30, `k${k}x`).map((id) => `Group::"${id}"`)}]`,
      'unless',
    ),
    groups: texts(32, 'mine'),
  },
}

const MOST_MS = 500

test.each(Object.entries(CASES))(
  'the search for changes stays within its budget (`explanation_steps`, `explanation_tries`): %s',
  (_name, asked) => {
    const grounds = groundsOf(asked)
    expect(grounds.verdict).toMatchObject({ allowed: false, errors: [] })
    const decision = denialOf(grounds)
    const before = process.cpuUsage()
    explain(decision, grounds, { args: asked.args ?? {}, fits: () => true }, OPERATOR)
    const { user, system } = process.cpuUsage(before)
    expect((user + system) / 1_000).toBeLessThan(MOST_MS)
  },
)

describe('long but simple conditions are explained', () => {
  const words = (asked: ExplanationRequest): string[] =>
    explained(asked).changes.map((together) => together.map((change) => change.words).join(' & '))
  test('an explanation offers an address that is not on a long list', () => {
    const text = forbids(1, () => `${list(texts(5_000))}.containsAll(context.args.to)`, 'unless')
    expect(words({ text, args: { to: ['c7', 'z', 'c4999'] } })).toEqual(['args.to without `z`'])
  })
  test('an explanation offers one item of a long argument', () => {
    expect(
      words({ text: forbids(1, () => 'context.args.to.contains("c7")'), args: { to: texts(20_000) } }),
    ).toEqual(['args.to without `c7`'])
  })
  test('a text longer than `explanation_read_chars` is shown by its length', () => {
    const asked = {
      text: forbids(1, () => 'context.args.to != context.args.cc'),
      args: { to: 'a', cc: `password=${'x'.repeat(9_991)}` },
    }
    expect(words(asked)).toEqual(['args.to = `«10000 characters»`', 'args.cc = `a`'])
    expect(JSON.stringify(explained(asked))).not.toContain('password')
  })
  test('the first 120 characters of a value are shown (`explanation_chars`)', () => {
    const is = (length: number) =>
      explained({ text: forbids(1, () => 'context.args.to != "b"'), args: { to: 'a'.repeat(length) } })
        .changes[0]?.[0]?.is
    expect([is(120), is(121)]).toEqual(['a'.repeat(120), `${'a'.repeat(120)}…`])
  })
  test('at most three items of a list are offered, alone or together (`explanation_members`)', () => {
    const any = forbids(1, () => `${list(texts(5))}.containsAny(context.args.to)`, 'unless')
    expect(words({ text: any, args: { to: [] } }).length).toBeLessThanOrEqual(3)
    const without = (count: number) =>
      words({
        text: forbids(1, () => 'context.args.to.containsAny(context.args.cc)'),
        args: { to: texts(count), cc: texts(count) },
      })
    expect([without(3).length > 0, without(4)]).toEqual([true, []])
  })
  test('an explanation shows the beginning of a long list, redacted like the whole list', () => {
    const asked = {
      text: forbids(1, () => 'context.args.to.contains("c0")'),
      args: { to: ['c0', '--password', 'hunter2', ...texts(20, 'd')] },
    }
    const is = explained(asked).changes[0]?.[0]?.is
    expect(is).toEqual(['c0', '--password', '«redacted»', ...texts(9, 'd')])
  })
})

test('the requests of all tried alternatives have at most 1 MiB (`explanation_tried_chars`), so fewer long ones are tried', () => {
  // The values 0 to 3 meet another rule, so the fifth alternative is the first that helps.
  const isOneOf = (count: number): string => many(count, (i) => `context.args.n == ${i}`).join(' || ')
  const text =
    forbids(1, () => isOneOf(5), 'unless') + forbid(`(${isOneOf(4)}) && context.args.pad != "short"`)
  const changes = (chars: number): number =>
    explained({ text, args: { n: 9, pad: 'x'.repeat(chars) } }).changes.length
  expect([changes(100), changes(200_000), changes(300_000)]).toEqual([1, 1, 0])
})

test('a search keeps 16 alternatives at each step (`explanation_width`)', () => {
  const ways = (count: number, from: number): Ways =>
    many(count, (i) => [{ fact: ['args', `a${from + i}`], op: '==', value: 1, sample: 1 }])
  expect([either(ways(8, 0), ways(8, 8)).length, either(ways(10, 0), ways(10, 10)).length]).toEqual([16, 16])
})

test('an alternative asks for at most nine changes of its facts (`explanation_flips`)', () => {
  const has = (value: string): Flip => ({ fact: ['args', 'to'], op: 'has', value, sample: value })
  const context = { args: { to: [] } }
  const question = { ...groundsOf({ text: PERMIT }).matter.subject, context }
  const together = (count: number) => both(search(question), [texts(count - 1).map(has)], [[has('x')]]).length
  expect([together(9), together(10)]).toEqual([1, 0])
})
