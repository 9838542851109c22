// A tool can’t reach kernel interfaces that ordinary programs don’t need. Each attack runs in the
// sandbox, and again without the defence that stops it. Attacks that work only if the worker is
// root are in not-root.test.ts. @project prepared

import { chmodSync, chownSync, copyFileSync } from 'node:fs'
import { arch } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Arena, attack, attackReport, planOf, THEIR_INIT, UID } from '../arena/arena.ts'
import type { Swap } from '../arena/orders.ts'

let arena: Arena
beforeAll(async () => {
  arena = await Arena.open()
})
afterAll(() => arena.close())

const NO_SECCOMP: Swap = [['--seccomp', '4'], []]
const NO_SESSION: Swap = [['--new-session'], []]
const USERNS: Swap = [['--disable-userns', '--assert-userns-disabled'], []]

const inside = async (source: string): Promise<Record<string, unknown>> =>
  attackReport(await arena.launch({ plan: planOf(attack(source)) }))
const without = async (source: string, ...swaps: Swap[]): Promise<Record<string, unknown>> =>
  attackReport(await arena.bare({ plan: planOf(attack(source)), swaps }))

/**
 * Runs its arguments on a new terminal, then prints what was injected into that terminal's input.
 */
const ON_A_TERMINAL = `
import fcntl, os, pty, sys, termios, tty
master, slave = pty.openpty()
tty.setraw(slave)
pid = os.fork()
if pid == 0:
    os.setsid()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    os.execv(sys.argv[1], sys.argv[1:])
os.waitpid(pid, 0)
os.set_blocking(slave, False)
try:
    pushed = os.read(slave, 99).decode()
except BlockingIOError:
    pushed = ''
print('{"pushed": "%s"}' % pushed)
`

const PUSH = `
import fcntl, termios
try:
    terminal = os.open('/dev/tty', os.O_RDWR)
except OSError:
    terminal = 1
tell['sti'] = [call('ioctl', terminal, request, b'X') for request in (0x5412, 0x100005412, 0xdeadbeef00005412)]
tell['linux'] = [call('ioctl', terminal, request, bytes([3, 0])) for request in (0x541c, 0x10000541c)]
`

describe('terminal', () => {
  test('S01 TIOCSTI is refused to a tool', async () => {
    expect((await inside(PUSH))['sti']).toEqual(['EPERM', 'EPERM', 'EPERM'])
  })

  const pushed = async (source: string, ...swaps: Swap[]) =>
    attackReport(
      await arena.bare({
        plan: planOf(attack(source)),
        swaps,
        under: ['/usr/bin/python3', '-I', '-c', ON_A_TERMINAL],
      }),
    )['pushed']

  test('S01 a tool can’t inject a keystroke into a terminal of the worker', async () => {
    expect(await pushed(PUSH)).toBe('')
    expect(await pushed(PUSH, NO_SECCOMP)).toBe('')
    expect(await pushed(PUSH, NO_SESSION)).toBe('')
  })

  test('S01 without seccomp and `--new-session`: a tool injects keystrokes', async () => {
    expect(String(await pushed(PUSH, NO_SECCOMP, NO_SESSION))).toMatch(/^X/)
  })

  test('S02 TIOCSTI with high bits set in the request is refused too', async () => {
    expect((await inside(PUSH))['sti']).toEqual(['EPERM', 'EPERM', 'EPERM'])
  })

  test('S02 without seccomp and `--new-session`: the kernel ignores the high bits and injects keystrokes', async () => {
    const high = PUSH.replace('(0x5412, ', '(')
    expect(String(await pushed(high, NO_SECCOMP, NO_SESSION))).toBe('XX')
  })

  test('S03 TIOCLINUX is refused to a tool', async () => {
    expect((await inside(PUSH))['linux']).toEqual(['EPERM', 'EPERM'])
  })

  test('S03 without seccomp: TIOCLINUX reaches the terminal’s driver, which here is not a virtual console', async () => {
    expect((await without(PUSH, NO_SECCOMP))['linux']).toEqual(['ENOTTY', 'ENOTTY'])
  })
})

