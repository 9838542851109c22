// Promise: if Redis dies, forgets everything or comes back with an old snapshot, calls are delayed
// but none is lost or runs twice (Q07).

import { cpSync, existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Call } from '../../../shared/wire/calls.ts'
import { attested, journalOf } from '../../support/auditor.ts'
import { eventually } from '../../support/eventually.ts'
import { HurtStack, insist, revive, strike } from '../../support/stack/hurt-stack.ts'
import { SHORT_LEASES } from '../../support/stack/other-limits.ts'

const ACKNOWLEDGED_WITHIN_MS = 2_000
/** Longer than the pause after which a run first rings again. */
const OUTAGE_MS = 8_000
/** A run rings again after 5 s, and then after pauses that grow up to 60 s. */
const RUNG_WITHIN_MS = 65_000
const WAITING = 'cs:doorbell-default.default:wait'

let hurt: HurtStack
beforeAll(async () => {
  hurt = await HurtStack.start({ limits: SHORT_LEASES })
})
afterAll(() => hurt?.stop())

const files = (): string => join(hurt.stack.state.redis, 'appendonlydir')

let named = 0
/**
 * Calls of separate runs, proposed at once. Each is acknowledged quickly, whatever state Redis is
 * in.
 */
function proposed(count: number): Promise<Call[]> {
  const one = async (): Promise<Call> => {
    const began = performance.now()
    const call = await hurt.propose('mark_quickly', { mark: `redis ${++named}\n` })
    expect(performance.now() - began).toBeLessThan(ACKNOWLEDGED_WITHIN_MS)
    return call
  }
  return Promise.all(Array.from({ length: count }, one))
}

async function ranOnce(calls: readonly Call[], within_ms: number): Promise<void> {
  const ended = await Promise.all(calls.map((call) => hurt.ended(call, within_ms)))
  for (const call of ended) {
    expect(call.state).toBe('succeeded')
    expect(hurt.marks(call.run)).toHaveLength(1)
    expect((await journalOf(hurt, call.run)).map(({ kind }) => kind)).toEqual([
      'allowed',
      'claimed',
      'succeeded',
    ])
    await attested(hurt, call)
  }
}

test(`calls that are proposed while Redis is away for ${OUTAGE_MS / 1000} s are acknowledged at once and run when it is back`, async () => {
  const running = await hurt.propose('mark_slowly', { mark: 'goes on\n', seconds: '1' })
  await eventually('it runs', () => hurt.marks(running.run).length === 1)
  await strike(hurt.stack.redis)
  const at = Date.now()
  const early = await proposed(5)
  // A running call does not need Redis.
  expect((await hurt.ended(running)).state).toBe('succeeded')
  await sleep(at + OUTAGE_MS - Date.now())
  const late = await proposed(5)
  for (const call of [...early, ...late]) expect((await hurt.read(call)).state).toBe('granted')
  await revive(hurt.stack.redis)
  const back = Date.now()
  await ranOnce([...early, ...late], RUNG_WITHIN_MS)
  console.log(`all had run ${Date.now() - back} ms after Redis was back`)
}, 120_000)

test('an edge that is back before Redis acknowledges calls, and rings when Redis is back', async () => {
  await Promise.all([strike(hurt.stack.redis), strike(hurt.stack.edge)])
  const starting = revive(hurt.stack.edge) // not ready before Redis is, but it answers
  const answered = await insist(() =>
    hurt.agent('proposeCallInNewRun', { body: { tool: 'mark_quickly', args: { mark: 'first\n' } } }),
  )
  const call = answered.ok ? answered.value : undefined
  expect(call?.state).toBe('granted')
  await sleep(2_000)
  await revive(hurt.stack.redis)
  await starting
  if (call !== undefined) await ranOnce([call], RUNG_WITHIN_MS)
}, 90_000)

test('Q07 waiting calls are rung again and run once after Redis forgets everything, and an old snapshot runs nothing', async () => {
  const redis = hurt.redis()
  await strike(hurt.stack.worker)
  const calls = await proposed(5)
  await eventually('their doorbells are in Redis', async () => (await redis.llen(WAITING)) === calls.length)
  await eventually('and on disk', () => existsSync(files()))
  await hurt.stack.redis.stop() // an orderly stop, so that the snapshot has all of them
  const snapshot = join(hurt.stack.state.dir, 'snapshot')
  cpSync(files(), snapshot, { recursive: true })
  rmSync(files(), { recursive: true })
  await revive(hurt.stack.redis)
  expect(await redis.llen(WAITING)).toBe(0)
  await revive(hurt.stack.worker)
  await ranOnce(calls, RUNG_WITHIN_MS)

  await strike(hurt.stack.redis)
  rmSync(files(), { recursive: true })
  cpSync(snapshot, files(), { recursive: true })
  const from = hurt.workerLog().length
  await revive(hurt.stack.redis)
  const ids = calls.map(({ id }) => id).toSorted()
  const left = () =>
    hurt
      .workerLog()
      .slice(from)
      .flatMap((line) => (line.msg === 'a doorbell was ignored' ? [String(line['call'])] : []))
  await eventually('each old doorbell is answered and dropped', () => left().toSorted().join() === ids.join())
  await ranOnce(calls, 1_000)
  await ranOnce(await proposed(1), RUNG_WITHIN_MS)
  redis.disconnect()
}, 120_000)
