// The edge countersigns only what its grant describes (T01). A statement with any member changed is
// refused, even if the worker that holds the grant signs it again, and the call still runs.

import { expect, test } from 'vitest'
import { canonical } from '../../../shared/bytes/json.ts'
import { verifyBundle } from '../../../shared/evidence/bundle.ts'
import { countersign, type Envelope, seal } from '../../../shared/evidence/dsse.ts'
import { executionDigest, STATEMENT_TYPE, type Statement } from '../../../shared/evidence/statement.ts'
import { LIMITS } from '../../../shared/limits.ts'
import type { Claim, Settlement } from '../../../shared/wire/workers.ts'
import { changed, others, paths, reached, withChanges } from '../../shared/tamper.ts'
import { Fixtures, refusalOf, unwrap } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'
import { grantOf, newSigner, PeerWorker } from '../../support/worker/peer-worker.ts'

const dev = sharedStack()
const fixtures = new Fixtures('settlement', dev)
const agent = await fixtures.agent()
const tool = await fixtures.tool({ limits: { output_bytes: LIMITS.output_bytes } })
const [peer, other] = [
  await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool),
  await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool),
]

const INVALID = '422 attestation_invalid'
const propose = async () => unwrap(await agent.client('proposeCallInNewRun', { body: { tool, args: {} } }))
async function running(): Promise<{ call: Awaited<ReturnType<typeof propose>>; claim: Claim }> {
  const call = await propose()
  return { call, claim: unwrap(await peer.claim(call.id)) }
}
const send = async (body: Settlement, by = peer) => {
  const answer = await by.client('settle', { body })
  return answer.ok ? `settled as ${answer.value.state}` : refusalOf(answer)
}
const read = async ({ run, id }: { run: string; id: string }) =>
  unwrap(await agent.client('readCall', { params: { run, call: id } }))
/** Runs all of them with bounded concurrency. */
async function inLanes<T>(
  lanes: number,
  items: readonly T[],
  work: (item: T) => Promise<void>,
): Promise<void> {
  const waiting = [...items]
  const lane = async (): Promise<void> => {
    for (let item = waiting.shift(); item !== undefined; item = waiting.shift()) await work(item)
  }
  await Promise.all(Array.from({ length: lanes }, lane))
}
const SEEN = { stdout: 'what it wrote', stderr: 'what it complained of' }

test('T01 a statement with any member changed is refused, although its worker signed it', async () => {
  const { call, claim } = await running()
  const statement = peer.statement(claim, SEEN)
  const asSent = peer.settlement(claim, SEEN)
  const cases = paths(statement)
    .flatMap((path) =>
      others(reached(statement, path)).map((to) => ({ path, bent: changed<unknown>(statement, path, to) })),
    )
    .filter(({ bent }) => canonical(bent) !== canonical(statement))
  expect(cases.length).toBeGreaterThan(300)
  await inLanes(16, cases, async ({ path, bent }) => {
    const answer = await send({ ...asSent, envelope: seal(STATEMENT_TYPE, bent, peer.signer) })
    // A changed subject names another call, which is not running under this fence.
    const expected =
      path[0] === 'subject' ? expect.stringMatching(/^(422 attestation_invalid|409 stale_fence)$/) : INVALID
    expect([path.join('.'), answer]).toEqual([path.join('.'), expected])
  })
  expect((await read(call)).state).toBe('running')
  expect(await send(asSent)).toBe('settled as succeeded')
})

