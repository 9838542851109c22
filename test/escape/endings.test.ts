// Promise: no process of a call outlives the call (D1). A hostile tool tries to take over process 1 of its sandbox, forks, leaves its
// session, stops its own tree, floods its output and fills its folder; the call then ends in each way that a call can end, in sandboxes
// started cold and prepared in advance, with and without cgroups. `npm run test:endings` runs 200 such calls; this file runs a few dozen.

import { readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { INIT } from '../../worker/sandbox/init.ts'
import { Arena, attack, eventually, planOf, processesWith, THEIR_INIT, unique } from './arena.ts'
import { below, spawnersBelow } from './census.ts'
import type { Swap } from './orders.ts'

const CALLS = Number(process.env['COUNTERSIGN_ENDINGS'] ?? '32')
/** The promise is one second; the machine may be slower while other test files run. */
const GONE_WITHIN_MS = process.env['COUNTERSIGN_ENDINGS'] === undefined ? 4_000 : 1_000
const AT_ONCE = 8

/** Overwrites the code that process 1 returns to: it drops its death signal and sleeps for ever. x86-64 and aarch64. */
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
const DEEDS: Readonly<Record<string, string>> = {
  sleeper: 'time.sleep(60)',
  forker: `
    while True:
        try: os.fork()
        except OSError: time.sleep(0.001)`,
  stopper: `
    time.sleep(0.1)
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
const tool = (word: string, deeds: readonly string[], rest: string): string[] =>
  attack(`
# ${word}
import signal, time
${TAKE_OVER}
print('init ' + take_over(), flush=True)
def apart(deed):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)
            deed()
        os._exit(0)
${deeds.map((deed) => `def ${deed}():\n    ${DEEDS[deed]?.trim() ?? ''}\napart(${deed})`).join('\n')}
time.sleep(0.05)
print('ready', flush=True)
${rest}`)

const SLEEP = 'time.sleep(60)'
const FLOOD = `
while True: os.write(1, b'x' * 65536)`
const FILL = `
n = 0
while True:
    n += 1
    attempt(lambda: open(f'/workspace/{n}', 'wb').write(b'x' * 65536))`

const endings = {
  exit: { rest: 'os._exit(0)', kind: 'exit', busy: true },
  deadline: { rest: SLEEP, kind: 'timeout', limits: { timeout_ms: 400 } },
  output: { rest: FLOOD, kind: 'output_cap', busy: true, limits: { output_bytes: 4096 } },
  cancel: { rest: SLEEP, kind: 'cancelled', cancelOn: 'ready' },
  disk: { rest: FILL, kind: 'workspace_cap', busy: true, limits: { workspace_bytes: 4 * 1024 * 1024 }, workspace: 'run' },
} as const

const names = Object.keys(DEEDS)
/** A changing choice of them. `busy`: the tool's first process still has work, so nothing may stop it. */
const deedsOf = (n: number, busy = false): string[] => names.filter((name, index) => (n + index) % 3 !== 0 && !(busy && name === 'stopper'))

async function gone(word: string, since: number): Promise<number> {
  await eventually(`nothing of ${word} is left`, () => processesWith(word).length === 0, 15_000, 5)
  return performance.now() - since
}

const STRIKES: readonly ((victim: Arena, pid: number) => Promise<void> | void)[] = [
  (victim) => victim.kill(),
  (_victim, pid) => spawnersBelow(pid).forEach(kill),
  (_victim, pid) => below(pid).filter(isBubblewrap).forEach(kill),
]

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It ended with the one before.
  }
}

function isBubblewrap(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/comm`, 'utf8') === 'bwrap\n'
  } catch {
    return false
  }
}

const KINDS = [
  ['cold, with cgroups', {}],
  ['cold, without cgroups', { undelegated: true as const }],
  ['prepared in advance, with cgroups', { prepared: {} }],
  ['prepared in advance, without cgroups', { prepared: {}, undelegated: true as const }],
] as const

