// Calls of one run share a folder on this worker, which is removed after the run has been idle, and
// not before.

import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  statfsSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test, vi } from 'vitest'
import { RunFolders } from '../../../worker/calls/run-folders.ts'
import { removeLeftOvers } from '../../../worker/host/owned-folders.ts'
import { eventually } from '../../support/eventually.ts'

const root = mkdtempSync(join(tmpdir(), 'countersign-runs-'))
afterAll(() => rmSync(root, { recursive: true, force: true }))
const RUN = 'run_01JZ0000000000000000000000'
const HOUR = 3_600_000

const MiB = 1024 * 1024
const LIMITS = { workspace_bytes: 4 * MiB, workspace_inodes: 100 }

const entered = async (folders: RunFolders, run: string, limits = LIMITS): Promise<string> => {
  const folder = await folders.enter(run, 'new', limits)
  if (!folder.ok) throw new Error(JSON.stringify(folder.error))
  return folder.value
}

test('two calls of a run get the same private folder, which stays while a call uses it', async () => {
  const folders = new RunFolders(root)
  const first = await entered(folders, RUN)
  writeFileSync(join(first, 'left'), 'behind')
  expect(statSync(first).mode & 0o777).toBe(0o700)
  const second = await entered(folders, RUN)
  expect(second).toBe(first)
  folders.leave(RUN)
  await folders.sweep(performance.now() + 2 * HOUR)
  expect(existsSync(join(first, 'left'))).toBe(true)
  folders.leave(RUN)
  await folders.sweep(performance.now() + HOUR / 2)
  expect(existsSync(first)).toBe(true)
  await folders.sweep(performance.now() + 2 * HOUR)
  expect(existsSync(first)).toBe(false)
  folders.close()
})

test('a run folder of an earlier worker process is found again and removed when it has been idle long enough', async () => {
  const before = new RunFolders(root)
  const folder = await entered(before, RUN)
  before.close()
  const next = new RunFolders(root)
  await next.sweep()
  expect(existsSync(folder)).toBe(true)
  await next.sweep(performance.now() + 2 * HOUR)
  expect(existsSync(folder)).toBe(false)
  next.close()
})

test('the idle time of a run folder counts from its last call, even after a restart', async () => {
  const at = join(root, 'used')
  const before = new RunFolders(at)
  const folder = await entered(before, RUN)
  mkdirSync(join(folder, 'project'))
  const long_ago = new Date(Date.now() - 1.2 * HOUR)
  utimesSync(folder, long_ago, long_ago)
  expect(await before.enter(RUN, 'kept', LIMITS)).toMatchObject({ ok: true })
  before.close() // killed while a call used it
  const next = new RunFolders(at)
  await next.sweep()
  expect(existsSync(folder)).toBe(true)
  utimesSync(folder, long_ago, long_ago)
  await next.enter(RUN, 'kept', LIMITS)
  utimesSync(folder, long_ago, long_ago)
  next.leave(RUN)
  next.close()
  const last = new RunFolders(at)
  await last.sweep()
  expect(existsSync(folder)).toBe(true)
  last.close()
})

test('a step of the host’s clock makes no run folder older, and one dated in the future is still removed', async () => {
  const at = join(root, 'stepped')
  const before = new RunFolders(at)
  const folder = await entered(before, RUN)
  before.leave(RUN)
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 3 * HOUR })
  await before.sweep()
  expect(existsSync(folder)).toBe(true)
  await before.enter(RUN, 'kept', LIMITS)
  before.leave(RUN) // which records the time of that clock
  before.close()
  vi.useRealTimers()
  const next = new RunFolders(at)
  await next.sweep(performance.now() + 2 * HOUR)
  expect(existsSync(folder)).toBe(false)
  next.close()
})