const ENVELOPES: ReadonlyArray<readonly [string, (envelope: Envelope, statement: Statement) => Envelope]> = [
  [
    'a payload swapped under its signature',
    (e, s) => ({
      ...e,
      payload: base64(canonical(withChanges(s, { 'predicate.execution.outcome.code': 1 }))),
    }),
  ],
  ['a payload’s type swapped', (e) => ({ ...e, payloadType: 'application/vnd.countersign.grant+json' })],
  ['another payload type, signed as such', (_, s) => seal('application/json', s, peer.signer)],
  ['a second signature by a stranger', (e) => countersign(e, newSigner())],
  ['a second signature by another worker', (e) => countersign(e, other.signer)],
  ['the same signature twice', (e) => ({ ...e, signatures: [...e.signatures, ...e.signatures] })],
  ['a stranger’s signature', (_, s) => seal(STATEMENT_TYPE, s, newSigner())],
  ['another worker’s signature', (_, s) => seal(STATEMENT_TYPE, s, other.signer)],
  [
    'a stranger’s signature under the worker’s name',
    (_, s) => renamed(seal(STATEMENT_TYPE, s, newSigner()), peer.signer.kid),
  ],
  ['the edge’s name', (e) => renamed(e, dev.keys.keys[0]?.kid ?? '')],
  [
    'a signature of zeros',
    (e) => ({ ...e, signatures: [{ keyid: peer.signer.kid, sig: `${'A'.repeat(86)}==` }] }),
  ],
  ['JSON in another order', (_, s) => raw(JSON.stringify(Object.fromEntries(Object.entries(s).reverse())))],
  ['JSON with spaces', (_, s) => raw(JSON.stringify(s, null, 1))],
  ['a member twice', (_, s) => raw(canonical(s).replace('"_type":', '"_type":"x","_type":'))],
  ['no JSON', () => raw('statement')],
  ['a list', () => raw('[]')],
  ['null', () => raw('null')],
]

const base64 = (text: string): string => Buffer.from(text).toString('base64')
const renamed = (envelope: Envelope, keyid: string): Envelope => ({
  ...envelope,
  signatures: envelope.signatures.map(({ sig }) => ({ keyid, sig })),
})
const raw = (text: string): Envelope =>
  countersign({ payloadType: STATEMENT_TYPE, payload: base64(text), signatures: [] }, peer.signer)

test.each(ENVELOPES)(
  'T01 an envelope that is not signed by exactly its worker over a canonical statement is refused: %s',
  async (_name, bent) => {
    const { call, claim } = await running()
    const asSent = peer.settlement(claim, SEEN)
    expect(await send({ ...asSent, envelope: bent(asSent.envelope, peer.statement(claim, SEEN)) })).toBe(
      INVALID,
    )
    expect((await read(call)).state).toBe('running')
    unwrap(await peer.settle(claim))
  },
)

test('T01 output that the statement does not describe is refused', async () => {
  const { claim } = await running()
  const asSent = peer.settlement(claim, SEEN)
  for (const output of [
    { ...asSent.output, stdout: base64('what it did not write') },
    { ...asSent.output, stdout: '' },
    { stdout: asSent.output.stderr, stderr: asSent.output.stdout },
    { ...asSent.output, stderr: `${asSent.output.stderr.slice(0, -4)}AAAA` },
  ]) {
    expect(await send({ ...asSent, output })).toBe(INVALID)
  }
  expect(await send(asSent)).toBe('settled as succeeded')
})

/**
 * A settlement with a correct digest and signature whose changes contradict itself, plan or grant.
 */
const restated = (claim: Claim, changes: Record<string, unknown>): Settlement =>
  peer.settlement(claim, SEEN, (statement) => {
    const bent = withChanges(statement, changes)
    const { facts, execution } = bent.predicate
    return {
      ...bent,
      predicate: { ...bent.predicate, execution_sha256: executionDigest(facts.digest, execution) },
    }
  })

