// The outcome says who ended a call. A tool’s ending is the tool’s, a failure of the sandbox is the
// sandbox’s, and a sandbox that is unavailable is a refusal, never a weaker sandbox (L8).

import { spawnSync } from 'node:child_process'
import { chmodSync, copyFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Argv } from '../../../shared/plan/plan.ts'
import { findHost } from '../../../worker/sandbox/plan/host-programs.ts'
import { endedItself, outcomeOf } from '../../../worker/sandbox/plan/verdict.ts'
import { weakened } from '../../support/weakened.ts'
import { withoutOurInit } from '../../support/worker/bare-command.ts'
import { Arena, attack, attackReport, planOf } from '../arena/arena.ts'
import type { Swap } from '../arena/orders.ts'

let arena: Arena
beforeAll(async () => {
  arena = await Arena.open()
})
afterAll(() => arena.close())

const TIERS = ['B', 'C'] as const

describe('the tool’s ending', () => {
  test('S49 an exit code is the tool’s, even one that bubblewrap itself uses', async () => {
    for (const tier of TIERS) {
      for (const code of [0, 1, 2, 125, 126, 127, 128, 200, 255]) {
        const { outcome } = await arena.launch({ plan: planOf(['sh', '-c', `exit ${code}`], { tier }) })
        expect(outcome, tier).toEqual({ kind: 'exit', code })
      }
      for (const signal of ['SIGKILL', 'SIGSEGV', 'SIGTERM', 'SIGABRT']) {
        const { outcome } = await arena.launch({
          plan: planOf(['sh', '-c', `kill -${signal.slice(3)} $$`], { tier }),
        })
        expect(outcome, tier).toEqual({ kind: 'signal', signal })
      }
    }
  })

  test('S49 a failure of the sandbox is not reported as the tool’s', async () => {
    const plan = planOf(['true'], { workspace: 'run' })
    const { outcome } = await arena.launch({ plan, runFolder: '/nonexistent' })
    expect(outcome).toMatchObject({
      kind: 'infra',
      detail: expect.stringContaining("Can't find source path /nonexistent"),
    })
    // The tool ends with the same exit code, and even prints the same text.
    const liar = planOf(['sh', '-c', 'echo "bwrap: Can\'t find source path" >&2; exit 1'])
    expect((await arena.launch({ plan: liar })).outcome).toEqual({ kind: 'exit', code: 1 })
  })

  test('S49 without `--json-status-fd`: a failure of the sandbox and one of the tool look the same', async () => {
    const unsaid: Swap = [['--json-status-fd', '5'], []]
    const [ours, theirs] = [
      await arena.bare({
        plan: planOf(['true'], { workspace: 'run' }),
        runFolder: '/nonexistent',
        swaps: [unsaid],
      }),
      await arena.bare({ plan: planOf(['sh', '-c', 'exit 1']), swaps: [unsaid] }),
    ]
    expect([ours.code, ours.status, theirs.code, theirs.status]).toEqual([1, '', 1, ''])
  })

  test('S49 a tool can’t write the status from which its outcome is read', async () => {
    const source = `
for fd in range(3, 64):
    try: os.write(fd, b'{ "exit-code": 0 }')
    except OSError: pass
os._exit(3)`
    expect((await arena.launch({ plan: planOf(attack(source)) })).outcome).toEqual({ kind: 'exit', code: 3 })
  })

  test('a program that is missing or not executable ends with 127 or 126, and stderr names it', async () => {
    for (const tier of TIERS) {
      const absent = await arena.launch({ plan: planOf(['no-such-tool'], { tier }) })
      expect(absent.outcome, tier).toEqual({ kind: 'exit', code: 127 })
      expect(absent.err).toContain('no-such-tool')
      const folder = await arena.launch({ plan: planOf(['/usr'], { tier }) })
      expect(folder.outcome, tier).toEqual({ kind: 'exit', code: 126 })
    }
  })
})

