// Promise: a run that has ended and rested is sealed. Its object then stores nothing, and every
// answer about it is as before. A change stores it again. SIGKILL at any moment loses nothing and
// repeats nothing, and a damaged entry is reported and never answered.

import { randomBytes } from 'node:crypto'
import { cpSync, existsSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { archiveOf } from '../../edge/archive/archive-of.ts'
import { sha256 } from '../../shared/bytes/json.ts'
import { isSharedRun, objectOfRun, runObjectName, splitId } from '../../shared/ids.ts'
import type { Call } from '../../shared/wire/calls.ts'
import { attested, journalOf } from '../support/auditor.ts'
import { countersign } from '../support/countersign.ts'
import { eventually } from '../support/eventually.ts'
import { Fixtures, refusalOf, unwrap } from '../support/fixtures.ts'
import { HurtStack, insist } from '../support/stack/hurt-stack.ts'
import { objectId } from '../support/stack/object-file.ts'
import { SharedKill } from '../support/stack/shared-kill.ts'
import { installation, newTenant } from '../support/tenants.ts'
import { timedKey } from '../support/timed-key.ts'
import { PeerWorker } from '../support/worker/peer-worker.ts'

const REST_S = 1

let hurt: HurtStack
let fixtures: Fixtures
let agent: Awaited<ReturnType<Fixtures['agent']>>
let peer: PeerWorker
let tool: string
let asking: string
beforeAll(async () => {
  hurt = await HurtStack.start({ sealAfterS: REST_S, worker: 'idle' })
  fixtures = new Fixtures('archive', hurt.stack.dev)
  agent = await fixtures.agent()
  tool = await fixtures.tool()
  asking = await fixtures.tool({ sensitive: true, input_files: true })
  peer = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool)
})
afterAll(() => hurt?.stop())

// ── The files of the objects ──

const fileOf = (kind: 'run' | 'archive' | 'session', name: string, tenant = 'default'): string =>
  join(
    hurt.stack.state.edge,
    'objects',
    `countersign-${kind}`,
    `${objectId(`countersign-${kind}`, kind === 'run' ? runObjectName(tenant, name) : `${tenant}/${name}`)}.sqlite`,
  )
const query = <T>(file: string, sql: string, ...values: string[]): T[] => {
  if (!existsSync(file)) return []
  const db = new DatabaseSync(file, { readOnly: true, timeout: 5_000 })
  try {
    return db.prepare(sql).all(...values) as T[]
  } catch (thrown) {
    // The edge is changing the file, or has just deleted it.
    if (/locked|readonly|no such table|disk I\/O error/.test(String(thrown))) return []
    throw thrown
  } finally {
    db.close()
  }
}
const tablesOf = (run: string, tenant?: string): number =>
  query(fileOf('run', run, tenant), "select 1 from sqlite_schema where substr(name, 1, 4) <> '_cf_'").length
const ENTRY =
  'select entries.digest, count(*) as parts from entries join entry_parts on entry = entries.id where object = ? and entries.digest is not null group by entries.id'
const entryOf = (run: string, tenant?: string): Array<{ digest: string; parts: number }> => {
  const name = objectOfRun(run)
  const file = fileOf('archive', archiveOf(name), tenant)
  if (query(file, "select 1 from sqlite_schema where name = 'entries'").length === 0) return []
  return query(file, ENTRY, name)
}
const isSealed = (run: string, tenant?: string): boolean =>
  tablesOf(run, tenant) === 0 && entryOf(run, tenant).length > 0
const sealed = (run: string, tenant?: string): Promise<true> =>
  eventually(`${run} is sealed`, () => isSealed(run, tenant), 30_000).catch((error: Error) => {
    const rows = query(
      fileOf('run', run, tenant),
      'select n, state, due_at, unmirrored, cancel_at from calls',
    )
    throw new Error(`${error.message}; it has ${JSON.stringify(rows)}`, { cause: error })
  })

const kills = new SharedKill(() => hurt.stack.edge)
const whileDead = (change?: () => void): Promise<void> => kills.whileDead(change)
/** A test that runs beside others. Each waits more than it computes. */
const together = (title: string, work: () => Promise<void>): void =>
  test.concurrent(title, { timeout: 180_000 }, kills.with(work))

