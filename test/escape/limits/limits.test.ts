// The limits of a call apply to all its processes together, if this host has delegated cgroups to
// the worker. A call that exceeds one is ended with all its processes, and its outcome names the
// limit.
// @project prepared

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parentCgroups } from '../../../infra/delegate-cgroup.ts'
import { processesIn } from '../../../worker/sandbox/limits/cgroup-delegation.ts'
import { eventually } from '../../support/eventually.ts'
import { Arena, attack, attackReport, planOf, processesWith, unique } from '../arena/arena.ts'
import { forks, HOGS } from '../arena/programs.ts'

const MiB = 1024 * 1024
const TIERS = ['B', 'C'] as const

let arena: Arena
/** The same without cgroups: only rlimits. */
let without: Arena
beforeAll(async () => {
  ;[arena, without] = await Promise.all([Arena.open(), Arena.open({ undelegated: true })])
})
afterAll(async () => {
  await Promise.all([arena.close(), without.close()])
})

/** The cgroup folders of an arena: in v1 one for each controller, in v2 one. */
const ofArena = (pid: number): string[] =>
  parentCgroups().flatMap((folder) =>
    readdirSync(folder)
      .filter((name) => name.startsWith(`countersign-${pid}-`))
      .map((name) => join(folder, name)),
  )
const callsIn = (pid: number): string[] =>
  ofArena(pid).flatMap((folder) =>
    readdirSync(folder)
      .filter((name) => name.startsWith('call-'))
      .map((name) => join(folder, name)),
  )
/** Without the folders of running and waiting sandboxes. */
const emptyIn = (pid: number): string[] =>
  callsIn(pid).filter((folder) => existsSync(folder) && processesIn(folder).length === 0)

test('this host delegates cgroups to its worker, which the other tests of limits need', async () => {
  const standing = (await arena.facts()).cgroups
  expect(standing).toMatchObject({
    ok: true,
    checks: [{ detail: expect.stringMatching(/^cgroups v[12]$/) }, {}, { detail: 'ended by memory_cap' }],
  })
  expect(standing.checks[1]?.detail).toMatch(/^14 of 20 started/) // with the program and its first process
  const { cgroups, tiers } = await without.facts()
  expect(cgroups).toMatchObject({
    ok: false,
    checks: [{ detail: expect.stringContaining('no cgroup is delegated') }],
  })
  expect([tiers.B.ok, tiers.C.ok]).toEqual([true, true])
})

test('a plan that requires cgroups runs only on a worker that has them', async () => {
  for (const tier of TIERS) {
    const plan = { ...planOf(['true'], { tier }), cgroup: true as const }
    const ended = { kind: 'exit', code: 0 }
    expect(await arena.launch({ plan }), tier).toMatchObject({ outcome: ended, cgroup: true })
    expect((await without.launch({ plan })).outcome, tier).toMatchObject({
      kind: 'refused',
      code: 'sandbox_unavailable',
    })
    expect(await without.launch({ plan: planOf(['true'], { tier }) }), tier).toMatchObject({
      outcome: ended,
      cgroup: false,
    })
  }
})

describe('memory', () => {
  test('S28 many small processes that together exceed the memory limit are killed with the outcome `memory_cap`', async () => {
    for (const tier of TIERS) {
      const plan = planOf(attack(HOGS), { tier, limits: { memory_bytes: 96 * MiB } })
      expect((await arena.launch({ plan })).outcome, tier).toEqual({ kind: 'memory_cap' })
    }
    expect((await arena.launch({ plan: planOf(['true']) })).outcome).toEqual({ kind: 'exit', code: 0 })
  })

  test('S28 without a cgroup: all processes of a call together have many times the memory of one', async () => {
    for (const tier of TIERS) {
      const seen = await without.launch({
        plan: planOf(attack(HOGS), { tier, limits: { memory_bytes: 96 * MiB } }),
      })
      expect([seen.outcome, attackReport(seen)], tier).toEqual([
        { kind: 'exit', code: 0 },
        { ends: [0, 0, 0, 0, 0, 0] },
      ])
    }
  })

  const FILL = `
try:
    with open('/tmp/full', 'wb') as file:
        for _ in range(60): file.write(b'x' * (1 << 20))
    tell['wrote'] = 60
except OSError as e: tell['wrote'] = errno.errorcode[e.errno]`

  test('S29 files that a tool writes into memory count as memory', async () => {
    const plan = planOf(attack(FILL), { limits: { memory_bytes: 40 * MiB } })
    expect((await arena.launch({ plan })).outcome).toEqual({ kind: 'memory_cap' })
    expect(attackReport(await without.launch({ plan }))).toEqual({ wrote: 60 })
  })

  test('a SIGKILL for another reason does not end a call as `memory_cap`', async () => {
    for (const tier of TIERS) {
      const seen = await arena.launch({ plan: planOf(attack('os.kill(os.getpid(), 9)'), { tier }) })
      expect(seen.outcome, tier).toEqual({ kind: 'signal', signal: 'SIGKILL' })
    }
  })
})