test.each([
  [
    'an ending that the outcome does not have',
    { 'predicate.state': 'failed', 'predicate.error': 'runtime_failure' },
  ],
  ['an outcome that the ending does not have', { 'predicate.execution.outcome': { kind: 'exit', code: 1 } }],
  [
    'an ending that only the edge may state',
    { 'predicate.state': 'indeterminate', 'predicate.error': 'worker_lost' },
  ],
  ['a timeout that did not happen', { 'predicate.timed_out': true }],
  ['no outcome', { 'predicate.execution.outcome': null }],
  ['the edge as executor', { 'predicate.execution.executor': 'edge' }],
  ['more kept than written', { 'predicate.execution.stdout.bytes': 3 }],
  ['cut, though all is there', { 'predicate.execution.stdout.truncated': true }],
  ['output called complete, although part is missing', { 'predicate.execution.stdout.bytes': 1_000_000 }],
  ['another fence', { 'predicate.grant.fence': 2 }],
  ['another worker', { 'predicate.grant.worker': 'wrk_00000000000000000000000000' }],
  ['no grant', { 'predicate.grant': null }],
  ['another decision than the recorded one', { 'predicate.facts.decision.effect': 'ask' }],
  [
    'an approval that was not given',
    { 'predicate.facts.approval': { id: 'apr_00000000000000000000000000_1', scope: 'once', answers: [] } },
  ],
])('T01 a statement that contradicts itself or its grant is refused: %s', async (_name, changes) => {
  const { claim } = await running()
  expect(await send(restated(claim, changes))).toBe(INVALID)
  expect(await send(restated(claim, {}))).toBe('settled as succeeded')
})

const CONNECTION = {
  host: 'evil.example',
  port: 443,
  address: '192.0.2.1',
  bytes_out: 1,
  bytes_in: 1,
  verdict: 'allowed',
}
const EX = 'predicate.execution'
const LATER = Date.now() + 3_600_000
test.each([
  [
    'of tier B for a plan of tier C',
    { [`${EX}.executor`]: 'sandbox_tier_b_linux_rlimits' },
    `${EX}.executor`,
  ],
  [
    'with no enforcement where the plan is strict',
    { [`${EX}.sandbox_enforcement`]: 'none' },
    `${EX}.sandbox_enforcement`,
  ],
  [
    'with a connection that was allowed to a host that is not listed',
    { [`${EX}.connections`]: [CONNECTION] },
    `${EX}.connections`,
  ],
  ['that begins after its end', { [`${EX}.started_at_ms`]: LATER }, `${EX}.started_at_ms`],
  [
    'that ends in the future',
    { [`${EX}.started_at_ms`]: LATER, [`${EX}.ended_at_ms`]: LATER },
    `${EX}.ended_at_ms`,
  ],
  [
    'that ends before its grant',
    { [`${EX}.started_at_ms`]: 1, [`${EX}.ended_at_ms`]: 1 },
    `${EX}.ended_at_ms`,
  ],
  [
    'with the attestation id of another call',
    { 'predicate.attestation_id': 'att_00000000000000000000000000_1' },
    'predicate.attestation_id',
  ],
  [
    'with files that the plan does not keep',
    { [`${EX}.files`]: { files: [], left: [], more: 0 } },
    `${EX}.files`,
  ],
  ['by more memory than planned', { [`${EX}.limits.memory_bytes`]: 2 ** 34 }, `${EX}.limits.memory_bytes`],
])(
  'D4 D11 T01 the edge refuses to countersign a statement of an execution %s, and names the field',
  async (_name, changes, field) => {
    const { call, claim } = await running()
    const answer = await peer.client('settle', { body: restated(claim, changes) })
    expect(refusalOf(answer)).toBe(INVALID)
    expect((answer.ok ? [] : (answer.error.errors ?? [])).map(({ at }) => at)).toContain(
      `/${field.replaceAll('.', '/')}`,
    )
    expect((await read(call)).state).toBe('running')
    expect(await send(restated(claim, {}))).toBe('settled as succeeded')
  },
)

