// Inserts fuel payments into a function's code (W01, W02, W05). The code is cut into segments that
// can only be entered at their beginning; each segment pays for all its instructions when it is
// entered, from the counter that all modules of a skill share. Code that runs for ever must pass a
// loop head or enter a function that calls another, so the counter is checked there. The same input
// costs the same on every machine, unless the stack overflows, whose depth depends on the engine.

import { BinaryReader, BinaryWriter, MalformedBinary } from '../../../shared/bytes/wasm-binary.ts'
import { type CompileBudget, OperandStack, type Signatures } from './compile-cost.ts'
import { BULK, type Instruction, OP, readInstruction, valueType } from './instructions.ts'
import { Splicer } from './splice.ts'

const CALLS: ReadonlySet<number> = new Set([
  OP.call,
  OP.call_indirect,
  OP.return_call,
  OP.return_call_indirect,
])
/** Prices of setting locals to zero on entry, and of moving values when a function is called. */
const LOCALS_A_UNIT = 8
const MOVED_A_UNIT = 4
/** The limit of common engines. */
const LOCALS_MAX = 50_000
const NESTED_MAX = 1_000

/**
 * Paying costs time too. A segment that costs at most `MERGED_COST_MAX` is therefore paid for by
 * the segment that is always passed on the way to it, even if it is then not entered, as long as
 * that one pays at most `PAYER_COST_MAX` in all.
 */
const MERGED_COST_MAX = 32
const PAYER_COST_MAX = 128

type Segment = {
  cost: number
  /** Set if the segment begins a function or a loop; such a segment always pays for itself. */
  readonly head: 'function' | 'loop' | undefined
  /** The segment that is passed exactly once on every way here. */
  readonly behind: Segment | undefined
  /** The segment that pays for this one; undefined if it pays for itself. */
  payer: Segment | undefined
}

type Frame = {
  readonly kind: 'function' | 'block' | 'loop' | 'tight' | 'if'
  /** The segment in which the block was opened. */
  readonly outside: Segment
  /** Whether a jump targets its end. */
  joined: boolean
}

/** Indices of the imported fuel counter and of the function to call for more fuel. */
export type FuelImports = { readonly counter: number; readonly more: number }
/** The facts about a module that metering one of its functions needs. */
export type FunctionContext = {
  readonly signatures: Signatures
  /** The compile budget, shared by all functions of the module. */
  readonly budget: CompileBudget
  readonly imports: FuelImports
  /**
   * The index of a helper function that pays for a bulk instruction by its size and then executes
   * it.
   */
  readonly payingFor: (instruction: Instruction, operands: BinaryReader) => number
}

/** An index of the original module in the metered one, where our import was inserted at `ours`. */
export const shiftIndex = (index: number, ours: number): number => (index < ours ? index : index + 1)

