// The life of a call in a real worker process: claimed, run, streamed, attested, settled, or ended
// early.

import { afterAll, beforeAll, expect, test } from 'vitest'
import { canonical, digestOf, sha256 } from '../../../shared/bytes/json.ts'
import { kidOf, payloadBytes, signedByExactly } from '../../../shared/evidence/dsse.ts'
import { edgeKeysOf, sealLink } from '../../../shared/evidence/keys.ts'
import { STATEMENT_TYPE } from '../../../shared/evidence/statement.ts'
import { LIMITS } from '../../../shared/limits.ts'
import { eventually } from '../../support/eventually.ts'
import { about, processesWith } from '../../support/stack/hurt-stack.ts'
import { newSigner } from '../../support/worker/fake-edge.ts'
import { LoneWorker } from '../../support/worker/lone-worker.ts'

let lone: LoneWorker
beforeAll(async () => {
  lone = await LoneWorker.make({ concurrency: 8 })
  await lone.start()
})
afterAll(() => lone?.end())

test('a call is run and settled with a statement that worker and edge have signed', async () => {
  const call = await lone.call({ argv: ['wc', '-c'], args: { text: 'zwölf Bytes' }, stdin: { arg: 'text' } })
  const { statement, stdout, envelope } = await lone.settled(call)
  expect(stdout.toString()).toBe('12\n')
  const { predicate } = statement
  expect(predicate.state).toBe('succeeded')
  expect(predicate.execution.outcome).toEqual({ kind: 'exit', code: 0 })
  expect(predicate.execution.stdout).toEqual({ bytes: 3, sha256: sha256('12\n'), kept: 3, truncated: false })
  expect(predicate.facts.args_sha256).toBe(digestOf(call.args))
  const { id, x } = lone.edge.worker ?? { id: '', x: '' }
  const { signer } = lone.edge
  const keys = new Map([
    [kidOf(x), x],
    [signer.kid, signer.x],
  ])
  expect(predicate.grant?.worker).toBe(id)
  expect(signedByExactly(envelope, STATEMENT_TYPE, keys)).toBe(true)
  expect(Buffer.from(payloadBytes(envelope)).toString()).toBe(canonical(statement))
  await eventually('the spool is empty', () => lone.spool.begun.size === 0)
})

test('a tool receives all arguments on standard input in the canonical form that the digest covers', async () => {
  const call = await lone.call({
    argv: ['cat'],
    args: { b: [1, { z: null, a: 'é' }], a: true },
    stdin: 'args',
  })
  const { stdout } = await lone.settled(call)
  expect(stdout.toString()).toBe('{"a":true,"b":[1,{"a":"é","z":null}]}')
})

test('an argument that is not a text can’t become standard input, and the call is refused with that reason', async () => {
  const call = await lone.call({ argv: ['cat'], args: { text: 7 }, stdin: { arg: 'text' } })
  const { statement } = await lone.settled(call)
  expect(statement.predicate).toMatchObject({
    state: 'failed',
    error: 'invalid_input',
    execution: { outcome: { kind: 'refused' } },
  })
})

test('a failing tool makes a failed call with its exit code and output', async () => {
  const call = await lone.call({ argv: ['sh', '-c', 'echo no >&2; exit 3'] })
  const { statement, stderr } = await lone.settled(call)
  expect(statement.predicate).toMatchObject({
    state: 'failed',
    error: 'runtime_failure',
    execution: { outcome: { kind: 'exit', code: 3 } },
  })
  expect(stderr.toString()).toBe('no\n')
})

test('a tool that runs too long is ended at its time limit', async () => {
  const call = await lone.call({ argv: ['sleep', '30'], timeout_ms: 300 })
  const { statement } = await lone.settled(call)
  expect(statement.predicate).toMatchObject({ state: 'timed_out', timed_out: true, error: 'timed_out' })
})

test('L8 a call of an unproven tier is refused, and the refusal reaches the edge', async () => {
  // The fake edge grants a plan that the worker has not offered to run.
  const call = lone.edge.propose({ argv: ['true'], tier: 'C' })
  Object.assign(call.plan, { egress: { mode: 'none', hosts: [] } })
  await lone.ringFor(call)
  const { statement } = await lone.settled(call)
  expect(statement.predicate).toMatchObject({ state: 'failed', error: 'sandbox_unavailable' })
})

