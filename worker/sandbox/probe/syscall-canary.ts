// The canary that makes system calls directly: the calls for each kind of sandbox and their
// expected answers. A table and pure judgements; elf.ts builds the program. The calls are harmless
// even on a host where nothing refuses them.

import { constants } from 'node:os'
import {
  type Answer,
  answersIn,
  callingProgram,
  type SystemCall,
  type SystemCallArgument,
} from '../kernel/elf.ts'
import { type Machine, type Named, numberOf, syscallsOf } from '../kernel/syscalls.ts'
import type { Ability } from '../plan/host-programs.ts'
import type { Check } from '../plan/proven.ts'

/** Things on this host that no sandbox may reach. */
export type Outside = {
  /** A folder of the worker, next to its secrets. */
  readonly folder: string
  /** A port on the host's loopback with a listener. */
  readonly port: number
}
/** Limits that the sandbox must enforce. */
export type Sizes = { readonly pids: number; readonly tmp_bytes: number }

type Errno = keyof typeof constants.errno
/** Refused with an errno, or by a signal that ends the caller. */
type Refusal = Errno | 'SIGSYS'
type Trial = {
  /** The name of the check, with the number of the attack. Trials of one name form one check. */
  readonly check: string
  readonly call: string
  readonly number: number
  readonly arguments: readonly SystemCallArgument[]
  /**
   * The expected refusals. If empty, the call must succeed, because the next one needs it. `some`:
   * one trial of the check suffices.
   */
  readonly expected: readonly Refusal[]
  readonly some?: true
}

const CWD = -100
const [READ, WRITE, WRITE_NEW] = [0, 1, 0o101]
const SIGCHLD = 17
const NEWUSER = 0x10000000
const MiB = 1024 * 1024
const [UNIX, INET, NETLINK, PACKET, BLUETOOTH, ALG, VSOCK, XDP] = [1, 2, 16, 17, 31, 38, 40, 44]
const NONBLOCKING_STREAM = 1 | 0o4000
const [TIOCSTI, TIOCLINUX] = [0x5412, 0x541c]
const X32 = 0x40000000

const ABSENT: readonly Errno[] = ['ENOENT', 'ENOTDIR']
const NOT_WRITABLE: readonly Errno[] = ['EACCES', 'EPERM', 'EROFS', 'ENOENT', 'ETXTBSY']

type MakeTrial = (
  check: string,
  expected: readonly Refusal[],
  call: Named,
  ...args: readonly SystemCallArgument[]
) => Trial

const trialsFor =
  (machine: Machine): MakeTrial =>
  (check, expected, call, ...args) => ({
    check,
    call,
    number: numberOf(call, machine),
    arguments: args,
    expected,
  })

/** Each call that the filter refuses for any arguments, made with empty ones. */
const filtered = (machine: Machine): Trial[] =>
  syscallsOf(machine).flatMap(({ call, number, verdict }): Trial[] =>
    verdict === 'judged'
      ? []
      : [
          {
            check: 'S06–S16 the filter answers',
            call,
            number,
            arguments: [],
            expected: [verdict === 'forbidden' ? 'EPERM' : 'ENOSYS'],
          },
        ],
  )

/** Calls that the filter judges by their arguments, except sockets. */
const judgedByArguments = (trial: MakeTrial): Trial[] => [
  trial('S01 no keystroke into the terminal', ['EPERM'], 'ioctl', 0, TIOCSTI, 'x'),
  trial(
    'S02 no keystroke by setting the high half of the argument',
    ['EPERM'],
    'ioctl',
    0,
    (1n << 32n) | BigInt(TIOCSTI),
    'x',
  ),
  trial('S03 no paste', ['EPERM'], 'ioctl', 0, TIOCLINUX, '\x03'),
  trial('S06 no new namespace', ['EPERM'], 'clone', NEWUSER | SIGCHLD),
  trial('S20 no set-id file', ['EPERM'], 'openat', CWD, 'canary-set-id', WRITE_NEW, 0o4755),
]

function tierC(machine: Machine, outside: Outside, sizes: Sizes): Trial[] {
  const trial = trialsFor(machine)
  const families = [UNIX, INET, NETLINK, PACKET, BLUETOOTH, ALG, VSOCK, XDP]
  return [
    ...families.map((family) =>
      trial('S13 S26 N01 no socket of any family', ['EAFNOSUPPORT'], 'socket', family, 1, 0),
    ),
    ...commonTrials(machine, outside, sizes, FIRST),
  ]
}

