// The gate: the program that waits in a warm sandbox until its call is known, and the encoding of
// what it then receives: limits, environment and argv. It is perl, which is on every Debian; it
// uses no shell and interprets nothing that it receives. It runs behind all restrictions of the
// sandbox, seccomp included, and exec replaces it with the tool. Pure.

import { sealedSub } from './kernel/sealed-input.ts'
import type { Machine } from './kernel/syscalls.ts'
import { FD, type Rlimit } from './plan/argv.ts'

/** From `/usr/include/linux/resource.h`; the same on both machines. */
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
 * One byte on a pipe releases the gate. If the pipe ends without one, the worker has died, and
 * nothing runs (L1). The delivery is a file that was complete before that byte, so the gate never
 * reads a part of it. `exec` with a block takes its list literally. The exit codes are those of
 * prlimit, which does this job on the cold way.
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
my @parts = split /\\0/, $all, -1;
pop @parts;
if ($feeds) {
  my $input = sealed(fileno $delivery);
  $input >= 0 && syscall(${dup3}, $input, 0, 0) == 0 or die "gate: failed to make standard input: $!\\n";
}
close $delivery;
for (splice @parts, 0, shift @parts) {
  my ($resource, $soft, $hard) = map { $_ + 0 } split /:/;
  syscall(${prlimit64}, 0, $resource, pack('QQ', $soft, $hard), 0) == 0 or die "gate: failed to set limit $resource: $!\\n";
}
for (splice @parts, 0, shift @parts) {
  my ($name, $value) = split /=/, $_, 2;
  $ENV{$name} = $value;
}
exec { $parts[0] } @parts;
my $missing = $! == 2;
print STDERR "gate: failed to execute $parts[0]: $!\\n";
exit($missing ? 127 : 126);
`.trim()

/** Runs without site files and modules, so this text is all that it executes. */
export const gate = (perl: string, machine: Machine): string[] => [
  perl,
  '-f',
  '-e',
  programOf(machine, CALLS[machine]),
]

/**
 * One digit says whether there is standard input; the rest is the length of the delivery before it.
 */
const HEAD_BYTES = 16

/**
 * The gate's input: `delivery`, then standard input. Standard input is in no descriptor of
 * bubblewrap, because the init process of the sandbox keeps those and the tool could open them
 * there (D13).
 */
export function gateInput(delivery: Buffer, stdin: Uint8Array | undefined): Buffer {
  const head = `${stdin === undefined ? 0 : 1}${`${delivery.byteLength}`.padStart(HEAD_BYTES - 1)}`
  return Buffer.concat([Buffer.from(head), delivery, stdin ?? Buffer.alloc(0)])
}

/**
 * Lists, each preceded by its length; elements end with NUL. No element contains NUL, because
 * argv.ts refuses it.
 */
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
