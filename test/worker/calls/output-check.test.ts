// A tool's promise about its output is enforced: one fitting JSON value on standard output, or the
// call fails with the reason.

import { expect, test } from 'vitest'
import type { Outcome, ProcessPlan as Plan } from '../../../shared/plan/plan.ts'
import { checkOutput } from '../../../worker/calls/check-output.ts'
import { planOf } from '../../escape/arena/arena.ts'
import { loneWorkerForTests } from '../../support/worker/lone-worker.ts'

const SCHEMA = {
  type: 'object',
  properties: { lines: { type: 'integer', minimum: 0 }, name: { type: 'string', maxLength: 8 } },
  required: ['lines'],
  additionalProperties: false,
}
const free = planOf(['true'])
const plan: Plan = { ...free, executor: { ...free.executor, output: SCHEMA } }
const WELL: Outcome = { kind: 'exit', code: 0 }

const check = (text: string | Uint8Array, truncated = false): Outcome => {
  const stdout = Buffer.from(text)
  return checkOutput(WELL, plan, { bytes: stdout.length, sha256: '', kept: stdout.length, truncated }, stdout)
}
const faultOf = (text: string | Uint8Array, truncated = false): string => {
  const outcome = check(text, truncated)
  if (outcome.kind !== 'invalid_output') throw new Error(`it was taken: ${outcome.kind}`)
  expect(outcome.detail.length).toBeLessThanOrEqual(500)
  return outcome.detail
}

test('one JSON value that fits the schema is a valid result, even with whitespace around it', () => {
  expect(check('{"lines":3}')).toBe(WELL)
  expect(check(' {"lines": 0, "name": "a"}\n')).toBe(WELL)
})

test('an output that does not fit the schema is reported with the place of the fault', () => {
  expect(faultOf('{"lines":-1}')).toContain('`/lines`')
  expect(faultOf('{"lines":1,"more":true}')).toContain('more')
  expect(faultOf('{"name":"x"}')).toContain('lines')
  expect(faultOf('[]')).toContain('object')
  expect(faultOf(`{${'"lines":1,'.repeat(1)}"name":"${'x'.repeat(5_000)}"}`)).toContain('`/name`')
})

test.each([
  ['empty output', '', /not_json|json_/],
  ['text besides the value', 'done\n{"lines":1}', /`not_json`/],
  ['two JSON values', '{"lines":1}{"lines":2}', /`not_json`/],
  ['G03 a duplicate member', '{"lines":1,"lines":2}', /`json_duplicate_key`/],
  ['G01 a member __proto__', '{"lines":1,"__proto__":{}}', /`json_forbidden_key`/],
  ['G02 too deep nesting', `{"lines":${'['.repeat(80)}${']'.repeat(80)}}`, /`json_too_deep`/],
  ['G04 an integer that would be rounded', '{"lines":9007199254740993}', /`json_unsafe_number`/],
  ['G05 bytes that are not UTF-8', Buffer.from([0x7b, 0xff, 0x7d]), /`json_bad_text`/],
])('G01 G02 G03 G04 G05: %s is not a valid result of a tool', (_name, text, code) => {
  expect(faultOf(text)).toMatch(code)
})

test('G06 an output that is too expensive to compare with its schema is not a valid result', () => {
  const output = {
    properties: { a: { contains: { enum: Array.from({ length: 7_000 }, (_, index) => `a${index}`) } } },
  }
  const stdout = Buffer.from(JSON.stringify({ a: Array.from({ length: 30_000 }, () => 0) }))
  const summary = { bytes: stdout.length, sha256: '', kept: stdout.length, truncated: false }
  expect(checkOutput(WELL, { ...free, executor: { ...free.executor, output } }, summary, stdout)).toEqual({
    kind: 'invalid_output',
    detail: expect.stringContaining('is too large to be checked'),
  })
})

test('a truncated output is not a valid result, even if the rest is JSON', () => {
  expect(faultOf('{"lines":1}', true)).toContain('`output_bytes`')
})

test('a failed program keeps its own failure, and a tool without an output schema may write anything', () => {
  const summary = { bytes: 0, sha256: '', kept: 0, truncated: false }
  const failed: readonly Outcome[] = [
    { kind: 'exit', code: 1 },
    { kind: 'timeout' },
    { kind: 'output_cap' },
    { kind: 'cancelled' },
  ]
  for (const outcome of failed) expect(checkOutput(outcome, plan, summary, Buffer.from('no'))).toBe(outcome)
  expect(checkOutput(WELL, free, summary, Buffer.from('no'))).toBe(WELL)
})

const lone = await loneWorkerForTests()

test('a call whose output does not fit the schema fails, with the reason in its statement, and its output is kept', async () => {
  const run = async (text: string) => {
    const call = lone.edge.propose({ argv: ['printf', '%s', text] })
    Object.assign(call.plan.executor, { output: SCHEMA })
    await lone.ringFor(call)
    const { statement, stdout } = await lone.settled(call, 30_000)
    expect(stdout.toString()).toBe(text)
    return statement.predicate
  }
  expect(await run('{"lines":1}')).toMatchObject({
    state: 'succeeded',
    error: null,
    execution: { outcome: WELL },
  })
  expect(await run('{"lines":"one"}')).toMatchObject({
    state: 'failed',
    error: 'invalid_output',
    execution: { outcome: { kind: 'invalid_output', detail: expect.stringContaining('`/lines`') } },
  })
})