// ── Calls ──

const propose = async (given?: string, name = tool, key?: string): Promise<Call> => {
  const body = { tool: name, args: { text: 'a' } }
  const headers = key === undefined ? {} : { headers: { 'idempotency-key': key } }
  if (given === undefined && key !== undefined)
    return unwrap(await insist(() => agent.client('proposeCallInNewRun', { body, ...headers })))
  const run = given ?? unwrap(await insist(() => agent.client('createRun', { body: {} }))).id
  return unwrap(await insist(() => agent.client('proposeCall', { params: { run }, body, ...headers })))
}
const read = async ({ run, id }: Call): Promise<Call> =>
  unwrap(await insist(() => agent.client('readCall', { params: { run, call: id } })))
/** An ended call with output. */
async function ranCall(run?: string, key?: string): Promise<Call> {
  const call = await propose(run, tool, key)
  await peer.run(call.id, { stdout: `out of ${call.id}\n`, stderr: 'é' })
  return read(call)
}

/** Differs in each answer. A bundle's proof is under the newest checkpoint; `attested` verifies it. */
const CHANGING = /"request_id":"[^"]*"|retry: \d+|"log":\{[^}]*\}/g
/** The answers of every route that reads a run and its calls, to its agent and to an operator. */
async function answers(run: string, calls: readonly Call[]): Promise<Record<string, string>> {
  const paths = [
    `/v1/runs/${run}`,
    `/v1/runs/${run}/files`,
    `/v1/runs/${run}/journal`,
    `/v1/runs/${run}/journal?after=2`,
    ...calls.flatMap(({ id, approval }) => [
      `/v1/calls/${id}`,
      ...['', '/output', '/attestation', '/snapshot', '/explanation'].map(
        (part) => `/v1/runs/${run}/calls/${id}${part}`,
      ),
      ...(approval === undefined ? [] : [`/v1/approvals/${approval.id}`]),
    ]),
  ]
  const said: Record<string, string> = {}
  for (const key of [agent.key, fixtures.rootKey])
    for (const path of paths) {
      const answer = await fetch(`${fixtures.url}${path}`, { headers: { authorization: `Bearer ${key}` } })
      said[`${key === agent.key ? 'agent' : 'operator'} ${path}`] =
        `${answer.status} ${(await answer.text()).replace(CHANGING, '')}`
    }
  return said
}

test('a sealed run answers every read as before, from less than a fifth of its space', async () => {
  const first = await ranCall(undefined, fixtures.name())
  const denied = unwrap(
    await agent.client('proposeCall', {
      params: { run: first.run },
      body: { tool: asking, args: { text: 'x' } },
    }),
  )
  const other = await ranCall(first.run)
  unwrap(await agent.client('cancelCall', { params: { run: first.run, call: denied.id } }))
  const calls = await Promise.all([first, denied, other].map(read))
  const { policies } = unwrap(await fixtures.root('readPolicies', {}))
  const candidate = `@id("candidate") forbid (principal, action == Action::"tool.execute/${tool}", resource);`
  const { version } = unwrap(
    await fixtures.root('putPolicies', { body: { policies: { ...policies, candidate }, activate: false } }),
  )
  const rehearsed = async () => {
    const params = { version: String(version) }
    const result = unwrap(await fixtures.root('rehearsePolicyVersion', { params, body: {} }))
    return [result.summary, result.flips, result.unrehearsable]
  }
  // The tenant's lists learn of the run a moment after its calls.
  await eventually('both calls are rehearsed', async () => (await rehearsed())[1]?.length === 2)
  const asRehearsed = await rehearsed()
  const before = await answers(first.run, calls)
  expect(Object.values(before).filter((text) => text.startsWith('200')).length).toBeGreaterThan(30)
  await sealed(first.run)
  expect(await answers(first.run, calls)).toEqual(before)
  expect(await rehearsed()).toEqual(asRehearsed)
  await whileDead()
  expect(await answers(first.run, calls)).toEqual(before)
  expect(await rehearsed()).toEqual(asRehearsed)
  expect(isSealed(first.run)).toBe(true)
  for (const call of calls) await attested(asAgent(), call)
  await journalOf(asAgent(), first.run)
  expect(statSync(fileOf('run', first.run)).size).toBeLessThan(8_192)
})

