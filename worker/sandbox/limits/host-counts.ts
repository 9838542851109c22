// Owns the host settings that no sandbox can divide among calls: counts that the kernel keeps for the worker's user, or for the whole host.
// Where they are high enough, a call's own limits (processes, open files, memory of its cgroup) bind first (D8). Pure: doctor.ts reports
// what is too low, infra/prepare.ts raises it.

type Count = { readonly sysctl: string; readonly enough: number }

/**
 * `enough`: for 8 calls at once with default limits, 128 processes of 256 open files each and 256 MiB. 0 is no limit: pages of pipes are
 * memory of the call's cgroup.
 */
const COUNTS: readonly Count[] = [
  { sysctl: 'fs.inotify.max_user_instances', enough: 1_024 }, // 12 a call (quota.ts), and what else runs as this user
  { sysctl: 'fs.inotify.max_user_watches', enough: 65_536 }, // 4,096 a call (quota.ts)
  { sysctl: 'fs.epoll.max_user_watches', enough: 16_777_216 }, // 192 bytes each: 256 MiB hold 1.4 million
  { sysctl: 'fs.pipe-user-pages-soft', enough: 0 },
  { sysctl: 'kernel.pty.max', enough: 263_168 }, // a terminal for each open file, and the 1,024 that the host keeps for itself
]

export type LowCount = Count & { readonly path: string; readonly value: number }

/** Settings that are too low. One that this kernel does not have is not. */
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