describe('failures and refusals', () => {
  const ending = {
    spawnError: undefined,
    code: undefined,
    signal: undefined,
    stop: undefined,
    outOfMemory: false,
    survivors: false,
    status: undefined,
    complaint: '',
  }
  const failed = (complaint: string) =>
    outcomeOf({ ...ending, code: 1, status: { child: 7, code: undefined }, complaint })

  test('a temporary shortage on the host is an infrastructure failure, and a missing program is a refusal', () => {
    for (const spawnError of ['EAGAIN', 'ENOMEM', 'EMFILE'])
      expect(outcomeOf({ ...ending, spawnError }).kind).toBe('infra')
    for (const spawnError of ['ENOENT', 'EACCES'])
      expect(outcomeOf({ ...ending, spawnError })).toMatchObject({ code: 'sandbox_unavailable' })
    expect(outcomeOf({ ...ending, spawnError: 'E2BIG' })).toMatchObject({
      kind: 'refused',
      code: 'invalid_input',
    })
    expect(failed("bwrap: Can't fork for pid 1: Resource temporarily unavailable\n").kind).toBe('infra')
    expect(failed('bwrap: Creating new namespace failed: No space left on device\n')).toMatchObject({
      code: 'sandbox_unavailable',
    })
    expect(failed('bwrap: No permissions to create new namespace, likely because …\n')).toMatchObject({
      code: 'sandbox_unavailable',
    })
    expect(failed("bwrap: Can't chdir to /workspace/x: No such file or directory\n")).toMatchObject({
      code: 'workspace_scope_denied',
    })
  })

  test('a process that outlives its call is reported, whatever else happened', () => {
    expect(outcomeOf({ ...ending, code: 0, survivors: true }).kind).toBe('infra')
    expect(outcomeOf({ ...ending, stop: 'timeout', survivors: true }).kind).toBe('infra')
  })

  test('a sandbox that was killed by someone else is an infrastructure failure, not the tool’s', () => {
    const killed = { ...ending, signal: 'SIGKILL', status: { child: 7, code: undefined } }
    expect(outcomeOf(killed).kind).toBe('infra')
    expect(outcomeOf({ ...killed, stop: 'cancelled' })).toEqual({ kind: 'cancelled' })
  })

  test('a tool that ended before the deadline is not reported as ended by us, however late its end is noticed', () => {
    const inC = (code: number | undefined) => ({
      code: undefined,
      signal: undefined,
      status: { child: 7, code },
    })
    const inB = { code: undefined, signal: undefined, status: undefined }
    for (const own of [inC(0), inC(137), { ...inB, code: 0 }, { ...inB, signal: 'SIGSEGV' }])
      expect(endedItself(own)).toBe(true)
    for (const ours of [
      { ...inC(undefined), signal: 'SIGKILL' },
      { ...inB, signal: 'SIGKILL' },
    ])
      expect(endedItself(ours)).toBe(false)
  })

  test('the detail of an outcome is cut to its maximum length', () => {
    const { detail = '' } = failed('x'.repeat(5_000)) as { detail?: string }
    expect(detail.length).toBeLessThanOrEqual(500)
  })
})