/** A run of many calls, with their keys: the first and the last are executed, the others cancelled. */
async function longRun(cancelled: number): Promise<{
  calls: Call[]
  sent: Array<{ key: string; text: string }>
}> {
  const first = await ranCall()
  const [calls, sent] = [[first], [{ key: '', text: '' }]]
  const params = { run: first.run }
  for (let i = 0; i < cancelled; i++) {
    const [key, text] = [fixtures.name(), `${i} ${randomBytes(512).toString('hex')}`]
    const body = { tool, args: { text } }
    const headers = { 'idempotency-key': key }
    const call = unwrap(await insist(() => agent.client('proposeCall', { params, body, headers })))
    calls.push(unwrap(await agent.client('cancelCall', { params: { run: call.run, call: call.id } })))
    sent.push({ key, text })
  }
  calls.push(await ranCall(first.run))
  return { calls, sent }
}

test('a run of many calls is sealed in many parts, and a read loads only those that it needs', async () => {
  const { calls, sent } = await longRun(80)
  const [first = raise()] = calls
  const journal = await journalOf(asAgent(), first.run)
  await sealed(first.run)
  expect(entryOf(first.run)[0]?.parts).toBeGreaterThan(3)
  await whileDead()
  for (const call of [first, ...calls.slice(60, 63), ...calls.slice(-2)])
    expect(await read(call)).toEqual(call)
  expect(await journalOf(asAgent(), first.run)).toEqual(journal)
  const again = calls[70] ?? raise()
  const repeated = await agent.client('proposeCall', {
    params: { run: first.run },
    body: { tool, args: { text: sent[70]?.text } },
    headers: { 'idempotency-key': sent[70]?.key ?? '' },
  })
  expect(unwrap(repeated)).toEqual(again)
  expect(isSealed(first.run)).toBe(true)
  // A change puts all parts back. If the edge dies before all are back, it puts them back again.
  for (let i = 0; i < 4; i++) {
    const change = propose(first.run).catch(() => undefined)
    await sleep(5 * i)
    await whileDead()
    await change
    for (const call of [first, ...calls.slice(60, 63)]) expect(await read(call)).toEqual(call)
  }
  unwrap(await insist(() => agent.client('cancelRun', { params: { run: first.run } })))
  expect((await journalOf(asAgent(), first.run)).slice(0, journal.length)).toEqual(journal)
  await sealed(first.run)
  for (const call of [first, ...calls.slice(60, 63), ...calls.slice(-2)])
    expect(await read(call)).toEqual(call)
}, 180_000)

test('SIGKILL at any moment of sealing and storing again loses no call and repeats none', async () => {
  const runs: Call[][] = []
  for (let round = 0; round < 5; round++) {
    const fresh = await Promise.all(Array.from({ length: 6 }, () => ranCall()))
    runs.push(...fresh.map((call) => [call]))
    // Those of earlier rounds are sealed, and get another call now and then.
    const again = runs.filter((_, i) => i % 5 === round % 5)
    await Promise.all(again.map(async (calls) => calls.push(await ranCall(calls[0]?.run))))
    await sleep(900 * REST_S + 350 * round)
    await whileDead()
  }
  const isWhole = async (calls: readonly Call[]): Promise<void> => {
    const [{ run } = raise()] = calls
    expect(await Promise.all(calls.map(read))).toEqual(calls)
    await Promise.all(calls.map((call) => attested(asAgent(), call)))
    expect((await journalOf(asAgent(), run)).length).toBe(3 * calls.length)
  }
  await Promise.all(runs.map(isWhole))
  for (const [first] of runs) await sealed(first?.run ?? '')
  expect(await Promise.all(runs.flat().map(read))).toEqual(runs.flat())
}, 120_000)

