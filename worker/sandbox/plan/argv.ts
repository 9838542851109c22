// Owns how a plan becomes the exact command: program, argv, environment, and the bytes that
// bubblewrap reads as its options. Pure. Host paths and options go through `--args`, so that the
// tool can read none of them in a command line (S23). The tool's own argv comes after `--`
// unchanged (S46), and no shell reads it.

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
import {
  type OperatorProfile,
  type OperatorProfiles,
  operatorMounts,
  operatorProfileOf,
} from './operator-profiles.ts'
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
 * Descriptors beyond the standard three. bubblewrap reads `args` and `seccomp`, writes `status`,
 * reads the content of files from `init`, `secrets` and those after it, and leaves none to the tool
 * (S21). The gate of a warm sandbox reads and closes `delivery` and `release`. 8 to 10 are reserved
 * for entering a cgroup (enter-cgroup.ts). Only process 1 of the sandbox has `lifeline` (init.ts).
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

/** The part of the host that an argv depends on. */
export type ArgvHost = Pick<Host, 'programs' | 'ceilings'>

/** The network namespace that was prepared for this call, and its proxy. */
export type Relay = {
  readonly pid: number
  readonly proxyUrl: string
  /** A file of the host with the authorities that the tool trusts, if they are not the host's. */
  readonly authorities?: string | undefined
}

/** The resources of the host that this one call runs with. */
export type CallResources = {
  /**
   * C: the run's folder, if the calls of a run share one. B: always a folder that no other call has
   * used.
   */
  readonly folder?: string
  /** C: the folder of the call's input files. */
  readonly inputs?: string
  /** C: the folder for the call's output files. */
  readonly outputs?: string
  readonly relay?: Relay
  /** B: a number by which process-tree.ts recognises all processes of this call. */
  readonly mark?: bigint
  /** B: the program that sets up the fence of tier B (tier-b-fence.ts). */
  readonly fence?: string
  /** The cgroup that limits and ends its processes together. They enter it first. */
  readonly group?: Group
}

export type Command = {
  readonly profile: ProfileName
  readonly program: string
  readonly args: readonly string[]
  /** Environment of `program`. The tool of tier C gets its own through bubblewrap's options. */
  readonly env: Readonly<Record<string, string>>
  readonly cwd: string
  /** The input that bubblewrap reads from its descriptors. */
  readonly bwrap:
    | {
        readonly options: Buffer
        readonly sockets: SocketMode
        /** Names, in the order of their descriptors. */
        readonly secrets: readonly string[]
      }
    | undefined
  /** Descriptors for the program that enters the cgroup, from `FIRST_GROUP_FD` on. */
  readonly groupFds: readonly number[]
  /**
   * Whether it starts inside a user namespace with its own limits (namespace-quota.ts). A relay's
   * namespace has them already.
   */
  readonly quota?: boolean
}

/** More variables would exceed bubblewrap's limit of options. Contracts of tools have far fewer. */
const ENV_MAX = 256
/** These would run foreign code in the programs that set the limits, before the limits are set. */
const LOADER_ENV = /^(?:LD_.*|GLIBC_TUNABLES|GCONV_PATH|LOCPATH|NLSPATH)$/

/**
 * A plan that this worker can carry out as written. Later steps take this type and check nothing
 * again.
 */
export type AdmittedPlan = {
  readonly plan: Plan
  readonly profile: ProfileName
  /** The operator's profile that the plan names. */
  readonly own: OperatorProfile | undefined
  readonly cwd: string
}

export function admit(plan: Plan, profiles: OperatorProfiles = {}): Result<AdmittedPlan, Refusal> {
  const profile = profileOf(plan)
  if (!profile.ok) return profile
  const own = operatorProfileOf(plan, profile.value, profiles)
  if (!own.ok) return own
  const { argv, env, cwd: asked } = plan.executor
  // The wire schema refuses NUL too (S47). Here it ends an option of bubblewrap: the rest of the
  // value would be read as another option.
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
  const cwd = normalCwd(asked)
  if (cwd === undefined)
    return err(
      refused(
        'workspace_scope_denied',
        '`cwd` must be a path inside the workspace, without `..` and not longer than a path may be',
      ),
    )
  return ok({ plan, profile: profile.value, own: own.value, cwd })
}

export function commandFor(admitted: AdmittedPlan, ground: ArgvHost, place: CallResources): Command {
  const command =
    admitted.profile === 'b_host'
      ? tierB(admitted, ground, place)
      : tierC(admitted, admitted.profile, ground, place)
  return inGroup(command, place)
}

function inGroup(command: Command, { group }: CallResources): Command {
  return group === undefined
    ? command
    : { ...command, program: group.enter, args: [command.program, ...command.args], groupFds: group.fds }
}

/**
 * A relative path in normal form; '' is the workspace itself. Undefined if it contains `..`, even
 * where that would stay inside.
 */
function normalCwd(cwd: string): string | undefined {
  if (cwdFault(cwd) !== undefined) return undefined
  const normal = posix.normalize(cwd).replace(/\/$/, '')
  return normal === '.' ? '' : normal
}

/** A limit of one process, by prlimit's option. */
export type Rlimit = { readonly flag: string; readonly soft: number; readonly hard: number }

