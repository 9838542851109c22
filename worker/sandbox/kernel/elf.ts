// Builds our static executables from listings of machine code, and one for canaries, which makes
// the system calls of a table one after the other and writes their results. Hosts have no compiler,
// and no program on every Linux makes arbitrary system calls, so the 200 bytes of code are written
// here for each machine. Pure.

import { constants } from 'node:os'
import type { Machine } from './syscalls.ts'

/**
 * For bytes and texts, the argument is their address in the program's data. A text ends with NUL.
 */
export type SystemCallArgument = number | bigint | string | Uint8Array
export type SystemCall = { readonly number: number; readonly arguments: readonly SystemCallArgument[] }

/** The largest page size of either machine. */
const PAGE = 0x10000
const CODE_AT = 0x400000
const DATA_AT = CODE_AT + PAGE
const ROW_BYTES = 7 * 8
const HEADER_BYTES = 64
const SEGMENT_BYTES = 56

/**
 * A separate process makes each call and shares memory and descriptors with the one that reports.
 * So a filter of the host that kills the caller (systemd's SystemCallArchitectures=) ends only that
 * process, and all other calls are still made. A child that a call of the table makes waits until
 * its namespace ends: one process reports, whatever the table tries.
 */
const CODE: Readonly<Record<Machine, Listing>> = {
  x86_64: `
    bb00004100       mov ebx, DATA_AT   ; how many calls, and where the answers go; the table is behind it
    448b33           mov r14d, dword ptr [rbx]
    4c8b6b08         mov r13, qword ptr [rbx + 8]
    4c8d6310         lea r12, [rbx + 16]
    bf11450000       mov edi, 0x4511   ; next: clone(CLONE_VM | CLONE_FILES | CLONE_VFORK | SIGCHLD)
    31f6             xor esi, esi
    b838000000       mov eax, 56
    0f05             syscall
    85c0             test eax, eax
    7438             je ask
    7812             js on
    89c7             mov edi, eax   ; wait4(it, &status, 0, NULL)
    498d7508         lea rsi, [r13 + 8]
    31d2             xor edx, edx
    4531d2           xor r10d, r10d
    b83d000000       mov eax, 61
    0f05             syscall
    4983c438         add r12, 56   ; on:
    4983c510         add r13, 16
    41ffce           dec r14d
    75cd             jne next
    b801000000       mov eax, 1   ; write(1, results, 16 * count)
    bf01000000       mov edi, 1
    488b7308         mov rsi, qword ptr [rbx + 8]
    8b13             mov edx, dword ptr [rbx]
    c1e204           shl edx, 4
    0f05             syscall
    eb34             jmp exit
    498b0424         mov rax, qword ptr [r12]   ; ask:
    498b7c2408       mov rdi, qword ptr [r12 + 8]
    498b742410       mov rsi, qword ptr [r12 + 16]
    498b542418       mov rdx, qword ptr [r12 + 24]
    4d8b542420       mov r10, qword ptr [r12 + 32]
    4d8b442428       mov r8, qword ptr [r12 + 40]
    4d8b4c2430       mov r9, qword ptr [r12 + 48]
    0f05             syscall
    49894500         mov qword ptr [r13], rax
    4885c0           test rax, rax
    7507             jne exit
    49833c2438       cmp qword ptr [r12], 56
    7409             je hang
    31ff             xor edi, edi   ; exit:
    b8e7000000       mov eax, 231
    0f05             syscall
    b822000000       mov eax, 34   ; hang:
    0f05             syscall
    ebf7             jmp hang
  `,
  aarch64: `
    3608a0d2         mov x22, #DATA_AT   ; how many calls, and where the answers go; the table is behind it
    d50240b9         ldr w21, [x22]
    d40640f9         ldr x20, [x22, #8]
    d3420091         add x19, x22, #16
    20a28852         mov w0, #0x4511   ; next: clone(CLONE_VM | CLONE_FILES | CLONE_VFORK | SIGCHLD)
    010080d2         mov x1, #0
    881b80d2         mov x8, #220
    010000d4         svc #0
    400200b4         cbz x0, ask
    c000f8b7         tbnz x0, #63, on
    81220091         add x1, x20, #8   ; wait4(it, &status, 0, NULL)
    020080d2         mov x2, #0
    030080d2         mov x3, #0
    882080d2         mov x8, #260
    010000d4         svc #0
    73e20091         add x19, x19, #56   ; on:
    94420091         add x20, x20, #16
    b5060071         subs w21, w21, #1
    41feff54         b.ne next
    200080d2         mov x0, #1   ; write(1, results, 16 * count)
    c10640f9         ldr x1, [x22, #8]
    c20240b9         ldr w2, [x22]
    42ec7cd3         lsl x2, x2, #4
    080880d2         mov x8, #64
    010000d4         svc #0
    0a000014         b exit
    680240f9         ldr x8, [x19]   ; ask:
    608640a9         ldp x0, x1, [x19, #8]
    628e41a9         ldp x2, x3, [x19, #24]
    649642a9         ldp x4, x5, [x19, #40]
    010000d4         svc #0
    800200f9         str x0, [x20]
    600000b5         cbnz x0, exit
    1f7103f1         cmp x8, #220
    80000054         b.eq hang
    000080d2         mov x0, #0   ; exit:
    c80b80d2         mov x8, #94
    010000d4         svc #0
    000080d2         mov x0, #0   ; hang:
    010080d2         mov x1, #0
    020080d2         mov x2, #0
    030080d2         mov x3, #0
    280980d2         mov x8, #73
    010000d4         svc #0
    faffff17         b hang
  `,
}

