// The edge's side of a skill call, attacked by an isolate that a skill controls: it may send any
// requests in any order, and return any account of the call. The call ends, and its evidence
// verifies.

import { expect, test } from 'vitest'
import { skillStatement } from '../../../../edge/call/skill-statement.ts'
import { SkillHost } from '../../../../edge/skills/execution/host.ts'
import { IsolateAnswer } from '../../../../edge/skills/execution/isolate-answer.ts'
import { contradictions } from '../../../../shared/evidence/contradictions.ts'
import { LIMITS } from '../../../../shared/limits.ts'
import type { SkillPlan } from '../../../../shared/plan/plan.ts'
import { ok } from '../../../../shared/result.ts'
import { grantIn, SKILL_PLAN, skillBundle, statementIn } from '../../../shared/evidence.ts'

const grant = grantIn(skillBundle())
const { attestation_id, execution } = statementIn(skillBundle()).predicate
const ran = execution.skill
if (grant === null || ran === undefined) throw new Error('a bundle of a skill has a grant')
const claim = {
  grant: { ...grant, issued_at_ms: Date.now(), deadline_ms: Date.now() + 60_000 },
  plan: SKILL_PLAN,
  skill: {
    digest: ran.digest,
    component: { sha256: ran.component_sha256, bytes: 1 },
    modules: ran.modules.map((one) => ({ ...one, bytes: 1 })),
  },
}
const [HOST = ''] = SKILL_PLAN.egress.hosts
const MOST = SKILL_PLAN.limits.net_connections ?? 0
const ASK = {
  method: 'GET',
  url: `https://${HOST.replace(/:443$/, '')}/`,
  headers: '',
  body: new Uint8Array(),
}
const plan: SkillPlan = { ...SKILL_PLAN, executor: { ...SKILL_PLAN.executor, methods: ['GET'], kv: [''] } }

/** A host that answers `body`, once `answers` has resolved, and counts. */
function serving(body: string, answers: Promise<void> = Promise.resolve()) {
  const seen = { now: 0, most: 0 }
  const served = async <T>(value: T): Promise<T> => {
    seen.most = Math.max(seen.most, ++seen.now)
    await answers
    seen.now--
    return value
  }
  const host = new SkillHost({
    plan,
    secrets: {},
    outside: { fetch: () => served(new Response(body)) },
    standIns: undefined,
    turn: { releaseDuring: (work) => work() },
    services: {
      storage: {
        get: () => served(ok(null)),
        set: () => served(ok(true as const)),
        delete: () => served(ok(true as const)),
        keys: () => served(ok([])),
      },
      post: () => served(ok(true as const)),
    },
  })
  return { host, seen }
}

test('D4 an isolate gets `skill_requests_at_once` answers at a time, and no more requests in all than its plan has', async () => {
  expect([LIMITS.skill_requests_at_once, MOST]).toEqual([1, 2])
  const { promise: answers, resolve: answer } = Promise.withResolvers<void>()
  const { host, seen } = serving('x', answers)
  const asked = Array.from({ length: 50 }, () => host.request(ASK))
  const others = [
    host.use('kv.get', (services) => services.get('a')),
    host.use('channel.post', (services) => services.post('a', 'b')),
    host.yieldTurn(),
  ]
  await new Promise(setImmediate)
  expect(seen.now).toBe(1)
  const busy = { error: 'a call may have 1 request to the edge at a time; wait for its answer' }
  expect(await Promise.all([...asked.slice(1), ...others])).toEqual(Array(52).fill(busy))
  answer()
  expect(await asked[0]).toMatchObject({ value: { status: 200 } })
  expect(await host.use('kv.get', (services) => services.get('a'))).toEqual({ value: undefined })
  expect(await host.yieldTurn()).toEqual({ value: true })
  expect(await host.request(ASK)).toMatchObject({ value: { status: 200 } })
  expect(await host.request(ASK)).toEqual({ error: 'the call may make 2 requests' })
  expect([seen.most, host.connections.length]).toEqual([1, MOST])

  // The edge drops the isolate's account, which is false, and keeps its own of the connections.
  const used = { fuel_used: 0, memory_bytes: 0, host_calls: { 'secrets.get': 1 } }
  const { statement, output } = skillStatement(attestation_id, claim, {
    outcome: { kind: 'returned' },
    stdout: Buffer.from('1'),
    stderr: Buffer.alloc(0),
    used,
    connections: host.connections,
  })
  expect(output).toMatchObject({ outcome: { kind: 'infra' }, stdout: Buffer.alloc(0) })
  expect(statement.predicate.execution.connections).toHaveLength(MOST)
  expect(contradictions(statement, { grant: claim.grant, plan: claim.plan })).toEqual([])
})

test('N15 the bytes of all answers of a call count towards its limit', async () => {
  const most = SKILL_PLAN.limits.net_bytes ?? 0
  const { host } = serving('x'.repeat(most / 2))
  expect(await host.request(ASK)).toMatchObject({ value: { status: 200 } })
  expect(await host.request(ASK)).toEqual({
    error: 'the response is larger than the bytes the call may still receive',
  })
  expect(host.connections.map(({ verdict }) => verdict)).toEqual(['allowed', 'cap'])
})

test('an isolate’s account with a function that the world does not have is not read', () => {
  const account = { end: { kind: 'returned', output: '1' }, log: '', fuel_used: 1, memory_bytes: 1 }
  const isRead = (host_calls: Record<string, number>): boolean =>
    IsolateAnswer.safeParse({ ...account, host_calls }).success
  expect(isRead({ 'log.write': 1, 'http.request': 2 })).toBe(true)
  for (const name of ['log.more', 'log.\ud800', ''])
    expect([name, isRead({ [name]: 1 })]).toEqual([name, false])
})