describe('the command', () => {
  test('S46 a command or argument that begins with a dash is never read as an option', async () => {
    for (const tier of TIERS) {
      for (const name of ['--version', '--bind', '--help', '-c', '--', '--nproc=unlimited']) {
        const { outcome, out, err } = await arena.launch({ plan: planOf([name, '/', '/'], { tier }) })
        expect(outcome, name).toEqual({ kind: 'exit', code: 127 })
        expect(out).toBe('')
        expect(err).toContain(`failed to execute ${name}:`)
      }
    }
    const dashed = planOf(['./-x', '--share-net'], { workspace: 'run' })
    const kept = arena.runFolder()
    writeFileSync(join(kept.here, '-x'), '#!/bin/sh\necho "$@"\n', { mode: 0o755 })
    expect((await arena.launch({ plan: dashed, runFolder: kept.there })).out).toBe('--share-net\n')
  })

  test('S46 without `--`: a program’s name is read as an option', async () => {
    expect((await arena.bare({ plan: planOf(['--version']), swaps: [[['--'], []]] })).out).toMatch(
      /util-linux/,
    )
  })

  test('a tool receives arguments unchanged: empty, spaces, quotes, newlines, substitutions, patterns, any UTF-8', async () => {
    const args = [
      '',
      ' ',
      '$(id)',
      '`id`',
      '"',
      "'",
      '*',
      ';',
      'a\nb',
      '\\',
      '--',
      '{name}',
      'ü漢🙂',
      '\u0001\u001b[0m',
      '-exec sh -c "echo ran" ;',
      '%PATH%',
      '!x!',
      '^&|<>',
      '"a b"',
      "it's",
      'a\r\nb',
      '$HOME',
      'test',
      'src/main.ts',
      '..',
      'a:b',
    ]
    for (const tier of TIERS) {
      const seen = await arena.launch({
        plan: planOf(['python3', '-c', 'import json, sys; print(json.dumps(sys.argv[1:]))', ...args], {
          tier,
        }),
      })
      expect(JSON.parse(seen.out), tier).toEqual(args)
    }
  })

  test('S47 NUL, and arguments beyond the kernel’s limits, are refused, and the worker goes on', async () => {
    expect(Argv.safeParse(['echo', 'a\0b']).success).toBe(false)
    for (const tier of TIERS) {
      const run = async (...argv: string[]) => (await arena.launch({ plan: planOf(argv, { tier }) })).outcome
      expect(await run('echo', 'a\0b')).toMatchObject({ kind: 'refused', code: 'invalid_input' })
      const smuggled = planOf(['ls', '/root'], { tier, env: { X: 'x\0--ro-bind\0/\0/root' } })
      expect((await arena.launch({ plan: smuggled })).outcome).toMatchObject({
        kind: 'refused',
        code: 'invalid_input',
      })
      expect(await run('echo', 'x'.repeat(131_072))).toMatchObject({ kind: 'refused', code: 'invalid_input' })
      expect(await run('echo', ...Array<string>(30).fill('x'.repeat(100_000)))).toMatchObject({
        kind: 'refused',
        code: 'invalid_input',
      })
      expect(await run('true', 'x'.repeat(131_071))).toEqual({ kind: 'exit', code: 0 })
      expect(await run('true')).toEqual({ kind: 'exit', code: 0 })
    }
  })

  test('S47 without either refusal of NUL: a value of the environment is read as an option of bubblewrap', async () => {
    const ARGV = 'worker/sandbox/plan/argv.ts'
    const refusals = [
      String.raw`.some((text) => text.includes('\0'))`,
      String.raw`.some((option) => option.includes('\0'))`,
    ] as const
    const load = weakened(...refusals.map((one) => [ARGV, one, '.some(() => false)'] as const))
    const weak = await load<typeof import('../../../worker/sandbox/plan/argv.ts')>(ARGV)
    const admitted = weak.admit(planOf(['ls', '/tmp'], { env: { X: 'x\0--ro-bind\0/\0/tmp' } }))
    if (!admitted.ok) throw new Error(admitted.error.detail)
    const host = await findHost()
    const { bwrap, args } = withoutOurInit(weak.commandFor(admitted.value, host, {}))
    const options = bwrap?.options.toString().split('\0').slice(4, -1) ?? [] // after the status and the filter
    const { stdout } = spawnSync(host.programs.bwrap, [...options, ...args.slice(2)], {
      env: {},
      encoding: 'utf8',
    })
    expect(stdout.split('\n')).toEqual(expect.arrayContaining(['etc', 'root', 'usr']))
  })

  test('S47 without the checks of arguments: starting the program throws', () => {
    expect(() => spawnSync('true', ['a\0b'])).toThrow(/null bytes/)
    expect(spawnSync('true', ['x'.repeat(131_072)]).error).toMatchObject({ code: 'E2BIG' })
  })

  test('a tool’s environment can’t load code into the programs that set its limits', async () => {
    for (const name of ['LD_PRELOAD', 'LD_AUDIT', 'LD_LIBRARY_PATH', 'GLIBC_TUNABLES', 'GCONV_PATH']) {
      for (const tier of TIERS) {
        const { outcome } = await arena.launch({
          plan: planOf(['true'], { tier, env: { [name]: '/workspace/x' } }),
        })
        expect(outcome, name).toMatchObject({ kind: 'refused', code: 'invalid_input' })
      }
    }
    const env = { PATH: '/usr/bin', GREETING: 'hello world' }
    expect(
      (await arena.launch({ plan: planOf(['printenv', 'GREETING', 'PATH', 'HOME'], { env }) })).out,
    ).toBe('hello world\n/usr/bin\n/tmp\n')
  })
})

