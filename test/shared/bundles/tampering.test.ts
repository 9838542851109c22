// Promise: whatever is changed in evidence is found, and the verdict names the check that found it: each
// byte of a bundle and of a journal, each entry deleted, moved or repeated, keys and signatures
// exchanged, clocks set wrong, statements of workers that may not sign (J01, T01).

import { describe, expect, test } from 'vitest'
import { parseJson } from '../../../shared/bytes/json.ts'
import type { Bundle } from '../../../shared/evidence/bundle.ts'
import { countersign, kidOf, payloadBytes, type Signer, seal } from '../../../shared/evidence/dsse.ts'
import { GENESIS, JournalEntry, verifyChain } from '../../../shared/evidence/journal.ts'
import type { KeyEntry, Keys } from '../../../shared/evidence/keys.ts'
import { STATEMENT_TYPE } from '../../../shared/evidence/statement.ts'
import { LIMITS } from '../../../shared/limits.ts'
import {
  chained,
  collude,
  deniedBundle,
  EDGE,
  executedBundle,
  KEYS,
  logFor,
  NOW,
  reexecuted,
  STRANGER,
  statementIn,
  WORKER,
} from '../evidence.ts'
import { withChanges } from '../tamper.ts'
import { firstFailureBy } from '../vectors/verdicts.ts'

const executed = executedBundle()
const verdict = (bundle: unknown, keys: Keys = KEYS): string | null =>
  firstFailureBy(keys, Buffer.from(JSON.stringify(bundle)))

test('an unchanged bundle is accepted', () => {
  expect([verdict(executed), verdict(deniedBundle())]).toEqual([null, null])
})

test('J01 a bundle with any single byte changed is refused, and each kind of check finds some', () => {
  const bytes = Buffer.from(JSON.stringify(executed))
  const found = new Map<string | null, number>()
  for (let at = 0; at < bytes.byteLength; at++) {
    const byte = bytes[at] ?? 0
    bytes[at] = byte ^ 1 // a letter becomes another letter, a digit another digit
    const check = firstFailureBy(KEYS, bytes)
    bytes[at] = byte
    if (check === null)
      throw new Error(`accepted with another byte at ${at}: …${bytes.subarray(at - 20, at + 20)}…`)
    found.set(check, (found.get(check) ?? 0) + 1)
  }
  expect([...found.keys()]).toEqual(
    expect.arrayContaining([
      'the bundle can be read',
      'the bundle is well-formed',
      'the payload is an in-toto statement of our predicate',
      'exactly the worker and the edge signed it',
      'the grant is the edge’s, for this call and worker',
      'the digest covers these arguments and this plan',
      'the policy snapshot is the one that the facts name',
      'the journal entries are linked up to the end of the call',
      'the edge signed the checkpoint of the tenant’s log',
      'the end of the call is in the log under this checkpoint',
    ]),
  )
})

