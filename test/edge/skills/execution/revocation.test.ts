// Promise: what is disabled or revoked does not begin any more, from the moment that it is answered for: not by a new call, not by one that
// was approved, granted or claimed, and not by an answer that stands.

import { describe, expect, test } from 'vitest'
import { verifyBundle } from '../../../../shared/evidence/bundle.ts'
import { MAX_SKILL_LIMITS } from '../../../../shared/limits.ts'
import type { Call } from '../../../../shared/wire/calls.ts'
import { Desk, granted } from '../../../support/fixtures.ts'
import { component, type Parts, Publisher } from '../../../support/skills/skill.ts'
import * as w from '../../../support/skills/wasm.ts'
import { sharedStack } from '../../../support/stack/stack.ts'

const desk = new Desk('revocation', sharedStack())
const maker = await desk.operator(['admin'])
const agent = await desk.agent({ budget: { max_denied_per_run: 1_000 } })
const acme = await Publisher.listed('revocation-acme', desk.root)

const SENSITIVE = [
  { name: 'run', description: 'says it again', input_schema: { type: 'object' }, sensitive: true },
]

const ENDLESS: Parts = { run: [...w.loop(w.br(0)), w.UNREACHABLE] }
/** It burns for as long as anything may. */
const LONG = { limits: { fuel: MAX_SKILL_LIMITS.fuel, timeout_ms: MAX_SKILL_LIMITS.timeout_ms } }

type Ref = { readonly id: string; readonly version: string }
type Made = Ref & { readonly tool: string; readonly by: Publisher }
type Change = { readonly tools?: typeof SENSITIVE; readonly limits?: typeof LONG.limits }
async function enabled(
  change: Change = {},
  parts: Parts = {},
  by = acme,
  id = desk.name(),
  version = '1.0.0',
): Promise<Made> {
  granted(
    await maker.client('publishSkill', {
      body: by.pack(by.manifest(id, { ...change, version }), await component(parts)),
    }),
  )
  granted(await desk.root('enableSkill', { params: { id, version }, body: {} }))
  return { id, version, tool: `${id}.run`, by }
}
const propose = async (tool: string, wait = 0, run = {}): Promise<Call> =>
  granted(
    await agent.client('proposeCallInNewRun', {
      body: { tool, args: {}, run },
      ...(wait === 0 ? {} : { wait }),
    }),
  )
const ended = async ({ run, id }: Call): Promise<Call> =>
  granted(await agent.client('readCall', { params: { run, call: id }, wait: 30 }))
const cancel = async (call: Call): Promise<Call> => {
  await agent.client('cancelCall', { params: { run: call.run, call: call.id } }) // where it has not ended by then
  return ended(call)
}
const approve = async (id: string) =>
  granted(await desk.root('answerApproval', { params: { id }, body: { decision: 'approve' } }))

const WAITED = { timeout: 30_000 }

/** What the edge signed of how it went. */
async function executionOf({ run, id }: Call) {
  const bundle = granted(await agent.client('readAttestation', { params: { run, call: id } }))
  return verifyBundle(bundle, granted(await agent.client('keys', {}))).statement?.predicate.execution
}

/** How many say so: all that were let in and did not begin say that the skill was disabled, and burnt nothing. */
async function refusedIn(ends: readonly Call[], when: string): Promise<number> {
  const failed = ends.filter(({ state }) => state === 'failed')
  for (const call of failed) {
    expect(call.result?.error?.code).toBe('skill_disabled')
    expect((await executionOf(call))?.skill?.fuel_used).toBe(0)
  }
  for (const { state } of ends) expect(state).toMatch(/^(?:succeeded|failed|denied|cancelled)$/)
  return failed.filter(({ result }) => result?.error?.detail.includes(when)).length
}

/** The first rounds show it; by the last, whoever looked in vain did not look where it is. */
const ROUNDS = 40

/** Until a round met the moment that is looked for. Each is of another version of the same skills: a new isolate, and no more skills. */
async function untilMet(round: (version: string, late_ms: number) => Promise<number>): Promise<void> {
  let met = 0
  for (let i = 0; met === 0 && i < ROUNDS; i++) met = await round(`1.0.${i}`, 2 * (i % 12))
  expect(met).toBeGreaterThan(0)
}
const names = (): string[] => Array.from({ length: 6 }, () => desk.name())

