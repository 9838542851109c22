// Owns the seccomp filter: which system calls a tool may not make, compiled to the classic BPF that
// the kernel loads. Pure. A deny-list on top of namespaces and missing capabilities; calls that are
// newer than our review fail with ENOSYS. Arguments are compared on their low 32 bits, because the
// kernel reads only those (S02: high bits hid TIOCSTI once).

import { AUDIT_ARCH, type Judged, LAST_REVIEWED, type Machine, syscallsOf } from './syscalls.ts'

/**
 * no_sockets: for a sandbox without a network. inet: for one whose only network is the relay to the
 * proxy. host: for tier B, which has the host's network.
 */
export type SocketMode = 'no_sockets' | 'inet' | 'host'

type Instruction = readonly [code: number, jumpTrue: number, jumpFalse: number, k: number]

// linux/filter.h, linux/seccomp.h, asm-generic/errno*.h
const LOAD = 0x20
const AND = 0x54
const JUMP_EQUAL = 0x15
const JUMP_GREATER = 0x25
const JUMP_ANY_BIT = 0x45
const RETURN = 0x06

const ALLOW = 0x7fff0000
const KILL_PROCESS = 0x80000000
const refuse = (errno: number): number => 0x00050000 | errno
const EPERM = refuse(1)
const ENOSYS = refuse(38)
const EPROTONOSUPPORT = refuse(93)
const EAFNOSUPPORT = refuse(97)

// offsetof(struct seccomp_data, …); both machines are little-endian, so the low half of an argument
// comes first.
const NUMBER = 0
const ARCH = 4
const argument = (index: number): number => 16 + 8 * index

// clone(2): NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET. NEWTIME exists for unshare
// and clone3 only.
const CLONE_NEW = 0x7e020000
const TIOCSTI = 0x5412
const TIOCLINUX = 0x541c
const MSG_OOB = 1
/**
 * The kernel counts pages of pipes by user: one call with large pipes would leave 8 KiB pipes to
 * others (D8).
 */
const F_SETPIPE_SZ = 1031
/**
 * O_CREAT and __O_TMPFILE: without them the kernel ignores `mode`, and its register holds anything.
 */
const CREATES = 0o100 | 0o20000000
const SETID = 0o6000
const AF_UNIX = 1
const AF_INET = 2
const AF_INET6 = 10
const AF_NETLINK = 16 // how glibc asks for addresses
const SOCK_STREAM = 1
const SOCK_DGRAM = 2
const SOCK_SEQPACKET = 5
const SOCK_TYPE = 0xf
const IPPROTO_TCP = 6
const IPPROTO_UDP = 17
const PINGS = [1, 58] // ICMP, ICMPv6

const load = (offset: number): Instruction => [LOAD, 0, 0, offset]
const give = (verdict: number): Instruction => [RETURN, 0, 0, verdict]
const when = (k: number, verdict: number): Instruction[] => [[JUMP_EQUAL, 0, 1, k], give(verdict)]
const whenAnyBit = (mask: number, verdict: number): Instruction[] => [
  [JUMP_ANY_BIT, 0, 1, mask],
  give(verdict),
]
const unlessOneOf = (values: readonly number[], verdict: number): Instruction[] => [
  ...values.map((value, index): Instruction => [JUMP_EQUAL, values.length - index, 0, value]),
  give(verdict),
]

/** The checks of a call's arguments. Falls through to ALLOW at the end of the call's block. */
type Judge = readonly Instruction[]

const setId = (modeArgument: number): Judge => [load(argument(modeArgument)), ...whenAnyBit(SETID, EPERM)]
const setIdWhenCreating = (flags: number, mode: number): Judge => [
  load(argument(flags)),
  [JUMP_ANY_BIT, 1, 0, CREATES],
  give(ALLOW),
  ...setId(mode),
]
/** Out-of-band data (S14). */
const outOfBand = (flags: number): Judge => [load(argument(flags)), ...whenAnyBit(MSG_OOB, EPERM)]

