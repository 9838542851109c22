// A call in a warm sandbox has the same defences, limits, environment, descriptors and endings as a
// call in a cold one. No warm sandbox is used twice, outlives the worker or runs anything without
// it.

import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { eventually } from '../../support/eventually.ts'
import { Arena, attack, attackReport, planOf } from '../arena/arena.ts'
import { census, descendantsOf, gatesBelow, parentOf } from '../arena/census.ts'
import type { LaunchOrder } from '../arena/orders.ts'

let cold: Arena
let prepared: Arena
beforeAll(async () => {
  cold = await Arena.open({ probe: true })
  prepared = await Arena.open({ probe: true, prepared: {} })
})
afterAll(async () => {
  await cold.close()
  await prepared.close()
})

/** The outcome and output of a call, started warm and cold. */
async function bothWays(order: LaunchOrder) {
  const [one, other] = [await cold.launch(order), await prepared.launch(order)]
  expect([one.fromStock, other.fromStock]).toEqual([false, true])
  return [one, other].map(({ outcome, out, err, profile_sha256, enforcement, executor }) => ({
    outcome,
    out,
    err,
    profile_sha256,
    enforcement,
    executor,
  }))
}

/**
 * Everything that the kernel shows a process about itself, except numbers that differ by sandbox.
 */
const EVERYTHING = `
import re
def read(path): return open('/proc/' + path, errors='replace').read()
for who in ('self', '1'):
    lines = [line for line in read(who + '/status').splitlines() if not line.startswith(('Vm', 'Rss', 'Hugetlb', 'volun', 'nonvol', 'Pid', 'Tgid', 'Ngid', 'NSpid', 'NStgid', 'NSpgid', 'NSsid', 'PPid'))]
    tell[who + ' status'] = [line for line in lines if who == 'self' or not line.startswith(('Cpus', 'Mems'))]
    try: tell[who + ' environ'] = sorted(read(who + '/environ').split('\\0'))
    except OSError as e: tell[who + ' environ'] = e.errno
    tell[who + ' limits'] = read('self/limits')
for file in ('self/cmdline', 'self/cgroup', 'self/oom_score_adj', 'self/coredump_filter', 'self/uid_map', 'self/setgroups', 'self/loginuid'):
    try: tell[file] = read(file)
    except OSError as e: tell[file] = e.errno
tell['mounts'] = [re.sub(r'^\\S+ \\S+ \\S+ |(?<=/bindfile)\\w+', '', line) for line in read('self/mountinfo').splitlines()]
tell['open'] = {n: [re.sub(r'[0-9].*', '', os.readlink('/proc/self/fd/' + n)), read('self/fdinfo/' + n).splitlines()[:2]] for n in sorted(os.listdir('/proc/self/fd')) if attempt(os.fstat, int(n)) == 'ok'}
tell['processes'] = sorted(name for name in os.listdir('/proc') if name.isdigit())
tell['ids'] = [os.getpid(), os.getppid(), os.getsid(0), os.getpgid(0), os.getuid(), os.getgid(), os.getgroups(), os.getcwd(), os.umask(0)]
tell['files'] = [sorted(os.listdir(path)) for path in ('/', '/tmp', '/workspace', '/dev', '/etc')]
tell['hostname'] = os.uname().nodename
tell['priority'] = [os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0)]
`

describe('warm or cold', () => {
  test('S21, S22, S23, S24, S29, S33 a tool sees the same in a warm sandbox as in a cold one', async () => {
    const plan = planOf(attack(EVERYTHING), {
      env: { GREETING: 'hello\nworld=1', PATH: '/usr/bin', PWD: '/elsewhere', PERL5OPT: '-Mnothing' },
    })
    const [one, other] = await bothWays({ plan })
    if (one === undefined || other === undefined) throw new Error('two were asked for')
    expect(attackReport(other)).toEqual(attackReport(one))
    expect(attackReport(one)['ids']).toEqual([2, 1, 1, 1, 65534, 65534, [], '/workspace', 0o22])
  })
  test.each<[string, LaunchOrder]>([
    ['an exit code', { plan: planOf(['sh', '-c', 'echo out; echo err >&2; exit 7']) }],
    ['a signal', { plan: planOf(['sh', '-c', 'kill -SEGV $$']) }],
    [
      'unchanged arguments',
      { plan: planOf(['printf', '%s|', '', ' ', '$(id)', '-e', '--', 'a\nb', '`x`', '*', 'ü\u{1f600}']) },
    ],
    [
      'standard input',
      { plan: planOf(['sh', '-c', 'cat /dev/stdin; wc -c']), stdin: `\0${'x'.repeat(200_000)}` },
    ],
    ['an empty standard input', { plan: planOf(['wc', '-c']), stdin: '' }],
    ['no standard input', { plan: planOf(['sh', '-c', 'readlink /proc/self/fd/0; wc -c']) }],
    ['a working folder', { plan: planOf(['pwd'], { cwd: 'a/b' }) }],
    ['a deadline', { plan: planOf(['sleep', '60'], { limits: { timeout_ms: 300 } }) }],
    ['long arguments', { plan: planOf(['sh', '-c', 'printf %s "$1" | wc -c', 'x', 'y'.repeat(120_000)]) }],
  ])('S46, S47, S49 a call ends in a warm sandbox as in a cold one: %s', async (_, order) => {
    const [one, other] = await bothWays(order)
    expect(other).toEqual(one)
  })

  test('S49 a program that is missing or not executable ends with 127 or 126 in a warm sandbox', async () => {
    for (const [program, code] of [
      ['nothing-of-this-name', 127],
      ['/etc', 126],
    ] as const) {
      const ended = await bothWays({ plan: planOf([program]) })
      expect(ended.map(({ outcome }) => outcome)).toEqual([1, 2].map(() => ({ kind: 'exit', code })))
      for (const { err } of ended) expect(err).toContain(`failed to execute ${program}`)
    }
  })

  test('a warm sandbox applies the limits of its call', async () => {
    const limits = {
      cpu_ms: 3_000,
      memory_bytes: 100 * 1024 * 1024,
      pids: 7,
      open_files: 33,
      file_bytes: 12_288,
      workspace_bytes: 1024 * 1024,
    }
    const [one, other] = await bothWays({
      plan: planOf(['sh', '-c', 'cat /proc/self/limits; df -k /workspace'], { limits }),
    })
    expect(other).toEqual(one)
    expect(one?.out).toMatch(/Max open files +33 +33/)
    expect(one?.out).toMatch(/Max processes +8 +8/)
  })
})