describe('CPU time', () => {
  /** Each process stays below its own limit; all together far exceed it. */
  const SPINS = `
import time
children = []
for _ in range(3):
    pid = os.fork()
    if pid == 0:
        while time.process_time() < 0.3: pass
        os._exit(0)
    children.append(pid)
tell['ends'] = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]`
  const limits = { cpu_ms: 400, timeout_ms: 60_000 }

  test('S38 the CPU time of all processes of a call counts together in a cgroup', async () => {
    for (const tier of TIERS)
      expect((await arena.launch({ plan: planOf(attack(SPINS), { tier, limits }) })).outcome, tier).toEqual({
        kind: 'cpu_cap',
      })
  })

  test('S38 without a cgroup: all processes of a call together have many times the CPU time of one', async () => {
    expect(attackReport(await without.launch({ plan: planOf(attack(SPINS), { limits }) }))).toEqual({
      ends: [0, 0, 0],
    })
  })
})

describe('processes', () => {
  test('S27 tier B limits the processes of each call, not those of the user', async () => {
    const plan = planOf(attack(forks(60)), { tier: 'B', limits: { pids: 16 } })
    expect(attackReport(await arena.launch({ plan }))).toEqual({ end: 'EAGAIN', forks: 15 })
    expect(attackReport(await without.launch({ plan }))).toEqual({ end: 'ok', forks: 60 })
  })

  test('S39 a call of tier B at its limit of processes does not hold up another', async () => {
    const bomb = planOf(attack(forks(60, "print('full', flush=True)\nsignal.pause()")), {
      tier: 'B',
      limits: { pids: 16, timeout_ms: 4_000 },
    })
    const calm = planOf(attack(forks(10)), { tier: 'B', limits: { pids: 16 } })
    let running: Promise<unknown> | undefined
    const full = new Promise<void>((settle) => {
      running = arena.launch({ plan: bomb, cancelOn: 'never' }, (said) => said.includes('full') && settle())
    })
    await full
    expect(attackReport(await arena.launch({ plan: calm }))).toEqual({ end: 'ok', forks: 10 })
    await running
  })
})

