// One call can’t use up the resources that the kernel counts by user, although all calls of a
// worker are one user.
// @project prepared

import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Arena, attack, attackReport, planOf } from '../arena/arena.ts'
import type { LaunchSeen } from '../arena/orders.ts'

let arena: Arena
beforeAll(async () => {
  arena = await Arena.open()
})
afterAll(() => arena.close())

const LIMITS = { timeout_ms: 30_000, cpu_ms: 20_000 } as const
/** The attacker waits until the victim has ended. */
const HOLD =
  "\nprint('full', flush=True)\nimport time\nwhile not os.path.exists('/workspace/release'): time.sleep(0.01)\n"
/** A call with hosts, whose network namespace exists before the sandbox. */
const HOSTS = { egress: { mode: 'strict' as const, hosts: ['example.com'] } }
const SHAPES = [
  ['without hosts', {}],
  ['with hosts', HOSTS],
] as const

/** Runs `victim` while `source` holds the resources that it took. */
async function runBeside(
  source: string,
  victim: string,
  changes: object = {},
): Promise<{ attacker: LaunchSeen; victim: LaunchSeen }> {
  let attacker: Promise<LaunchSeen> | undefined
  const { here, there } = arena.runFolder()
  await new Promise<void>((settle, fail) => {
    const plan = planOf(attack(source + HOLD), { ...changes, workspace: 'run', limits: LIMITS })
    attacker = arena.launch({ plan, runFolder: there }, (said) => {
      if (said.includes('full')) settle()
    })
    attacker.then(
      (seen) => fail(new Error(`the attacker ended too soon: ${JSON.stringify(seen.outcome)} ${seen.err}`)),
      fail,
    )
  })
  const seen = await arena.launch({ plan: planOf(attack(victim), { limits: LIMITS }) })
  writeFileSync(join(here, 'release'), '')
  if (attacker === undefined) throw new Error('it was started above')
  return { attacker: await attacker, victim: seen }
}

describe('inotify instances', () => {
  const take = (most: number): string => `
taken = 0
while taken < ${most} and libc.inotify_init1(0) >= 0: taken += 1
tell['taken'] = taken`

  test.each(SHAPES)(
    'S51 D8 a call %s that takes all inotify instances it can get leaves some to another call',
    async (_, changes) => {
      const { attacker, victim } = await runBeside(take(10_000), take(6), changes)
      expect(attackReport(victim)).toEqual({ taken: 6 })
      expect(attackReport(attacker)).toEqual({ taken: 12 })
    },
  )

  test('S51 D8 without the outer user namespace: one call takes every inotify instance of its user', async () => {
    const most = Number(readFileSync('/proc/sys/fs/inotify/max_user_instances', 'utf8'))
    const seen = attackReport(
      await arena.bare({ plan: planOf(attack(take(100_000)), { limits: { open_files: 65_536 } }) }),
    )
    expect(seen['taken']).toBeGreaterThan(12)
    expect(seen['taken']).toBeLessThanOrEqual(most)
  })

  test('S51 D8 a call can watch at most 4,096 files', async () => {
    const source = `
one = libc.inotify_init1(0)
made = [open('/workspace/%d' % n, 'w').close() for n in range(5000)]
tell['watched'] = sum(libc.inotify_add_watch(one, b'/workspace/%d' % n, 2) >= 0 for n in range(5000))`
    expect(attackReport(await arena.launch({ plan: planOf(attack(source), { limits: LIMITS }) }))).toEqual({
      watched: 4_096,
    })
  })
})