describe('J01 the journal of a run with 100 entries', () => {
  const entries = chained(
    Array.from({ length: 100 }, (_, i) => ({
      kind: 'allowed',
      call: null,
      body: { n: i, tool: 'text_stats' },
    })),
    1,
    GENESIS.hash,
  )
  const head = entries.at(-1)?.hash
  /** The sentence of the verdict, or null. The head is what somebody kept elsewhere. */
  const fault = (journal: readonly JournalEntry[]): string | null => {
    const chain = verifyChain(journal)
    if (!chain.ok) return `entry ${chain.error.seq}: ${chain.error.reason}`
    return chain.value.hash === head ? null : 'the journal does not end with the head'
  }

  test('J01 any single byte changed is found at its entry', () => {
    expect(fault(entries)).toBe(null)
    let [before, tried] = [GENESIS, 0]
    for (const [i, entry] of entries.entries()) {
      const bytes = Buffer.from(JSON.stringify(entry))
      for (let at = 0; at < bytes.byteLength; at++, tried++) {
        const byte = bytes[at] ?? 0
        bytes[at] = byte ^ 1
        const parsed = parseJson(bytes)
        bytes[at] = byte
        const read = JournalEntry.safeParse(parsed.ok ? parsed.value : undefined)
        // The entries before it are unchanged, so their chain leads to the same head.
        if (read.success && verifyChain([read.data, ...entries.slice(i + 1, i + 2)], before).ok)
          throw new Error(`accepted with another byte at ${at} of entry ${i + 1}`)
      }
      before = { seq: entry.seq, hash: entry.hash }
    }
    expect(tried).toBeGreaterThan(20_000)
  })

  const MISSING = /^entry \d+: entry \d+ is missing or out of order: `seq` is \d+$/
  const UNLINKED = /^entry \d+: `prev` is not the hash of the entry before it$/
  const each = (change: (i: number) => readonly JournalEntry[], most = entries.length) =>
    Array.from({ length: most }, (_, i) => fault(change(i)))
  const at = (i: number): JournalEntry => entries[i] ?? (entries[0] as JournalEntry) // there are a hundred

  test('J01 each entry deleted, moved, repeated or inserted is found, and the error names the place', () => {
    const deleted = each((i) => entries.toSpliced(i, 1), 99)
    const swapped = each((i) => entries.with(i, at(i + 1)).with(i + 1, at(i)), 99)
    const repeated = each((i) => entries.toSpliced(i, 0, at(i)), 99)
    for (const sentences of [deleted, swapped, repeated])
      for (const [i, sentence] of sentences.entries())
        expect([i, sentence]).toEqual([i, expect.stringMatching(MISSING)])
    // A new entry with the right place and hash, after which all others move up.
    const inserted = each((i) => {
      const [forged] = chained([{ kind: 'allowed', call: null, body: {} }], i + 1, at(i).prev)
      return [
        ...entries.slice(0, i),
        forged ?? at(i),
        ...entries.slice(i).map((one) => ({ ...one, seq: one.seq + 1 })),
      ]
    })
    for (const sentence of inserted) expect(sentence).toMatch(UNLINKED)
  })

  test('J01 a journal that was truncated, or rewritten from some entry on, is detected only with a kept head', () => {
    for (const left of [0, 1, 50, 99]) {
      expect(verifyChain(entries.slice(0, left)).ok).toBe(true)
      expect(fault(entries.slice(0, left))).toBe('the journal does not end with the head')
    }
    const other = chained([{ kind: 'denied', call: null, body: {} }], 51, at(49).hash)
    expect(fault([...entries.slice(0, 50), ...other])).toBe('the journal does not end with the head')
  })

  test('J01 a bundle whose journal was cut does not end the call, and whose last entry was replaced is not in the log', () => {
    const { journal } = executed
    expect(verdict({ ...executed, journal: journal.slice(0, -1) })).toBe(
      'the last entry ends the call and names this attestation',
    )
    const again = chained(journal.with(-1, { ...(journal.at(-1) as JournalEntry), at_ms: NOW + 300 }), 4) // the last of five
    expect(verdict({ ...executed, journal: again })).toBe(
      'the end of the call is in the log under this checkpoint',
    )
    expect(verdict({ ...executed, journal: again, log: logFor(again) })).toBe(null)
    expect(verdict({ ...executed, journal: again, log: logFor(again, STRANGER) })).toBe(
      'the edge signed the checkpoint of the tenant’s log',
    )
  })
})

const byOthers = (...signers: readonly Signer[]): Bundle => {
  const [first = EDGE, ...others] = signers
  return {
    ...executed,
    envelope: others.reduce(countersign, seal(STATEMENT_TYPE, statementIn(executed), first)),
  }
}
const otherType = (type: string): Bundle => {
  const { envelope } = executed
  const statement = JSON.parse(Buffer.from(payloadBytes(envelope)).toString()) as unknown
  return { ...executed, envelope: countersign(seal(type, statement, WORKER), EDGE) }
}
/** As a worker signs whose clock is wrong by this much. */
const clock = (by: number): Bundle =>
  collude(executed, reexecuted(executed, { started_at_ms: NOW + 10 + by, ended_at_ms: NOW + 20 + by }))
const HOUR = 3_600_000
const BY_BOTH = 'exactly the worker and the edge signed it'
const NO_EDGE_KEY = 'an edge key from the key file signed it'
const NO_WORKER_KEY = 'the worker that the grant names has a key in the key file'
const TOO_LATE = 'the worker’s key is trusted for that time'
const TIMES = 'it ran within the time of its grant'

const OF_EDGE = KEYS.keys[0] as KeyEntry // the table of keys has these two
const OF_WORKER = KEYS.keys[1] as KeyEntry
const ofStranger = (worker: string): KeyEntry => ({
  ...OF_WORKER,
  kid: kidOf(STRANGER.x),
  x: STRANGER.x,
  worker,
})
const withKeys = (...keys: KeyEntry[]): Keys => ({ ...KEYS, keys })
const until = (until_ms: number, status: KeyEntry['status']) =>
  withKeys(OF_EDGE, { ...OF_WORKER, until_ms, status })