export function meterFunction(
  body: BinaryReader,
  parameters: number,
  context: FunctionContext,
): BinaryWriter {
  const { signatures, budget, imports } = context
  const spliced = new Splicer(body)
  const locals = countLocals(body)
  const stack = new OperandStack(budget, parameters + locals, signatures)
  const segments: Segment[] = []
  const tight = tightLoops(body).values()
  let calls = false
  const begin = (head: Segment['head'], behind: Segment | undefined, again?: Uint8Array): Segment => {
    const segment: Segment = { cost: 0, head, behind, payer: undefined }
    segments.push(segment)
    spliced.insert(body.at, (out) => {
      if (again !== undefined) return payInTightLoop(out, imports, segment.cost, again)
      if (segment.payer !== undefined || segment.cost === 0) return
      pay(out, imports, segment.cost)
      if (head === 'loop' || (head === 'function' && calls)) checkFuel(out, imports)
    })
    return segment
  }

  let segment = begin('function', undefined)
  segment.cost = 1 + Math.ceil(locals / LOCALS_A_UNIT)
  const frames: Frame[] = [{ kind: 'function', outside: segment, joined: false }]
  let tightAt: number | undefined
  /** A jump's depth in the metered code, where a tight loop around it is written twice. */
  const jumpsTo = (depth: number): number => {
    const frame = frames.at(-1 - depth)
    if (frame !== undefined) frame.joined = true // if there is no such frame, the engine refuses the module
    return tightAt !== undefined && frames.length - 1 - depth < tightAt ? depth + 1 : depth
  }
  while (frames.length > 0) {
    const instruction = readInstruction(body)
    const { op, from, price } = instruction
    const operands = (): BinaryReader => new BinaryReader(body.slice(0, body.at), instruction.operands)
    segment.cost += price + Math.ceil(stack.apply(instruction, operands) / MOVED_A_UNIT)
    calls ||= CALLS.has(op)
    switch (op) {
      case OP.block:
      case OP.loop:
      case OP.if:
        if (frames.length >= NESTED_MAX)
          throw new MalformedBinary(`blocks are nested more than ${NESTED_MAX} deep`)
        if (op === OP.loop) {
          const isTight = tight.next().value === true
          if (isTight) tightAt = frames.length
          frames.push({ kind: isTight ? 'tight' : 'loop', outside: segment, joined: false })
          segment = begin('loop', undefined, isTight ? body.slice(from, body.at) : undefined)
          segment.cost = 1
        } else {
          frames.push({ kind: op === OP.block ? 'block' : 'if', outside: segment, joined: false })
          if (op === OP.if) segment = begin(undefined, segment)
        }
        break
      case OP.else:
        segment = begin(undefined, frames.at(-1)?.outside)
        break
      case OP.end: {
        const frame = frames.pop()
        if (frame === undefined || frames.length === 0) break
        if (frame.kind === 'tight') {
          tightAt = undefined // tight loops don't nest
          spliced.replace(body.at, body.at, (out) => out.u8(OP.end))
        }
        if (frame.kind !== 'block' || frame.joined) segment = begin(undefined, frame.outside)
        break
      }
      default: {
        const write = rewriteInstruction(instruction, operands, context, jumpsTo)
        if (write !== undefined) spliced.replace(from, body.at, write)
      }
    }
  }
  if (!body.done) throw new MalformedBinary(`a function continues after its end, at byte ${body.at}`)
  mergeSmallSegments(segments)
  return spliced.result()
}

type Write = (out: BinaryWriter) => void

/**
 * The replacement of an instruction whose indices shift, or undefined. Calls that might not reach
 * another check get one first.
 */
function rewriteInstruction(
  instruction: Instruction,
  read: () => BinaryReader,
  { imports, payingFor }: FunctionContext,
  jumpsTo: (depth: number) => number,
): Write | undefined {
  const { op } = instruction
  const numbered =
    (number: number): Write =>
    (out) =>
      void out.u8(op).u32(number)
  switch (op) {
    case OP.br:
    case OP.br_if:
      return numbered(jumpsTo(read().u32()))
    case OP.br_table:
      return rewriteJumpTable(read(), jumpsTo)
    case OP.global_get:
    case OP.global_set:
      return numbered(shiftIndex(read().u32(), imports.counter))
    case OP.ref_func:
      return numbered(shiftIndex(read().u32(), imports.more))
    case OP.call:
    case OP.return_call: {
      const number = read().u32()
      const call = numbered(shiftIndex(number, imports.more))
      return number < imports.more ? (out) => call(checkFuel(out, imports)) : call
    }
    case OP.call_indirect:
    case OP.return_call_indirect: {
      const [type, table] = readPair(read())
      return (out) => void checkFuel(out, imports).u8(op).u32(type).u32(table)
    }
  }
  if (!isSized(instruction)) return undefined
  const helper = payingFor(instruction, read())
  return (out) => void out.u8(OP.call).u32(helper)
}

const readPair = (operands: BinaryReader): [number, number] => [operands.u32(), operands.u32()]

function rewriteJumpTable(labels: BinaryReader, jumpsTo: (depth: number) => number): Write {
  return (out) => {
    const count = labels.u32()
    out.u8(OP.br_table).u32(count)
    for (let label = 0; label <= count; label++) out.u32(jumpsTo(labels.u32()))
  }
}

function countLocals(body: BinaryReader): number {
  let locals = 0
  body.times(() => {
    locals += body.u32()
    valueType(body)
  })
  if (locals > LOCALS_MAX)
    throw new MalformedBinary(`a function has ${locals} locals; the limit is ${LOCALS_MAX}`)
  return locals
}

