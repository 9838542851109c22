// Owns static executables of our own making, the form of their listings, and one for canaries: it makes the system calls of a table, one after the other, writes what
// came back, eight bytes each, and ends. Hosts have no compiler, and no program of every Linux calls the kernel directly, so its 100
// bytes of code are written here, for each machine. Pure: it makes bytes and runs nothing.

import { type Machine, numberOf } from './syscalls.ts'

/** Bytes and texts are put into the program's data, and their address is the argument. A text ends with NUL. */
export type Argument = number | bigint | string | Uint8Array
export type Call = { readonly number: number; readonly arguments: readonly Argument[] }

/** The largest page that either machine may have. */
const PAGE = 0x10000
const CODE_AT = 0x400000
const DATA_AT = CODE_AT + PAGE
const ROW_BYTES = 7 * 8
const HEADER_BYTES = 64
const SEGMENT_BYTES = 56

/** A child of `clone` waits until its namespace ends: whatever the table tries, one process tells of it. */
const CODE: Readonly<Record<Machine, (table: number, results: number) => Buffer>> = {
  x86_64: (table, results) =>
    Buffer.concat([
      Buffer.of(0x49, 0xbc, ...long(table)), //              mov r12, table
      Buffer.of(0x49, 0xbd, ...long(results)), //            mov r13, results
      Buffer.of(0x49, 0x8b, 0x04, 0x24), //            next: mov rax, [r12]
      Buffer.of(0x49, 0x8b, 0x7c, 0x24, 0x08), //            mov rdi, [r12+8]
      Buffer.of(0x49, 0x8b, 0x74, 0x24, 0x10), //            mov rsi, [r12+16]
      Buffer.of(0x49, 0x8b, 0x54, 0x24, 0x18), //            mov rdx, [r12+24]
      Buffer.of(0x4d, 0x8b, 0x54, 0x24, 0x20), //            mov r10, [r12+32]
      Buffer.of(0x4d, 0x8b, 0x44, 0x24, 0x28), //            mov r8, [r12+40]
      Buffer.of(0x4d, 0x8b, 0x4c, 0x24, 0x30), //            mov r9, [r12+48]
      Buffer.of(0x0f, 0x05), //                              syscall
      Buffer.of(0x49, 0x89, 0x45, 0x00), //                  mov [r13], rax
      Buffer.of(0x48, 0x85, 0xc0), //                        test rax, rax
      Buffer.of(0x75, 0x07), //                              jnz on
      Buffer.of(0x49, 0x83, 0x3c, 0x24, 56), //              cmp qword [r12], clone
      Buffer.of(0x74, 0x0a), //                              je child
      Buffer.of(0x49, 0x83, 0xc4, ROW_BYTES), //         on: add r12, 56
      Buffer.of(0x49, 0x83, 0xc5, 8), //                     add r13, 8
      Buffer.of(0xeb, 0xc2), //                              jmp next
      Buffer.of(0xb8, 34, 0, 0, 0, 0x0f, 0x05), //    child: mov eax, pause; syscall
      Buffer.of(0xeb, 0xf7), //                              jmp child
    ]),
  aarch64: (table, results) =>
    words([
      ...address(19, table), //                              movz/movk x19, table
      ...address(20, results), //                            movz/movk x20, results
      0xf9400268, //                                   next: ldr x8, [x19]
      0xa9408660, //                                         ldp x0, x1, [x19, 8]
      0xa9418e62, //                                         ldp x2, x3, [x19, 24]
      0xa9429664, //                                         ldp x4, x5, [x19, 40]
      0xd4000001, //                                         svc 0
      0xf8008680, //                                         str x0, [x20], 8
      0xb5000060, //                                         cbnz x0, on
      0xf103711f, //                                         cmp x8, clone
      0x54000060, //                                         b.eq child
      0x9100e273, //                                     on: add x19, x19, 56
      0x17fffff6, //                                         b next
      0xd2800928, //                                  child: mov x8, ppoll
      ...[0xd2800000, 0xd2800001, 0xd2800002, 0xd2800003], // mov x0–x3, 0: wait for nothing, for ever
      0xd4000001, //                                         svc 0
      0x17fffffa, //                                         b child
    ]),
}

