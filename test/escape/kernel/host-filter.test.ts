// A worker that a service manager starts under its own seccomp filter still proves its tiers. Such
// filters kill the process that makes a refused system call; systemd’s
// SystemCallArchitectures=native does so for 32-bit calls.

import { arch } from 'node:os'
import { afterEach, expect, test } from 'vitest'
import type { Check } from '../../../worker/sandbox/plan/proven.ts'
import { Arena } from '../arena/arena.ts'

/** AUDIT_ARCH_* of linux/audit.h, and the numbers of prctl and keyctl. */
const [ARCHITECTURE, PRCTL, KEYCTL] = arch() === 'arm64' ? [0xc00000b7, 167, 219] : [0xc000003e, 157, 250]
const X32 = 0x40000000

const NO_NEW_PRIVS = 38
const SECCOMP = 22
const FILTER = 2
/** Loads the filter in its first argument, then executes the other arguments. */
const LOADER = `
  my $filter = pack('H*', shift);
  my $program = pack('S x![P] P', length($filter) / 8, $filter);
  syscall(${PRCTL}, ${NO_NEW_PRIVS}, 1, 0, 0, 0) == 0 or die "no_new_privs: $!";
  syscall(${PRCTL}, ${SECCOMP}, ${FILTER}, $program) == 0 or die "seccomp: $!";
  exec { $ARGV[0] } @ARGV or die "exec: $!";
`

/**
 * A filter as libseccomp makes it for systemd: it kills for calls of another architecture, and for
 * `calls`.
 */
function killing(...calls: readonly number[]): string[] {
  const [load, equal, atLeast, give] = [0x20, 0x15, 0x35, 0x06]
  const [kill, allow] = [0, 0x7fff0000]
  const instructions = [
    [load, 0, 0, 4], // the architecture
    [equal, 1, 0, ARCHITECTURE],
    [give, 0, 0, kill],
    [load, 0, 0, 0], // the number
    [atLeast, 0, 1, X32],
    [give, 0, 0, kill],
    ...calls.flatMap((call) => [
      [equal, 0, 1, call],
      [give, 0, 0, kill],
    ]),
    [give, 0, 0, allow],
  ]
  const filter = Buffer.alloc(instructions.length * 8)
  for (const [index, [code = 0, yes = 0, no = 0, k = 0]] of instructions.entries()) {
    filter.writeUInt16LE(code, index * 8)
    filter.writeUInt8(yes, index * 8 + 2)
    filter.writeUInt8(no, index * 8 + 3)
    filter.writeUInt32LE(k, index * 8 + 4)
  }
  return ['perl', '-e', LOADER, filter.toString('hex')]
}

let arena: Arena | undefined
afterEach(() => arena?.close())

async function checksUnder(filter: readonly string[]): Promise<readonly Check[]> {
  arena = await Arena.open({ under: filter, env: { PATH: '/usr/bin:/bin' }, prepared: {} })
  const { tiers, egress, prepared } = await arena.facts()
  return [tiers.B, tiers.C, egress, prepared].flatMap(({ checks }) => checks)
}

const failed = (checks: readonly Check[]): readonly Check[] => checks.filter(({ ok }) => !ok)

test('D20 S12 every tier is proven under a host filter that kills programs for 32-bit system calls', async () => {
  const checks = await checksUnder(killing())
  expect(failed(checks)).toEqual([])
  // Control: that filter is in force, because ours alone would answer ENOSYS.
  const x32 = checks.filter(({ name }) => name === 'S12 no x32')
  expect(x32.map(({ detail }) => detail)).toEqual(
    arch() === 'x64' ? new Array(4).fill(expect.stringContaining('SIGSYS')) : [],
  )
})

test('D20 a system call for which the host kills the process fails only its own check', async () => {
  const wrong = failed(await checksUnder(killing(KEYCTL)))
  expect(wrong.map(({ name }) => name)).toEqual(new Array(4).fill('S06–S16 the filter answers'))
  for (const { detail } of wrong) expect(detail).toMatch(/^keyctl was answered by SIGSYS;/)
})
