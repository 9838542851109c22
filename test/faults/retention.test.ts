// Promise: what the tenant's retention rule no longer keeps of ended runs is removed, and not before.
// The rest says so and still verifies, no call runs again, and nothing under a legal hold goes. SIGKILL
// at any moment loses nothing that is kept. A day of the rule takes three seconds here.

import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { archiveOf } from '../../edge/archive/archive-of.ts'
import { objectOfRun } from '../../shared/ids.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Call } from '../../shared/wire/calls.ts'
import type { Keep } from '../../shared/wire/retention.ts'
import { attested, endsIn, journalOf } from '../support/auditor.ts'
import { eventually } from '../support/eventually.ts'
import { Fixtures, refusalOf, unwrap } from '../support/fixtures.ts'
import { HurtStack, insist, whileDead } from '../support/stack/hurt-stack.ts'
import { objectId } from '../support/stack/object-file.ts'
import { writeLimits } from '../support/stack/other-limits.ts'
import { installation, newTenant } from '../support/tenants.ts'
import { PeerWorker } from '../support/worker/peer-worker.ts'

const DAY_MS = 3_000
const RETRY_MS = 500
const FOR_EVER = { outputs: null, arguments: null }

let [tool, asking] = ['', '']
let peer: PeerWorker
let agent: Awaited<ReturnType<Fixtures['agent']>>
let fixtures: Fixtures
let hurt: HurtStack
beforeAll(async () => {
  hurt = await HurtStack.start({ sealAfterS: 1, worker: 'idle' })
  await whileDead(hurt.stack.edge, () =>
    writeLimits(hurt.stack, {
      retention_day_ms: DAY_MS,
      removal_retry_ms: RETRY_MS,
      removals_at_once: 2,
      removal_calls: 2, // several transactions for the runs below
      holds: 3,
    }),
  )
  fixtures = new Fixtures('retention', hurt.stack.dev)
  agent = await fixtures.agent()
  tool = await fixtures.tool()
  asking = await fixtures.tool({ sensitive: true })
  peer = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool)
})
afterEach(async () => {
  if (hurt !== undefined) await keep(FOR_EVER)
})
afterAll(() => hurt?.stop())

const keep = async (body: Keep): Promise<number> =>
  unwrap(await insist(() => fixtures.root('putRetention', { body }))).rule

const SECRET = 'tell nobody'
async function propose(run?: string, name = tool, key?: string): Promise<Call> {
  const body = { tool: name, args: { text: SECRET } }
  const headers = key === undefined ? {} : { 'idempotency-key': key }
  if (run === undefined)
    return unwrap(await insist(() => agent.client('proposeCallInNewRun', { body, headers })))
  return unwrap(await insist(() => agent.client('proposeCall', { params: { run }, body, headers })))
}
const read = async ({ run, id }: Call): Promise<Call> =>
  unwrap(await insist(() => agent.client('readCall', { params: { run, call: id } })))
async function ranCall(run?: string, key?: string, name = tool): Promise<Call> {
  const call = await propose(run, name, key)
  if (call.approval !== undefined) unwrap(await fixtures.approve(call.approval.id))
  await peer.run(call.id, { stdout: `out of ${call.id}` })
  return read(call)
}
/** Waits until the call has lost these kinds, and returns what is left. */
const without = (call: Call, ...kinds: readonly (keyof Keep)[]): Promise<Call> =>
  eventually(
    `${call.id} is without ${kinds.join()}`,
    async () => {
      const now = await read(call)
      return kinds.every((kind) => now.removed?.[kind] !== undefined) && now
    },
    30_000,
  )
const asAgent = (): HurtStack => ({ ...hurt, agent: agent.client }) as HurtStack

// ── The files of the archives ──

const archiveFile = (run: string): string => {
  const name = `default/${archiveOf(objectOfRun(run))}`
  const kind = 'countersign-archive'
  return join(hurt.stack.state.edge, 'objects', kind, `${objectId(kind, name)}.sqlite`)
}
type Entry = { readonly removed: number; readonly ask_again_at: number }
/** The archive's row of the run's entry: how many kinds were removed, and when it asks again. */
function entryOf(run: string): Entry | undefined {
  const file = archiveFile(run)
  if (!existsSync(file)) return undefined
  const db = new DatabaseSync(file, { readOnly: true })
  try {
    return db
      .prepare('select removed, ask_again_at from entries where object = ? and digest is not null')
      .get(objectOfRun(run)) as Entry | undefined
  } catch {
    return undefined // the edge writes it
  } finally {
    db.close()
  }
}
const removedIn = (run: string): number | undefined => entryOf(run)?.removed
const isSealed = (call: Call, removed = 0): Promise<true> =>
  eventually(`${call.id} is sealed`, () => removedIn(call.run) === removed, 30_000).catch((error: Error) => {
    throw new Error(`${error.message}; the archive knows ${removedIn(call.run)} as removed`, { cause: error })
  })

