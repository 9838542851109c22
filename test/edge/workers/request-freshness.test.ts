// Promise: a worker's request is admitted once, within a minute of its signature, and only if its
// nonce begins with the current epoch.

import { expect, test } from 'vitest'
import { RequestFreshness } from '../../../edge/workers/request-freshness.ts'
import { LIMITS } from '../../../shared/limits.ts'

const WORKER = 'wrk_01ARZ3NDEKTSV4RRFFQ69G5FAV'
const signed = (created: number, nonce: string) => ({ tenant: 'default', worker: WORKER, created, nonce })
const AGE = LIMITS.signature_age_s
const NOW = 1_800_000_000

/** The current epoch, from the refusal of a nonce without one. */
function epochOf(freshness: RequestFreshness, now: number): string {
  const refused = freshness.admit(WORKER, signed(now, 'a-nonce-of-no-epoch'), now * 1000)
  return refused.ok ? '' : (refused.error.epoch ?? '')
}

/** The verdict on a complete nonce. */
function admit(
  freshness: RequestFreshness,
  created: number,
  nonce: string,
  now: number,
  worker = WORKER,
): string {
  const admitted = freshness.admit(worker, signed(created, nonce), now * 1000)
  return admitted.ok ? 'admitted' : admitted.error.code
}

/** The verdict on a nonce with the current epoch. */
const verdict = (
  freshness: RequestFreshness,
  created: number,
  nonce: string,
  now: number,
  worker = WORKER,
): string => admit(freshness, created, `${epochOf(freshness, now)}${nonce}`, now, worker)

test('K02 a request is admitted if its time is within a minute of the edge’s clock', () => {
  const freshness = new RequestFreshness()
  for (const [off, expected] of [
    [0, 'admitted'],
    [AGE, 'admitted'],
    [-AGE, 'admitted'],
    [AGE + 1, 'clock_skew'],
    [-AGE - 1, 'clock_skew'],
    [3_600, 'clock_skew'],
    [-NOW, 'clock_skew'],
  ] as const) {
    expect([off, verdict(freshness, NOW + off, `nonce ${off}`, NOW)]).toEqual([off, expected])
  }
})

test('K02 a nonce is admitted once while its signature is fresh', () => {
  for (const off of [-AGE, 0, AGE]) {
    const freshness = new RequestFreshness()
    expect(verdict(freshness, NOW + off, 'n', NOW)).toBe('admitted')
    for (let later = 0; later <= 3 * AGE; later++) {
      expect(verdict(freshness, NOW + later, `other ${later}`, NOW + later)).toBe('admitted') // these start new windows of the nonce cache
      expect(verdict(freshness, NOW + off, 'n', NOW + later)).toBe(
        later - off > AGE ? 'clock_skew' : 'replayed',
      )
    }
  }
})

test('D11 K02 a nonce that was admitted just before a new window of the nonce cache is still refused as a replay', () => {
  for (let before = 0; before <= 2 * AGE; before++) {
    const freshness = new RequestFreshness()
    verdict(freshness, NOW, 'the first', NOW) // starts the first window, which ends after two minutes
    const at = NOW + before
    const created = at + AGE
    expect(verdict(freshness, created, 'n', at)).toBe('admitted')
    for (const now of [at + 1, at + AGE, at + 2 * AGE]) {
      verdict(freshness, now, `other ${now}`, now)
      expect([before, now - at, verdict(freshness, created, 'n', now)]).toEqual([
        before,
        now - at,
        'replayed',
      ])
    }
  }
})

test('K02 two workers may use the same nonce', () => {
  const freshness = new RequestFreshness()
  expect(verdict(freshness, NOW, 'n', NOW, 'wrk_1')).toBe('admitted')
  expect(verdict(freshness, NOW, 'n', NOW, 'wrk_2')).toBe('admitted')
  expect(verdict(freshness, NOW, 'n', NOW, 'wrk_1')).toBe('replayed')
})

test('D9 K02 a request that was admitted before a restart is refused after it, whatever signing time it claims', () => {
  for (const off of [-AGE, -1, 0, 1, AGE]) {
    const before = new RequestFreshness()
    const nonce = `${epochOf(before, NOW)}n`
    expect(admit(before, NOW + off, nonce, NOW)).toBe('admitted')
    const after = new RequestFreshness()
    for (const now of [NOW - AGE, NOW - 1, NOW, NOW + 1, NOW + AGE]) {
      expect([off, admit(after, NOW + off, nonce, now)]).toEqual([off, 'stale_epoch'])
      expect(verdict(after, now, `new ${now}`, now)).toBe('admitted')
    }
  }
})

test('D9 K02 when the clock leaps ahead and goes back, no request is admitted twice and new ones are admitted at once', () => {
  for (const leap of [1, AGE, 2 * AGE + 1, 5 * AGE, 3_600, 365 * 86_400]) {
    const freshness = new RequestFreshness()
    const nonce = `${epochOf(freshness, NOW)}n`
    expect(admit(freshness, NOW, nonce, NOW)).toBe('admitted')
    for (const now of [NOW + leap, NOW + 2 * leap, NOW + 3 * leap])
      expect(verdict(freshness, now, `ahead ${now}`, now)).toBe('admitted')
    for (const now of [NOW + 1, NOW, NOW - 1]) {
      expect([leap, admit(freshness, NOW, nonce, now)]).not.toContain('admitted')
      expect([leap, verdict(freshness, now, `back ${now}`, now)]).toEqual([leap, 'admitted'])
    }
  }
})

test('D6 a second process of a worker serves after the first was silent for `process_silence_ms`, which is 7 s', () => {
  expect(LIMITS.process_silence_ms).toBe(7_000)
  const freshness = new RequestFreshness()
  const beat = (serving: string | null, process: string, at: number) =>
    freshness.judgeHeartbeat({ id: WORKER, process: serving }, { process }, at)
  const start = NOW * 1_000
  expect(beat(null, 'first', start)).toBe('takes')
  expect(beat('first', 'second', start + 6_999)).toBe('refused')
  expect(beat('first', 'second', start + 7_000)).toBe('takes')
})
