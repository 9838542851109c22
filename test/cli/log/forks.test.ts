// Promise: whoever has seen a head of a log finds each log that does not continue it, by the command
// line and by a witness: forked at any place, cut, set back to an older state, of other keys or of
// another name. The sentence names the check, and what was seen before is not forgotten (J01, T03).

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { keepHead, seenHeads, signedHead } from '../../../cli/log/checkpoints.ts'
import { LOG } from '../../../cli/log/commands.ts'
import type { Evidence } from '../../../cli/log/evidence.ts'
import { verifyEvidence } from '../../../cli/log/verify-log.ts'
import { paint } from '../../../cli/shell/terminal-text.ts'
import { StateFolder } from '../../../cli/witness/state-folder.ts'
import { Witness } from '../../../cli/witness/witness.ts'
import type { Check } from '../../../shared/evidence/checks.ts'
import { kidOf } from '../../../shared/evidence/dsse.ts'
import type { JournalEntry } from '../../../shared/evidence/journal.ts'
import type { Keys } from '../../../shared/evidence/keys.ts'
import { verifyConsistency } from '../../../shared/evidence/merkle.ts'
import { parseTilePath } from '../../../shared/evidence/tiles.ts'
import { ok } from '../../../shared/result.ts'
import { EDGE, KEYS, STRANGER, WORKER } from '../../shared/evidence.ts'
import { DefinedLog, journal, ORIGIN } from './defined-log.ts'

const SIZE = 7
const NOW = 1_795_000_000_000
const keys: Keys = { ...KEYS, tenant: 'acme' }

type Shown = { readonly log: DefinedLog; readonly entries: readonly JournalEntry[]; readonly size: number }
const shown = (entries: readonly JournalEntry[], size = entries.length): Shown => ({
  log: new DefinedLog(entries),
  entries,
  size,
})
const TRUE = shown(journal(SIZE))
/** The log whose entries differ from `place` on. */
const forkedAt = (place: number, size = SIZE): Shown =>
  shown(journal(size, (seq) => (seq === place + 1 ? { by: 'mallory' } : {})))

const folder = mkdtempSync(join(tmpdir(), 'countersign-forks-'))
const file = (name: string, text: string): string => {
  const path = join(folder, name)
  writeFileSync(path, text)
  return path
}
const keyFile = file('keys.json', JSON.stringify(keys))
const before = process.env['XDG_STATE_HOME']
let state: StateFolder
let witness: Witness
beforeAll(async () => {
  process.env['XDG_STATE_HOME'] = folder
  const opened = await StateFolder.open(join(folder, 'witness'))
  if (!opened.ok) throw new Error(opened.error.detail)
  state = opened.value
  witness = new Witness('w', [{ origin: ORIGIN, keys: [EDGE.x] }], state)
})
afterAll(() => {
  state.close()
  rmSync(folder, { recursive: true })
  if (before === undefined) delete process.env['XDG_STATE_HOME']
  else process.env['XDG_STATE_HOME'] = before
})

/** The first failed check, with the beginning of its sentence; null if all hold. */
const firstFailure = (checks: readonly Check[]): string | null => {
  const failed = checks.find((check) => !check.ok)
  if (failed === undefined) return null
  return failed.detail === undefined ? failed.name : `${failed.name}: ${failed.detail}`
}

async function run(word: string, args: object, { log, size }: Shown, note: string): Promise<string | null> {
  const api = async (route: string, { params }: { params: { tile?: string } }) => {
    if (route === 'logWitnesses') return ok({ items: [] })
    const tile = parseTilePath(params.tile ?? '')
    return tile === undefined ? ok(note) : log.readTile(tile)
  }
  const flags = { keys: keyFile, witness: [] }
  const connection = () => ({ url: 'https://edge.example', key: '' })
  const command = LOG.find(({ words }) => words[1] === word)
  const done = await command?.run({ args, flags, api, connection, paint: paint(false) } as never) // all that it uses
  if (done?.ok !== true) throw new Error(`${word} of ${size} leaves: ${JSON.stringify(done)}`)
  return firstFailure((done.value.json as { checks: Check[] }).checks)
}

/** `countersign log checkpoint` of somebody who has seen `size` leaves of the true log. */
const checkpoint = (given: Shown, note = given.log.note(given.size)) => run('checkpoint', {}, given, note)

