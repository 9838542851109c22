// A worker’s proof is true: its canaries pass in the sandbox, and each one fails without the
// defence that it tests.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, chownSync, closeSync, openSync, readFileSync, writeFileSync } from 'node:fs'
import { arch } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { I386 } from '../../../worker/sandbox/kernel/elf.ts'
import { machineOf } from '../../../worker/sandbox/kernel/syscalls.ts'
import { TMP_BYTES } from '../../../worker/sandbox/plan/profiles.ts'
import { GROUP_LIMITS, groupCanaries } from '../../../worker/sandbox/probe/cgroup-canaries.ts'
import { kernelCanary } from '../../../worker/sandbox/probe/syscall-canary.ts'
import { Arena, planOf, UID } from '../arena/arena.ts'
import type { Swap } from '../arena/orders.ts'

let arena: Arena
beforeAll(async () => {
  arena = await Arena.open({ probe: true })
})
afterAll(() => arena?.close())

const MACHINE = machineOf(arch()) ?? 'x86_64'
const PIDS = 16
const SIZES = { pids: PIDS, tmp_bytes: TMP_BYTES }

test('every tier is proven on this host by answers of the kernel', async () => {
  const { tiers, egress } = await arena.facts()
  for (const { checks } of [tiers.B, tiers.C, egress]) expect(checks.filter(({ ok }) => !ok)).toEqual([])
  const of = ({ checks }: typeof egress) => checks.map(({ name }) => name)
  const sockets = /^(?:S13|N)/ // with a relay these differ; everything else is the same
  expect(of(egress)).toEqual(expect.arrayContaining(of(tiers.C).filter((name) => !sockets.test(name))))
  const names = [tiers.C, egress].flatMap(({ checks }) => checks.map(({ name }) => name)).join('\n')
  for (const line of 'S01 S02 S03 S04 S05 S06 S12 S13 S17 S18 S19 S20 S21 S22 S23 S24 S26 S27 S29 S33 S34 N01 N12 N13'.split(
    ' ',
  ))
    expect(names).toContain(line)
  const inB = tiers.B.checks.map(({ name }) => name).join('\n')
  for (const line of 'filter S01 S02 S03 S05 S06 S07 S12 S13 S17 S19 S20 S21 S22 S33'.split(' '))
    expect(inB).toContain(line)
})

function placed(program: Buffer, folder: string): string {
  const file = join(folder, 'canary')
  writeFileSync(file, program)
  chownSync(file, UID, UID)
  chmodSync(file, 0o500)
  return file
}

function furnish(folder: string, program: Buffer): void {
  const file = join(folder, 'canary')
  writeFileSync(file, program)
  chownSync(file, UID, UID)
  chmodSync(file, 0o500)
}

/** Runs a canary's program in tier C with some defences off. */
async function released(program: Buffer, swaps: readonly Swap[]) {
  const { here, there } = arena.runFolder()
  placed(program, here)
  const limits = { pids: PIDS, file_bytes: 1024 * 1024 * 1024 }
  return arena.bare({ plan: planOf(['./canary'], { workspace: 'run', limits }), runFolder: there, swaps })
}

async function failing(swaps: readonly Swap[]): Promise<string[]> {
  const { program, judge } = kernelCanary('C', MACHINE, { folder: '/srv', port: 1 }, SIZES)
  const { out } = await released(program, swaps)
  return judge(Buffer.from(out, 'latin1')).flatMap(({ name, ok }) => (ok ? [] : [name]))
}

const SHM = ['--perms', '1777', '--size', '16777216', '--tmpfs', '/dev/shm', '--remount-ro', '/dev']

test('no canary fails with all defences on', async () => {
  expect(await failing([])).toEqual([])
})

test.each<[string, Swap, string[]]>([
  [
    'the size of /tmp',
    [
      ['--size', '67108864', '--tmpfs', '/tmp'],
      ['--tmpfs', '/tmp'],
    ],
    ['S29 /tmp has its size'],
  ],
  [
    'the limit of processes',
    [[`--nproc=${PIDS + 1}`], ['--nproc=1000']],
    ['S27 a fork bomb ends at its limit'],
  ],
  [
    'its own root',
    [
      ['--ro-bind-try', '/etc/ssl/certs', '/etc/ssl/certs'],
      ['--ro-bind', '/etc', '/etc'],
    ],
    ['no file of the host'],
  ],
  [
    'its own devices',
    [
      ['--dev', '/dev', ...SHM],
      ['--dev-bind', '/dev', '/dev'],
    ],
    ['S18 no device of the host'],
  ],
])('a canary detects that the sandbox lacks %s', async (_name, swap, names) => {
  expect(await failing([swap])).toEqual(expect.arrayContaining(names))
})

test('a canary detects a missing filter for each system call', async () => {
  const noticed = await failing([[['--seccomp', '4'], []]])
  for (const line of ['the filter answers', 'S06', 'S13', 'S20']) expect(noticed.join('\n')).toContain(line)
})

test('a canary of tier B detects a missing filter for each system call', async () => {
  const { program, judge } = kernelCanary('B', MACHINE, { folder: '/srv', port: 1 }, SIZES)
  const { here } = arena.runFolder()
  const [file, said] = [placed(program, here), join(here, 'said')]
  const user = process.geteuid?.() === 0 ? { uid: UID, gid: UID } : {}
  const out = openSync(said, 'w')
  const canary = spawn(file, {
    ...user,
    cwd: here,
    env: {},
    stdio: ['ignore', out, 'ignore'],
    detached: true,
  })
  await once(canary, 'exit')
  process.kill(-(canary.pid ?? 0), 'SIGKILL') // an unrefused child in another namespace waits for ever
  closeSync(out)
  const noticed = judge(readFileSync(said)).flatMap(({ name, ok }) => (ok ? [] : [name]))
  for (const line of ['the filter answers', 'S06', 'S13', 'S20']) expect(noticed.join('\n')).toContain(line)
})

test('S12 the filter kills programs that make 32-bit system calls, which work without it', async () => {
  expect((await released(I386, [])).code).toBe(128 + 31) // bubblewrap's code for a death by SIGSYS
  expect((await released(I386, [[['--seccomp', '4'], []]])).code).toBe(0)
})

test('S27 S28 the canaries of cgroups detect that nothing limits a call’s processes together', async () => {
  const alone = await Arena.open({ probe: true, undelegated: true })
  for (const { program = Buffer.alloc(0), judge } of groupCanaries(MACHINE)) {
    const { here, there } = alone.runFolder()
    furnish(here, program)
    const limits = { ...GROUP_LIMITS, file_bytes: 1024 * 1024 * 1024 }
    const seen = await alone.launch({ plan: planOf([join(there, 'canary')], { tier: 'B', limits }) })
    const [check] = judge({ outcome: seen.outcome, stdout: seen.out, stderr: '', uid: UID, left: () => 0 })
    expect(check).toMatchObject({ ok: false, detail: expect.stringContaining('ended by exit') })
  }
  await alone.close()
})

test('a canary that was killed proves nothing', () => {
  const { judge } = kernelCanary('C', MACHINE, { folder: '/srv', port: 1 }, SIZES)
  expect(judge(Buffer.alloc(0)).filter(({ ok }) => ok)).toEqual([])
})
