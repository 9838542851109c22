// Promise: the command line notices a log that was forked or rolled back, a log that has other
// entries than the evidence, and a checkpoint that the edge did not sign.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { continuity, isContinued, keepHead, seenHeads, signedHead } from '../../../cli/log/checkpoints.ts'
import { LOG } from '../../../cli/log/commands.ts'
import type { Evidence } from '../../../cli/log/evidence.ts'
import { folderLog } from '../../../cli/log/sources.ts'
import { verifyEvidence } from '../../../cli/log/verify-log.ts'
import { witnessed } from '../../../cli/log/witnesses.ts'
import { paint } from '../../../cli/shell/terminal-text.ts'
import type { Check } from '../../../shared/evidence/checks.ts'
import { cosign } from '../../../shared/evidence/cosignature.ts'
import type { Signer } from '../../../shared/evidence/dsse.ts'
import { edgeKeysOf, type KeyEntry, type Keys, sealLink } from '../../../shared/evidence/keys.ts'
import { ok } from '../../../shared/result.ts'
import { EDGE, KEYS } from '../../shared/evidence.ts'
import { newSigner } from '../../support/worker/peer-worker.ts'
import { journal, DefinedLog as Log, ORIGIN } from './defined-log.ts'

const edge = EDGE
const keys: Keys = { ...KEYS, tenant: 'acme' }
const [edgeKey] = KEYS.keys
if (edgeKey === undefined) throw new Error('the test has no key of an edge')
const keyOf = ({ kid, x }: Signer): KeyEntry => ({ ...edgeKey, kid, x })

let state: string
const before = process.env['XDG_STATE_HOME']
beforeEach(() => {
  state = mkdtempSync(join(tmpdir(), 'countersign-seen-'))
  process.env['XDG_STATE_HOME'] = state
})
afterEach(() => {
  rmSync(state, { recursive: true })
  if (before === undefined) delete process.env['XDG_STATE_HOME']
  else process.env['XDG_STATE_HOME'] = before
})

const head = (note: string) => {
  const read = signedHead(note, keys)
  if (!read.ok) throw new Error(read.error)
  return read.value
}

