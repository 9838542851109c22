// The program that enters a call's cgroup before any process of the call exists: a static
// executable of a few hundred bytes, written here instruction by instruction. No program on every
// Linux does this without a shell: Node can't pass a cgroup to clone, and moving a process from
// outside misses the children it has started and takes the kernel 10 ms. Pure; cgroups.ts tests the
// program before the worker relies on it (L8). v1: writes `0` to the `tasks` file of each group,
// which moves the writer alone, in microseconds; then executes the command.
//
// v2: clone3 makes a child inside the group (CLONE_INTO_CGROUP), which executes the command. The
// program waits for the child and ends as it did, by the same signal too. It dies with the worker,
// and so does a sandbox; the next worker ends processes that are left in the group.
//
// Both first close the three descriptors they were given (close_range), so that the command does
// not get them. Exit code 125 is a failure of the program itself.

import { codeOf, executable, FAIL, type Listing } from './elf.ts'
import type { Machine } from './syscalls.ts'

export type GroupVersion = 'v1' | 'v2'

/** The descriptors of the group: the three `tasks` files of v1, or the folder of v2. */
export const FIRST_GROUP_FD = 8
export const GROUP_FDS = 3
/** The message of a failure of the program itself, which exits with 125. */
const NOT_ENTERED = 'countersign: its cgroup was not entered\n'
export const enteringFailed = (code: number | undefined, complaint: string): boolean =>
  code === 125 && complaint.startsWith(NOT_ENTERED)

/** The code that enters the group. END, the message and DATA follow it in the program. */
const ENTRY: Readonly<Record<Machine, Readonly<Record<GroupVersion, Listing>>>> = {
  x86_64: {
    v1: `
      bb08000000       mov ebx, 8
      b801000000       mov eax, 1   ; next:
      89df             mov edi, ebx
      488d358a000000   lea rsi, [zero]
      ba01000000       mov edx, 1
      0f05             syscall
      83f801           cmp eax, 1
      7532             jne fail
      ffc3             inc ebx
      83fb0b           cmp ebx, 11
      75df             jne next
    `,
    v2: `
      b89d000000       mov eax, 157
      bf01000000       mov edi, 1
      be09000000       mov esi, 9
      0f05             syscall
      b8b3010000       mov eax, 435
      488d3dd2000000   lea rdi, [args]
      be58000000       mov esi, 88
      0f05             syscall
      85c0             test eax, eax
      787b             js fail
      744e             je go
      89c3             mov ebx, eax
      4883ec10         sub rsp, 16
      b83d000000       mov eax, 61   ; wait:
      89df             mov edi, ebx
      4889e6           mov rsi, rsp
      31d2             xor edx, edx
      4531d2           xor r10d, r10d
      0f05             syscall
      83f8fc           cmp eax, -4
      74ea             je wait
      85c0             test eax, eax
      7859             js fail
      8b3c24           mov edi, dword ptr [rsp]
      89fd             mov ebp, edi
      83e57f           and ebp, 127
      741a             je exited
      b827000000       mov eax, 39
      0f05             syscall
      89c7             mov edi, eax
      89ee             mov esi, ebp
      b83e000000       mov eax, 62
      0f05             syscall
      8dbd80000000     lea edi, [rbp + 128]
      eb03             jmp exit
      c1ef08           shr edi, 8   ; exited:
      b8e7000000       mov eax, 231   ; exit:
      0f05             syscall
    `,
  },
  aarch64: {
    v1: `
      13018052         mov w19, #8
      e003132a         mov w0, w19   ; next:
      c1040010         adr x1, zero
      220080d2         mov x2, #1
      080880d2         mov x8, #64
      010000d4         svc #0
      1f0400f1         cmp x0, #1
      e1010054         b.ne fail
      73060011         add w19, w19, #1
      7f2e0071         cmp w19, #11
      e1feff54         b.ne next
    `,
    v2: `
      20008052         mov w0, #1
      21018052         mov w1, #9
      e81480d2         mov x8, #167
      010000d4         svc #0
      60070010         adr x0, args
      010b80d2         mov x1, #88
      683680d2         mov x8, #435
      010000d4         svc #0
      a004f8b7         tbnz x0, <fail>
      200300b4         cbz x0, go
      f303002a         mov w19, w0
      ff4300d1         sub sp, sp, #16
      e003132a         mov w0, w19   ; wait:
      e1030091         mov x1, sp
      020080d2         mov x2, #0
      030080d2         mov x3, #0
      882080d2         mov x8, #260
      010000d4         svc #0
      1f1000b1         cmn x0, #4
      20ffff54         b.eq wait
      2003f8b7         tbnz x0, <fail>
      f40340b9         ldr w20, [sp]
      951a0072         ands w21, w20, #0x7f
      00010054         b.eq exited
      881580d2         mov x8, #172
      010000d4         svc #0
      e103152a         mov w1, w21
      281080d2         mov x8, #129
      010000d4         svc #0
      a0020211         add w0, w21, #128
      02000014         b exit
      807e0853         lsr w0, w20, #8   ; exited:
      c80b80d2         mov x8, #94   ; exit:
      010000d4         svc #0
    `,
  },
}

/** Closes the descriptors and executes the command, in both versions. */
const END: Readonly<Record<Machine, Listing>> = {
  x86_64: `
    b8b4010000       mov eax, 436   ; go:
    bf08000000       mov edi, 8
    be0a000000       mov esi, 10
    31d2             xor edx, edx
    0f05             syscall
    488b0c24         mov rcx, qword ptr [rsp]
    488d742410       lea rsi, [rsp + 16]
    488b3e           mov rdi, qword ptr [rsi]
    488d54cc10       lea rdx, [rsp + 8*rcx + 16]
    b83b000000       mov eax, 59
    0f05             syscall
  `,
  aarch64: `
    00018052         mov w0, #8   ; go:
    41018052         mov w1, #10
    02008052         mov w2, #0
    883680d2         mov x8, #436
    010000d4         svc #0
    e30340f9         ldr x3, [sp]
    e1430091         add x1, sp, #16
    200040f9         ldr x0, [x1]
    220c038b         add x2, x1, x3, lsl #3
    a81b80d2         mov x8, #221
    010000d4         svc #0
  `,
}

const CLONE_INTO_CGROUP = 2n ** 33n
const SIGCHLD = 17n

/** The byte that v1 writes, or the eleven arguments of clone3. */
const DATA: Readonly<Record<GroupVersion, Buffer>> = {
  v1: Buffer.from('0'),
  v2: Buffer.from(
    new BigUint64Array([CLONE_INTO_CGROUP, 0n, 0n, 0n, SIGCHLD, 0n, 0n, 0n, 0n, 0n, BigInt(FIRST_GROUP_FD)])
      .buffer,
  ),
}

export function enterProgram(machine: Machine, version: GroupVersion): Buffer {
  const code = [ENTRY[machine][version], END[machine], FAIL[machine]].map(codeOf)
  return executable(machine, Buffer.concat([...code, Buffer.from(NOT_ENTERED), DATA[version]]))
}
