// Owns the host settings that no sandbox can divide among calls: limits that the kernel applies to
// the worker's user, or to the whole host. If they are high enough, a call reaches its own limits
// (processes, open files, memory of its cgroup) first (D8). Pure: doctor.ts reports low settings,
// infra/prepare.ts raises them.

type Count = { readonly sysctl: string; readonly enough: number }

/**
 * `enough` is for 8 calls at once with default limits: 128 processes with 256 open files each, and
 * 256 MiB. 0 means no limit: pages of pipes count as memory of the call's cgroup.
 */
const COUNTS: readonly Count[] = [
  { sysctl: 'fs.inotify.max_user_instances', enough: 1_024 }, // 12 a call (namespace-quota.ts), and other processes of this user
  { sysctl: 'fs.inotify.max_user_watches', enough: 65_536 }, // 4,096 a call (namespace-quota.ts)
  { sysctl: 'fs.epoll.max_user_watches', enough: 16_777_216 }, // 192 bytes each: 256 MiB hold 1.4 million
  { sysctl: 'fs.pipe-user-pages-soft', enough: 0 },
  { sysctl: 'kernel.pty.max', enough: 263_168 }, // a terminal for each open file, and 1,024 that the kernel reserves
]

export type LowCount = Count & { readonly path: string; readonly value: number }

/** The settings that are too low. A setting that this kernel lacks is left out. */
export const lowCounts = (read: (path: string) => string): LowCount[] =>
  COUNTS.flatMap(({ sysctl, enough }) => {
    const path = `/proc/sys/${sysctl.replaceAll('.', '/')}`
    const text = read(path).trim()
    const value = Number(text)
    const isLow = text !== '' && (enough === 0 ? value !== 0 : value < enough)
    return isLow ? [{ sysctl, enough, path, value }] : []
  })

export const SYSCTL_FILE = '/etc/sysctl.d/61-countersign.conf'
export const sysctlLines = (counts: readonly LowCount[]): string =>
  counts.map(({ sysctl, enough }) => `${sysctl} = ${enough}\n`).join('')
