// Owns the table of sandbox profiles: the defences around a tool, and which profile a plan gets.
// Pure. Each flag cites the attack that it stops. argv.ts turns a profile into an argv.
//
// Tier C is a wall: namespaces, seccomp, no capabilities, its own file system, and no network but
// the proxy. Tier B is a fence: rlimits, no new privileges, the same filter but with the host's
// sockets, a session, a scrubbed environment, and an end for the whole process tree. A process of
// tier B still is the worker's user on the host: it reads the worker's files, sees its processes
// and shares its network. Tier B is for trusted tools that need the host (its network, its
// devices), and for hosts without user namespaces. Policy decides which calls may use it.

import { SANDBOXES } from '../../../shared/evidence/statement.ts'
import { type Limits, type ProcessPlan as Plan, secretsOf } from '../../../shared/plan/plan.ts'
import { err, ok, type Result } from '../../../shared/result.ts'
import type { SocketMode } from '../kernel/seccomp.ts'
import { type Refusal, refused } from './verdict.ts'

type TierC = {
  readonly tier: 'C'
  readonly executor: typeof SANDBOXES.C
  readonly sockets: SocketMode
  /** Whether it joins the network namespace of a relay (network/relay.ts) instead of a new one. */
  readonly relayed: boolean
  readonly namespaces: readonly string[]
}
type TierB = { readonly tier: 'B'; readonly executor: typeof SANDBOXES.B; readonly sockets: 'host' }
export type Profile = TierB | TierC
export type ProfileName = 'b_host' | 'c_offline' | 'c_relayed'

export const PROFILES = {
  b_host: { tier: 'B', executor: SANDBOXES.B, sockets: 'host' },
  c_offline: {
    tier: 'C',
    executor: SANDBOXES.C,
    sockets: 'no_sockets',
    relayed: false,
    // S24, S25, N01, N10. `--unshare-all` alone would tolerate a missing user namespace.
    namespaces: ['--unshare-all', '--unshare-user'],
  },
  c_relayed: {
    tier: 'C',
    executor: SANDBOXES.C,
    sockets: 'inet',
    relayed: true,
    namespaces: ['--unshare-user', '--unshare-ipc', '--unshare-pid', '--unshare-uts', '--unshare-cgroup'],
  },
} as const satisfies Readonly<Record<ProfileName, Profile>>

const MiB = 1024 * 1024
export const TMP_BYTES = 64 * MiB
const SHM_BYTES = 16 * MiB

export const WORKSPACE = '/workspace'
/**
 * The folder in a sandbox with the secrets that the tool's contract names, each in its own file.
 */
export const SECRETS = '/run/secrets'

/**
 * bubblewrap's options that are the same for all calls, in two parts: the workspace is mounted
 * between.
 */
export const BWRAP_BEFORE = [
  ...['--disable-userns', '--assert-userns-disabled'], // S06
  ...['--cap-drop', 'ALL'], // S17
  ...['--uid', '65534', '--gid', '65534', '--hostname', 'sandbox'],
  '--new-session', // S01
  '--die-with-parent', // S33–S35
  ...[
    '--ro-bind',
    '/usr',
    '/usr',
    '--symlink',
    'usr/bin',
    '/bin',
    '--symlink',
    'usr/lib',
    '/lib',
    '--symlink',
    'usr/lib64',
    '/lib64',
  ],
  ...[
    '--ro-bind-try',
    '/etc/ssl/certs',
    '/etc/ssl/certs',
    '--ro-bind-try',
    '/etc/alternatives',
    '/etc/alternatives',
  ],
  ...['--ro-bind-try', '/etc/ld.so.cache', '/etc/ld.so.cache'], // or libraries below /usr/local are not found
  // S53, D13: the host's kernel command line may hold an operator's secrets.
  ...['--proc', '/proc', '--ro-bind', '/dev/null', '/proc/cmdline'],
  ...[
    '--dev',
    '/dev',
    '--perms',
    '1777',
    '--size',
    `${SHM_BYTES}`,
    '--tmpfs',
    '/dev/shm',
    '--remount-ro',
    '/dev',
  ], // S18, S29
  ...['--perms', '1777', '--size', `${TMP_BYTES}`, '--tmpfs', '/tmp'], // S29
] as const
export const BWRAP_AFTER = [
  ...['--remount-ro', '/'], // S29
  '--clearenv', // S22, together with the empty environment that bubblewrap itself is started with
] as const

