// The spawner starts programs exactly as the worker would: with the given program, argv,
// environment, folder and descriptors only, in a new session. It reports how each ended, and each
// failure to start.

import { spawnSync } from 'node:child_process'
import { closeSync, openSync, readFileSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { arch, tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { machineOf } from '../../../worker/sandbox/kernel/syscalls.ts'
import type { Command } from '../../../worker/sandbox/plan/argv.ts'
import { findHost } from '../../../worker/sandbox/plan/host-programs.ts'
import { type ProcessEnd, Spawner } from '../../../worker/sandbox/process/spawner.ts'

const folder = await mkdtemp(join(tmpdir(), 'spawner-'))
const spawner = new Spawner(await findHost(), machineOf(arch()) ?? 'x86_64')
afterAll(async () => {
  await spawner.close()
  await rm(folder, { recursive: true })
})

/** Descriptors that this process inherited; a worker closes them first of all. */
const INHERITED = spawnSync('/bin/ls', ['/proc/self/fd'], { encoding: 'utf8' })
  .stdout.split('\n')
  .map(Number)
  .filter((fd) => fd > 3)

const TRUE: Command = {
  profile: 'b_host',
  program: '/bin/true',
  args: [],
  env: {},
  cwd: '/',
  bwrap: undefined,
  groupFds: [],
}

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
  for (const fd of [nothing, out]) closeSync(fd) // the child has its own copies by now
  const end = await spawned?.ended
  if (spawned === undefined || end === undefined) throw new Error('there is no perl')
  return { pid: spawned.pid, end, out: readFileSync(path, 'utf8') }
}

test('a spawned program has exactly the given descriptors, environment, arguments and folder, a new session and default signals', async () => {
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
  ['an exit code', ['/bin/sh', '-c', 'exit 3'], { exitCode: 3 }],
  ['a signal', ['/bin/sh', '-c', 'kill -9 $$'], { signal: 'SIGKILL' }],
  ['a signal with two names', ['/bin/sh', '-c', 'kill -6 $$'], { signal: 'SIGABRT' }],
  ['a missing program', ['/no/such/program'], { code: 'ENOENT' }],
  ['a file that is not a program', ['/etc/passwd'], { code: 'EACCES' }],
  ['a too long argument', ['/bin/true', 'x'.repeat(200_000)], { code: 'E2BIG' }],
  [
    'a long but valid argument list',
    ['/bin/true', ...new Array(90).fill('x'.repeat(20_000))],
    { exitCode: 0 },
  ],
])('the spawner reports %s correctly', async (_, argv, end) => {
  expect((await started(argv)).end).toEqual(end)
})

test('the spawner reports a missing working directory', async () => {
  expect((await started(['/bin/true'], { cwd: '/no/such/folder' })).end).toEqual({ code: 'ENOENT' })
})

test('the spawner reports the right end of each of many concurrent programs', async () => {
  const all = await Promise.all(
    Array.from({ length: 120 }, (_, i) => started(['/bin/sh', '-c', `echo ${i}; exit ${i}`])),
  )
  expect(all.map(({ end, out }) => [end, out])).toEqual(
    Array.from({ length: 120 }, (_, i) => [{ exitCode: i }, `${i}\n`]),
  )
  expect(new Set(all.map(({ pid }) => pid)).size).toBe(120)
})

test('a spawner that dies before it starts a program is reported and replaced', async () => {
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

test('a perl that is not perl is detected at once and not tried again', async () => {
  const host = await findHost()
  const [perl, asked] = [join(folder, 'no-perl'), join(folder, 'asked')]
  writeFileSync(perl, `#!/bin/sh\necho once >> ${asked}\n`, { mode: 0o755 })
  const without = new Spawner(
    { ...host, programs: { ...host.programs, perl } },
    machineOf(arch()) ?? 'x86_64',
  )
  expect([await without.spawn(TRUE, []), await without.spawn(TRUE, [])]).toEqual([undefined, undefined])
  expect(readFileSync(asked, 'utf8')).toBe('once\n')
})
