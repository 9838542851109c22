// Promise: what is disabled or revoked does not begin any more, from the moment that it is answered for: not by a new call, not by one that
// was approved, granted or claimed, and not by an answer that stands.

import { describe, expect, test } from 'vitest'
import { verifyBundle } from '../../shared/statement.ts'
import type { Call } from '../../shared/wire.ts'
import { Desk, granted } from '../support/desk.ts'
import { component, type Parts, Publisher } from '../support/skill.ts'
import { sharedStack } from '../support/stack.ts'
import * as w from '../support/wasm.ts'

const desk = new Desk('revocation', sharedStack())
const maker = await desk.operator(['admin'])
const agent = await desk.agent({ budget: { max_denied_per_run: 1_000 } })
const acme = await Publisher.listed('revocation-acme', desk.root)

const SENSITIVE = [{ name: 'run', description: 'says it again', input_schema: { type: 'object' }, sensitive: true }]

type Made = { readonly id: string; readonly tool: string; readonly by: Publisher }
async function enabled(change: { tools?: typeof SENSITIVE; limits?: { fuel: number } } = {}, parts: Parts = {}, by = acme): Promise<Made> {
  const id = desk.name()
  granted(await maker.client('publishSkill', { body: by.pack(by.manifest(id, change), await component(parts)) }))
  granted(await desk.root('enableSkill', { params: { id, version: '1.0.0' }, body: {} }))
  return { id, tool: `${id}.run`, by }
}
const propose = async (tool: string, wait = 0, run = {}): Promise<Call> =>
  granted(await agent.client('proposeCallInNewRun', { body: { tool, args: {}, run }, ...(wait === 0 ? {} : { wait }) }))
const ended = async ({ run, id }: Call): Promise<Call> => granted(await agent.client('readCall', { params: { run, call: id }, wait: 30 }))
const approve = async (id: string) => granted(await desk.root('answerApproval', { params: { id }, body: { decision: 'approve' } }))

const WAITED = { timeout: 30_000 }

/** When it ended, by what the edge signed. */
async function endOf({ run, id }: Call): Promise<number | undefined> {
  const bundle = granted(await agent.client('readAttestation', { params: { run, call: id } }))
  return verifyBundle(bundle, granted(await agent.client('keys', {}))).statement?.predicate.execution.ended_at_ms
}

/** Enough that without what is promised one of them ends otherwise. */
const ROUNDS = 12

/** Every way in which a skill ends. */
const ENDS: readonly [string, (made: Made) => Promise<unknown>][] = [
  ['disabled', async ({ id }) => granted(await desk.root('disableSkill', { params: { id, version: '1.0.0' }, body: {} }))],
  ['revoked', async ({ id }) => granted(await desk.root('revokeSkill', { params: { id, version: '1.0.0' }, body: {} }))],
  [
    'signed by a key that is revoked',
    async ({ by: { name, signer } }) =>
      granted(await desk.root('revokePublisherKey', { params: { name, kid: signer.kid }, body: { reason: 'a test' } })),
  ],
]
const own = (): Promise<Publisher> => Publisher.listed(desk.name(), desk.root)

