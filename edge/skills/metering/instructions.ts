// The table of instructions that a skill may contain: the operands to skip in the binary, the
// change of the stack's height, and the price in fuel. Instructions that are missing here are
// refused: threads, garbage collection, exceptions, 64-bit memories, and those whose result depends
// on the machine.

import { type BinaryReader, MalformedBinary } from '../../../shared/bytes/wasm-binary.ts'

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

/** Instructions whose work grows with a number on the stack. */
export const BULK = {
  memory_init: 8,
  memory_copy: 10,
  memory_fill: 11,
  table_init: 12,
  table_copy: 14,
  table_grow: 15,
  table_fill: 17,
} as const

/** Numbers, vectors, function references and external references. */
export const VALUE_TYPES: ReadonlySet<number> = new Set([0x7f, 0x7e, 0x7d, 0x7c, 0x7b, 0x70, 0x6f])

/**
 * Reads a type of one byte. A longer encoding could make an engine see other instructions than we
 * do.
 */
export function valueType(code: BinaryReader): number {
  const type = code.u8()
  if (!VALUE_TYPES.has(type)) throw new MalformedBinary(`a skill may not use the type 0x${type.toString(16)}`)
  return type
}

type SkipOperands = (code: BinaryReader) => void

const nothing: SkipOperands = () => undefined
const index: SkipOperands = (code) => void code.u32()
const indices: SkipOperands = (code) => {
  code.u32()
  code.u32()
}
const signed =
  (bits: 32 | 33 | 64): SkipOperands =>
  (code) =>
    code.skipSigned(bits)
const bytes =
  (count: number): SkipOperands =>
  (code) =>
    code.skip(count)
/** Alignment (if its bit 6 is set, the index of a memory follows) and offset. */
const memoryArgument: SkipOperands = (code) => {
  if ((code.u32() & 0x40) !== 0) code.u32()
  code.u32()
}
const memoryArgumentAndLane = (code: BinaryReader): void => {
  memoryArgument(code)
  code.skip(1)
}
const labels: SkipOperands = (code) => {
  code.times(() => code.u32())
  code.u32()
}

/**
 * One unit of fuel buys about a nanosecond. Slower instructions cost more, by their worst case:
 * memory outside all caches (a pointer chase through 64 MiB takes 100 to 250 ns a load), elements
 * of function tables, square roots. `npm run bench` measures the worst cost of a unit.
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

/** A range of opcodes, their operands, the change of the stack's height, and the price. */
type TableRow = readonly [from: number, to: number, skip: SkipOperands, stackDelta: number, price: number]
type InstructionKind = Pick<Instruction, 'stackDelta' | 'price'> & { readonly skip: SkipOperands }

const toTable = (rows: readonly TableRow[]): readonly (InstructionKind | undefined)[] => {
  const table: (InstructionKind | undefined)[] = new Array(256).fill(undefined)
  for (const [from, to, skip, stackDelta, price] of rows)
    table.fill({ skip, stackDelta, price }, from, to + 1)
  return table
}

const PLAIN = toTable([
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
  [0x10, 0x10, index, 0, 4], // call; the change of the stack depends on its type
  [0x11, 0x11, indices, -1, 6], // call_indirect
  [0x12, 0x12, index, 0, 4], // return_call
  [0x13, 0x13, indices, -1, 6], // return_call_indirect
  [0x1a, 0x1a, nothing, -1, 1], // drop
  [0x1b, 0x1b, nothing, -2, 1], // select
  [0x1c, 0x1c, (code) => void code.times(() => valueType(code)), -2, 1], // select with a type
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
  [0x67, 0x69, nothing, 0, 1], // integers
  [0x6a, 0x6c, nothing, -1, 1],
  [0x6d, 0x70, nothing, -1, PRICE.division],
  [0x71, 0x78, nothing, -1, 1],
  [0x79, 0x7b, nothing, 0, 1],
  [0x7c, 0x7e, nothing, -1, 1],
  [0x7f, 0x82, nothing, -1, PRICE.division],
  [0x83, 0x8a, nothing, -1, 1],
  [0x8b, 0x8c, nothing, 0, 1], // floats
  [0x8d, 0x90, nothing, 0, PRICE.rounding],
  [0x91, 0x91, nothing, 0, PRICE.root],
  [0x92, 0x94, nothing, -1, 1],
  [0x95, 0x95, nothing, -1, PRICE.division],
  [0x96, 0x98, nothing, -1, PRICE.rounding], // min, max, copysign
  [0x99, 0x9a, nothing, 0, 1],
  [0x9b, 0x9e, nothing, 0, PRICE.rounding],
  [0x9f, 0x9f, nothing, 0, PRICE.root],
  [0xa0, 0xa2, nothing, -1, 1],
  [0xa3, 0xa3, nothing, -1, PRICE.division],
  [0xa4, 0xa6, nothing, -1, PRICE.rounding],
  [0xa7, 0xa7, nothing, 0, 1], // conversions
  [0xa8, 0xab, nothing, 0, PRICE.conversion],
  [0xac, 0xad, nothing, 0, 1],
  [0xae, 0xbf, nothing, 0, PRICE.conversion],
  [0xc0, 0xc4, nothing, 0, 1],
  [0xd0, 0xd0, signed(33), 1, 1], // ref.null
  [0xd1, 0xd1, nothing, 0, 1],
  [0xd2, 0xd2, index, 1, 4], // ref.func
])

const PREFIXED: Readonly<Record<number, readonly (InstructionKind | undefined)[]>> = {
  [OP.bulk]: toTable([
    [0, 7, nothing, 0, PRICE.conversion], // saturating truncation
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
  // Exact changes of the stack's height would need a row for each of these instructions; 0
  // overestimates the height, which is safe.
  [OP.vector]: toTable([
    [0, 10, memoryArgument, 0, PRICE.memory],
    [11, 11, memoryArgument, -2, PRICE.memory], // v128.store
    [12, 12, bytes(16), 1, 1], // constant
    [13, 13, bytes(16), -1, PRICE.vector], // shuffle
    [14, 20, nothing, 0, PRICE.vector],
    [21, 34, bytes(1), 0, PRICE.vector], // a lane
    [35, 83, nothing, 0, PRICE.vector],
    [84, 87, memoryArgumentAndLane, -1, PRICE.memory],
    [88, 91, memoryArgumentAndLane, -2, PRICE.memory],
    [92, 93, memoryArgument, 0, PRICE.memory],
    [94, 255, nothing, 0, PRICE.vector],
    ...[227, 239].map((root): TableRow => [root, root, nothing, 0, PRICE.root]),
    ...[231, 243].map((division): TableRow => [division, division, nothing, -1, PRICE.root]),
  ]),
}

export type Instruction = {
  readonly op: number
  readonly sub: number
  readonly from: number
  /** Position of the operands. */
  readonly operands: number
  readonly stackDelta: number
  readonly price: number
}

/** Reads one instruction with its operands. */
export function readInstruction(code: BinaryReader): Instruction {
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
    throw new MalformedBinary(`a skill may not use the instruction \`${name}\`, which is at byte ${from}`)
  }
  kind.skip(code)
  return { op, sub, from, operands, stackDelta: kind.stackDelta, price: kind.price }
}
