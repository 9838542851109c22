// Promise: a backup of a running edge holds everything that the edge had acknowledged, as it was at
// one moment. After a restore nothing that had not ended then can run again, evidence and logs still
// verify, and a backup is restored only where and when it is sound.

import { execFileSync } from 'node:child_process'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Manifest } from '../../../cli/host/manifest.ts'
import { openState, readSecrets } from '../../../infra/state.ts'
import { payloadBytes, seal, signerFromJwk } from '../../../shared/evidence/dsse.ts'
import type { JournalEntry } from '../../../shared/evidence/journal.ts'
import { LIMITS } from '../../../shared/limits.ts'
import { bearer, client } from '../../../shared/routes/client.ts'
import type { Call } from '../../../shared/wire/calls.ts'
import type { Restore } from '../../../shared/wire/restore.ts'
import { attested, endsIn, journalOf, logHolds } from '../../support/auditor.ts'
import { type CliResult, countersign } from '../../support/countersign.ts'
import { eventually } from '../../support/eventually.ts'
import { refusalOf, unwrap } from '../../support/fixtures.ts'
import { about, HurtStack, insist, processesWith, strike } from '../../support/stack/hurt-stack.ts'

const folder = mkdtempSync(join(tmpdir(), 'countersign-backup-'))
const backup = join(folder, 'backup')
/** The state folder of the second host. */
const there = join(folder, 'state')
/** A state folder with the storage that the first host lost. */
const source = join(folder, 'source')
/** The running call ends when the test ends its process. */
const STAYS = about(55)
const REASON = 'the disk of the first host failed'

const on = (state: string, ...args: readonly string[]): Promise<CliResult> =>
  countersign([...args, '--json'], { env: { COUNTERSIGN_STATE: state } })
const codeOf = ({ out }: CliResult): unknown => JSON.parse(out).error?.code

let first: HurtStack
let second: HurtStack
/** Calls that were answered before the backup began, as they were answered. */
const acknowledged: Call[] = []
let running: Call
let granted: Call
let waiting: Call
let taken: CliResult
let overRunning: CliResult
let loneKey: string

beforeAll(async () => {
  first = await HurtStack.start()
  await comeToLife()
  await loseTheHost()
})
afterAll(async () => {
  await first?.stop()
  await second?.stop()
  rmSync(folder, { recursive: true, force: true })
})

/** Takes a backup while agents propose calls, and one call runs, one is granted and one waits. */
async function comeToLife(): Promise<void> {
  const { operator, stack } = first
  unwrap(await operator('putAgent', { params: { name: 'lone' }, body: { tools: ['*'], pool: 'empty' } }))
  const { key = '' } = unwrap(await operator('rotateAgentKey', { params: { name: 'lone' } }))
  loneKey = key
  granted = unwrap(
    await client(stack.url, bearer(key))('proposeCallInNewRun', {
      body: { tool: 'mark_quickly', args: { mark: 'never\n' } },
    }),
  )
  waiting = await first.propose('mark_asking', { mark: 'asked\n' })
  running = await first.propose('mark_slowly', { mark: 'ran\n', seconds: STAYS })
  await eventually('it runs', () => first.marks(running.run).length > 0)
  let busy = true
  let asked = 0
  const load = async (): Promise<void> => {
    const run = await first.run()
    while (busy) {
      const wish = ++asked % 10 === 0 ? { wait: 10 } : { run, wait: 10 }
      const call = await first.propose('text_stats', { text: `${asked}` }, wish)
      if (taken === undefined) acknowledged.push(call)
    }
  }
  const loads = Promise.all([load(), load(), load()])
  await eventually('calls end', () => acknowledged.length > 20)
  const before = [...acknowledged]
  taken = await on(stack.state.dir, 'backup', backup)
  acknowledged.splice(0, acknowledged.length, ...before)
  busy = false
  overRunning = await on(stack.state.dir, 'restore', backup, '--replace', '--accept-rollback', REASON)
  await loads
}

/** After the backup, the waiting call is approved and both calls run; then the host is lost. */
async function loseTheHost(): Promise<void> {
  unwrap(
    await first.operator('answerApproval', {
      params: { id: waiting.approval?.id ?? '' },
      body: { decision: 'approve' },
    }),
  )
  expect((await first.ended(waiting)).state).toBe('succeeded')
  expect((await first.read(running)).state).toBe('running')
  await strike(first.stack.edge)
  // The running call ends, and its worker can't report that.
  for (const pid of processesWith(STAYS))
    if (readFileSync(`/proc/${pid}/comm`, 'utf8') === 'sleep\n') process.kill(pid)
  await eventually('the statement is in the spool', () => first.spool().size > 0, 30_000)
  await first.stack.worker.stop()
  mkdirSync(there, { mode: 0o700 })
  const kept = ['secrets.json', 'seeded.json', 'worker'].map((name) => join(first.stack.state.dir, name))
  execFileSync('cp', ['--archive', '--target-directory', there, '--', ...kept]) // with its owners
  cpSync(join(first.stack.state.edge, 'objects'), join(source, 'edge/objects'), { recursive: true })
  cpSync(join(there, 'secrets.json'), join(source, 'secrets.json'))
  await first.stop()
}

