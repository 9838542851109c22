// Promise: what the tenant's retention rule no longer keeps of ended runs is removed, and not before.
// The rest says so and still verifies, no call runs again, and nothing under a legal hold goes. SIGKILL
// at any moment loses nothing that is kept. A day of the rule takes 1.5 s here.

import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { archiveOf } from '../../edge/archive/archive-of.ts'
import { sha256 } from '../../shared/bytes/json.ts'
import type { JournalEntry } from '../../shared/evidence/journal.ts'
import { objectOfRun } from '../../shared/ids.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Call } from '../../shared/wire/calls.ts'
import type { Keep } from '../../shared/wire/retention.ts'
import { attested, endsIn, journalOf } from '../support/auditor.ts'
import { countersign } from '../support/countersign.ts'
import { eventually } from '../support/eventually.ts'
import { type Fixtures, refusalOf, unwrap } from '../support/fixtures.ts'
import { logHashes } from '../support/log-reader.ts'
import { HurtStack, insist, whileDead } from '../support/stack/hurt-stack.ts'
import { objectId } from '../support/stack/object-file.ts'
import { installation, newTenant } from '../support/tenants.ts'
import { PeerWorker } from '../support/worker/peer-worker.ts'

const DAY_MS = 1_500
const RETRY_MS = 500
const FOR_EVER = { outputs: null, arguments: null, evidence: null }

let hurt: HurtStack
beforeAll(async () => {
  hurt = await HurtStack.start({
    sealAfterS: 1,
    worker: 'idle',
    limits: {
      retention_day_ms: DAY_MS,
      removal_retry_ms: RETRY_MS,
      removals_at_once: 2,
      removal_calls: 2, // several transactions for the runs below
      holds: 3,
    },
  })
})
afterAll(() => hurt?.stop())

const SECRET = 'tell nobody'

/** A tenant of its own for each test, because a rule is the tenant's. The tests run at the same time. */
class Keeper {
  readonly fixtures: Fixtures
  readonly agent: Awaited<ReturnType<Fixtures['agent']>>
  readonly peer: PeerWorker
  readonly tool: string
  readonly asking: string
  readonly tenant: string

  private constructor(
    tenant: string,
    fixtures: Fixtures,
    agent: Keeper['agent'],
    peer: PeerWorker,
    [tool, asking]: readonly [string, string],
  ) {
    this.tenant = tenant
    this.fixtures = fixtures
    this.agent = agent
    this.peer = peer
    this.tool = tool
    this.asking = asking
  }

