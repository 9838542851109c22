// Promise: a tenant can hold a bounded number of things of each kind. One more is refused, and what
// it has can still be changed.

import { expect, test } from 'vitest'
import { LIMITS } from '../../../shared/limits.ts'
import type { Client } from '../../../shared/routes/client.ts'
import { refusalOf, unwrap } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'
import { newTenant } from '../../support/tenants.ts'
import { newSigner } from '../../support/worker/peer-worker.ts'

const fixtures = await newTenant(sharedStack(), 'tenant-limits')
const { root } = fixtures
const tool = await fixtures.tool()
const HMAC_KEY = `whsec_${Buffer.alloc(32, 7).toString('base64')}`
type Put = (name: string) => ReturnType<Client>

/** Puts this many things, and returns how many were accepted and the refusals. */
async function putAll(put: Put, count: number): Promise<[accepted: number, refusals: string[]]> {
  const answers: Awaited<ReturnType<Put>>[] = []
  for (let n = 0; n < count; n += 20)
    answers.push(
      ...(await Promise.all(Array.from({ length: Math.min(20, count - n) }, (_, i) => put(`one-${n + i}`)))),
    )
  const refused = answers.filter(({ ok }) => !ok)
  return [answers.length - refused.length, refused.map(refusalOf)]
}

test.each<[keyof typeof LIMITS, number, Put]>([
  [
    'channels',
    16,
    (name) =>
      root('putChannel', {
        params: { name },
        body: { kind: 'webhook', url: 'https://hooks.example.com/x', keys: [HMAC_KEY] },
      }),
  ],
  [
    'secrets',
    100,
    (name) => root('putSecret', { params: { name }, body: { value: `value of ${name}`, tools: [tool] } }),
  ],
  ['publishers', 100, (name) => root('putPublisher', { params: { name }, body: { keys: [newSigner().x] } })],
  ['principals', 1_000, (name) => root('putAgent', { params: { name }, body: { tools: [] } })],
])('LIMITS.%s: a tenant can have %d of them', { timeout: 60_000 }, async (limit, most, put) => {
  expect(LIMITS[limit]).toBe(most)
  expect(await putAll(put, most + 2)).toEqual([most, ['409 limit_reached', '409 limit_reached']])
  unwrap(await put('one-0'))
})
