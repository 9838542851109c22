// Promise: a state folder serves one stack at a time and one user, and only that user can read its
// secrets. A fault of the folder or the port is reported in a sentence that says what to do.

import { once } from 'node:events'
import {
  chmodSync,
  chownSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import {
  freePort,
  lockState,
  openState,
  portRefusal,
  ROOT,
  readSecrets,
  redisPort,
  type State,
  signingSecret,
} from '../../infra/state.ts'

const folder = mkdtempSync(join(tmpdir(), 'countersign-'))
afterAll(() => rmSync(folder, { recursive: true }))

function open(name: string): State {
  const state = openState(join(folder, name))
  if (!state.ok) throw new Error(state.error)
  return state.value
}

const modeOf = (path: string): string => (statSync(path).mode & 0o777).toString(8)

test('secrets are created once, readable only by their owner whatever the umask', () => {
  const before = process.umask(0)
  onTestFinished(() => void process.umask(before))
  const state = open('secrets')
  const secrets = readSecrets(state)
  expect(readSecrets(state)).toEqual(secrets)
  expect([state.dir, state.log, state.redis, state.edge].map(modeOf)).toEqual(['700', '700', '700', '700'])
  expect(modeOf(state.secrets)).toBe('600')
  expect(
    new Set([secrets.redis.edge, secrets.redis.worker, secrets.operator, signingSecret(secrets)]).size,
  ).toBe(4)
  expect(secrets.operator).toMatch(/^cs_operator_default_/)
})

test('a state folder that others could read is made private again', () => {
  mkdirSync(join(folder, 'loose'))
  chmodSync(join(folder, 'loose'), 0o777)
  expect(modeOf(open('loose').dir)).toBe('700')
})

test('a state folder of another user is refused and not changed', () => {
  const root = process.getuid?.() === 0
  const foreign = root ? mkdtempSync(join(folder, 'foreign-')) : '/'
  if (root) chownSync(foreign, 12_345, 12_345)
  const before = modeOf(foreign)
  expect(openState(foreign)).toMatchObject({
    ok: false,
    error: expect.stringMatching(/belongs to uid \d+, not to you .* COUNTERSIGN_STATE/),
  })
  expect(modeOf(foreign)).toBe(before)
})

test('a state folder that can’t be created is refused', () => {
  writeFileSync(join(folder, 'file'), '')
  expect(openState(join(folder, 'file/state'))).toMatchObject({
    ok: false,
    error: expect.stringMatching(/ENOTDIR.*COUNTERSIGN_STATE/),
  })
})

test('a state folder serves one stack at a time, and the lock of a dead process is taken over', () => {
  const state = open('lock')
  const first = lockState(state)
  expect(first.ok).toBe(true)
  expect(lockState(state)).toMatchObject({
    ok: false,
    error: expect.stringContaining(`another stack (pid ${process.pid})`),
  })
  if (first.ok) first.value()
  // The pid belongs to a live process, but not to the one that took the lock: a reboot leaves this
  // behind.
  writeFileSync(state.lock, `${process.pid} 1`)
  const again = lockState(state)
  expect(again.ok).toBe(true)
  expect(readFileSync(state.lock, 'utf8')).not.toBe(`${process.pid} 1`)
  if (again.ok) again.value()
})

/** Takes and releases the lock many times, and counts how often another one had it too. */
const CONTENDER = `
import { closeSync, openSync, rmSync } from 'node:fs'
import { parentPort, workerData } from 'node:worker_threads'
const { takeLock } = await import(workerData.module)
let [held, broken] = [0, 0]
while (held < 200) {
  const lock = takeLock(workerData.path)
  if (!lock.ok) continue
  held++
  try {
    closeSync(openSync(workerData.path + '.inside', 'wx'))
    rmSync(workerData.path + '.inside')
  } catch {
    broken++
  }
  lock.value()
}
parentPort.postMessage(broken)`

test('a lock that many take and release has one holder at a time', async () => {
  const workerData = { path: join(open('crowd').dir, 'one.lock'), module: join(ROOT, 'infra/state.ts') }
  const contenders = Array.from({ length: 4 }, () => new Worker(CONTENDER, { eval: true, workerData }))
  const broken = await Promise.all(contenders.map(async (contender) => (await once(contender, 'message'))[0]))
  expect(broken).toEqual([0, 0, 0, 0])
})

test('the port of Redis is kept, and another one is chosen if it is taken', async () => {
  const state = open('ports')
  const port = await redisPort(state)
  expect(await redisPort(state)).toBe(port)
  const thief = createServer().listen(port, '127.0.0.1')
  onTestFinished(() => void thief.close())
  await new Promise((listening) => thief.once('listening', listening))
  expect(await portRefusal(port)).toMatch(
    `port ${port} is in use by another process; stop that process, or set COUNTERSIGN_PORT`,
  )
  const other = await redisPort(state)
  expect(other).not.toBe(port)
  expect(await redisPort(state)).toBe(other)
})

test('a free port is accepted', async () => {
  expect(await portRefusal(await freePort())).toBeUndefined()
})
