// Promise: while a backup copies what has changed, no thread of the edge runs, and the edge
// continues, however the backup ends.

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { whileStopped } from '../../../cli/host/stopped-edge.ts'
import { ROOT } from '../../../infra/state.ts'
import { LIMITS } from '../../../shared/limits.ts'
import { eventually } from '../../support/eventually.ts'

const folder = mkdtempSync(join(tmpdir(), 'countersign-stop-'))
const written = join(folder, 'count')
const count = (): number => Number(readFileSync(written, 'utf8'))
/** A process with a second thread, which counts up in a file. */
const COUNTS = `
  const { Worker } = require('node:worker_threads')
  new Worker("const fs = require('node:fs'); let n = 0; setInterval(() => fs.writeFileSync(process.env.WRITTEN, String(++n).padStart(9)), 1)", { eval: true })
`
let writer: ChildProcess
let pid: number
beforeAll(async () => {
  writeFileSync(written, '0')
  writer = spawn(process.execPath, ['-e', COUNTS], { env: { WRITTEN: written }, stdio: 'ignore' })
  pid = writer.pid ?? 0
  await goesOn()
})
afterAll(() => {
  writer.kill('SIGKILL')
  rmSync(folder, { recursive: true })
})

const busy = (ms: number): void => {
  for (const until = Date.now() + ms; Date.now() < until; );
}
async function goesOn(): Promise<void> {
  const before = count()
  await eventually('it counts on', () => count() > before)
}

test('no thread of a stopped process runs, and the process continues afterwards', async () => {
  const seen = await whileStopped([pid], () => {
    const before = count()
    busy(200)
    return [before, count()]
  })
  expect(seen?.[0]).toBe(seen?.[1])
  await goesOn()
})

test('a stopped process continues if the work throws', async () => {
  const failing = whileStopped([pid], () => {
    throw new Error('the disk is full')
  })
  await expect(failing).rejects.toThrow('the disk is full')
  await goesOn()
})

test('a stopped process continues even if the backup is killed', async () => {
  const script = `
    import { whileStopped } from '${ROOT}/cli/host/stopped-edge.ts'
    await whileStopped([${pid}], () => { process.kill(process.pid, 'SIGKILL') })
  `
  const backup = spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: 'ignore' })
  expect(await once(backup, 'close')).toEqual([null, 'SIGKILL'])
  const since = Date.now()
  await goesOn()
  expect(Date.now() - since).toBeLessThan(LIMITS.backup_pause_ms / 2) // not only by the resumer's timer
})

test('work that takes too long has no result, and the stopped process continues before that work ends', async () => {
  let [took, until] = [0, 0]
  const seen = await whileStopped([pid], () => {
    const [began, before] = [Date.now(), count()]
    until = began + 3 * LIMITS.backup_pause_ms
    while (count() <= before && Date.now() < until);
    took = Date.now() - began
    return true
  })
  expect(seen).toBeUndefined()
  expect(Date.now()).toBeLessThan(until)
  expect(took).toBeGreaterThan(LIMITS.backup_pause_ms / 2)
})

test('a process that does not exist can’t be stopped, which is an error', async () => {
  const gone = spawn(process.execPath, ['-e', ''])
  await once(gone, 'close')
  await expect(whileStopped([gone.pid ?? 0], () => true)).rejects.toThrow('ESRCH')
})

test('a process is not stopped if nothing could resume it', async () => {
  const { execPath } = process
  process.execPath = '/bin/false'
  try {
    expect(await whileStopped([pid], () => 'stopped')).toBeUndefined()
  } finally {
    process.execPath = execPath
  }
  await goesOn()
})