/**
 * Makes a 32-bit system call (int 0x80), which the sandbox must refuse (S12). Only x86_64 has them.
 */
export const I386: Buffer = executable(
  'x86_64',
  Buffer.of(0xb8, 20, 0, 0, 0, 0xcd, 0x80, 0x31, 0xff, 0xb8, 231, 0, 0, 0, 0x0f, 0x05),
)

/** The initial value of a result, which no call returns. */
const NO_RESULT = -(2n ** 63n)
const ANSWER_BYTES = 16

/** Makes the calls, each in a separate process, then writes their results to standard output. */
export function callingProgram(machine: Machine, calls: readonly SystemCall[]): Buffer {
  const results = DATA_AT + 16 + calls.length * ROW_BYTES
  let at = results + calls.length * ANSWER_BYTES
  const pool: Buffer[] = []
  const addressOf = (argument: SystemCallArgument): bigint => {
    if (typeof argument === 'bigint' || typeof argument === 'number')
      return BigInt.asUintN(64, BigInt(argument))
    const bytes = typeof argument === 'string' ? Buffer.from(`${argument}\0`) : Buffer.from(argument)
    const padded = Buffer.concat([bytes, Buffer.alloc(-bytes.byteLength & 7)])
    pool.push(padded)
    at += padded.byteLength
    return BigInt(at - padded.byteLength)
  }
  const table = Buffer.alloc(calls.length * ROW_BYTES)
  for (const [row, call] of calls.entries()) {
    table.writeBigUInt64LE(BigInt(call.number), row * ROW_BYTES)
    for (const [index, argument] of call.arguments.entries())
      table.writeBigUInt64LE(addressOf(argument), row * ROW_BYTES + 8 + index * 8)
  }
  const answers = Buffer.from(new BigInt64Array(calls.flatMap(() => [NO_RESULT, 0n])).buffer)
  const head = Buffer.concat([long(calls.length), long(results)])
  return executable(machine, codeOf(CODE[machine]), Buffer.concat([head, table, answers, ...pool]))
}

/**
 * The return value of the call (negative is an errno), or the signal that ended its process.
 * Undefined where neither is known.
 */
export type Answer = number | NodeJS.Signals | undefined

/**
 * Parses the program's output, which has fewer results than calls if the program itself was ended.
 */
export const answersIn = (bytes: Buffer): Answer[] =>
  Array.from({ length: Math.floor(bytes.byteLength / ANSWER_BYTES) }, (_, index) => {
    const result = bytes.readBigInt64LE(index * ANSWER_BYTES)
    const signal = bytes.readInt32LE(index * ANSWER_BYTES + 8) & 0x7f
    return result === NO_RESULT ? SIGNALS.get(signal) : Number(result)
  })