describe('the checkpoint that was seen before', () => {
  const log = new Log(journal(600))
  const forked = new Log(journal(600, (seq) => (seq === 7 ? { by: 'mallory' } : {})))
  const compared = async (seen: string, now: string, { readTile }: Log) => {
    keepHead(head(seen), undefined)
    const kept = seenHeads(ORIGIN, undefined, keys)
    if (!kept.ok) throw new Error(kept.error.detail)
    const checks = await continuity(kept.value, head(now), readTile)
    return checks.ok
      ? checks.value.map(({ ok: holds, detail = '' }) => `${holds} ${detail.split(':')[0]}`)
      : checks.error
  }

  test('a log that has grown, or is unchanged, continues the checkpoint', async () => {
    expect(await continuity([], head(log.note(3)), log.readTile)).toEqual(ok([]))
    expect(await compared(log.note(300), log.note(600), log)).toEqual(['true '])
    expect(await compared(log.note(600), log.note(600), log)).toEqual(['true '])
    expect(await compared(log.note(0), log.note(1), log)).toEqual(['true '])
  })

  test('a log with fewer leaves is reported as rolled back', async () => {
    expect(await compared(log.note(300), log.note(299), log)).toEqual(['false the log was rolled back'])
  })

  test('a log with another past is reported as forked, even if it has as many leaves', async () => {
    expect(await compared(log.note(300), forked.note(600), forked)).toEqual(['false the log was forked'])
    expect(await compared(log.note(300), forked.note(600), log)).toEqual(['false the log was forked'])
    expect(await compared(log.note(600), forked.note(600), forked)).toEqual(['false the log was forked'])
  })

  test('two checkpoints of one log are consistent, and those of a fork are not', async () => {
    expect(await isContinued(head(log.note(5)), head(log.note(600)), log.readTile)).toEqual(ok(true))
    expect(await isContinued(head(log.note(7)), head(forked.note(600)), forked.readTile)).toEqual(ok(false))
  })

  test('a note is a checkpoint only if the edge signed it, and for the log of this tenant', () => {
    expect(signedHead(log.note(5), keys).ok).toBe(true)
    expect(signedHead(log.note(5, newSigner()), keys).ok).toBe(false)
    expect(signedHead(log.note(5, edge, 'edge.example/other'), keys)).toEqual({
      ok: false,
      error: 'it is not a checkpoint of the log of `acme`',
    })
    expect(signedHead(log.note(5), { ...keys, keys: [{ ...keyOf(edge), role: 'worker' }] }).ok).toBe(false)
    expect(signedHead(log.note(5), { ...keys, keys: [{ ...keyOf(edge), status: 'retired' }] }).ok).toBe(true)
    const distrusted = { ...keyOf(edge), status: 'distrusted', distrusted_from_ms: 9 } as const
    expect(signedHead(log.note(5), { ...keys, keys: [distrusted] }).ok).toBe(false)
    expect(signedHead(log.note(5).replace('\n5\n', '\n6\n'), keys).ok).toBe(false)
  })

  test('T03 a kept checkpoint of a key that is distrusted now is still compared with the log', async () => {
    const fresh = newSigner()
    const distrusted = { ...keyOf(edge), status: 'distrusted', distrusted_from_ms: 9 } as const
    const later: Keys = { ...keys, keys: [distrusted, keyOf(fresh)] }
    keepHead(head(log.note(300)), undefined)
    const kept = seenHeads(ORIGIN, undefined, later)
    if (!kept.ok) throw new Error(kept.error.detail)
    expect(kept.value[0]?.size).toBe(300)
    for (const [source, holds] of [
      [log, true],
      [forked, false],
    ] as const) {
      const now = signedHead(source.note(600, fresh), later)
      if (!now.ok) throw new Error(now.error)
      expect(await continuity(kept.value, now.value, source.readTile)).toMatchObject({
        value: [{ ok: holds }],
      })
    }
    expect(signedHead(log.note(600), later).ok).toBe(false)
    expect(seenHeads(ORIGIN, undefined, { ...later, keys: [{ ...keyOf(edge), role: 'worker' }] }).ok).toBe(
      false,
    )
  })

  test('T03 `log consistency` accepts an earlier checkpoint of a distrusted key, and no later one', async () => {
    const fresh = newSigner()
    const distrusts = { kid: edge.kid, from_ms: 0 }
    const chain = [sealLink({ from_ms: 1, until_ms: 2, distrusts }, edge, fresh)]
    const edges = edgeKeysOf(edge.x, chain)
    if (!edges.ok) throw new Error(edges.error)
    const files = {
      keys: JSON.stringify({ ...keys, keys: edges.value, chain }),
      old: log.note(8),
      now: log.note(9, fresh),
      stolen: log.note(9),
      fork: forked.note(9, fresh),
    }
    for (const [name, text] of Object.entries(files)) writeFileSync(join(state, name), text)
    const command = LOG.find(({ words }) => words[1] === 'consistency')
    const isConsistent = async (old: string, now: string, source: Log): Promise<unknown> => {
      const api = async () => source.readTile({ level: 0, index: 0, width: 9 })
      const args = { OLD: join(state, old), NEW: join(state, now) }
      const connection = () => ({ url: 'https://edge.example', key: '' })
      const given = { args, flags: { keys: join(state, 'keys') }, api, connection, paint: paint(false) }
      const done = await command?.run(given as never) // all that it reads of the edge is a tile
      return done?.ok === true ? done.value.ok : done
    }
    expect(await isConsistent('old', 'now', log)).toBe(true)
    expect(await isConsistent('old', 'stolen', log)).toBe(false)
    expect(await isConsistent('old', 'fork', forked)).toBe(false)
  })

  test('a kept checkpoint that these keys have not signed is an error, and is not ignored', () => {
    keepHead(head(log.note(5)), undefined)
    const others: Keys = { ...keys, keys: [keyOf(newSigner())] }
    expect(seenHeads(ORIGIN, undefined, others)).toMatchObject({ ok: false, error: { code: 'unreadable' } })
    expect(seenHeads('edge.example/never', undefined, others)).toEqual(ok([]))
  })
})