/** The first descriptor that a program opens. */
const FIRST = 3

/**
 * The promises of tier C with and without egress. `next`: the next descriptor's number, if all
 * trials so far were refused.
 */
function commonTrials(
  machine: Machine,
  { folder }: Outside,
  { pids, tmp_bytes }: Sizes,
  next: number,
): Trial[] {
  const trial = trialsFor(machine)
  const kernel = ['/proc/sys/kernel/core_pattern', '/proc/sysrq-trigger', '/sys/kernel/uevent_helper']
  const devices = [
    '/dev/kmsg',
    '/dev/mem',
    '/dev/kvm',
    '/dev/fuse',
    '/dev/vsock',
    '/dev/net/tun',
    '/dev/vda',
    '/dev/sda',
  ]
  return [
    ...filtered(machine),
    ...judgedByArguments(trial),
    trial('S04 no writing to init’s program', NOT_WRITABLE, 'openat', CWD, '/proc/1/exe', WRITE),
    ...kernel.map((path) => trial('S05 no setting of the kernel', NOT_WRITABLE, 'openat', CWD, path, WRITE)),
    ...devices.map((path) => trial('S18 no device of the host', ABSENT, 'openat', CWD, path, READ)),
    ...['/etc/shadow', '/root', '/home', '/var', folder].map((path) =>
      trial('no file of the host', ABSENT, 'openat', CWD, path, READ),
    ),
    ...otherAbis(machine),
    // The trials above leave no descriptor open if they are refused.
    trial('S29 /tmp has its size', [], 'openat', CWD, '/tmp/canary', WRITE_NEW, 0o600),
    trial('S29 /tmp has its size', ['ENOSPC'], 'fallocate', next, 0, 0, 2 * tmp_bytes),
    trial('S29 /dev/shm has its size', [], 'openat', CWD, '/dev/shm/canary', WRITE_NEW, 0o600),
    trial('S29 /dev/shm has its size', ['ENOSPC'], 'fallocate', next + 1, 0, 0, 32 * MiB),
    ...forks(trial, pids),
  ]
}

/**
 * SIGSYS: a filter of the host applies before ours and ends the program, as our systemd unit does
 * (SystemCallArchitectures=native).
 */
const otherAbis = (machine: Machine): Trial[] =>
  machine === 'x86_64'
    ? [{ ...trialsFor(machine)('S12 no x32', ['ENOSYS', 'SIGSYS'], 'write', 1, '', 0), number: X32 + 1 }]
    : []

/**
 * More forks than the limit: one must be refused, and those before it hang until their namespace
 * ends.
 */
const forks = (trial: MakeTrial, pids: number): Trial[] =>
  Array.from({ length: pids + 4 }, () => ({
    ...trial('S27 a fork bomb ends at its limit', ['EAGAIN'], 'clone', SIGCHLD),
    some: true as const,
  }))

const sockaddr = (address: string, port: number): Uint8Array => {
  const bytes = Buffer.alloc(16)
  bytes.writeUInt16LE(INET, 0)
  bytes.writeUInt16BE(port, 2)
  bytes.set(address.split('.').map(Number), 4)
  return bytes
}

/** Each socket stays open, so descriptor numbers are consecutive. */
function withEgress(machine: Machine, outside: Outside, sizes: Sizes): Trial[] {
  const { port } = outside
  const trial = trialsFor(machine)
  const families = [UNIX, NETLINK, PACKET, BLUETOOTH, ALG, VSOCK, XDP]
  const destinations: [string, Uint8Array, readonly Errno[]][] = [
    ['N01 no way to the metadata address', sockaddr('169.254.169.254', 80), ['ENETUNREACH']],
    ['N01 no way to the network nearby', sockaddr('10.0.0.1', 80), ['ENETUNREACH']],
    ['N01 no way to the network nearby', sockaddr('192.168.0.1', 80), ['ENETUNREACH']],
    ['N01 no way to any other address', sockaddr('192.0.2.1', 443), ['ENETUNREACH']],
    // A blocking connect, because loopback answers at once.
    ['N13 no way to the host’s loopback', sockaddr('127.0.0.1', port), ['ECONNREFUSED']],
  ]
  return [
    ...families.map((family) =>
      trial('S13 S26 no socket but of the internet', ['EAFNOSUPPORT'], 'socket', family, 1, 0),
    ),
    ...destinations.flatMap(([check, to, expected], index) => [
      trial(check, [], 'socket', INET, check.startsWith('N13') ? 1 : NONBLOCKING_STREAM, 0),
      trial(check, expected, 'connect', FIRST + index, to, to.byteLength),
    ]),
    ...commonTrials(machine, outside, sizes, FIRST + destinations.length),
  ]
}

