// Promise: each kind of id has one form that leads to its object and can't be read in two ways
// (G07, G11).

import { describe, expect, test } from 'vitest'
import { sha256 } from '../../shared/bytes/json.ts'
import {
  approvalId,
  attestationId,
  base32,
  callId,
  doorbellQueue,
  keyHash,
  mintKey,
  newWorkerId,
  PATTERNS,
  parseKey,
  splitId,
  ulid,
} from '../../shared/ids.ts'
import { LIMITS } from '../../shared/limits.ts'

const NOW = 1_763_000_000_000
const RUN = `run_${ulid(NOW)}`

describe('ids', () => {
  test('new ids match their patterns', () => {
    expect(RUN).toMatch(PATTERNS.run)
    expect(newWorkerId(NOW)).toMatch(PATTERNS.worker)
    for (const n of [1, 9, 10, 1_000_000]) {
      expect(callId(RUN, n)).toMatch(PATTERNS.call)
      expect(approvalId(RUN, n)).toMatch(PATTERNS.approval)
      expect(attestationId(RUN, n)).toMatch(PATTERNS.attestation)
    }
  })

  test('the ids of a call, an approval and an attestation contain their run and number', () => {
    for (const id of [callId(RUN, 7), approvalId(RUN, 7), attestationId(RUN, 7)])
      expect(splitId(id)).toEqual({ run: RUN, n: 7 })
  })

  test('ids sort by their creation time, up to the year 10889', () => {
    const times = [0, 1, 999, NOW, NOW + 1, 2 ** 48 - 1]
    expect(times.map(ulid).toSorted()).toEqual(
      times.map((time) => expect.stringMatching(new RegExp(`^${ulid(time).slice(0, 10)}`))),
    )
    expect(ulid(2 ** 48 - 1).slice(0, 10)).toBe('7ZZZZZZZZZ')
    expect(ulid(0).slice(0, 10)).toBe('0000000000')
  })

  test('ids contain 80 random bits', () => {
    expect(new Set(Array.from({ length: 10_000 }, () => ulid(NOW))).size).toBe(10_000)
  })

  test('base 32 encodes every bit of its input', () => {
    expect(base32(Uint8Array.of())).toBe('')
    expect(base32(Uint8Array.of(0))).toBe('00')
    expect(base32(Uint8Array.of(255))).toBe('7Z')
    expect(base32(new Uint8Array(16).fill(255))).toBe('7ZZZZZZZZZZZZZZZZZZZZZZZZZ')
    expect(base32(new Uint8Array(32))).toBe('0'.repeat(52))
  })

  const CALL = callId(RUN, 7)
  test.each([
    CALL.toLowerCase(),
    ` ${CALL}`,
    `${CALL}\n`,
    `${CALL}\0`,
    `${CALL}/..`,
    `${RUN}_7`,
    `${callId(RUN, 0)}`,
    CALL.replace('_7', '_07'),
    CALL.replace('_7', '_-7'),
    CALL.replace('_7', '_7_7'),
    CALL.replace('_7', '_7.0'),
    CALL.replace('_7', '_12345678'),
    CALL.replace('_7', '_７'),
    CALL.replace('call_', 'apr_'),
    `call_${'I'.repeat(26)}_7`,
    `call_${'U'.repeat(26)}_7`,
    '',
  ])('G11 %j is not a call id', (text) => {
    expect(text).not.toMatch(PATTERNS.call)
  })
})

describe('G07 names of tools', () => {
  test.each(['text_stats', 'a', 'process_run', 'x-1_2-3', 'a'.repeat(LIMITS.tool_name_chars)])(
    'G07 %s is a valid tool name',
    (name) => expect(name).toMatch(PATTERNS.tool),
  )
  test.each([
    '',
    '.hidden',
    '1st',
    '-x',
    'text.stats',
    'Text_stats',
    'text stats',
    'text/stats',
    'text_stats\n',
    'tеxt_stats', // Cyrillic е
    'text_ѕtats', // Cyrillic ѕ
    'text\u200b_stats',
    'text\u202e_stats',
    'ｔext_stats',
    'téxt',
    'text%5fstats',
    '__proto__',
    'a'.repeat(LIMITS.tool_name_chars + 1),
  ])('G07 %j is not a valid tool name', (name) => expect(name).not.toMatch(PATTERNS.tool))
})

describe('API keys', () => {
  const { key, id, hash } = mintKey('agent', 'acme-2', NOW)

  test('an API key contains its kind, tenant and id, and its hash is its SHA-256', () => {
    expect(parseKey(key)).toEqual({ kind: 'agent', tenant: 'acme-2', id })
    expect(hash).toBe(keyHash(key))
    expect(hash).toBe(sha256(key))
    expect(hash).not.toContain(key.slice(-52))
  })

  test('an API key has 256 random bits that are not in its id', () => {
    const secrets = Array.from({ length: 1_000 }, () => mintKey('operator', 'default', NOW).key.slice(-52))
    expect(new Set(secrets).size).toBe(1_000)
    for (let at = 0; at < 52; at++)
      expect(new Set(secrets.map((secret) => secret[at])).size, `character ${at}`).toBeGreaterThan(
        at === 0 ? 1 : 8,
      )
  })

  test.each([
    ['another kind', key.replace('cs_agent', 'cs_admin')],
    ['no kind', key.replace('cs_agent_', 'cs_')],
    ['a tenant of capitals', key.replace('acme', 'ACME')],
    ['a tenant with an underscore', key.replace('acme-2', 'acme_2')],
    ['a short secret', key.slice(0, -1)],
    ['a long secret', `${key}0`],
    ['space before', ` ${key}`],
    ['a line feed after', `${key}\n`],
    ['lower case', key.toLowerCase()],
    ['nothing', ''],
  ])('an API key with %s is not recognized', (_name, text) => {
    expect(parseKey(text)).toBeUndefined()
  })
})

test('D18 no two tenants share a doorbell queue, whatever the names of their pools', () => {
  const names = ['a', 'a-b', 'a-b-c', 'b', 'b-c', 'c']
  const pools = [...names, 'b.c', 'a.b', '.', 'b-c.d']
  const queues = names.flatMap((tenant) => pools.map((pool) => doorbellQueue(tenant, pool)))
  expect(new Set(queues).size).toBe(names.length * pools.length)
  // A Redis access rule for one tenant matches only its queues.
  for (const tenant of names) {
    const matched = queues.filter((queue) => queue.startsWith(`doorbell-${tenant}.`))
    expect(matched).toEqual(pools.map((pool) => doorbellQueue(tenant, pool)))
  }
})
