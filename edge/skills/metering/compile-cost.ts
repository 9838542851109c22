// What a function asks of whoever compiles it. An engine carries all locals, and all that lies on the stack, along past each point where ways
// part or meet: 70 KB of code kept one busy for half a minute, and 4 MB made it more machine code than it may have, of which the whole
// process died. No fuel pays for that, so it is counted here, before an engine sees it. Pure.

import { type Bytes, Malformed } from '../../../shared/bytes/wasm-binary.ts'
import { LIMITS } from '../../../shared/limits.ts'
import { type Instruction, OP, VALUE_TYPES } from './instructions.ts'

/** How many values a function or a block takes from the stack, and gives back. */
export type Arity = { readonly takes: number; readonly gives: number }

/** What a module says of its types and functions. Who names one that is not there is refused. */
export type Signatures = { readonly types: readonly Arity[]; readonly functions: readonly number[] }

/** Of a whole module, in values that are carried. What compilers make of programs takes one to two for each byte. */
export class Effort {
  #left: number

  constructor(codeBytes: number) {
    this.#left = LIMITS.skill_effort + LIMITS.skill_effort_a_byte * codeBytes
  }

  spend(values: number): void {
    this.#left -= values
    if (this.#left < 0)
      throw new Malformed(
        'it would take an engine too long to compile: fewer locals, values or jumps in one function',
      )
  }
}

type Frame = Arity & { /** What lay there before it. */ readonly base: number }

const NO_TYPE = 0x40
/** What each point takes beside what is carried. */
const POINT = 8
/** And each function, and each call. */
const FUNCTION = 32
const CALL = 4

/** What lies on the stack as one function is gone through. */
export class Stack {
  readonly #effort: Effort
  readonly #locals: number
  readonly #signatures: Signatures
  readonly #frames: Frame[] = [{ base: 0, takes: 0, gives: 0 }]
  #height = 0

  constructor(effort: Effort, locals: number, signatures: Signatures) {
    this.#effort = effort
    this.#locals = locals
    this.#signatures = signatures
    this.#effort.spend(FUNCTION)
    this.#point(1)
  }

  /** How many values a call moves; of anything else, none. */
  pass({ op, leaves }: Instruction, operands: () => Bytes): number {
    const base = this.#frames.at(-1)?.base ?? 0
    this.#height = Math.max(base, this.#height + leaves)
    switch (op) {
      case OP.block:
      case OP.loop:
      case OP.if: {
        const arity = this.#blockType(operands())
        this.#frames.push({ ...arity, base: Math.max(base, this.#height - arity.takes) })
        this.#point(1)
        return 0
      }
      case OP.else:
        this.#height = base + (this.#frames.at(-1)?.takes ?? 0)
        this.#point(1)
        return 0
      case OP.end:
        this.#height = base + (this.#frames.pop()?.gives ?? 0)
        this.#point(1)
        return 0
      case OP.br_if:
        this.#point(1)
        return 0
      case OP.br_table:
        this.#point(operands().u32() + 1)
        return this.#left(base)
      case OP.br:
        this.#point(1)
        return this.#left(base)
      case OP.return:
      case OP.unreachable:
        return this.#left(base)
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

  /** Where ways part or meet. */
  #point(ways: number): void {
    this.#effort.spend(ways * (POINT + this.#locals + this.#height))
  }

  /** Nobody comes by here: what lies there is whatever is wanted. */
  #left(base: number): number {
    this.#height = base
    return 0
  }

  #call(isLast: boolean, { takes, gives }: Arity, base: number): number {
    this.#effort.spend(CALL + takes + gives)
    this.#height = isLast ? base : Math.max(base, this.#height - takes) + gives
    return takes + gives
  }

  #type(number: number | undefined): Arity {
    const arity = number === undefined ? undefined : this.#signatures.types[number]
    if (arity === undefined)
      throw new Malformed('an instruction names a type or a function that is not there')
    return arity
  }

  /** None, one value's, or that of a function; a type of several bytes would hide code behind it. */
  #blockType(operands: Bytes): Arity {
    const from = operands.at
    const first = operands.u8()
    if (first === NO_TYPE) return { takes: 0, gives: 0 }
    if (VALUE_TYPES.has(first)) return { takes: 0, gives: 1 }
    if (first >= NO_TYPE && first < 0x80) throw new Malformed(`a block of the type 0x${first.toString(16)}`)
    operands.at = from
    return this.#type(operands.u32())
  }
}