test('outputs go first, then arguments, after their days of `retention_day_ms`, and what is left says so and still verifies', async () => {
  expect(LIMITS.retention_day_ms).toBe(24 * 60 * 60 * 1_000) // if it is not shortened for a test
  const key = fixtures.name()
  const call = await ranCall(undefined, key, asking)
  const second = await ranCall(call.run)
  const third = await ranCall(call.run)
  await isSealed(call)
  const approval = call.approval?.id ?? ''
  const journal = await journalOf(asAgent(), call.run)
  const before = Date.now()
  const rule = await keep({ outputs: 1, arguments: 4 })
  const dumb = await without(call, 'outputs')
  const last = Math.max(...journal.map(({ at_ms }) => at_ms))
  expect(Date.now() - last).toBeGreaterThanOrEqual(DAY_MS)
  expect(dumb.removed?.outputs).toEqual({ at_ms: expect.any(Number), rule, days: 1 })
  expect(dumb.removed?.outputs?.at_ms).toBeGreaterThanOrEqual(before - 1)
  expect(dumb).toEqual({ ...call, result: { ...call.result, output: '' }, removed: dumb.removed })
  const params = { run: call.run, call: call.id }
  const output = await agent.client('followCall', { params, query: {}, headers: {} }).catch(() => null)
  if (output !== null) expect(refusalOf(output)).toBe('410 removed')
  await attested(asAgent(), dumb)
  expect(unwrap(await agent.client('readAttestation', { params })).call.arguments).toEqual({ text: SECRET })

  const left = await without(call, 'arguments')
  expect(Date.now() - last).toBeGreaterThanOrEqual(4 * DAY_MS)
  for (const one of [second, third]) await without(one, 'outputs', 'arguments')
  expect([left.plan, left.digest, left.attestation]).toEqual([undefined, call.digest, call.attestation])
  const bundle = unwrap(await agent.client('readAttestation', { params }))
  expect([bundle.call.arguments, bundle.call.plan, bundle.removed]).toEqual([
    null,
    null,
    left.removed?.arguments,
  ])
  for (const one of [call, second, third]) await attested(asAgent(), one)
  expect(await journalOf(asAgent(), call.run)).toEqual(journal)
  const leaves: string[] = []
  for (let page = ['']; page.length > 0; leaves.push(...page))
    page = unwrap(await fixtures.root('logEntries', { query: { from: leaves.length } })).items
  for (const { hash } of endsIn(journal)) expect(leaves.filter((leaf) => leaf === hash)).toEqual([hash])

  // Nothing that reads the run, the inbox or the lists has the arguments or the output.
  const shown = [
    left,
    bundle,
    unwrap(await fixtures.root('readApproval', { params: { id: approval } })),
    unwrap(await fixtures.root('listApprovals', { query: { status: 'ended' } })).items.filter(
      ({ id }) => id === approval,
    ),
  ]
  expect(JSON.stringify(shown)).not.toMatch(/tell nobody|out of/)
  expect(shown[3]).toHaveLength(1)
  expect(refusalOf(await agent.client('explainCall', { params }))).toBe('410 removed')
  await isSealed(call, 2)
}, 90_000)

