// Process 1 of a sandbox ends as its tool ended, ends when the worker closes its lifeline, collects
// orphaned processes, and leaves the tool none of its descriptors (D1).

import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { arch, tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Writable } from 'node:stream'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { initFailed, initProgram } from '../../../worker/sandbox/kernel/init.ts'
import { machineOf } from '../../../worker/sandbox/kernel/syscalls.ts'
import { FD } from '../../../worker/sandbox/plan/argv.ts'
import { eventually } from '../../support/eventually.ts'
import { ended, systemCallsIn } from '../../support/worker/machine-code.ts'
import { processesWith, unique } from '../arena/arena.ts'

const MACHINE = machineOf(arch()) ?? 'x86_64'
const home = mkdtempSync(join(tmpdir(), 'init-'))
const init = join(home, 'init')
beforeAll(() => {
  writeFileSync(init, initProgram(MACHINE))
  chmodSync(init, 0o500)
})
afterAll(() => rmSync(home, { recursive: true }))

type Started = { readonly child: ChildProcess; readonly letGo: () => void }

function started(argv: readonly string[], under: readonly string[] = []): Started {
  const [program = '', ...args] = [...under, init, ...argv]
  const unused = new Array<'ignore'>(FD.lifeline - 3).fill('ignore')
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe', ...unused, 'pipe'] })
  const lifeline = child.stdio[FD.lifeline as 4] as Writable | null // node's type stops at descriptor 4
  return { child, letGo: () => void lifeline?.destroy() }
}

test('init exits with the code of its tool, and with 128 + n when signal n ended it', async () => {
  for (const code of [0, 1, 7, 125, 255])
    expect(await ended(started(['/bin/sh', '-c', `exit ${code}`]).child)).toMatchObject({
      code,
      signal: null,
    })
  for (const [signal, number] of Object.entries({ HUP: 1, KILL: 9, SEGV: 11, TERM: 15 }))
    expect(await ended(started(['/bin/sh', '-c', `ulimit -c 0; kill -${signal} $$`]).child)).toMatchObject({
      code: 128 + number,
      signal: null,
    })
})

test('S50 D1 init ends at once when the worker closes its lifeline, while its tool runs', async () => {
  const word = unique()
  const running = started(['/bin/sleep', `60.${word}`])
  const end = once(running.child, 'exit')
  await eventually('the tool runs', () => processesWith(word).length === 2)
  running.letGo()
  expect(await end).toEqual([137, null])
  for (const pid of processesWith(word)) process.kill(pid, 'SIGKILL') // no namespace ends it here
})

test('S50 D1 init ends when changed limits keep it from watching its tool', async () => {
  const word = unique()
  const running = started(['/bin/sleep', `60.${word}`])
  const end = once(running.child, 'exit')
  await eventually('the tool runs', () => processesWith(word).length > 0)
  expect(spawnSync('/usr/bin/prlimit', ['--pid', `${running.child.pid}`, '--nofile=0']).status).toBe(0)
  running.child.kill('SIGCHLD') // init wakes and waits again
  expect(await end).toEqual([137, null])
  for (const pid of processesWith(word)) process.kill(pid, 'SIGKILL')
})

test('the tool gets its arguments, its environment, no descriptor of init, and SIGCHLD unblocked', async () => {
  expect((await ended(started(['/usr/bin/printf', '%s|', 'a b', '', '-x']).child)).out).toBe('a b||-x|')
  const list = ['/bin/sh', '-c', 'ls /proc/self/fd; grep SigBlk /proc/self/status']
  const bare = spawnSync('/bin/sh', list.slice(1), { encoding: 'utf8' }).stdout // the parent of the tests may have left some open
  expect((await ended(started(list).child)).out).toBe(bare)
  expect(bare).toContain('SigBlk:\t0000000000000000')
})

test('init collects processes that lost their parent', async () => {
  const source = `
import os, time
for _ in range(30):
    if os.fork() == 0:
        if os.fork() == 0: time.sleep(0.05)
        os._exit(0)
    os.wait()
time.sleep(0.5)
print(len([n for n in os.listdir('/proc') if n.isdigit()]))`
  const running = started(
    ['/usr/bin/python3', '-c', source],
    ['/usr/bin/unshare', '--user', '--map-root-user', '--pid', '--fork', '--mount-proc'],
  )
  expect((await ended(running.child)).out).toBe('2\n')
})

test('init reports a tool that can’t be started, and runs nothing', async () => {
  const { code, err } = await ended(started([join(home, 'nowhere')]).child)
  expect(initFailed(code ?? undefined, err)).toBe(true)
  const own = await ended(started(['/bin/sh', '-c', 'exit 125']).child)
  expect(initFailed(own.code ?? undefined, own.err)).toBe(false)
})

/** Numbers from the kernel's tables, in the order of the program's text. */
const CALLS = {
  x86_64: {
    prctl: 157,
    rt_sigprocmask: 14,
    signalfd4: 289,
    clone: 56,
    ppoll: 271,
    // the number of `read` is 0, which needs no `mov`
    wait4: 61,
    exit_group: 231,
    unblock: 14,
    close: 3,
    execve: 59,
    write: 1,
    exit: 231,
  },
  aarch64: {
    prctl: 167,
    rt_sigprocmask: 135,
    signalfd4: 74,
    clone: 220,
    ppoll: 73,
    read: 63,
    wait4: 260,
    exit_group: 94,
    unblock: 135,
    close: 57,
    execve: 221,
    write: 64,
    exit: 94,
  },
} as const

test.each(['x86_64', 'aarch64'] as const)('init for %s contains exactly these system calls', (machine) => {
  const program = initProgram(machine)
  expect(systemCallsIn(program, machine)).toEqual(Object.values(CALLS[machine]))
})
