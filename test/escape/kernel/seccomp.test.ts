// The filter means the same on both machines. These tests execute it instruction by instruction,
// even for the other machine, and compare its numbers with a list that was written independently of
// the table.

import { describe, expect, test } from 'vitest'
import { type SocketMode, seccompProgram } from '../../../worker/sandbox/kernel/seccomp.ts'
import {
  AUDIT_ARCH,
  LAST_REVIEWED,
  type Machine,
  syscallsOf,
} from '../../../worker/sandbox/kernel/syscalls.ts'

type Registers = { readonly arch?: number; readonly number: number; readonly args?: readonly number[] }

/** `struct seccomp_data`: nr, arch, instruction pointer, six arguments. */
function dataOf({ number, arch, args = [] }: Registers, machine: Machine): Buffer {
  const data = Buffer.alloc(64)
  data.writeUInt32LE(number >>> 0, 0)
  data.writeUInt32LE(arch ?? AUDIT_ARCH[machine], 4)
  for (const [index, value] of args.entries())
    data.writeBigUInt64LE(BigInt.asUintN(64, BigInt(value)), 16 + 8 * index)
  return data
}

/**
 * Executes the classic BPF that our filters use. Throws on anything else, and on a jump out of the
 * program.
 */
function execute(program: Buffer, data: Buffer): number {
  let accumulator = 0
  for (let at = 0; ; at += 8) {
    const [code, yes, no, k] = [
      program.readUInt16LE(at),
      program.readUInt8(at + 2),
      program.readUInt8(at + 3),
      program.readUInt32LE(at + 4),
    ]
    const jump = (taken: boolean): void => {
      at += 8 * (taken ? yes : no)
    }
    if (code === 0x06) return k
    if (code === 0x20) accumulator = data.readUInt32LE(k)
    else if (code === 0x54) accumulator = (accumulator & k) >>> 0
    else if (code === 0x15) jump(accumulator === k)
    else if (code === 0x25) jump(accumulator > k)
    else if (code === 0x45) jump((accumulator & k) !== 0)
    else throw new Error(`instruction ${code}`)
  }
}

const VERDICTS = new Map([
  [0x7fff0000, 'allow'],
  [0x80000000, 'kill'],
  [0x00050001, 'EPERM'],
  [0x00050026, 'ENOSYS'],
  [0x0005005d, 'EPROTONOSUPPORT'],
  [0x00050061, 'EAFNOSUPPORT'],
])

const MACHINES: readonly Machine[] = ['x86_64', 'aarch64']
const MODES: readonly SocketMode[] = ['no_sockets', 'inet', 'host']

const judge = (machine: Machine, mode: SocketMode, registers: Registers): string | undefined =>
  VERDICTS.get(execute(seccompProgram(machine, mode), dataOf(registers, machine)))

/** From the kernels' own tables: [x86_64, aarch64]. */
const NUMBERS: Readonly<Record<string, readonly [number | undefined, number | undefined]>> = {
  read: [0, 63],
  write: [1, 64],
  execve: [59, 221],
  mmap: [9, 222],
  connect: [42, 203],
  memfd_create: [319, 279],
  ptrace: [101, 117],
  mount: [165, 40],
  bpf: [321, 280],
  unshare: [272, 97],
  setns: [308, 268],
  keyctl: [250, 219],
  mknodat: [259, 33],
  open_by_handle_at: [304, 265],
  perf_event_open: [298, 241],
  clone3: [435, 435],
  io_uring_setup: [425, 425],
  openat2: [437, 437],
  openat: [257, 56],
  fchmodat: [268, 53],
  clone: [56, 220],
  socket: [41, 198],
  socketpair: [53, 199],
  ioctl: [16, 29],
  sendto: [44, 206],
}
const of = (name: string, machine: Machine): number => NUMBERS[name]?.[machine === 'x86_64' ? 0 : 1] ?? -1