describe.each(KINDS)('in a sandbox %s', (_name, options) => {
  let arena: Arena
  beforeAll(async () => {
    arena = await Arena.open(options)
  })
  afterAll(() => arena.close())

  test.each(Object.entries(endings))(
    'S50 D1 a tool that attacks its own init is gone within a second of the ending by %s',
    { timeout: 120_000 },
    async (_ending, { rest, kind, ...how }) => {
      for (let n = 0; n < Math.ceil(CALLS / 32); n++) {
        const word = unique()
        const {
          limits = {},
          cancelOn,
          workspace,
          busy,
        } = { limits: undefined, cancelOn: undefined, workspace: undefined, busy: false, ...how }
        const plan = planOf(tool(word, deedsOf(n, busy), rest), {
          limits: { pids: 48, timeout_ms: 20_000, ...limits },
          ...(workspace === undefined ? {} : { workspace }),
        })
        const folder = workspace === undefined ? undefined : arena.runFolder().there
        let ready = 0
        const order = { plan, ...(cancelOn === undefined ? {} : { cancelOn }), ...(folder === undefined ? {} : { runFolder: folder }) }
        const seen = await arena.launch(order, () => {
          ready ||= performance.now()
        })
        // Its end comes soon after it has said that it is ready, but for the deadline; what a full folder takes isn't known.
        const since = kind === 'timeout' ? ready + plan.limits.timeout_ms : kind === 'workspace_cap' ? performance.now() : ready
        expect(await gone(word, since)).toBeLessThan(GONE_WITHIN_MS)
        expect([seen.outcome.kind, /^init (\w+)/.exec(seen.out)?.[1]]).toEqual([kind, 'EACCES'])
      }
    },
  )

  test('S50 D1 no process of a hostile tool outlives a SIGKILL for its worker, the spawner or bubblewrap', {
    timeout: 900_000,
  }, async () => {
    for (let round = 0; round < STRIKES.length * Math.ceil(CALLS / 96); round++) {
      const victim = await Arena.open(options)
      const { pid } = await victim.facts()
      const words = Array.from({ length: AT_ONCE }, () => unique())
      const calls = words.map((word, n) =>
        victim.launch({ plan: planOf(tool(word, deedsOf(round + n), SLEEP), { limits: { pids: 48, timeout_ms: 60_000 } }) }).then(
          ({ outcome }) => outcome.kind,
          () => 'lost with the worker',
        ),
      )
      await eventually('some of them run', () => words.filter((word) => processesWith(word).length > 1).length > (round * 3) % AT_ONCE)
      await sleep(Math.random() * 20) // others are in the middle of their start
      const struck = performance.now()
      await STRIKES[round % STRIKES.length]?.(victim, pid)
      for (const word of words) expect(await gone(word, struck), `round ${round}`).toBeLessThan(GONE_WITHIN_MS)
      for (const kind of await Promise.all(calls)) expect(['lost with the worker', 'infra', 'cancelled', 'exit', 'signal']).toContain(kind)
      await victim.close()
    }
  })
})

describe('fallbacks behind our init, tested with bubblewrap’s own init', () => {
  test('S50 D1 without our init: a tool takes over bubblewrap’s and outlives it; the next worker ends it and names its folder', async () => {
    const arena = await Arena.open()
    const word = unique()
    const { here, there } = arena.runFolder()
    const plan = planOf(tool(word, ['sleeper'], SLEEP), { workspace: 'run' })
    const seen = await arena.bare({ plan, runFolder: there, swaps: THEIR_INIT, killOn: 'ready' })
    expect(seen.out).toContain('init taken')
    await sleep(200)
    expect(processesWith(word).length).toBeGreaterThan(1)
    expect(await arena.orphans()).toEqual({ found: 1, alive: [], folders: [basename(here)] })
    expect(processesWith(word)).toEqual([])
    expect(await arena.orphans()).toEqual({ found: 0, alive: [], folders: [] })
    await arena.close()
  })

  test('S50 D1 a sandbox that an older version left behind, without our init in it, is ended too', async () => {
    const arena = await Arena.open()
    const word = unique()
    const plan = planOf(tool(word, ['sleeper'], SLEEP))
    const bubblewraps: Swap = [['--as-pid-1', '--perms', '0555', '--ro-bind-data', '12', INIT], []]
    const seen = await arena.bare({ plan, swaps: [bubblewraps, [['--', INIT], ['--']]], killOn: 'ready' })
    expect(seen.out).toContain('init taken')
    await sleep(200)
    expect(processesWith(word).length).toBeGreaterThan(1)
    expect(await arena.orphans()).toMatchObject({ found: 1, alive: [] })
    expect(processesWith(word)).toEqual([])
    await arena.close()
  })

  test('S50 D1 a worker does not treat the sandboxes of another running worker as orphans', async () => {
    const [arena, other] = await Promise.all([Arena.open(), Arena.open()])
    const word = unique()
    const running = arena.launch({ plan: planOf(['sh', '-c', `echo ready; exec sleep 30.${word}`]), cancelOn: 'never' })
    await eventually('it runs', () => processesWith(word).length > 0)
    expect(await other.orphans()).toEqual({ found: 0, alive: [], folders: [] })
    expect(processesWith(word).length).toBeGreaterThan(0)
    await arena.kill()
    await expect(running).rejects.toThrow(/the driver ended/)
    await Promise.all([arena.close(), other.close()])
  })
})
