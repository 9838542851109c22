// The tier B launcher: a static executable of our own, as in enter-cgroup.ts, that contains the
// seccomp filter and takes the place of bubblewrap. It has the command die with the worker, sets
// no_new_privs, loads the filter, and executes the command. No program on every Linux loads a
// filter without a namespace; `setpriv` can do only the first two. Pure; canaries test it (L8).
// Exit code 125 is a failure of the launcher itself.

import { BECOME, codeOf, executable, FAIL, type Listing } from './elf.ts'
import type { Machine } from './syscalls.ts'

const NOT_FENCED = 'countersign: tier B could not be set up\n'
export const launcherFailed = (code: number | undefined, complaint: string): boolean =>
  code === 125 && complaint.startsWith(NOT_FENCED)

/**
 * After the code come the message, the number of instructions in the filter (`len` of `struct
 * sock_fprog`, in eight bytes), and the filter.
 */
const CODE: Readonly<Record<Machine, Listing>> = {
  x86_64: `
    4889e3           mov rbx, rsp
    b89d000000       mov eax, 157   ; prctl(PR_SET_PDEATHSIG, SIGKILL)
    bf01000000       mov edi, 1
    be09000000       mov esi, 9
    0f05             syscall
    b89d000000       mov eax, 157   ; prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    bf26000000       mov edi, 38
    be01000000       mov esi, 1
    31d2             xor edx, edx
    4531d2           xor r10d, r10d
    4531c0           xor r8d, r8d
    0f05             syscall
    85c0             test eax, eax
    753c             jne fail
    488d0589000000   lea rax, [filter]
    50               push rax
    ff357a000000     push qword ptr [count]
    b89d000000       mov eax, 157   ; prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, {count, filter})
    bf16000000       mov edi, 22
    be02000000       mov esi, 2
    4889e2           mov rdx, rsp
    0f05             syscall
    85c0             test eax, eax
    7516             jne fail
  `,
  aarch64: `
    f3030091         mov x19, sp
    20008052         mov w0, #1   ; prctl(PR_SET_PDEATHSIG, SIGKILL)
    21018052         mov w1, #9
    e81480d2         mov x8, #167
    010000d4         svc #0
    c0048052         mov w0, #38   ; prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    21008052         mov w1, #1
    020080d2         mov x2, #0
    030080d2         mov x3, #0
    040080d2         mov x4, #0
    e81480d2         mov x8, #167
    010000d4         svc #0
    00020035         cbnz w0, fail
    63040010         adr x3, filter
    02040058         ldr x2, count
    e20fbfa9         stp x2, x3, [sp, #-16]!
    c0028052         mov w0, #22   ; prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, {count, filter})
    41008052         mov w1, #2
    e2030091         mov x2, sp
    e81480d2         mov x8, #167
    010000d4         svc #0
    e0000035         cbnz w0, fail
  `,
}

const INSTRUCTION_BYTES = 8

export function launcherProgram(machine: Machine, filter: Buffer): Buffer {
  const count = Buffer.from(new BigUint64Array([BigInt(filter.byteLength / INSTRUCTION_BYTES)]).buffer)
  return executable(
    machine,
    Buffer.concat([
      ...[CODE, BECOME, FAIL].map((part) => codeOf(part[machine])),
      Buffer.from(NOT_FENCED),
      count,
      filter,
    ]),
  )
}