test('L2 L4 a pruned call is found by its key, and cancel, answer, claim and settlement are refused', async () => {
  const key = fixtures.name()
  const waiting = await propose(undefined, asking)
  unwrap(
    await fixtures.root('answerApproval', {
      params: { id: waiting.approval?.id ?? '' },
      body: { decision: 'deny' },
    }),
  )
  const link = await fixtures.link(fixtures.root, waiting.approval?.id ?? '').catch(() => null)
  const call = await propose(undefined, tool, key)
  const claim = unwrap(await peer.claim(call.id))
  const settlement = peer.settlement(claim, { stdout: 'once' })
  const settled = unwrap(await peer.client('settle', { body: settlement }))
  await keep({ outputs: 1, arguments: 1 })
  const left = await without(call, 'outputs', 'arguments')
  await without(waiting, 'arguments')
  expect(await propose(undefined, tool, key)).toEqual(left)
  const other = { body: { tool, args: { text: 'other' } }, headers: { 'idempotency-key': key } }
  expect(refusalOf(await agent.client('proposeCallInNewRun', other))).toBe('409 idempotency_key_reused')
  expect(refusalOf(await agent.client('cancelCall', { params: { run: call.run, call: call.id } }))).toBe(
    '409 already_ended',
  )
  expect(refusalOf(await fixtures.approve(waiting.approval?.id ?? ''))).toBe('409 already_answered')
  expect(refusalOf(await peer.claim(call.id))).toBe('409 not_claimable')
  expect(refusalOf(await peer.client('settle', { body: peer.settlement(claim, { stdout: 'twice' }) }))).toBe(
    '409 stale_fence',
  )
  expect(unwrap(await peer.client('settle', { body: settlement }))).toEqual(settled)
  if (link !== null) {
    const page = await fetch(link)
    expect([page.status, (await page.text()).includes(SECRET)]).toEqual([200, false])
  }
  expect((await journalOf(asAgent(), call.run)).length).toBe(3)
  const next = await ranCall(call.run) // the run goes on where it ended
  expect([next.removed, (await read(call)).removed]).toEqual([undefined, left.removed])
}, 90_000)

test('nothing under a legal hold is removed, and lifting it lets the rule go on', async () => {
  const [held, free] = [
    await ranCall(unwrap(await agent.client('createRun', { body: {} })).id),
    await ranCall(unwrap(await agent.client('createRun', { body: {} })).id),
  ]
  const onRun = { params: { subject: held.run }, body: { reason: 'case 12' } }
  const onTenant = { params: { subject: 'tenant' }, body: { reason: 'case 13' } }
  unwrap(await fixtures.root('putHold', onTenant))
  unwrap(await fixtures.root('putHold', onRun))
  expect(
    unwrap(await fixtures.root('listHolds', {})).items.map(({ subject, reason }) => [subject, reason]),
  ).toEqual([
    ['tenant', 'case 13'],
    [held.run, 'case 12'],
  ])
  await keep({ outputs: 1, arguments: 1 })
  await Promise.all([isSealed(held), isSealed(free)])
  await sleep(3 * DAY_MS)
  expect([await read(held), await read(free)]).toEqual([held, free])
  unwrap(await fixtures.root('liftHold', onTenant))
  await without(free, 'outputs', 'arguments')
  await sleep(DAY_MS)
  expect(await read(held)).toEqual(held)
  expect(refusalOf(await fixtures.root('liftHold', onTenant))).toBe('404 not_found')
  unwrap(await fixtures.root('liftHold', onRun))
  await without(held, 'outputs', 'arguments')
  const entries = unwrap(await fixtures.root('readTenantJournal', { query: {} })).items
  expect(
    entries
      .filter(({ kind }) => kind.startsWith('hold.'))
      .map(({ kind, body }) => [kind, body['subject'], body['reason'], body['by']]),
  ).toEqual([
    ['hold.put', 'tenant', 'case 13', 'root'],
    ['hold.put', held.run, 'case 12', 'root'],
    ['hold.lifted', 'tenant', 'case 13', 'root'],
    ['hold.lifted', held.run, 'case 12', 'root'],
  ])
}, 90_000)

test('an archive asks `removals_at_once` objects in one go, and asks those that could not remove again after `removal_retry_ms`', async () => {
  const held: Call[] = []
  for (let i = 0; i < 3; i++)
    held.push(await ranCall(unwrap(await agent.client('createRun', { body: {} })).id))
  const runs = held.map(({ run }) => run)
  for (const subject of runs)
    unwrap(await fixtures.root('putHold', { params: { subject }, body: { reason: 'case 15' } }))
  for (const call of held) await isSealed(call)
  await sleep(DAY_MS) // so that the rule is late for all of them
  await keep({ outputs: 1, arguments: 1 })
  // Those that are asked in one go are asked again at the same time.
  const askedAt = (run: string): number => entryOf(run)?.ask_again_at ?? 0
  const seen = new Map(runs.map((run) => [run, new Set<number>()]))
  await eventually('each object is asked five times', () => {
    for (const run of runs) if (askedAt(run) > 0) seen.get(run)?.add(askedAt(run))
    return seen.values().every(({ size }) => size >= 5)
  })
  const times = [...seen.values()].flatMap((of) => [...of])
  for (const at of times) expect(times.filter((one) => one === at).length).toBeLessThanOrEqual(2)
  for (const of of seen.values()) {
    // The first ones may come sooner: a changed rule is another reason to ask.
    const [, , third = 0, fourth = 0, fifth = 0] = of
    expect(Math.min(fourth - third, fifth - fourth)).toBeGreaterThanOrEqual(RETRY_MS)
  }
  expect(await Promise.all(held.map(read))).toEqual(held)
  for (const subject of runs)
    unwrap(await fixtures.root('liftHold', { params: { subject }, body: { reason: 'closed' } }))
  for (const call of held) await without(call, 'outputs', 'arguments')
}, 90_000)

