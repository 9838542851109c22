// Promise: a settlement fits into its request, whatever was seen; what of the output does not is cut out of the middle, and the statement
// says so.

import { expect, test } from 'vitest'
import { digestOf, sha256 } from '../../shared/json.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Execution } from '../../shared/statement.ts'
import { settlementOf, unrun } from '../../worker/attestation.ts'
import { FakeEdge } from '../support/fake-edge.ts'
import { newSigner } from '../support/peer-worker.ts'

const edge = new FakeEdge()
const call = edge.propose({ argv: ['/usr/bin/true'] })
call.fence = 1
const grant = edge.grantFor(call, 'wrk_01JZ0000000000000000000000')

/** With so much beside its output. */
function settled(beside: number, out: Buffer, error: Buffer) {
  const stream = (bytes: Buffer) => ({ bytes: bytes.length, kept: bytes.length, sha256: sha256(bytes), truncated: false })
  const { execution } = unrun({ kind: 'cancelled' }, 1)
  const seen: Execution = { ...execution, executor: 'x'.repeat(beside), stdout: stream(out), stderr: stream(error) }
  const settlement = settlementOf(grant, digestOf(grant), { execution: seen, stdout: out, stderr: error }, newSigner())
  const { predicate } = JSON.parse(Buffer.from(settlement.envelope.payload, 'base64').toString()) as { predicate: { execution: Execution } } // our own
  const [stdout, stderr] = [Buffer.from(settlement.output.stdout, 'base64'), Buffer.from(settlement.output.stderr, 'base64')]
  expect(JSON.stringify(settlement).length).toBeLessThanOrEqual(LIMITS.settlement_bytes)
  return { told: predicate.execution, stdout, stderr }
}

const full = (letter: string): Buffer => Buffer.concat([Buffer.alloc(LIMITS.output_bytes - 3, letter), Buffer.from('end')])

test('both streams at their bound are told whole', () => {
  const { told, stdout, stderr } = settled(300_000, full('o'), full('e'))
  expect([stdout.equals(full('o')), stderr.equals(full('e'))]).toEqual([true, true])
  expect([told.stdout?.truncated, told.stderr?.truncated]).toEqual([false, false])
})

test('beside a statement that takes their room they are cut, each in its middle', () => {
  const { told, stdout, stderr } = settled(780_000, full('o'), full('e'))
  for (const [kept, summary, whole] of [
    [stdout, told.stdout, full('o')],
    [stderr, told.stderr, full('e')],
  ] as const) {
    expect(summary).toEqual({ bytes: whole.length, kept: kept.length, sha256: sha256(whole), truncated: true })
    expect(kept.length).toBeGreaterThan(900_000)
    expect(kept.subarray(-4).toString()).toMatch(/^(o|e)end$/)
  }
})
