// Owns the quota of one call for resources that the kernel counts by user: all calls of a worker
// are one user of the host, so a call without its own limit can use up all of them (S51, D8). Pure:
// the limits, and the perl that sets them; spawner.ts and relay.ts run it.
//
// The kernel compares each count with the limit of every user namespace from the process up to the
// host (user_namespaces(7), `/proc/sys/user`). bubblewrap has no option for these limits and drops
// the capability that sets them. So a sandbox starts inside one more user namespace, whose limits
// are set before bubblewrap starts; nothing in the sandbox has a capability there.

import type { Machine } from '../kernel/syscalls.ts'

/**
 * By file of `/proc/sys/user`. 8 calls at once fit into the 128 instances that Linux gives a user.
 */
const QUOTAS = { max_inotify_instances: 12, max_inotify_watches: 4_096 } as const

const UNSHARE: Readonly<Record<Machine, number>> = { x86_64: 272, aarch64: 97 }
const CLONE_NEWUSER = 0x10000000

const perlWrites = (files: Readonly<Record<string, string | number>>): string =>
  Object.entries(files)
    .map(([file, value]) => `put('${file}', "${value}")`)
    .join(' && ')

/**
 * `set_quota()` needs capabilities in a user namespace of ours. It returns false, with `$!`, if a
 * limit could not be set.
 */
export const QUOTA_SUBS = `
sub put { open my $file, '>', "/proc/$_[0]" or return; syswrite $file, $_[1] }
sub set_quota { ${perlWrites(Object.fromEntries(Object.entries(QUOTAS).map(([file, value]) => [`sys/user/${file}`, value])))} }
`

/**
 * `enter_quota()` moves its process to a new user namespace with these limits and the same uid and
 * gid.
 */
export const enterQuotaSub = (machine: Machine): string =>
  `
${QUOTA_SUBS}
sub enter_quota {
  my ($user, $group) = ($>, $) + 0);
  syscall(${UNSHARE[machine]}, ${CLONE_NEWUSER}) == 0
    && ${perlWrites({ 'self/setgroups': 'deny', 'self/uid_map': '$user $user 1', 'self/gid_map': '$group $group 1' })} && set_quota();
}
`
