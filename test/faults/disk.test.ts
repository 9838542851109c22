// Promise: an edge whose disk is full accepts nothing new and loses nothing. Once it has room,
// everything goes on without help, although objects that died held slots and turns of skills.

import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Stack } from '../../infra/stack.ts'
import { verifyBundle } from '../../shared/evidence/bundle.ts'
import { bearer, type Client, client, type Problem } from '../../shared/routes/client.ts'
import type { Call } from '../../shared/wire/calls.ts'
import { eventually } from '../support/eventually.ts'
import { toolSpec, unwrap } from '../support/fixtures.ts'
import { component, Publisher } from '../support/skills/skill.ts'
import { insist } from '../support/stack/hurt-stack.ts'
import { SmallDisk } from '../support/stack/small-disk.ts'
import { startTestStack } from '../support/stack/stack.ts'

const disk = new SmallDisk()
let stack: Stack
let agent: Client
beforeAll(async () => {
  stack = await startTestStack({ state: disk.folder })
  agent = client(stack.url, bearer(stack.dev.agent_key))
  const { operator } = stack
  unwrap(
    await operator('putAgent', {
      params: { name: 'dev' },
      body: { tools: ['*'], budget: { max_calls_per_run: 10_000 } },
    }),
  )
  const acme = await Publisher.listed('full-acme', operator)
  const { key = '' } = unwrap(
    await operator('putOperator', { params: { name: 'maker' }, body: { roles: ['admin'] } }),
  )
  const maker = client(stack.url, bearer(key))
  unwrap(await maker('publishSkill', { body: acme.pack(acme.manifest('full'), await component()) }))
  unwrap(await operator('enableSkill', { params: { id: 'full', version: '1.0.0' }, body: {} }))
})
afterAll(async () => {
  await stack?.stop()
  disk.remove()
})

const propose = (tool: string, args = {}) => agent('proposeCallInNewRun', { body: { tool, args } })
const read = async ({ run, id }: Call): Promise<Call> =>
  unwrap(await insist(() => agent('readCall', { params: { run, call: id } })))

test('an edge with a full disk accepts nothing new, loses nothing, and goes on when it has room', async () => {
  const taken: Call[] = []
  const refusals: Problem[] = []
  let done = false
  const callers = Array.from({ length: 16 }, async () => {
    while (!done) {
      const answer = await propose('full_run')
      if (answer.ok) taken.push(answer.value)
      else refusals.push(answer.error)
      await sleep(10)
    }
  })
  await eventually('calls are taken', () => taken.length > 32)
  disk.fill()
  await eventually('none is taken any more', async () => {
    const [before, refused] = [taken.length, refusals.length]
    await eventually('some are refused', () => refusals.length > refused + 32)
    return taken.length === before
  })
  done = true
  await Promise.all(callers)
  expect(refusals.filter(({ status }) => status < 500)).toEqual([])
  const { operator } = stack
  const shown: Record<'yes' | 'no', string[]> = { yes: [], no: [] }
  for (let i = 0; i < 20; i++) {
    const name = `tool${i}`
    shown[(await operator('putTool', { params: { name }, body: toolSpec() })).ok ? 'yes' : 'no'].push(name)
  }
  expect(shown.no).not.toEqual([])
  disk.makeRoom()
  // No reader sees a change that was not stored, and the next one is visible at once.
  shown.yes.push('at-last')
  unwrap(await insist(() => operator('putTool', { params: { name: 'at-last' }, body: toolSpec() })))
  for (const name of shown.yes) expect(await propose(name)).toMatchObject({ ok: true })
  for (const name of shown.no)
    expect(await propose(name)).toMatchObject({ ok: false, error: { code: 'not_found' } })

  const calls = [
    unwrap(await insist(() => propose('full_run'))),
    unwrap(await insist(() => propose('text_stats', { text: 'room again' }))),
  ]
  for (const call of calls)
    await eventually('a new call runs', async () => (await read(call)).state === 'succeeded', 30_000)

  // Each accepted call has ended, attested or indeterminate; none is lost, and none is still
  // running.
  const keys = unwrap(await agent('keys', {}))
  const left = new Set(taken)
  await eventually(
    'each that was taken has ended',
    async () => {
      for (const call of left) {
        const { state, attestation } = await read(call)
        expect(['granted', 'running', 'succeeded', 'indeterminate']).toContain(state)
        if (attestation !== undefined)
          expect(
            verifyBundle(
              unwrap(
                await insist(() => agent('readAttestation', { params: { run: call.run, call: call.id } })),
              ),
              keys,
            ).ok,
          ).toBe(true)
        if (state === 'succeeded' || state === 'indeterminate') left.delete(call)
      }
      return left.size === 0
    },
    60_000,
  )
})
