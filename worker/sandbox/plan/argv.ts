// Owns the way from a plan to the exact command: program, argv, environment, and the bytes that bubblewrap reads as its options. Pure.
// Host paths and options go through `--args`, so that nothing of them is in a command line that the tool can read (S23).
// The tool's own argv arrives final, stands after `--` (S46), and no shell ever sees it.

import { createHash } from 'node:crypto'
import { posix } from 'node:path'
import { INPUT_FOLDER, OUTPUT_FOLDER } from '../../../shared/plan/call-files.ts'
import type { ProcessPlan as Plan } from '../../../shared/plan/plan.ts'
import { cwdFault } from '../../../shared/plan/working-directory.ts'
import { err, ok, type Result } from '../../../shared/result.ts'
import { INIT } from '../kernel/init.ts'
import type { SocketMode } from '../kernel/seccomp.ts'
import type { Group } from '../limits/cgroups.ts'
import type { Host, Programs } from './host-programs.ts'
import { type OwnProfile, type OwnProfiles, ownMounts, ownProfileOf } from './operator-profiles.ts'
import {
  BASE_ENV,
  BWRAP_AFTER,
  BWRAP_BEFORE,
  PROFILES,
  type ProfileName,
  profileOf,
  RLIMITS,
  SECRETS,
  WORKSPACE,
} from './profiles.ts'
import { AUTHORITIES, networkEnv } from './proxy-env.ts'
import { type Refusal, refused } from './verdict.ts'

/**
 * Descriptors beyond the standard three. bubblewrap reads the first two, writes the third, reads what it is to make files of from the last,
 * one after the other, and leaves none to the tool (S21). The gate of a sandbox that is set up in advance reads the two after the third,
 * and closes them. Then comes room for what enters a cgroup (enter.ts). The lifeline is for process 1 of the sandbox alone (init.ts).
 */
export const FD = {
  args: 3,
  seccomp: 4,
  status: 5,
  delivery: 6,
  release: 7,
  lifeline: 11,
  init: 12,
  secrets: 13,
} as const

/** What of the host an argv depends on. */
export type Ground = Pick<Host, 'programs' | 'ceilings'>

/** The network namespace that waits for this call, and the way out of it. */
export type Relay = {
  readonly pid: number
  readonly proxyUrl: string
  /** A file of the host: whom the tool trusts, where that is not whom the host trusts. */
  readonly authorities?: string | undefined
}

/** Where this one call runs. */
export type Place = {
  /** C: the run's folder on the host, if the calls of a run share one. B: a folder that no other call has been in, always. */
  readonly folder?: string
  /** C: the folder of the files that the call brings. */
  readonly inputs?: string
  /** C: the folder for what the call leaves. */
  readonly outputs?: string
  readonly relay?: Relay
  /** B: recognises this call's processes, wherever they went (see tree.ts). */
  readonly mark?: number
  /** B: the program that puts the fence around it. */
  readonly fence?: string
  /** What counts its processes together, and ends them; they enter it before anything else. */
  readonly group?: Group
}

export type Command = {
  readonly profile: ProfileName
  readonly program: string
  readonly args: readonly string[]
  /** Of `program`. The tool of tier C gets its own through the options. */
  readonly env: Readonly<Record<string, string>>
  readonly cwd: string
  /** What bubblewrap reads from its descriptors. */
  readonly bwrap:
    | {
        readonly options: Buffer
        readonly sockets: SocketMode /** By name, in the order of their descriptors. */
        readonly secrets: readonly string[]
      }
    | undefined
  /** For the program that enters the cgroup, from `FIRST_GROUP_FD` on. */
  readonly groupFds: readonly number[]
  /** Whether it starts inside a user namespace with limits of its own (quota.ts). A relay's namespace has them already. */
  readonly quota?: boolean
}

/** More would exceed what bubblewrap takes as options; no tool's contract comes near. */
const ENV_MAX = 256
/** Would run foreign code in the programs that set the limits, before they are set. */
const LOADER_ENV = /^(?:LD_.*|GLIBC_TUNABLES|GCONV_PATH|LOCPATH|NLSPATH)$/