describe.each(MACHINES)('%s', (machine) => {
  test.each(MODES)(
    'S12 the filter kills other machines’ system calls, and unknown numbers do not exist (%s)',
    (mode) => {
      for (const arch of [
        0x40000003,
        0x40000028,
        0xc00000f3,
        machine === 'x86_64' ? AUDIT_ARCH.aarch64 : AUDIT_ARCH.x86_64,
      ]) {
        expect(judge(machine, mode, { arch, number: 0 })).toBe('kill')
      }
      for (const number of [LAST_REVIEWED + 1, 500, 0x40000000, 0x40000000 | 59, 0xffffffff]) {
        expect(judge(machine, mode, { number })).toBe('ENOSYS')
      }
      expect(judge(machine, mode, { number: LAST_REVIEWED })).toBe('allow')
    },
  )

  test.each(MODES)(
    'the filter gives every named system call its verdict and allows every other (%s)',
    (mode) => {
      const named = new Map(syscallsOf(machine).map(({ number, verdict }) => [number, verdict]))
      const wanted = { forbidden: 'EPERM', absent: 'ENOSYS' } as const
      for (let number = 0; number <= LAST_REVIEWED; number++) {
        const verdict = named.get(number)
        if (verdict === 'judged') continue
        expect(judge(machine, mode, { number }), `${number}`).toBe(
          verdict === undefined ? 'allow' : wanted[verdict],
        )
      }
      for (const name of [
        'ptrace',
        'mount',
        'bpf',
        'unshare',
        'setns',
        'keyctl',
        'mknodat',
        'open_by_handle_at',
        'perf_event_open',
      ]) {
        expect(judge(machine, mode, { number: of(name, machine) }), name).toBe('EPERM')
      }
      for (const name of ['clone3', 'io_uring_setup', 'openat2'])
        expect(judge(machine, mode, { number: of(name, machine) }), name).toBe('ENOSYS')
      for (const name of ['read', 'write', 'execve', 'mmap', 'connect', 'memfd_create']) {
        expect(judge(machine, mode, { number: of(name, machine) }), name).toBe('allow')
      }
    },
  )

  test('S02 S06 S14 S20 the filter compares the low half of arguments', () => {
    const asked = (name: string, ...args: number[]) =>
      judge(machine, 'no_sockets', { number: of(name, machine), args })
    const HIGH = 0xdead * 2 ** 32
    expect([
      asked('ioctl', 0, 0x5412),
      asked('ioctl', 0, HIGH + 0x5412),
      asked('ioctl', 0, 0x541c),
      asked('ioctl', 0, 0x5401),
    ]).toEqual(['EPERM', 'EPERM', 'EPERM', 'allow'])
    for (const flag of [0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000]) {
      expect(asked('clone', flag | 17)).toBe('EPERM')
    }
    expect(asked('clone', 0x3d0f00)).toBe('allow') // a thread
    expect([asked('sendto', 0, 0, 0, 1), asked('sendto', 0, 0, 0, 0x4000)]).toEqual(['EPERM', 'allow'])
    const CREATE = 0o100
    expect([
      asked('openat', 0, 0, CREATE, 0o4755),
      asked('openat', 0, 0, CREATE, 0o755),
      asked('openat', 0, 0, 0, 0o4755),
    ]).toEqual(['EPERM', 'allow', 'allow'])
    expect(asked('openat', 0, 0, 0o20200000, 0o2755)).toBe('EPERM')
    expect([asked('fchmodat', 0, 0, 0o4755), asked('fchmodat', 0, 0, 0o1777)]).toEqual(['EPERM', 'allow'])
  })

  test('S13 the filter allows exactly the sockets of its mode', () => {
    const socket = (mode: SocketMode, ...args: number[]) =>
      judge(machine, mode, { number: of('socket', machine), args })
    for (const family of [1, 2, 10, 16, 17, 38, 40, 44])
      expect(socket('no_sockets', family, 1, 0)).toBe('EAFNOSUPPORT')
    for (const family of [1, 16, 17, 38, 40, 44]) expect(socket('inet', family, 1, 0)).toBe('EAFNOSUPPORT')
    for (const family of [2, 10]) {
      expect([
        socket('inet', family, 1, 0),
        socket('inet', family, 0x80802, 17),
        socket('inet', family, 3, 0),
      ]).toEqual(['allow', 'allow', 'EPROTONOSUPPORT'])
    }
    for (const family of [17, 31, 38, 40, 44])
      expect(socket('host', family, 1, 0), `${family}`).toBe('EAFNOSUPPORT')
    for (const family of [1, 16]) expect(socket('host', family, 3, 0), `${family}`).toBe('allow')
    expect([
      socket('host', 2, 1, 0),
      socket('host', 2, 2, 1),
      socket('host', 10, 2, 58),
      socket('host', 2, 1, 132),
      socket('host', 2, 3, 1),
    ]).toEqual(['allow', 'allow', 'allow', 'EPROTONOSUPPORT', 'EPROTONOSUPPORT'])
    for (const mode of MODES) {
      const datagrams = mode === 'host' ? 'allow' : 'EPROTONOSUPPORT'
      const pair = (...args: number[]) => judge(machine, mode, { number: of('socketpair', machine), args })
      expect([pair(1, 1), pair(1, 0x80805), pair(1, 2), pair(1, 3), pair(2, 1)]).toEqual([
        'allow',
        'allow',
        datagrams,
        datagrams,
        'EAFNOSUPPORT',
      ])
    }
  })
})