const filesOf = (dir: string): string[] =>
  readdirSync(dir, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(dir, join(entry.parentPath, entry.name)))
    .sort()

/** The manifest of a copy of the backup, changed and signed again by the installation. */
function withManifest(name: string, change: (manifest: Manifest) => void, signed = true): string {
  const copy = join(folder, name)
  cpSync(backup, copy, { recursive: true })
  const path = join(copy, 'manifest.json')
  const envelope = JSON.parse(readFileSync(path, 'utf8'))
  const manifest = JSON.parse(Buffer.from(payloadBytes(envelope)).toString()) as Manifest
  change(manifest)
  const again = seal(
    envelope.payloadType,
    manifest,
    signerFromJwk(JSON.parse(readFileSync(join(there, 'secrets.json'), 'utf8')).edge),
  )
  writeFileSync(path, JSON.stringify(signed ? again : { ...again, signatures: envelope.signatures }))
  return copy
}

describe('a backup', () => {
  test('is taken while the edge runs, and only its user can read it', () => {
    expect(taken).toMatchObject({ code: 0, err: '' })
    expect(statSync(backup).mode & 0o777).toBe(0o700)
    for (const file of filesOf(backup))
      expect([file, statSync(join(backup, file)).mode & 0o777]).toEqual([file, 0o600])
    expect(
      filesOf(backup).filter((file) => !/^objects\/countersign-[a-z]+\/\w+\.sqlite$/.test(file)),
    ).toEqual(['manifest.json'])
  })

  test('holds no key of the installation', () => {
    const { edge, operator, installation, redis } = JSON.parse(
      readFileSync(join(there, 'secrets.json'), 'utf8'),
    )
    for (const file of filesOf(backup)) {
      const bytes = readFileSync(join(backup, file))
      for (const secret of [edge.d, operator, installation, redis.edge, redis.worker])
        expect([file, bytes.includes(secret)]).toEqual([file, false])
    }
  })

  test('is refused in a folder that holds something', async () => {
    const refused = await on(there, 'backup', backup)
    expect([refused.code, codeOf(refused)]).toEqual([1, 'not_empty'])
  })

  test('is refused where there is no storage, and leaves no manifest', async () => {
    const empty = join(folder, 'of-nothing')
    expect(codeOf(await on(there, 'backup', empty))).toBe('no_objects')
    expect(filesOf(empty)).toEqual([])
  })

  test('that finds no room leaves nothing that looks like a backup, and such a restore leaves nothing either', async () => {
    const small = join(folder, 'small')
    mkdirSync(small)
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=300k', 'none', small])
    try {
      const full = await on(source, 'backup', join(small, 'backup'))
      expect([codeOf(full), filesOf(join(small, 'backup'))]).toEqual(['backup_failed', []])
      cpSync(join(there, 'secrets.json'), join(small, 'secrets.json'))
      expect(codeOf(await on(small, 'restore', backup, '--accept-rollback', REASON))).toBe('restore_failed')
      expect(filesOf(small)).toEqual(['secrets.json'])
    } finally {
      execFileSync('umount', [small])
    }
  })
})