/** `countersign log consistency` of an earlier checkpoint of the true log and a later one. */
const consistency = (seen: number, given: Shown, note = given.log.note(given.size)) => {
  const args = { OLD: file('old', TRUE.log.note(seen)), NEW: file('new', note) }
  return run('consistency', args, given, note)
}

/** `countersign log verify`; `isLive`: of an edge, which may still add leaves, and not of a folder. */
async function verify(
  { log, entries, size }: Shown,
  note = log.note(size),
  first = note,
  isLive = true,
): Promise<string | null> {
  const evidence: Evidence = {
    isLive,
    address: undefined,
    cosigned: async () => ok([]),
    before: async () => ok(first),
    checkpoint: async () => ok(note),
    readTile: log.readTile,
    async *parts() {
      // no runs
    },
    async *journals() {
      yield ok({ journal: 'tenant', entries: entries.slice(0, size) })
    },
  }
  const done = await verifyEvidence(evidence, keys, false, undefined)
  if (!done.ok) throw new Error(done.error.detail)
  return firstFailure(done.value.checks)
}

/** The witness's answer to a head, whose submitter claims that the witness has `old` leaves. */
function submitted(old: number, proof: readonly string[], note: string): string {
  const lines = proof.map((hash) => `${Buffer.from(hash, 'hex').toString('base64')}\n`)
  const { status, body } = witness.addCheckpoint(`old ${old}\n${lines.join('')}\n${note}`, NOW)
  return status === 200 ? 'cosigned' : `${status} ${body.trimEnd()}`
}

/** The command line and the witness have seen this much of the true log, and nothing later. */
function see(size: number): void {
  const head = signedHead(TRUE.log.note(size), keys)
  if (!head.ok) throw new Error(head.error)
  const kept = keepHead(head.value, undefined)
  if (!kept.ok) throw new Error(kept.error.detail)
  state.keep(ORIGIN, TRUE.log.note(size), NOW)
}

/** The size of the true log that both still remember. */
function remembered(): unknown {
  const seen = seenHeads(ORIGIN, undefined, keys)
  const [head] = seen.ok ? seen.value : []
  return head !== undefined && head.note === state.head(ORIGIN)?.note ? head.size : seen
}

const CONTINUES = 'the log continues the checkpoint that you saw before'
const FORKED = new RegExp(`^${CONTINUES}: (?:${ORIGIN}: )?the log was forked: you saw \\d leaves at 20`)
const ROLLED_BACK = new RegExp(
  `^${CONTINUES}: (?:${ORIGIN}: )?the log was rolled back: you saw \\d leaves at 20`,
)
const NOT_BEGUN = 'the log of the later one begins with the log of the earlier one'
const OTHER_LOG = 'both are of the same log, the earlier one first'
const UNPROVEN = '422 the proof does not show that the log continues the head of the old size'
const OTHER_ROOT = '409 this witness has cosigned another root for this size'

/** Everybody who has seen `seen` leaves of the true log looks at this log. */
async function expectFork(seen: number, given: Shown): Promise<void> {
  expect(await checkpoint(given)).toMatch(FORKED)
  expect(await verify(given)).toMatch(FORKED)
  expect(await consistency(seen, given)).toBe(NOT_BEGUN)
  const isSameSize = given.size === seen
  for (const proof of isSameSize ? [[]] : [given.log.proof(seen, given.size), TRUE.log.proof(seen, SIZE), []])
    expect(submitted(seen, proof, given.log.note(given.size))).toBe(isSameSize ? OTHER_ROOT : UNPROVEN)
  expect(remembered()).toBe(seen)
}

async function expectRollback(seen: number, given: Shown): Promise<void> {
  expect(await checkpoint(given)).toMatch(ROLLED_BACK)
  expect(await verify(given)).toMatch(ROLLED_BACK)
  expect(await consistency(seen, given)).toBe(OTHER_LOG)
  expect(submitted(given.size, [], given.log.note(given.size))).toBe(`409 ${seen}`)
  expect(submitted(seen, [], given.log.note(given.size))).toBe(
    '400 the old size is greater than the size of the checkpoint',
  )
  expect(remembered()).toBe(seen)
}

