// The program that enters a cgroup of v2 does so before it becomes the command, ends as the command
// ends, and leaves it no descriptor. The kernel ends all processes in the cgroup at once. These
// tests need only a cgroup without controllers.

import { type ChildProcess, spawn } from 'node:child_process'
import {
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { arch, tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { enteringFailed, enterProgram, FIRST_GROUP_FD } from '../../../worker/sandbox/kernel/enter-cgroup.ts'
import { machineOf } from '../../../worker/sandbox/kernel/syscalls.ts'
import { ownTree, processesIn } from '../../../worker/sandbox/limits/cgroup-delegation.ts'
import { eventually } from '../../support/eventually.ts'
import { ended, systemCallsIn } from '../../support/worker/machine-code.ts'
import { processesWith, unique } from '../arena/arena.ts'

const MACHINE = machineOf(arch()) ?? 'x86_64'
const home = mkdtempSync(join(tmpdir(), 'enter-'))
const enter = join(home, 'enter')
let group = ''

/**
 * The folder in which we may make groups of v2: root's, or the one that is delegated to our user.
 */
function parent(): string {
  const mount = readFileSync('/proc/self/mountinfo', 'utf8')
    .split('\n')
    .find((line) => line.includes(' - cgroup2 '))
  const tree = ownTree()
  if (process.geteuid?.() === 0 && mount !== undefined) return mount.split(' ')[4] ?? ''
  if (tree.ok && tree.value.version === 'v2') return tree.value.all
  throw new Error(
    'these tests make a cgroup of v2: mount cgroup2 and run them as root, or delegate a group to their user',
  )
}

beforeAll(() => writeFileSync(enter, enterProgram(MACHINE, 'v2'), { mode: 0o500 }))
afterAll(() => rmSync(home, { recursive: true }))
/**
 * A group for each test, as for each call: Linux 6.18 kills a process that is cloned into a group
 * that was killed before.
 */
beforeEach(() => {
  group = join(parent(), `countersign-test-${unique()}`)
  mkdirSync(group)
})
afterEach(async () => {
  writeFileSync(join(group, 'cgroup.kill'), '1', { flag: 'r+' })
  await eventually('the group is empty', () => processesIn(group).length === 0)
  rmdirSync(group)
})

/**
 * Starts the program like `launch` does: the first of its two descriptors is the group's folder.
 */
function entering(argv: readonly string[], folder = group): ChildProcess {
  const fd = openSync(folder, 'r')
  const unused = new Array<'ignore'>(FIRST_GROUP_FD - 3).fill('ignore')
  const child = spawn(enter, argv, { env: { ONE: '1' }, stdio: ['ignore', 'pipe', 'pipe', ...unused, fd] })
  closeSync(fd)
  return child
}

describe('a cgroup of v2 (its limits are not tested here, where v2 has no controllers)', () => {
  test('a command is in its cgroup from its first instruction, with its arguments and environment and without the cgroup’s descriptor', async () => {
    const { out } = await ended(entering(['/bin/cat', '/proc/self/cgroup']))
    expect(out.split('\n').filter((line) => line.startsWith('0::'))).toEqual([
      expect.stringMatching(new RegExp(`/${basename(group)}$`)),
    ])
    expect((await ended(entering(['/usr/bin/printf', '%s|', 'a b', '', '-x']))).out).toBe('a b||-x|')
    expect((await ended(entering(['/usr/bin/env']))).out).toBe('ONE=1\n')
    const open = (await ended(entering(['/bin/ls', '/proc/self/fd']))).out.trim().split('\n').map(Number)
    expect(open.filter((fd) => fd === FIRST_GROUP_FD || fd === FIRST_GROUP_FD + 1)).toEqual([])
  })

  test('the program that enters a cgroup ends as its command ends, by each exit code and each signal', async () => {
    for (const code of [0, 1, 7, 125, 126, 255])
      expect(await ended(entering(['/bin/sh', '-c', `exit ${code}`]))).toMatchObject({ code })
    for (const signal of ['HUP', 'KILL', 'SEGV', 'TERM', 'XCPU'])
      expect(await ended(entering(['/bin/sh', '-c', `ulimit -c 0; kill -${signal} $$`]))).toMatchObject({
        code: null,
        signal: `SIG${signal}`,
      })
  })

  test('S36 the kernel ends all processes of a cgroup at once, daemons in their own sessions too', async () => {
    const word = unique()
    const child = entering([
      '/bin/sh',
      '-c',
      `setsid sleep 60.${word} & setsid sh -c 'trap "" TERM; sleep 61.${word}; :' & sleep 62.${word}`,
    ])
    const end = ended(child)
    await eventually('all of it sleeps', () =>
      ['60', '61', '62'].every((n) => processesWith(`${n}.${word}`).length > 0),
    )
    expect(processesIn(group)).not.toContain(child.pid)
    writeFileSync(join(group, 'cgroup.kill'), '1', { flag: 'r+' })
    expect(await end).toMatchObject({ code: null, signal: 'SIGKILL' })
    await eventually(
      'nobody is left',
      () => processesIn(group).length === 0 && processesWith(word).length === 0,
    )
  })

  test('a command does not run if its cgroup can’t be entered, and that ending differs from every ending of the command', async () => {
    const made = join(home, 'made')
    const { code, err } = await ended(entering(['/usr/bin/touch', made], home))
    expect([enteringFailed(code ?? undefined, err), existsSync(made)]).toEqual([true, false])
    const own = await ended(entering(['/bin/sh', '-c', 'exit 125']))
    expect(enteringFailed(own.code ?? undefined, own.err)).toBe(false)
    const missing = await ended(entering([join(home, 'nowhere')]))
    expect(enteringFailed(missing.code ?? undefined, missing.err)).toBe(true)
  })

  test('S35 a process in a cgroup ends with the process that started it', async () => {
    const word = unique()
    const script = `exec ${FIRST_GROUP_FD}<"$1"; "$0" /bin/sleep 60.${word} & wait`
    const worker = spawn('/bin/bash', ['-c', script, enter, group], { stdio: 'ignore' })
    await eventually('the command sleeps', () => processesIn(group).length > 0)
    expect(processesWith(`${enter}\0/bin/sleep`)).not.toEqual([])
    worker.kill('SIGKILL')
    await eventually('it is gone', () => processesWith(`${enter}\0/bin/sleep`).length === 0)
  })
})

/**
 * The system calls of each program, in the order of its text, with numbers from the kernel's
 * tables.
 */
const NUMBERS = {
  x86_64: {
    write: 1,
    getpid: 39,
    execve: 59,
    wait4: 61,
    kill: 62,
    prctl: 157,
    exit_group: 231,
    clone3: 435,
    close_range: 436,
  },
  aarch64: {
    write: 64,
    getpid: 172,
    execve: 221,
    wait4: 260,
    kill: 129,
    prctl: 167,
    exit_group: 94,
    clone3: 435,
    close_range: 436,
  },
} as const
const BECOMES = ['close_range', 'execve', 'write', 'exit_group'] as const
const CALLS = {
  v1: ['write', ...BECOMES],
  v2: ['prctl', 'clone3', 'wait4', 'getpid', 'kill', 'exit_group', ...BECOMES],
} as const

test.each(['x86_64', 'aarch64'] as const)(
  'the program that enters cgroups makes exactly these system calls on %s (run only on this machine)',
  (machine) => {
    for (const version of ['v1', 'v2'] as const) {
      const program = enterProgram(machine, version)
      expect(systemCallsIn(program, machine), version).toEqual(
        CALLS[version].map((call) => NUMBERS[machine][call]),
      )
    }
  },
)
