// The instructions that a skill may have: what follows each of them in the binary, as much as is needed to step over it; what it leaves on
// the stack; and what it costs. What is not in this table is refused: threads, garbage collection, exceptions, 64-bit memories, and what
// gives another result on another machine.

import { type Bytes, Malformed } from '../../../shared/bytes/wasm-binary.ts'

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
  select: 0x1b,
  local_get: 0x20,
  global_get: 0x23,
  global_set: 0x24,
  memory_grow: 0x40,
  i32_const: 0x41,
  i64_const: 0x42,
  i32_le_u: 0x4d,
  i64_lt_s: 0x53,
  i64_sub: 0x7d,
  i64_mul: 0x7e,
  i64_shr_u: 0x88,
  i64_extend_i32_u: 0xad,
  ref_func: 0xd2,
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

/** Numbers, vectors and references to functions and to the host's. */
export const VALUE_TYPES: ReadonlySet<number> = new Set([0x7f, 0x7e, 0x7d, 0x7c, 0x7b, 0x70, 0x6f])

/** In one byte: behind one of several an engine would see other instructions than we do. */
export function valueType(code: Bytes): number {
  const type = code.u8()
  if (!VALUE_TYPES.has(type))
    throw new Malformed(`the type 0x${type.toString(16)} is not among those that a skill may have`)
  return type
}

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
const labels: Follows = (code) => {
  code.times(() => code.u32())
  code.u32()
}

/**
 * Fuel is one unit for what is done within a nanosecond or so. What takes longer costs more, by the worst that it can be made to take:
 * memory that lies in no cache (a chase through 64 MiB takes 100 to 250 ns a load), an element of a table of functions, a root.
 */
const PRICE = {
  memory: 8,
  bulk: 64,
  grow: 128,
  element: 16,
  division: 8,
  conversion: 4,
  root: 16,
  rounding: 2,
  vector: 2,
} as const

/** From, to, what follows; how many more values lie on the stack behind it; what it costs. */
type Row = readonly [from: number, to: number, follows: Follows, leaves: number, price: number]
type Kind = Pick<Instruction, 'leaves' | 'price'> & { readonly follows: Follows }

const of = (rows: readonly Row[]): readonly (Kind | undefined)[] => {
  const table: (Kind | undefined)[] = new Array(256).fill(undefined)
  for (const [from, to, follows, leaves, price] of rows) table.fill({ follows, leaves, price }, from, to + 1)
  return table
}

const PLAIN = of([
  [0x00, 0x00, nothing, 0, 1], // unreachable
  [0x01, 0x01, nothing, 0, 0], // nop
  [0x02, 0x03, signed(33), 0, 0], // block, loop
  [0x04, 0x04, signed(33), -1, 1], // if
  [0x05, 0x05, nothing, 0, 0], // else
  [0x0b, 0x0b, nothing, 0, 0], // end
  [0x0c, 0x0c, index, 0, 1], // br
  [0x0d, 0x0d, index, -1, 1], // br_if
  [0x0e, 0x0e, labels, -1, 2], // br_table
  [0x0f, 0x0f, nothing, 0, 1], // return
  [0x10, 0x10, index, 0, 4], // call; what it leaves says its type
  [0x11, 0x11, indices, -1, 6], // call_indirect
  [0x12, 0x12, index, 0, 4], // return_call
  [0x13, 0x13, indices, -1, 6], // return_call_indirect
  [0x1a, 0x1a, nothing, -1, 1], // drop
  [0x1b, 0x1b, nothing, -2, 1], // select
  [0x1c, 0x1c, (code) => void code.times(() => valueType(code)), -2, 1], // select of a type
  [0x20, 0x20, index, 1, 1], // local.get
  [0x21, 0x21, index, -1, 1],
  [0x22, 0x22, index, 0, 1],
  [0x23, 0x23, index, 1, 1], // global.get
  [0x24, 0x24, index, -1, 1],
  [0x25, 0x25, index, 0, 4], // table.get
  [0x26, 0x26, index, -2, PRICE.element],
  [0x28, 0x35, memoryArgument, 0, PRICE.memory], // loads
  [0x36, 0x3e, memoryArgument, -2, PRICE.memory], // stores
  [0x3f, 0x3f, index, 1, 1], // memory.size
  [0x40, 0x40, index, 0, PRICE.grow],
  [0x41, 0x41, signed(32), 1, 1],
  [0x42, 0x42, signed(64), 1, 1],
  [0x43, 0x43, bytes(4), 1, 1],
  [0x44, 0x44, bytes(8), 1, 1],
  [0x45, 0x45, nothing, 0, 1], // comparisons
  [0x46, 0x4f, nothing, -1, 1],
  [0x50, 0x50, nothing, 0, 1],
  [0x51, 0x66, nothing, -1, 1],
  [0x67, 0x69, nothing, 0, 1], // whole numbers
  [0x6a, 0x6c, nothing, -1, 1],
  [0x6d, 0x70, nothing, -1, PRICE.division],
  [0x71, 0x78, nothing, -1, 1],
  [0x79, 0x7b, nothing, 0, 1],
  [0x7c, 0x7e, nothing, -1, 1],
  [0x7f, 0x82, nothing, -1, PRICE.division],
  [0x83, 0x8a, nothing, -1, 1],
  [0x8b, 0x8c, nothing, 0, 1], // the others
  [0x8d, 0x90, nothing, 0, PRICE.rounding],
  [0x91, 0x91, nothing, 0, PRICE.root],
  [0x92, 0x94, nothing, -1, 1],
  [0x95, 0x95, nothing, -1, PRICE.division],
  [0x96, 0x98, nothing, -1, PRICE.rounding], // the smaller, the larger, the sign
  [0x99, 0x9a, nothing, 0, 1],
  [0x9b, 0x9e, nothing, 0, PRICE.rounding],
  [0x9f, 0x9f, nothing, 0, PRICE.root],
  [0xa0, 0xa2, nothing, -1, 1],
  [0xa3, 0xa3, nothing, -1, PRICE.division],
  [0xa4, 0xa6, nothing, -1, PRICE.rounding],
  [0xa7, 0xa7, nothing, 0, 1], // from one type to the other
  [0xa8, 0xab, nothing, 0, PRICE.conversion],
  [0xac, 0xad, nothing, 0, 1],
  [0xae, 0xbf, nothing, 0, PRICE.conversion],
  [0xc0, 0xc4, nothing, 0, 1],
  [0xd0, 0xd0, signed(33), 1, 1], // ref.null
  [0xd1, 0xd1, nothing, 0, 1],
  [0xd2, 0xd2, index, 1, 4], // ref.func
])

