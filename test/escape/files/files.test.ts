// A tool writes only its workspace and /tmp, up to their sizes, and leaves nothing behind that has
// power on the host.
// @project prepared

import {
  chownSync,
  existsSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Arena, attack, attackReport, planOf, UID } from '../arena/arena.ts'
import type { Swap } from '../arena/orders.ts'

let arena: Arena
beforeAll(async () => {
  arena = await Arena.open()
})
afterAll(() => arena.close())

const MiB = 1024 * 1024
const NO_SECCOMP: Swap = [['--seccomp', '4'], []]

const DEVICES = `
tell['devices'] = sorted(os.listdir('/dev'))
for name in ('vda', 'sda', 'mem', 'kmsg', 'kvm', 'fuse', 'vsock', 'net/tun', 'port', 'dri'):
    tell[name] = attempt(os.open, '/dev/' + name, os.O_RDONLY)`

test('S18 a sandbox has no devices of the host', async () => {
  const { devices, ...opened } = attackReport(await arena.launch({ plan: planOf(attack(DEVICES)) }))
  const standard = 'core fd full null ptmx pts random shm stderr stdin stdout tty urandom zero'
  expect((devices as string[]).join(' ')).toBe(standard)
  expect([...new Set(Object.values(opened))]).toEqual(['ENOENT'])
})

test('S18 without `--dev`: a sandbox has the host’s devices, and only their modes protect them', async () => {
  const host: Swap = [
    ['--dev', '/dev'],
    ['--dev-bind', '/dev', '/dev'],
  ]
  const { devices, ...opened } = attackReport(
    await arena.bare({ plan: planOf(attack(DEVICES)), swaps: [host] }),
  )
  expect(devices).not.toHaveLength(14)
  expect([...new Set(Object.values(opened))]).not.toEqual(['ENOENT'])
})

const CMDLINE = "tell['read'] = attempt(lambda: open('/proc/cmdline').read())"

test('S53 D13 a tool can’t read the command line of the host’s kernel', async () => {
  for (const egress of [
    { mode: 'strict' as const, hosts: [] },
    { mode: 'strict' as const, hosts: ['example.com'] },
  ])
    expect(attackReport(await arena.launch({ plan: planOf(attack(CMDLINE), { egress }) }))).toEqual({
      read: 'EACCES',
    })
})

test('S53 D13 without the cover of /proc/cmdline: a tool reads the command line of the host’s kernel', async () => {
  const uncovered: Swap = [['--ro-bind', '/dev/null', '/proc/cmdline'], []]
  expect(attackReport(await arena.bare({ plan: planOf(attack(CMDLINE)), swaps: [uncovered] }))).toEqual({
    read: 'ok',
  })
})

test('S19 a setuid program gives a tool no privilege', async () => {
  const seen = attackReport(
    await arena.launch({
      plan: planOf(
        attack(`
import subprocess
tell['nosuid'] = all(os.statvfs(path).f_flag & os.ST_NOSUID for path in ('/', '/usr', '/tmp', '/workspace', '/dev/shm'))
tell['setuid'] = bool(os.stat('/usr/bin/su').st_mode & 0o4000)
tell['su'] = subprocess.run(['su', '-c', 'id -u'], capture_output=True, stdin=subprocess.DEVNULL).stdout.decode()
tell['status'] = [line.split()[1] for line in open('/proc/self/status') if line.startswith(('NoNewPrivs', 'CapEff', 'CapBnd'))]`),
      ),
    }),
  )
  expect(seen).toEqual({
    nosuid: true,
    setuid: true,
    su: '',
    status: ['0000000000000000', '0000000000000000', '1'],
  })
})

const SETUID = `
def at(name): return '/workspace/' + name
open(at('chmod'), 'w').close()
tell['chmod'] = attempt(os.chmod, at('chmod'), 0o4755)
tell['setgid'] = attempt(os.chmod, at('chmod'), 0o2755)
tell['fchmod'] = attempt(os.fchmod, os.open(at('chmod'), os.O_RDWR), 0o4755)
tell['open'] = attempt(os.open, at('open'), os.O_CREAT | os.O_WRONLY, 0o4755)
tell['tmpfile'] = attempt(os.open, '/workspace', os.O_TMPFILE | os.O_WRONLY, 0o6755)
tell['old open'] = call('open', at('open').encode(), 0o101, 0o4755) if 'open' in N else 'EPERM'
tell['creat'] = call('creat', at('creat').encode(), 0o4755) if 'creat' in N else 'EPERM'
tell['fchmodat2'] = call('fchmodat2', -100, at('chmod').encode(), 0o4755, 0)
tell['openat2'] = call('openat2', -100, at('openat2').encode(), (ctypes.c_uint64 * 3)(0o101, 0o4755, 0), 24)
tell['plain'] = [attempt(os.chmod, at('chmod'), 0o755), attempt(os.open, at('chmod'), os.O_RDONLY, 0o4755)]`