test('D4 K04 only a worker that had proven cgroups when it claimed may attest a cgroup', async () => {
  const none = { ok: false, lack: null, checks: [{ name: 'said by a test', ok: false, seen: '' }] }
  const plain = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool)
  unwrap(await plain.prove(['B', 'C'], (proof) => ({ ...proof, cgroups: none })))
  const call = await propose()
  const claim = unwrap(await plain.claim(call.id, ['B', 'C'], { cgroups: true }))
  expect(grantOf(claim.grant).proven).toEqual({ cgroups: false })
  expect(refusalOf(await plain.settle(claim, { cgroup: true }))).toBe(INVALID)
  unwrap(await plain.settle(claim, { cgroup: false }))
})

test('Q05 only the holder of the fence settles a call, and only under its fence number', async () => {
  const { claim } = await running()
  const asSent = peer.settlement(claim, SEEN)
  expect(await send(asSent, other)).toBe('409 stale_fence')
  for (const fence of [2, 3, 1_000]) expect(await send({ ...asSent, fence })).toBe('409 stale_fence')
  expect(await send(asSent)).toBe('settled as succeeded')
})

test('T01 the settlement of one call settles no other', async () => {
  const [one, two] = [await running(), await running()]
  const first = peer.settlement(one.claim, SEEN)
  expect(await send(first)).toBe('settled as succeeded')
  const moved = peer.settlement(one.claim, SEEN, (statement) =>
    withChanges(statement, {
      'subject.0.name': two.call.id,
      'subject.0.digest.sha256': two.call.digest,
      'predicate.facts': grantOf(two.claim.grant).facts,
    }),
  )
  expect(await send(moved)).toBe(INVALID)
  expect((await read(two.call)).state).toBe('running')
})

test('Q04 a repeated settlement returns the first answer; a different one changes nothing', async () => {
  const { call, claim } = await running()
  const asSent = peer.settlement(claim, SEEN)
  const first = unwrap(await peer.client('settle', { body: asSent }))
  const before = await read(call)
  for (let i = 0; i < 3; i++) expect(unwrap(await peer.client('settle', { body: asSent }))).toEqual(first)
  expect(await send(peer.settlement(claim, { outcome: { kind: 'exit', code: 1 } }))).toMatch(
    /^409 (stale_fence|already_ended)$/,
  )
  expect(await read(call)).toEqual(before)
})

test('only one of twenty different simultaneous settlements is accepted', async () => {
  const { call, claim } = await running()
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, i) =>
      send(peer.settlement(claim, { outcome: { kind: 'exit', code: i } })),
    ),
  )
  expect(answers.filter((answer) => answer.startsWith('settled'))).toHaveLength(1)
  const code = answers.findIndex((answer) => answer.startsWith('settled'))
  expect((await read(call)).result?.exit_code).toBe(code)
})

test('every outcome leads to its final state, with an attestation that anyone can verify', async () => {
  for (const [outcome, state, error] of [
    [{ kind: 'exit', code: 0 }, 'succeeded', undefined],
    [{ kind: 'exit', code: 3 }, 'failed', 'runtime_failure'],
    [{ kind: 'exit', code: 126 }, 'failed', 'spawn_failed'],
    [{ kind: 'exit', code: 127 }, 'failed', 'spawn_failed'],
    [{ kind: 'signal', signal: 'SIGKILL' }, 'failed', 'runtime_failure'],
    [{ kind: 'signal', signal: 'SIGXCPU' }, 'failed', 'quota_exceeded'],
    [{ kind: 'timeout' }, 'timed_out', 'timed_out'],
    [{ kind: 'output_cap' }, 'failed', 'quota_exceeded'],
    [{ kind: 'memory_cap' }, 'failed', 'quota_exceeded'],
    [{ kind: 'cpu_cap' }, 'failed', 'quota_exceeded'],
    [{ kind: 'workspace_cap' }, 'failed', 'quota_exceeded'],
    [{ kind: 'cancelled' }, 'cancelled', 'cancelled'],
    [{ kind: 'refused', code: 'sandbox_unavailable', detail: 'no userns' }, 'failed', 'sandbox_unavailable'],
    [{ kind: 'infra', detail: 'bwrap broke' }, 'failed', 'sandbox_failed'],
  ] as const) {
    const { call, claim } = await running()
    if (outcome.kind === 'cancelled')
      unwrap(await agent.client('cancelCall', { params: { run: call.run, call: call.id } }))
    const { stdout, stderr } = outcome.kind === 'refused' ? { stdout: '', stderr: '' } : SEEN
    unwrap(await peer.settle(claim, { stdout, stderr, outcome }))
    const ended = await read(call)
    expect(ended).toMatchObject({
      state,
      result: { ok: state === 'succeeded', output: stdout, stderr },
    })
    expect(ended.result?.error?.code).toBe(error)
    const keys = unwrap(await fixtures.root('keys', { query: {} }))
    const bundle = unwrap(await agent.client('readAttestation', { params: { run: call.run, call: call.id } }))
    expect(verifyBundle(bundle, keys)).toMatchObject({ ok: true })
  }
})

