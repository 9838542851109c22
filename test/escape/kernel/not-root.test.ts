// Not being root is one of the worker's defences. If root starts bubblewrap, a tool has ways to the
// host, whatever options bubblewrap gets; if another user starts it, the same tool fails. The
// worker refuses to start as root (test/worker/calls/call-life.test.ts).

import { spawnSync } from 'node:child_process'
import { chmodSync, copyFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { admit, commandFor } from '../../../worker/sandbox/plan/argv.ts'
import { findHost } from '../../../worker/sandbox/plan/host-programs.ts'
import { withoutOurInit } from '../../support/worker/bare-command.ts'
import { Arena, attack, attackReport, planOf, UID } from '../arena/arena.ts'

let arena: Arena
beforeAll(async () => {
  arena = await Arena.open()
})
afterAll(() => arena.close())

/** Runs with the sandbox's options except the descriptors, as the user who runs the tests. */
async function asWhoWeAre(source: string, ...without: string[]): Promise<Record<string, unknown>> {
  const admitted = admit(planOf(attack(source)))
  if (!admitted.ok) throw new Error(admitted.error.detail)
  const host = await findHost()
  const { bwrap, args } = withoutOurInit(commandFor(admitted.value, host, {}))
  const options = bwrap?.options.toString().split('\0').slice(4, -1) ?? [] // after the status and the filter
  const argv = [...options.filter((option) => !without.includes(option)), ...args.slice(2)]
  const { stdout, stderr } = spawnSync(host.programs.bwrap, argv, { env: {}, encoding: 'utf8' })
  return attackReport({ out: stdout, err: stderr })
}

/** Only root can show that an attack works without the sandbox's outer layers. */
const AS_ROOT = process.geteuid?.() === 0

const BY_HANDLE = `
handle = ctypes.create_string_buffer(136)
ctypes.cast(handle, ctypes.POINTER(ctypes.c_uint))[0] = 128
mount = ctypes.create_string_buffer(4)
tell['name'] = call('name_to_handle_at', -100, b'/usr/bin/true', handle, mount, 0)
tell['open'] = call('open_by_handle_at', os.open('/usr', os.O_RDONLY), handle, 0)`

test('S16 a tool can’t open a file by its number, even without the filter', async () => {
  const plan = planOf(attack(BY_HANDLE))
  expect(attackReport(await arena.launch({ plan }))).toEqual({ name: 'EPERM', open: 'EPERM' })
  expect(attackReport(await arena.bare({ plan, swaps: [[['--seccomp', '4'], []]] }))).toEqual({
    name: 'ok',
    open: 'EPERM',
  })
})

/** Options that undo bubblewrap's defaults: all of root's capabilities, on the host. */
const CAPABLE =
  '--unshare-all --unshare-user --disable-userns --assert-userns-disabled --cap-drop ALL --uid --gid 65534 --hostname sandbox'.split(
    ' ',
  )

if (AS_ROOT) {
  test('S05 without a dedicated user for the worker: a tool opens kernel settings for writing', async () => {
    const seen = await asWhoWeAre(
      "tell['core'] = attempt(os.open, '/proc/sys/kernel/core_pattern', os.O_WRONLY)",
    )
    expect(seen).toEqual({ core: 'ok' })
  })

  test('S16 without a dedicated user for the worker, nor a user namespace: a tool opens any file by its number', async () => {
    expect(await asWhoWeAre(BY_HANDLE.replace('/usr/bin/true', '/usr/bin/env'), ...CAPABLE)).toEqual({
      name: 'ok',
      open: 'ok',
    })
  })

  test('S17 without a dedicated user for the worker, nor a user namespace: a tool makes a device of the host', async () => {
    const source =
      "import stat\ntell['disk'] = attempt(os.mknod, '/tmp/disk', stat.S_IFBLK | 0o600, os.makedev(254, 0))"
    expect(await asWhoWeAre(source, ...CAPABLE)).toEqual({ disk: 'ok' })
  })

  test('S19 without the sandbox: a tool becomes root through a setuid program', async () => {
    const kept = arena.runFolder()
    const program = join(kept.here, 'id')
    copyFileSync('/usr/bin/id', program)
    chmodSync(program, 0o4755)
    const inside = await arena.launch({
      plan: planOf(['./id', '-u'], { workspace: 'run' }),
      runFolder: kept.there,
    })
    expect(inside.out).toBe('65534\n')
    expect(spawnSync(program, ['-u'], { uid: UID, gid: UID, encoding: 'utf8' }).stdout).toBe('0\n')
  })
} else {
  test('S05 S16 S17 S19 not shown here: the tests do not run as root', () =>
    expect(process.geteuid?.()).not.toBe(0))
}
