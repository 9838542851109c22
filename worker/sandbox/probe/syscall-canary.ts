// Owns the canary that asks the kernel itself: which system calls a program in each kind of sandbox makes, and which answers are the right
// ones. A table and pure judgements; elf.ts makes the program. No call of it harms a host where nothing stops it: it looks, and asks for
// what would be refused to nobody's loss.

import { constants } from 'node:os'
import { type Answer, type Argument, answersIn, type Call, callingProgram } from '../kernel/elf.ts'
import { type Machine, type Named, numberOf, syscallsOf } from '../kernel/syscalls.ts'
import type { Ability } from '../plan/host-programs.ts'
import type { Check } from '../plan/proven.ts'

/** What of this host a sandbox must not lead to. */
export type Outside = {
  /** A folder of the worker's, with secrets beside it. */
  readonly folder: string
  /** On the host's loopback somebody listens here. */
  readonly port: number
}
/** What the sandbox is to have, and no more. */
export type Sizes = { readonly pids: number; readonly tmp_bytes: number }

type Errno = keyof typeof constants.errno
/** Refused with an errno, or by a signal that ends the caller. */
type Refusal = Errno | 'SIGSYS'
type Asked = {
  /** The defence, as attacks are numbered. Checks of one name are one check. */
  readonly check: string
  readonly call: string
  readonly number: number
  readonly arguments: readonly Argument[]
  /** The right answers; without any it is to be done: what comes next needs it. `some`: one at least of all that its check asks. */
  readonly right: readonly Refusal[]
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

const NOWHERE: readonly Errno[] = ['ENOENT', 'ENOTDIR']
const NOT_WRITABLE: readonly Errno[] = ['EACCES', 'EPERM', 'EROFS', 'ENOENT', 'ETXTBSY']

type Ask = (check: string, right: readonly Refusal[], call: Named, ...args: readonly Argument[]) => Asked

const asking =
  (machine: Machine): Ask =>
  (check, right, call, ...args) => ({ check, call, number: numberOf(call, machine), arguments: args, right })

/** Each call that the filter answers by itself, with arguments that ask for nothing. */
const filtered = (machine: Machine): Asked[] =>
  syscallsOf(machine).flatMap(({ call, number, verdict }): Asked[] =>
    verdict === 'judged'
      ? []
      : [
          {
            check: 'S06–S16 the filter answers',
            call,
            number,
            arguments: [],
            right: [verdict === 'forbidden' ? 'EPERM' : 'ENOSYS'],
          },
        ],
  )

/** Whatever the filter judges by its arguments, sockets apart. */
const judgedByArguments = (ask: Ask): Asked[] => [
  ask('S01 no keystroke into the terminal', ['EPERM'], 'ioctl', 0, TIOCSTI, 'x'),
  ask('S02 nor by its high half', ['EPERM'], 'ioctl', 0, (1n << 32n) | BigInt(TIOCSTI), 'x'),
  ask('S03 no paste', ['EPERM'], 'ioctl', 0, TIOCLINUX, '\x03'),
  ask('S06 no namespace of its own', ['EPERM'], 'clone', NEWUSER | SIGCHLD),
  ask('S20 no set-id file', ['EPERM'], 'openat', CWD, 'canary-set-id', WRITE_NEW, 0o4755),
]

function inC(machine: Machine, outside: Outside, sizes: Sizes): Asked[] {
  const ask = asking(machine)
  const families = [UNIX, INET, NETLINK, PACKET, BLUETOOTH, ALG, VSOCK, XDP]
  return [
    ...families.map((family) =>
      ask('S13 S26 N01 no socket of any family', ['EAFNOSUPPORT'], 'socket', family, 1, 0),
    ),
    ...walls(machine, outside, sizes, FIRST),
  ]
}

/** The descriptor that comes next to a program that has opened nothing. */
const FIRST = 3

/** What tier C promises whatever it may reach. `next`: the number of descriptors that are open already, where all is well. */
function walls(machine: Machine, { folder }: Outside, { pids, tmp_bytes }: Sizes, next: number): Asked[] {
  const ask = asking(machine)
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
    ...judgedByArguments(ask),
    ask('S04 no writing to init’s program', NOT_WRITABLE, 'openat', CWD, '/proc/1/exe', WRITE),
    ...kernel.map((path) => ask('S05 no setting of the kernel', NOT_WRITABLE, 'openat', CWD, path, WRITE)),
    ...devices.map((path) => ask('S18 no device of the host', NOWHERE, 'openat', CWD, path, READ)),
    ...['/etc/shadow', '/root', '/home', '/var', folder].map((path) =>
      ask('no file of the host', NOWHERE, 'openat', CWD, path, READ),
    ),
    ...otherGates(machine),
    // Nothing of the above leaves a descriptor open, where all is well.
    ask('S29 /tmp has its size', [], 'openat', CWD, '/tmp/canary', WRITE_NEW, 0o600),
    ask('S29 /tmp has its size', ['ENOSPC'], 'fallocate', next, 0, 0, 2 * tmp_bytes),
    ask('S29 /dev/shm has its size', [], 'openat', CWD, '/dev/shm/canary', WRITE_NEW, 0o600),
    ask('S29 /dev/shm has its size', ['ENOSPC'], 'fallocate', next + 1, 0, 0, 32 * MiB),
    ...forks(ask, pids),
  ]
}

/** SIGSYS: a filter of the host applies before ours and ends the program, as our systemd unit does (SystemCallArchitectures=native). */
const otherGates = (machine: Machine): Asked[] =>
  machine === 'x86_64'
    ? [{ ...asking(machine)('S12 no x32', ['ENOSYS', 'SIGSYS'], 'write', 1, '', 0), number: X32 + 1 }]
    : []

