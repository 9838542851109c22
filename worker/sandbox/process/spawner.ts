// A small helper process that starts sandboxes for the worker. Node spawns by forking, and a fork
// of the worker copies the page tables of all its memory: 2 ms of its one thread per call, plus
// page faults on later writes. The spawner is perl, like the gate (warm-gate.ts): 5 MB, no modules,
// no shell, and it interprets nothing that it receives.
//
// It receives requests on one pipe and reports on another. It reopens the worker's descriptors
// through /proc before it forks, so that the child has them by the time it reports the start. It
// dies with the worker, and its children die with it (S35).

import { constants } from 'node:fs'
import { constants as osConstants } from 'node:os'
import type { Readable, Writable } from 'node:stream'
import { getSystemErrorName } from 'node:util'
import { execa } from 'execa'
import { sealedSub } from '../kernel/sealed-input.ts'
import type { Machine } from '../kernel/syscalls.ts'
import { enterQuotaSub } from '../limits/namespace-quota.ts'
import type { Command } from '../plan/argv.ts'
import type { Host } from '../plan/host-programs.ts'
import { SIGNALS } from '../plan/verdict.ts'

/** The end of a started program. */
export type ProcessEnd = {
  readonly exitCode?: number | undefined
  readonly signal?: string | undefined
  readonly code?: string | undefined
  /** It ended because the spawner did. */
  readonly lost?: true
}
/**
 * A descriptor of ours that the child gets. `input`: the child reads a copy that it can't change
 * (sealed-input.ts).
 */
export type LentDescriptor = { readonly fd: number; readonly to: 'read' | 'write' | 'input' }
/** `pid` is undefined if the program could not be started. */
export type Spawned = { readonly pid: number | undefined; readonly ended: Promise<ProcessEnd> }

const CALLS = {
  x86_64: { close: 3, rt_sigprocmask: 14, setsid: 112, prctl: 157, openat: 257, signalfd4: 289, dup3: 292 },
  aarch64: { close: 57, rt_sigprocmask: 135, setsid: 157, prctl: 167, openat: 56, signalfd4: 74, dup3: 24 },
} as const satisfies Record<Machine, Record<string, number>>

/**
 * Descriptors are parked from ASIDE on before they get their numbers; the child keeps its report
 * pipe at REPORTING. Both lie beyond all numbers in use.
 */
const [ASIDE, REPORTING] = [128, 127]
const { SIGCHLD, SIGKILL } = osConstants.signals
const { O_RDONLY, O_WRONLY } = constants
const O_CLOEXEC = 0o2000000
/** Not a flag of open(2): asks for a copy of the file. */
const SEALED = 2 ** 30
const FLAGS: Readonly<Record<LentDescriptor['to'], number>> = {
  read: O_RDONLY,
  write: O_WRONLY,
  input: O_RDONLY | SEALED,
}
const [PR_SET_PDEATHSIG, SIG_BLOCK, SIG_SETMASK, AT_FDCWD] = [1, 0, 2, -100]

/**
 * Reports: `Q`, before the first `R`, if it can give sandboxes a quota (some hosts keep perl from
 * making user namespaces; it tries once). `R`: ready, also in answer to an empty request. `S id
 * pid`: started; the child writes this once it leads a group that can be killed. `X id errno`: not
 * started. `E id status`: ended, with a wait(2) status.
 */