describe('a restore is refused', () => {
  const refused = async (from: string, ...flags: readonly string[]): Promise<unknown> => {
    const result = await on(there, 'restore', from, ...flags)
    expect(result.code).toBe(1)
    expect(existsSync(join(there, 'edge/objects'))).toBe(false)
    return codeOf(result)
  }

  test('over a running stack', () => {
    expect([overRunning.code, codeOf(overRunning)]).toEqual([1, 'edge_running'])
  })

  test('without a reason, if nothing shows that the log does not go back', async () => {
    expect(await refused(backup)).toBe('rollback')
  })

  test('into another installation', async () => {
    const other = mkdtempSync(join(folder, 'other-'))
    const state = openState(other)
    if (!state.ok) throw new Error(state.error)
    readSecrets(state.value)
    expect(codeOf(await on(other, 'restore', backup, '--accept-rollback', REASON))).toBe('other_installation')
  })

  test('where there is no `secrets.json`', async () => {
    expect(codeOf(await on(join(folder, 'nowhere'), 'restore', backup, '--accept-rollback', REASON))).toBe(
      'no_secrets',
    )
  })

  test('from a newer version', async () => {
    const newer = withManifest('newer', ({ migrations }) => migrations.push('run/0999_from_the_future.sql'))
    expect(await refused(newer, '--accept-rollback', REASON)).toBe('newer_version')
  })

  test('if a file was changed', async () => {
    const changed = withManifest('changed', () => undefined)
    const path = join(changed, filesOf(changed).find((file) => file.includes('countersign-run/')) ?? '')
    const bytes = readFileSync(path)
    bytes.writeUInt8(bytes.readUInt8(bytes.length - 1) ^ 1, bytes.length - 1)
    writeFileSync(path, bytes)
    expect(await refused(changed, '--accept-rollback', REASON)).toBe('damaged')
  })

  test('if the manifest was changed', async () => {
    const unsigned = withManifest('unsigned', (manifest) => manifest.files.pop(), false)
    expect(await refused(unsigned, '--accept-rollback', REASON)).toBe('damaged')
  })

  test('if the manifest names a path outside of the objects', async () => {
    const outside = withManifest('outside', (manifest) => {
      manifest.files.push({ path: '../../countersign-run/a.sqlite', bytes: 0, sha256: '0'.repeat(64) })
    })
    expect(await refused(outside, '--accept-rollback', REASON)).toBe('newer_version')
  })

  test('if the backup was not finished', async () => {
    const cut = withManifest('unfinished', () => undefined)
    rmSync(join(cut, 'manifest.json'))
    expect(await refused(cut, '--accept-rollback', REASON)).toBe('no_backup')
  })
})