  static async of(tenant: string): Promise<Keeper> {
    const fixtures = await newTenant(hurt.stack.dev, tenant)
    const tools = [await fixtures.tool(), await fixtures.tool({ sensitive: true })] as const
    const peer = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool)
    return new Keeper(tenant, fixtures, await fixtures.agent(), peer, tools)
  }

  /** For the auditor. */
  get stack(): HurtStack {
    return { ...hurt, agent: this.agent.client, operator: this.fixtures.root } as HurtStack
  }

  async keep(days: Partial<Keep>): Promise<number> {
    const body = { ...FOR_EVER, ...days }
    return unwrap(await insist(() => this.fixtures.root('putRetention', { body }))).rule
  }

  /** Fails unless the log has each end in this journal exactly once. */
  async logHasEnds(journal: readonly JournalEntry[]): Promise<void> {
    const leaves = await logHashes(this.fixtures.root, this.tenant)
    for (const { hash } of endsIn(journal)) expect(leaves.filter((leaf) => leaf === hash)).toEqual([hash])
  }

  /** Exports all runs to a folder, and returns what verifying the folder says. */
  async exported(folder: string): Promise<string> {
    const env = { COUNTERSIGN_URL: this.fixtures.url, COUNTERSIGN_KEY: this.fixtures.rootKey }
    const keys = join(hurt.stack.state.dir, 'keys.json')
    writeFileSync(keys, (await countersign(['keys', 'list', '--json', '--tenant', this.tenant], { env })).out)
    expect(await countersign(['export', '--to', folder], { env })).toMatchObject({ code: 0 })
    const { code, out } = await countersign(['verify', '--export', folder, '--keys', keys], { env })
    expect([code, out]).toEqual([0, expect.stringContaining('verified')])
    return out
  }

  async attested(call: Call): Promise<void> {
    await attested(this.stack, call, this.tenant)
  }

  async run(): Promise<string> {
    return unwrap(await this.agent.client('createRun', { body: {} })).id
  }

  async propose(run?: string, tool = this.tool, key?: string): Promise<Call> {
    const body = { tool, args: { text: SECRET } }
    const headers = key === undefined ? {} : { 'idempotency-key': key }
    const { client } = this.agent
    return unwrap(
      await insist(() =>
        run === undefined
          ? client('proposeCallInNewRun', { body, headers })
          : client('proposeCall', { params: { run }, body, headers }),
      ),
    )
  }

  async read({ run, id }: Call): Promise<Call> {
    return unwrap(await insist(() => this.agent.client('readCall', { params: { run, call: id } })))
  }

  async ranCall(run?: string, key?: string, tool?: string): Promise<Call> {
    const call = await this.propose(run, tool, key)
    if (call.approval !== undefined) unwrap(await this.fixtures.approve(call.approval.id))
    await this.peer.run(call.id, { stdout: `out of ${call.id}` })
    return this.read(call)
  }

  /** Waits until the call has lost these kinds, and returns what is left. */
  without(call: Call, ...kinds: readonly (keyof Keep)[]): Promise<Call> {
    return eventually(
      `${call.id} is without ${kinds.join()}`,
      async () => {
        const now = await this.read(call)
        return kinds.every((kind) => now.removed?.[kind] !== undefined) && now
      },
      30_000,
    )
  }

  /** The archive's row of the run's entry: how many kinds were removed, and when it asks again. */
  entryOf(run: string): { readonly removed: number; readonly ask_again_at: number } | undefined {
    const kind = 'countersign-archive'
    const id = objectId(kind, `${this.tenant}/${archiveOf(objectOfRun(run))}`)
    const file = join(hurt.stack.state.edge, 'objects', kind, `${id}.sqlite`)
    if (!existsSync(file)) return undefined
    const db = new DatabaseSync(file, { readOnly: true })
    try {
      return db
        .prepare('select removed, ask_again_at from entries where object = ? and digest is not null')
        .get(objectOfRun(run)) as ReturnType<Keeper['entryOf']>
    } catch {
      return undefined // the edge writes it
    } finally {
      db.close()
    }
  }

  isSealed({ id, run }: Call, removed = 0): Promise<true> {
    const found = () => this.entryOf(run)?.removed
    return eventually(`${id} is sealed`, () => found() === removed, 30_000).catch((error: Error) => {
      throw new Error(`${error.message}; the archive knows ${found()} as removed`, { cause: error })
    })
  }
}

