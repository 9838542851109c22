// Our limits bound a call, not the size of this host. Each attack runs without one limit, far below
// what would hurt the host, and works.

import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { eventually } from '../../support/eventually.ts'
import {
  Arena,
  attack,
  attackReport,
  planOf,
  processesWith,
  THEIR_INIT,
  UID,
  unique,
} from '../arena/arena.ts'
import type { Swap } from '../arena/orders.ts'
import { forks } from '../arena/programs.ts'

let arena: Arena
beforeAll(async () => {
  arena = await Arena.open()
})
afterAll(() => arena.close())

test('S27 without a limit of processes: a tool forks as often as it likes', async () => {
  const unlimited: Swap = [['--nproc=17'], []]
  const plan = planOf(attack(forks(60)), { limits: { pids: 16 } })
  expect(attackReport(await arena.bare({ plan, swaps: [unlimited] }))).toEqual({ end: 'ok', forks: 60 })
})

test('S36 without SIGKILL: a process that ignores SIGTERM goes on', () => {
  const source = `
import signal
ready, say = os.pipe()
pid = os.fork()
if pid == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.write(say, b'!')
    while True: signal.pause()
os.read(ready, 1)
os.kill(pid, signal.SIGTERM)
os.kill(pid, signal.SIGSTOP) # only who is alive can be stopped
tell['alive'] = os.WIFSTOPPED(os.waitpid(pid, os.WUNTRACED)[1])
os.kill(pid, signal.SIGKILL)
os.waitpid(pid, 0)`
  const { stdout, stderr } = spawnSync('/usr/bin/env', attack(source), { encoding: 'utf8' })
  expect(attackReport({ out: stdout, err: stderr })).toEqual({ alive: true })
})

test('S37 without a PID namespace and `--die-with-parent`: processes of a fork storm outlive their call', async () => {
  const shared: Swap = [
    ['--unshare-all'],
    ['--unshare-ipc', '--unshare-net', '--unshare-uts', '--unshare-cgroup'],
  ]
  const word = unique()
  const storm = `for _ in range(5):\n    if os.fork() == 0:\n        os.setsid()\n        os.execvp('sleep', ['sleep', '60.${word}'])`
  await arena.bare({
    plan: planOf(attack(storm)),
    swaps: [shared, [['--die-with-parent'], []], ...THEIR_INIT],
  })
  await eventually('all of it sleeps', () => processesWith(`60.${word}`).length === 5)
  for (const pid of processesWith(word)) process.kill(pid, 'SIGKILL')
  await eventually('it is gone', () => processesWith(word).length === 0)
})

test('S38 without a limit of CPU time: a busy loop goes on', async () => {
  const source = "import time\nwhile time.process_time() < 1.7: pass\ntell['spun'] = True"
  const plan = planOf(attack(source), { limits: { cpu_ms: 1_000 } })
  expect(['cpu_cap', 'signal']).toContain((await arena.launch({ plan })).outcome.kind) // both limits are reached: the call's and the process's
  expect(attackReport(await arena.bare({ plan, swaps: [[['--cpu=1:2'], []]] }))).toEqual({ spun: true })
})

/** Applies a call's limit to all processes of one user. */
function crowded(source: string): ChildProcess {
  const user = process.geteuid?.() === 0 ? { uid: UID - 2, gid: UID - 2 } : {}
  return spawn('/usr/bin/prlimit', ['--nproc=17', '--', '/usr/bin/env', '-i', ...attack(source)], {
    ...user,
    cwd: '/',
    stdio: ['pipe', 'pipe', 'pipe'],
  })
}

test('S39 without a user namespace of each call: a call at its limit of processes holds up another', async () => {
  const bomb = crowded(forks(60, "print('full', flush=True)\nsys.stdin.read()"))
  if (bomb.stdout === null) throw new Error('it has a pipe')
  expect(`${await once(bomb.stdout, 'data')}`).toBe('full\n')
  const calm = crowded(forks(10))
  let [out, err] = ['', '']
  calm.stdout?.on('data', (chunk: Buffer) => (out += chunk.toString()))
  calm.stderr?.on('data', (chunk: Buffer) => (err += chunk.toString()))
  await once(calm, 'close')
  expect(attackReport({ out, err })).toEqual({ end: 'EAGAIN', forks: 0 })
  bomb.stdin?.end()
  await once(bomb, 'close')
})