test('a run folder that calls have used is found again or reported as lost, never recreated empty', async () => {
  const folders = new RunFolders(join(root, 'kept'))
  const folder = await entered(folders, RUN)
  folders.leave(RUN)
  expect(await folders.enter(RUN, 'kept', LIMITS)).toEqual({ ok: true, value: folder })
  folders.leave(RUN)
  await folders.sweep(performance.now() + 2 * HOUR)
  expect(await folders.enter(RUN, 'kept', LIMITS)).toEqual({ ok: false, error: 'lost' })
  expect(existsSync(folder)).toBe(false)
  folders.close()
})

/** A tree deeper than any path can name, with an unreadable top and a name that is not UTF-8. */
function nest(folder: string): void {
  const [inner, outer] = [join(root, 'inner'), join(root, 'outer')]
  mkdirSync(inner)
  writeFileSync(Buffer.concat([Buffer.from(`${inner}/`), Buffer.from([0xff, 0xfe])]), '')
  for (let depth = 0; depth < 30; depth++) {
    mkdirSync(outer)
    renameSync(inner, join(outer, 'n'.repeat(250)))
    renameSync(outer, inner)
  }
  renameSync(inner, join(folder, 'deep'))
  chmodSync(join(folder, 'deep'), 0)
}

test('folders nested deeper than the longest path are removed, at a sweep and at the next start', async () => {
  const at = join(root, 'nested')
  const folders = new RunFolders(at)
  nest(await entered(folders, RUN))
  folders.leave(RUN)
  await folders.sweep(performance.now() + 2 * HOUR)
  expect(readdirSync(at)).toEqual([])
  folders.close()
  mkdirSync(join(at, `gone-${RUN}-1`))
  nest(join(at, `gone-${RUN}-1`))
  const next = new RunFolders(at)
  await next.sweep()
  expect(readdirSync(at)).toEqual([])
  next.close()
  const left = mkdtempSync(join(at, 'call-4194305-')) // no process has that pid
  nest(left)
  await removeLeftOvers(at)
  expect(readdirSync(at)).toEqual([])
})

test('a sweep does not throw if a run folder has disappeared', async () => {
  const at = join(root, 'swept')
  const folders = new RunFolders(at)
  await entered(folders, RUN)
  folders.leave(RUN)
  rmSync(at, { recursive: true })
  await folders.sweep(performance.now() + 2 * HOUR)
  folders.close()
})

test('a run folder that the disk refuses is a returned error, not an exception', async () => {
  const folders = new RunFolders(join(root, 'blocked'))
  rmSync(join(root, 'blocked'), { recursive: true })
  writeFileSync(join(root, 'blocked'), '')
  expect(await folders.enter(RUN, 'new', LIMITS)).toMatchObject({ ok: false, error: { reason: 'ENOTDIR' } })
  folders.close()
})

const runs = (count: number): string[] =>
  Array.from({ length: count }, (_, n) => `run_01JZ000000000000000000000${n}`)
const fill = (folder: string, bytes: number): void =>
  writeFileSync(join(folder, 'filled'), Buffer.alloc(bytes, 1))

/** Leaves the folder and waits until it has been measured. */
async function left(folders: RunFolders, run: string, bytes: number): Promise<string> {
  const folder = await entered(folders, run)
  fill(folder, bytes)
  folders.leave(run)
  await folders.sweep()
  return folder
}

test('S30 if run folders exceed their total size, the longest idle is removed; if none is idle long enough, the call is refused', async () => {
  const [one = '', other = '', third = '', fourth = ''] = runs(4)
  const bounds = { bytes: 8 * MiB, free_bytes: 0 }
  const patient = new RunFolders(join(root, 'patient'), bounds)
  const kept = [await left(patient, one, 3 * MiB), await left(patient, other, 3 * MiB)]
  expect(await patient.enter(third, 'new', LIMITS)).toEqual({ ok: false, error: 'full' })
  expect(kept.map(existsSync)).toEqual([true, true])
  patient.close()
  const hasty = new RunFolders(join(root, 'hasty'), { ...bounds, rest_ms: 0 })
  const resting = [await left(hasty, one, 3 * MiB), await left(hasty, other, 3 * MiB)]
  await entered(hasty, third)
  expect(resting.map(existsSync)).toEqual([false, true])
  expect(await hasty.enter(one, 'kept', LIMITS)).toEqual({ ok: false, error: 'lost' })
  await entered(hasty, other) // a folder in use counts with the size it may reach
  expect(await hasty.enter(fourth, 'new', LIMITS)).toEqual({ ok: false, error: 'full' })
  expect(existsSync(join(root, 'hasty', other))).toBe(true)
  hasty.close()
})

