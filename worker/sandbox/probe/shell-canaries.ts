// The canaries that use programs of every Linux: each runs inside a sandbox, prints what it sees
// there, and a pure function judges the output. probe.ts runs them.

import type { Limits, Outcome } from '../../../shared/plan/plan.ts'
import { I386 } from '../kernel/elf.ts'
import { INIT } from '../kernel/init.ts'
import type { Machine } from '../kernel/syscalls.ts'
import type { Ability } from '../plan/host-programs.ts'
import type { Check } from '../plan/proven.ts'
import { kernelCanary, type Outside, type Sizes } from './syscall-canary.ts'

export type Seen = {
  readonly outcome: Outcome
  readonly stdout: string
  readonly stderr: string
  /** The worker's uid. */
  readonly uid: number
  /**
   * Counts the canary's processes that still exist. It reads the command lines of all processes of
   * the host, so only a canary that needs the number calls it.
   */
  readonly left: () => number
}

export type Canary = {
  readonly ability: Ability
  readonly name: string
  /** `secret` is a number that only this canary has. */
  readonly argv: (secret: string) => string[]
  readonly stdin?: string | Buffer
  /** A program of our own, in the canary's folder as OWN_PROGRAM. */
  readonly program?: Buffer
  readonly limits?: Partial<Limits>
  /** Cancelled at its first output. */
  readonly endsAtOutput?: true
  readonly judge: (seen: Seen) => readonly Check[]
  /** Advice for an operator if it fails. */
  readonly fix: string
}

const FILES = ['status', 'uid_map', 'limits', 'mountinfo'].map((name) => `/proc/self/${name}`)
const INIT_FILES = ['/proc/1/environ', '/proc/1/cmdline', '/proc/net/dev']
const HEAD_OPTIONS = ['--verbose', '--bytes=16384']

/** Parses the output of `head --verbose`, which precedes each file with its name. */
function filesIn(text: string): Map<string, string> {
  const parts = text.split(/(?:^|\n)==> (\S+) <==\n/).slice(1)
  return new Map(
    parts.flatMap((name, index) => (index % 2 === 0 ? [[name, parts[index + 1] ?? ''] as const] : [])),
  )
}

const field = (status: string, name: string): string =>
  new RegExp(`^${name}:\\s*(.*)$`, 'm').exec(status)?.[1] ?? ''

function check(name: string, ok: boolean, seen: string): Check {
  return { name, ok, detail: seen.trim().slice(0, 200) }
}

const onlyThree = ({ stdout }: Seen): Check[] => {
  const open = stdout.trim().split(/\s+/)
  return [
    check(
      'S21 only descriptors 0, 1, 2',
      open.join() === '0,1,2,3',
      `${open.join(' ')} (3 is the list itself)`,
    ),
  ]
}

const noneLeft =
  (name: string, wanted: Outcome['kind']) =>
  (seen: Seen): Check[] => {
    const [left, { kind }] = [seen.left(), seen.outcome]
    return [check(name, left === 0 && kind === wanted, `${left} left, ended by ${kind}`)]
  }

function insideC({ stdout, stderr, uid }: Seen): Check[] {
  const files = filesIn(stdout)
  const of = (name: string): string => files.get(name) ?? ''
  const status = of('/proc/self/status')
  const capabilities = ['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb']
    .map((name) => field(status, name))
    .join(' ')
  const map = of('/proc/self/uid_map').trim()
  const commandLine = of('/proc/1/cmdline').replaceAll('\0', ' ')
  const interfaces = [...of('/proc/net/dev').matchAll(/^\s*([^\s:|]+):/gm)].map(([, name]) => name).join(' ')
  const mounts = of('/proc/self/mountinfo').trim().split('\n')
  const root = mounts.find((line) => line.split(' ')[4] === '/') ?? ''
  const setuid = mounts.filter((line) => !/\bnosuid\b/.test(line.split(' ')[5] ?? ''))
  return [
    check('user namespace', /^65534\s+\d+\s+1$/.test(map) && uid !== 0, map),
    check('S17 no capabilities', /^(?:0{16} ?){5}$/.test(capabilities), capabilities),
    ...confined(status),
    check(
      'S22 the environment of init is closed',
      /^head: [^\n]*environ[^\n]*: Permission denied$/m.test(stderr),
      stderr || of('/proc/1/environ'),
    ),
    check(
      'S23 the command line of init begins with the tool',
      commandLine.startsWith(`${INIT} /`),
      commandLine,
    ),
    check('S24 process namespace', Number(field(status, 'Pid')) < 10, `pid ${field(status, 'Pid')}`),
    check('N01 no network but loopback', interfaces === 'lo', interfaces),
    check('S29 read-only root', /^ro,/.test(root.split(' ')[5] ?? ''), root),
    check(
      'S20 every mount nosuid',
      mounts.length > 5 && setuid.length === 0,
      setuid.join(' | ') || `${mounts.length} mounts`,
    ),
  ]
}