describe('after a restore on another host', () => {
  let before: JournalEntry[]
  let firstAt: number
  let twice: CliResult
  beforeAll(async () => {
    // Somebody who can write the backup adds changes to a database of it.
    const log = filesOf(backup).find((file) => /countersign-log\/[0-9a-f]{64}/.test(file)) ?? ''
    writeFileSync(join(backup, `${log}-wal`), 'not in the manifest')
    const restored = await on(there, 'restore', backup, '--accept-rollback', REASON)
    expect(restored).toMatchObject({ code: 0, err: '' })
    firstAt = JSON.parse(readFileSync(join(there, 'edge/objects/restored.json'), 'utf8')).restored_at_ms
    twice = await on(there, 'restore', backup, '--accept-rollback', REASON)
    expect(await on(there, 'restore', backup, '--replace')).toMatchObject({ code: 0, err: '' })
    expect(filesOf(join(there, 'edge/objects')).filter((file) => !file.endsWith('.sqlite'))).toEqual([
      'restored.json',
    ])
    second = await HurtStack.start({ state: there })
    before = await journalOf(second, waiting.run)
  })

  test('a second restore is refused', () => {
    expect([twice.code, codeOf(twice)]).toEqual([1, 'not_empty'])
  })

  test('every call that was acknowledged before the backup is there, and its evidence verifies', async () => {
    for (const call of acknowledged) {
      const now = await second.read(call)
      expect(now).toEqual(call)
      await attested(second, now)
    }
    expect(acknowledged.length).toBeGreaterThan(20)
  })

  test('L2 a call that ran, was granted or waited ends indeterminate, and nothing runs twice', async () => {
    const lone = client(second.stack.url, bearer(loneKey))
    const at = (call: Call) => ({ params: { run: call.run, call: call.id } })
    const ended = [
      await second.read(running),
      unwrap(await lone('readCall', at(granted))),
      await second.read(waiting),
    ]
    for (const call of ended)
      expect(call).toMatchObject({
        state: 'indeterminate',
        result: { ok: false, error: { code: 'restored' } },
      })
    for (const call of [running, waiting]) await attested(second, await second.read(call))
    await second.dropped(running) // the worker kept its statement in the spool
    expect((await second.read(running)).state).toBe('indeterminate')
    expect([second.marks(running.run), second.marks(waiting.run), second.marks(granted.run)]).toEqual([
      ['ran'],
      ['asked'],
      [],
    ])
    expect(before.at(-1)).toMatchObject({
      kind: 'indeterminate',
      body: { restored: true, was: 'awaiting_approval' },
    })
  })

  test('a yes to a question of the backup is refused', async () => {
    const answer = await second.operator('answerApproval', {
      params: { id: waiting.approval?.id ?? '' },
      body: { decision: 'approve' },
    })
    expect(refusalOf(answer)).toBe('409 already_answered')
    const { items } = unwrap(await second.operator('listApprovals', { query: { status: 'pending' } }))
    await eventually('the inbox is empty', () => items.length === 0)
  })

  test('the log contains the end of each call and each administrative change once, and its head is the root over these', async () => {
    const { items } = unwrap(await second.operator('listRuns', { query: { limit: 100 } }))
    expect(items.length).toBeGreaterThan(5)
    expect(items.length).toBeLessThan(100) // so one page has all
    const auditor = { agent: second.operator } as HurtStack // the runs are of two agents
    const ends: JournalEntry[] = []
    for (const { id } of items) ends.push(...endsIn(await journalOf(auditor, id)))
    const journal = unwrap(await second.operator('readTenantJournal', { query: {} })).items
    expect(journal.length).toBeLessThan(100) // so one page has all
    await logHolds(second, [...ends, ...journal])
  })

  test('the journal of the installation contains each restore and its reason once, even if two restores precede a start', async () => {
    const installation = client(second.stack.url, bearer(second.stack.dev.installation_key))
    await second.stack.edge.restart()
    const { items } = unwrap(await insist(() => installation('readInstallationJournal', { query: {} })))
    const entries = items.filter(({ kind }) => kind === 'installation.restored')
    expect(entries).toMatchObject([
      { body: { restores: 1, rollback: REASON } },
      { body: { restores: 1, rollback: null } },
    ])
    for (const { body } of entries) expect(body).not.toHaveProperty('earlier')
  })

  test('agents can propose calls in the old runs and in new ones, and a restart keeps these calls', async () => {
    const fresh = await second.propose('text_stats', { text: 'a' }, { wait: 10 })
    expect(fresh.state).toBe('succeeded')
    const next = await second.propose('mark_asking', { mark: 'new\n' }, { run: waiting.run })
    expect(next.state).toBe('awaiting_approval')
    const back = await second.stack.edge.restart()
    expect(back.ok).toBe(true)
    expect((await second.read(next)).state).toBe('awaiting_approval')
    unwrap(
      await second.operator('answerApproval', {
        params: { id: next.approval?.id ?? '' },
        body: { decision: 'approve' },
      }),
    )
    expect((await second.ended(next)).state).toBe('succeeded')
  })

  test('an edge without a lock file is noticed too', async () => {
    const lock = join(there, 'lock')
    const held = readFileSync(lock)
    rmSync(lock)
    const refused = await on(there, 'restore', backup, '--replace', '--accept-rollback', REASON)
    writeFileSync(lock, held, { mode: 0o600 })
    expect(codeOf(refused)).toBe('edge_running')
    expect(JSON.parse(refused.out).error.detail).toContain(`an edge (pid ${second.stack.edge.pid})`)
  })

  test('storage is replaced without a reason only if no log goes back', async () => {
    await second.stop()
    expect(codeOf(await on(there, 'restore', backup, '--replace'))).toBe('rollback')
    const later = join(folder, 'later')
    expect(await on(there, 'backup', later)).toMatchObject({ code: 0 })
    const restored = await on(there, 'restore', later, '--replace')
    expect(restored).toMatchObject({ code: 0 })
    expect(existsSync(JSON.parse(restored.out).replaced)).toBe(true)
    expect(JSON.parse(readFileSync(join(there, 'edge/objects/restored.json'), 'utf8'))).toMatchObject({
      restores: 2,
      rollback: null,
      earlier: [],
    })
  })

  test('the reasons of restores are kept until the restored storage has them in its journal, at most `restores_unjournalled`', async () => {
    const path = join(there, 'edge/objects/restored.json')
    const mark = (): Restore => JSON.parse(readFileSync(path, 'utf8'))
    const again = (...flags: readonly string[]) => on(there, 'restore', backup, '--replace', ...flags)
    expect(LIMITS.restores_unjournalled).toBe(8)
    for (let i = 0; i < 9; i++)
      expect(await again('--accept-rollback', `reason ${i}`)).toMatchObject({ code: 0 })
    expect(mark().earlier.map(({ rollback }) => rollback)).toEqual(
      Array.from({ length: 8 }, (_, i) => `reason ${i}`),
    )
    expect(codeOf(await again())).toBe('too_many_restores')
    const later = join(folder, 'later') // its journal has the reason of the first restore
    writeFileSync(
      path,
      JSON.stringify({ ...mark(), earlier: [{ ...mark().earlier[0], restored_at_ms: firstAt }] }),
    )
    expect(await on(there, 'restore', later, '--replace')).toMatchObject({ code: 0 })
    expect(mark().earlier.map(({ rollback }) => rollback)).toEqual(['reason 8'])
  })
})