describe('pages of pipes', () => {
  const F_SETPIPE_SZ = 1031
  const ENLARGE = `
import fcntl
tell['enlarged'] = attempt(fcntl.fcntl, os.pipe()[0], ${F_SETPIPE_SZ}, 1 << 20)
kept = []
while attempt(lambda: kept.append(os.pipe())) == 'ok': attempt(fcntl.fcntl, kept[-1][0], ${F_SETPIPE_SZ}, 1 << 20)`
  const SIZE = "import fcntl\ntell['size'] = fcntl.fcntl(os.pipe()[0], 1032)"

  test('S51 D8 a process that makes as many pipes as it can leaves pipes of full size to another call', async () => {
    const { attacker, victim } = await runBeside(ENLARGE, SIZE)
    expect(attackReport(attacker)).toEqual({ enlarged: 'EPERM' })
    expect(attackReport(victim)).toEqual({ size: 65_536 })
  })

  test('S51 D8 no call of tier B can enlarge a pipe, even if the high half of the command hides it', async () => {
    const source = `
libc.syscall.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_ulonglong, ctypes.c_long]
end = os.pipe()[0]
tell['plain'] = -1 if libc.syscall(N['fcntl'], end, ${F_SETPIPE_SZ}, 1 << 17) == -1 else 'enlarged'
tell['hidden'] = -1 if libc.syscall(N['fcntl'], end, (7 << 32) | ${F_SETPIPE_SZ}, 1 << 17) == -1 else 'enlarged'`
    for (const tier of ['B', 'C'] as const)
      expect(attackReport(await arena.launch({ plan: planOf(attack(source), { tier }) })), tier).toEqual({
        plain: -1,
        hidden: -1,
      })
  })

  test('S51 D8 without the filter: a call can enlarge a pipe', async () => {
    const source = `import fcntl\ntell['end'] = attempt(fcntl.fcntl, os.pipe()[0], ${F_SETPIPE_SZ}, 1 << 17)`
    expect(
      attackReport(await arena.bare({ plan: planOf(attack(source)), swaps: [[['--seccomp', '4'], []]] })),
    ).toEqual({ end: 'ok' })
  })

  test('D8 known gap: many processes that hold ordinary pipes shrink the pipes of other calls, where the host counts pages', async () => {
    const soft = Number(readFileSync('/proc/sys/fs/pipe-user-pages-soft', 'utf8'))
    const source = `
import signal
kept, ready = [], os.pipe()
for _ in range(40):
    if os.fork() == 0:
        while attempt(lambda: kept.append(os.pipe())) == 'ok': pass
        os.write(ready[1], b'!')
        signal.pause()
for _ in range(40): os.read(ready[0], 1)`
    const { victim } = await runBeside(source, SIZE)
    expect(attackReport(victim)).toEqual({ size: soft === 0 || soft > 100_000 ? 65_536 : 8_192 })
  })
})

describe('descriptors and terminals', () => {
  const SEND = `
import array, socket
def send(count):
    ends = socket.socketpair()
    fds = array.array('i', [ends[0].fileno()] * count)
    kept.append(ends)
    ends[0].sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
kept = []
`

  test('D8 known gap: descriptors in flight between processes of one call keep another call from passing any', async () => {
    const one = `${SEND}tell['sent'] = attempt(send, 1)`
    expect(attackReport(await arena.launch({ plan: planOf(attack(one)) }))).toEqual({ sent: 'ok' })
    const { victim } = await runBeside(`${SEND}while attempt(send, 200) == 'ok': pass`, one)
    expect(attackReport(victim)).toEqual({ sent: 'ETOOMANYREFS' })
  })

  test('D8 known gap: terminals that one call holds are missing for another, where the host has few', async () => {
    const pty = Number(readFileSync('/proc/sys/kernel/pty/max', 'utf8'))
    const source = `
import signal
ready = os.pipe()
terminal = lambda: os.open('/dev/ptmx', os.O_RDWR | os.O_NOCTTY)
for _ in range(20):
    if os.fork() == 0:
        while attempt(terminal) == 'ok': pass
        os.write(ready[1], b'!')
        signal.pause()
for _ in range(20): os.read(ready[0], 1)`
    const { victim } = await runBeside(source, "tell['opened'] = attempt(os.open, '/dev/ptmx', os.O_RDWR)")
    expect(attackReport(victim)).toEqual({ opened: pty > 10_000 ? 'ok' : 'ENOSPC' })
  })
})

describe('pending signals and timers', () => {
  const QUEUE = `
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN])
union = ctypes.c_void_p(0)
queued = 0
while queued < 200000 and libc.sigqueue(os.getpid(), int(signal.SIGRTMIN), union) == 0: queued += 1
tell['queued'] = queued`

  test('S51 D8 a call can queue at most 512 signals, in all its processes together', async () => {
    expect(attackReport(await arena.launch({ plan: planOf(attack(QUEUE), { limits: LIMITS }) }))).toEqual({
      queued: 512,
    })
    const seen = await arena.launch({
      plan: planOf(attack(`os.fork()\n${QUEUE}\nif os.fork(): os.wait()`), { limits: LIMITS }),
    })
    expect(seen.outcome).toEqual({ kind: 'exit', code: 0 })
  })

  test('S51 D8 without a limit of queued signals: a call queues as many as its user may have', async () => {
    const seen = attackReport(
      await arena.bare({
        plan: planOf(attack(QUEUE), { limits: LIMITS }),
        swaps: [[['--sigpending=512'], []]],
      }),
    )
    expect(seen['queued']).toBeGreaterThan(512)
  })
})