describe('standard streams', () => {
  test('a tool may open its standard streams by name', async () => {
    const plan = (tier: 'B' | 'C') =>
      planOf(['sh', '-c', 'cat /dev/stdin > /dev/stdout; echo oops > /dev/stderr'], { tier })
    for (const tier of TIERS) {
      const seen = await arena.launch({ plan: plan(tier), stdin: 'hello\n' })
      expect([seen.outcome, seen.out, seen.err], tier).toEqual([
        { kind: 'exit', code: 0 },
        'hello\n',
        'oops\n',
      ])
    }
  })

  test('a tool receives its whole standard input, and may ignore it', async () => {
    const stdin = 'x'.repeat(500_000)
    for (const tier of TIERS) {
      expect((await arena.launch({ plan: planOf(['wc', '-c'], { tier }), stdin })).out.trim(), tier).toBe(
        '500000',
      )
      expect((await arena.launch({ plan: planOf(['true'], { tier }), stdin })).outcome).toEqual({
        kind: 'exit',
        code: 0,
      })
      expect((await arena.launch({ plan: planOf(['cat'], { tier }), stdin: '' })).out).toBe('')
      expect((await arena.launch({ plan: planOf(['cat'], { tier }) })).out).toBe('')
    }
  })

  /** A sandbox's init has the sandbox's original standard streams. A tool can't open them there. */
  const growBy = (paths: readonly string[]): string[] =>
    attack(`
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
attempt(os.fchmod, 0, 0o600)
def grow(path): os.posix_fallocate(os.open(path, os.O_RDWR), 0, 1 << 20)
def change(path): os.write(os.open(path, os.O_RDWR), b'xx')
def empty(path): os.ftruncate(os.open(path, os.O_RDWR), 0)
tell['ends'] = {path: [attempt(one, path) for one in (grow, change, empty)] for path in ${JSON.stringify(paths)}}
tell['read'] = sys.stdin.read()`)
  const [OWN, OF_INIT] = ['/proc/self/fd/0', '/proc/1/fd/0']
  const REFUSED = ['EPERM', 'EPERM', 'EPERM']
  const CLOSED = ['EACCES', 'EACCES', 'EACCES']

  test('S52 D13 a tool that is started cold can neither grow nor change its standard input', async () => {
    const inB = await arena.launch({ plan: planOf(growBy([OWN]), { tier: 'B' }), stdin: 'xyz' })
    expect(attackReport(inB)).toEqual({ ends: { [OWN]: REFUSED }, read: 'xyz' })
    const inC = await arena.launch({ plan: planOf(growBy([OWN, OF_INIT])), stdin: 'xyz' })
    expect(attackReport(inC)).toEqual({ ends: { [OWN]: REFUSED, [OF_INIT]: CLOSED }, read: 'xyz' })
  })

  test('S52 D13 a tool in a warm sandbox can neither grow nor change its standard input', async () => {
    const ready = await Arena.open({ prepared: {} })
    const seen = await ready.launch({ plan: planOf(growBy([OWN, OF_INIT])), stdin: 'xyz' })
    expect([seen.fromStock, attackReport(seen)]).toEqual([
      true,
      { ends: { [OWN]: REFUSED, [OF_INIT]: CLOSED }, read: 'xyz' },
    ])
    await ready.close()
  })

  test('S52 D13 without perl, which makes the copy: a tool can grow the worker’s file', async () => {
    const noPerl = [
      '/usr/bin/bwrap',
      '--dev-bind',
      '/',
      '/',
      '--ro-bind',
      '/etc/passwd',
      '/usr/bin/perl',
      '--',
    ]
    const without = await Arena.open({ under: noPerl })
    const seen = await without.launch({ plan: planOf(growBy([OWN, OF_INIT])), stdin: 'xyz' })
    expect(attackReport(seen)['ends']).toEqual({ [OWN]: ['ok', 'ok', 'ok'], [OF_INIT]: CLOSED })
    await without.close()
  })
})

