// Promise: after a rotation an agent's webhook is signed with the former secret too, for a time, and
// never with an older one.

import { expect, test } from 'vitest'
import { webhookTarget } from '../../../edge/directory/agent-webhook.ts'
import type { LoadedDirectory } from '../../../edge/directory/loaded-directory.ts'
import { LIMITS } from '../../../shared/limits.ts'

const ROTATED = 1_800_000_000_000
const HOUR_MS = 3_600_000
const origin = { agent: 'bot', since: 7 }
/** Only what the function reads of a directory. */
const directory = {
  tenant: 'acme',
  agents: new Map([
    [
      'bot',
      {
        since: 7,
        spec: { webhook: { url: 'https://a.example/' } },
        webhookSecrets: [ROTATED, ROTATED - HOUR_MS],
      },
    ],
  ]),
} as unknown as LoadedDirectory
const keysAt = (now: number, from = origin) =>
  webhookTarget({ webhookKey: Buffer.alloc(32, 1) }, directory, from, now)?.keys

test('a former webhook secret signs for `webhook_overlap_ms` after a rotation, which is a day', () => {
  expect(LIMITS.webhook_overlap_ms).toBe(24 * HOUR_MS)
  const [newest, former, ...more] = keysAt(ROTATED + 24 * HOUR_MS - 1) ?? []
  expect([newest, former]).toEqual([expect.stringMatching(/^whsec_/), expect.stringMatching(/^whsec_/)])
  expect(newest).not.toBe(former)
  expect(more).toEqual([])
  expect(keysAt(ROTATED + 24 * HOUR_MS)).toEqual([newest])
})

test('an agent that was created again, or is unknown, has no webhook of the former agent', () => {
  expect(keysAt(ROTATED, { ...origin, since: 8 })).toBeUndefined()
  expect(keysAt(ROTATED, { ...origin, agent: 'other' })).toBeUndefined()
})
