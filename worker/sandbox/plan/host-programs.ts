// Owns the inventory of the host before anything runs: its programs, their versions, its kernel and
// machine. The canaries (probe/) prove that they work. Programs are looked for in system folders
// only, because a PATH could lead anywhere.

import { execFile } from 'node:child_process'
import { accessSync, constants, readFileSync } from 'node:fs'
import { arch, platform, release } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { type Machine, machineOf } from '../kernel/syscalls.ts'

const FOLDERS = ['/usr/bin', '/usr/sbin', '/bin', '/sbin', '/usr/local/bin']

/** Debian's package of each program, to name when one is missing. */
const PACKAGES = {
  bwrap: 'bubblewrap',
  prlimit: 'util-linux',
  setpriv: 'util-linux',
  unshare: 'util-linux',
  nsenter: 'util-linux',
  mkfifo: 'coreutils',
  socat: 'socat',
  ip: 'iproute2',
  perl: 'perl-base',
} as const
export type Programs = Readonly<Record<keyof typeof PACKAGES, string>>

/** The first version with `--disable-userns`. */
const BWRAP_NEEDED = '0.8.0'
/** The first version that counts RLIMIT_NPROC for each user namespace (S39). */
const KERNEL_NEEDED = '5.14'

export type Host = {
  readonly platform: NodeJS.Platform
  readonly machine: Machine | undefined
  readonly uid: number
  /** Paths. A missing program has its bare name, which can't be started. */
  readonly programs: Programs
  readonly missing: readonly (keyof Programs)[]
  /**
   * The worker's own hard limits. A process that it starts can't have more, and asking for more
   * fails.
   */
  readonly ceilings: ReadonlyMap<string, number>
  readonly versions: Readonly<Record<'kernel' | 'bubblewrap' | 'util_linux' | 'node', string>>
}

export async function findHost(): Promise<Host> {
  const names = Object.keys(PACKAGES) as (keyof Programs)[] // Object.keys loses the type
  const found = new Map(names.map((name) => [name, locate(name)]))
  // Object.fromEntries loses the keys' type.
  const programs = Object.fromEntries(names.map((name) => [name, found.get(name) ?? name])) as Programs
  const [bubblewrap, util_linux] = await Promise.all([versionOf(programs.bwrap), versionOf(programs.prlimit)])
  return {
    platform: platform(),
    machine: machineOf(arch()),
    uid: process.getuid?.() ?? 0,
    programs,
    missing: names.filter((name) => found.get(name) === undefined),
    ceilings: ceilingsOf(readFileSync('/proc/self/limits', 'utf8')),
    versions: { kernel: release(), bubblewrap, util_linux, node: process.version },
  }
}

/** For each line of /proc/self/limits that a profile sets, prlimit's option. */
const LIMIT_LINES: Readonly<Record<string, string>> = {
  'Max cpu time': '--cpu',
  'Max file size': '--fsize',
  'Max data size': '--data',
  'Max stack size': '--stack',
  'Max processes': '--nproc',
  'Max open files': '--nofile',
  'Max locked memory': '--memlock',
  'Max msgqueue size': '--msgqueue',
  'Max pending signals': '--sigpending',
}

/** Parses the columns name, soft, hard and unit. Leaves out `unlimited`. */
function ceilingsOf(limits: string): Map<string, number> {
  const rows = [...limits.matchAll(/^(.+?) {2,}\S+ +([0-9]+)/gm)]
  return new Map(
    rows.flatMap(([, name = '', hard]) =>
      LIMIT_LINES[name] === undefined ? [] : [[LIMIT_LINES[name], Number(hard)]],
    ),
  )
}

const locate = (name: string): string | undefined =>
  FOLDERS.map((folder) => join(folder, name)).find((path) => {
    try {
      accessSync(path, constants.X_OK)
      return true
    } catch {
      return false
    }
  })

async function versionOf(program: string): Promise<string> {
  try {
    const { stdout } = await promisify(execFile)(program, ['--version'], { env: {}, timeout: 5_000 })
    return /[0-9]+(?:\.[0-9]+)+/.exec(stdout)?.[0] ?? ''
  } catch {
    return ''
  }
}

export type Ability = 'B' | 'C' | 'egress'
/** An ability that only makes calls faster. */
type Extra = 'prepared'

const NEEDS: Readonly<Record<Ability | Extra, readonly (keyof Programs)[]>> = {
  B: ['mkfifo', 'prlimit'],
  C: ['mkfifo', 'prlimit', 'bwrap'],
  egress: ['mkfifo', 'prlimit', 'bwrap', 'unshare', 'nsenter', 'setpriv', 'socat', 'ip'],
  prepared: ['mkfifo', 'prlimit', 'bwrap', 'perl'],
}

/** Why no host of this kind can run sandboxes, whatever is installed; undefined if it can. */
export function wrongPlatform({ platform, machine }: Pick<Host, 'platform' | 'machine'>): string | undefined {
  if (platform !== 'linux')
    return `this worker runs on \`${platform}\`, but sandboxes need Linux: use a Linux worker`
  if (machine !== undefined) return undefined
  return `no seccomp filter is known for this machine (\`${arch()}\`): use x86_64 or aarch64`
}

/** Reasons, known before trying, why this host lacks an ability; each with what to do. */
export function obstacles(
  { uid, missing, versions }: Pick<Host, 'uid' | 'missing' | 'versions'>,
  ability: Ability | Extra,
): string[] {
  const reasons: string[] = []
  if (uid === 0) reasons.push('the worker runs as root: start it as a dedicated user')
  for (const name of NEEDS[ability])
    if (missing.includes(name)) reasons.push(`\`${name}\` is missing: install \`${PACKAGES[name]}\``)
  if (ability === 'B') return reasons
  if (versions.bubblewrap !== '' && older(versions.bubblewrap, BWRAP_NEEDED)) {
    reasons.push(`bubblewrap ${versions.bubblewrap} is too old: install ${BWRAP_NEEDED} or newer`)
  }
  if (older(versions.kernel, KERNEL_NEEDED))
    reasons.push(`Linux ${versions.kernel} is too old: use ${KERNEL_NEEDED} or newer`)
  return reasons
}

function older(version: string, needed: string): boolean {
  const [have, want] = [version, needed].map((text) => text.split(/[.-]/).map(Number))
  for (const [index, number] of (want ?? []).entries()) {
    const mine = have?.[index] ?? 0
    if (mine !== number) return !(mine > number)
  }
  return false
}

/**
 * Settings by which kernels and distributions turn user namespaces off, each with the command that
 * turns them on for good.
 */
const SWITCHES = [
  ['/proc/sys/kernel/unprivileged_userns_clone', '0', sysctl('kernel.unprivileged_userns_clone', 1)],
  ['/proc/sys/user/max_user_namespaces', '0', sysctl('user.max_user_namespaces', 65536)],
  [
    '/proc/sys/kernel/apparmor_restrict_unprivileged_userns', // Ubuntu from 24.04 on
    '1',
    'run `sudo cp infra/apparmor/countersign-bwrap /etc/apparmor.d/ && sudo apparmor_parser -r /etc/apparmor.d/countersign-bwrap`',
  ],
] as const

function sysctl(name: string, value: number): string {
  return `run \`echo '${name} = ${value}' | sudo tee /etc/sysctl.d/60-countersign.conf && sudo sysctl --system\``
}

/** Commands that turn user namespaces on here; empty if no known setting turns them off. */
export const namespacesOff = (read: (path: string) => string): string[] =>
  SWITCHES.flatMap(([path, off, todo]) => (read(path).trim() === off ? [todo] : []))