describe('host files by way of /proc', () => {
  const PROGRAMS = `
for path in ('/proc/self/exe', '/proc/1/exe', '/proc/%d/exe' % os.getppid()):
    tell[path] = attempt(os.open, path, os.O_WRONLY)`

  test('S04 a tool can’t open the programs that started it for writing', async () => {
    for (const answer of Object.values(await inside(PROGRAMS))) expect(['EACCES', 'EROFS']).toContain(answer)
  })

  test('S04 without our init, and with a bubblewrap that root does not own: a tool may write bubblewrap’s file, and fails only because it is in use', async () => {
    const own = join(arena.home, 'bwrap')
    copyFileSync('/usr/bin/bwrap', own)
    chownSync(own, UID, UID)
    chmodSync(own, 0o755)
    const careless = await Arena.open({ programs: { bwrap: own } })
    expect(
      attackReport(await careless.bare({ plan: planOf(attack(PROGRAMS)), swaps: THEIR_INIT }))['/proc/1/exe'],
    ).toBe('ETXTBSY')
    await careless.close()
  })

  test('S05 a tool can’t write kernel settings', async () => {
    const seen = await inside(`
for path in ('/proc/sys/kernel/core_pattern', '/proc/sysrq-trigger', '/proc/sys/kernel/modprobe', '/proc/sys/vm/overcommit_memory'):
    tell[path] = attempt(os.open, path, os.O_WRONLY)`)
    for (const answer of Object.values(seen)) expect(['EACCES', 'EROFS', 'ENOENT']).toContain(answer)
  })
})

describe('namespaces and mounts', () => {
  const NAMESPACES = `
for name, flag in dict(user=0x10000000, mount=0x20000, net=0x40000000, pid=0x20000000, ipc=0x8000000, uts=0x4000000, cgroup=0x2000000).items():
    tell['unshare ' + name] = call('unshare', flag)
    tell['clone ' + name] = call('clone', flag | 17, 0, 0, 0, 0)
    if tell['clone ' + name] == 'ok' and os.getpid() != me: os._exit(0)
args = (ctypes.c_uint64 * 11)(0x10000000)
tell['clone3'] = call('clone3', args, 88)
tell['setns'] = call('setns', 0, 0)`

  test('S06 no system call gives a tool another namespace', async () => {
    const { clone3, setns, ...others } = await inside(`me = os.getpid()\n${NAMESPACES}`)
    expect([clone3, setns]).toEqual(['ENOSYS', 'EPERM'])
    expect(Object.keys(others)).toHaveLength(14)
    for (const answer of Object.values(others)) expect(answer).toBe('EPERM')
  })

  const OWN = "tell['user'] = call('unshare', 0x10000000)"

  test('S06 seccomp alone, and `--disable-userns` alone, keep a tool from making namespaces', async () => {
    expect(await without(OWN, NO_SECCOMP)).toEqual({ user: 'ENOSPC' })
    expect(await without(OWN, USERNS)).toEqual({ user: 'EPERM' })
  })

  test('S06 without seccomp and `--disable-userns`: a tool makes a user namespace', async () => {
    expect(await without(OWN, NO_SECCOMP, USERNS)).toEqual({ user: 'ok' })
  })

  const MOUNTS = `
tell['old'] = [call('mount', b'none', b'/tmp', b'tmpfs', 0, None), call('umount2', b'/tmp', 2), call('pivot_root', b'/tmp', b'/tmp'), call('chroot', b'/tmp')]
tell['new'] = [call('fsopen', b'tmpfs', 0), call('open_tree', -100, b'/tmp', 0), call('open_tree_attr', -100, b'/tmp', 0, None, 0),
  call('move_mount', 0, b'', 0, b'', 0), call('fsconfig', 0, 0, None, None, 0), call('fsmount', 0, 0, 0), call('fspick', -100, b'/tmp', 0),
  call('mount_setattr', -100, b'/tmp', 0, None, 0)]
tell['list'] = [call('statmount', None, None, 0, 0), call('listmount', None, None, 0, 0)]`

  test('S07 old and new mount calls are refused to a tool', async () => {
    const seen = await inside(MOUNTS)
    expect(seen['old']).toEqual(['EPERM', 'EPERM', 'EPERM', 'EPERM'])
    expect(seen['new']).toEqual(Array(8).fill('ENOSYS'))
    expect(seen['list']).toEqual(['EPERM', 'EPERM'])
  })

  test('S07 without seccomp and `--disable-userns`: a tool mounts in a namespace that it made', async () => {
    const mount =
      "tell['own'] = call('unshare', 0x10020000)\ntell['mount'] = call('mount', b'none', b'/tmp', b'tmpfs', 0, None)"
    expect(await without(mount, NO_SECCOMP, USERNS)).toEqual({ own: 'ok', mount: 'ok' })
    expect((await without(MOUNTS, NO_SECCOMP))['new']).not.toContain('ENOSYS')
  })
})

