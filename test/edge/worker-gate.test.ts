// A worker's request is admitted within a minute of its signing, once, and not from before the edge started.

import { expect, test } from 'vitest'
import { WorkerGate } from '../../edge/worker-gate.ts'
import { LIMITS } from '../../shared/limits.ts'

const WORKER = 'wrk_01ARZ3NDEKTSV4RRFFQ69G5FAV'
const signed = (created: number, nonce: string) => ({ tenant: 'default', worker: WORKER, created, nonce })
const AGE = LIMITS.signature_age_s

/** A gate that was opened long before the times that a test plays through. */
const LATER = Math.floor(Date.now() / 1000) + 3_600
const verdict = (gate: WorkerGate, created: number, nonce: string, now: number, worker = WORKER): string => {
  const admitted = gate.admit(worker, signed(created, nonce), now * 1000)
  return admitted.ok ? 'admitted' : admitted.error.code
}

test('K02 the window is a minute to each side, by the edge’s clock', () => {
  const gate = new WorkerGate()
  for (const [off, expected] of [
    [0, 'admitted'],
    [AGE, 'admitted'],
    [-AGE, 'admitted'],
    [AGE + 1, 'clock_skew'],
    [-AGE - 1, 'clock_skew'],
    [3_600, 'clock_skew'],
    [-LATER, 'clock_skew'],
  ] as const) {
    expect([off, verdict(gate, LATER + off, `nonce ${off}`, LATER)]).toEqual([off, expected])
  }
})

test('K02 a nonce is admitted once, for as long as its signature would be', () => {
  for (const off of [-AGE, 0, AGE]) {
    const gate = new WorkerGate()
    expect(verdict(gate, LATER + off, 'n', LATER)).toBe('admitted')
    for (let later = 0; later <= 3 * AGE; later++) {
      expect(verdict(gate, LATER + later, `other ${later}`, LATER + later)).toBe('admitted') // the gate turns its memory over meanwhile
      expect(verdict(gate, LATER + off, 'n', LATER + later)).toBe(later - off > AGE ? 'clock_skew' : 'replayed')
    }
  }
})

test('K02 nonces are each worker’s own', () => {
  const gate = new WorkerGate()
  expect(verdict(gate, LATER, 'n', LATER, 'wrk_1')).toBe('admitted')
  expect(verdict(gate, LATER, 'n', LATER, 'wrk_2')).toBe('admitted')
  expect(verdict(gate, LATER, 'n', LATER, 'wrk_1')).toBe('replayed')
})

test('K02 what was signed before the edge started is refused: nobody remembers whether it was seen', () => {
  const now = Math.floor(Date.now() / 1000)
  const gate = new WorkerGate()
  expect(verdict(gate, now - 30, 'n', now)).toBe('clock_skew')
  expect(verdict(gate, now + 1, 'm', now + 1)).toBe('admitted')
})