const PREFIXED: Readonly<Record<number, readonly (Kind | undefined)[]>> = {
  [OP.bulk]: of([
    [0, 7, nothing, 0, PRICE.conversion], // truncation that saturates
    [8, 8, indices, -3, PRICE.bulk], // memory.init
    [9, 9, index, 0, PRICE.element],
    [10, 10, indices, -3, PRICE.bulk],
    [11, 11, index, -3, PRICE.bulk],
    [12, 12, indices, -3, PRICE.bulk], // table.init
    [13, 13, index, 0, PRICE.element],
    [14, 14, indices, -3, PRICE.bulk],
    [15, 15, index, -1, PRICE.bulk], // table.grow
    [16, 16, index, 1, 1],
    [17, 17, index, -3, PRICE.bulk],
  ]),
  // Of these it is said that they leave no fewer values than they find, where that takes no table of its own.
  [OP.vector]: of([
    [0, 10, memoryArgument, 0, PRICE.memory],
    [11, 11, memoryArgument, -2, PRICE.memory], // v128.store
    [12, 12, bytes(16), 1, 1], // constant
    [13, 13, bytes(16), -1, PRICE.vector], // shuffle
    [14, 20, nothing, 0, PRICE.vector],
    [21, 34, bytes(1), 0, PRICE.vector], // a lane
    [35, 83, nothing, 0, PRICE.vector],
    [84, 87, thenLane, -1, PRICE.memory],
    [88, 91, thenLane, -2, PRICE.memory],
    [92, 93, memoryArgument, 0, PRICE.memory],
    [94, 255, nothing, 0, PRICE.vector],
    ...[227, 239].map((root): Row => [root, root, nothing, 0, PRICE.root]),
    ...[231, 243].map((division): Row => [division, division, nothing, -1, PRICE.root]),
  ]),
}

export type Instruction = {
  readonly op: number
  readonly sub: number
  readonly from: number
  /** Where what follows begins. */
  readonly operands: number
  readonly leaves: number
  readonly price: number
}

/** Reads one instruction and what follows it. */
export function step(code: Bytes): Instruction {
  const from = code.at
  const op = code.u8()
  const prefixed = PREFIXED[op]
  const sub = prefixed === undefined ? 0 : code.u32()
  const kind = prefixed === undefined ? PLAIN[op] : prefixed[sub]
  const operands = code.at
  if (kind === undefined) {
    const name = [op, ...(prefixed === undefined ? [] : [sub])]
      .map((number) => `0x${number.toString(16)}`)
      .join(' ')
    throw new Malformed(
      `the instruction \`${name}\` at byte ${from} is not among those that a skill may have`,
    )
  }
  kind.follows(code)
  return { op, sub, from, operands, leaves: kind.leaves, price: kind.price }
}