together(
  'D18 the tenant’s storage counts a sealed run with its entry, and after a change with its rows again',
  async () => {
    const tenant = 'archive-counted'
    const own = await newTenant(hurt.stack.dev, tenant)
    const [member, plain] = [await own.agent(), await own.tool({ limits: { output_bytes: 1024 * 1024 } })]
    const worker = await PeerWorker.enrol(own.url, own.root, own.pool)
    const counted = async () =>
      unwrap(await installation(hurt.stack.dev)('readTenant', { params: { tenant } })).use?.calls_bytes ?? 0
    const { id: run } = unwrap(await member.client('createRun', { body: {} }))
    const next = async () =>
      unwrap(await member.client('proposeCall', { params: { run }, body: { tool: plain, args: {} } }))
    const empty = await counted()
    const output = 'x'.repeat(512 * 1024)
    const [first, live] = [await next(), await next()]
    await worker.run(first.id, { stdout: output })
    await eventually('the rows are counted', async () => (await counted()) > empty + output.length)
    unwrap(await member.client('cancelCall', { params: { run, call: live.id } }))
    await sealed(run, tenant)
    await eventually('only the entry is counted', async () => (await counted()) < empty + output.length / 2)
    await next()
    await eventually('the rows are counted again', async () => (await counted()) > empty + output.length)
  },
)

together(
  'L2 an equal proposal with the key of a sealed call returns that call, and runs nothing',
  async () => {
    const key = fixtures.name()
    const alone = await ranCall(undefined, key)
    const inRun = await ranCall(undefined)
    const again = fixtures.name()
    const keyed = await ranCall(inRun.run, again)
    await Promise.all([sealed(alone.run), sealed(inRun.run)])
    await whileDead() // so that no object has them in memory
    expect(await propose(undefined, tool, key)).toEqual(alone)
    expect(await propose(inRun.run, tool, again)).toEqual(keyed)
    const other = { tool, args: { text: 'other' } }
    const headers = { 'idempotency-key': key }
    expect(refusalOf(await agent.client('proposeCallInNewRun', { body: other, headers }))).toBe(
      '409 idempotency_key_reused',
    )
    expect((await journalOf(asAgent(), alone.run)).length).toBe(3)
  },
)

together(
  'a new call in a sealed run stores the run again, goes on where it ended, and is sealed with it',
  async () => {
    const first = await ranCall()
    await sealed(first.run)
    const [entry] = entryOf(first.run)
    const second = await ranCall(first.run)
    expect([splitId(second.id).n, tablesOf(first.run) > 0]).toEqual([2, true])
    expect(await read(first)).toEqual(first)
    const kinds = (await journalOf(asAgent(), first.run)).map(({ kind }) => kind)
    expect(kinds).toEqual(['allowed', 'claimed', 'succeeded', 'allowed', 'claimed', 'succeeded'])
    await sealed(first.run)
    const entries = entryOf(first.run)
    expect([entries.length, entries[0]?.digest === entry?.digest]).toEqual([1, false])
    const third = await ranCall(first.run)
    expect([splitId(third.id).n, await read(first), await read(second)]).toEqual([3, first, second])
  },
)

together('runs that share an object are sealed with it, and are found by their keys', async () => {
  const sharing = await fixtures.agent({ tools: [tool] })
  const key = timedKey()
  const inNewRun = async (headers: Record<string, string> = {}) =>
    unwrap(
      await insist(() =>
        sharing.client('proposeCallInNewRun', { body: { tool, args: { text: 'a' } }, headers }),
      ),
    )
  const readShared = async ({ run, id }: Call) =>
    unwrap(await insist(() => sharing.client('readCall', { params: { run, call: id } })))
  const proposed = [await inNewRun({ 'idempotency-key': key }), await inNewRun(), await inNewRun()]
  for (const { id } of proposed) await peer.run(id, { stdout: `out of ${id}` })
  const calls = await Promise.all(proposed.map(readShared))
  const [first = raise(), second = raise()] = calls
  expect(new Set(calls.map(({ run }) => objectOfRun(run))).size).toBe(1)
  expect(calls.map(({ run }) => isSharedRun(run))).toEqual([true, true, true])
  await sealed(first.run)
  await whileDead()
  for (const call of calls) expect(await readShared(call)).toEqual(call)
  expect(await inNewRun({ 'idempotency-key': key })).toEqual(first)
  expect(isSealed(first.run)).toBe(true)
  const fourth = await inNewRun() // unless 17 minutes end here, in the same object
  if (objectOfRun(fourth.run) === objectOfRun(first.run)) expect(tablesOf(first.run)).toBeGreaterThan(0)
  await peer.run(fourth.id)
  await sealed(fourth.run)
  for (const call of calls) {
    expect(await readShared(call)).toEqual(call)
    await attested({ ...hurt, agent: sharing.client } as HurtStack, call)
  }
  expect((await journalOf({ ...hurt, agent: sharing.client } as HurtStack, second.run)).length).toBe(3)
})