test.concurrent('outputs are removed first, then arguments, after their days of `retention_day_ms`; the rest says so and still verifies', async () => {
  const own = await Keeper.of('retention-kinds')
  expect(LIMITS.retention_day_ms).toBe(24 * 60 * 60 * 1_000) // if it is not shortened for a test
  const key = own.fixtures.name()
  const call = await own.ranCall(undefined, key, own.asking)
  const second = await own.ranCall(call.run)
  const third = await own.ranCall(call.run)
  await own.isSealed(call)
  const approval = call.approval?.id ?? ''
  const journal = await journalOf(own.stack, call.run)
  const before = Date.now()
  const rule = await own.keep({ outputs: 1, arguments: 4 })
  const dumb = await own.without(call, 'outputs')
  const last = Math.max(...journal.map(({ at_ms }) => at_ms))
  expect(Date.now() - last).toBeGreaterThanOrEqual(DAY_MS)
  expect(dumb.removed?.outputs).toEqual({ at_ms: expect.any(Number), rule, days: 1 })
  expect(dumb.removed?.outputs?.at_ms).toBeGreaterThanOrEqual(before - 1)
  expect(dumb).toEqual({ ...call, result: { ...call.result, output: '' }, removed: dumb.removed })
  const params = { run: call.run, call: call.id }
  const output = await own.agent.client('followCall', { params, query: {}, headers: {} }).catch(() => null)
  if (output !== null) expect(refusalOf(output)).toBe('410 removed')
  await own.attested(dumb)
  expect(unwrap(await own.agent.client('readAttestation', { params })).call.arguments).toEqual({
    text: SECRET,
  })

  const left = await own.without(call, 'arguments')
  expect(Date.now() - last).toBeGreaterThanOrEqual(4 * DAY_MS)
  for (const one of [second, third]) await own.without(one, 'outputs', 'arguments')
  expect([left.plan, left.digest, left.attestation]).toEqual([undefined, call.digest, call.attestation])
  const bundle = unwrap(await own.agent.client('readAttestation', { params }))
  const said: unknown = JSON.parse(Buffer.from(bundle.removed?.payload ?? '', 'base64').toString())
  expect([bundle.call.arguments, bundle.call.plan, said]).toEqual([
    null,
    null,
    {
      of: 'parts',
      tenant: 'retention-kinds',
      call: call.id,
      digest: call.digest,
      removed: { outputs: dumb.removed?.outputs, arguments: left.removed?.arguments },
    },
  ])
  for (const one of [call, second, third]) await own.attested(one)
  expect(await journalOf(own.stack, call.run)).toEqual(journal)
  await own.logHasEnds(journal)

  // Nothing that reads the run, the inbox or the lists has the arguments or the output.
  const shown = [
    left,
    bundle,
    unwrap(await own.fixtures.root('readApproval', { params: { id: approval } })),
    unwrap(await own.fixtures.root('listApprovals', { query: { status: 'ended' } })).items.filter(
      ({ id }) => id === approval,
    ),
  ]
  expect(JSON.stringify(shown)).not.toMatch(/tell nobody|out of/)
  expect(shown[3]).toHaveLength(1)
  expect(refusalOf(await own.agent.client('explainCall', { params }))).toBe('410 removed')
  await own.isSealed(call, 2)
}, 90_000)

test.concurrent('L2 L4 a pruned call is found by its key, and cancel, answer, claim and settlement are refused', async () => {
  const own = await Keeper.of('retention-pruned')
  const key = own.fixtures.name()
  const waiting = await own.propose(undefined, own.asking)
  unwrap(
    await own.fixtures.root('answerApproval', {
      params: { id: waiting.approval?.id ?? '' },
      body: { decision: 'deny' },
    }),
  )
  const link = await own.fixtures.link(own.fixtures.root, waiting.approval?.id ?? '').catch(() => null)
  const call = await own.propose(undefined, own.tool, key)
  const claim = unwrap(await own.peer.claim(call.id))
  const settlement = own.peer.settlement(claim, { stdout: 'once' })
  const settled = unwrap(await own.peer.client('settle', { body: settlement }))
  await own.keep({ outputs: 1, arguments: 1 })
  const left = await own.without(call, 'outputs', 'arguments')
  await own.without(waiting, 'arguments')
  expect(await own.propose(undefined, own.tool, key)).toEqual(left)
  const other = { body: { tool: own.tool, args: { text: 'other' } }, headers: { 'idempotency-key': key } }
  expect(refusalOf(await own.agent.client('proposeCallInNewRun', other))).toBe('409 idempotency_key_reused')
  expect(refusalOf(await own.agent.client('cancelCall', { params: { run: call.run, call: call.id } }))).toBe(
    '409 already_ended',
  )
  expect(refusalOf(await own.fixtures.approve(waiting.approval?.id ?? ''))).toBe('409 already_answered')
  expect(refusalOf(await own.peer.claim(call.id))).toBe('409 not_claimable')
  expect(
    refusalOf(await own.peer.client('settle', { body: own.peer.settlement(claim, { stdout: 'twice' }) })),
  ).toBe('409 stale_fence')
  expect(unwrap(await own.peer.client('settle', { body: settlement }))).toEqual(settled)
  if (link !== null) {
    const page = await fetch(link)
    expect([page.status, (await page.text()).includes(SECRET)]).toEqual([200, false])
  }
  expect((await journalOf(own.stack, call.run)).length).toBe(3)
  const next = await own.ranCall(call.run) // the run goes on where it ended
  expect([next.removed, (await own.read(call)).removed]).toEqual([undefined, left.removed])
}, 90_000)

