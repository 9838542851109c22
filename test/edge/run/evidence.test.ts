// One run with every kind of ending that a test can reach in time. Its journal is one chain; each
// ending has an attestation that verifies offline, and is a leaf of the tenant's log under its
// signed head (L5, J01).

import { beforeAll, expect, test } from 'vitest'
import { canonical } from '../../../shared/bytes/json.ts'
import { Bundle, verifyBundle } from '../../../shared/evidence/bundle.ts'
import { verifyCheckpoint } from '../../../shared/evidence/checkpoint.ts'
import { PublicKey } from '../../../shared/evidence/ed25519.ts'
import type { JournalEntry } from '../../../shared/evidence/journal.ts'
import { GENESIS, verifyChain } from '../../../shared/evidence/journal.ts'
import { leafHash, verifyInclusion } from '../../../shared/evidence/merkle.ts'
import { LIMITS } from '../../../shared/limits.ts'
import { client } from '../../../shared/routes/client.ts'
import type { Call } from '../../../shared/wire/calls.ts'
import { changed, others, paths, reached } from '../../shared/tamper.ts'
import { endsIn } from '../../support/auditor.ts'
import { eventually } from '../../support/eventually.ts'
import { Fixtures, refusalOf, unwrap } from '../../support/fixtures.ts'
import { logHashes, logHead } from '../../support/log-reader.ts'
import { sharedStack } from '../../support/stack/stack.ts'
import { PeerWorker } from '../../support/worker/peer-worker.ts'

const dev = sharedStack()
const fixtures = new Fixtures('evidence', dev)
const agent = await fixtures.agent()
const peer = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool)
const schema = { type: 'object', properties: { n: { type: 'integer' } } }
const [tool, sensitive, urgent, refused] = [
  await fixtures.tool({ input_schema: schema, idempotent: false }),
  await fixtures.tool({ capabilities: ['network'] }),
  await fixtures.tool({ capabilities: ['network'], approval_ttl_s: 1 }),
  await fixtures.tool({
    egress: { mode: 'strict', hosts: ['ok.example'], named_by: { arg: 'hosts' } },
    input_schema: { type: 'object' },
  }),
]

const run = unwrap(await agent.client('createRun', { body: {} })).id
const propose = async (name: string, args = {}) =>
  unwrap(await agent.client('proposeCall', { params: { run }, body: { tool: name, args } }))
const read = async (call: string) => unwrap(await agent.client('readCall', { params: { run, call } }))
const answer = async ({ approval }: Call, decision: 'approve' | 'deny') =>
  unwrap(
    await fixtures.root('answerApproval', {
      params: { id: approval?.id ?? '' },
      body: { decision, reason: 'a test' },
    }),
  )
const cancel = async ({ id }: Call) =>
  void unwrap(await agent.client('cancelCall', { params: { run, call: id } }))

let ended: Record<string, Call>
let journal: JournalEntry[]
const bundles = new Map<string, Bundle>()

beforeAll(async () => {
  const lost = await propose(tool)
  unwrap(await peer.claim(lost.id)) // and nothing else
  const expired = await propose(urgent)

  const succeeded = await propose(tool)
  await peer.run(succeeded.id, { stdout: 'fine' })
  const approved = await propose(sensitive)
  await answer(approved, 'approve')
  await peer.run(approved.id)
  const failed = await propose(tool)
  await peer.run(failed.id, { outcome: { kind: 'exit', code: 2 } })
  const timedOut = await propose(tool)
  await peer.run(timedOut.id, { outcome: { kind: 'timeout' } })
  const stopped = await propose(tool)
  const claim = unwrap(await peer.claim(stopped.id))
  await cancel(stopped)
  unwrap(await peer.settle(claim, { outcome: { kind: 'cancelled' } }))
  const rejected = await propose(sensitive)
  await answer(rejected, 'deny')
  const cancelledAsked = await propose(sensitive)
  await cancel(cancelledAsked)
  const cancelledGranted = await propose(tool)
  await cancel(cancelledGranted)
  const egress = await propose(refused, { hosts: ['evil.example'] })
  const withdrawn = await propose(tool)
  await fixtures.withPolicies(
    {
      denying: `@id("${fixtures.name()}") forbid (principal, action == Action::"tool.execute/${tool}", resource);`,
    },
    async () => {
      expect(refusalOf(await peer.claim(withdrawn.id))).toBe('409 not_claimable')
    },
  )
  const denied = await fixtures.withPolicies(
    {
      denying: `@id("${fixtures.name()}") forbid (principal, action == Action::"tool.execute/${tool}", resource);`,
    },
    () => propose(tool),
  )
  const calls = {
    lost,
    expired,
    succeeded,
    approved,
    failed,
    timedOut,
    stopped,
    rejected,
    cancelledAsked,
    cancelledGranted,
    egress,
    withdrawn,
    denied,
  }
  ended = await eventually(
    'every call has ended',
    async () => {
      const now = await Promise.all(
        Object.entries(calls).map(async ([name, { id }]) => [name, await read(id)] as const),
      )
      return now.every(([, call]) => call.ended_at_ms !== undefined) ? Object.fromEntries(now) : undefined
    },
    40_000,
  )
  journal = unwrap(await agent.client('readJournal', { params: { run } })).items
  for (const { id } of Object.values(ended))
    bundles.set(id, unwrap(await agent.client('readAttestation', { params: { run, call: id } })))
}, 60_000)