const confined = (status: string): Check[] => [
  check(
    'S19 no new privileges',
    field(status, 'NoNewPrivs') === '1',
    `NoNewPrivs ${field(status, 'NoNewPrivs')}`,
  ),
  check('seccomp filter', field(status, 'Seccomp') === '2', `Seccomp ${field(status, 'Seccomp')}`),
]

function insideB({ stdout, uid }: Seen): Check[] {
  const files = filesIn(stdout)
  const status = files.get('/proc/self/status') ?? ''
  const limits = files.get('/proc/self/limits') ?? ''
  const names = (files.get('/proc/self/environ') ?? '')
    .split('\0')
    .map((entry) => entry.split('=')[0])
    .filter(Boolean)
    .sort()
    .join(' ')
  return [
    check(
      'own user',
      uid !== 0 &&
        field(status, 'Uid')
          .split(/\s+/)
          .every((id) => id === `${uid}`),
      `uid ${field(status, 'Uid')}`,
    ),
    ...confined(status),
    check(
      'limits',
      /^Max core file size +0 +0 /m.test(limits) && /^Max open files +64 +64 /m.test(limits),
      /^Max open files.*$/m.exec(limits)?.[0] ?? '',
    ),
    check('S22 scrubbed environment', names === 'HOME LANG PATH TMPDIR', names),
  ]
}

export const OWN_PROGRAM = './canary'

/** Canaries with a program of our own, which makes system calls that common programs can't. */
export function kernelCanaries(machine: Machine, outside: Outside, sizes: Sizes): Canary[] {
  const ownProgram = (['B', 'C', 'egress'] as const).map((ability): Canary => {
    const { program, judge } = kernelCanary(ability, machine, outside, sizes)
    return {
      ability,
      name: 'kernel',
      program,
      argv: () => [OWN_PROGRAM],
      judge: ({ stdout }) => judge(Buffer.from(stdout, 'latin1')),
      fix: 'report this kernel, its configuration and the version of bubblewrap',
    }
  })
  const by32Bit = (['B', 'C', 'egress'] as const).map(
    (ability): Canary => ({
      ability,
      name: '32-bit system calls',
      program: I386,
      argv: () => [OWN_PROGRAM],
      judge: ({ outcome }) => [
        check('S12 no 32-bit system calls', isKilled(outcome), JSON.stringify(outcome)),
      ],
      fix: 'the seccomp filter is not in force: report this kernel and its configuration',
    }),
  )
  return machine === 'x86_64' ? [...ownProgram, ...by32Bit] : ownProgram
}

/** A sandbox with egress must pass the same checks. */
const alsoRelayed = (canary: Canary): readonly Canary[] =>
  canary.ability === 'C' ? [canary, { ...canary, ability: 'egress' }] : [canary]

/** Killed by the filter, or because this kernel has no 32-bit system calls. */
const isKilled = (outcome: Outcome): boolean =>
  outcome.kind === 'signal' && ['SIGSYS', 'SIGSEGV'].includes(outcome.signal)

const DESCRIPTORS: Omit<Canary, 'ability'> = {
  name: 'descriptors',
  argv: () => ['ls', '/proc/self/fd'],
  judge: onlyThree,
  fix: 'start the worker through `countersign-worker run`, which closes what it inherited',
}