describe.each(ENDS)('a skill that is %s', (_, end) => {
  test('is so for the very next call, however many there are at the moment', async () => {
    const made = await enabled({}, {}, await own())
    const said: { begun: number; state: string }[] = []
    let done = false
    const caller = async () => {
      while (!done) {
        const begun = performance.now()
        said.push({ begun, state: (await propose(made.tool, 20)).state })
      }
    }
    const callers = Array.from({ length: 4 }, caller)
    await expect.poll(() => said.filter(({ state }) => state === 'succeeded').length, WAITED).toBeGreaterThan(5)
    await end(made)
    const over = performance.now()
    await expect.poll(() => said.filter(({ begun }) => begun > over).length, WAITED).toBeGreaterThan(5)
    done = true
    await Promise.all(callers)
    const after = said.filter(({ begun }) => begun > over)
    expect(after.filter(({ state }) => state !== 'denied')).toEqual([])
  })

  test('is so for a call that waits for an answer, whatever the answer is', async () => {
    const made = await enabled({ tools: SENSITIVE }, {}, await own())
    const asked = await desk.asked(agent.client, made.tool)
    await end(made)
    await approve(asked.approval.id)
    expect((await ended(asked)).state).toBe('denied')
  })

  test('is so for calls that an answer stands for', async () => {
    const made = await enabled({ tools: SENSITIVE }, {}, await own())
    const run = { session: desk.name() }
    const { approval } = await propose(made.tool, 0, run)
    const body = { decision: 'approve', scope: 'timeboxed', ttl_s: 3_600 } as const
    granted(await desk.root('answerApproval', { params: { id: approval?.id ?? '' }, body }))
    expect((await propose(made.tool, 20, run)).state).toBe('succeeded')
    await end(made)
    expect((await propose(made.tool, 20, run)).state).toBe('denied')
  })

  test('is so for a call whose isolate is only being made: it says so, and nothing of it ran', async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const by = await own()
      const made = await Promise.all(Array.from({ length: 6 }, () => enabled({}, {}, by)))
      const calls = await Promise.all(made.map(({ tool }) => propose(tool)))
      await new Promise((resolve) => setTimeout(resolve, 2 * round))
      await Promise.all(made.map(end).map((ending) => ending.catch(() => 'ended with another'))) // the publisher's key is one
      for (const { state, result } of await Promise.all(calls.map(ended)))
        if (state === 'failed') expect(result?.error?.code).toBe('skill_disabled')
    }
  })

  test('is so for calls that wait for their turn, claimed or not: none of them begins', async () => {
    const burner = await enabled({ limits: { fuel: 150_000_000 } }, { run: [...w.loop(w.br(0)), w.UNREACHABLE] })
    const made = await enabled({}, {}, await own())
    const burning = Array.from({ length: 20 }, () => propose(burner.tool))
    const waiting = await Promise.all(Array.from({ length: 8 }, () => propose(made.tool)))
    await end(made)
    const over = Date.now()
    const ends = await Promise.all(waiting.map(ended))
    for (const call of ends) {
      // one that had begun when it was disabled ends as it would have
      if (call.state === 'succeeded') expect(await endOf(call)).toBeLessThan(over + 1_000)
      else
        expect([call.state, call.result?.error?.code ?? '']).toEqual(
          call.state === 'failed' ? ['failed', 'skill_disabled'] : [expect.stringMatching(/^(?:denied|cancelled)$/), expect.anything()],
        )
    }
    expect(ends.filter(({ state }) => state !== 'succeeded')).not.toEqual([])
    await Promise.all((await Promise.all(burning)).map(ended))
  })
})

test('one that is enabled again, or gone back to, runs again at once', async () => {
  const made = await enabled()
  const { id, tool } = made
  granted(await desk.root('disableSkill', { params: { id, version: '1.0.0' }, body: {} }))
  expect((await propose(tool, 20)).state).toBe('denied')
  granted(await desk.root('enableSkill', { params: { id, version: '1.0.0' }, body: {} }))
  expect((await propose(tool, 20)).state).toBe('succeeded')
})

test('one that was disabled while its isolate was being made runs when it is enabled again', async () => {
  for (let round = 0; round < ROUNDS; round++) {
    const made = await Promise.all(Array.from({ length: 6 }, () => enabled()))
    const calls = await Promise.all(made.map(({ tool }) => propose(tool)))
    await new Promise((resolve) => setTimeout(resolve, 2 * round))
    for (const change of ['disableSkill', 'enableSkill'] as const)
      await Promise.all(made.map(async ({ id }) => granted(await desk.root(change, { params: { id, version: '1.0.0' }, body: {} }))))
    await Promise.all(calls.map(ended))
    for (const { tool } of made) expect((await propose(tool, 20)).state).toBe('succeeded')
  }
})