const keys = async () => unwrap(await fixtures.root('keys', { query: {} }))

test('the run of this test has every kind of ending', () => {
  expect(
    Object.fromEntries(
      Object.entries(ended).map(([name, { state, result }]) => [
        name,
        `${state} ${result?.error?.code ?? ''}`.trim(),
      ]),
    ),
  ).toEqual({
    lost: 'indeterminate worker_lost',
    expired: 'expired approval_expired',
    succeeded: 'succeeded',
    approved: 'succeeded',
    failed: 'failed runtime_failure',
    timedOut: 'timed_out timed_out',
    stopped: 'cancelled cancelled',
    rejected: 'rejected denied',
    cancelledAsked: 'cancelled cancelled',
    cancelledGranted: 'cancelled cancelled',
    egress: 'denied egress_denied',
    withdrawn: 'cancelled denied',
    denied: 'denied denied',
  })
})

test('J01 the journal is one hash chain from its first entry to the head that the run shows', async () => {
  const { journal: head } = unwrap(await agent.client('readRun', { params: { run } }))
  expect(verifyChain(journal, GENESIS)).toEqual({ ok: true, value: { seq: head.seq, hash: head.head } })
})

test('L5 each ending has one journal entry, which names the attestation that the call shows', () => {
  for (const { id, attestation } of Object.values(ended)) {
    const entries = journal.filter(({ call, body }) => call === id && body['attestation'] !== undefined)
    expect(entries.map(({ body }) => [body['attestation'], body['execution_sha256']])).toEqual([
      [attestation?.id, attestation?.execution_sha256],
    ])
  }
})

test('L5 each ending has an attestation that verifies offline, signed by the edge and by the worker if one ran it', async () => {
  const keyFile = await keys()
  for (const [name, call] of Object.entries(ended)) {
    const bundle = bundles.get(call.id)
    if (bundle === undefined) throw new Error(`${name} has no bundle`)
    const verdict = verifyBundle(bundle, keyFile)
    expect([name, verdict.ok, verdict.checks.filter((check) => !check.ok)]).toEqual([name, true, []])
    const ran = ['succeeded', 'failed', 'timed_out'].includes(call.state) || name === 'stopped'
    expect([name, bundle.envelope.signatures.length, bundle.grant !== null]).toEqual([
      name,
      ran ? 2 : 1,
      ran || call.state === 'indeterminate',
    ])
    expect(verdict.statement?.predicate).toMatchObject({
      state: call.state,
      facts: { call: call.id, digest: call.digest, agent: agent.name },
    })
  }
})

test('the attestation of an approved call contains the approval and who gave it', () => {
  const call = ended['approved']
  const bundle = bundles.get(call?.id ?? '')
  const payload = JSON.parse(Buffer.from(bundle?.envelope.payload ?? '', 'base64').toString())
  expect(payload.predicate.facts.approval).toMatchObject({
    id: call?.approval?.id,
    answers: [{ by: 'root', decision: 'approve', channel: 'api' }],
  })
})

test('T01 a change to any member of a bundle is detected', async () => {
  const keyFile = await keys()
  for (const name of ['approved', 'denied']) {
    const bundle = bundles.get(ended[name]?.id ?? '')
    if (bundle === undefined) throw new Error(`${name} has no bundle`)
    for (const path of paths(bundle)) {
      for (const to of others(reached(bundle, path))) {
        const bent = changed(bundle, path, to)
        if (canonical(bent) === canonical(bundle)) continue
        const read = Bundle.safeParse(bent)
        const holds = read.success && verifyBundle(read.data, keyFile).ok
        if (holds) expect.fail(`${path.join('.')} may be ${JSON.stringify(to)}`)
      }
    }
  }
})