const TABLE: readonly Canary[] = [
  {
    ability: 'C',
    name: 'inside',
    argv: () => ['head', ...HEAD_OPTIONS, ...FILES, ...INIT_FILES],
    judge: insideC,
    fix: 'install bubblewrap 0.8 or newer from your distribution and start the worker as a dedicated user',
  },
  { ability: 'C', ...DESCRIPTORS },
  {
    ability: 'C',
    name: 'namespaces',
    argv: () => ['unshare', '--user', 'true'],
    judge: ({ outcome, stderr }) => [
      check(
        'S06 no new user namespace',
        outcome.kind === 'exit' && outcome.code !== 0 && /not permitted/.test(stderr),
        stderr || 'it got one',
      ),
    ],
    fix: 'the seccomp filter is not in force: report this kernel and its configuration',
  },
  {
    ability: 'C',
    name: 'files',
    argv: () => ['touch', '/canary', '/usr/canary', '/dev/canary', '/workspace/canary', '/tmp/canary'],
    judge: ({ stderr }) => [
      check(
        'S29 writes only workspace and /tmp',
        /^(?:touch: cannot touch '\/(?:canary|usr\/canary|dev\/canary)': .*\n){3}$/.test(stderr),
        stderr,
      ),
    ],
    fix: 'install bubblewrap 0.8 or newer from your distribution',
  },
  {
    ability: 'C',
    name: 'init',
    argv: () => ['dd', 'if=/dev/null', 'of=/proc/1/mem', 'conv=notrunc'],
    judge: ({ outcome, stderr }) => [
      check(
        'D1 the memory of init can’t be opened',
        outcome.kind === 'exit' && outcome.code !== 0 && /Permission denied/.test(stderr),
        stderr || 'it was opened',
      ),
    ],
    fix: 'this kernel lets a process write to one that is not dumpable: report it and its configuration',
  },
  {
    ability: 'C',
    name: 'daemon',
    argv: (secret) => ['setsid', '--fork', 'sleep', secret],
    judge: noneLeft('S33 no daemon survives', 'exit'),
    fix: 'this kernel does not end a process namespace with its init: report it',
  },
  {
    ability: 'C',
    name: 'cancel',
    argv: (secret) => ['tail', '--follow', '--lines=1', `--sleep-interval=${secret}`, '/proc/self/uid_map'],
    endsAtOutput: true,
    judge: noneLeft('S34 a cancelled call ends at once', 'cancelled'),
    fix: 'bubblewrap does not die with its parent: install 0.8 or newer',
  },
  {
    ability: 'B',
    name: 'inside',
    argv: () => ['head', ...HEAD_OPTIONS, '/proc/self/status', '/proc/self/limits', '/proc/self/environ'],
    judge: insideB,
    fix: 'install util-linux 2.38 or newer and start the worker as a dedicated user',
  },
  { ability: 'B', ...DESCRIPTORS },
  {
    ability: 'B',
    name: 'daemon',
    argv: (secret) => ['setsid', '--fork', 'sleep', secret],
    judge: noneLeft('S33 no daemon survives', 'exit'),
    fix: 'the worker must see its own processes: mount /proc without hidepid for it',
  },
  {
    ability: 'egress',
    name: 'relay',
    // The proxy ends it, or the canary's timeout.
    argv: () => ['socat', '-t', '60', '-', 'TCP:127.0.0.1:3128'],
    stdin: 'CONNECT canary.invalid:443 HTTP/1.1\r\nhost: canary.invalid:443\r\n\r\n',
    judge: ({ stdout, stderr }) => [
      check('N12 the proxy answers its own call only', /^HTTP\/1\.1 407 /.test(stdout), stdout || stderr),
    ],
    fix: 'install socat, iproute2 and util-linux, and allow user namespaces',
  },
  {
    ability: 'egress',
    name: 'route',
    argv: () => ['socat', '-', 'TCP:192.0.2.1:80,connect-timeout=2'],
    judge: ({ stderr }) => [
      check('N01 no way past the proxy', /unreachable/i.test(stderr), stderr || 'it got through'),
    ],
    fix: 'the network namespace has a route: report how this host is set up',
  },
  {
    ability: 'egress',
    name: 'sockets',
    argv: () => ['socat', '-', 'UNIX-CONNECT:/workspace/none'],
    judge: ({ stderr }) => [
      check('S26 no unix sockets', /Address family not supported/.test(stderr), stderr || 'it got one'),
    ],
    fix: 'the seccomp filter is not in force: report this kernel and its configuration',
  },
]

export const CANARIES: readonly Canary[] = TABLE.flatMap(alsoRelayed)