together(
  'L4 a cancel, an answer and a late settlement of a sealed call are refused as of any ended call',
  async () => {
    const ran = await propose(undefined)
    const claim = unwrap(await peer.claim(ran.id))
    const settlement = peer.settlement(claim, { stdout: 'once' })
    const settled = unwrap(await peer.client('settle', { body: settlement }))
    const asked = await propose(undefined, asking)
    const approval = asked.approval?.id ?? ''
    const link = await fixtures.link(fixtures.root, approval)
    unwrap(await fixtures.root('answerApproval', { params: { id: approval }, body: { decision: 'deny' } }))
    const said = async () => [
      refusalOf(await agent.client('cancelCall', { params: { run: ran.run, call: ran.id } })),
      refusalOf(await fixtures.approve(approval)),
      refusalOf(await peer.client('settle', { body: peer.settlement(claim, { stdout: 'twice' }) })),
      refusalOf(await peer.claim(asked.id)),
      unwrap(await peer.client('settle', { body: settlement })),
      unwrap(await peer.heartbeat([{ call: ran.id, fence: 1 }])).stop,
      await fetch(link).then(async (page) => [page.status, (await page.text()).includes('<button')]),
    ]
    const before = await said()
    expect(before.slice(0, 4)).toEqual([
      '409 already_ended',
      '409 already_answered',
      '409 stale_fence',
      '409 already_ended',
    ])
    expect(before[4]).toEqual(settled)
    await Promise.all([sealed(ran.run), sealed(asked.run)])
    expect(await said()).toEqual(before)
    expect([isSealed(ran.run), isSealed(asked.run)]).toEqual([true, true])
  },
)

together('a cancelled run and a file put into a sealed run are stored and sealed again', async () => {
  const call = await ranCall()
  await sealed(call.run)
  const cancelled = unwrap(await agent.client('cancelRun', { params: { run: call.run } }))
  expect(cancelled.state).toBe('cancelled')
  await eventually('it is stored', () => tablesOf(call.run) > 0)
  await sealed(call.run)
  expect(unwrap(await agent.client('readRun', { params: { run: call.run } }))).toEqual(cancelled)
  const other = await ranCall()
  await sealed(other.run)
  unwrap(
    await agent.client('putFile', {
      params: { run: other.run, sha256: sha256('hello') },
      body: Buffer.from('hello'),
    }),
  )
  await sleep(3_000 * REST_S)
  expect(tablesOf(other.run) > 0).toBe(true) // its file has not expired
  expect(unwrap(await agent.client('listFiles', { params: { run: other.run } })).items.length).toBe(1)
})