describe.concurrent('a workspace on disk', () => {
  const WRITE = (folder: string, mib: number) => `
import time
for n in range(${mib}):
    with open('${folder}/%d' % n, 'wb') as file: file.write(os.urandom(1 << 20))
print('written', flush=True)
time.sleep(20)`
  const FILES = (folder: string, sleep: number) => `
import time
os.makedirs('${folder}/deep/er')
for n in range(500): open('${folder}/deep/er/%d' % n, 'w').close()
print('written', flush=True)
time.sleep(${sleep})`
  const RUN = { workspace: 'run' } as const

  test('S30 a call that writes too many bytes to its workspace is ended with `workspace_cap` while it runs', async () => {
    const limits = { workspace_bytes: 4 * MiB, timeout_ms: 30_000 }
    const inB = await arena.launch({ plan: planOf(attack(WRITE('.', 8)), { tier: 'B', limits }) })
    expect(inB.outcome).toEqual({ kind: 'workspace_cap' })
    const { there } = arena.runFolder()
    const inC = await arena.launch({
      plan: planOf(attack(WRITE('/workspace', 8)), { ...RUN, limits }),
      runFolder: there,
    })
    expect(inC.outcome).toEqual({ kind: 'workspace_cap' })
    expect(inC.ended_at_ms - inC.started_at_ms).toBeLessThan(15_000)
  })

  test('S30 files whose names are not UTF-8 count too', async () => {
    const nameless = `
os.mkdir(b'/workspace/\\xff\\xfe')
for n in range(8):
    with open(b'/workspace/\\xff\\xfe/%d' % n, 'wb') as file: file.write(os.urandom(1 << 20))
print('written')`
    const { there } = arena.runFolder()
    const plan = planOf(attack(nameless), { ...RUN, limits: { workspace_bytes: 4 * MiB } })
    expect((await arena.launch({ plan, runFolder: there })).outcome).toEqual({ kind: 'workspace_cap' })
  })

  test('S30 without a `workspace_bytes` that it can reach: the call writes until its deadline', async () => {
    const limits = { workspace_bytes: 64 * MiB, timeout_ms: 3_000 }
    const seen = await arena.launch({ plan: planOf(attack(WRITE('.', 8)), { tier: 'B', limits }) })
    expect([seen.outcome, seen.out]).toEqual([{ kind: 'timeout' }, 'written\n'])
  })

  /** Writes as many bytes as `WRITE` to unlinked files. */
  const UNNAME = (keep: string, sleep = 20) => `
import time
kept = []
for n in range(8):
    file = open('%d' % n, 'w+b')
    file.write(os.urandom(1 << 20))
    file.flush()
    os.unlink('%d' % n)
    kept.append(${keep})
print('written', flush=True)
time.sleep(${sleep})`
  const SMALL = { workspace_bytes: 4 * MiB, timeout_ms: 30_000 }
  const HIDE = 'libc.prctl(4, 0)\nimport time\ntime.sleep(20)'

  test('S30 unlinked files that are open or mapped count, and a process that hides its descriptors exceeds the limit', async () => {
    const inB = await arena.launch({ plan: planOf(attack(UNNAME('file')), { tier: 'B', limits: SMALL }) })
    expect(inB.outcome).toEqual({ kind: 'workspace_cap' })
    const mapped = '(libc.mmap(None, 1 << 20, 3, 1, file.fileno(), 0), file.close())' // Python's own would keep a descriptor
    const whole = 'libc.mmap(None, 1 << 20, 3, 1, file.fileno(), 0), file.close(), time.sleep(60)'
    const elsewhere = `(libc.mmap(None, 4096, 3, 1, file.fileno(), 0), os.fork() or (${whole}), file.close())` // the map appears before its pages do
    for (const source of [UNNAME('file'), UNNAME(mapped), UNNAME(elsewhere), HIDE]) {
      const { there } = arena.runFolder()
      const seen = await arena.launch({
        plan: planOf(attack(source), { ...RUN, limits: SMALL }),
        runFolder: there,
      })
      expect([seen.outcome, source]).toEqual([{ kind: 'workspace_cap' }, source])
    }
    const { there } = arena.runFolder()
    const fits = planOf(attack(UNNAME('file', 1)), {
      ...RUN,
      limits: { ...SMALL, workspace_bytes: 16 * MiB },
    })
    expect((await arena.launch({ plan: fits, runFolder: there })).outcome).toEqual({ kind: 'exit', code: 0 })
  })

  test('S30 a tool may remove its folder, and files that it has open still count', async () => {
    const leave = 'time.sleep(0.5)\nimport shutil\nshutil.rmtree(os.getcwd())\ntime.sleep(1)'
    const plan = planOf(attack(`import time\n${leave}`), { tier: 'B', limits: SMALL })
    expect((await arena.launch({ plan })).outcome).toEqual({ kind: 'exit', code: 0 })
    const kept = `import time\nfile = open('x', 'wb')\n${leave}\nfor _ in range(8): file.write(os.urandom(1 << 20))\nfile.flush()\ntime.sleep(20)`
    expect(
      (await arena.launch({ plan: planOf(attack(kept), { tier: 'B', limits: SMALL }) })).outcome,
    ).toEqual({ kind: 'workspace_cap' })
  })

  test('S30 more maps than can be scanned, of memory that many processes share, count as over the limit', async () => {
    const { there } = arena.runFolder()
    const source = `
import time
libc.mmap.restype = ctypes.c_void_p
at = libc.mmap(None, ctypes.c_size_t(4096 * 60000), 3, 0x22, -1, ctypes.c_long(0))
for n in range(0, 60000, 2): libc.mprotect(ctypes.c_void_p(at + 4096 * n), ctypes.c_size_t(4096), 1)
stacks = [ctypes.create_string_buffer(65536) for _ in range(100)]
wait = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(lambda _: 0)
for stack in stacks: libc.clone(libc.pause, ctypes.byref(stack, 65000), 0x100 | 17, None)
time.sleep(20)`
    const plan = planOf(attack(source), { ...RUN, limits: { ...SMALL, cpu_ms: 30_000 } })
    expect((await arena.launch({ plan, runFolder: there })).outcome).toEqual({ kind: 'workspace_cap' })
  })

  test('S30 without cgroups: unlinked files do not count', async () => {
    const { there } = without.runFolder()
    const plan = planOf(attack(UNNAME('file')), { ...RUN, limits: { ...SMALL, timeout_ms: 3_000 } })
    expect((await without.launch({ plan, runFolder: there })).outcome).toEqual({ kind: 'timeout' })
  })

  test('S30 a call that makes too many files ends with `workspace_cap`, even if it ends before the first scan', async () => {
    for (const sleep of [20, 0]) {
      const { there } = arena.runFolder()
      const plan = (workspace_inodes: number) =>
        planOf(attack(FILES('/workspace', sleep)), {
          ...RUN,
          limits: { workspace_inodes, timeout_ms: 30_000 },
        })
      expect((await arena.launch({ plan: plan(400), runFolder: there })).outcome, `${sleep}`).toEqual({
        kind: 'workspace_cap',
      })
    }
    const { there } = arena.runFolder()
    const plan = planOf(attack(FILES('/workspace', 0)), { ...RUN, limits: { workspace_inodes: 502 } })
    expect((await arena.launch({ plan, runFolder: there })).outcome).toEqual({ kind: 'exit', code: 0 })
  })

  test('S30 a folder that can’t be counted is over the limit, and the targets of links do not count', async () => {
    const hide = "os.mkdir('hidden')\nopen('hidden/file', 'w').close()\nos.chmod('hidden', 0)"
    expect((await arena.launch({ plan: planOf(attack(hide), { tier: 'B' }) })).outcome).toEqual({
      kind: 'workspace_cap',
    })
    const link = "os.symlink('/usr', 'usr')\nos.symlink('.', 'loop')"
    const limits = { workspace_bytes: MiB, workspace_inodes: 2 }
    expect((await arena.launch({ plan: planOf(attack(link), { tier: 'B', limits }) })).outcome).toEqual({
      kind: 'exit',
      code: 0,
    })
  })

  test('S30 empty files in the in-memory workspace of tier C count as memory', async () => {
    const source = "for n in range(400000): open('/workspace/%d' % n, 'w').close()\ntell['made'] = n"
    const plan = planOf(attack(source), {
      limits: { memory_bytes: 64 * MiB, cpu_ms: 30_000, timeout_ms: 30_000 },
    })
    expect((await arena.launch({ plan })).outcome).toEqual({ kind: 'memory_cap' })
  })
})