/** More than there may be: at some point one is refused, and all before it hang until their namespace ends. */
const forks = (ask: Ask, pids: number): Asked[] =>
  Array.from({ length: pids + 4 }, () => ({
    ...ask('S27 a fork bomb ends at its limit', ['EAGAIN'], 'clone', SIGCHLD),
    some: true as const,
  }))

const sockaddr = (address: string, port: number): Uint8Array => {
  const bytes = Buffer.alloc(16)
  bytes.writeUInt16LE(INET, 0)
  bytes.writeUInt16BE(port, 2)
  bytes.set(address.split('.').map(Number), 4)
  return bytes
}

/** Each socket stays open, so the numbers follow each other. */
function relayed(machine: Machine, outside: Outside, sizes: Sizes): Asked[] {
  const { port } = outside
  const ask = asking(machine)
  const families = [UNIX, NETLINK, PACKET, BLUETOOTH, ALG, VSOCK, XDP]
  const ways: [string, Uint8Array, readonly Errno[]][] = [
    ['N01 no way to the metadata address', sockaddr('169.254.169.254', 80), ['ENETUNREACH']],
    ['N01 no way to the network nearby', sockaddr('10.0.0.1', 80), ['ENETUNREACH']],
    ['N01 no way to the network nearby', sockaddr('192.168.0.1', 80), ['ENETUNREACH']],
    ['N01 no way to any other', sockaddr('192.0.2.1', 443), ['ENETUNREACH']],
    // Its own loopback answers at once, or says that it is about to: then somebody is there.
    ['N13 no way to the host’s loopback', sockaddr('127.0.0.1', port), ['ECONNREFUSED']],
  ]
  return [
    ...families.map((family) =>
      ask('S13 S26 no socket but of the internet', ['EAFNOSUPPORT'], 'socket', family, 1, 0),
    ),
    ...ways.flatMap(([check, to, right], index) => [
      ask(check, [], 'socket', INET, check.startsWith('N13') ? 1 : NONBLOCKING_STREAM, 0),
      ask(check, right, 'connect', FIRST + index, to, to.byteLength),
    ]),
    ...walls(machine, outside, sizes, FIRST + ways.length),
  ]
}

/** Tier B is a user like any other, less what the filter takes: what it promises is that it never is more. */
function onHost(machine: Machine): Asked[] {
  const ask = asking(machine)
  const refused: readonly Errno[] = ['EPERM', 'EACCES', 'EROFS', 'ENOENT']
  const families = [PACKET, BLUETOOTH, ALG, VSOCK, XDP]
  return [
    ...filtered(machine),
    ...judgedByArguments(ask),
    ...families.map((family) =>
      ask('S13 no socket but of paths, addresses and names', ['EAFNOSUPPORT'], 'socket', family, 1, 0),
    ),
    ...otherGates(machine),
    ask('no file of root', refused, 'openat', CWD, '/etc/shadow', READ),
    ask('S05 no setting of the kernel', refused, 'openat', CWD, '/proc/sys/kernel/core_pattern', WRITE),
    ask('S05 no setting of the kernel', refused, 'openat', CWD, '/proc/sysrq-trigger', WRITE),
    ask('S17 no device of its own', refused, 'mknodat', CWD, 'device', 0o20600, 0x103),
    ask('S19 no other user', [...refused, 'EINVAL'], 'setuid', 0), // EINVAL: in a namespace that has no root
    ask('S07 no mount', refused, 'mount', 'none', '/tmp', 'tmpfs', 0, 0),
  ]
}

const ASKED: Readonly<Record<Ability, (machine: Machine, outside: Outside, sizes: Sizes) => Asked[]>> = {
  B: onHost,
  C: inC,
  egress: relayed,
}

export type KernelCanary = { readonly program: Buffer; readonly judge: (told: Buffer) => Check[] }

export function kernelCanary(
  ability: Ability,
  machine: Machine,
  outside: Outside,
  sizes: Sizes,
): KernelCanary {
  const asked = ASKED[ability](machine, outside, sizes)
  const calls: Call[] = asked.map(({ number, arguments: given }) => ({ number, arguments: given }))
  return { program: callingProgram(machine, calls), judge: (told) => judged(asked, answersIn(told)) }
}

function judged(asked: readonly Asked[], answers: readonly Answer[]): Check[] {
  const rows = asked.map((one, index) => ({ ...one, answer: answers[index] }))
  return [...Map.groupBy(rows, ({ check }) => check)].map(([name, group]) => {
    const wrong = group.filter(({ right, answer }) => !isRight(right, answer))
    const ok = group.some(({ some }) => some === true) ? wrong.length < group.length : wrong.length === 0
    const seen = (ok ? group.slice(-1) : wrong.slice(0, 4)).map(
      ({ call, answer }) => `${call} ${nameOf(answer)}`,
    )
    return { name, ok, detail: `${ok ? `${group.length} asked, at last ` : ''}${seen.join(', ')}` }
  })
}

function isRight(right: readonly Refusal[], answer: Answer): boolean {
  if (typeof answer !== 'number') return right.some((refusal) => refusal === answer)
  return right.length === 0
    ? answer >= 0
    : right.some((refusal) => refusal !== 'SIGSYS' && answer === -constants.errno[refusal])
}

/** Some have two names; the first is the usual one. */
const ERRNOS = new Map(
  Object.entries(constants.errno)
    .reverse()
    .map(([name, number]) => [number, name]),
)
function nameOf(answer: Answer): string {
  if (answer === undefined) return 'has no recorded answer'
  if (typeof answer === 'string') return `was answered by ${answer}`
  return answer >= 0 ? `succeeded (${answer})` : (ERRNOS.get(-answer) ?? `errno ${-answer}`)
}
