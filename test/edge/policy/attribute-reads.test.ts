// Promise: the engine receives every attribute that a policy can read, in whatever way, and no
// other.

import { describe, expect, test } from 'vitest'
import {
  type Reads,
  readPart,
  readsApproval,
  readsOf,
  together,
} from '../../../edge/policy/attribute-reads.ts'

type Policy = Parameters<typeof readsOf>[0]
type Expr = Policy['conditions'][number]['body']

const context: Expr = { Var: 'context' }
const of = (left: Expr, attr: string): Expr => ({ '.': { left, attr } })
const one: Expr = { Value: 1 }
const readsWhen = (body: Expr): Reads =>
  readsOf({
    effect: 'permit',
    principal: { op: 'All' },
    action: { op: 'All' },
    resource: { op: 'All' },
    conditions: [{ kind: 'when', body }],
  } as Policy)

const GIVEN = {
  tool: 'rm',
  n: 3,
  args: { command: 'rm', deep: { a: 1, b: 2 }, list: [{ x: 1 }] },
  price: { __extn: { fn: 'decimal', arg: '1.5' } },
}
const handedOver = (body: Expr): unknown => readPart(readsWhen(body).context, GIVEN)

describe('attributes passed to the engine', () => {
  const CASES: ReadonlyArray<readonly [string, Expr, unknown]> = [
    ['an attribute', { '==': { left: of(context, 'n'), right: one } }, { n: 3 }],
    [
      'an attribute of an attribute',
      { '==': { left: of(of(context, 'args'), 'command'), right: one } },
      { args: { command: 'rm' } },
    ],
    [
      'a record that is compared whole',
      { '==': { left: of(context, 'args'), right: one } },
      { args: GIVEN.args },
    ],
    [
      'a test for an attribute',
      { has: { left: of(context, 'args'), attr: 'command' } },
      { args: { command: 'rm' } },
    ],
    [
      'a test for a path',
      { has: { left: context, attr: ['args', 'deep', 'b'] } },
      { args: { deep: { b: 2 } } },
    ],
    ['a test for an absent attribute', { has: { left: of(context, 'args'), attr: 'absent' } }, { args: {} }],
    ['an attribute of a number', of(of(context, 'n'), 'inner'), { n: 3 }],
    ['an attribute of a list', of(of(of(context, 'args'), 'list'), 'x'), { args: { list: [{ x: 1 }] } }],
    ['an attribute of a decimal', of(of(context, 'price'), 'fn'), { price: GIVEN.price }],
    ['a name that every object has', of(context, 'constructor'), {}],
    ['the context as a whole', { '==': { left: context, right: one } }, GIVEN],
    ['the context inside a record', { '==': { left: { Record: { left: context } }, right: one } }, GIVEN],
    ['nothing', { Value: true }, {}],
  ]
  test.each(CASES)('the engine receives what a policy reads: %s', (_, body, expected) =>
    expect(handedOver(body)).toEqual(expected),
  )

  test('both records that a condition chooses between count as read whole', () => {
    const chosen: Expr = {
      // biome-ignore lint/suspicious/noThenProperty: Cedar's own name, in a tree that is never awaited
      'if-then-else': { if: of(context, 'n'), then: of(context, 'args'), else: of(context, 'tool') },
    }
    expect(handedOver(of(chosen, 'command'))).toEqual({ n: 3, args: GIVEN.args, tool: 'rm' })
  })

  test('the reads of several policies are united, and the whole record is read if one of them reads it', () => {
    const command = readsWhen(of(of(context, 'args'), 'command'))
    const deep = readsWhen(of(of(of(context, 'args'), 'deep'), 'a'))
    const whole = readsWhen({
      contains: { left: of(of(context, 'args'), 'list'), right: of(of(context, 'args'), 'deep') },
    })
    expect(readPart(together([command, deep]).context, GIVEN)).toEqual({
      args: { command: 'rm', deep: { a: 1 } },
    })
    expect(readPart(together([command, deep, whole]).context, GIVEN)).toEqual({ args: GIVEN.args })
  })
})

test('a policy that reads the whole context also reads approvals', () => {
  expect(readsApproval(readsWhen(of(of(context, 'approval'), 'count')))).toBe(true)
  expect(readsApproval(readsWhen(of(context, 'allow_sensitive_tools')))).toBe(true)
  expect(readsApproval(readsWhen({ '==': { left: context, right: one } }))).toBe(true)
  expect(readsApproval(readsWhen(of(of(context, 'args'), 'approval')))).toBe(false)
})

describe('the resource entity', () => {
  const principal: Expr = { Var: 'principal' }
  const role: Expr = { Value: { __entity: { type: 'Role', id: 'admin' } } }
  const tool: Expr = { Value: { __entity: { type: 'Tool', id: 'x' } } }
  const CASES: ReadonlyArray<readonly [string, Expr, boolean]> = [
    ['it is compared', { '==': { left: { Var: 'resource' }, right: tool } }, true],
    ['its attribute is read', { '.': { left: { Var: 'resource' }, attr: 'sensitive' } }, true],
    ['it is named, and an attribute of it read', { '.': { left: tool, attr: 'sensitive' } }, true],
    ['it is named, and tested for an attribute', { has: { left: tool, attr: 'sensitive' } }, true],
    ['it is named on the left of `in`', { in: { left: tool, right: role } }, true],
    ['it is one of a set', { contains: { left: { Set: [tool] }, right: principal } }, true],
    [
      'it may be an attribute of the principal',
      { in: { left: { '.': { left: principal, attr: 'favourite' } }, right: role } },
      true,
    ],
    ['the principal is in a role', { in: { left: principal, right: role } }, false],
    [
      'the principal is in one of some roles',
      { in: { left: principal, right: { Set: [role, role] } } },
      false,
    ],
    [
      'the principal is of a type, in a role',
      { is: { left: principal, entity_type: 'Agent', in: role } },
      false,
    ],
    ['the context is read', of(of(context, 'args'), 'amount'), false],
  ]
  test.each(CASES)('the resource’s entity is passed only if a policy may read it: %s', (_, body, expected) =>
    expect(readsWhen(body).resource).toBe(expected),
  )
})