test('J01 each ending is a leaf of the log, with a proof to the signed head', async () => {
  const hashes = journal.filter(({ body }) => body['attestation'] !== undefined).map(({ hash }) => hash)
  expect(hashes).toHaveLength(Object.keys(ended).length)
  const log = await eventually('the log has them all', async () => {
    const all = await logHashes(fixtures.root)
    return hashes.every((hash) => all.includes(hash)) && all
  })
  const head = await logHead(fixtures.root)
  const edge = (await keys()).keys.find(({ role }) => role === 'edge')?.x ?? ''
  expect(PublicKey.parse(edge)).toBe(edge)
  expect(verifyCheckpoint(head.note, head.origin, edge)).toEqual({
    ok: true,
    value: { origin: head.origin, size: head.size, root: head.root },
  })
  for (const { hash, call, body } of journal) {
    if (body['attestation'] === undefined) continue
    const index = log.indexOf(hash)
    expect(log.lastIndexOf(hash)).toBe(index) // delivered at least once, taken once
    const params = { tenant: 'default', call: call ?? '' }
    const { proof, checkpoint, ...shown } = unwrap(await client(fixtures.url)('logProof', { params }))
    expect(shown).toEqual({ index, hash })
    const signed = verifyCheckpoint(checkpoint, head.origin, edge)
    if (!signed.ok) throw new Error(signed.error)
    const { size, root } = signed.value
    const leaf = leafHash(Buffer.from(hash, 'hex'))
    expect(verifyInclusion({ leaf, index, size, root, proof })).toBe(true)
    expect(verifyInclusion({ leaf, index: index + 1, size, root, proof })).toBe(false)
  }
})

test('the list of ended calls follows the order of the log', async () => {
  const listed = unwrap(await fixtures.root('listEndedCalls', { query: { last: 100 } })).items
  const mine = listed.filter(({ call }) => Object.values(ended).some(({ id }) => id === call))
  expect(mine).toHaveLength(Object.keys(ended).length)
  for (const { call, state, agent: by } of mine)
    expect([state, by]).toEqual([Object.values(ended).find(({ id }) => id === call)?.state, agent.name])
  const places = listed.map(({ seq }) => seq)
  expect(places).toEqual(places.toSorted((a, b) => a - b))
  const leaves = await logHashes(fixtures.root)
  const ends = new Map(endsIn(journal).map(({ call, hash }) => [call, hash]))
  expect(mine.map(({ seq }) => leaves[seq - 1])).toEqual(mine.map(({ call }) => ends.get(call)))
})

test('L7 neither journal nor log contains an argument or an output', async () => {
  const secret = 'a-secret-of-this-test'
  const open = await fixtures.tool()
  const call = await propose(open, { text: secret })
  await peer.run(call.id, { stdout: secret, stderr: secret })
  const items = unwrap(
    await agent.client('readJournal', { params: { run }, query: { after: journal.length } }),
  ).items
  expect(items.length).toBeGreaterThan(2)
  expect(
    JSON.stringify([items, unwrap(await fixtures.root('listEndedCalls', { query: { last: 100 } }))]),
  ).not.toContain(secret)
})

test('a bundle has the journal of its run up to the end of the call, without other calls if they are too many', async () => {
  const approved = bundles.get(ended['approved']?.id ?? '')
  const [first = 0, last = 0] = [approved?.journal.at(0)?.seq, approved?.journal.at(-1)?.seq]
  expect(approved?.journal).toEqual(journal.slice(first - 1, last))
  const budget = { max_calls_per_run: 10, max_denied_per_run: LIMITS.bundle_entries }
  const patient = (await fixtures.agent({ budget })).client
  const { id: long } = unwrap(await patient('createRun', { body: {} }))
  const proposeIn = async (name: string, args = {}) =>
    unwrap(await patient('proposeCall', { params: { run: long }, body: { tool: name, args } }))
  const waiting = await proposeIn(sensitive)
  for (let i = 0; i < LIMITS.bundle_entries; i += 20)
    await Promise.all(Array.from({ length: 20 }, () => proposeIn(refused, { hosts: ['evil.example'] })))
  const params = { run: long, call: waiting.id }
  unwrap(await patient('cancelCall', { params }))
  const bundle = unwrap(await patient('readAttestation', { params }))
  expect(bundle.journal.map(({ seq, kind }) => [seq, kind])).toEqual([
    [1, 'approval_requested'],
    [LIMITS.bundle_entries + 2, 'cancelled'],
  ])
  const { ok, checks } = verifyBundle(bundle, await keys())
  expect([ok, checks.filter(({ name }) => name.startsWith('each entry shown fits its hash'))]).toEqual([
    true,
    [
      expect.objectContaining({
        ok: true,
        detail: expect.stringMatching(/^\d+ entries are left out; those from entry \d+ on are linked$/),
      }),
    ],
  ])
})
