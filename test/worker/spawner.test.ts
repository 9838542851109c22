// Promise: what starts sandboxes in the worker's place starts them as the worker would: the program, argv, environment, folder and descriptors
// that were said and no others, in a session of its own; how it ended is told as the kernel has it, and what could not be started is told as that.

import { spawnSync } from 'node:child_process'
import { closeSync, openSync, readFileSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { arch, tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import type { Command } from '../../worker/sandbox/argv.ts'
import { findHost } from '../../worker/sandbox/host.ts'
import { type ProcessEnd, Spawner } from '../../worker/sandbox/spawner.ts'
import { machineOf } from '../../worker/sandbox/syscalls.ts'

const folder = await mkdtemp(join(tmpdir(), 'spawner-'))
const spawner = new Spawner(await findHost(), machineOf(arch()) ?? 'x86_64')
afterAll(async () => {
  await spawner.close()
  await rm(folder, { recursive: true })
})

/** By this process, of whoever started it: a worker closes such first of all. */
const INHERITED = spawnSync('/bin/ls', ['/proc/self/fd'], { encoding: 'utf8' })
  .stdout.split('\n')
  .map(Number)
  .filter((fd) => fd > 3)

const TRUE: Command = { profile: 'b_host', program: '/bin/true', args: [], env: {}, cwd: '/', bwrap: undefined, groupFds: [] }

let files = 0
async function started(
  argv: readonly string[],
  { env = {}, cwd = '/' } = {},
): Promise<{ pid: number | undefined; end: ProcessEnd; out: string }> {
  const [program = '', ...args] = argv
  const command: Command = { ...TRUE, program, args, env, cwd }
  const path = join(folder, `${++files}`)
  const [nothing, out] = [openSync('/dev/null', 'r'), openSync(path, 'a')]
  const stdio = [
    { fd: nothing, to: 'read' },
    { fd: out, to: 'write' },
    { fd: out, to: 'write' },
    undefined,
    { fd: nothing, to: 'read' },
  ] as const
  const spawned = await spawner.spawn(command, stdio)
  for (const fd of [nothing, out]) closeSync(fd) // it has its own by now
  const end = await spawned?.ended
  if (spawned === undefined || end === undefined) throw new Error('there is no perl')
  return { pid: spawned.pid, end, out: readFileSync(path, 'utf8') }
}

test('descriptors, environment, arguments, folder, session and signals are what was said', async () => {
  const shown = await started(
    [
      '/usr/bin/python3',
      '-I',
      '-c',
      `
import json, os, signal, sys
fds = [n for n in map(int, os.listdir('/proc/self/fd')) if os.path.exists('/proc/self/fd/%d' % n)]
status = dict(line.split(':', 1) for line in open('/proc/self/status'))
print(json.dumps([sorted(fds), dict(os.environb and os.environ), sys.argv[1:], os.getcwd(), os.getsid(0) == os.getpid(), status['SigBlk'].strip(), int(status['SigIgn'], 16) & (1 << 0 | 1 << 1 | 1 << 14 | 1 << 16), os.getpid()]))
`,
      '',
      'two\nlines',
      'ünï',
      '',
    ],
    { env: { A: 'b=c\nd', EMPTY: '', LC_ALL: 'C.UTF-8' }, cwd: folder },
  )
  expect([shown.end, JSON.parse(shown.out)]).toEqual([
    { exitCode: 0 },
    [
      [0, 1, 2, 4, ...INHERITED],
      { A: 'b=c\nd', EMPTY: '', LC_ALL: 'C.UTF-8' },
      ['', 'two\nlines', 'ünï', ''],
      folder,
      true,
      '0000000000000000',
      0,
      shown.pid,
    ],
  ])
})

test.each<[string, readonly string[], ProcessEnd]>([
  ['an exit', ['/bin/sh', '-c', 'exit 3'], { exitCode: 3 }],
  ['a signal', ['/bin/sh', '-c', 'kill -9 $$'], { signal: 'SIGKILL' }],
  ['a signal of two names', ['/bin/sh', '-c', 'kill -6 $$'], { signal: 'SIGABRT' }],
  ['no such program', ['/no/such/program'], { code: 'ENOENT' }],
  ['no program', ['/etc/passwd'], { code: 'EACCES' }],
  ['an argument that is too long', ['/bin/true', 'x'.repeat(200_000)], { code: 'E2BIG' }],
  ['something large that is none', ['/bin/true', ...new Array(90).fill('x'.repeat(20_000))], { exitCode: 0 }],
])('%s is told as that', async (_, argv, end) => {
  expect((await started(argv)).end).toEqual(end)
})

test('a folder that is not there is told as that', async () => {
  expect((await started(['/bin/true'], { cwd: '/no/such/folder' })).end).toEqual({ code: 'ENOENT' })
})

test('many at once, each to its own end', async () => {
  const all = await Promise.all(Array.from({ length: 120 }, (_, i) => started(['/bin/sh', '-c', `echo ${i}; exit ${i}`])))
  expect(all.map(({ end, out }) => [end, out])).toEqual(Array.from({ length: 120 }, (_, i) => [{ exitCode: i }, `${i}\n`]))
  expect(new Set(all.map(({ pid }) => pid)).size).toBe(120)
})

test('one that dies before it has started anything is told as that, and another is made', async () => {
  const host = await findHost()
  const [perl, asked] = [join(folder, 'dying-perl'), join(folder, 'made')]
  writeFileSync(perl, `#!/bin/sh\necho once >> ${asked}\necho R\nread length\n`, { mode: 0o755 })
  const dying = new Spawner({ ...host, programs: { ...host.programs, perl } }, machineOf(arch()) ?? 'x86_64')
  for (let start = 0; start < 2; start++) {
    const spawned = await dying.spawn(TRUE, [])
    expect([spawned?.pid, await spawned?.ended]).toEqual([undefined, { signal: 'SIGKILL', lost: true }])
  }
  expect(readFileSync(asked, 'utf8')).toBe('once\nonce\n')
})

test('a perl that is none is told at once, and never asked again', async () => {
  const host = await findHost()
  const [perl, asked] = [join(folder, 'no-perl'), join(folder, 'asked')]
  writeFileSync(perl, `#!/bin/sh\necho once >> ${asked}\n`, { mode: 0o755 })
  const without = new Spawner({ ...host, programs: { ...host.programs, perl } }, machineOf(arch()) ?? 'x86_64')
  expect([await without.spawn(TRUE, []), await without.spawn(TRUE, [])]).toEqual([undefined, undefined])
  expect(readFileSync(asked, 'utf8')).toBe('once\n')
})