describe('system calls', () => {
  const KEYS = `
tell['add'] = call('add_key', b'user', b'canary', b'x', 1, -2)
tell['keyctl'] = call('keyctl', 0, -4, 1)
tell['request'] = call('request_key', b'user', b'canary', None, 0)`

  test('S08 a tool can’t use kernel keyrings', async () => {
    expect(await inside(KEYS)).toEqual({ add: 'EPERM', keyctl: 'EPERM', request: 'EPERM' })
  })

  test('S08 without seccomp: a tool leaves a key in the worker’s keyring', async () => {
    expect((await without(KEYS, NO_SECCOMP))['add']).toBe('ok')
  })

  const OTHERS = `
iov = (ctypes.c_uint64 * 2)(0, 0)
tell['traceme'] = call('ptrace', 0, 0, 0, 0)
tell['seize'] = call('ptrace', 0x4206, os.getppid(), 0, 0)
tell['readv'] = call('process_vm_readv', os.getpid(), iov, 0, iov, 0, 0)
tell['writev'] = call('process_vm_writev', os.getpid(), iov, 0, iov, 0, 0)
tell['getfd'] = call('pidfd_getfd', os.pidfd_open(os.getpid()), 0, 0)
tell['kcmp'] = call('kcmp', os.getpid(), os.getpid(), 0, 0, 0)`

  test('S09 a tool can’t trace other processes, or take their memory or descriptors', async () => {
    expect(Object.values(await inside(OTHERS))).toEqual(Array(6).fill('EPERM'))
  })

  test('S09 without seccomp: a tool traces, reads memory and takes descriptors', async () => {
    const bitten = await without(OTHERS, NO_SECCOMP)
    expect([bitten['traceme'], bitten['readv'], bitten['getfd']]).toEqual(['ok', 'ok', 'ok'])
  })

  const RING = `
params = (ctypes.c_char * 120)()
tell['setup'] = call('io_uring_setup', 4, params)
tell['enter'] = call('io_uring_enter', 99, 0, 0, 0, None, 0)
tell['register'] = call('io_uring_register', 99, 0, None, 0)`

  test('S10 io_uring does not exist for a tool', async () => {
    expect(await inside(RING)).toEqual({ setup: 'ENOSYS', enter: 'ENOSYS', register: 'ENOSYS' })
  })

  test('S10 without seccomp: the kernel answers io_uring calls of a tool', async () => {
    expect((await without(RING, NO_SECCOMP))['setup']).not.toBe('ENOSYS')
  })

  test('S09, S10 tier B has the same filter, without bubblewrap', async () => {
    const inB = async (source: string) =>
      attackReport(await arena.launch({ plan: planOf(attack(source), { tier: 'B' }) }))
    expect(Object.values(await inB(OTHERS))).toEqual(Array(6).fill('EPERM'))
    expect(await inB(RING)).toEqual({ setup: 'ENOSYS', enter: 'ENOSYS', register: 'ENOSYS' })
    expect(await inB("tell['own'] = open('/proc/self/status').read()")).toMatchObject({
      own: expect.stringMatching(/^Seccomp:\t2$/m),
    })
  })

  const KERNEL = `
attr = (ctypes.c_char * 128)()
tell['bpf'] = call('bpf', 0, attr, 128)
tell['perf'] = call('perf_event_open', attr, 0, -1, -1, 0)
tell['userfaultfd'] = call('userfaultfd', 1)`

  test('S11 bpf, perf_event_open and userfaultfd are refused to a tool', async () => {
    expect(await inside(KERNEL)).toEqual({ bpf: 'EPERM', perf: 'EPERM', userfaultfd: 'EPERM' })
  })

  test('S11 without seccomp: a tool handles page faults in user space', async () => {
    expect((await without(KERNEL, NO_SECCOMP))['userfaultfd']).toBe('ok')
  })

  // mov eax, 20 (getpid); int 0x80; ret
  const INT80 = `
import mmap
code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(bytes([0xb8, 20, 0, 0, 0, 0xcd, 0x80, 0xc3]))
tell['pid'] = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))()`

  test('S12 system calls of x32 and with unknown numbers do not exist for a tool', async () => {
    const numbers = await inside(
      "tell['x32'] = number(0x40000000 | 39)\ntell['next'] = number(470)\ntell['far'] = number(100000)",
    )
    expect(numbers).toEqual({ x32: 'ENOSYS', next: 'ENOSYS', far: 'ENOSYS' })
  })

  // seccomp.test.ts executes the filter for the other machine instruction by instruction.
  if (arch() === 'x64') {
    test('S12 a tool that makes a system call of i386 is killed', async () => {
      expect((await arena.launch({ plan: planOf(attack(INT80)) })).outcome).toEqual({
        kind: 'signal',
        signal: 'SIGSYS',
      })
    })

    test('S12 without seccomp: a tool makes system calls of i386', async () => {
      expect((await without(INT80, NO_SECCOMP))['pid']).toBe(2)
    })
  } else {
    test('S12 not shown here: this machine has no older ABI', () => expect(arch()).toBe('arm64'))
  }

  const ODD = `
tell['ldt'] = call('modify_ldt', 0, None, 0) if 'modify_ldt' in N else 'EPERM'
tell['personality'] = call('personality', 0x0040000)
tell['move_pages'] = call('move_pages', 0, 0, None, None, None, 0)
tell['name_to_handle'] = call('name_to_handle_at', -100, b'/', None, None, 0)
tell['memfd_secret'] = call('memfd_secret', 0)
tell['mempolicy'] = [call('mbind', 0, 0, 0, None, 0, 0), call('get_mempolicy', None, None, 0, None, 0), call('set_mempolicy', 0, None, 0)]`

  test('S15 modify_ldt, personality, move_pages, name_to_handle_at and memfd_secret are refused to a tool', async () => {
    expect(Object.values(await inside(ODD)).flat()).toEqual(Array(8).fill('EPERM'))
  })

  test('S15 without seccomp: a tool chooses the layout of memory and moves pages', async () => {
    const bitten = await without(ODD, NO_SECCOMP)
    expect([bitten['personality'], bitten['move_pages']]).toEqual(['ok', 'ok'])
  })

  test('S16 open_by_handle_at is refused to a tool', async () => {
    expect(await inside("tell['x'] = call('open_by_handle_at', -100, None, 0)")).toEqual({ x: 'EPERM' })
  })

  const NODES = `
import stat
for kind in (stat.S_IFBLK, stat.S_IFCHR, stat.S_IFIFO):
    tell[kind] = attempt(os.mknod, '/workspace/node', kind | 0o600, os.makedev(254, 0))
tell['devtmpfs'] = call('mount', b'none', b'/tmp', b'devtmpfs', 0, None)`

  test('S17 a tool can neither make device nodes nor mount devtmpfs', async () => {
    expect(Object.values(await inside(NODES))).toEqual(Array(4).fill('EPERM'))
  })

  test('S17 without seccomp: a tool makes a FIFO, and the user namespace still refuses devices', async () => {
    expect(Object.values(await without(NODES, NO_SECCOMP)).sort()).toEqual(['EPERM', 'EPERM', 'EPERM', 'ok'])
  })
})

