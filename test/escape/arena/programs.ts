// Parts of attack programs that several tests use, as the Python that arena.ts's `attack` takes.

/**
 * Forks up to `most` times or until refused, reports the result, runs `then`, and ends its
 * children.
 */
export const forks = (most: number, then = ''): string => `
import signal, time
children = []
try:
    while len(children) < ${most}:
        pid = os.fork()
        if pid == 0: signal.pause()
        children.append(pid)
    tell['end'] = 'ok'
except OSError as e: tell['end'] = errno.errorcode[e.errno]
tell['forks'] = len(children)
${then}
for pid in children: os.kill(pid, 9)`

/** Six processes hold 30 MiB each at the same time, and report how they ended. */
export const HOGS = `
import time
children = []
for _ in range(6):
    pid = os.fork()
    if pid == 0:
        held = bytearray(30 << 20)
        for at in range(0, len(held), 4096): held[at] = 1
        time.sleep(1.5)
        os._exit(0)
    children.append(pid)
tell['ends'] = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]`