const programOf = (
  machine: Machine,
  { close, rt_sigprocmask, setsid, prctl, openat, signalfd4, dup3 }: (typeof CALLS)[Machine],
): string =>
  `
${enterQuotaSub(machine)}${sealedSub(machine)}sub dies { syscall(${prctl}, ${PR_SET_PDEATHSIG}, ${SIGKILL}, 0, 0, 0) == 0 && getppid == shift or exit 1 }
dies(shift @ARGV);
$SIG{$_} = 'IGNORE' for qw(HUP INT TERM);
my $trial = fork;
exit(enter_quota() ? 0 : 1) if defined $trial && $trial == 0;
my $quota = defined $trial && waitpid($trial, 0) == $trial && $? == 0;
my $mask = pack('Q', 1 << ${SIGCHLD - 1});
syscall(${rt_sigprocmask}, ${SIG_BLOCK}, $mask, 0, 8) == 0 or exit 1;
my $number = syscall(${signalfd4}, -1, $mask, 8, ${O_CLOEXEC});
open my $children, '<&=', $number or exit 1;
my ($wanted, $buffer, %ids) = ('', '');
vec($wanted, $_, 1) = 1 for 0, $number;
syswrite STDOUT, $quota ? "Q\\nR\\n" : "R\\n";
while (1) {
  select(my $there = $wanted, undef, undef, undef);
  if (vec($there, $number, 1)) {
    sysread $children, my $one, 128;
    while ((my $pid = waitpid -1, 1) > 0) { syswrite STDOUT, "E " . delete($ids{$pid}) . " $?\\n" }
  }
  next unless vec($there, 0, 1);
  sysread(STDIN, $buffer, 65536, length $buffer) or exit;
  while ($buffer =~ /^([0-9]+)\\n/ && length $buffer >= length($1) + 1 + $1) {
    my $message = substr $buffer, length($1) + 1, $1;
    substr $buffer, 0, length($1) + 1 + $1, '';
    if ($message eq '') { syswrite STDOUT, "R\\n" }
    else { launch(split /\\0/, substr($message, 0, -1), -1) }
  }
}
sub launch {
  my ($id, $cwd, $limited) = (shift, shift, shift);
  my @env = splice @_, 0, shift;
  my %lent;
  my $failed = 0;
  for (splice @_, 0, shift) {
    my ($target, $flags, $path) = split / /, $_, 3;
    my $fd = syscall(${openat}, ${AT_FDCWD}, $path, $flags & ~${SEALED}, 0);
    $fd = sealed($fd) if $fd >= 0 && $flags & ${SEALED};
    if ($fd < 0) { $failed = $! + 0; last }
    $lent{$target} = $fd;
  }
  my $self = $$;
  my $pid = $failed ? undef : fork;
  $failed ||= $! + 0 unless defined $pid;
  if (defined $pid && $pid == 0) {
    dies($self);
    syscall(${dup3}, 1, ${REPORTING}, ${O_CLOEXEC});
    syscall(${dup3}, $lent{$_}, ${ASIDE} + $_, ${O_CLOEXEC}) for keys %lent;
    syscall(${close}, $_) for values %lent;
    syscall(${dup3}, ${ASIDE} + $_, $_, 0) for keys %lent;
    syscall(${setsid});
    syscall(${rt_sigprocmask}, ${SIG_SETMASK}, my $none = pack('Q', 0), 0, 8);
    $SIG{$_} = 'DEFAULT' for qw(HUP INT TERM);
    %ENV = map { split /=/, $_, 2 } @env;
    open my $report, '>&=', ${REPORTING};
    syswrite $report, "S $id $$\\n";
    chdir $cwd and (!$quota || !$limited || enter_quota()) and exec { $_[0] } @_;
    my $errno = $! + 0;
    syswrite $report, "X $id $errno\\n";
    exit 127;
  }
  syscall(${close}, $_) for values %lent;
  if ($failed) { syswrite STDOUT, "X $id $failed\\n" } else { $ids{$pid} = $id }
}
`.trim()

/** A spawner that does not answer within this time hangs, or is not our perl program. */
const ANSWERS_MS = 10_000

type Launch = {
  readonly started: (spawned: Spawned) => void
  readonly ended: Promise<ProcessEnd>
  readonly end: (end: ProcessEnd) => void
}
type SpawnerProcess = {
  readonly to: Writable
  readonly launches: Map<string, Launch>
  isOver: boolean
  hasQuota: boolean
}

export class Spawner {
  readonly #perl: string
  readonly #program: string
  #spawner: Promise<SpawnerProcess | undefined> | undefined
  #last = 0

  constructor({ programs }: Host, machine: Machine) {
    this.#perl = programs.perl
    this.#program = programOf(machine, CALLS[machine])
    this.#spawner = this.#open()
  }

