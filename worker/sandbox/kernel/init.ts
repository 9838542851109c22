// The init program, process 1 of a sandbox: a static executable of our own, written here
// instruction by instruction, as in enter-cgroup.ts. A tool can overwrite bubblewrap's own init,
// which runs as the same user (`/proc/1/mem`), and then outlive the call (D1). This program:
//
// - can't be opened by the tool: it makes itself not dumpable before the tool exists, so the kernel
//   shows its memory, descriptors and environment to root alone;
// - ends when the worker closes the lifeline: it holds the read end of a pipe (`FD.lifeline`) whose
//   only write end is the worker's. The worker closes it at the end of the call, and the kernel
//   closes it when the worker dies for any reason;
// - ends with the tool's first process and with its exit code (128 + n for signal n, like
//   bubblewrap).
//
// When it ends, the kernel ends every process of the sandbox. Its own failures end it, too, so an
// attack on its limits only ends the attacker. Pure; canaries try to open it and to outlive it
// (L8). Exit code 125 is a failure of the program itself.

import { BECOME, codeOf, executable, FAIL, type Listing } from './elf.ts'
import type { Machine } from './syscalls.ts'

/** Its path in the sandbox. No tool can replace it, because the root is read-only. */
export const INIT = '/.countersign-init'

const NOT_STARTED = "countersign: the init process can't run\n"
export const initFailed = (code: number | undefined, complaint: string): boolean =>
  code === 125 && complaint.startsWith(NOT_STARTED)

/**
 * Makes itself not dumpable, reads SIGCHLD from a descriptor, starts the tool without the lifeline,
 * then polls the lifeline and its children. The stack holds, from the top: two `struct pollfd`, a
 * buffer of 128 bytes, the signal mask.
 */