test('the true log is accepted by everybody, from each size to each later one', async () => {
  for (let seen = 1; seen <= SIZE; seen++)
    for (let size = seen; size <= SIZE; size++) {
      const later = { ...TRUE, size }
      see(seen)
      expect(await consistency(seen, later)).toBe(null)
      expect(submitted(seen, TRUE.log.proof(seen, size), TRUE.log.note(size))).toBe('cosigned')
      expect(await (size % 2 === 0 ? checkpoint(later) : verify(later))).toBe(null)
      expect(remembered()).toBe(size)
    }
})

describe('J01 a log that somebody has seen before', () => {
  test('J01 is found if it was forked at any place, by everybody who has seen that place', async () => {
    for (let place = 0; place < SIZE; place++) {
      const fork = forkedAt(place, SIZE + 2)
      for (let seen = place + 1; seen <= SIZE; seen++) {
        see(seen)
        for (const size of [seen, seen + 1, SIZE + 2]) await expectFork(seen, { ...fork, size })
      }
      if (place === 0) continue
      see(place) // which the fork begins with
      expect(await checkpoint(fork)).toBe(null)
    }
  })

  test('J01 is found if any leaf was replaced, removed, inserted or moved, and the leaves after it stay', async () => {
    const { entries } = TRUE
    const [stranger] = journal(1, () => ({ by: 'mallory' }))
    const at = (place: number): JournalEntry => entries[place] as JournalEntry // in range
    see(SIZE)
    for (let place = 0; place < SIZE; place++) {
      const next = place + 1 < SIZE ? place + 1 : 0
      const changes = [
        entries.with(place, stranger as JournalEntry), // a journal of one has one
        [...entries.toSpliced(place, 1), ...journal(1)],
        entries.toSpliced(place, 0, stranger as JournalEntry),
        entries.with(place, at(next)).with(next, at(place)),
      ]
      for (const leaves of changes) {
        const { log, size } = shown(leaves)
        expect(await checkpoint({ ...TRUE, log, size })).toMatch(FORKED)
        const proof = size === SIZE ? [] : log.proof(SIZE, size)
        expect(submitted(SIZE, proof, log.note())).toBe(size === SIZE ? OTHER_ROOT : UNPROVEN)
      }
    }
    expect(remembered()).toBe(SIZE)
  })

  test('J01 is found if its tail was cut, to any length', async () => {
    for (let seen = 2; seen <= SIZE; seen++) {
      see(seen)
      for (let size = 0; size < seen; size++) await expectRollback(seen, { ...TRUE, size })
    }
  })

  test('J01 is found if an older state was restored, at once and after it has grown again', async () => {
    for (let left = 1; left < SIZE; left++) {
      const fork = forkedAt(left, SIZE + 3)
      see(SIZE)
      for (let size = left; size <= SIZE + 3; size++)
        await (size < SIZE ? expectRollback : expectFork)(SIZE, { ...fork, size })
    }
  })
})

describe('J01 the parts of different logs do not fit together', () => {
  test('J01 no consistency proof leads from a log to its fork, whichever hashes of both it has', () => {
    let tried = 0
    for (let place = 0; place < SIZE; place++) {
      const fork = forkedAt(place).log
      for (let m = place + 1; m <= SIZE; m++)
        for (let n = m; n <= SIZE; n++) {
          const [ours, theirs] = [TRUE.log.proof(m, n), fork.proof(m, n)]
          for (let mixed = 0; mixed < 2 ** ours.length; mixed++, tried++) {
            const proof = ours.map((hash, i) =>
              Math.floor(mixed / 2 ** i) % 2 === 0 ? hash : (theirs[i] ?? ''),
            )
            const claim = { m, rootM: TRUE.log.root(m), n, rootN: fork.root(n), proof }
            if (verifyConsistency(claim)) throw new Error(`accepted ${JSON.stringify(claim)}`)
          }
        }
    }
    expect(tried).toBeGreaterThan(250)
  })

  test('J01 `log verify` finds the head of one log over the leaves or the journals of its fork', async () => {
    const fork = forkedAt(4)
    see(3) // both begin with these
    const rebuilt =
      /^the entries of the log have the root that the edge signed: .*: the entries of 7 leaves have another root$/
    const folderOf = (entries: readonly JournalEntry[], last = TRUE.log.note(), first = last) =>
      verify({ ...TRUE, entries }, last, first, false)
    const { entries } = TRUE
    expect(await folderOf(entries, fork.log.note())).toMatch(rebuilt)
    expect(await folderOf(entries, TRUE.log.note(), fork.log.note())).toMatch(rebuilt)
    expect(await folderOf([...entries.slice(0, 4), ...fork.entries.slice(4)])).toBe(
      'the log has each end of a call, and each entry of the tenant’s journals, once: tenant, entry 5: the log does not have it',
    )
    expect(await folderOf(entries.slice(0, 6))).toMatch(
      /^the log has no other leaves: leaf 6: no exported journal has the entry [0-9a-f]{64}$/,
    )
    expect(remembered()).toBe(3)
  })
})

