// The instructions that a skill may have, and what follows each of them in the binary: as much as is needed to step over them. What is not
// in this table is refused: threads, garbage collection, exceptions, 64-bit memories, and what gives another result on another machine.

import { type Bytes, Malformed } from '../../shared/wasm-bytes.ts'

export const OP = {
  unreachable: 0x00,
  block: 0x02,
  loop: 0x03,
  if: 0x04,
  else: 0x05,
  end: 0x0b,
  br: 0x0c,
  br_if: 0x0d,
  br_table: 0x0e,
  return: 0x0f,
  call: 0x10,
  call_indirect: 0x11,
  return_call: 0x12,
  return_call_indirect: 0x13,
  local_get: 0x20,
  global_get: 0x23,
  global_set: 0x24,
  memory_grow: 0x40,
  i64_const: 0x42,
  i64_lt_s: 0x53,
  i64_sub: 0x7d,
  i64_mul: 0x7e,
  i64_shr_u: 0x88,
  i64_extend_i32_u: 0xad,
  bulk: 0xfc,
  vector: 0xfd,
} as const

/** Those whose work grows with a number on the stack. */
export const BULK = {
  memory_init: 8,
  memory_copy: 10,
  memory_fill: 11,
  table_init: 12,
  table_copy: 14,
  table_grow: 15,
  table_fill: 17,
} as const

type Follows = (code: Bytes) => void

const nothing: Follows = () => undefined
const index: Follows = (code) => void code.u32()
const indices: Follows = (code) => {
  code.u32()
  code.u32()
}
const signed =
  (bits: 32 | 33 | 64): Follows =>
  (code) =>
    code.skipSigned(bits)
const bytes =
  (count: number): Follows =>
  (code) =>
    code.skip(count)
/** Alignment (with bit 6 a memory's index follows) and offset. */
const memoryArgument: Follows = (code) => {
  if ((code.u32() & 0x40) !== 0) code.u32()
  code.u32()
}
const thenLane = (code: Bytes): void => {
  memoryArgument(code)
  code.skip(1)
}

/** From, to, what follows. */
type Row = readonly [from: number, to: number, follows: Follows]

const of = (rows: readonly Row[]): readonly (Follows | undefined)[] => {
  const table: (Follows | undefined)[] = new Array(256).fill(undefined)
  for (const [from, to, follows] of rows) table.fill(follows, from, to + 1)
  return table
}

const PLAIN = of([
  [0x00, 0x01, nothing], // unreachable, nop
  [0x02, 0x04, signed(33)], // block, loop, if
  [0x05, 0x05, nothing], // else
  [0x0b, 0x0b, nothing], // end
  [0x0c, 0x0d, index], // br, br_if
  [
    0x0e, // br_table
    0x0e,
    (code) => {
      code.times(() => code.u32())
      code.u32()
    },
  ],
  [0x0f, 0x0f, nothing], // return
  [0x10, 0x10, index], // call
  [0x11, 0x11, indices], // call_indirect
  [0x12, 0x12, index], // return_call
  [0x13, 0x13, indices], // return_call_indirect
  [0x1a, 0x1b, nothing], // drop, select
  [0x1c, 0x1c, (code) => void code.times(() => code.u8())], // select of a type
  [0x20, 0x26, index], // local, global, table
  [0x28, 0x3e, memoryArgument],
  [0x3f, 0x40, index], // memory.size, memory.grow
  [0x41, 0x41, signed(32)],
  [0x42, 0x42, signed(64)],
  [0x43, 0x43, bytes(4)],
  [0x44, 0x44, bytes(8)],
  [0x45, 0xc4, nothing], // numbers
  [0xd0, 0xd0, signed(33)], // ref.null
  [0xd1, 0xd1, nothing],
  [0xd2, 0xd2, index], // ref.func
])

const PREFIXED: Readonly<Record<number, readonly (Follows | undefined)[]>> = {
  [OP.bulk]: of([
    [0, 7, nothing], // truncation that saturates
    [8, 8, indices],
    [9, 9, index],
    [10, 10, indices],
    [11, 11, index],
    [12, 12, indices],
    [13, 13, index],
    [14, 14, indices],
    [15, 17, index],
  ]),
  [OP.vector]: of([
    [0, 11, memoryArgument],
    [12, 13, bytes(16)], // constant, shuffle
    [14, 20, nothing],
    [21, 34, bytes(1)], // a lane
    [35, 83, nothing],
    [84, 91, thenLane],
    [92, 93, memoryArgument],
    [94, 255, nothing],
  ]),
}

export type Instruction = { readonly op: number; readonly sub: number; readonly from: number; readonly operands: number }

/** Reads one instruction and what follows it. `operands`: where that begins. */
export function step(code: Bytes): Instruction {
  const from = code.at
  const op = code.u8()
  const prefixed = PREFIXED[op]
  const sub = prefixed === undefined ? 0 : code.u32()
  const follows = prefixed === undefined ? PLAIN[op] : prefixed[sub]
  const operands = code.at
  if (follows === undefined) {
    const name = [op, ...(prefixed === undefined ? [] : [sub])].map((number) => `0x${number.toString(16)}`).join(' ')
    throw new Malformed(`the instruction \`${name}\` at byte ${from} is not among those that a skill may have`)
  }
  follows(code)
  return { op, sub, from, operands }
}
