// Promise: what a request may ask for before it is read is bounded: its size as long as its sender
// is unknown, and the time for which it waits.

import { expect, test } from 'vitest'
import { isSmall, waitMs } from '../../../edge/http/intake.ts'

const URL = 'https://cs.example/v1/calls'

test('G10 before its sender is authenticated, a body of 16 KiB (`unknown_body_bytes`) is read, and a larger one is not', () => {
  const announced = (length: string) =>
    isSmall(new Request(URL, { method: 'POST', body: 'x', headers: { 'content-length': length } }))
  expect([announced('16384'), announced('16385')]).toEqual([true, false])
  expect(isSmall(new Request(URL, { method: 'POST', body: 'x' }))).toBe(false) // announces nothing
  expect(isSmall(new Request(URL))).toBe(true)
})

test('a request waits for as long as `Prefer` asks, and for at most a minute (`wait_s`)', () => {
  const wait = (prefer: string) => waitMs(new Request(URL, { headers: { prefer } }))
  expect(['wait=0', 'wait=59', 'wait=60', 'wait=61', 'wait=999'].map(wait)).toEqual([
    0, 59_000, 60_000, 60_000, 60_000,
  ])
})