/** Every way in which a skill ends. */
const ENDS: readonly [string, (made: Made) => Promise<unknown>][] = [
  [
    'disabled',
    async ({ id, version }) =>
      granted(await desk.root('disableSkill', { params: { id, version }, body: {} })),
  ],
  [
    'revoked',
    async ({ id, version }) => granted(await desk.root('revokeSkill', { params: { id, version }, body: {} })),
  ],
  [
    'signed by a key that is revoked',
    async ({ by: { name, signer } }) =>
      granted(
        await desk.root('revokePublisherKey', {
          params: { name, kid: signer.kid },
          body: { reason: 'a test' },
        }),
      ),
  ],
]
/** With a key of its own; a new one, where there is one by this name. */
const own = (name = desk.name()): Promise<Publisher> => Publisher.listed(name, desk.root)

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
    await expect
      .poll(() => said.filter(({ state }) => state === 'succeeded').length, WAITED)
      .toBeGreaterThan(5)
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
    const [name, ids] = [desk.name(), names()]
    await untilMet(async (version, late_ms) => {
      const by = await own(name)
      const made = await Promise.all(ids.map((id) => enabled({}, {}, by, id, version)))
      const calls = await Promise.all(made.map(({ tool }) => propose(tool)))
      await new Promise((resolve) => setTimeout(resolve, late_ms))
      await Promise.all(made.map(end).map((ending) => ending.catch(() => 'ended with another'))) // the publisher's key is one
      return refusedIn(await Promise.all(calls.map(ended)), 'while its isolate was made')
    })
  })

  test('is so for calls that were let in and wait for their turn: none of them begins', async () => {
    const burner = await enabled(LONG, ENDLESS)
    const [name, id] = [desk.name(), desk.name()]
    await untilMet(async (version) => {
      const made = await enabled({}, {}, await own(name), id, version)
      const burning = await Promise.all([burner, burner].map(({ tool }) => propose(tool)))
      const ends: Call[] = []
      let over: number | undefined
      const caller = async () => {
        while (over === undefined) ends.push(await propose(made.tool, 20))
      }
      const callers = Array.from({ length: 6 }, caller)
      await expect.poll(() => ends.length, WAITED).toBeGreaterThan(0) // its isolate is there, and somebody always waits
      await end(made)
      over = Date.now()
      await Promise.all(callers)
      await Promise.all(burning.map(cancel))
      // One that had begun when it was disabled ends as it would have, and none was let in after that.
      for (const call of ends.filter(({ state }) => state === 'succeeded'))
        expect((await executionOf(call))?.started_at_ms).toBeLessThanOrEqual(over)
      return refusedIn(ends, 'before its turn came')
    })
  })

  test('is so for calls that nobody has let in yet: when there is room none of them begins', async () => {
    const made = await enabled(LONG, ENDLESS, await own())
    const calls = await Promise.all(Array.from({ length: 12 }, () => propose(made.tool)))
    const now = (): Promise<Call[]> =>
      Promise.all(
        calls.map(({ run, id }) => agent.client('readCall', { params: { run, call: id } }).then(granted)),
      )
    await expect.poll(async () => (await now()).map(({ state }) => state), WAITED).toContain('running')
    await end(made)
    const isIn = ({ state }: Call): boolean => state === 'running'
    const after = await now()
    await Promise.all(after.filter(isIn).map(cancel)) // or else they burn for 10 s
    const waited = await Promise.all(after.filter((call) => !isIn(call)).map(ended))
    await refusedIn(waited, '')
    expect(waited.filter(({ state }) => /^(?:denied|cancelled)$/.test(state))).not.toEqual([])
    expect(waited.map(({ state }) => state)).not.toContain('succeeded')
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
  const ids = names()
  await untilMet(async (version, late_ms) => {
    const made = await Promise.all(ids.map((id) => enabled({}, {}, acme, id, version)))
    const calls = await Promise.all(made.map(({ tool }) => propose(tool)))
    await new Promise((resolve) => setTimeout(resolve, late_ms))
    for (const change of ['disableSkill', 'enableSkill'] as const)
      await Promise.all(
        made.map(async ({ id }) => granted(await desk.root(change, { params: { id, version }, body: {} }))),
      )
    const met = await refusedIn(await Promise.all(calls.map(ended)), 'while its isolate was made')
    for (const { tool } of made) expect((await propose(tool, 20)).state).toBe('succeeded')
    return met
  })
})