test('a quick call sends its output only with its settlement', async () => {
  const sent: number[] = []
  while (!sent.includes(0) && sent.length < 10) {
    const before = lone.edge.count('output')
    const call = await lone.call({ argv: ['echo', 'quick'] })
    expect((await lone.settled(call)).stdout.toString()).toBe('quick\n')
    // On a busy machine some calls are slower.
    sent.push(lone.edge.count('output') - before + call.streamed.byteLength)
  }
  expect(sent).toContain(0)
})

test('a longer call streams its output in order, each byte once', async () => {
  const script = 'for i in 1 2 3 4 5; do echo line $i; sleep 0.2; done; sleep 0.3'
  const call = await lone.call({ argv: ['sh', '-c', script] })
  await eventually(
    'something streams before the end',
    () => call.state === 'running' && call.streamed.byteLength > 0,
  )
  const { stdout } = await lone.settled(call)
  expect(stdout.toString()).toBe('line 1\nline 2\nline 3\nline 4\nline 5\n')
  expect(call.streamed.toString()).toBe(stdout.toString().slice(0, call.streamed.byteLength))
  expect(call.streamed.byteLength).toBeGreaterThan('line 1\nline 2\n'.length)
})

test('V01 a secret that a call writes in two halves is masked in streamed output and in the result', async () => {
  const halves = 'head -c 8 /run/secrets/token; sleep 0.4; tail -c +9 /run/secrets/token; echo'
  const script = `echo begun; ${halves}; for i in $(seq 10 39); do echo "and line $i of it"; sleep 0.03; done; sleep 0.5`
  const call = await lone.call({ argv: ['sh', '-c', script], secrets: { token: 'hunter2-hunter2' } })
  await eventually('it streams', () => call.state === 'running' && call.streamed.includes('«secret token»\n'))
  const { stdout } = await lone.settled(call)
  expect(stdout.toString()).toMatch(/^begun\n«secret token»\nand line 10 of it\n/)
  expect(call.streamed.equals(stdout.subarray(0, call.streamed.byteLength))).toBe(true)
})

test('after streaming fails the settlement carries the whole output', async () => {
  lone.edge.misbehave('output', 'cut', { times: 2 })
  lone.edge.misbehave('output', { status: 200, body: null }, { times: 1 })
  lone.edge.misbehave(
    'output',
    { status: 503, body: { status: 503, code: 'overloaded', detail: 'busy' } },
    { times: 1 },
  )
  const call = await lone.call({ argv: ['sh', '-c', 'echo a; sleep 0.4; echo b; sleep 0.4; echo c'] })
  expect((await lone.settled(call)).stdout.toString()).toBe('a\nb\nc\n')
})

test('both streams are kept whole at the largest output_bytes that a plan may have', async () => {
  const script = 'yes out | head -c 1048576; yes err | head -c 1048576 >&2'
  const call = await lone.call({ argv: ['sh', '-c', script], output_bytes: LIMITS.output_bytes })
  const { statement, stdout, stderr } = await lone.settled(call)
  const { execution } = statement.predicate
  for (const [kept, summary, word] of [
    [stdout, execution.stdout, 'out\n'],
    [stderr, execution.stderr, 'err\n'],
  ] as const) {
    expect(summary).toEqual({
      bytes: LIMITS.output_bytes,
      kept: LIMITS.output_bytes,
      truncated: false,
      sha256: sha256(kept),
    })
    expect(kept.toString()).toBe(word.repeat(LIMITS.output_bytes / 4))
  }
})

