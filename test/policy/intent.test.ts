// Promise: what can't be meant by those who ask humans, and what can't say why, is told before it is in force. Pure: the engine, no stack.

import { expect, test } from 'vitest'
import { DEFAULTS, underFloor } from '../../edge/policies.ts'
import { compile } from '../../edge/policy.ts'
import { probablyUnmeant } from '../../edge/policy-intent.ts'

const operator = (name: string, ...roles: string[]) => {
  const parents = roles.map((id) => ({ type: 'Role', id }))
  return { entities: [{ uid: { type: 'Operator', id: name }, attrs: {}, parents }] }
}
const PEOPLE = [operator('ann', 'approver', 'finance'), operator('ben', 'approver', 'finance'), operator('zoe', 'security')]

function found(texts: Readonly<Record<string, string>>) {
  const whole = underFloor(texts)
  const set = whole.ok ? compile(whole.value) : whole
  if (!set.ok) throw new Error(set.error.detail)
  return probablyUnmeant(set.value, PEOPLE)
}
const unless = (condition: string) => `@id("a")\n@reason("b")\nforbid (principal, action, resource)\nunless { ${condition} };`

test.each([
  'context.approval.quorum.contains("2 of finance")',
  'context.approval.independent.quorum.containsAny(["1 of finance", "1 of security"])',
  'context.approval.roles.contains("finance")',
  'context.args has list && context.args.list.contains("2 of nobody")',
])('what people can meet is not told: %s', (condition) => {
  expect(found({ mine: unless(condition) })).toEqual([])
})

test.each([
  ['quorum.contains("two of finance")', 'no approval ever bears `two of finance`', 'did you mean `2 of finance`?'],
  ['quorum.contains("2 finance")', 'no approval ever bears `2 finance`', 'did you mean `2 of finance`?'],
  ['quorum.contains("3 Of Finance")', 'no approval ever bears `3 Of Finance`', 'did you mean `3 of finance`?'],
  ['quorum.contains("many")', 'no approval ever bears `many`', 'such as "2 of finance"'],
  ['quorum.contains("2 of finence")', 'no operator has the role `finence`', 'operators put'],
  ['quorum.contains("2 of security")', 'only one operator has the role `security`', 'operators put'],
  ['independent.quorum.containsAll(["3 of finance"])', 'only 2 operators have the role `finance`', 'operators put'],
  ['roles.contains("legal")', 'no operator has the role `legal`', 'operators put'],
])('what nobody can meet is told by its place: %s', (asked, message, hint) => {
  const condition = `context.approval.${asked}`
  expect(found({ mine: unless(condition) })).toEqual([
    {
      at: `mine:4:${'unless { '.length + condition.indexOf('"') + 1}`,
      message: expect.stringContaining(message),
      hint: expect.stringContaining(hint),
    },
  ])
})

test('a policy that says neither its name nor why is told; those that ship with the edge say both', () => {
  expect(found(DEFAULTS)).toEqual([])
  expect(found({ mine: '\nforbid (principal, action, resource);\n@id("x") permit (principal, action, resource);' })).toEqual([
    { at: 'mine:2:1', message: 'no `@id` and no `@reason`: decisions call this `mine/1`, and say nothing of why' },
    { at: 'mine:3:1', message: 'no `@reason`: decisions call this `x`, and say nothing of why' },
  ])
})