type Case = { readonly check: string; readonly bundle?: object; readonly keys?: Keys }
const TABLE: Readonly<Record<string, Case>> = {
  'the keys of edge and worker exchanged': {
    check: BY_BOTH,
    keys: withKeys({ ...OF_EDGE, x: WORKER.x }, { ...OF_WORKER, x: EDGE.x }),
  },
  'no key of an edge': { check: NO_EDGE_KEY, keys: withKeys(OF_WORKER) },
  'a third signature, by a stranger': { check: BY_BOTH, bundle: byOthers(WORKER, EDGE, STRANGER) },
  'the edge’s signature twice': { check: BY_BOTH, bundle: byOthers(WORKER, EDGE, EDGE) },
  'no signature of the worker': { check: BY_BOTH, bundle: byOthers(EDGE) },
  'no signature of the edge': { check: NO_EDGE_KEY, bundle: byOthers(WORKER) },
  'a stranger’s signature under the edge’s id': {
    check: BY_BOTH,
    bundle: byOthers(WORKER, { ...STRANGER, kid: kidOf(EDGE.x) }),
  },
  'the payload type of a grant': {
    check: BY_BOTH,
    bundle: otherType('application/vnd.countersign.grant+json'),
  },
  'another payload type': { check: BY_BOTH, bundle: otherType('application/json') },
  'a grant in the place of the statement': {
    check: 'the payload is an in-toto statement of our predicate',
    bundle: { ...executed, envelope: executed.grant },
  },
  'a payload of 10 MB': {
    check: 'the bundle is well-formed',
    bundle: withChanges(executed, { 'envelope.payload': 'A'.repeat(10_000_000) }),
  },
  'a worker’s clock an hour fast': { check: TIMES, bundle: clock(HOUR) },
  'a worker’s clock an hour slow': { check: TIMES, bundle: clock(-HOUR) },
  'the statement of an unknown worker': {
    check: NO_WORKER_KEY,
    bundle: byOthers(STRANGER, EDGE),
    keys: withKeys(OF_EDGE),
  },
  'the statement of another worker of the tenant': {
    check: BY_BOTH,
    bundle: byOthers(STRANGER, EDGE),
    keys: withKeys(OF_EDGE, OF_WORKER, ofStranger('wrk_01KA5XJ3M0000000000000000B')),
  },
  'a worker’s key that was revoked before the end': { check: TOO_LATE, keys: until(NOW - 10_000, 'revoked') },
  'a worker’s key that had expired before the end': { check: TOO_LATE, keys: until(NOW - 10_000, 'retired') },
  'a worker’s key that is distrusted since before the end': {
    check: TOO_LATE,
    keys: withKeys(OF_EDGE, { ...OF_WORKER, status: 'distrusted', distrusted_from_ms: NOW }),
  },
  'an edge’s key that is distrusted since before the end': {
    check: 'the edge’s key is trusted for that time',
    keys: withKeys({ ...OF_EDGE, status: 'distrusted', distrusted_from_ms: NOW }, OF_WORKER),
  },
  'the keys of another tenant': {
    check: 'the key file belongs to the tenant of the attestation',
    keys: { ...KEYS, tenant: 'other' },
  },
}

for (const [name, { check, bundle = executed, keys = KEYS }] of Object.entries(TABLE))
  test(`J01 T01 a bundle with ${name} is refused: ${check}`, () => {
    expect(firstFailureBy(keys, Buffer.from(JSON.stringify(bundle)))).toBe(check)
  })

test('a worker’s key that was revoked after the end of the call still verifies it', () => {
  expect(verdict(executed, until(NOW + 10_000, 'revoked'))).toBe(null)
})

test('a bundle may be as large as the limit of evidence, and a payload as large as a body', () => {
  const most = withChanges(executed, { 'envelope.payload': 'A'.repeat(LIMITS.body_bytes) })
  expect(verdict(most)).toBe('the payload is an in-toto statement of our predicate')
  expect(firstFailureBy(KEYS, Buffer.from(`"${'A'.repeat(LIMITS.evidence_bytes)}"`))).toBe(
    'the bundle can be read',
  )
})
