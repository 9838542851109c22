// Bounds the cost of compiling a module, which no fuel pays for (W06). At each branch and join an
// engine carries along all locals and all values on the stack: 70 KB of code kept one busy for half
// a minute, and 4 MB of code exceeded its limit of machine code, which ended the whole process. The
// cost is counted here before an engine sees the code. Pure.

import { type BinaryReader, MalformedBinary } from '../../../shared/bytes/wasm-binary.ts'
import { LIMITS } from '../../../shared/limits.ts'
import { type Instruction, OP, VALUE_TYPES } from './instructions.ts'

/** How many values a function or a block takes from the stack, and how many it leaves there. */
export type Arity = { readonly takes: number; readonly gives: number }

/** A module's function types, and the type index of each function. */
export type Signatures = { readonly types: readonly Arity[]; readonly functions: readonly number[] }

/**
 * The compile budget of a module, in carried values. Code from compilers needs one to two for each
 * byte.
 */
export class CompileBudget {
  #left: number

  constructor(codeBytes: number) {
    this.#left = LIMITS.skill_effort + LIMITS.skill_effort_a_byte * codeBytes
  }

  spend(values: number): void {
    this.#left -= values
    if (this.#left < 0)
      throw new MalformedBinary(
        'it would take too long to compile; use fewer locals, values or jumps in one function',
      )
  }
}

type Frame = Arity & { /** Height of the stack when the block was entered. */ readonly base: number }

const NO_TYPE = 0x40
/** Cost of each branch or join, in addition to the values that it carries. */
const POINT_COST = 8
/** Cost of each function, and of each call. */
const FUNCTION_COST = 32
const CALL_COST = 4

/** Follows the height of the operand stack through one function and spends the compile budget. */
export class OperandStack {
  readonly #budget: CompileBudget
  readonly #locals: number
  readonly #signatures: Signatures
  readonly #frames: Frame[] = [{ base: 0, takes: 0, gives: 0 }]
  #height = 0

  constructor(budget: CompileBudget, locals: number, signatures: Signatures) {
    this.#budget = budget
    this.#locals = locals
    this.#signatures = signatures
    this.#budget.spend(FUNCTION_COST)
    this.#branch(1)
  }

  /** Applies one instruction. Returns how many values it moves if it is a call, else 0. */
  apply({ op, stackDelta }: Instruction, operands: () => BinaryReader): number {
    const base = this.#frames.at(-1)?.base ?? 0
    this.#height = Math.max(base, this.#height + stackDelta)
    switch (op) {
      case OP.block:
      case OP.loop:
      case OP.if: {
        const arity = this.#blockType(operands())
        this.#frames.push({ ...arity, base: Math.max(base, this.#height - arity.takes) })
        this.#branch(1)
        return 0
      }
      case OP.else:
        this.#height = base + (this.#frames.at(-1)?.takes ?? 0)
        this.#branch(1)
        return 0
      case OP.end:
        this.#height = base + (this.#frames.pop()?.gives ?? 0)
        this.#branch(1)
        return 0
      case OP.br_if:
        this.#branch(1)
        return 0
      case OP.br_table:
        this.#branch(operands().u32() + 1)
        return this.#unreachable(base)
      case OP.br:
        this.#branch(1)
        return this.#unreachable(base)
      case OP.return:
      case OP.unreachable:
        return this.#unreachable(base)
      case OP.call:
      case OP.return_call:
        return this.#call(
          op === OP.return_call,
          this.#type(this.#signatures.functions[operands().u32()]),
          base,
        )
      case OP.call_indirect:
      case OP.return_call_indirect:
        return this.#call(op === OP.return_call_indirect, this.#type(operands().u32()), base)
    }
    return 0
  }

  /** A branch or join with this many ways. */
  #branch(ways: number): void {
    this.#budget.spend(ways * (POINT_COST + this.#locals + this.#height))
  }

  /** After an unconditional jump the code is unreachable; its stack is polymorphic. */
  #unreachable(base: number): number {
    this.#height = base
    return 0
  }

  #call(isLast: boolean, { takes, gives }: Arity, base: number): number {
    this.#budget.spend(CALL_COST + takes + gives)
    this.#height = isLast ? base : Math.max(base, this.#height - takes) + gives
    return takes + gives
  }

  #type(number: number | undefined): Arity {
    const arity = number === undefined ? undefined : this.#signatures.types[number]
    if (arity === undefined)
      throw new MalformedBinary('an instruction refers to a type or a function that does not exist')
    return arity
  }

  /**
   * Empty, one value type, or the index of a function type. A longer encoding could hide code
   * behind it.
   */
  #blockType(operands: BinaryReader): Arity {
    const from = operands.at
    const first = operands.u8()
    if (first === NO_TYPE) return { takes: 0, gives: 0 }
    if (VALUE_TYPES.has(first)) return { takes: 0, gives: 1 }
    if (first >= NO_TYPE && first < 0x80)
      throw new MalformedBinary(`a block has the type 0x${first.toString(16)}, which a skill may not use`)
    operands.at = from
    return this.#type(operands.u32())
  }
}
