// A profile that an operator adds gives the tools that name it read-only folders, and nothing else.
// It is proven before it is used.

import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { ProcessPlan as Plan } from '../../../shared/plan/plan.ts'
import { faultOf, OperatorProfiles } from '../../../worker/sandbox/plan/operator-profiles.ts'
import { Arena, attack, attackReport, planOf } from '../arena/arena.ts'

const MiB = 1024 * 1024
/** A folder of the host that every user may read, and that no sandbox has by default. */
const FOLDER = '/etc/apt'

let arena: Arena
beforeAll(async () => {
  arena = await Arena.open({
    profiles: OperatorProfiles.parse({
      packages: { from: 'c_offline', ro_binds: [FOLDER], tmp_bytes: 8 * MiB },
      online: { from: 'c_relayed', ro_binds: [FOLDER], tmp_bytes: 1_024 * MiB },
      gone: { from: 'c_offline', ro_binds: ['/nowhere/at-all'] },
    }),
  })
})
afterAll(() => arena.close())

const plan = (argv: readonly string[], profile?: string): Plan => ({
  ...planOf(argv),
  ...(profile === undefined ? {} : { profile }),
})

const LOOK = `
tell['read'] = attempt(os.listdir, '${FOLDER}')
tell['write'] = attempt(open, '${FOLDER}/canary', 'w')
tell['beside'] = sorted(os.listdir('/etc'))
tell['tmp'] = os.statvfs('/tmp').f_blocks * os.statvfs('/tmp').f_frsize >> 20
tell['etc'] = attempt(open, '/etc/passwd')`

test('a tool with an operator’s profile can read its folder, can’t write it, and sees nothing next to it', async () => {
  const named = await arena.launch({ plan: plan(attack(LOOK), 'packages') })
  expect(attackReport(named)).toEqual({
    read: 'ok',
    write: 'EROFS',
    beside: ['alternatives', 'apt', 'ld.so.cache', 'ssl'],
    tmp: 8,
    etc: 'ENOENT',
  })
  const plain = await arena.launch({ plan: plan(attack(LOOK)) })
  expect(attackReport(plain)).toEqual({
    read: 'ENOENT',
    write: 'ENOENT',
    beside: ['alternatives', 'ld.so.cache', 'ssl'],
    tmp: 64,
    etc: 'ENOENT',
  })
  expect(named.profile_sha256).not.toBe(plain.profile_sha256)
})

test('an operator’s profile is proven by the canaries of the one that it extends, and refused if they fail', async () => {
  const { profiles, tiers, egress } = await arena.facts()
  expect([profiles['packages']?.ok, profiles['online']?.ok, profiles['gone']?.ok]).toEqual([
    true,
    true,
    false,
  ])
  expect(profiles['packages']?.checks.map(({ name }) => name)).toEqual(tiers.C.checks.map(({ name }) => name))
  expect(profiles['online']?.checks.map(({ name }) => name)).toEqual(egress.checks.map(({ name }) => name))
  const { outcome } = await arena.launch({ plan: plan(['true'], 'gone') })
  expect(outcome).toMatchObject({ kind: 'refused', code: 'sandbox_unavailable' })
})

test('L8 a plan is refused if its profile is unknown to this worker or extends another one, and never runs with a weaker one', async () => {
  for (const [name, words] of [
    ['unknown', 'no profile `unknown`'],
    ['toString', 'no profile `toString`'],
    ['online', 'extends `c_relayed`'],
  ] as const) {
    const { outcome, out } = await arena.launch({ plan: plan(['echo', 'ran'], name) })
    expect(outcome, name).toMatchObject({
      kind: 'refused',
      code: 'sandbox_unavailable',
      detail: expect.stringContaining(words),
    })
    expect(out).toBe('')
  }
  const hosts = await arena.launch({
    plan: { ...plan(['true'], 'packages'), egress: { mode: 'strict', hosts: ['example.com'] } },
  })
  expect(hosts.outcome).toMatchObject({
    kind: 'refused',
    detail: expect.stringContaining('extends `c_offline`'),
  })
  const fenced = await arena.launch({ plan: { ...planOf(['true'], { tier: 'B' }), profile: 'packages' } })
  expect(fenced.outcome).toMatchObject({ kind: 'refused', code: 'sandbox_unavailable' })
})

test('a profile that would break the isolation is refused when the configuration is read', async () => {
  const folder = realpathSync(mkdtempSync(join('/srv', 'countersign-profiles-')))
  const home = join(folder, 'home')
  const [sockets, deep] = [join(folder, 'sockets'), join(folder, 'fine', 'deep')]
  for (const path of [home, sockets, deep]) mkdirSync(path, { recursive: true })
  symlinkSync('/etc', join(folder, 'link'))
  const server = createServer()
  await new Promise<void>((settle) => server.listen(join(sockets, 'docker.sock'), settle))
  const fault = (path: string): string | undefined =>
    faultOf(OperatorProfiles.parse({ own: { from: 'c_offline', ro_binds: [path] } }), home)
  for (const [path, words] of [
    ['/', 'more than a tool needs'],
    ['/etc', 'more than a tool needs'],
    ['/var/lib', 'have their own folder'],
    ['/proc/1', 'have their own folder'],
    ['/dev', 'have their own folder'],
    ['/run/user', 'have their own folder'],
    ['/usr/lib', 'have their own folder'],
    ['/workspace', 'have their own folder'],
    ['/root/.ssh', 'have their own folder'],
    ['etc', 'absolute'],
    ['/opt/../etc', 'absolute'],
    ['/opt/', 'absolute'],
    ['/opt\0/x', 'absolute'],
    [folder, 'own folder'],
    [home, 'own folder'],
    [join(home, 'spool'), 'own folder'],
    [join(folder, 'link'), 'a link'],
    [join(folder, 'none'), 'ENOENT'],
    [sockets, 'docker.sock` is a socket'],
  ] as const)
    expect(fault(path), path).toContain(words)
  expect(fault(join(folder, 'fine'))).toBeUndefined()
  server.close()
  rmSync(folder, { recursive: true })
})

test('the configuration of profiles is parsed strictly', () => {
  const good = { from: 'c_offline', ro_binds: [FOLDER], tmp_bytes: MiB }
  expect(OperatorProfiles.safeParse({ own: good }).success).toBe(true)
  for (const bad of [
    { ...good, from: 'b_host' },
    { ...good, rw_binds: ['/srv'] },
    { ...good, tmp_bytes: 0 },
    { ...good, ro_binds: '/srv' },
    {},
  ])
    expect(OperatorProfiles.safeParse({ own: bad }).success).toBe(false)
  expect(OperatorProfiles.safeParse({ 'Not A Name': good }).success).toBe(false)
})