export const rlimitsOf = ({ limits, tier }: Plan, { ceilings }: Pick<ArgvHost, 'ceilings'>): Rlimit[] =>
  RLIMITS[tier].map(({ flag, value, grace = 0 }) => {
    const ceiling = ceilings.get(flag) ?? Number.POSITIVE_INFINITY
    const soft = Math.min(value(limits), ceiling)
    return { flag, soft, hard: Math.min(soft + grace, ceiling) }
  })

function withLimits(plan: Plan, ground: ArgvHost, more: readonly string[] = []): string[] {
  const flags = rlimitsOf(plan, ground).map(
    ({ flag, soft, hard }) => `${flag}=${soft === hard ? soft : `${soft}:${hard}`}`,
  )
  return [ground.programs.prlimit, ...flags, ...more, '--']
}

/**
 * The command of a warm sandbox, for calls without hosts and without a shared folder. Only limits,
 * environment and argv are missing; the gate receives them with the call.
 */
export const warmCommand = (
  admitted: AdmittedPlan,
  ground: ArgvHost,
  place: CallResources,
  gate: readonly string[],
): Command => inGroup(sandbox(admitted, 'c_offline', ground, place, { env: BASE_TIER_C, argv: gate }), place)

const BASE_TIER_C = { ...BASE_ENV, HOME: '/tmp' }

function tierC(
  admitted: AdmittedPlan,
  profile: 'c_offline' | 'c_relayed',
  ground: ArgvHost,
  place: CallResources,
): Command {
  const { plan } = admitted
  const own = plan.executor.env
  const env = {
    ...BASE_TIER_C,
    ...(place.relay === undefined ? own : networkEnv(place.relay, plan.egress.hosts, own)),
  }
  return sandbox(admitted, profile, ground, place, {
    env,
    argv: [...withLimits(plan, ground), ...plan.executor.argv],
  })
}

/** Our process 1 (S33–S35, D1), as a copy, so that no mount shows a path of the host. */
export const OUR_INIT = ['--as-pid-1', '--perms', '0555', '--ro-bind-data', `${FD.init}`, INIT]

function sandbox(
  { plan, own, cwd }: AdmittedPlan,
  profile: 'c_offline' | 'c_relayed',
  ground: ArgvHost,
  { folder, inputs, outputs, relay }: CallResources,
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
      : ['--bind', folder, WORKSPACE] // no `--dir`: it would follow a link that an earlier call left
  const options = [
    ...['--json-status-fd', `${FD.status}`, '--seccomp', `${FD.seccomp}`],
    ...namespaces,
    ...BWRAP_BEFORE,
    ...(own === undefined ? [] : operatorMounts(own)),
    ...workspace,
    ...(relay?.authorities === undefined ? [] : ['--ro-bind', relay.authorities, AUTHORITIES]),
    // Outside the workspace, so that no link left there can redirect the mount.
    ...(inputs === undefined ? [] : ['--ro-bind', inputs, INPUT_FOLDER]),
    ...(outputs === undefined ? [] : ['--bind', outputs, OUTPUT_FOLDER]),
    ...['--chdir', at],
    ...secretFiles(plan.secrets),
    ...OUR_INIT,
    ...BWRAP_AFTER,
    ...Object.entries(env).flatMap(([name, value]) => ['--setenv', name, value]),
  ]
  if (options.some((option) => option.includes('\0')))
    throw new Error('a host folder for the sandbox has NUL in its path')
  const inner = [ground.programs.bwrap, '--args', `${FD.args}`, '--', INIT, ...argv]
  if (relayed !== (relay !== undefined))
    throw new Error('only the profile `c_relayed` has a relay, and it needs one')
  const command = relay === undefined ? inner : joinNetwork(ground.programs, relay.pid, inner)
  const [program = '', ...args] = command
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

/** Files in the sandbox's own memory, which only its user can read and nobody can change. */
const secretFiles = (names: readonly string[]): string[] =>
  names.flatMap((name, i) => ['--perms', '0400', '--file', `${FD.secrets + i}`, posix.join(SECRETS, name)])

/**
 * Runs `argv` in the namespace that the relay listens in. It belongs to a user namespace of ours,
 * so no privilege is needed.
 */
export const joinNetwork = (programs: Programs, pid: number, argv: readonly string[]): string[] => [
  programs.nsenter,
  ...['--target', `${pid}`, '--user', '--net', '--preserve-credentials', '--'],
  ...argv,
]

function tierB(
  { plan, cwd }: AdmittedPlan,
  ground: ArgvHost,
  { folder, mark, fence }: CallResources,
): Command {
  if (folder === undefined || mark === undefined || fence === undefined)
    throw new Error('tier B needs a folder, a mark and the fence program')
  const args = [...withLimits(plan, ground, [`--rttime=${mark}`]), ...plan.executor.argv]
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

/**
 * Identifies the started command: SHA-256 over each argv element, the options, and the call that a
 * gate received, each ended by NUL.
 */
export const argvDigest = ({ program, args, bwrap }: Command, delivery?: Buffer): string =>
  createHash('sha256')
    .update(`${[program, ...args].join('\0')}\0`)
    .update(bwrap?.options ?? '')
    .update(delivery ?? '')
    .digest('hex')