test('S30 run folders leave the reserved disk space free, and none is removed if that would not suffice', async () => {
  const [one = '', other = ''] = runs(2)
  const before = new RunFolders(join(root, 'floor'))
  const folder = await left(before, one, MiB)
  before.close()
  const folders = new RunFolders(join(root, 'floor'), { free_bytes: Number.MAX_SAFE_INTEGER, rest_ms: 0 })
  await folders.sweep()
  expect(await folders.enter(other, 'new', LIMITS)).toEqual({ ok: false, error: 'full' })
  expect(existsSync(folder)).toBe(true)
  folders.close()
})

test('S30 space that running calls may still write is reserved: the second of two calls that exceed the disk is refused', async () => {
  const GiB = 1024 * MiB
  const at = join(root, 'growing')
  mkdirSync(at)
  const { bavail, bsize } = statfsSync(at)
  const folders = new RunFolders(at, { bytes: 100 * GiB, free_bytes: bavail * bsize - 6 * GiB })
  const [one = '', other = ''] = runs(2)
  const limits = { ...LIMITS, workspace_bytes: 4 * GiB }
  await entered(folders, one, limits)
  expect(await folders.enter(other, 'new', limits)).toEqual({ ok: false, error: 'full' })
  folders.leave(one)
  await folders.sweep()
  await entered(folders, other, limits)
  folders.close()
})

test('S30 a run folder that outgrew the limits of all its calls is removed at once', async () => {
  const folders = new RunFolders(join(root, 'over'))
  const [tight = '', roomy = '', many = ''] = runs(3)
  const over = await entered(folders, tight)
  await entered(folders, tight)
  fill(over, 5 * MiB)
  folders.leave(tight)
  await folders.sweep()
  expect(existsSync(over)).toBe(true) // a call uses it
  folders.leave(tight)
  await eventually('it is gone', () => !existsSync(over), 20_000)
  const wide = await entered(folders, roomy, { ...LIMITS, workspace_bytes: 16 * MiB })
  await left(folders, roomy, 5 * MiB)
  folders.leave(roomy)
  const files = await entered(folders, many)
  for (let n = 0; n <= LIMITS.workspace_inodes; n++) writeFileSync(join(files, `${n}`), '')
  folders.leave(many)
  await eventually('it is gone', () => !existsSync(files), 20_000)
  expect(existsSync(wide)).toBe(true) // another tool of the same run has higher limits
  folders.close()
})

test('D1 no call enters a folder in which a process outlived its call or its worker', async () => {
  const at = join(root, 'tainted')
  const OTHER = 'run_01JZ0000000000000000000001'
  const before = new RunFolders(at)
  const [folder, sound] = [await entered(before, RUN), await entered(before, OTHER)]
  before.leave(OTHER)
  before.taint(RUN) // a call and its surviving process still use it
  expect(await before.enter(RUN, 'kept', LIMITS)).toEqual({ ok: false, error: 'lost' })
  before.leave(RUN)
  const made = await entered(before, RUN) // like a new run
  expect(made).toBe(folder)
  before.close() // killed while a call used it
  const next = new RunFolders(at, {}, new Set([RUN, 'none']))
  expect(await next.enter(RUN, 'kept', LIMITS)).toEqual({ ok: false, error: 'lost' })
  expect(await next.enter(OTHER, 'kept', LIMITS)).toEqual({ ok: true, value: sound })
  next.close()
})