test('S20 no system call leaves a setuid file in the workspace', async () => {
  const kept = arena.runFolder()
  const plan = planOf(attack(SETUID), { workspace: 'run' })
  const { plain, fchmodat2, openat2, ...others } = attackReport(
    await arena.launch({ plan, runFolder: kept.there }),
  )
  expect([fchmodat2, openat2, plain]).toEqual(['ENOSYS', 'ENOSYS', ['ok', 'ok']])
  expect([...new Set(Object.values(others))]).toEqual(['EPERM'])
  const modes = readdirSync(kept.here).map((name) => statSync(join(kept.here, name)).mode & 0o7000)
  expect([...new Set(modes)]).toEqual([0])
})

test('S20 without seccomp: a tool leaves a setuid file of the worker’s user in the workspace', async () => {
  const plan = planOf(attack(SETUID), { workspace: 'run' })
  const bitten = arena.runFolder()
  await arena.bare({ plan, runFolder: bitten.there, swaps: [NO_SECCOMP] })
  expect(statSync(join(bitten.here, 'open')).mode & 0o7777).toBe(0o4755)
})

const FILL = `
def fill(folder):
    written = 0
    try:
        for n in range(40):
            with open('%s/%d' % (folder, n), 'wb') as f:
                for _ in range(10): written += f.write(bytes(1 << 20))
    except OSError as e:
        return [written >> 20, errno.errorcode[e.errno]]
    return [written >> 20, 'ok']
for folder in ('/', '/dev', '/usr', '/etc', '/proc', '/dev/shm', '/tmp', '/workspace'): tell[folder] = fill(folder)`

test('S29 each writable folder of a sandbox has a size limit, and the rest is read-only', async () => {
  const limits = { workspace_bytes: 8 * MiB }
  const filled = attackReport(await arena.launch({ plan: planOf(attack(FILL), { limits }) })) as Record<
    string,
    [number, string]
  >
  for (const folder of ['/', '/dev', '/usr', '/etc']) expect(filled[folder], folder).toEqual([0, 'EROFS'])
  expect(filled['/proc']?.[0]).toBe(0)
  const sizes: readonly [string, number][] = [
    ['/dev/shm', 16],
    ['/tmp', 64],
    ['/workspace', 8],
  ]
  for (const [folder, most] of sizes) {
    expect(filled[folder]?.[1], folder).toBe('ENOSPC')
    expect(filled[folder]?.[0], folder).toBeLessThanOrEqual(most)
  }
})

test('S29 without `--remount-ro` and `--size`: a tool fills the host’s memory', async () => {
  const unlimited: Swap[] = [
    [['--remount-ro', '/'], []],
    [['--size', `${16 * MiB}`], []],
  ]
  const bitten = attackReport(await arena.bare({ plan: planOf(attack(FILL)), swaps: unlimited })) as Record<
    string,
    [number, string]
  >
  expect(bitten['/']?.[0]).toBeGreaterThan(100)
  expect(bitten['/dev/shm']?.[0]).toBeGreaterThan(100)
})

test('a tool can’t write a file beyond the limit of a file, not even in a folder of the host', async () => {
  const kept = arena.runFolder()
  const source = `
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with open('/workspace/big', 'wb', buffering=0) as f:
    try:
        for _ in range(40): f.write(bytes(1 << 20))
        tell['end'] = 'ok'
    except OSError as e: tell['end'] = errno.errorcode[e.errno]`
  const plan = planOf(attack(source), { workspace: 'run', limits: { file_bytes: 3 * MiB } })
  expect(attackReport(await arena.launch({ plan, runFolder: kept.there }))).toEqual({ end: 'EFBIG' })
  expect(statSync(join(kept.here, 'big')).size).toBe(3 * MiB)
})

const LINK =
  "tell['link'] = [attempt(os.link, path, '/workspace/x') for path in ('/usr/bin/true', '/proc/self/exe')]"

