// Promise: trials of many authors at once, and authors who disconnect, delay neither other authors
// nor calls of skills.

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Stack } from '../../../../infra/stack.ts'
import { Fixtures, unwrap } from '../../../support/fixtures.ts'
import { component, type Parts, Publisher, text } from '../../../support/skills/skill.ts'
import * as w from '../../../support/skills/wasm.ts'
import { restartWithLimits, writeLimits } from '../../../support/stack/other-limits.ts'
import { startTestStack } from '../../../support/stack/stack.ts'

let stack: Stack
let fixtures: Fixtures
let acme: Publisher
let author: Awaited<ReturnType<Fixtures['operator']>>
let called: () => Promise<string>

beforeAll(async () => {
  stack = await startTestStack({ worker: 'idle' })
  fixtures = new Fixtures('at-once', stack.dev)
  acme = await Publisher.listed('acme', fixtures.root)
  author = await fixtures.operator(['admin'])
  unwrap(await author.client('publishSkill', { body: acme.pack(acme.manifest('good'), await component()) }))
  unwrap(await fixtures.root('enableSkill', { params: { id: 'good', version: '1.0.0' }, body: {} }))
  const agent = await fixtures.agent()
  called = async () =>
    unwrap(await agent.client('proposeCallInNewRun', { body: { tool: 'good_run', args: {} }, wait: 20 }))
      .state
})
afterAll(async () => {
  await stack.stop()
})

const trial = async (
  id: string,
  parts: Parts,
  signal = AbortSignal.timeout(30_000),
): Promise<number | string> => {
  const manifest = acme.manifest(id, { limits: { fuel: 10_000_000_000, timeout_ms: 10_000 } })
  const trials = Array.from({ length: 4 }, () => ({ tool: 'run', input: {} }))
  const body = JSON.stringify({
    manifest,
    component: Buffer.from(await component(parts)).toString('base64'),
    trials,
  })
  const headers = { authorization: `Bearer ${author.key}`, 'content-type': 'application/json' }
  return fetch(`${fixtures.url}/v1/skills/trials`, { method: 'POST', headers, body, signal }).then(
    async (answer) => {
      await answer.text()
      return answer.status
    },
    ({ name }: Error) => name,
  )
}

test('four authors who try skills repeatedly at once are all answered, as are calls of skills', async () => {
  for (let round = 0; round < 5; round++) {
    expect(await Promise.all(['a', 'b', 'c', 'd'].map((id) => trial(id, {})))).toEqual([200, 200, 200, 200])
    expect(await called()).toBe('succeeded')
  }
}, 60_000)

test('endless trials whose authors disconnect delay no other trials and no calls of skills', async () => {
  const endless = { run: [...w.loop(w.br(0)), w.UNREACHABLE] }
  const disconnected = await Promise.all(
    ['a', 'b', 'c', 'd'].map((id, n) => trial(id, endless, AbortSignal.timeout(300 + 200 * n))),
  )
  expect(disconnected).toEqual(['TimeoutError', 'TimeoutError', 'TimeoutError', 'TimeoutError'])
  for (let i = 0; i < 5; i++) expect(await called()).toBe('succeeded')
  expect(await trial('e', {})).toBe(200)
}, 120_000)

describe('at an edge with lower limits', () => {
  beforeAll(async () => {
    writeLimits(stack, { skill_code_bytes: 200_000 }, 'bundle/transpiler')
    await restartWithLimits(stack, { trials_ms: 500 })
  })

  const refused = async (parts: Parts) => {
    const manifest = acme.manifest('f', { limits: { fuel: 10_000_000_000, timeout_ms: 10_000 } })
    const bytes = Buffer.from(await component(parts)).toString('base64')
    const trials = [{ tool: 'run', input: {} }] as never // the edge fills in defaults
    const tried = await author.client('trySkill', { body: { manifest, component: bytes, trials } })
    return tried.ok ? 'no refusal' : `${tried.error.code}: ${tried.error.detail}`
  }

  test('trials that have not ended after `trials_ms` have no result, and their slot is free for the next', async () => {
    expect(await refused({ run: [...w.loop(w.br(0)), w.UNREACHABLE] })).toBe(
      'unavailable: trial 1 had not ended after 500 ms; send fewer trials at once, or try again',
    )
    expect(await refused({})).toBe('no refusal')
  })

  test('W06 a skill whose generated code has more than `skill_code_bytes` is refused, with both numbers', async () => {
    expect(await refused(text('x'.repeat(100_000)))).toBe('no refusal')
    expect(await refused(text('x'.repeat(200_000)))).toMatch(
      /^invalid_skill: .*its generated code has 2\d{5} bytes; the limit is 200000$/,
    )
  })
})
