// D11: the gate forgets old nonces in steps. After each step it still knows every nonce whose signature would be accepted.

import { expect, test } from 'vitest'
import { WorkerGate } from '../../edge/worker-gate.ts'
import { LIMITS } from '../../shared/limits.ts'

const WORKER = 'wrk_01ARZ3NDEKTSV4RRFFQ69G5FAV'
const AGE = LIMITS.signature_age_s
/** Longer than the gate keeps anything. */
const SECONDS = 6 * AGE

/** A gate that was opened long before the times that the test plays through. */
const START = Math.floor(Date.now() / 1000) + 3_600

test('D11 K02 a captured request is refused whenever it is sent again, at any distance from the gate’s last clean-up', () => {
  const gate = new WorkerGate()
  const verdict = (created: number, nonce: string, now: number): string => {
    const admitted = gate.admit(WORKER, { tenant: 'default', worker: WORKER, created, nonce }, now * 1000)
    return admitted.ok ? 'admitted' : admitted.error.code
  }
  const unexpected: string[] = []
  for (let second = 0; second < SECONDS; second++) {
    const now = START + second
    if (verdict(now, `nonce-of-second-${second}`, now) !== 'admitted') unexpected.push(`second ${second} was not admitted`)
    for (let age = 0; age <= Math.min(AGE, second); age++) {
      const again = verdict(now - age, `nonce-of-second-${second - age}`, now)
      if (again !== 'replayed') unexpected.push(`after ${age} s, in second ${second}: ${again}`)
    }
  }
  expect(unexpected).toEqual([])
})