/** A tool's environment before its contract adds to it. */
export const BASE_ENV = { PATH: '/usr/bin:/bin', LANG: 'C.UTF-8' } as const

/** `grace` is added to the hard limit; otherwise soft and hard are the same. */
type Rlimit = { readonly flag: string; readonly value: (limits: Limits) => number; readonly grace?: number }

/**
 * For every process of both tiers. Address space is unlimited: runtimes reserve far more than they
 * use.
 */
const EACH_PROCESS: readonly Rlimit[] = [
  { flag: '--cpu', value: ({ cpu_ms }) => Math.ceil(cpu_ms / 1000), grace: 1 }, // S38: SIGXCPU asks it to stop, then SIGKILL
  { flag: '--data', value: ({ memory_bytes }) => memory_bytes }, // S28, each process; a cgroup limits the sum
  { flag: '--fsize', value: ({ file_bytes }) => file_bytes }, // S30
  { flag: '--nofile', value: ({ open_files }) => open_files },
  { flag: '--core', value: () => 0 }, // V02: a dump would hold arguments
  { flag: '--memlock', value: () => 65536 },
  { flag: '--msgqueue', value: () => 0 },
  { flag: '--stack', value: () => 8 * MiB },
]

/**
 * Queued signals and timers of all processes of a call: the kernel counts them for each user
 * namespace, and for the host's user (D8).
 */
const SIGNALS_MAX = 512

export const RLIMITS: Readonly<Record<'B' | 'C', readonly Rlimit[]>> = {
  // Since Linux 5.14 processes are counted for each user namespace, so this is the sandbox's own
  // limit (S27, S39). The additional one is bubblewrap's init.
  C: [
    { flag: '--nproc', value: ({ pids }) => pids + 1 },
    { flag: '--sigpending', value: () => SIGNALS_MAX },
    ...EACH_PROCESS,
  ],
  // Here it counts all processes of the worker's user, with other calls and the worker: a backstop
  // against a fork bomb. The cgroup limits the one call.
  B: [{ flag: '--nproc', value: () => 1024 }, ...EACH_PROCESS],
}

/**
 * The profile that keeps the plan's promises. A plan whose promises its tier can't keep is refused
 * (L8).
 */
export function profileOf({
  tier,
  egress,
  files,
  outputs,
  workspace,
  ...given
}: Plan): Result<ProfileName, Refusal> {
  if (tier === 'B') {
    if (secretsOf(given).length > 0)
      return err(
        refused(
          'sandbox_unavailable',
          'tier B can’t hide secrets from other processes of the worker’s user; plan tier C',
        ),
      )
    if (workspace === 'run')
      return err(
        refused(
          'sandbox_unavailable',
          'tier B could run files that other calls left in the run’s folder; plan tier C',
        ),
      )
    if (files !== undefined || outputs !== undefined)
      return err(refused('sandbox_unavailable', 'tier B cannot keep files from being changed; plan tier C'))
    return egress.mode === 'strict'
      ? err(refused('sandbox_unavailable', 'tier B cannot enforce egress `strict`; plan tier C'))
      : ok('b_host')
  }
  if (egress.mode !== 'strict') {
    return err(
      refused(
        'sandbox_unavailable',
        `tier C can’t use the host’s network, which egress \`${egress.mode}\` needs; plan \`strict\``,
      ),
    )
  }
  return ok(egress.hosts.length === 0 ? 'c_offline' : 'c_relayed')
}