test('a rule has at most `keep_days`, a tenant at most `LIMITS.holds`, and both are checked before they are stored', async () => {
  const put = (body: unknown) => fixtures.root('putRetention', { body: body as Keep })
  for (const body of [
    { outputs: 2, arguments: 1 },
    { outputs: null, arguments: 1 },
    { outputs: 0, arguments: 1 },
    { outputs: 1.5, arguments: 2 },
    { outputs: 1, arguments: LIMITS.keep_days + 1 },
    { outputs: 1 },
  ])
    expect(refusalOf(await put(body))).toBe('400 invalid_request')
  expect(unwrap(await fixtures.root('readRetention', {})).keep).toEqual(FOR_EVER)
  expect(LIMITS.keep_days).toBe(36_500)
  expect((await put({ outputs: LIMITS.keep_days, arguments: LIMITS.keep_days })).ok).toBe(true)
  const hold = (subject: string, reason = 'why') =>
    fixtures.root('putHold', { params: { subject }, body: { reason } })
  const [first = ''] = [unwrap(await agent.client('createRun', { body: {} })).id]
  expect(refusalOf(await hold('tenant', ' '))).toBe('400 invalid_request')
  expect(refusalOf(await hold(`${first.slice(0, -1)}${first.endsWith('0') ? '1' : '0'}`))).toBe(
    '404 not_found',
  )
  const runs = [first]
  for (let i = 0; i < 3; i++) runs.push(unwrap(await agent.client('createRun', { body: {} })).id)
  const said = []
  for (const run of runs) said.push(await hold(run))
  expect(said.map((one) => (one.ok ? 'ok' : refusalOf(one)))).toEqual(['ok', 'ok', 'ok', '409 limit_reached'])
  expect((await hold(first, 'again')).ok).toBe(true)
  for (const run of runs.slice(0, 3))
    unwrap(await fixtures.root('liftHold', { params: { subject: run }, body: { reason: 'done' } }))
  const auditor = await fixtures.operator(['auditor'])
  expect(refusalOf(await fixtures.clientOf(auditor.key)('putRetention', { body: FOR_EVER }))).toBe(
    '403 forbidden',
  )
})

test('a tenant under a legal hold is not deleted', async () => {
  const acme = await newTenant(hurt.stack.dev, 'retention-acme')
  const params = { tenant: 'retention-acme' }
  const governor = installation(hurt.stack.dev)
  unwrap(await acme.root('putHold', { params: { subject: 'tenant' }, body: { reason: 'case 14' } }))
  unwrap(await governor('suspendTenant', { params, body: {} }))
  const remove = () => governor('deleteTenant', { params, body: { name: 'retention-acme' } })
  expect(refusalOf(await remove())).toBe('409 held')
  unwrap(await governor('resumeTenant', { params, body: {} }))
  unwrap(await acme.root('liftHold', { params: { subject: 'tenant' }, body: { reason: 'closed' } }))
  unwrap(await governor('suspendTenant', { params, body: {} }))
  expect(unwrap(await remove()).state).toBe('deleted')
})

test('SIGKILL at any moment of a removal loses nothing that is kept, and removes all that is due', async () => {
  const calls: Call[] = []
  for (let i = 0; i < 4; i++) {
    const first = await ranCall(unwrap(await agent.client('createRun', { body: {} })).id)
    calls.push(first, await ranCall(first.run), await ranCall(first.run))
  }
  for (let i = 0; i < 4; i++) calls.push(await ranCall()) // these share an object
  for (const call of calls) await isSealed(call)
  const rule = await keep({ outputs: 1, arguments: 2 })
  for (let round = 0; round < 8; round++) {
    await sleep(150 + 130 * round)
    await whileDead(hurt.stack.edge, () => undefined)
    for (const call of calls) {
      const now = await read(call)
      expect([now.state, now.digest, now.attestation]).toEqual([call.state, call.digest, call.attestation])
    }
  }
  for (const call of calls) {
    const left = await without(call, 'outputs', 'arguments')
    expect([left.removed?.outputs?.rule, left.result?.output]).toEqual([rule, ''])
    await attested(asAgent(), call)
    await isSealed(call, 2)
  }
  for (const run of new Set(calls.map((call) => call.run))) await journalOf(asAgent(), run)
}, 180_000)