together(
  'the sealed runs and the sessions of a deleted tenant are removed, also those of a damaged entry',
  async () => {
    const name = 'archive-acme'
    const acme = await newTenant(hurt.stack.dev, name)
    const { client: by, name: own } = await acme.agent()
    const acmeTool = await acme.tool()
    const acmeAsking = await acme.tool({ sensitive: true })
    const acmePeer = await PeerWorker.enrol(acme.url, acme.root, acme.pool)
    const runs: string[] = []
    for (let i = 0; i < 2; i++) {
      const run = unwrap(await by('createRun', { body: { session: `s${i}` } })).id
      const propose = async (tool: string): Promise<Call> =>
        unwrap(await by('proposeCall', { params: { run }, body: { tool, args: { text: `${name} alone` } } }))
      await acmePeer.run((await propose(acmeTool)).id)
      const asked = await propose(acmeAsking)
      const body = { decision: 'approve', scope: 'session' } as const
      unwrap(await acme.root('answerApproval', { params: { id: asked.approval?.id ?? '' }, body }))
      await acmePeer.run(asked.id)
      runs.push(run)
    }
    const sessions = [0, 1].map((i) => fileOf('session', `${own}/s${i}`, name))
    const rowsOf = (file: string): number => query(file, 'select name from sqlite_schema').length
    expect(Math.min(...sessions.map(rowsOf))).toBeGreaterThan(0)
    for (const run of runs) await sealed(run, name)
    const [first = ''] = runs
    const archive = fileOf('archive', archiveOf(objectOfRun(first)), name)
    await whileDead(() => {
      const db = new DatabaseSync(archive)
      db.prepare('update entries set digest = ? where object = ?').run('', objectOfRun(first))
      db.close()
    })
    const governor = installation(hurt.stack.dev)
    unwrap(await governor('suspendTenant', { params: { tenant: name }, body: {} }))
    unwrap(await governor('deleteTenant', { params: { tenant: name }, body: { name } }))
    const isErased = async () => unwrap(await governor('readTenant', { params: { tenant: name } })).erased
    await eventually('the tenant is erased', isErased, 60_000)
    expect([rowsOf(archive), sessions.map(rowsOf)]).toEqual([0, [0, 0]])
    await whileDead()
    expect(runs.map((run) => entryOf(run, name))).toEqual([[], []])
  },
)

together(
  'an entry of a later state is not replaced by that of an earlier instance of the object',
  async () => {
    const call = await ranCall()
    await sealed(call.run)
    const file = fileOf('archive', archiveOf(call.run))
    const weighs = (sql: string): Promise<void> =>
      whileDead(() => {
        const db = new DatabaseSync(file)
        expect(db.prepare(sql).run(call.run).changes).toBe(1)
        db.close()
      })
    expect(query(file, 'select weight from entries where object = ?', call.run)).toEqual([{ weight: 3 }])
    await weighs('update entries set weight = 1000 where object = ?')
    const [before] = entryOf(call.run)
    const second = await ranCall(call.run)
    await sleep(4_000 * REST_S)
    expect([entryOf(call.run)[0]?.digest, tablesOf(call.run) > 0]).toEqual([before?.digest, true])
    await weighs('update entries set weight = 3 where object = ?')
    expect([await read(call), await read(second)]).toEqual([call, second])
    await sealed(call.run)
    expect(query(file, 'select weight from entries where object = ?', call.run)).toEqual([{ weight: 6 }])
  },
)

together('an object that is erased while it is sealed leaves nothing in the archive', async () => {
  const name = 'archive-erased'
  const acme = await newTenant(hurt.stack.dev, name)
  const { client: by } = await acme.agent()
  const acmeTool = await acme.tool()
  const acmePeer = await PeerWorker.enrol(acme.url, acme.root, acme.pool)
  const run = unwrap(await by('createRun', { body: {} })).id
  const body = { tool: acmeTool, args: { text: 'a' } }
  for (let i = 0; i < 24; i++) {
    const call = unwrap(await by('proposeCall', { params: { run }, body }))
    await acmePeer.run(call.id, { stdout: randomBytes(40_000).toString('base64') })
  }
  const archive = fileOf('archive', archiveOf(run), name)
  const governor = installation(hurt.stack.dev)
  await eventually(
    'parts of the entry are staged',
    () => query(archive, "select 1 from sqlite_schema where name = 'entries'").length > 0,
    30_000,
  )
  unwrap(await governor('suspendTenant', { params: { tenant: name }, body: {} }))
  unwrap(await governor('deleteTenant', { params: { tenant: name }, body: { name } }))
  const isErased = async () => unwrap(await governor('readTenant', { params: { tenant: name } })).erased
  await eventually('the tenant is erased', isErased, 60_000)
  await sleep(2_000 * REST_S)
  await whileDead()
  expect([tablesOf(run, name), query(archive, 'select name from sqlite_schema')]).toEqual([0, []])
})

