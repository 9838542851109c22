// Owns the standard input of a tool: a copy in sealed memory. The worker's own file belongs to the
// same host user as the tool, which could reopen it for writing through `/proc/self/fd/0`, whatever
// its mode, and fill the host's `/dev/shm` (S52, D13). Pure: the perl that makes the copy.
// process/spawner.ts runs it for a cold start, the gate for a warm sandbox.

import type { Machine } from './syscalls.ts'

const CALLS = {
  x86_64: { close: 3, sendfile: 40, fcntl: 72, openat: 257, memfd_create: 319 },
  aarch64: { close: 57, sendfile: 71, fcntl: 25, openat: 56, memfd_create: 279 },
} as const satisfies Record<Machine, Record<string, number>>

// linux/memfd.h, linux/fcntl.h
const [MFD_CLOEXEC, MFD_ALLOW_SEALING, MFD_NOEXEC_SEAL] = [1, 2, 8]
const F_ADD_SEALS = 1033
/** F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_WRITE. */
const SEALS = 15
const O_RDONLY_CLOEXEC = 0o2000000
const AT_FDCWD = -100
/** Larger than any standard input may be. */
const AT_ONCE = 0x7ffff000

/**
 * `sealed(FD)` closes FD and returns a read-only descriptor of an unchangeable copy of its content,
 * or -1 with `$!`. Linux before 6.3 has no MFD_NOEXEC_SEAL; later kernels may require it
 * (`vm.memfd_noexec`).
 */
export function sealedSub(machine: Machine): string {
  const { close, sendfile, fcntl, openat, memfd_create } = CALLS[machine]
  return `
sub sealed {
  my $from = shift;
  my $memory = syscall(${memfd_create}, my $name = 'stdin', ${MFD_CLOEXEC | MFD_NOEXEC_SEAL});
  $memory = syscall(${memfd_create}, $name, ${MFD_CLOEXEC | MFD_ALLOW_SEALING}) if $memory < 0;
  return -1 if $memory < 0;
  my $copied;
  do { $copied = syscall(${sendfile}, $memory, $from, 0, ${AT_ONCE}) } while ($copied > 0);
  my $sealed = $copied < 0 || syscall(${fcntl}, $memory, ${F_ADD_SEALS}, ${SEALS}) < 0
    ? -1 : syscall(${openat}, ${AT_FDCWD}, my $path = "/proc/self/fd/$memory", ${O_RDONLY_CLOEXEC}, 0);
  my $errno = $!;
  syscall(${close}, $_) for $from, $memory;
  $! = $errno;
  return $sealed;
}
`
}