/** A plan that this worker can carry out as written. Everything after works on this, and checks nothing again. */
export type Admitted = {
  readonly plan: Plan
  readonly profile: ProfileName
  /** What this worker's own profile adds to it. */
  readonly own: OwnProfile | undefined
  readonly cwd: string
}

export function admit(plan: Plan, profiles: OwnProfiles = {}): Result<Admitted, Refusal> {
  const profile = profileOf(plan)
  if (!profile.ok) return profile
  const own = ownProfileOf(plan, profile.value, profiles)
  if (!own.ok) return own
  const { argv, env, cwd: asked } = plan.executor
  // The wire's schema says so too. Here NUL ends an option of bubblewrap: a value with one could be an option of its own.
  if ([...argv, ...Object.entries(env).flat(), asked].some((text) => text.includes('\0'))) {
    return err(refused('invalid_input', 'NUL is not allowed in arguments, environment and `cwd`'))
  }
  const names = Object.keys(env)
  if (names.length > ENV_MAX)
    return err(
      refused('invalid_input', `at most ${ENV_MAX} environment variables; there are ${names.length}`),
    )
  const loader = names.find((name) => LOADER_ENV.test(name))
  if (loader !== undefined) return err(refused('invalid_input', `the environment may not set \`${loader}\``))
  const cwd = inside(asked)
  if (cwd === undefined)
    return err(
      refused(
        'workspace_scope_denied',
        '`cwd` must stay in the workspace, and be no longer than a path may be',
      ),
    )
  return ok({ plan, profile: profile.value, own: own.value, cwd })
}

export function commandFor(admitted: Admitted, ground: Ground, place: Place): Command {
  const command =
    admitted.profile === 'b_host'
      ? tierB(admitted, ground, place)
      : tierC(admitted, admitted.profile, ground, place)
  return grouped(command, place)
}

function grouped(command: Command, { group }: Place): Command {
  return group === undefined
    ? command
    : { ...command, program: group.enter, args: [command.program, ...command.args], groupFds: group.fds }
}

/** A relative path in normal form; '' is the workspace itself. Judged as written: no `..`, whatever it would lead to. */
function inside(cwd: string): string | undefined {
  if (cwdFault(cwd) !== undefined) return undefined
  const normal = posix.normalize(cwd).replace(/\/$/, '')
  return normal === '.' ? '' : normal
}

/** A limit of one process, by prlimit's option. */
export type Rlimit = { readonly flag: string; readonly soft: number; readonly hard: number }

export const rlimitsOf = ({ limits, tier }: Plan, { ceilings }: Pick<Ground, 'ceilings'>): Rlimit[] =>
  RLIMITS[tier].map(({ flag, value, grace = 0 }) => {
    const ceiling = ceilings.get(flag) ?? Number.POSITIVE_INFINITY
    const soft = Math.min(value(limits), ceiling)
    return { flag, soft, hard: Math.min(soft + grace, ceiling) }
  })

function limited(plan: Plan, ground: Ground, more: readonly string[] = []): string[] {
  const flags = rlimitsOf(plan, ground).map(
    ({ flag, soft, hard }) => `${flag}=${soft === hard ? soft : `${soft}:${hard}`}`,
  )
  return [ground.programs.prlimit, ...flags, ...more, '--']
}

/** The sandbox of a call without hosts and without a shared folder, as it waits for one: all but limits, environment and argv stands. */
export const waitingFor = (
  admitted: Admitted,
  ground: Ground,
  place: Place,
  gate: readonly string[],
): Command => grouped(sandbox(admitted, 'c_offline', ground, place, { env: BASE_TIER_C, argv: gate }), place)

const BASE_TIER_C = { ...BASE_ENV, HOME: '/tmp' }

function tierC(
  admitted: Admitted,
  profile: 'c_offline' | 'c_relayed',
  ground: Ground,
  place: Place,
): Command {
  const { plan } = admitted
  const own = plan.executor.env
  const env = {
    ...BASE_TIER_C,
    ...(place.relay === undefined ? own : networkEnv(place.relay, plan.egress.hosts, own)),
  }
  return sandbox(admitted, profile, ground, place, {
    env,
    argv: [...limited(plan, ground), ...plan.executor.argv],
  })
}