together(
  'a run that has grown too large to be sealed adds nothing to the archive, and its entry stays',
  async () => {
    const wide = await fixtures.tool({ limits: { output_bytes: 1024 * 1024 } })
    const first = await ranCall()
    const { run } = first
    await sealed(run)
    const archive = fileOf('archive', archiveOf(run))
    const OF_ENTRY = 'where entry = (select id from entries where object = ?)'
    const parts = () => query(archive, `select digest from entry_parts ${OF_ENTRY}`, run)
    const before = parts()
    for (let i = 0; i < 12; i++) {
      const call = await propose(run, wide)
      await peer.run(call.id, { stdout: randomBytes(780_000).toString('base64') })
    }
    await sleep(4_000 * REST_S) // for attempts to seal it
    expect([parts(), before.length, isSealed(run)]).toEqual([before, 1, false])
    expect(await read(first)).toEqual(first)
  },
)

together('after a crash between the entry and the removal of the rows, the run is its rows', async () => {
  const call = await ranCall()
  const [file, aside] = [fileOf('run', call.run), join(hurt.stack.state.dir, 'aside.sqlite')]
  await whileDead()
  for (const side of ['', '-wal']) if (existsSync(file + side)) cpSync(file + side, aside + side)
  await sealed(call.run)
  const [before] = entryOf(call.run)
  await whileDead(() => {
    for (const side of ['', '-wal', '-shm']) rmSync(file + side, { force: true })
    for (const side of ['', '-wal']) if (existsSync(aside + side)) cpSync(aside + side, file + side)
  })
  const second = await ranCall(call.run)
  expect([splitId(second.id).n, await read(call)]).toEqual([2, call])
  await sealed(call.run)
  expect(entryOf(call.run)).not.toEqual([before])
  // And one in which the removal left no file at all.
  await whileDead(() => {
    for (const side of ['', '-wal', '-shm']) rmSync(file + side, { force: true })
  })
  expect([await read(call), await read(second)]).toEqual([call, second])
})

together('a backup contains the entries of sealed runs', async () => {
  const call = await ranCall()
  await sealed(call.run)
  const folder = join(hurt.stack.state.dir, 'backup')
  const { code, err } = await countersign(['backup', folder], {
    env: { COUNTERSIGN_STATE: hurt.stack.state.dir },
  })
  expect([code, err]).toEqual([0, ''])
  const copy = fileOf('archive', archiveOf(call.run)).replace(hurt.stack.state.edge, folder)
  const copied = query(copy, ENTRY, call.run)
  expect(copied).toEqual(entryOf(call.run))
})

together('a damaged entry is reported with its own code, and nothing of it is answered', async () => {
  const flipped = (column: string): string =>
    `${column} = cast(substr(${column}, 1, 99) || x'00' || substr(${column}, 101) as blob)`
  const OF_ENTRY = 'where entry = (select id from entries where object = ?)'
  const damages = [
    `update entry_parts set ${flipped('bytes')} ${OF_ENTRY}`,
    `delete from entry_parts ${OF_ENTRY}`,
    `update entries set ${flipped('"index"')} where object = ?`,
  ]
  const keyed = async () => {
    const key = fixtures.name()
    return { key, call: await ranCall(undefined, key) }
  }
  const damaged = await Promise.all(damages.map(keyed))
  await Promise.all(damaged.map(({ call }) => sealed(call.run)))
  await whileDead(() => {
    for (const [i, damage] of damages.entries()) {
      const { run } = damaged[i]?.call ?? raise()
      const db = new DatabaseSync(fileOf('archive', archiveOf(run)))
      expect(db.prepare(damage).run(run).changes).toBe(1)
      db.close()
    }
  })
  const said = async (key: string, { run, id }: Call): Promise<string[]> => [
    refusalOf(await agent.client('readCall', { params: { run, call: id } })),
    refusalOf(await agent.client('readJournal', { params: { run }, query: {} })),
    refusalOf(await agent.client('proposeCall', { params: { run }, body: { tool, args: { text: 'a' } } })),
    // L2: with its key it is not a new run.
    refusalOf(
      await agent.client('proposeCallInNewRun', {
        body: { tool, args: { text: 'a' } },
        headers: { 'idempotency-key': key },
      }),
    ),
  ]
  for (const { key, call } of damaged)
    expect(await said(key, call)).toEqual(Array(4).fill('500 archive_damaged'))
})

const asAgent = (): HurtStack => ({ ...hurt, agent: agent.client }) as HurtStack
const raise = (): never => {
  throw new Error('there is no such call')
}
