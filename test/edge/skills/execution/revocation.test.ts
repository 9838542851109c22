// Promise: once the request that disables or revokes a skill is answered, no call of it begins: no
// new one, none that was approved, granted or claimed, and none under a standing approval.

import { describe, expect, test } from 'vitest'
import { verifyBundle } from '../../../../shared/evidence/bundle.ts'
import { MAX_SKILL_LIMITS } from '../../../../shared/limits.ts'
import type { Call } from '../../../../shared/wire/calls.ts'
import { Fixtures, unwrap } from '../../../support/fixtures.ts'
import { component, type Parts, Publisher } from '../../../support/skills/skill.ts'
import * as w from '../../../support/skills/wasm.ts'
import { sharedStack } from '../../../support/stack/stack.ts'

const fixtures = new Fixtures('revocation', sharedStack())
const maker = await fixtures.operator(['admin'])
const agent = await fixtures.agent({ budget: { max_denied_per_run: 1_000 } })
const acme = await Publisher.listed('revocation-acme', fixtures.root)

const SENSITIVE = [
  { name: 'run', description: 'says it again', input_schema: { type: 'object' }, sensitive: true },
]

const ENDLESS: Parts = { run: [...w.loop(w.br(0)), w.UNREACHABLE] }
/** Burns fuel until its deadline. */
const LONG = { limits: { fuel: MAX_SKILL_LIMITS.fuel, timeout_ms: MAX_SKILL_LIMITS.timeout_ms } }

type Ref = { readonly id: string; readonly version: string }
type Made = Ref & { readonly tool: string; readonly by: Publisher }
type Change = { readonly tools?: typeof SENSITIVE; readonly limits?: typeof LONG.limits }
async function enabled(
  change: Change = {},
  parts: Parts = {},
  by = acme,
  id = fixtures.name(),
  version = '1.0.0',
): Promise<Made> {
  unwrap(
    await maker.client('publishSkill', {
      body: by.pack(by.manifest(id, { ...change, version }), await component(parts)),
    }),
  )
  unwrap(await fixtures.root('enableSkill', { params: { id, version }, body: {} }))
  return { id, version, tool: `${id}_run`, by }
}
const propose = async (tool: string, wait = 0, run = {}): Promise<Call> =>
  unwrap(
    await agent.client('proposeCallInNewRun', {
      body: { tool, args: {}, run },
      ...(wait === 0 ? {} : { wait }),
    }),
  )
const ended = async ({ run, id }: Call): Promise<Call> =>
  unwrap(await agent.client('readCall', { params: { run, call: id }, wait: 30 }))
const cancel = async (call: Call): Promise<Call> => {
  await agent.client('cancelCall', { params: { run: call.run, call: call.id } }) // unless it has ended by then
  return ended(call)
}
const approve = async (id: string) =>
  unwrap(await fixtures.root('answerApproval', { params: { id }, body: { decision: 'approve' } }))

const WAITED = { timeout: 30_000 }

/** The execution that the edge attested. */
async function executionOf({ run, id }: Call) {
  const bundle = unwrap(await agent.client('readAttestation', { params: { run, call: id } }))
  return verifyBundle(bundle, unwrap(await agent.client('keys', {}))).statement?.predicate.execution
}

/** The number of calls that did not begin because the skill was disabled; they used no fuel. */
async function refusedIn(ends: readonly Call[], when: string): Promise<number> {
  const failed = ends.filter(({ state }) => state === 'failed')
  for (const call of failed) {
    expect(call.result?.error?.code).toBe('skill_disabled')
    expect((await executionOf(call))?.skill?.fuel_used).toBe(0)
  }
  for (const { state } of ends) expect(state).toMatch(/^(?:succeeded|failed|denied|cancelled)$/)
  return failed.filter(({ result }) => result?.error?.detail.includes(when)).length
}

/** The first rounds usually suffice; if all fail, the test does not hit the moment it looks for. */
const ROUNDS = 40

/**
 * Repeats until a round hits the moment that the test looks for. Each round publishes another
 * version of the same skills, which makes a new isolate without adding skills.
 */
async function untilMet(round: (version: string, late_ms: number) => Promise<number>): Promise<void> {
  let met = 0
  for (let i = 0; met === 0 && i < ROUNDS; i++) met = await round(`1.0.${i}`, 2 * (i % 12))
  expect(met).toBeGreaterThan(0)
}
const names = (): string[] => Array.from({ length: 6 }, () => fixtures.name())

/** Every way to stop a skill. */
const ENDS: readonly [string, (made: Made) => Promise<unknown>][] = [
  [
    'disabled',
    async ({ id, version }) =>
      unwrap(await fixtures.root('disableSkill', { params: { id, version }, body: {} })),
  ],
  [
    'revoked',
    async ({ id, version }) =>
      unwrap(await fixtures.root('revokeSkill', { params: { id, version }, body: {} })),
  ],
  [
    'signed by a key that is revoked',
    async ({ by: { name, signer } }) =>
      unwrap(
        await fixtures.root('revokePublisherKey', {
          params: { name, kid: signer.kid },
          body: { reason: 'a test' },
        }),
      ),
  ],
]
/** A publisher with its own key; a new key if the name exists. */
const own = (name = fixtures.name()): Promise<Publisher> => Publisher.listed(name, fixtures.root)

