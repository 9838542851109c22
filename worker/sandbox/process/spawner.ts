// Owns a small process that starts sandboxes in the worker's place. Node forks to spawn, and a fork of the worker copies the tables of all its
// memory: 2 ms of its one thread for each call, and more where the next writes go to pages that are shared since. This one is perl, as the gate
// is (gate.ts): 5 MB, no modules, no shell, and nothing that it is handed is ever read as a program.
//
// It is told by a pipe, and tells by another. Descriptors it opens anew, through the worker's own in /proc, before it forks: by the time that a
// start is told, the child has them. It dies with the worker, and what it started dies with it (S35).

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

/** How the started program ended. */
export type End = {
  readonly exitCode?: number | undefined
  readonly signal?: string | undefined
  readonly code?: string | undefined
  /** With what had started it. */
  readonly lost?: true
}
/** A descriptor of ours for the child, and its use. `input`: the child reads a copy that it can't change (sealed.ts). */
export type Lent = { readonly fd: number; readonly to: 'read' | 'write' | 'input' }
/** No pid: it could not be started. */
export type Spawned = { readonly pid: number | undefined; readonly ended: Promise<End> }

const CALLS = {
  x86_64: { close: 3, rt_sigprocmask: 14, setsid: 112, prctl: 157, openat: 257, signalfd4: 289, dup3: 292 },
  aarch64: { close: 57, rt_sigprocmask: 135, setsid: 157, prctl: 167, openat: 56, signalfd4: 74, dup3: 24 },
} as const satisfies Record<Machine, Record<string, number>>

/** Where descriptors stand before each gets its number, and where the child keeps the way to tell: beyond all numbers that are given. */
const [ASIDE, TELLING] = [128, 127]
const { SIGCHLD, SIGKILL } = osConstants.signals
const { O_RDONLY, O_WRONLY } = constants
const O_CLOEXEC = 0o2000000
/** Not a flag of open(2): asks for a copy of the file. */
const SEALED = 2 ** 30
const FLAGS: Readonly<Record<Lent['to'], number>> = {
  read: O_RDONLY,
  write: O_WRONLY,
  input: O_RDONLY | SEALED,
}
const [PR_SET_PDEATHSIG, SIG_BLOCK, SIG_SETMASK, AT_FDCWD] = [1, 0, 2, -100]

/**
 * Told: `Q`, before the first `R`, where it can give sandboxes a quota (a host may keep perl from making user namespaces; it tries once);
 * `R`, at the beginning and when asked whether it is there; `S id pid`, started, by the child once it leads a group that can be ended;
 * `X id errno`, not; `E id status`, ended as wait(2) has it.
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
    syscall(${dup3}, 1, ${TELLING}, ${O_CLOEXEC});
    syscall(${dup3}, $lent{$_}, ${ASIDE} + $_, ${O_CLOEXEC}) for keys %lent;
    syscall(${close}, $_) for values %lent;
    syscall(${dup3}, ${ASIDE} + $_, $_, 0) for keys %lent;
    syscall(${setsid});
    syscall(${rt_sigprocmask}, ${SIG_SETMASK}, my $none = pack('Q', 0), 0, 8);
    $SIG{$_} = 'DEFAULT' for qw(HUP INT TERM);
    %ENV = map { split /=/, $_, 2 } @env;
    open my $telling, '>&=', ${TELLING};
    syswrite $telling, "S $id $$\\n";
    chdir $cwd and (!$quota || !$limited || enter_quota()) and exec { $_[0] } @_;
    my $errno = $! + 0;
    syswrite $telling, "X $id $errno\\n";
    exit 127;
  }
  syscall(${close}, $_) for values %lent;
  if ($failed) { syswrite STDOUT, "X $id $failed\\n" } else { $ids{$pid} = $id }
}
`.trim()

/** What says nothing so long when it is asked stands still, or is no perl of ours. */
const ANSWERS_MS = 10_000