/**
 * A tier B process is an ordinary user minus what the filter refuses; these trials show that it is
 * never more.
 */
function tierB(machine: Machine): Trial[] {
  const trial = trialsFor(machine)
  const refused: readonly Errno[] = ['EPERM', 'EACCES', 'EROFS', 'ENOENT']
  const families = [PACKET, BLUETOOTH, ALG, VSOCK, XDP]
  return [
    ...filtered(machine),
    ...judgedByArguments(trial),
    ...families.map((family) =>
      trial('S13 no socket but of paths, addresses and names', ['EAFNOSUPPORT'], 'socket', family, 1, 0),
    ),
    ...otherAbis(machine),
    trial('no file of root', refused, 'openat', CWD, '/etc/shadow', READ),
    trial('S05 no setting of the kernel', refused, 'openat', CWD, '/proc/sys/kernel/core_pattern', WRITE),
    trial('S05 no setting of the kernel', refused, 'openat', CWD, '/proc/sysrq-trigger', WRITE),
    trial('S17 no new device node', refused, 'mknodat', CWD, 'device', 0o20600, 0x103),
    // EINVAL: in a namespace that has no root.
    trial('S19 no change of user', [...refused, 'EINVAL'], 'setuid', 0),
    trial('S07 no mount', refused, 'mount', 'none', '/tmp', 'tmpfs', 0, 0),
  ]
}

const TRIALS: Readonly<Record<Ability, (machine: Machine, outside: Outside, sizes: Sizes) => Trial[]>> = {
  B: tierB,
  C: tierC,
  egress: withEgress,
}

export type KernelCanary = { readonly program: Buffer; readonly judge: (output: Buffer) => Check[] }

export function kernelCanary(
  ability: Ability,
  machine: Machine,
  outside: Outside,
  sizes: Sizes,
): KernelCanary {
  const trials = TRIALS[ability](machine, outside, sizes)
  const calls: SystemCall[] = trials.map(({ number, arguments: given }) => ({ number, arguments: given }))
  return { program: callingProgram(machine, calls), judge: (output) => judge(trials, answersIn(output)) }
}

function judge(trials: readonly Trial[], answers: readonly Answer[]): Check[] {
  const rows = trials.map((one, index) => ({ ...one, answer: answers[index] }))
  return [...Map.groupBy(rows, ({ check }) => check)].map(([name, group]) => {
    const wrong = group.filter(({ expected, answer }) => !isExpected(expected, answer))
    const ok = group.some(({ some }) => some === true) ? wrong.length < group.length : wrong.length === 0
    const seen = (ok ? group.slice(-1) : wrong.slice(0, 4)).map(
      ({ call, answer }) => `${call} ${describe(answer)}`,
    )
    return { name, ok, detail: `${ok ? `${group.length} tried, the last: ` : ''}${seen.join(', ')}` }
  })
}

function isExpected(expected: readonly Refusal[], answer: Answer): boolean {
  if (typeof answer !== 'number') return expected.some((refusal) => refusal === answer)
  return expected.length === 0
    ? answer >= 0
    : expected.some((refusal) => refusal !== 'SIGSYS' && answer === -constants.errno[refusal])
}

/** Some errnos have two names; the first one is usual. */
const ERRNOS = new Map(
  Object.entries(constants.errno)
    .reverse()
    .map(([name, number]) => [number, name]),
)
function describe(answer: Answer): string {
  if (answer === undefined) return 'has no recorded answer'
  if (typeof answer === 'string') return `was answered by ${answer}`
  return answer >= 0 ? `succeeded (${answer})` : (ERRNOS.get(-answer) ?? `errno ${-answer}`)
}
