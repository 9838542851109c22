// Promise: no process of the stack outlives its parent, however that ends. A part that dies is
// restarted, unless it was stopped. A part that does not start says why.
// @project exclusive

import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import { Child, type ChildSpec, pdeathsig } from '../../infra/child-process.ts'
import { ROOT } from '../../infra/state.ts'

const folder = mkdtempSync(join(tmpdir(), 'countersign-'))
afterAll(() => rmSync(folder, { recursive: true }))

/** Neither gone nor a zombie. */
function alive(pid: number): boolean {
  try {
    return !/^State:\s+[ZX]/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
  } catch {
    return false
  }
}

const commandOf = (pid: number): string => readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ')

function started(file: string, args: readonly string[]): ChildProcess {
  const child = spawn(file, args, { cwd: ROOT, stdio: ['ignore', 'pipe', 'inherit'] })
  onTestFinished(() => void child.kill('SIGKILL'))
  return child
}

/** The first line that the process prints. */
async function firstLine(child: ChildProcess): Promise<string> {
  let text = ''
  for await (const chunk of child.stdout ?? []) {
    text += chunk
    if (text.includes('\n')) break
  }
  return text.split('\n')[0] ?? ''
}

test('children of a parent that is killed -9 die with it, even as another user, and leave no mount', async () => {
  const mounts = readFileSync('/proc/self/mountinfo', 'utf8')
  const parent = started(process.execPath, ['test/support/stack/process-tree.ts', folder])
  const pids: number[] = JSON.parse(await firstLine(parent))
  await expect
    .poll(() => pids.filter((pid) => commandOf(pid).startsWith('/usr/bin/sleep')), { timeout: 5_000 })
    .toEqual(pids)
  parent.kill('SIGKILL')
  await expect.poll(() => pids.filter(alive), { timeout: 5_000 }).toEqual([])
  expect(readFileSync('/proc/self/mountinfo', 'utf8')).toBe(mounts)
})

test('control: without a parent-death signal a child outlives its parent', async () => {
  const script =
    "const c = require('child_process').spawn('/usr/bin/sleep', ['60'], { detached: true, stdio: 'ignore' }); console.log(c.pid); setInterval(() => 0, 1000)"
  const parent = started(process.execPath, ['-e', script])
  const pid = Number(await firstLine(parent))
  parent.kill('SIGKILL')
  await expect.poll(() => alive(parent.pid ?? 0), { timeout: 5_000 }).toBe(false)
  expect(alive(pid)).toBe(true)
  process.kill(pid, 'SIGKILL')
})

test('the process of an npm script ends when its starter or npm is killed', async () => {
  const entry = join(folder, 'entry.ts')
  const source = `process.on('SIGTERM', () => process.exit(0))\nconsole.log(process.pid)\nsetInterval(() => undefined, 1000)\n`
  writeFileSync(entry, source)
  const starter = started(process.execPath, ['infra/bootstrap.mjs', entry])
  const first = Number(await firstLine(starter))
  starter.kill('SIGKILL')
  await expect.poll(() => alive(first), { timeout: 5_000 }).toBe(false)

  const npm = started('/bin/sh', ['-c', `${process.execPath} infra/bootstrap.mjs ${entry}; true`])
  const second = Number(await firstLine(npm))
  npm.kill('SIGKILL')
  await expect.poll(() => alive(second), { timeout: 5_000 }).toBe(false)
})

const spec = (
  argv: readonly string[],
  ready: ChildSpec['ready'] = () => Promise.resolve(true),
): ChildSpec => ({
  name: 'part',
  argv: pdeathsig(argv),
  env: { PATH: '/usr/bin:/bin' },
  cwd: '/',
  log: join(folder, 'part.log'),
  ready,
  readyWithin_ms: 500,
  stopWithin_ms: 300,
})

test('a part that dies is restarted with a message; one that was stopped is not', async () => {
  const said: string[] = []
  const part = new Child(spec(['/usr/bin/sleep', '60']), (text) => said.push(text))
  expect(await part.start()).toEqual({ ok: true, value: undefined })
  part.supervise()
  const first = part.pid
  process.kill(first ?? 0, 'SIGKILL')
  await expect.poll(() => part.running && part.pid !== first && said.length, { timeout: 5_000 }).toBe(2)
  expect(said[0]).toBe('part ended (SIGKILL); restarting it in 100 ms')
  expect(said[1]).toMatch(/^part runs again/)
  await part.stop()
  await part.stop()
  expect(part.running).toBe(false)
  expect(said).toHaveLength(2)
})

test('a part that ignores SIGTERM is killed together with its children', async () => {
  const script =
    "process.on('SIGTERM', () => 0); const c = require('child_process').spawn('/usr/bin/sleep', ['60']); console.log('pid', c.pid); setInterval(() => 0, 1000)"
  let log = ''
  const part = new Child(
    spec([process.execPath, '-e', script], async (since) => {
      log = since()
      return log.includes('pid')
    }),
    () => undefined,
  )
  expect((await part.start()).ok).toBe(true)
  const inner = Number(/pid (\d+)/.exec(log)?.[1])
  expect(alive(inner)).toBe(true)
  await part.stop()
  await expect.poll(() => alive(inner), { timeout: 5_000 }).toBe(false)
})

test('a part that exits while starting, is never ready, or does not exist is reported with its output', async () => {
  const ended = await new Child(
    spec(['/bin/sh', '-c', 'echo no such thing >&2; exit 3'], () => Promise.resolve(false)),
    () => undefined,
  ).start()
  expect(ended).toMatchObject({
    ok: false,
    error: expect.stringMatching(/^part ended while starting.*part\.log.*\n {4}no such thing$/s),
  })
  const late = await new Child(
    spec(['/usr/bin/sleep', '60'], () => Promise.resolve(false)),
    () => undefined,
  ).start()
  expect(late).toMatchObject({ ok: false, error: expect.stringMatching(/^part was not ready within 0.5 s/) })
  const absent = await new Child(
    spec(['/nonexistent/program'], () => Promise.resolve(false)),
    () => undefined,
  ).start()
  expect(absent).toMatchObject({ ok: false, error: expect.stringMatching(/nonexistent\/program/) })
})