describe('an unsuitable host', () => {
  const refuses = async (host: Arena, why: RegExp): Promise<void> => {
    const { tiers } = await host.facts()
    expect([tiers.C.ok, tiers.B.ok]).toEqual([false, true])
    expect(
      tiers.C.checks
        .filter(({ ok }) => !ok)
        .map(({ detail }) => detail)
        .join('\n'),
    ).toMatch(why)
    const { outcome, executor, out } = await host.launch({ plan: planOf(['echo', 'ran']) })
    expect(outcome).toMatchObject({ kind: 'refused', code: 'sandbox_unavailable' })
    expect([executor, out]).toEqual(['sandbox_tier_c_linux_bubblewrap', ''])
    expect((await host.launch({ plan: planOf(['echo', 'ran'], { tier: 'B' }) })).out).toBe('ran\n')
  }

  test('S48 on a host without bubblewrap tier C is refused', async () => {
    const host = await Arena.open({ host: { missing: ['bwrap'] }, programs: { bwrap: 'bwrap' } })
    await refuses(host, /`bwrap` is missing: install `bubblewrap`/)
    await host.close()
  })

  test('S48 on a host with too old a bubblewrap tier C is refused', async () => {
    const versions = { kernel: '6.1.0', bubblewrap: '0.7.9', util_linux: '2.38.1', node: process.version }
    const host = await Arena.open({ host: { versions } })
    await refuses(host, /bubblewrap 0\.7\.9 is too old/)
    await host.close()
  })

  test('S48 on a host without user namespaces tier C is refused', async () => {
    // The worker runs in a sandbox in which the kernel refuses user namespaces.
    const under = [
      '/usr/bin/bwrap',
      '--dev-bind',
      '/',
      '/',
      '--unshare-user',
      '--disable-userns',
      '--die-with-parent',
      '--',
    ]
    const host = await Arena.open({ under })
    await refuses(host, /namespace/i)
    await host.close()
  })

  test('S48 without the probe: a bubblewrap that is too old runs calls', async () => {
    const versions = { kernel: '6.1.0', bubblewrap: '0.7.9', util_linux: '2.38.1', node: process.version }
    const host = await Arena.open({ host: { versions } })
    expect((await host.bare({ plan: planOf(['echo', 'ran']) })).out).toBe('ran\n')
    await host.close()
  })

  test('S48 after bubblewrap was removed from a proven host tier C is refused', async () => {
    const copy = join(arena.home, 'bwrap')
    copyFileSync('/usr/bin/bwrap', copy)
    chmodSync(copy, 0o755)
    const vanishing = await Arena.open({ programs: { bwrap: copy } })
    expect((await vanishing.facts()).tiers.C.ok).toBe(true)
    expect((await vanishing.launch({ plan: planOf(['echo', 'ran']) })).out).toBe('ran\n')
    rmSync(copy)
    const { outcome, out } = await vanishing.launch({ plan: planOf(['echo', 'ran']) })
    expect([outcome.kind, out]).toEqual(['refused', ''])
    expect(outcome).toMatchObject({ code: 'sandbox_unavailable' })
    await vanishing.close()
  })

  test('a plan is refused if its tier can’t enforce it', async () => {
    const run = async (tier: 'B' | 'C', mode: 'none' | 'preflight' | 'strict') =>
      (await arena.launch({ plan: planOf(['true'], { tier, egress: { mode, hosts: [] } }) })).outcome.kind
    expect(await run('B', 'none')).toBe('exit')
    expect(await run('B', 'preflight')).toBe('exit')
    expect(await run('B', 'strict')).toBe('refused')
    expect(await run('C', 'none')).toBe('refused')
    expect(await run('C', 'preflight')).toBe('refused')
    expect(await run('C', 'strict')).toBe('exit')
  })

  test('a plan of tier B with the folder of a run is refused', async () => {
    const plan = planOf(['true'], { tier: 'B', workspace: 'run' })
    const { outcome } = await arena.launch({ plan, runFolder: arena.runFolder().there })
    expect(outcome).toMatchObject({
      kind: 'refused',
      code: 'sandbox_unavailable',
      detail: expect.stringContaining('plan tier C'),
    })
  })

  test('a worker that runs as root refuses every plan', async () => {
    const host = await Arena.open({ host: { uid: 0 } })
    const { tiers, egress } = await host.facts()
    expect([tiers.B.ok, tiers.C.ok, egress.ok]).toEqual([false, false, false])
    for (const tier of TIERS) {
      const { outcome } = await host.launch({ plan: planOf(['true'], { tier }) })
      expect(outcome).toMatchObject({ kind: 'refused', detail: expect.stringContaining('runs as root') })
    }
    await host.close()
  })
})
