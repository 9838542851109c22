// Doctor and set-up name each host setting that lets one call use up a limit shared by all calls,
// with the value it needs.

import { expect, test } from 'vitest'
import { lowCounts, sysctlLines } from '../../../worker/sandbox/limits/host-counts.ts'

/** The defaults of Debian 12 with 4 GiB of memory. */
const DEBIAN: Readonly<Record<string, string>> = {
  '/proc/sys/fs/inotify/max_user_instances': '128\n',
  '/proc/sys/fs/inotify/max_user_watches': '29838\n',
  '/proc/sys/fs/epoll/max_user_watches': '902348\n',
  '/proc/sys/fs/pipe-user-pages-soft': '16384\n',
  '/proc/sys/kernel/pty/max': '4096\n',
}

test('D8 on a freshly installed host each low setting is reported with the value that it needs', () => {
  expect(sysctlLines(lowCounts((path) => DEBIAN[path] ?? ''))).toBe(
    `fs.inotify.max_user_instances = 1024
fs.inotify.max_user_watches = 65536
fs.epoll.max_user_watches = 16777216
fs.pipe-user-pages-soft = 0
kernel.pty.max = 263168
`,
  )
})

test('D8 a higher or missing setting is not reported', () => {
  const raised: Readonly<Record<string, string>> = {
    '/proc/sys/fs/inotify/max_user_instances': '8192',
    '/proc/sys/fs/pipe-user-pages-soft': '0',
    '/proc/sys/kernel/pty/max': '263168',
  }
  expect(lowCounts((path) => raised[path] ?? '')).toEqual([])
  expect(
    lowCounts((path) => ({ ...raised, '/proc/sys/fs/pipe-user-pages-soft': '1000000' })[path] ?? ''),
  ).toMatchObject([{ sysctl: 'fs.pipe-user-pages-soft', value: 1_000_000, enough: 0 }])
})