const SIZED_BULK: ReadonlySet<number> = new Set(Object.values(BULK))
const isSized = ({ op, sub }: Instruction): boolean =>
  op === OP.memory_grow || (op === OP.bulk && SIZED_BULK.has(sub))

/**
 * For each loop in order: whether it is tight, that is, contains neither loops nor calls. Engines
 * unroll tight loops but no loops with calls, and asking for more fuel is a call. So a tight loop
 * is wrapped in a second loop, in which it asks.
 */
function tightLoops(body: BinaryReader): boolean[] {
  const code = new BinaryReader(body.slice(0, body.end), body.at)
  const tight: boolean[] = []
  const open: (number | undefined)[] = [undefined]
  let known = 0 // number of open blocks whose loops are known not to be tight
  while (open.length > 0) {
    const instruction = readInstruction(code)
    const { op } = instruction
    if (op === OP.loop || CALLS.has(op) || isSized(instruction))
      for (; known < open.length; known++) {
        const loop = open[known]
        if (loop !== undefined) tight[loop] = false
      }
    if (op === OP.block || op === OP.if) open.push(undefined)
    else if (op === OP.loop) open.push(tight.push(true) - 1)
    else if (op === OP.end) {
      open.pop()
      known = Math.min(known, open.length)
    }
  }
  return tight
}

/** Lets small segments be paid for by the segment before them. */
function mergeSmallSegments(segments: readonly Segment[]): void {
  for (const segment of segments) {
    const payer = segment.behind?.payer ?? segment.behind
    if (payer === undefined || segment.cost > MERGED_COST_MAX || payer.cost + segment.cost > PAYER_COST_MAX)
      continue
    segment.payer = payer
    payer.cost += segment.cost
  }
}

const NO_TYPE = 0x40

/** Subtracts `cost` from the counter. */
function pay(out: BinaryWriter, { counter }: FuelImports, cost: number): void {
  out.u8(OP.global_get).u32(counter).u8(OP.i64_const).s64(cost).u8(OP.i64_sub).u8(OP.global_set).u32(counter)
}

const isBelowZero = (out: BinaryWriter, { counter }: FuelImports): BinaryWriter =>
  out.u8(OP.global_get).u32(counter).u8(OP.i64_const, 0, OP.i64_lt_s)

/** Calls `more` if the counter is below zero; it throws if there is no fuel left. */
function checkFuel(out: BinaryWriter, imports: FuelImports): BinaryWriter {
  return isBelowZero(out, imports).u8(OP.if, NO_TYPE, OP.call).u32(imports.more).u8(OP.end)
}

/**
 * After the head of a tight loop: opens the inner loop, which jumps to the outer one to ask for
 * more.
 */
function payInTightLoop(out: BinaryWriter, imports: FuelImports, cost: number, again: Uint8Array): void {
  checkFuel(out, imports)
  isBelowZero(out.raw(again), imports).u8(OP.br_if, 1)
  pay(out, imports, cost)
}

/**
 * The price by size: `times` units for each item, or one unit for 2^`shift` of them. More than
 * `most` items cost nothing, because the instruction then fails anyway.
 */
export type SizePrice = ({ readonly times: number } | { readonly shift: number }) & { readonly most?: number }

/**
 * The body of a helper: pays for the amount in its parameter `size`, then executes the instruction.
 */
export function payingHelper(
  imports: FuelImports,
  parameters: number,
  size: number,
  by: SizePrice,
  instruction: Uint8Array,
): BinaryWriter {
  const out = new BinaryWriter().u32(0).u8(OP.global_get).u32(imports.counter).u8(OP.local_get).u32(size)
  if (by.most !== undefined)
    out.u8(OP.i32_const, 0, OP.local_get).u32(size).u8(OP.i32_const).s64(by.most).u8(OP.i32_le_u, OP.select)
  out.u8(OP.i64_extend_i32_u)
  if ('times' in by) out.u8(OP.i64_const).s64(by.times).u8(OP.i64_mul)
  else out.u8(OP.i64_const).s64(by.shift).u8(OP.i64_shr_u)
  checkFuel(out.u8(OP.i64_sub).u8(OP.global_set).u32(imports.counter), imports)
  for (let parameter = 0; parameter < parameters; parameter++) out.u8(OP.local_get).u32(parameter)
  return out.raw(instruction).u8(OP.end)
}