describe('waiting sandboxes', () => {
  test('a warm sandbox is used once, so nothing of a call is left for the next', async () => {
    const seen = new Set<string>()
    for (let i = 0; i < 20; i++) {
      const source = `
tell['left'] = sorted(os.listdir('/tmp') + os.listdir('/workspace') + os.listdir('/dev/shm'))
tell['own'] = [os.readlink('/proc/self/ns/' + name) for name in ('mnt', 'pid', 'net', 'ipc', 'uts', 'user')]
tell['own'].append(open('/proc/1/stat').read().split()[21]) # when it began: the kernel gives a namespace's number again
for path in ('/tmp/x', '/workspace/x', '/dev/shm/x'): open(path, 'w').write('of another call')`
      const { fromStock, ...ran } = await prepared.launch({ plan: planOf(attack(source)) })
      const { left, own } = attackReport(ran)
      expect([fromStock, left]).toEqual([true, []])
      seen.add(JSON.stringify(own))
    }
    expect(seen.size).toBe(20)
  })

  test('L8 warm sandboxes are proven by the canaries of tier C, each in its own sandbox', async () => {
    const facts = await prepared.facts()
    expect(facts.prepared.checks.filter(({ ok }) => !ok)).toEqual([])
    expect(facts.prepared.checks.map(({ name }) => name)).toEqual(
      facts.tiers.C.checks.map(({ name }) => name),
    )
    expect((await cold.facts()).prepared).toMatchObject({ ok: false, lack: 'disabled' })
  })

  test('L1 warm sandboxes end with their worker and run nothing', async () => {
    const arena = await Arena.open({ prepared: {} })
    const { pid } = await arena.facts()
    await arena.launch({ plan: planOf(['true']) })
    await eventually('one waits', () => gatesBelow(pid).length > 0)
    const all = descendantsOf(pid)
    expect(all.length).toBeGreaterThanOrEqual(3) // bubblewrap, its init, the gate
    await arena.kill()
    await eventually('all are gone', () => all.every((one) => parentOf(`${one}`) === 0))
    await arena.close()
  })

  test('unused warm sandboxes end and leave no descriptor', async () => {
    const arena = await Arena.open({ probe: true, prepared: { stale_ms: 400 } }) // the probe opens what a driver keeps
    const { pid } = await arena.facts()
    const open = (): number => census(pid, join(arena.home, 'worker')).descriptors
    const before = open()
    for (let i = 0; i < 3; i++)
      expect((await arena.launch({ plan: planOf(['cat']), stdin: 'x' })).fromStock).toBe(true)
    await eventually(
      'no gate waits, and what was opened is closed',
      () => gatesBelow(pid).length === 0 && open() === before,
    )
    await arena.close()
  })

  test('the shapes of warm sandboxes are limited, and the current ones replace old ones', async () => {
    const arena = await Arena.open({ prepared: { stale_ms: 600_000 } })
    for (let i = 0; i < 18; i++)
      expect((await arena.launch({ plan: planOf(['true'], { cwd: `other${i}` }) })).fromStock).toBe(true)
    expect((await arena.launch({ plan: planOf(['true']) })).fromStock).toBe(true)
    await arena.close()
  })

  test('a call that needs a sandbox other than the warm ones is started cold', async () => {
    const { there } = prepared.runFolder()
    const cases: LaunchOrder[] = [
      { plan: planOf(['true'], { tier: 'B' }) },
      { plan: planOf(['true'], { workspace: 'run' }), runFolder: there },
      { plan: planOf(['true'], { egress: { mode: 'strict', hosts: ['example.com:443'] } }) },
    ]
    for (const order of cases)
      expect(await prepared.launch(order)).toMatchObject({
        fromStock: false,
        outcome: { kind: 'exit', code: 0 },
      })
  })
})