test('the largest allowed output of both streams, text or binary, can be settled and read', async () => {
  for (const stdout of ['x'.repeat(LIMITS.output_bytes), `${'é'.repeat(LIMITS.output_bytes / 2)}`]) {
    const { call, claim } = await running()
    unwrap(await peer.settle(claim, { stdout, stderr: 'y'.repeat(LIMITS.output_bytes) }))
    const { result } = await read(call)
    expect([result?.output.length, result?.stderr.length]).toEqual([stdout.length, LIMITS.output_bytes])
  }
})

test('settled output replaces streamed output', async () => {
  const { call, claim } = await running()
  const chunk = (offset: number, text: string) =>
    peer.client('output', {
      params: { call: call.id },
      body: { fence: 1, stream: 'stdout', offset, data: base64(text) },
    })
  expect(unwrap(await chunk(0, 'half of it')).next).toBe(10)
  expect(unwrap(await chunk(0, 'half of it')).next).toBe(10)
  expect(
    refusalOf(
      await other.client('output', {
        params: { call: call.id },
        body: { fence: 1, stream: 'stdout', offset: 0, data: '' },
      }),
    ),
  ).toBe('409 stale_fence')
  unwrap(await peer.settle(claim, { stdout: 'half of it, and the rest' }))
  expect((await read(call)).result?.output).toBe('half of it, and the rest')
  expect(refusalOf(await chunk(10, 'too late'))).toBe('409 stale_fence')
})

test('a stream is stored without gaps, although chunks are repeated, left out or sent beyond its limit', async () => {
  const tool = await fixtures.tool({ limits: { output_bytes: 4_096 } })
  const call = unwrap(await agent.client('proposeCallInNewRun', { body: { tool, args: {} } }))
  const claim = unwrap(await peer.claim(call.id))
  const send = async (offset: number, text: string, stream: 'stdout' | 'stderr' = 'stdout') =>
    unwrap(
      await peer.client('output', {
        params: { call: call.id },
        body: { fence: 1, stream, offset, data: base64(text) },
      }),
    ).next
  expect(await send(0, '0123456789')).toBe(10)
  expect(await send(0, '0123456789')).toBe(10) // its answer was lost
  expect(await send(0, '0123456789abc')).toBe(13) // more output had been written by then
  expect(await send(20, 'behind a gap')).toBe(13)
  expect(await send(13, '')).toBe(13)
  expect(await send(0, 'another stream', 'stderr')).toBe(14)
  const large = 'z'.repeat(4_000)
  for (const offset of [1, 2, 3, 4, 5, 6, 7, 8]) expect(await send(offset, large)).toBe(4_000 + offset)
  expect(await send(4_008, large)).toBe(4_096) // the plan's bound
  expect(await send(4_096, large)).toBe(4_096)
  unwrap(await peer.settle(claim))
})