const CODE: Readonly<Record<Machine, Listing>> = {
  x86_64: `
      4889e3                 mov rbx, rsp
      b89d000000             mov eax, 157   ; prctl(PR_SET_DUMPABLE, 0)
      bf04000000             mov edi, 4
      31f6                   xor esi, esi
      0f05                   syscall
      85c0                   test eax, eax
      0f8549010000           jne fail
      6800000100             push 0x10000
      b80e000000             mov eax, 14   ; rt_sigprocmask(SIG_BLOCK, SIGCHLD)
      31ff                   xor edi, edi
      4889e6                 mov rsi, rsp
      31d2                   xor edx, edx
      41ba08000000           mov r10d, 8
      0f05                   syscall
      85c0                   test eax, eax
      0f8528010000           jne fail
      b821010000             mov eax, 289   ; signalfd4(SIGCHLD, SFD_CLOEXEC)
      bfffffffff             mov edi, -1
      4889e6                 mov rsi, rsp
      ba08000000             mov edx, 8
      41ba00000800           mov r10d, 0x80000
      0f05                   syscall
      85c0                   test eax, eax
      0f8806010000           js fail
      4189c4                 mov r12d, eax
      4881ec80000000         sub rsp, 128
      4989e5                 mov r13, rsp
      4883ec10               sub rsp, 16
      c704240b000000         mov dword ptr [rsp], 11   ; the lifeline: its end alone
      c744240400000000       mov dword ptr [rsp + 4], 0
      4489642408             mov dword ptr [rsp + 8], r12d
      c744240c01000000       mov dword ptr [rsp + 12], 1
      b838000000             mov eax, 56   ; clone(SIGCHLD)
      bf11000000             mov edi, 17
      31f6                   xor esi, esi
      31d2                   xor edx, edx
      4531d2                 xor r10d, r10d
      4531c0                 xor r8d, r8d
      0f05                   syscall
      85c0                   test eax, eax
      0f88bb000000           js fail
      747b                   je child
      4189c6                 mov r14d, eax
      b80f010000             mov eax, 271   ; watch: ppoll
      4889e7                 mov rdi, rsp
      be02000000             mov esi, 2
      31d2                   xor edx, edx
      4531d2                 xor r10d, r10d
      0f05                   syscall
      83f8fc                 cmp eax, -4
      74e7                   je watch
      85c0                   test eax, eax
      7854                   js end
      66837c240600           cmp word ptr [rsp + 6], 0
      754c                   jne end
      31c0                   xor eax, eax
      4489e7                 mov edi, r12d
      4c89ee                 mov rsi, r13
      ba80000000             mov edx, 128
      0f05                   syscall
      b83d000000             mov eax, 61   ; reap: wait4(-1, WNOHANG)
      bfffffffff             mov edi, -1
      4c89ee                 mov rsi, r13
      ba01000000             mov edx, 1
      4531d2                 xor r10d, r10d
      0f05                   syscall
      85c0                   test eax, eax
      7eb1                   jle watch
      4439f0                 cmp eax, r14d
      75e0                   jne reap
      418b7d00               mov edi, dword ptr [r13]
      89f8                   mov eax, edi
      83e07f                 and eax, 127
      7408                   je exited
      8db880000000           lea edi, [rax + 128]
      eb03                   jmp exit
      c1ef08                 shr edi, 8   ; exited:
      b8e7000000             mov eax, 231   ; exit: exit_group
      0f05                   syscall
      bf89000000             mov edi, 137   ; end:
      ebf2                   jmp exit
      b80e000000             mov eax, 14   ; child: rt_sigprocmask(SIG_UNBLOCK, SIGCHLD)
      bf01000000             mov edi, 1
      488db42490000000       lea rsi, [rsp + 144]
      31d2                   xor edx, edx
      41ba08000000           mov r10d, 8
      0f05                   syscall
      b803000000             mov eax, 3   ; close(lifeline)
      bf0b000000             mov edi, 11
      0f05                   syscall
  `,
  aarch64: `
      f3030091               mov x19, sp
      80008052               mov w0, #4
      01008052               mov w1, #0
      e81480d2               mov x8, #167   ; prctl(PR_SET_DUMPABLE, 0)
      010000d4               svc #0
      c00a0035               cbnz w0, fail
      2000a0d2               mov x0, #0x10000
      e00f1ff8               str x0, [sp, #-16]!
      00008052               mov w0, #0
      e1030091               mov x1, sp
      020080d2               mov x2, #0
      030180d2               mov x3, #8
      e81080d2               mov x8, #135   ; rt_sigprocmask(SIG_BLOCK, SIGCHLD)
      010000d4               svc #0
      a0090035               cbnz w0, fail
      00008012               mov w0, #-1
      e1030091               mov x1, sp
      020180d2               mov x2, #8
      0301a052               mov w3, #0x80000
      480980d2               mov x8, #74   ; signalfd4(SIGCHLD, SFD_CLOEXEC)
      010000d4               svc #0
      c008f837               tbnz w0, #31, fail
      f403002a               mov w20, w0
      ff0302d1               sub sp, sp, #128
      f5030091               mov x21, sp
      ff4300d1               sub sp, sp, #16
      600180d2               mov x0, #11   ; the lifeline: its end alone
      e00300f9               str x0, [sp]
      21008052               mov w1, #1
      f4070129               stp w20, w1, [sp, #8]
      20028052               mov w0, #17
      010080d2               mov x1, #0
      020080d2               mov x2, #0
      030080d2               mov x3, #0
      040080d2               mov x4, #0
      881b80d2               mov x8, #220   ; clone(SIGCHLD)
      010000d4               svc #0
      c006f837               tbnz w0, #31, fail
      c0040034               cbz w0, child
      f603002a               mov w22, w0
      e0030091               mov x0, sp   ; watch:
      410080d2               mov x1, #2
      020080d2               mov x2, #0
      030080d2               mov x3, #0
      280980d2               mov x8, #73   ; ppoll
      010000d4               svc #0
      1f100031               cmn w0, #4
      20ffff54               b.eq watch
      4003f837               tbnz w0, #31, end
      e00f4079               ldrh w0, [sp, #6]
      00030035               cbnz w0, end
      e003142a               mov w0, w20
      e10315aa               mov x1, x21
      021080d2               mov x2, #128
      e80780d2               mov x8, #63
      010000d4               svc #0
      00008012               mov w0, #-1   ; reap:
      e10315aa               mov x1, x21
      22008052               mov w2, #1
      030080d2               mov x3, #0
      882080d2               mov x8, #260   ; wait4(-1, WNOHANG)
      010000d4               svc #0
      1f000071               cmp w0, #0
      2dfdff54               b.le watch
      1f00166b               cmp w0, w22
      e1feff54               b.ne reap
      a00240b9               ldr w0, [x21]
      01180072               ands w1, w0, #127
      60000054               b.eq exited
      20000211               add w0, w1, #128
      02000014               b exit
      007c0853               lsr w0, w0, #8   ; exited:
      c80b80d2               mov x8, #94   ; exit: exit_group
      010000d4               svc #0
      20118052               mov w0, #137   ; end:
      fdffff17               b exit
      20008052               mov w0, #1   ; child:
      e1430291               add x1, sp, #144
      020080d2               mov x2, #0
      030180d2               mov x3, #8
      e81080d2               mov x8, #135   ; rt_sigprocmask(SIG_UNBLOCK, SIGCHLD)
      010000d4               svc #0
      60018052               mov w0, #11
      280780d2               mov x8, #57   ; close(lifeline)
      010000d4               svc #0
  `,
}

export const initProgram = (machine: Machine): Buffer =>
  executable(
    machine,
    Buffer.concat([...[CODE, BECOME, FAIL].map((part) => codeOf(part[machine])), Buffer.from(NOT_STARTED)]),
  )