test.concurrent('nothing under a legal hold is removed, and lifting it lets the rule go on', async () => {
  const own = await Keeper.of('retention-held')
  const [held, free] = [await own.ranCall(await own.run()), await own.ranCall(await own.run())]
  const onRun = { params: { subject: held.run }, body: { reason: 'case 12' } }
  const onTenant = { params: { subject: 'tenant' }, body: { reason: 'case 13' } }
  unwrap(await own.fixtures.root('putHold', onTenant))
  unwrap(await own.fixtures.root('putHold', onRun))
  expect(
    unwrap(await own.fixtures.root('listHolds', {})).items.map(({ subject, reason }) => [subject, reason]),
  ).toEqual([
    ['tenant', 'case 13'],
    [held.run, 'case 12'],
  ])
  await own.keep({ outputs: 1, arguments: 1 })
  await Promise.all([own.isSealed(held), own.isSealed(free)])
  await sleep(3 * DAY_MS)
  expect([await own.read(held), await own.read(free)]).toEqual([held, free])
  unwrap(await own.fixtures.root('liftHold', onTenant))
  await own.without(free, 'outputs', 'arguments')
  await sleep(DAY_MS)
  expect(await own.read(held)).toEqual(held)
  expect(refusalOf(await own.fixtures.root('liftHold', onTenant))).toBe('404 not_found')
  unwrap(await own.fixtures.root('liftHold', onRun))
  await own.without(held, 'outputs', 'arguments')
  const entries = unwrap(await own.fixtures.root('readTenantJournal', { query: {} })).items
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

test.concurrent('an archive asks `removals_at_once` objects at a time; those that could not remove anything are asked again after `removal_retry_ms`', async () => {
  const own = await Keeper.of('retention-asked')
  const held: Call[] = []
  for (let i = 0; i < 3; i++) held.push(await own.ranCall(await own.run()))
  const runs = held.map(({ run }) => run)
  for (const subject of runs)
    unwrap(await own.fixtures.root('putHold', { params: { subject }, body: { reason: 'case 15' } }))
  for (const call of held) await own.isSealed(call)
  await sleep(DAY_MS) // so that the rule is late for all of them
  await own.keep({ outputs: 1, arguments: 1 })
  // Those that are asked in one go are asked again at the same time.
  const askedAt = (run: string): number => own.entryOf(run)?.ask_again_at ?? 0
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
  expect(await Promise.all(held.map((call) => own.read(call)))).toEqual(held)
  for (const subject of runs)
    unwrap(await own.fixtures.root('liftHold', { params: { subject }, body: { reason: 'closed' } }))
  for (const call of held) await own.without(call, 'outputs', 'arguments')
}, 90_000)

test.concurrent('a rule has at most `keep_days`, a tenant at most `LIMITS.holds`, and both are checked before they are stored', async () => {
  const own = await Keeper.of('retention-limits')
  const put = (body: unknown) => own.fixtures.root('putRetention', { body: body as Keep })
  for (const body of [
    { ...FOR_EVER, outputs: 2, arguments: 1 },
    { ...FOR_EVER, outputs: null, arguments: 1 },
    { ...FOR_EVER, outputs: 0, arguments: 1 },
    { ...FOR_EVER, outputs: 1.5, arguments: 2 },
    { ...FOR_EVER, outputs: 1, arguments: LIMITS.keep_days + 1 },
    { outputs: 1, arguments: 3, evidence: 2 },
    { outputs: 1, arguments: null, evidence: 2 },
    { outputs: 1, arguments: 1 },
  ])
    expect(refusalOf(await put(body))).toBe('400 invalid_request')
  expect(unwrap(await own.fixtures.root('readRetention', {})).keep).toEqual(FOR_EVER)
  expect(LIMITS.keep_days).toBe(36_500)
  expect(
    (await put({ outputs: LIMITS.keep_days, arguments: LIMITS.keep_days, evidence: LIMITS.keep_days })).ok,
  ).toBe(true)
  const hold = (subject: string, reason = 'why') =>
    own.fixtures.root('putHold', { params: { subject }, body: { reason } })
  const [first = ''] = [await own.run()]
  expect(refusalOf(await hold('tenant', ' '))).toBe('400 invalid_request')
  expect(refusalOf(await hold(`${first.slice(0, -1)}${first.endsWith('0') ? '1' : '0'}`))).toBe(
    '404 not_found',
  )
  const runs = [first]
  for (let i = 0; i < 3; i++) runs.push(await own.run())
  const said = []
  for (const run of runs) said.push(await hold(run))
  expect(said.map((one) => (one.ok ? 'ok' : refusalOf(one)))).toEqual(['ok', 'ok', 'ok', '409 limit_reached'])
  expect((await hold(first, 'again')).ok).toBe(true)
  for (const run of runs.slice(0, 3))
    unwrap(await own.fixtures.root('liftHold', { params: { subject: run }, body: { reason: 'done' } }))
  const auditor = await own.fixtures.operator(['auditor'])
  expect(refusalOf(await own.fixtures.clientOf(auditor.key)('putRetention', { body: FOR_EVER }))).toBe(
    '403 forbidden',
  )
})

test.concurrent('a tenant under a legal hold is not deleted', async () => {
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

test.concurrent('L2 L4 a call without its evidence is a tombstone: each read says so, nothing runs again, the log has its leaf, and exports still verify', async () => {
  const own = await Keeper.of('retention-evidence')
  const key = own.fixtures.name()
  const asked = await own.propose(undefined, own.asking, key)
  const approval = asked.approval?.id ?? ''
  const link = await own.fixtures.link(own.fixtures.root, approval)
  unwrap(await own.fixtures.approve(approval))
  await own.peer.run(asked.id, { stdout: 'out of it' })
  const call = await own.read(asked)
  const other = await own.propose(call.run)
  const claim = unwrap(await own.peer.claim(other.id))
  const settlement = own.peer.settlement(claim, { stdout: 'once' })
  unwrap(await own.peer.client('settle', { body: settlement }))
  await own.isSealed(call)
  const { run } = call
  const params = { run, call: call.id }
  const journal = await journalOf(own.stack, run)
  const { envelope } = unwrap(await own.agent.client('readAttestation', { params }))
  const [before, after] = ['before', 'after'].map((name) => join(hurt.stack.state.dir, name))
  await own.exported(before ?? '')
  const rule = await own.keep({ outputs: 1, arguments: 1, evidence: 1 })
  const left = await own.without(call, 'outputs', 'arguments', 'evidence')
  await own.isSealed(call, 3)
  await own.keep(FOR_EVER)
  const [end, head] = [endsIn(journal)[0], journal.at(-1)]
  expect(left.removed?.evidence).toEqual({
    at_ms: expect.any(Number),
    rule,
    days: 1,
    statement_sha256: sha256(Buffer.from(envelope.payload, 'base64')),
    entry: { seq: end?.seq, hash: end?.hash },
    head: { seq: head?.seq, hash: head?.hash },
  })
  const { attestation, created_at_ms, ended_at_ms, digest, state, tool: name, id } = call
  expect(left).toMatchObject({ id, run, tool: name, state, digest, attestation, created_at_ms, ended_at_ms })
  expect([left.approval, left.plan, left.origin, left.decision.policies]).toEqual([
    undefined,
    undefined,
    undefined,
    [],
  ])

  const GONE = '410 removed'
  expect([
    refusalOf(await own.agent.client('readJournal', { params: { run }, query: {} })),
    refusalOf(await own.agent.client('readAttestation', { params })),
    refusalOf(await own.agent.client('readSnapshot', { params })),
    refusalOf(await own.agent.client('explainCall', { params })),
    refusalOf(await own.fixtures.root('readApproval', { params: { id: approval } })),
    refusalOf(await own.fixtures.approve(approval)),
    refusalOf(await own.agent.client('cancelCall', { params })),
    refusalOf(await own.peer.claim(other.id)),
    refusalOf(await own.peer.client('settle', { body: settlement })),
  ]).toEqual([
    GONE,
    GONE,
    GONE,
    GONE,
    GONE,
    GONE,
    '409 already_ended',
    '409 not_claimable',
    '409 stale_fence',
  ])
  const page = await fetch(link)
  expect([page.ok, /tell nobody|Approve/.test(await page.text())]).toEqual([false, false])
  const inbox = unwrap(await own.fixtures.root('listApprovals', { query: { status: 'ended' } })).items
  expect(inbox.filter(({ id }) => id === approval)).toEqual([])
  expect(await own.propose(undefined, own.asking, key)).toEqual(left)
  const changed = { body: { tool: own.asking, args: { text: 'other' } }, headers: { 'idempotency-key': key } }
  expect(refusalOf(await own.agent.client('proposeCallInNewRun', changed))).toBe('409 idempotency_key_reused')
  const listed = unwrap(await own.agent.client('listCalls', { query: {} })).items
  expect(listed.find((one) => one.id === call.id)).toMatchObject({ state, ended_at_ms })
  await own.logHasEnds(journal)

  // The run goes on from its last hash, and its exports from before and after verify, together too.
  await own.ranCall(run)
  const later = await journalOf(own.stack, run, { seq: head?.seq ?? 0, hash: head?.hash ?? '' })
  expect(later.map(({ kind }) => kind)).toEqual(['allowed', 'claimed', 'succeeded'])
  await own.exported(after ?? '')
  expect(await own.exported(before ?? '')).toMatch(/removed +the evidence of \d+ calls, by retention rule /)
}, 90_000)

const kept = ({ state, digest, attestation }: Call) => ({ state, digest, attestation })

test('SIGKILL at any moment of a removal loses nothing that is kept, and removes all that is due', async () => {
  const own = await Keeper.of('retention-killed')
  const calls: Call[] = []
  for (let i = 0; i < 4; i++) {
    const first = await own.ranCall(await own.run())
    calls.push(first, await own.ranCall(first.run), await own.ranCall(first.run))
  }
  for (let i = 0; i < 4; i++) calls.push(await own.ranCall()) // these share an object
  for (const call of calls) await own.isSealed(call)
  const runs = [...new Set(calls.map(({ run }) => run))]
  const ends = (await Promise.all(runs.map((run) => journalOf(own.stack, run)))).flatMap(endsIn)
  const rule = await own.keep({ outputs: 1, arguments: 2, evidence: 3 })
  for (let round = 0; round < 8; round++) {
    await sleep(150 + 130 * round)
    await whileDead(hurt.stack.edge, () => undefined)
    const now = await Promise.all(calls.map((call) => own.read(call)))
    expect(now.map(kept)).toEqual(calls.map(kept))
  }
  for (const call of calls) {
    const { removed, result } = await own.without(call, 'outputs', 'arguments', 'evidence')
    expect([removed?.outputs?.rule, removed?.evidence?.rule, result?.output]).toEqual([rule, rule, ''])
    expect(removed?.evidence?.entry.hash).toBe(ends.find((end) => end.call === call.id)?.hash)
    await own.isSealed(call, 3)
  }
  for (const run of runs) {
    const read = await own.agent.client('readJournal', { params: { run }, query: {} })
    expect(refusalOf(read)).toBe('410 removed')
  }
}, 180_000)
