// Calls of one run share a folder on this host, which goes when the run has been idle, and not before.

import { existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { RunFolders } from '../../worker/run-folders.ts'

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

test('a disk that refuses is told, not thrown', () => {
  const folders = new RunFolders(join(root, 'blocked'), HOUR)
  rmSync(join(root, 'blocked'), { recursive: true })
  writeFileSync(join(root, 'blocked'), '')
  expect(folders.enter(RUN, 'new').ok).toBe(false)
  folders.close()
})
