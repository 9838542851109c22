// Owns the program that waits in a sandbox which was set up before its call was known, and what is handed to it: limits, environment and
// argv of the one call that it becomes. Pure. It is perl, which is on every Debian; no shell, and nothing that it is handed is ever read as
// a program. It stands behind the whole wall, seccomp included, and is gone when the tool starts: exec keeps its process and nothing else.

import { sealedSub } from './kernel/sealed-input.ts'
import type { Machine } from './kernel/syscalls.ts'
import { FD, type Rlimit } from './plan/argv.ts'

/** `/usr/include/linux/resource.h`; the same on both machines. */
const RESOURCES: Readonly<Record<string, number>> = {
  '--cpu': 0,
  '--fsize': 1,
  '--data': 2,
  '--stack': 3,
  '--core': 4,
  '--nproc': 6,
  '--nofile': 7,
  '--memlock': 8,
  '--sigpending': 11,
  '--msgqueue': 12,
}

const CALLS = {
  x86_64: { prlimit64: 302, dup3: 292 },
  aarch64: { prlimit64: 261, dup3: 24 },
} as const satisfies Record<Machine, Record<string, number>>

/**
 * One byte releases it. An end without one is the worker's death, and then nothing runs (L1). What was handed over is a file that was
 * whole before that byte, so it is never seen in part. `exec` with a block takes its list as it is. The ends are prlimit's own, which
 * stands here on the cold way.
 */
const programOf = (machine: Machine, { prlimit64, dup3 }: (typeof CALLS)[Machine]): string =>
  `
${sealedSub(machine)}open my $release, '<&=', ${FD.release} or exit 1;
sysread($release, my $byte, 1) or exit 1;
close $release;
open my $delivery, '<&=', ${FD.delivery} or exit 1;
sysread($delivery, my $head, ${HEAD_BYTES}) == ${HEAD_BYTES} or exit 1;
my ($feeds, $length) = split / +/, $head;
sysread($delivery, my $all, $length) == $length or exit 1;
my @said = split /\\0/, $all, -1;
pop @said;
if ($feeds) {
  my $input = sealed(fileno $delivery);
  $input >= 0 && syscall(${dup3}, $input, 0, 0) == 0 or die "gate: failed to make standard input: $!\\n";
}
close $delivery;
for (splice @said, 0, shift @said) {
  my ($resource, $soft, $hard) = map { $_ + 0 } split /:/;
  syscall(${prlimit64}, 0, $resource, pack('QQ', $soft, $hard), 0) == 0 or die "gate: failed to set limit $resource: $!\\n";
}
for (splice @said, 0, shift @said) {
  my ($name, $value) = split /=/, $_, 2;
  $ENV{$name} = $value;
}
exec { $said[0] } @said;
my $missing = $! == 2;
print STDERR "gate: failed to execute $said[0]: $!\\n";
exit($missing ? 127 : 126);
`.trim()

/** Without site files and without modules: what is in this text is all that it does. */
export const gate = (perl: string, machine: Machine): string[] => [
  perl,
  '-f',
  '-e',
  programOf(machine, CALLS[machine]),
]

/** Whether there is standard input, and the length of the text before it. */
const HEAD_BYTES = 16

/**
 * The gate's input: `delivery`, then standard input. Standard input is in no descriptor of bubblewrap, because init of the sandbox keeps
 * those and the tool could open them there (D13).
 */
export function packed(delivery: Buffer, stdin: Uint8Array | undefined): Buffer {
  const head = `${stdin === undefined ? 0 : 1}${`${delivery.byteLength}`.padStart(HEAD_BYTES - 1)}`
  return Buffer.concat([Buffer.from(head), delivery, stdin ?? Buffer.alloc(0)])
}

/** Lists with their lengths before them, each element ended by NUL; none has one inside (argv.ts refuses it). */
export function deliveryOf(
  limits: readonly Rlimit[],
  env: Readonly<Record<string, string>>,
  argv: readonly string[],
): Buffer {
  const settings = limits.map(({ flag, soft, hard }) => `${resourceOf(flag)}:${soft}:${hard}`)
  const variables = Object.entries(env).map(([name, value]) => `${name}=${value}`)
  return Buffer.from(
    [settings.length, ...settings, variables.length, ...variables, ...argv]
      .map((element) => `${element}\0`)
      .join(''),
  )
}

function resourceOf(flag: string): number {
  const resource = RESOURCES[flag]
  if (resource === undefined) throw new Error(`no number is known for ${flag}`)
  return resource
}