describe('the end of a call', () => {
  /** Leaves its session, takes off the mark of tier B, and forks on. */
  const FLED = (word: string) => `
import resource, signal, time
if os.fork() == 0:
    os.setsid()
    resource.setrlimit(15, (1, 1))
    if os.fork() == 0:
        print('ready', flush=True)
        os.execvp('sleep', ['sleep', '60.${word}'])
    os._exit(0)
time.sleep(60)`

  test('S36 a deadline ends all processes of a call at once, in tier B even those that removed their mark', async () => {
    const limits = { timeout_ms: 1_500 }
    const word = unique()
    const seen = await arena.launch({ plan: planOf(attack(FLED(word)), { tier: 'B', limits }) })
    expect([seen.outcome, seen.out.includes('ready'), processesWith(word)]).toEqual([
      { kind: 'timeout' },
      true,
      [],
    ])
    const other = unique()
    await without.launch({ plan: planOf(attack(FLED(other)), { tier: 'B', limits }) })
    const escaped = processesWith(other)
    expect(escaped).toHaveLength(1)
    for (const pid of escaped) process.kill(pid, 'SIGKILL')
    await eventually('it is gone', () => processesWith(other).length === 0)
  })

  test('S33 a grandchild that keeps the output open neither delays the end of its call nor outlives it', async () => {
    const word = unique()
    const seen = await arena.launch({
      plan: planOf(['sh', '-c', `setsid sleep 60.${word} & echo done`], { tier: 'B' }),
    })
    expect([seen.outcome, seen.out, processesWith(word)]).toEqual([{ kind: 'exit', code: 0 }, 'done\n', []])
    expect(seen.ended_at_ms - seen.started_at_ms).toBeLessThan(20_000)
  })

  test('a program that fails at its start, or after its first output, ends its call with all processes', async () => {
    for (const tier of TIERS) {
      for (const [say, out] of [
        ['', ''],
        ['echo up; ', 'up\n'],
      ] as const) {
        const word = unique()
        const seen = await arena.launch({
          plan: planOf(['sh', '-c', `setsid sleep 60.${word} & ${say}exit 3`], { tier }),
        })
        expect([seen.outcome, seen.out, processesWith(word)], tier).toEqual([
          { kind: 'exit', code: 3 },
          out,
          [],
        ])
      }
    }
  })

  test('S37 calls leave no cgroup behind, however they end', async () => {
    const { pid } = await arena.facts()
    const ends = [['true'], ['yes'], ['/nonexistent']].flatMap((argv) =>
      TIERS.map((tier) => arena.launch({ plan: planOf(argv, { tier }) })),
    )
    await Promise.all([
      ...ends,
      arena.launch({ plan: planOf(['sleep', '60'], { limits: { timeout_ms: 100 } }) }),
    ])
    // The last group may still be there: the kernel needs a moment after its last process ends, and
    // the next call removes it.
    const one = parentCgroups().length
    await eventually('no group is without processes', () => emptyIn(pid).length <= one)
    await arena.launch({ plan: planOf(['true']) })
    await eventually('it is still so', () => emptyIn(pid).length <= one)
  })

  test('S35 the next worker removes the cgroups of a killed one', async () => {
    const victim = await Arena.open()
    const { pid } = await victim.facts()
    const word = unique()
    await new Promise<void>((settle) => {
      const plan = planOf(['sh', '-c', `echo ready; sleep 60.${word}`], { limits: { timeout_ms: 60_000 } })
      victim.launch({ plan }, () => settle()).catch(() => undefined)
    })
    expect(callsIn(pid)).not.toEqual([])
    await victim.kill()
    await eventually('its processes are gone', () => processesWith(word).length === 0)
    await victim.close()
    const next = await Arena.open()
    expect(ofArena(pid)).toEqual([])
    await next.close()
  })

  test('a tool can’t see its cgroup, and has no descriptor of it', async () => {
    const source =
      "tell['own'] = open('/proc/self/cgroup').read()\ntell['open'] = sorted(os.listdir('/proc/self/fd'))"
    const seen = attackReport(await arena.launch({ plan: planOf(attack(source)) }))
    expect(seen['own']).not.toMatch(/countersign|call-/)
    expect(seen['open']).toEqual(['0', '1', '2', '3'])
    const inB = attackReport(await arena.launch({ plan: planOf(attack(source), { tier: 'B' }) }))
    expect(inB['open']).toEqual(['0', '1', '2', '3'])
    expect(readFileSync('/proc/self/cgroup', 'utf8')).not.toMatch(/call-/)
  })
})
