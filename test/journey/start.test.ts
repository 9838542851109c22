// Promise: `npm start` is all it takes. It prints a command for a first call that works as printed,
// shows each call, stops everything on Ctrl-C without a trace, and a second start has all state of
// the first.
// @project exclusive

import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { existsSync, globSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import type { DevInfo } from '../../infra/seed.ts'
import { freePort, ROOT } from '../../infra/state.ts'
import { bearer, client } from '../../shared/routes/client.ts'

const state = mkdtempSync(join(tmpdir(), 'countersign-'))
afterAll(() => rmSync(state, { recursive: true }))

type Started = {
  readonly npm: ChildProcess
  readonly text: () => string
  readonly ended: Promise<number | string>
}

/** Runs `npm start` as a person would, and captures its output. */
function start(env: Record<string, string>): Started {
  const npm = spawn('npm', ['start'], {
    cwd: ROOT,
    env: { ...process.env, COUNTERSIGN_STATE: state, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let text = ''
  npm.stdout.on('data', (chunk) => (text += chunk))
  npm.stderr.on('data', (chunk) => (text += chunk))
  const ended = new Promise<number | string>((settle) =>
    npm.once('close', (code, signal) => settle(code ?? signal ?? 'unknown')),
  )
  onTestFinished(async () => {
    npm.kill('SIGTERM')
    await ended
  })
  return { npm, text: () => text, ended }
}

const has = ({ text }: Started, what: string | RegExp, timeout = 60_000) =>
  expect.poll(text, { timeout, interval: 50 }).toMatch(what)

/** Every process with our state folder in its command line or environment, except zombies. */
const processes = (): string[] =>
  globSync('/proc/[0-9]*').filter((path) => {
    try {
      const text = readFileSync(join(path, 'cmdline'), 'utf8') + readFileSync(join(path, 'environ'), 'utf8')
      return path !== `/proc/${process.pid}` && text.includes(state)
    } catch {
      return false // it has ended, or is a kernel thread
    }
  })

test('the command that `npm start` prints works, its call is shown, Ctrl-C leaves nothing, and a second start has all state', async () => {
  const COUNTERSIGN_PORT = String(await freePort())
  const mounts = readFileSync('/proc/self/mountinfo', 'utf8')
  const first = start({ COUNTERSIGN_PORT })
  await has(first, 'Ctrl-C stops everything')
  expect(statSync(join(state, 'dev.json')).mode & 0o777).toBe(0o600)
  const dev = JSON.parse(readFileSync(join(state, 'dev.json'), 'utf8')) as DevInfo // infra/stack wrote it
  expect(dev).toMatchObject({
    url: `http://127.0.0.1:${COUNTERSIGN_PORT}`,
    tenant: 'default',
    keys: { format: 'countersign-keys/v2' },
  })
  for (const secret of [dev.agent_key, dev.operator_key]) expect(first.text()).not.toContain(secret)

  const line = /^ +(curl .*)$/m.exec(first.text())?.[1] ?? ''
  const call = JSON.parse(execFileSync('/bin/bash', ['-c', line], { encoding: 'utf8' }))
  expect(call).toMatchObject({
    tool: 'text_stats',
    state: 'succeeded',
    result: { ok: true, exit_code: 0 },
    attestation: { execution_sha256: expect.any(String) },
  })
  await has(first, new RegExp(`succeeded +text_stats +\\d+ ms +dev +${call.id}`), 5_000)

  const other = start({ COUNTERSIGN_PORT: String(await freePort()) })
  expect(await other.ended).not.toBe(0)
  expect(other.text()).toMatch(/another stack \(pid \d+\) runs on .* COUNTERSIGN_STATE/)

  first.npm.kill('SIGINT')
  await first.ended
  expect(first.text()).toMatch(/stopped\n/)
  await expect.poll(processes, { timeout: 5_000 }).toEqual([])
  expect(readFileSync('/proc/self/mountinfo', 'utf8')).toBe(mounts)
  expect(existsSync(join(state, 'dev.json'))).toBe(false)

  const began = performance.now()
  const second = start({ COUNTERSIGN_PORT })
  await has(second, 'Ctrl-C stops everything', 5_000)
  expect(performance.now() - began).toBeLessThan(5_000)
  const again = JSON.parse(readFileSync(join(state, 'dev.json'), 'utf8')) as DevInfo // infra/stack wrote it
  expect(again).toEqual(dev)
  const kept = await client(again.url, bearer(again.agent_key))('readCall', {
    params: { run: call.run, call: call.id },
  })
  expect(kept).toMatchObject({ ok: true, value: { state: 'succeeded', result: call.result } })
  second.npm.kill('SIGKILL')
  await expect.poll(processes, { timeout: 15_000 }).toEqual([])
})

test('`npm start` explains a port that is in use and one that is invalid', async () => {
  const thief = createServer()
  onTestFinished(() => void thief.close())
  const port = await new Promise<number>((settle) =>
    thief.listen(0, '127.0.0.1', () => settle(Number((thief.address() as { port: number }).port))),
  ) // the address of a TCP server
  const taken = start({ COUNTERSIGN_PORT: String(port) })
  expect(await taken.ended).not.toBe(0)
  expect(taken.text()).toContain(
    `port ${port} is in use by another process; stop that process, or set COUNTERSIGN_PORT to another one`,
  )
  const wrong = start({ COUNTERSIGN_PORT: 'http' })
  expect(await wrong.ended).not.toBe(0)
  expect(wrong.text()).toContain('COUNTERSIGN_PORT is `http`; set it to a port from 1 to 65535')
  expect(processes()).toEqual([])
})