// Node's own names.
const SIGNALS = new Map(
  Object.entries(constants.signals).map(([name, number]) => [number, name as NodeJS.Signals]),
)

/** One instruction per line: its bytes, its assembly, and after `;` its label or a remark. */
export type Listing = string

export const codeOf = (listing: Listing): Buffer =>
  Buffer.from(
    listing
      .trim()
      .split('\n')
      .map((line) => line.trim().split(' ', 1)[0])
      .join(''),
    'hex',
  )

/** Executes the command given by the arguments; rbx or x19 holds the initial stack pointer. */
export const BECOME: Readonly<Record<Machine, Listing>> = {
  x86_64: `
    488b0b           mov rcx, qword ptr [rbx]
    488d7310         lea rsi, [rbx + 16]
    488b3e           mov rdi, qword ptr [rsi]
    488d54cb10       lea rdx, [rbx + 8*rcx + 16]
    b83b000000       mov eax, 59   ; execve
    0f05             syscall
  `,
  aarch64: `
    630240f9         ldr x3, [x19]
    61420091         add x1, x19, #16
    200040f9         ldr x0, [x1]
    220c038b         add x2, x1, x3, lsl #3
    a81b80d2         mov x8, #221   ; execve
    010000d4         svc #0
  `,
}

/**
 * The end of a program that fails: writes the 40 bytes of text that follow it to stderr and exits
 * with 125.
 */
export const FAIL: Readonly<Record<Machine, Listing>> = {
  x86_64: `
    b801000000       mov eax, 1   ; fail:
    bf02000000       mov edi, 2
    488d3513000000   lea rsi, [text]
    ba28000000       mov edx, 40
    0f05             syscall
    bf7d000000       mov edi, 125
    b8e7000000       mov eax, 231
    0f05             syscall
  `,
  aarch64: `
    40008052         mov w0, #2   ; fail:
    e1000010         adr x1, text
    020580d2         mov x2, #40
    080880d2         mov x8, #64
    010000d4         svc #0
    a00f8052         mov w0, #125
    c80b80d2         mov x8, #94
    010000d4         svc #0
  `,
}

/**
 * A static ELF file with an executable segment and, if there are data, a writable one. They are
 * separate, so that no page is both writable and executable.
 */
export function executable(machine: Machine, code: Buffer, data?: Buffer): Buffer {
  const headers_bytes = HEADER_BYTES + (data === undefined ? 1 : 2) * SEGMENT_BYTES
  const header = Buffer.alloc(HEADER_BYTES)
  header.set([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1]) // ELF, 64 bits, little-endian, version 1
  header.writeUInt16LE(2, 16) // ET_EXEC
  header.writeUInt16LE(machine === 'x86_64' ? 62 : 183, 18)
  header.writeUInt32LE(1, 20)
  header.writeBigUInt64LE(BigInt(CODE_AT + headers_bytes), 24)
  header.writeBigUInt64LE(64n, 32) // where the program headers are
  // Their sizes, and how many.
  header.set([HEADER_BYTES, 0, SEGMENT_BYTES, 0, data === undefined ? 1 : 2, 0, 64, 0], 52)
  const code_bytes = headers_bytes + code.byteLength
  const text = segment(5, 0, CODE_AT, code_bytes)
  if (data === undefined) return Buffer.concat([header, text, code])
  const parts = [text, segment(6, PAGE, DATA_AT, data.byteLength)]
  return Buffer.concat([header, ...parts, code, Buffer.alloc(PAGE - code_bytes), data])
}

function segment(flags: number, offset: number, address: number, bytes: number): Buffer {
  const part = Buffer.alloc(SEGMENT_BYTES)
  part.writeUInt32LE(1, 0) // PT_LOAD
  part.writeUInt32LE(flags, 4)
  for (const [index, value] of [offset, address, address, bytes, bytes, PAGE].entries())
    part.writeBigUInt64LE(BigInt(value), 8 + index * 8)
  return part
}

function long(value: number): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64LE(BigInt(value))
  return bytes
}