/** How everybody answers to a note of the newest head of the true log that is not signed as it should be. */
const SIGNED = 'the edge signed the checkpoint of the tenant’s log'
const UNSIGNED = `${SIGNED}: the log’s key has not signed it`
const UNTRUSTED = '403 no key of the log that this witness trusts has signed the checkpoint'
const swapped = TRUE.log.note().replace(/(?<= )\S+\n$/, (line) => {
  const theirs = Buffer.from(TRUE.log.note(SIZE, STRANGER).trimEnd().split(' ').at(-1) ?? '', 'base64')
  return `${Buffer.concat([Buffer.from(line, 'base64').subarray(0, 4), theirs.subarray(4)]).toString('base64')}\n`
})
const TABLE: Readonly<Record<string, readonly [note: string, command: string, witness: string]>> = {
  'that a worker’s key signed': [TRUE.log.note(SIZE, WORKER), UNSIGNED, UNTRUSTED],
  'that a stranger’s key signed': [TRUE.log.note(SIZE, STRANGER), UNSIGNED, UNTRUSTED],
  'that a stranger signed under the id of the edge’s key': [
    swapped,
    `${SIGNED}: the signature is invalid`,
    UNTRUSTED,
  ],
  'of the log of another tenant': [
    TRUE.log.note(SIZE, EDGE, 'edge.example/other'),
    `${SIGNED}: it is not a checkpoint of the log of \`acme\``,
    '404 this witness does not know the log',
  ],
}
for (const [name, [note, byCommand, byWitness]] of Object.entries(TABLE))
  test(`J01 T03 a checkpoint ${name} is refused: ${byCommand}`, async () => {
    see(3)
    const proof = TRUE.log.proof(3, SIZE)
    expect(await checkpoint(TRUE, note)).toBe(byCommand)
    expect(await verify(TRUE, note)).toBe(byCommand)
    expect(await verify(TRUE, note, TRUE.log.note())).toBe(byCommand)
    expect(await consistency(3, TRUE, note)).toBe(byCommand)
    expect(submitted(3, proof, note)).toBe(byWitness)
    expect(remembered()).toBe(3)
  })

test('J01 T03 a checkpoint is refused if the key file has the keys of edge and worker exchanged', () => {
  const exchanged = KEYS.keys.map((key) => {
    const { x } = key.role === 'edge' ? WORKER : EDGE
    return { ...key, x, kid: kidOf(x) }
  })
  expect(signedHead(TRUE.log.note(), { ...keys, keys: exchanged })).toEqual({
    ok: false,
    error: 'the log’s key has not signed it',
  })
})

test('J01 a log under another name does not take the place of the one that was seen, even if it continues it', async () => {
  const renamed = 'elsewhere.example/acme'
  see(SIZE)
  for (const given of [TRUE, forkedAt(2)]) {
    const [note, other] = [given.log.note(), given.log.note(SIZE, EDGE, renamed)]
    expect(await consistency(SIZE, given, other)).toBe(OTHER_LOG)
    expect(submitted(SIZE, [], other)).toBe('404 this witness does not know the log')
    const sentence = `the log was renamed: you saw \`${ORIGIN}\` with 7 leaves at 20`
    expect(await checkpoint(given, other)).toMatch(new RegExp(`^${CONTINUES}: ${sentence}`))
    for (const first of [note, other])
      expect(await verify(given, other, first)).toMatch(new RegExp(`^${CONTINUES}: ${renamed}: ${sentence}`))
    expect(remembered()).toBe(SIZE)
  }
})