/** S33–S35, D1. A copy of the program, so that no mount shows a path of the host. */
export const OUR_INIT = ['--as-pid-1', '--perms', '0555', '--ro-bind-data', `${FD.init}`, INIT]

function sandbox(
  { plan, own, cwd }: Admitted,
  profile: 'c_offline' | 'c_relayed',
  ground: Ground,
  { folder, inputs, outputs, relay }: Place,
  { env, argv }: { readonly env: Readonly<Record<string, string>>; readonly argv: readonly string[] },
): Command {
  const { namespaces, sockets, relayed } = PROFILES[profile]
  const at = posix.join(WORKSPACE, cwd)
  const workspace =
    folder === undefined
      ? [
          '--perms',
          '0700',
          '--size',
          `${plan.limits.workspace_bytes}`,
          '--tmpfs',
          WORKSPACE,
          ...(cwd === '' ? [] : ['--dir', at]),
        ]
      : ['--bind', folder, WORKSPACE] // no `--dir`: it would follow what an earlier call left there
  const options = [
    ...['--json-status-fd', `${FD.status}`, '--seccomp', `${FD.seccomp}`],
    ...namespaces,
    ...BWRAP_BEFORE,
    ...(own === undefined ? [] : ownMounts(own)),
    ...workspace,
    ...(relay?.authorities === undefined ? [] : ['--ro-bind', relay.authorities, AUTHORITIES]),
    ...(inputs === undefined ? [] : ['--ro-bind', inputs, INPUT_FOLDER]), // beside the workspace: no link in that leads here
    ...(outputs === undefined ? [] : ['--bind', outputs, OUTPUT_FOLDER]),
    ...['--chdir', at],
    ...secretFiles(plan.secrets),
    ...OUR_INIT,
    ...BWRAP_AFTER,
    ...Object.entries(env).flatMap(([name, value]) => ['--setenv', name, value]),
  ]
  if (options.some((option) => option.includes('\0')))
    throw new Error('a folder of the host has NUL in its name')
  const inner = [ground.programs.bwrap, '--args', `${FD.args}`, '--', INIT, ...argv]
  if (relayed !== (relay !== undefined)) throw new Error('a relay is for the profile that needs one')
  const joined = relay === undefined ? inner : joinNetwork(ground.programs, relay.pid, inner)
  const [program = '', ...args] = joined
  return {
    profile,
    program,
    args,
    env: {},
    cwd: '/',
    groupFds: [],
    quota: !relayed,
    bwrap: { options: Buffer.from(`${options.join('\0')}\0`), sockets, secrets: plan.secrets },
  }
}

/** Memory of the sandbox's own, which its user alone can read and nobody can change. */
const secretFiles = (names: readonly string[]): string[] =>
  names.flatMap((name, i) => ['--perms', '0400', '--file', `${FD.secrets + i}`, posix.join(SECRETS, name)])

/** Into the namespace that the relay listens in. It belongs to a user namespace of ours, so no privilege is needed. */
export const joinNetwork = (programs: Programs, pid: number, argv: readonly string[]): string[] => [
  programs.nsenter,
  ...['--target', `${pid}`, '--user', '--net', '--preserve-credentials', '--'],
  ...argv,
]

function tierB({ plan, cwd }: Admitted, ground: Ground, { folder, mark, fence }: Place): Command {
  if (folder === undefined || mark === undefined || fence === undefined)
    throw new Error('tier B runs in a folder, under a mark, in a fence')
  const args = [...limited(plan, ground, [`--rttime=${mark}`]), ...plan.executor.argv]
  const env = { ...BASE_ENV, HOME: folder, TMPDIR: folder, ...plan.executor.env }
  return {
    profile: 'b_host',
    program: fence,
    args,
    env,
    cwd: posix.join(folder, cwd),
    bwrap: undefined,
    groupFds: [],
  }
}

/** The identity of what was started: every argv element, then the options, then what a gate was handed, each ended by NUL. */
export const argvDigest = ({ program, args, bwrap }: Command, delivery?: Buffer): string =>
  createHash('sha256')
    .update(`${[program, ...args].join('\0')}\0`)
    .update(bwrap?.options ?? '')
    .update(delivery ?? '')
    .digest('hex')