describe('sockets', () => {
  const FAMILIES = `
for family in range(0, 48):
    tell[family] = [call('socket', family, kind, 0) for kind in (1, 2, 3, 5)]`

  test('S13 a sandbox without hosts has no socket family', async () => {
    expect([...new Set(Object.values(await inside(FAMILIES)).flat())]).toEqual(['EAFNOSUPPORT'])
  })

  test('S13 without seccomp: a tool makes sockets that no namespace isolates', async () => {
    const bitten = Object.values(await without(FAMILIES, NO_SECCOMP)) as string[][]
    expect(bitten[1]).toContain('ok') // unix
    expect(bitten[16]).toContain('ok') // netlink
  })

  test('S13 a sandbox with hosts has only the internet families, and only plain TCP and UDP', async () => {
    const plan = planOf(
      attack(`${FAMILIES}\ntell['sctp'] = call('socket', 2, 1, 132)\ntell['icmp'] = call('socket', 2, 2, 1)`),
      {
        egress: { mode: 'strict', hosts: ['example.com'] },
      },
    )
    const { sctp, icmp, ...families } = attackReport(await arena.launch({ plan }))
    expect([sctp, icmp]).toEqual(['EPROTONOSUPPORT', 'EPROTONOSUPPORT'])
    for (const [family, answers] of Object.entries(families)) {
      const inet = ['2', '10'].includes(family)
      expect(answers, family).toEqual(
        inet ? ['ok', 'ok', 'EPROTONOSUPPORT', 'EPROTONOSUPPORT'] : Array(4).fill('EAFNOSUPPORT'),
      )
    }
  })

  const OUT_OF_BAND = `
pair = (ctypes.c_int * 2)()
tell['pair'] = call('socketpair', 1, 1, 0, pair)
a, b = pair
data = ctypes.create_string_buffer(b'x')
tell['send'] = call('sendto', a, data, 1, 1, None, 0)
tell['send, high bits'] = call('sendto', a, data, 1, 0x100000001, None, 0)
tell['receive'] = call('recvfrom', b, data, 1, 1, None, None)
tell['others'] = [call(name, a, None, *args) for name, args in dict(sendmsg=[1], recvmsg=[1], sendmmsg=[0, 1], recvmmsg=[0, 1, None]).items()]
tell['plain'] = [call('sendto', a, data, 1, 0, None, 0), call('recvfrom', b, data, 1, 0, None, None)]`

  test('S14 a tool can’t send out-of-band data', async () => {
    const { pair, plain, ...rest } = await inside(OUT_OF_BAND)
    expect([pair, plain]).toEqual(['ok', ['ok', 'ok']])
    expect(Object.values(rest).flat()).toEqual(Array(7).fill('EPERM'))
  })

  test('S14 without seccomp: a tool sends out-of-band data', async () => {
    expect((await without(OUT_OF_BAND, NO_SECCOMP))['send']).toBe('ok')
  })

  const PAIRS =
    "pair = (ctypes.c_int * 2)()\ntell['kinds'] = [call('socketpair', 1, kind, 0, pair) for kind in (1, 2, 3, 5, 0x80802)]"

  test('S26 a tool can’t make a pair of datagram sockets, which could be connected to a named socket', async () => {
    const NO = 'EPROTONOSUPPORT'
    expect(await inside(PAIRS)).toEqual({ kinds: ['ok', NO, NO, 'ok', NO] })
  })

  test('S26 without seccomp: a tool makes every kind of socket pair', async () => {
    expect(await without(PAIRS, NO_SECCOMP)).toEqual({ kinds: ['ok', 'ok', 'ok', 'ok', 'ok'] })
  })
})