describe('a log is known by its address too', () => {
  const ADDRESS = 'edge.internal:8787'
  const log = new Log(journal(600))
  const other = new Log(journal(600, (seq) => (seq === 7 ? { by: 'mallory' } : {})))
  const named = (source: Log, size: number, origin: string) => head(source.note(size, edge, origin))
  const checked = async (now: ReturnType<typeof head>, address: string | undefined, { readTile }: Log) => {
    const seen = seenHeads(now.origin, address, keys)
    if (!seen.ok) throw new Error(seen.error.detail)
    const checks = await continuity(seen.value, now, readTile)
    return checks.ok ? checks.value : checks.error
  }

  test('a log that was renamed is refused, at the same address and at another, whatever it has', async () => {
    keepHead(named(log, 300, ORIGIN), ADDRESS)
    for (const source of [other, log])
      for (const address of [ADDRESS, '10.0.0.7:8787', undefined]) {
        const [check] = (await checked(named(source, 600, 'new.example/acme'), address, source)) as Check[]
        expect(check).toMatchObject({ ok: false, detail: expect.stringMatching(/^the log was renamed: /) })
      }
  })

  test('T03 a log with another name and other keys at the same address is not taken for a new one', () => {
    keepHead(named(log, 300, ORIGIN), ADDRESS)
    const others: Keys = { ...keys, keys: [keyOf(newSigner())] }
    expect(seenHeads('new.example/acme', ADDRESS, others)).toMatchObject({
      error: { code: 'unreadable', todo: expect.stringMatching(/set up again with other keys, .* remove `/) },
    })
    expect(seenHeads('new.example/acme', '10.0.0.7:8787', others)).toEqual(ok([]))
  })

  test('a log that is read at a second address is compared with what the first one showed', async () => {
    keepHead(named(log, 300, ORIGIN), ADDRESS)
    for (const address of ['10.0.0.7:8787', undefined])
      expect(await checked(named(other, 600, ORIGIN), address, other)).toMatchObject([{ ok: false }])
  })
})

describe('witnesses of a head', () => {
  const log = new Log(journal(600))
  const forked = new Log(journal(600, (seq) => (seq === 7 ? { by: 'mallory' } : {})))
  const [one, two] = ['w.example/1', 'w.example/2'].map((name) => ({ name, signer: newSigner() }))
  if (one === undefined || two === undefined) throw new Error('the test has no witnesses')
  /** The note with a cosignature. */
  const by = ({ name, signer }: typeof one, note: string): string =>
    `${note}${cosign(note.slice(0, note.lastIndexOf('\n\n') + 1), name, signer, 1_763_000_000_000)}`
  const failing = async (note: string, cosigned: readonly string[], needed = 1, source = log) => {
    const keysOf = [one, two].map(({ name, signer }) => ({ name, x: signer.x }))
    const from = { ...folderLog(''), cosigned: async () => ok(cosigned), readTile: source.readTile }
    const done = await witnessed(from, keys, head(note), { keys: keysOf, needed })
    if (!done.ok) throw new Error(done.error.detail)
    return done.value.checks.flatMap(({ ok: holds, name, detail }) => (holds ? [] : [`${name}: ${detail}`]))
  }
  const NONE =
    'at least 1 of 2 witnesses have cosigned this checkpoint, or a later one that continues it: none has'

  test('a cosignature counts on the checkpoint itself, and on a later one that continues it', async () => {
    expect(await failing(by(one, log.note(300)), [])).toEqual([])
    expect(await failing(log.note(300), [by(one, log.note(300))])).toEqual([])
    expect(await failing(log.note(300), [by(one, log.note(600)), by(two, log.note(300))], 2)).toEqual([])
  })

  test('J01 a cosignature of an earlier head proves nothing about what the edge has added since', async () => {
    expect(await failing(log.note(300), [by(one, log.note(299))])).toEqual([NONE])
  })

  test('J01 a cosignature of a fork, of another log, or of a head that the edge did not sign does not count', async () => {
    const stranger = newSigner()
    for (const [note, source] of [
      [by(one, forked.note(300)), log],
      [by(one, forked.note(600)), forked],
      [by(one, log.note(600, edge, 'new.example/acme')), log],
      [by(one, log.note(600, stranger)), log],
      [by({ ...one, signer: stranger }, log.note(300)), log],
    ] as const)
      expect(await failing(log.note(300), [note], 1, source)).toEqual([NONE])
  })

  test('J01 two cosignatures by one witness are one of two', async () => {
    const twice = [by(one, log.note(300)), by(one, log.note(600))]
    expect(await failing(log.note(300), twice, 2)).toEqual([expect.stringContaining('only w.example/1')])
  })
})

describe('the log and the evidence', () => {
  const entries = journal(600)
  const evidenceOf = (
    log: Log,
    { first = log.note(), last = log.note(), journals = [entries.slice(0, 300), entries.slice(300)] } = {},
  ): Evidence => ({
    isLive: false,
    address: undefined,
    cosigned: async () => ok([]),
    before: async () => ok(first),
    checkpoint: async () => ok(last),
    readTile: log.readTile,
    async *parts() {
      // no runs
    },
    async *journals() {
      for (const page of journals) yield ok({ journal: 'tenant', entries: page })
    },
  })
  /** The failed checks. */
  const failed = async (evidence: Evidence, isPart = false): Promise<string[]> => {
    const done = await verifyEvidence(evidence, keys, isPart, undefined)
    if (!done.ok) throw new Error(done.error.detail)
    return done.value.checks.filter((check) => !check.ok).map(({ name, detail }) => `${name}: ${detail}`)
  }
  const log = new Log(entries)

  test('a log that has each entry once and nothing else is verified, and its head is kept', async () => {
    expect(await failed(evidenceOf(log))).toEqual([])
    expect(seenHeads(ORIGIN, undefined, keys)).toMatchObject({ value: [{ size: 600 }] })
    expect(await failed(evidenceOf(new Log([]), { journals: [] }), true)).toEqual([])
  })

  test('an entry that the log lacks is named', async () => {
    const without = new Log(entries.filter(({ seq }) => seq !== 257))
    expect(await failed(evidenceOf(without))).toEqual([
      'the log has each end of a call, and each entry of the tenant’s journals, once: tenant, entry 257: the log does not have it',
    ])
  })

  test('a leaf that is in the log twice is named', async () => {
    const twice = new Log([...entries, ...entries.slice(4, 5)])
    expect(await failed(evidenceOf(twice))).toEqual([
      'the log has each end of a call, and each entry of the tenant’s journals, once: leaf 600: it is in the log twice',
    ])
  })

  test('a leaf without an entry fails, unless the evidence is a part or the leaf is newer', async () => {
    const [foreign] = journal(1, () => ({ by: 'mallory' }))
    const more = new Log([...entries, ...(foreign === undefined ? [] : [foreign])])
    expect(await failed(evidenceOf(more))).toEqual([
      `the log has no other leaves: leaf 600: no exported journal has the entry ${foreign?.hash}`,
    ])
    expect(await failed(evidenceOf(more), true)).toEqual([])
    expect(await failed(evidenceOf(more, { first: log.note() }))).toEqual([])
  })

  test('entries whose root is not the signed one fail the verification', async () => {
    const other = new Log(journal(600, (seq) => (seq === 600 ? { by: 'mallory' } : {})))
    const names = await failed(evidenceOf(log, { first: log.note(3), last: other.note() }))
    expect(names).toEqual([
      `the entries of the log have the root that the edge signed: ${ORIGIN}: the entries of 600 leaves have another root`,
    ])
    expect(await failed(evidenceOf(log, { first: other.note() }))).toHaveLength(1)
  })

  test('a journal that was changed fails', async () => {
    const changed = entries.map((entry) => (entry.seq === 300 ? { ...entry, at_ms: 2 } : entry))
    expect(await failed(evidenceOf(log, { journals: [changed] }))).toEqual([
      'the tenant’s own journals are intact: tenant: entry 300: `hash` does not match the entry',
    ])
  })

  test('a live log that is older than the one seen before is reported as rolled back; a folder may be older', async () => {
    keepHead(head(log.note()), undefined)
    const older = evidenceOf(new Log(entries.slice(0, 300)), { journals: [entries.slice(0, 300)] })
    expect(await failed(older)).toEqual([])
    expect(seenHeads(ORIGIN, undefined, keys)).toMatchObject({ value: [{ size: 600 }] })
    expect(await failed({ ...older, isLive: true })).toEqual([
      expect.stringContaining('the log was rolled back'),
    ])
  })

  test('a folder whose log has another past than the one seen before is reported as forked', async () => {
    const other = journal(700, (seq) => (seq === 7 ? { by: 'mallory' } : {}))
    keepHead(head(log.note()), undefined)
    expect(await failed(evidenceOf(new Log(other), { journals: [other] }))).toEqual([
      expect.stringContaining('the log was forked'),
    ])
  })

  test('an unsigned checkpoint, before or after, ends the verification', async () => {
    const stranger = log.note(600, newSigner())
    for (const notes of [{ first: stranger }, { last: stranger }])
      expect(await failed(evidenceOf(log, notes))).toEqual([
        expect.stringContaining('the edge signed the checkpoint of the tenant’s log'),
      ])
  })
})
