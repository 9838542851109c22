// A tool sees only itself, and nothing of it is left when its call is over, however it tried.
// @project prepared

import { mkdirSync, openSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { removeLeftOvers } from '../../../worker/host/owned-folders.ts'
import { eventually } from '../../support/eventually.ts'
import { Arena, attack, attackReport, planOf, processesWith, THEIR_INIT, unique } from '../arena/arena.ts'
import type { LaunchSeen, Swap } from '../arena/orders.ts'
import { forks } from '../arena/programs.ts'

const SECRET = 'canary-of-the-worker'

let arena: Arena
beforeAll(async () => {
  arena = await Arena.open({ env: { CANARY: SECRET } })
})
afterAll(() => arena.close())

const waitUntilGone = (word: string): Promise<true> =>
  eventually(`no process with ${word}`, () => processesWith(word).length === 0)
/** The test ends the processes that were to survive. */
async function end(word: string): Promise<void> {
  for (const pid of processesWith(word)) {
    try {
      process.kill(pid, 'SIGKILL')
    } catch {
      // It ended with the one before.
    }
  }
  await waitUntilGone(word)
}

const SHARED_PIDS: Swap = [
  ['--unshare-all'],
  ['--unshare-ipc', '--unshare-net', '--unshare-uts', '--unshare-cgroup'],
]
const ALONE: Swap = [['--die-with-parent'], []]

describe('a tool’s view of the host', () => {
  const OPEN =
    "tell['open'] = [n for n in sorted(map(int, os.listdir('/proc/self/fd'))) if attempt(os.fstat, n) == 'ok']"
  const leak = () => ({ fd: openSync('/dev/null', 'r'), as: 251 })

  test('S21 a tool has no descriptors but the standard three', async () => {
    const started = await Arena.open({ leak: leak() })
    for (const tier of ['B', 'C'] as const) {
      expect(
        attackReport(await started.launch({ plan: planOf(attack(OPEN), { tier }) }))['open'],
        tier,
      ).toEqual([0, 1, 2])
    }
    expect((await started.facts()).tiers.C.ok).toBe(true)
    await started.close()
  })

  test('S21 without closing inherited descriptors: one leaks to the tool, and the worker’s own probe refuses the tier', async () => {
    const started = await Arena.open({ leak: leak(), keepDescriptors: true })
    expect(attackReport(await started.bare({ plan: planOf(attack(OPEN)) }))['open']).toEqual([0, 1, 2, 251])
    expect((await started.facts()).tiers.C.ok).toBe(false)
    await started.close()
  })

  const ENVIRONMENTS = `
import glob
for path in glob.glob('/proc/*/environ'):
    try: tell[path] = open(path).read()
    except OSError: pass`

  test('S22 a tool can’t read the environment of the worker or of bubblewrap', async () => {
    const seen = await arena.launch({ plan: planOf(attack(ENVIRONMENTS)) })
    expect(JSON.stringify(attackReport(seen))).not.toContain(SECRET)
    expect(attackReport(seen)['/proc/1/environ']).toBe(undefined) // our init shows it to root alone
    const b = await arena.launch({ plan: planOf(['env'], { tier: 'B' }) })
    expect(
      b.out
        .split('\n')
        .map((line) => line.split('=')[0])
        .sort()
        .join(' ')
        .trim(),
    ).toBe('HOME LANG PATH TMPDIR')
  })

  test('S22 without our init and an empty environment of bubblewrap: a tool reads that environment, which `--clearenv` does not hide', async () => {
    const seen = await arena.bare({
      plan: planOf(attack(ENVIRONMENTS)),
      env: { CANARY: SECRET },
      swaps: THEIR_INIT,
    })
    expect(attackReport(seen)['/proc/1/environ']).toContain(SECRET)
  })

  const LINES = "import glob\ntell['lines'] = [open(path).read() for path in glob.glob('/proc/*/cmdline')]"

  test('S23 a tool finds no path of the host in a command line', async () => {
    const { there } = arena.runFolder()
    const plan = planOf(attack(LINES), { workspace: 'run' })
    expect(JSON.stringify(attackReport(await arena.launch({ plan, runFolder: there })))).not.toContain(there)
  })

  test('S23 without our init and `--args`: a tool reads the host’s folder from the command line', async () => {
    const { there } = arena.runFolder()
    const plan = planOf(attack(LINES), { workspace: 'run' })
    expect(
      JSON.stringify(
        attackReport(await arena.bare({ plan, runFolder: there, inline: true, swaps: THEIR_INIT })),
      ),
    ).toContain(there)
  })

  const OTHERS = (pid: number) => `
import signal
tell['seen'] = len([name for name in os.listdir('/proc') if name.isdigit()])
tell['worker'] = attempt(os.kill, ${pid}, 0)`

  test('S24 a tool can neither see nor signal processes of the host', async () => {
    const { pid } = await arena.facts()
    const plan = planOf(attack(OTHERS(pid)))
    expect(attackReport(await arena.launch({ plan }))).toEqual({ seen: 2, worker: 'ESRCH' })
    // It may signal only processes of its own namespace: init ignores the signal, and the worker
    // lives.
    const { outcome } = await arena.launch({ plan: planOf(['kill', '-9', '-1']) })
    expect(outcome).toEqual({ kind: 'exit', code: 0 })
    expect((await arena.facts()).pid).toBe(pid)
  })

  test('S24 without a PID namespace: a tool sees the host’s processes, and may signal the worker', async () => {
    const { pid } = await arena.facts()
    const bitten = attackReport(
      await arena.bare({ plan: planOf(attack(OTHERS(pid))), swaps: [SHARED_PIDS, ...THEIR_INIT] }),
    )
    expect(bitten['seen']).toBeGreaterThan(5)
    expect(bitten['worker']).not.toBe('ESRCH')
  })
})

describe('limits of a tool', () => {
  test('S27 a fork bomb is stopped at its limit', async () => {
    const plan = planOf(attack(forks(60)), { limits: { pids: 16 } })
    expect(attackReport(await arena.launch({ plan }))).toEqual({ end: 'EAGAIN', forks: 15 })
  })

  test('S39 a call at its limit of processes does not hold up another', async () => {
    const bomb = planOf(attack(forks(100, "print('full', flush=True)\ntime.sleep(1)")), {
      limits: { pids: 16 },
    })
    let fork: Promise<unknown> | undefined
    const meanwhile = new Promise<void>((settle) => {
      fork = arena.launch({ plan: bomb }, () => settle())
    })
    await meanwhile
    const calm = planOf(attack(forks(10)), { limits: { pids: 16 } })
    expect(attackReport(await arena.launch({ plan: calm }))).toEqual({ end: 'ok', forks: 10 })
    await fork
  })

  test('S38 a busy loop that ignores signals ends at its limit of CPU time, and many of them end at the deadline', async () => {
    const spin = 'while True: pass'
    const stubborn = `import signal; signal.signal(signal.SIGXCPU, signal.SIG_IGN)\n${spin}`
    for (const source of [spin, stubborn]) {
      const { outcome } = await arena.launch({
        plan: planOf(['python3', '-c', source], { limits: { cpu_ms: 500 } }),
      })
      expect(outcome).toEqual({ kind: 'cpu_cap' })
    }
    const many = planOf(attack(`for _ in range(6): os.fork()\n${spin}`), {
      limits: { timeout_ms: 700, cpu_ms: 60_000 },
    })
    const seen = await arena.launch({ plan: many })
    expect(seen.outcome).toEqual({ kind: 'timeout' })
    expect(seen.ended_at_ms - seen.started_at_ms).toBeLessThan(20_000)
  })

  test('S28 the memory of one process ends at its limit', async () => {
    const source = `
try: bytearray(400 << 20); tell['got'] = True
except MemoryError: tell['got'] = False`
    for (const tier of ['B', 'C'] as const) {
      const plan = (memory_bytes: number) => planOf(attack(source), { tier, limits: { memory_bytes } })
      expect(attackReport(await arena.launch({ plan: plan(256 << 20) })), tier).toEqual({ got: false })
      expect(attackReport(await arena.launch({ plan: plan(600 << 20) })), tier).toEqual({ got: true })
    }
  })
})

/**
 * Leaves the session and the process group, forks twice, ignores signals, and keeps its output
 * open.
 */
const DAEMON = (word: string, seconds: number) => `
import signal, time
begun, begins = os.pipe()
if os.fork() == 0:
    os.setsid()
    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}: signal.signal(number, signal.SIG_IGN)
    if os.fork() == 0:
        print('ready', flush=True)
        os.write(begins, b'x')
        os.execvp('sleep', ['sleep', '${seconds}.${word}'])
    os._exit(0)
os.close(begins)
os.read(begun, 1)`

describe('after the end of a call', () => {
  test('S33 a daemon in its own session that ignores signals ends with its call, and does not delay it', async () => {
    for (const tier of ['B', 'C'] as const) {
      const word = unique()
      const started = performance.now()
      const { outcome, out } = await arena.launch({ plan: planOf(attack(DAEMON(word, 60)), { tier }) })
      expect(processesWith(word), tier).toEqual([])
      expect([outcome, out.includes('ready')]).toEqual([{ kind: 'exit', code: 0 }, true])
      // It kept standard output open, and the worker did not wait for that.
      expect(performance.now() - started).toBeLessThan(20_000)
    }
  })

  test('S33 without a PID namespace and `--die-with-parent`: a daemon outlives its call', async () => {
    const word = unique()
    await arena.bare({ plan: planOf(attack(DAEMON(word, 60))), swaps: [SHARED_PIDS, ALONE, ...THEIR_INIT] })
    expect(processesWith(word)).toHaveLength(1)
    await end(word)
  })

  test('S33 a daemon of tier B that hides from /proc is found and ended', async () => {
    const word = unique()
    const hidden = DAEMON(word, 60)
      .replace("print('ready'", "libc.prctl(4, 0, 0, 0, 0)\n        print('ready'")
      .replace(
        /os\.execvp.*$/m,
        `
        while len('${word}'): time.sleep(1)`,
      )
    const { outcome } = await arena.launch({ plan: planOf(attack(hidden), { tier: 'B' }) })
    expect([outcome, processesWith(word)]).toEqual([{ kind: 'exit', code: 0 }, []])
  })

  const TWO = (word: string, seconds: number) => [
    'sh',
    '-c',
    `sleep ${seconds}.${word} & echo ready; sleep ${seconds}.${word}`,
  ]

  test('S34 no process of a sandbox survives if only the outer one is killed', async () => {
    const word = unique()
    const seen = await arena.bare({ plan: planOf(TWO(word, 60)), killOn: 'ready' })
    expect(seen.signal).toBe('SIGKILL')
    await waitUntilGone(word)
  })

  test('S34 without `--die-with-parent`: processes in the sandbox survive', async () => {
    const word = unique()
    await arena.bare({ plan: planOf(TWO(word, 60)), killOn: 'ready', swaps: [ALONE] })
    expect(processesWith(word).length).toBeGreaterThan(1)
    await end(word)
  })

  test('S35 a sandbox and the first process of a tier B call end with their worker', async () => {
    const victim = await Arena.open()
    const words = { B: unique(), C: unique() }
    const ready = (['B', 'C'] as const).map((tier) => {
      const argv =
        tier === 'C'
          ? TWO(words.C, 60)
          : ['python3', '-c', `print('ready', flush=True); import time; time.sleep(60) # ${words.B}`]
      return new Promise<void>((settle) => {
        victim
          .launch({ plan: planOf(argv, { tier, limits: { timeout_ms: 60_000 } }) }, () => settle())
          .catch(() => undefined)
      })
    })
    await Promise.all(ready)
    expect([processesWith(words.B).length, processesWith(words.C).length > 1]).toEqual([1, true])
    await victim.kill()
    await waitUntilGone(words.B)
    await waitUntilGone(words.C)
    await victim.close()
  })

  test('S35 without our init and `--die-with-parent`: the sandbox outlives the worker', async () => {
    const victim = await Arena.open()
    const word = unique()
    victim.bare({ plan: planOf(TWO(word, 60)), swaps: [ALONE, ...THEIR_INIT] }).catch(() => undefined) // its worker is about to be killed
    await eventually('the sandbox runs', () => processesWith(word).length > 1)
    await victim.kill()
    expect(processesWith(word).length).toBeGreaterThan(1)
    await end(word)
    await victim.close()
  })

  test('a worker removes processes and folders of a killed worker, and none of a running one', async () => {
    const word = unique()
    let running: Promise<LaunchSeen> | undefined
    const ready = new Promise<void>((settle) => {
      running = arena.launch({ plan: planOf(TWO(word, 60), { tier: 'B' }) }, () => settle())
    })
    await ready
    const root = join(arena.home, 'worker')
    const [own] = readdirSync(root).filter((name) => name.startsWith('call-'))
    expect(own).toBeDefined()
    mkdirSync(join(root, 'call-4194305-killed', 'deep'), { recursive: true }) // no process has that number
    await removeLeftOvers(root)
    expect(readdirSync(root).filter((name) => name.startsWith('call-'))).toEqual([own])
    for (const pid of processesWith(word)) process.kill(pid, 'SIGKILL')
    await running
    expect(readdirSync(root).filter((name) => name.startsWith('call-'))).toEqual([])
  })

  test('S36 a deadline ends a tool that ignores SIGTERM, with all processes that it started', async () => {
    for (const tier of ['B', 'C'] as const) {
      const word = unique()
      const deaf = `${DAEMON(word, 60)}\nfor number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}: signal.signal(number, signal.SIG_IGN)\ntime.sleep(60)`
      const seen = await arena.launch({ plan: planOf(attack(deaf), { tier, limits: { timeout_ms: 600 } }) })
      expect(seen.outcome, tier).toEqual({ kind: 'timeout' })
      expect(seen.ended_at_ms - seen.started_at_ms).toBeLessThan(20_000)
      expect(processesWith(word), tier).toEqual([])
    }
  })

  test('a cancelled call ends at once, with all processes that it started', async () => {
    for (const tier of ['B', 'C'] as const) {
      const word = unique()
      const seen = await arena.launch({ plan: planOf(TWO(word, 60), { tier }), cancelOn: 'ready' })
      expect(seen.outcome, tier).toEqual({ kind: 'cancelled' })
      expect(seen.ended_at_ms - seen.started_at_ms).toBeLessThan(20_000)
      expect(processesWith(word), tier).toEqual([])
    }
  })

  /** The command lines of all processes of a storm contain its word. */
  const STORMS: Readonly<Record<string, string>> = {
    zombies:
      'for _ in range(500):\n  try:\n    if os.fork() == 0: os._exit(0)\n  except OSError: pass\nwhile True: pass',
    forks: 'while True:\n  try: os.fork()\n  except OSError: pass',
    execs:
      "os.environ['N'] = '1'\nos.fork(); os.fork()\nos.execvp('sh', ['sh', '-c', 'exec sh -c \"$0\" \"$0\"', 'exec sh -c \"$0\" \"$0\" # WORD'])",
    threads:
      'import threading\ndef spin():\n  while True: pass\nfor _ in range(400):\n  try: threading.Thread(target=spin).start()\n  except RuntimeError: pass',
    'random system calls':
      'import random\nfor n in range(100000):\n  k = random.randrange(0, 600)\n  if k not in (57, 58, 220, 435): number(k, -1, -1, -1, -1, -1, -1)',
  }

  test.each(Object.entries(STORMS))('S37 a storm of %s leaves no process', async (_name, source) => {
    for (const tier of ['B', 'C'] as const) {
      const word = unique()
      const limits = { timeout_ms: 400, pids: 32 }
      const seen = await arena.launch({
        plan: planOf(attack(`# ${word}\n${source.replace('WORD', word)}`), { tier, limits }),
      })
      expect(['timeout', 'exit', 'signal'], tier).toContain(seen.outcome.kind)
      expect(processesWith(word), tier).toEqual([])
    }
    expect((await arena.launch({ plan: planOf(['true']) })).outcome).toEqual({ kind: 'exit', code: 0 })
  })
})