test('S42 a tool can’t hard-link a file of the host into the workspace', async () => {
  const kept = arena.runFolder()
  const plan = planOf(attack(LINK), { workspace: 'run' })
  expect(attackReport(await arena.launch({ plan, runFolder: kept.there }))).toEqual({
    link: ['EXDEV', 'EXDEV'],
  })
})

test('S42 without the sandbox, in tier B: a tool hard-links a file of the worker’s user into the workspace', async () => {
  writeFileSync(join(arena.home, 'own'), 'own\n')
  chownSync(join(arena.home, 'own'), UID, UID)
  const kept = arena.runFolder()
  const source = `tell['link'] = attempt(os.link, '${join(kept.there, '..', 'own')}', 'x')`
  const inC = await arena.launch({
    plan: planOf(attack(source), { workspace: 'run' }),
    runFolder: kept.there,
  })
  const inB = await arena.launch({ plan: planOf(attack(source), { tier: 'B' }) })
  expect([attackReport(inC)['link'], attackReport(inB)['link']]).toEqual(['ENOENT', 'ok'])
})

test('a symbolic link in a run’s workspace leads to nothing on the host', async () => {
  const { here, there } = arena.runFolder()
  symlinkSync('/etc', join(here, 'out'))
  symlinkSync(arena.home, join(here, 'home'))
  const run = async (cwd: string) =>
    (await arena.launch({ plan: planOf(['touch', 'canary'], { workspace: 'run', cwd }), runFolder: there }))
      .outcome
  // In the sandbox it leads to the sandbox's own /etc, or to nothing.
  expect(await run('out')).toEqual({ kind: 'exit', code: 1 })
  expect(await run('home')).toMatchObject({ kind: 'refused', code: 'workspace_scope_denied' })
  expect(existsSync(join(arena.home, 'canary'))).toBe(false)
})

test('a plan whose `cwd` leaves the workspace is refused, even where `..` would lead back', async () => {
  for (const cwd of ['..', 'a/../..', '/etc', '/workspace', 'a/../b', '../workspace', '//']) {
    for (const tier of ['B', 'C'] as const) {
      const { outcome } = await arena.launch({ plan: planOf(['pwd'], { cwd, tier }) })
      expect(outcome, cwd).toMatchObject({ kind: 'refused', code: 'workspace_scope_denied' })
    }
  }
  for (const [cwd, where] of [
    ['', '/workspace'],
    ['.', '/workspace'],
    ['a/b', '/workspace/a/b'],
    ['a//b/', '/workspace/a/b'],
    ['./a', '/workspace/a'],
    ['...', '/workspace/...'],
  ] as const) {
    const { out, outcome } = await arena.launch({ plan: planOf(['pwd'], { cwd }) })
    expect([out, outcome]).toEqual([`${where}\n`, { kind: 'exit', code: 0 }])
  }
})

test('calls of a run share its workspace, and no call shares its own', async () => {
  const { here, there } = arena.runFolder()
  writeFileSync(join(here, 'given'), 'one\n', { mode: 0o644 })
  const kept = await arena.launch({
    plan: planOf(['cp', 'given', 'made'], { workspace: 'run' }),
    runFolder: there,
  })
  expect(kept.outcome).toEqual({ kind: 'exit', code: 0 })
  expect(readFileSync(join(here, 'made'), 'utf8')).toBe('one\n')
  for (const tier of ['B', 'C'] as const) {
    expect((await arena.launch({ plan: planOf(['touch', 'x'], { tier }) })).outcome).toEqual({
      kind: 'exit',
      code: 0,
    })
    expect((await arena.launch({ plan: planOf(['ls', '-A'], { tier }) })).out).toBe('')
  }
  expect(readdirSync(join(arena.home, 'worker')).filter((name) => name.startsWith('call-'))).toEqual([])
})

test('files that a tool of tier B leaves are removed, even from folders without permissions', async () => {
  const source =
    "os.makedirs('a/b/c'); open('a/b/c/d', 'w').close(); os.chmod('a/b', 0); os.chmod('a', 0o500)"
  const { outcome } = await arena.launch({ plan: planOf(attack(source), { tier: 'B' }) })
  expect(outcome).toEqual({ kind: 'workspace_cap' }) // a folder that can't be counted is over the limit
  expect(readdirSync(join(arena.home, 'worker')).filter((name) => name.startsWith('call-'))).toEqual([])
})
