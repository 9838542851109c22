// Checks of a host before anything runs: each obstacle comes with the command that removes it.

import { expect, test } from 'vitest'
import { namespacesOff, obstacles, wrongPlatform } from '../../../worker/sandbox/plan/host-programs.ts'

const versions = { kernel: '6.1.0', bubblewrap: '0.8.0', util_linux: '2.38.1', node: 'v24.0.0' }
const at = (files: Record<string, string>) => (path: string) => files[path] ?? ''

test.each([
  [
    'kernel/unprivileged_userns_clone',
    '0\n',
    "echo 'kernel.unprivileged_userns_clone = 1' | sudo tee /etc/sysctl.d/60-countersign.conf",
  ],
  ['user/max_user_namespaces', '0\n', "echo 'user.max_user_namespaces = 65536' | sudo tee"],
  [
    'kernel/apparmor_restrict_unprivileged_userns',
    '1\n',
    'sudo apparmor_parser -r /etc/apparmor.d/countersign-bwrap',
  ],
])('if %s disables user namespaces, the exact command that enables them is reported', (name, off, line) => {
  expect(namespacesOff(at({ [`/proc/sys/${name}`]: off }))).toEqual([expect.stringContaining(line)])
  expect(namespacesOff(at({ [`/proc/sys/${name}`]: off === '1\n' ? '0\n' : '7\n' }))).toEqual([])
})

test('missing and outdated programs of a host are reported with the package that provides them', () => {
  const obstaclesIn = (
    missing: Parameters<typeof obstacles>[0]['missing'],
    change: Partial<typeof versions> = {},
  ) => obstacles({ uid: 1000, missing, versions: { ...versions, ...change } }, 'C').join('; ')
  expect(obstaclesIn([])).toBe('')
  expect(obstaclesIn(['bwrap'])).toBe('`bwrap` is missing: install `bubblewrap`')
  expect(obstaclesIn(['prlimit'])).toContain('install `util-linux`')
  expect(obstacles({ uid: 1000, missing: ['perl'], versions }, 'prepared')).toEqual([
    '`perl` is missing: install `perl-base`',
  ])
  expect(obstaclesIn([], { bubblewrap: '0.7.0' })).toContain('install 0.8.0 or newer')
  expect(obstaclesIn([], { kernel: '5.10.0-23-amd64' })).toContain('use 5.14 or newer')
})

test('a platform without sandboxes is reported differently from a host that lacks a program', () => {
  for (const platform of ['darwin', 'win32', 'freebsd'] as const)
    expect(wrongPlatform({ platform, machine: 'x86_64' })).toContain(`runs on \`${platform}\``)
  expect(wrongPlatform({ platform: 'linux', machine: undefined })).toContain('use x86_64 or aarch64')
  expect(wrongPlatform({ platform: 'linux', machine: 'aarch64' })).toBeUndefined()
})