type Launch = {
  readonly started: (spawned: Spawned) => void
  readonly ended: Promise<End>
  readonly end: (end: End) => void
}
type Line = {
  readonly to: Writable
  readonly launches: Map<string, Launch>
  isOver: boolean
  hasQuota: boolean
}

export class Spawner {
  readonly #perl: string
  readonly #program: string
  #line: Promise<Line | undefined> | undefined
  #last = 0

  constructor({ programs }: Host, machine: Machine) {
    this.#perl = programs.perl
    this.#program = programOf(machine, CALLS[machine])
    this.#line = this.#open()
  }

  /** Undefined where there is none: perl is not here, say. Ours may be closed as soon as it is kept. */
  async spawn(command: Command, stdio: readonly (Lent | undefined)[]): Promise<Spawned | undefined> {
    this.#line ??= this.#open()
    const line = await this.#line
    if (line === undefined) return undefined
    if (line.isOver) return this.spawn(command, stdio)
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
      const { promise: ended, resolve: end } = Promise.withResolvers<End>()
      line.launches.set(id, { started, ended, end })
      line.to.write(`${Buffer.byteLength(message)}\n${message}`)
    })
  }

  /** Whether the sandboxes that it starts have a quota. */
  async hasQuota(): Promise<boolean> {
    this.#line ??= this.#open()
    const line = await this.#line
    return line?.hasQuota === true
  }

  async close(): Promise<void> {
    const line = await this.#line
    line?.to.end()
  }

  /** Resolves when it is ready. What it had begun when it ended has ended with it; the next start makes another. */
  #open(): Promise<Line | undefined> {
    const child = execa(this.#perl, ['-f', '-e', this.#program, `${process.pid}`], {
      stdio: ['pipe', 'pipe', 'inherit'],
      env: {},
      extendEnv: false,
      cwd: '/',
      detached: true, // what ends the worker's group is the worker's to answer
      cleanup: false,
      buffer: false,
      reject: false,
    })
    const line: Line = { to: child.stdin, launches: new Map(), isOver: false, hasQuota: false }
    child.stdin.on('error', () => undefined) // its end is told below
    let [isReady, isHeard] = [false, false]
    const ask = (): void => {
      if (!isHeard) child.kill('SIGKILL') // which ends what stands still, too
      isHeard = line.launches.size === 0
      if (!isHeard) line.to.write('0\n')
    }
    const asking = setInterval(() => setImmediate(ask), ANSWERS_MS).unref() // where we were held up, what it said is read first
    return new Promise((ready) => {
      followLines(child.stdout, (text) => {
        isReady ||= text === 'R'
        line.hasQuota ||= text === 'Q'
        isHeard ||= isReady
        if (isReady) ready(line)
        told(line, text)
      })
      void child.then(() => {
        clearInterval(asking)
        line.isOver = true
        if (isReady) this.#line = undefined
        else ready(undefined)
        for (const launch of line.launches.values()) over(launch, { signal: 'SIGKILL', lost: true })
      })
    })
  }
}

/** Where it had been started, that is told already. */
function over({ started, ended, end }: Launch, how: End): void {
  end(how)
  started({ pid: undefined, ended })
}

function told({ launches }: Line, text: string): void {
  const [kind, id = '', number = ''] = text.split(' ')
  const launch = launches.get(id)
  if (launch === undefined) return
  if (kind === 'S') {
    launch.started({ pid: Number(number), ended: launch.ended })
    return
  }
  launches.delete(id)
  over(launch, kind === 'E' ? endOf(Number(number)) : { code: getSystemErrorName(-Number(number)) })
}

/** As wait(2) has it. */
function endOf(status: number): End {
  const signal = status & 0x7f
  return signal === 0 ? { exitCode: status >> 8 } : { signal: SIGNALS.get(signal) ?? `signal ${signal}` }
}

function followLines(stream: Readable, take: (line: string) => void): void {
  let rest = ''
  stream.setEncoding('latin1').on('data', (text: string) => {
    const lines = (rest + text).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) take(line)
  })
}