/** By the gate of 32-bit programs: the kernel must not let it pass (S12). Only x86_64 has such a gate. */
export const I386: Buffer = executable('x86_64', Buffer.of(0xb8, 20, 0, 0, 0, 0xcd, 0x80, 0x31, 0xff, 0xb8, 231, 0, 0, 0, 0x0f, 0x05))

/** The table's calls, then the telling of what came back. */
export function callingProgram(machine: Machine, calls: readonly Call[]): Buffer {
  const rows = calls.length + 2
  const results = DATA_AT + rows * ROW_BYTES
  let at = results + rows * 8
  const pool: Buffer[] = []
  const placed = (argument: Argument): bigint => {
    if (typeof argument === 'bigint' || typeof argument === 'number') return BigInt.asUintN(64, BigInt(argument))
    const bytes = typeof argument === 'string' ? Buffer.from(`${argument}\0`) : Buffer.from(argument)
    const room = Buffer.concat([bytes, Buffer.alloc(-bytes.byteLength & 7)])
    pool.push(room)
    at += room.byteLength
    return BigInt(at - room.byteLength)
  }
  const telling: Call[] = [
    { number: numberOf('write', machine), arguments: [1, results, calls.length * 8] },
    { number: numberOf('exit_group', machine), arguments: [0] },
  ]
  const table = Buffer.alloc(rows * ROW_BYTES)
  for (const [row, call] of [...calls, ...telling].entries()) {
    table.writeBigUInt64LE(BigInt(call.number), row * ROW_BYTES)
    for (const [index, argument] of call.arguments.entries()) table.writeBigUInt64LE(placed(argument), row * ROW_BYTES + 8 + index * 8)
  }
  const data = Buffer.concat([table, Buffer.alloc(rows * 8), ...pool])
  return executable(machine, CODE[machine](DATA_AT, results), data)
}

/** What the program wrote: negative is an errno. Fewer than asked where it was ended. */
export const resultsIn = (bytes: Buffer): number[] =>
  Array.from({ length: Math.floor(bytes.byteLength / 8) }, (_, index) => Number(bytes.readBigInt64LE(index * 8)))

/** One instruction a line: its bytes, and how an assembler writes it; where a label stands before it, that stands behind it. */
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

/** Becomes the command that follows in the arguments; rbx or x19 has the stack as it was at the start. */
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

/** How either ends that could not do its work: says the 40 bytes of text behind it, and exits with 125. */
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

/** ELF, static: one part to run, and, where there are data, one to read and write, for no machine should have to map both at once. */
export function executable(machine: Machine, code: Buffer, data?: Buffer): Buffer {
  const headers_bytes = HEADER_BYTES + (data === undefined ? 1 : 2) * SEGMENT_BYTES
  const header = Buffer.alloc(HEADER_BYTES)
  header.set([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1]) // ELF, 64 bits, little-endian, version 1
  header.writeUInt16LE(2, 16) // ET_EXEC
  header.writeUInt16LE(machine === 'x86_64' ? 62 : 183, 18)
  header.writeUInt32LE(1, 20)
  header.writeBigUInt64LE(BigInt(CODE_AT + headers_bytes), 24)
  header.writeBigUInt64LE(64n, 32) // where the program headers are
  header.set([HEADER_BYTES, 0, SEGMENT_BYTES, 0, data === undefined ? 1 : 2, 0, 64, 0], 52) // their sizes, and how many
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
  for (const [index, value] of [offset, address, address, bytes, bytes, PAGE].entries()) part.writeBigUInt64LE(BigInt(value), 8 + index * 8)
  return part
}

function long(value: number): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64LE(BigInt(value))
  return bytes
}

function words(codes: readonly number[]): Buffer {
  const bytes = Buffer.alloc(codes.length * 4)
  for (const [index, code] of codes.entries()) bytes.writeUInt32LE(code >>> 0, index * 4)
  return bytes
}

const address = (register: number, value: number): number[] => [
  (0xd2800000 | ((value & 0xffff) << 5) | register) >>> 0,
  (0xf2a00000 | ((value >>> 16) << 5) | register) >>> 0,
]
