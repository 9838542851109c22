// A settlement always fits into one request and is readable by the edge, whatever the tool wrote.
// Output that does not fit is cut in the middle, and the statement says so.

import { expect, test } from 'vitest'
import { digestOf, parseJson, sha256 } from '../../../shared/bytes/json.ts'
import { type Execution, Statement } from '../../../shared/evidence/statement.ts'
import { LIMITS } from '../../../shared/limits.ts'
import type { Connection } from '../../../shared/plan/plan.ts'
import type { Settlement } from '../../../shared/wire/workers.ts'
import { notStarted, settlementOf, shortSettlement } from '../../../worker/calls/attestation.ts'
import { FakeEdge } from '../../support/worker/fake-edge.ts'
import { newSigner } from '../../support/worker/peer-worker.ts'

const edge = new FakeEdge()
const call = edge.propose({ argv: ['/usr/bin/true'] })
call.fence = 1
const grant = edge.grantFor(call, 'wrk_01JZ0000000000000000000000')

const signer = newSigner()
/** A connection that takes about 880 bytes of the statement. */
const CONNECTION: Connection = {
  host: '€'.repeat(260),
  port: 443,
  address: '192.0.2.1',
  bytes_out: 1,
  bytes_in: 1,
  verdict: 'failed',
}
// We made it.
const toldBy = ({ envelope }: Settlement): Statement =>
  JSON.parse(Buffer.from(envelope.payload, 'base64').toString()) as Statement
const { execution: NOTHING } = notStarted({ kind: 'cancelled' }, 1)

/** An execution with this much besides its output. */
function settled(beside: number, out: Buffer, error: Buffer) {
  const stream = (bytes: Buffer) => ({
    bytes: bytes.length,
    kept: bytes.length,
    sha256: sha256(bytes),
    truncated: false,
  })
  const seen: Execution = {
    ...NOTHING,
    connections: Array.from({ length: beside / 880 }, () => CONNECTION),
    stdout: stream(out),
    stderr: stream(error),
  }
  const settlement = settlementOf(
    grant,
    digestOf(grant),
    { execution: seen, stdout: out, stderr: error },
    signer,
  )
  const { predicate } = toldBy(settlement)
  const [stdout, stderr] = [
    Buffer.from(settlement.output.stdout, 'base64'),
    Buffer.from(settlement.output.stderr, 'base64'),
  ]
  expect(JSON.stringify(settlement).length).toBeLessThanOrEqual(LIMITS.settlement_bytes)
  return { execution: predicate.execution, stdout, stderr }
}

const full = (letter: string): Buffer =>
  Buffer.concat([Buffer.alloc(LIMITS.output_bytes - 3, letter), Buffer.from('end')])

test('a settlement holds both streams whole at their largest size', () => {
  const { execution, stdout, stderr } = settled(300_000, full('o'), full('e'))
  expect([stdout.equals(full('o')), stderr.equals(full('e'))]).toEqual([true, true])
  expect([execution.stdout?.truncated, execution.stderr?.truncated]).toEqual([false, false])
})

test('a settlement with a large statement cuts both streams, each in its middle', () => {
  const { execution, stdout, stderr } = settled(780_000, full('o'), full('e'))
  for (const [kept, summary, whole] of [
    [stdout, execution.stdout, full('o')],
    [stderr, execution.stderr, full('e')],
  ] as const) {
    expect(summary).toEqual({
      bytes: whole.length,
      kept: kept.length,
      sha256: sha256(whole),
      truncated: true,
    })
    expect(kept.length).toBeGreaterThan(900_000)
    expect(kept.subarray(-4).toString()).toMatch(/^(o|e)end$/)
  }
})

/** The statement as the edge's strict parser reads it. */
const readAs = (settlement: Settlement): Statement => {
  const read = parseJson(Buffer.from(settlement.envelope.payload, 'base64'))
  if (!read.ok) throw new Error(read.error.code)
  return Statement.parse(read.value)
}
const settle = (execution: Partial<Execution>): Settlement =>
  settlementOf(
    grant,
    digestOf(grant),
    { execution: { ...NOTHING, ...execution }, stdout: Buffer.alloc(0), stderr: Buffer.alloc(0) },
    signer,
  )

test('L5 G05 texts that a tool made are readable by the edge and never end in half a character', () => {
  const hostile = `a\0b\ud800${'\u{1f600}'.repeat(400)}`
  const { execution } = readAs(
    settle({
      outcome: { kind: 'invalid_output', detail: hostile },
      connections: [{ ...CONNECTION, host: hostile }],
      files: { files: [], left: [{ path: hostile, why: 'name' }], more: 0 },
    }),
  ).predicate
  const texts = [
    execution.outcome?.kind === 'invalid_output' ? execution.outcome.detail : '',
    execution.connections[0]?.host ?? '',
    execution.files?.left[0]?.path ?? '',
  ]
  for (const [index, most] of [500, 260, 600].entries())
    expect(texts[index]).toBe(`a\ufffdb\ufffd${'\u{1f600}'.repeat((most - 4) / 2)}`)
  const odd = readAs(settle({ outcome: { kind: 'infra', detail: `-${hostile}` } })).predicate.execution
    .outcome
  expect(odd).toEqual({ kind: 'infra', detail: `-a\ufffdb\ufffd${'\u{1f600}'.repeat(247)}` })
})

test('L5 a settlement that the edge could not read is shortened to the ending of the call', () => {
  const { predicate } = readAs(
    settle({ outcome: { kind: 'exit', code: 3 }, connections: [{ ...CONNECTION, port: -1 }] }),
  )
  expect([predicate.state, predicate.execution.outcome, predicate.execution.connections]).toEqual([
    'failed',
    { kind: 'exit', code: 3 },
    [],
  ])
})

test('a shortened settlement reports the length of the output and can’t be shortened again', () => {
  const out = Buffer.from('what it wrote')
  const stdout = { bytes: out.length, kept: out.length, sha256: sha256(out), truncated: false }
  const execution: Execution = {
    ...NOTHING,
    outcome: { kind: 'exit', code: 0 },
    connections: [CONNECTION],
    stdout,
    cgroup: true,
  }
  const whole = settlementOf(
    grant,
    digestOf(grant),
    { execution, stdout: out, stderr: Buffer.alloc(0) },
    signer,
  )
  const short = shortSettlement(whole, signer)
  if (short === undefined) throw new Error('it is shorter')
  expect(short.output).toEqual({ stdout: '', stderr: '' })
  const shortened = { ...execution, connections: [], stdout: { ...stdout, kept: 0, truncated: true } }
  expect(readAs(short).predicate).toMatchObject({
    ...readAs(whole).predicate,
    execution: shortened,
    execution_sha256: expect.any(String),
  })
  expect(shortSettlement(short, signer)).toBeUndefined()
})