test('after a stall of the worker, calls that ended in time keep their own end, and late ones have timed out', {
  timeout: 30_000,
}, async () => {
  const timeout_ms = 2_000
  const [quick, endless] = [about(0), about(60)]
  const done = ['sh', '-c', `sleep ${quick}; echo done`]
  const calls = [
    await lone.call({ argv: done, tier: 'B', timeout_ms }),
    await lone.call({ argv: done, tier: 'C', timeout_ms }),
    await lone.call({ argv: ['sleep', endless], timeout_ms }),
  ]
  const stay = (word: string) => processesWith(word).length > 0
  await eventually('they run', () => stay(endless) && calls.every(({ state }) => state === 'running'))
  const { pid = 0 } = lone.process
  process.kill(pid, 'SIGSTOP')
  const since = Date.now()
  try {
    await eventually('their time is up', () => !stay(quick) && Date.now() - since > timeout_ms)
  } finally {
    process.kill(pid, 'SIGCONT')
  }
  const ends = await Promise.all(calls.map(async (call) => (await lone.settled(call)).statement.predicate))
  expect(ends.map(({ state }) => state)).toEqual(['succeeded', 'succeeded', 'timed_out'])
})

test('a cancelled call is ended by the next heartbeat, before the one after it', async () => {
  const call = await lone.call({ argv: ['sleep', '60'], timeout_ms: 60_000 })
  await eventually('the call runs', () => call.state === 'running')
  call.cancelled = true
  const beats = lone.edge.count('heartbeat')
  const { statement } = await lone.settled(call)
  expect(lone.edge.count('heartbeat') - beats).toBeLessThanOrEqual(1)
  expect(statement.predicate).toMatchObject({
    state: 'cancelled',
    error: 'cancelled',
    execution: { outcome: { kind: 'cancelled' } },
  })
})

test('a cancelled call that streams output is ended at once', async () => {
  const call = await lone.call({
    argv: ['sh', '-c', 'while :; do echo talk; sleep 0.05; done'],
    timeout_ms: 60_000,
  })
  await eventually('the call streams', () => call.streamed.byteLength > 0)
  lone.edge.misbehave(
    'heartbeat',
    { status: 503, body: { status: 503, code: 'overloaded', detail: 'busy' } },
    { times: 100 },
  )
  call.cancelled = true
  // The answer to its output ended it, because no heartbeat did.
  const { statement } = await lone.settled(call).finally(() => lone.edge.behave())
  expect(statement.predicate.error).toBe('cancelled')
})

test('a call under a new edge key keeps its lease while the edge returns no keys, and then runs or is cancelled', async () => {
  const former = lone.edge.signer
  lone.edge.signer = newSigner()
  lone.edge.misbehave('keys', 'html', { times: 1_000 })
  const calls = await Promise.all([1, 2].map(() => lone.call({ argv: ['true'] })))
  const [cancelled, kept] = calls
  if (cancelled === undefined || kept === undefined) throw new Error('two calls were proposed')
  await eventually('both calls are claimed', () => calls.every(({ state }) => state === 'running'))
  cancelled.cancelled = true
  expect((await lone.settled(cancelled)).statement.predicate.state).toBe('cancelled')
  expect(kept.settlements).toBe(0)
  const times = { from_ms: 1, until_ms: Date.now() + 3_600_000, distrusts: null }
  const chain = [sealLink(times, former, lone.edge.signer)]
  const keys = edgeKeysOf(former.x, chain)
  if (!keys.ok) throw new Error(keys.error)
  lone.edge.behave()
  const body = { format: 'countersign-keys/v2', tenant: lone.edge.tenant, keys: keys.value, chain }
  lone.edge.misbehave('keys', { status: 200, body })
  expect((await lone.settled(kept)).statement.predicate.state).toBe('succeeded')
})

test('V02 the log has one line per call with ids, states and times, without arguments or output', async () => {
  const call = await lone.call({
    argv: ['echo', 'canary-of-argv'],
    args: { secret: 'canary-of-args' },
    stdin: 'args',
  })
  await lone.settled(call)
  const line = await lone.logged('ended', { call: call.call })
  expect(line).toMatchObject({ tool: 'test_tool', state: 'succeeded', tier: 'C' })
  for (const field of ['claim_ms', 'run_ms', 'settle_ms']) expect(line[field]).toBeTypeOf('number')
  expect(JSON.stringify(lone.log)).not.toContain('canary')
})