  /**
   * Undefined if there is no spawner, for example without perl. Once it resolves, the caller may
   * close its own descriptors.
   */
  async spawn(
    command: Command,
    stdio: readonly (LentDescriptor | undefined)[],
  ): Promise<Spawned | undefined> {
    this.#spawner ??= this.#open()
    const spawner = await this.#spawner
    if (spawner === undefined) return undefined
    if (spawner.isOver) return this.spawn(command, stdio)
    const { program, args, cwd, env, quota } = command
    const id = `${++this.#last}`
    const variables = Object.entries(env).map(([name, value]) => `${name}=${value}`)
    const lent = stdio.flatMap((one, target) =>
      one === undefined ? [] : [`${target} ${FLAGS[one.to]} /proc/${process.pid}/fd/${one.fd}`],
    )
    const message = [
      id,
      cwd,
      quota ? 1 : 0,
      variables.length,
      ...variables,
      lent.length,
      ...lent,
      program,
      ...args,
    ]
      .map((one) => `${one}\0`)
      .join('')
    return new Promise((started) => {
      const { promise: ended, resolve: end } = Promise.withResolvers<ProcessEnd>()
      spawner.launches.set(id, { started, ended, end })
      spawner.to.write(`${Buffer.byteLength(message)}\n${message}`)
    })
  }

  /** Whether the sandboxes that it starts have a quota of inotify. */
  async hasQuota(): Promise<boolean> {
    this.#spawner ??= this.#open()
    const spawner = await this.#spawner
    return spawner?.hasQuota === true
  }

  async close(): Promise<void> {
    const spawner = await this.#spawner
    spawner?.to.end()
  }

  /**
   * Starts the spawner; resolves when it is ready. If it ends, its sandboxes end with it, and the
   * next start opens another.
   */
  #open(): Promise<SpawnerProcess | undefined> {
    const child = execa(this.#perl, ['-f', '-e', this.#program, `${process.pid}`], {
      stdio: ['pipe', 'pipe', 'inherit'],
      env: {},
      extendEnv: false,
      cwd: '/',
      detached: true, // a signal for the worker's process group must not reach it
      cleanup: false,
      buffer: false,
      reject: false,
    })
    const spawner: SpawnerProcess = { to: child.stdin, launches: new Map(), isOver: false, hasQuota: false }
    child.stdin.on('error', () => undefined) // the exit handler below reports its end
    let [isReady, hasAnswered] = [false, false]
    const checkAlive = (): void => {
      if (!hasAnswered) child.kill('SIGKILL') // SIGKILL also ends a stopped process
      hasAnswered = spawner.launches.size === 0
      if (!hasAnswered) spawner.to.write('0\n')
    }
    // After this process has stalled, read its pending answers first.
    const checking = setInterval(() => setImmediate(checkAlive), ANSWERS_MS).unref()
    return new Promise((ready) => {
      followLines(child.stdout, (text) => {
        isReady ||= text === 'R'
        spawner.hasQuota ||= text === 'Q'
        hasAnswered ||= isReady
        if (isReady) ready(spawner)
        handleReport(spawner, text)
      })
      void child.then(() => {
        clearInterval(checking)
        spawner.isOver = true
        if (isReady) this.#spawner = undefined
        else ready(undefined)
        for (const launch of spawner.launches.values()) finish(launch, { signal: 'SIGKILL', lost: true })
      })
    })
  }
}

/** Ends a launch. Its start, if there was one, has resolved already. */
function finish({ started, ended, end }: Launch, how: ProcessEnd): void {
  end(how)
  started({ pid: undefined, ended })
}

function handleReport({ launches }: SpawnerProcess, text: string): void {
  const [kind, id = '', number = ''] = text.split(' ')
  const launch = launches.get(id)
  if (launch === undefined) return
  if (kind === 'S') {
    launch.started({ pid: Number(number), ended: launch.ended })
    return
  }
  launches.delete(id)
  finish(launch, kind === 'E' ? endOf(Number(number)) : { code: getSystemErrorName(-Number(number)) })
}

/** Decodes a wait(2) status. */
function endOf(status: number): ProcessEnd {
  const signal = status & 0x7f
  return signal === 0 ? { exitCode: status >> 8 } : { signal: SIGNALS.get(signal) ?? `signal ${signal}` }
}

function followLines(stream: Readable, onLine: (line: string) => void): void {
  let rest = ''
  stream.setEncoding('latin1').on('data', (text: string) => {
    const lines = (rest + text).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) onLine(line)
  })
}