/** Checks protocols too: any other number makes the kernel load a module for the tool. */
const internet = (protocols: readonly number[]): Judge => [
  load(argument(0)),
  ...unlessOneOf([AF_INET, AF_INET6], EAFNOSUPPORT),
  load(argument(1)),
  [AND, 0, 0, SOCK_TYPE],
  ...unlessOneOf([SOCK_STREAM, SOCK_DGRAM], EPROTONOSUPPORT),
  load(argument(2)),
  ...unlessOneOf(protocols, EPROTONOSUPPORT),
]

const SOCKETS: Readonly<Record<SocketMode, Judge>> = {
  no_sockets: [give(EAFNOSUPPORT)],
  inet: internet([0, IPPROTO_TCP, IPPROTO_UDP]),
  host: [
    load(argument(0)),
    ...when(AF_UNIX, ALLOW),
    ...when(AF_NETLINK, ALLOW),
    ...internet([0, IPPROTO_TCP, IPPROTO_UDP, ...PINGS]),
  ],
}

/**
 * A pair of datagram sockets could be connected to a named socket afterwards (SOCK_RAW becomes such
 * a pair); a connected stream can't (S26).
 */
const CONNECTED: Judge = [
  load(argument(1)),
  [AND, 0, 0, SOCK_TYPE],
  ...unlessOneOf([SOCK_STREAM, SOCK_SEQPACKET], EPROTONOSUPPORT),
]

const judges = (sockets: SocketMode): Readonly<Record<Judged, Judge>> => ({
  openat: setIdWhenCreating(2, 3),
  open: setIdWhenCreating(1, 2),
  ioctl: [load(argument(1)), ...when(TIOCSTI, EPERM), ...when(TIOCLINUX, EPERM)],
  fcntl: [load(argument(1)), ...when(F_SETPIPE_SZ, EPERM)],
  clone: [load(argument(0)), ...whenAnyBit(CLONE_NEW, EPERM)],
  sendto: outOfBand(3),
  sendmsg: outOfBand(2),
  sendmmsg: outOfBand(3),
  recvfrom: outOfBand(3),
  recvmsg: outOfBand(2),
  recvmmsg: outOfBand(3),
  chmod: setId(1),
  fchmod: setId(1),
  fchmodat: setId(2),
  creat: setId(1),
  socket: SOCKETS[sockets],
  socketpair: [
    load(argument(0)),
    ...unlessOneOf([AF_UNIX], EAFNOSUPPORT),
    ...(sockets === 'host' ? [] : CONNECTED),
  ],
})

function assemble(machine: Machine, sockets: SocketMode): Instruction[] {
  const judge = judges(sockets)
  const named = syscallsOf(machine).flatMap(({ call, number, verdict }): Instruction[] => {
    if (verdict !== 'judged') return when(number, verdict === 'forbidden' ? EPERM : ENOSYS)
    const block = judge[call as Judged] // its verdict is 'judged'
    return [[JUMP_EQUAL, 0, block.length + 1, number], ...block, give(ALLOW)]
  })
  return [
    load(ARCH),
    [JUMP_EQUAL, 1, 0, AUDIT_ARCH[machine]],
    give(KILL_PROCESS), // int 0x80 and 32-bit programs (S12)
    load(NUMBER),
    [JUMP_GREATER, 0, 1, LAST_REVIEWED], // newer calls, and x32, which sets bit 30
    give(ENOSYS),
    ...named,
    give(ALLOW),
  ]
}

/** The program as `struct sock_filter[]`, for `bwrap --seccomp FD` and for tier-b-fence.ts. */
export function seccompProgram(machine: Machine, sockets: SocketMode): Buffer {
  const instructions = assemble(machine, sockets)
  const bytes = Buffer.alloc(instructions.length * 8)
  for (const [index, [code, jumpTrue, jumpFalse, k]] of instructions.entries()) {
    bytes.writeUInt16LE(code, index * 8)
    bytes.writeUInt8(jumpTrue, index * 8 + 2)
    bytes.writeUInt8(jumpFalse, index * 8 + 3)
    bytes.writeUInt32LE(k >>> 0, index * 8 + 4)
  }
  return bytes
}