describe.each(ENDS)('a skill that is %s', (_, end) => {
  test('a skill that was stopped does not run the very next call, however many calls are in progress', async () => {
    const made = await enabled({}, {}, await own())
    const answers: { begun: number; state: string }[] = []
    let done = false
    const caller = async () => {
      while (!done) {
        const begun = performance.now()
        answers.push({ begun, state: (await propose(made.tool, 20)).state })
      }
    }
    const callers = Array.from({ length: 16 }, caller)
    await expect
      .poll(() => answers.filter(({ state }) => state === 'succeeded').length, WAITED)
      .toBeGreaterThan(5)
    await end(made)
    const over = performance.now()
    await expect.poll(() => answers.filter(({ begun }) => begun > over).length, WAITED).toBeGreaterThan(5)
    done = true
    await Promise.all(callers)
    const after = answers.filter(({ begun }) => begun > over)
    expect(after.filter(({ state }) => state !== 'denied')).toEqual([])
  })

  test('a skill that was stopped does not run a call that waits for an answer, whatever the answer is', async () => {
    const made = await enabled({ tools: SENSITIVE }, {}, await own())
    const asked = await fixtures.proposeForApproval(agent.client, made.tool)
    await end(made)
    await approve(asked.approval.id)
    expect((await ended(asked)).state).toBe('denied')
  })

  test('a skill that was stopped does not run calls under a standing approval', async () => {
    const made = await enabled({ tools: SENSITIVE }, {}, await own())
    const run = { session: fixtures.name() }
    const { approval } = await propose(made.tool, 0, run)
    const body = { decision: 'approve', scope: 'timeboxed', ttl_s: 3_600 } as const
    unwrap(await fixtures.root('answerApproval', { params: { id: approval?.id ?? '' }, body }))
    expect((await propose(made.tool, 20, run)).state).toBe('succeeded')
    await end(made)
    expect((await propose(made.tool, 20, run)).state).toBe('denied')
  })

  test('a skill that was stopped does not run a call whose isolate is still being loaded, which ends as refused', async () => {
    const [name, ids] = [fixtures.name(), names()]
    await untilMet(async (version, late_ms) => {
      const by = await own(name)
      const made = await Promise.all(ids.map((id) => enabled({}, {}, by, id, version)))
      const calls = await Promise.all(made.map(({ tool }) => propose(tool)))
      await new Promise((resolve) => setTimeout(resolve, late_ms))
      await Promise.all(made.map(end).map((ending) => ending.catch(() => 'ended with another'))) // the publisher's key is one
      return refusedIn(await Promise.all(calls.map(ended)), 'while its isolate was made')
    })
  })

  test('a skill that was stopped does not run claimed calls that wait for their CPU turn', async () => {
    const burner = await enabled(LONG, ENDLESS)
    const [name, id] = [fixtures.name(), fixtures.name()]
    await untilMet(async (version) => {
      const made = await enabled({}, {}, await own(name), id, version)
      const burning = await Promise.all([burner, burner].map(({ tool }) => propose(tool)))
      const ends: Call[] = []
      let over: number | undefined
      const caller = async () => {
        while (over === undefined) ends.push(await propose(made.tool, 20))
      }
      const callers = Array.from({ length: 16 }, caller)
      await expect.poll(() => ends.length, WAITED).toBeGreaterThan(0) // its isolate is loaded, and there is always a waiting call
      await end(made)
      over = Date.now()
      await Promise.all(callers)
      await Promise.all(burning.map(cancel))
      // A call that had begun ends normally; none begins after it.
      for (const call of ends.filter(({ state }) => state === 'succeeded'))
        expect((await executionOf(call))?.started_at_ms).toBeLessThanOrEqual(over)
      return refusedIn(ends, 'before its turn came')
    })
  })

  test('a skill that was stopped does not run calls that wait for a slot', async () => {
    const made = await enabled(LONG, ENDLESS, await own())
    const calls = await Promise.all(Array.from({ length: 12 }, () => propose(made.tool)))
    const now = (): Promise<Call[]> =>
      Promise.all(
        calls.map(({ run, id }) => agent.client('readCall', { params: { run, call: id } }).then(unwrap)),
      )
    await expect.poll(async () => (await now()).map(({ state }) => state), WAITED).toContain('running')
    await end(made)
    const isIn = ({ state }: Call): boolean => state === 'running'
    const after = await now()
    await Promise.all(after.filter(isIn).map(cancel)) // otherwise they burn fuel for 10 s
    const waited = await Promise.all(after.filter((call) => !isIn(call)).map(ended))
    await refusedIn(waited, '')
    expect(waited.filter(({ state }) => /^(?:denied|cancelled)$/.test(state))).not.toEqual([])
    expect(waited.map(({ state }) => state)).not.toContain('succeeded')
  })
})

test('a skill runs again at once when it is enabled again or rolled back to', async () => {
  const made = await enabled()
  const { id, tool } = made
  unwrap(await fixtures.root('disableSkill', { params: { id, version: '1.0.0' }, body: {} }))
  expect((await propose(tool, 20)).state).toBe('denied')
  unwrap(await fixtures.root('enableSkill', { params: { id, version: '1.0.0' }, body: {} }))
  expect((await propose(tool, 20)).state).toBe('succeeded')
})

test('a skill that was disabled while its isolate was being loaded runs after it is enabled again', async () => {
  const ids = names()
  await untilMet(async (version, late_ms) => {
    const made = await Promise.all(ids.map((id) => enabled({}, {}, acme, id, version)))
    const calls = await Promise.all(made.map(({ tool }) => propose(tool)))
    await new Promise((resolve) => setTimeout(resolve, late_ms))
    for (const change of ['disableSkill', 'enableSkill'] as const)
      await Promise.all(
        made.map(async ({ id }) =>
          unwrap(await fixtures.root(change, { params: { id, version }, body: {} })),
        ),
      )
    const met = await refusedIn(await Promise.all(calls.map(ended)), 'while its isolate was made')
    for (const { tool } of made) expect((await propose(tool, 20)).state).toBe('succeeded')
    return met
  })
})
