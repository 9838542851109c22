// Calls of one run share a folder on this host, which goes when the run has been idle, and not before.

import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { RunFolders } from '../../worker/run-folders.ts'
import { removeLeftOvers } from '../../worker/sandbox/workspace.ts'

const root = mkdtempSync(join(tmpdir(), 'countersign-runs-'))
afterAll(() => rmSync(root, { recursive: true, force: true }))
const RUN = 'run_01JZ0000000000000000000000'
const HOUR = 3_600_000

const entered = (folders: RunFolders, run: string): string => {
  const folder = folders.enter(run, 'new')
  if (!folder.ok) throw new Error(JSON.stringify(folder.error))
  return folder.value
}

test('two calls of a run find the same folder, closed to others; it stays while one is in it', async () => {
  const folders = new RunFolders(root, HOUR)
  const first = entered(folders, RUN)
  writeFileSync(join(first, 'left'), 'behind')
  expect(statSync(first).mode & 0o777).toBe(0o700)
  const second = entered(folders, RUN)
  expect(second).toBe(first)
  folders.leave(RUN)
  await folders.sweep(Date.now() + 2 * HOUR)
  expect(existsSync(join(first, 'left'))).toBe(true)
  folders.leave(RUN)
  await folders.sweep(Date.now() + HOUR / 2)
  expect(existsSync(first)).toBe(true)
  await folders.sweep(Date.now() + 2 * HOUR)
  expect(existsSync(first)).toBe(false)
  folders.close()
})

test('a folder of a former life is known again, and goes when its time has come', async () => {
  const before = new RunFolders(root, HOUR)
  const folder = entered(before, RUN)
  before.close()
  const next = new RunFolders(root, HOUR)
  await next.sweep()
  expect(existsSync(folder)).toBe(true)
  await next.sweep(Date.now() + 2 * HOUR)
  expect(existsSync(folder)).toBe(false)
  next.close()
})

test('a folder that calls have worked in is found or said to be lost, never made anew', async () => {
  const folders = new RunFolders(join(root, 'kept'), HOUR)
  const folder = entered(folders, RUN)
  folders.leave(RUN)
  expect(folders.enter(RUN, 'kept')).toEqual({ ok: true, value: folder })
  folders.leave(RUN)
  await folders.sweep(Date.now() + 2 * HOUR)
  expect(folders.enter(RUN, 'kept')).toEqual({ ok: false, error: 'lost' })
  expect(existsSync(folder)).toBe(false)
  folders.close()
})

/** Deeper than any path may name, closed where it begins, and with a name that is no text. */
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

test('what a tool nests deeper than a path may be long goes all the same, at a sweep and at the next start', async () => {
  const at = join(root, 'nested')
  const folders = new RunFolders(at, HOUR)
  nest(entered(folders, RUN))
  folders.leave(RUN)
  await folders.sweep(Date.now() + 2 * HOUR)
  expect(readdirSync(at)).toEqual([])
  folders.close()
  mkdirSync(join(at, `gone-${RUN}-1`))
  nest(join(at, `gone-${RUN}-1`))
  const next = new RunFolders(at, HOUR)
  await next.sweep()
  expect(readdirSync(at)).toEqual([])
  next.close()
  const left = mkdtempSync(join(at, 'call-4194305-')) // no process has that number
  nest(left)
  await removeLeftOvers(at)
  expect(readdirSync(at)).toEqual([])
})

test('a sweep that finds nothing where a folder was does not throw', async () => {
  const at = join(root, 'swept')
  const folders = new RunFolders(at, HOUR)
  entered(folders, RUN)
  folders.leave(RUN)
  rmSync(at, { recursive: true })
  await folders.sweep(Date.now() + 2 * HOUR)
  folders.close()
})

test('a disk that refuses is told, not thrown', () => {
  const folders = new RunFolders(join(root, 'blocked'), HOUR)
  rmSync(join(root, 'blocked'), { recursive: true })
  writeFileSync(join(root, 'blocked'), '')
  expect(folders.enter(RUN, 'new').ok).toBe(false)
  folders.close()
})
