// What a function's code costs, and where it pays. Code is cut into parts that are entered at their beginning alone; each pays for itself
// whole when it is entered, from the one counter that all modules of a skill share. Whoever goes on for ever passes the head of a loop or
// the beginning of a function that calls: there it is seen whether anything is left. The same input costs the same on every machine.

import { Bytes, Malformed, Writer } from '../../shared/wasm-bytes.ts'
import { type Effort, type Signatures, Stack } from './effort.ts'
import { BULK, type Instruction, OP, step, valueType } from './instructions.ts'

const CALLS: ReadonlySet<number> = new Set([OP.call, OP.call_indirect, OP.return_call, OP.return_call_indirect])
/** Each is set to zero when its function is entered; or moved, when another is called. */
const LOCALS_A_UNIT = 8
const MOVED_A_UNIT = 4
/** As engines take it. */
const LOCALS_MAX = 50_000
const NESTED_MAX = 1_000

/**
 * A part that costs no more than `SMALL` is paid for by the part that had to be passed on the way to it, even where it is then not
 * entered, as long as that one costs no more than `WHOLE` in all: paying costs time too.
 */
const SMALL = 32
const WHOLE = 128

type Part = {
  cost: number
  /** The beginning of a function or of a loop: paid for by nobody else. */
  readonly head: 'function' | 'loop' | undefined
  /** Always passed on the way here, and no more than once for each time that we are. */
  readonly behind: Part | undefined
  /** Who pays for it. */
  payer: Part | undefined
}

type Frame = {
  readonly kind: 'function' | 'block' | 'loop' | 'if'
  /** Where it was opened. */
  readonly outside: Part
  /** Whether anything jumps to its end. */
  joined: boolean
}

/** A text of bytes with some of them replaced, in order. What is written for them may be known later. */
export class Spliced {
  readonly #source: Bytes
  readonly #from: number
  readonly #edits: { from: number; to: number; write: (out: Writer) => void }[] = []

  constructor(source: Bytes) {
    this.#source = source
    this.#from = source.at
  }

  replace(from: number, to: number, write: (out: Writer) => void): void {
    this.#edits.push({ from, to, write })
  }

  result(): Writer {
    const out = new Writer()
    let at = this.#from
    for (const { from, to, write } of this.#edits) {
      out.raw(this.#source.slice(at, from))
      write(out)
      at = to
    }
    return out.raw(this.#source.slice(at, this.#source.end))
  }
}

/** How a function's code stands in its module as it will be. */
export type Around = {
  readonly signatures: Signatures
  /** What is left of it for all functions. */
  readonly effort: Effort
  /** The counter's number among globals; those from there on have moved by one. */
  readonly counter: number
  /** The number of the function that pays for one of these by its size and then does it. */
  readonly payingFor: (instruction: Instruction, operands: Bytes) => number
}

/** `number`'s place after the counter has come between. */
export const moved = (number: number, counter: number): number => (number < counter ? number : number + 1)

export function metered(body: Bytes, parameters: number, { signatures, effort, counter, payingFor }: Around): Writer {
  const spliced = new Spliced(body)
  let locals = 0
  body.times(() => {
    locals += body.u32()
    valueType(body)
  })
  if (locals > LOCALS_MAX) throw new Malformed(`a function has ${locals} locals; ${LOCALS_MAX} are the most`)

  const stack = new Stack(effort, parameters + locals, signatures)
  const parts: Part[] = []
  let calls = false
  const checked = ({ head }: Part): boolean => head === 'loop' || (head === 'function' && calls)
  const begin = (head: Part['head'], behind: Part | undefined): Part => {
    const part: Part = { cost: 0, head, behind, payer: undefined }
    parts.push(part)
    spliced.replace(body.at, body.at, (out) => {
      if (part.payer === undefined && part.cost > 0) pay(out, counter, part.cost, checked(part))
    })
    return part
  }

  let part = begin('function', undefined)
  part.cost = 1 + Math.ceil(locals / LOCALS_A_UNIT)
  const frames: Frame[] = [{ kind: 'function', outside: part, joined: false }]
  const jumpsTo = (depth: number): void => {
    const frame = frames.at(-1 - depth)
    if (frame !== undefined) frame.joined = true // where there is none, the engine refuses the module
  }
  while (frames.length > 0) {
    const instruction = step(body)
    const { op, from, price } = instruction
    const operands = (): Bytes => new Bytes(body.slice(0, body.at), instruction.operands)
    part.cost += price + Math.ceil(stack.pass(instruction, operands) / MOVED_A_UNIT)
    calls ||= CALLS.has(op)
    switch (op) {
      case OP.block:
      case OP.loop:
      case OP.if:
        if (frames.length >= NESTED_MAX) throw new Malformed(`blocks stand inside each other more than ${NESTED_MAX} deep`)
        frames.push({ kind: op === OP.block ? 'block' : op === OP.loop ? 'loop' : 'if', outside: part, joined: false })
        if (op === OP.loop) {
          part = begin('loop', undefined)
          part.cost = 1
        } else if (op === OP.if) part = begin(undefined, part)
        break
      case OP.else:
        part = begin(undefined, frames.at(-1)?.outside)
        break
      case OP.end: {
        const frame = frames.pop()
        if (frame !== undefined && frames.length > 0 && (frame.kind !== 'block' || frame.joined)) part = begin(undefined, frame.outside)
        break
      }
      case OP.br:
      case OP.br_if:
        jumpsTo(operands().u32())
        break
      case OP.br_table: {
        const labels = operands()
        labels.times(() => jumpsTo(labels.u32()))
        jumpsTo(labels.u32())
        break
      }
      case OP.global_get:
      case OP.global_set:
        spliced.replace(from, body.at, (out) => out.u8(op).u32(moved(operands().u32(), counter)))
        break
      default:
        if (isSized(instruction)) {
          const helper = payingFor(instruction, operands())
          spliced.replace(from, body.at, (out) => out.u8(OP.call).u32(helper))
        }
    }
  }
  if (!body.done) throw new Malformed(`a function goes on after its end, at byte ${body.at}`)
  share(parts)
  return spliced.result()
}

const SIZED: ReadonlySet<number> = new Set(Object.values(BULK))
const isSized = ({ op, sub }: Instruction): boolean => op === OP.memory_grow || (op === OP.bulk && SIZED.has(sub))

/** Small parts are paid for by those that come before them. */
function share(parts: readonly Part[]): void {
  for (const part of parts) {
    const payer = part.behind?.payer ?? part.behind
    if (payer === undefined || part.cost > SMALL || payer.cost + part.cost > WHOLE) continue
    part.payer = payer
    payer.cost += part.cost
  }
}

/** Takes `cost` from the counter; where it is looked at, one below zero ends the skill. */
function pay(out: Writer, counter: number, cost: number, checked: boolean): void {
  out.u8(OP.global_get).u32(counter).u8(OP.i64_const).s64(cost).u8(OP.i64_sub).u8(OP.global_set).u32(counter)
  if (checked) look(out, counter)
}

const NO_TYPE = 0x40

function look(out: Writer, counter: number): void {
  out.u8(OP.global_get).u32(counter).u8(OP.i64_const).s64(0).u8(OP.i64_lt_s)
  out.u8(OP.if, NO_TYPE, OP.unreachable, OP.end)
}

/** How much there is to do: `times` units for each of what is counted, or one for 2^`shift` of it; nothing for more than `most`, which is refused anyway. */
export type By = ({ readonly times: number } | { readonly shift: number }) & { readonly most?: number }

/** A function that pays by what its parameter `size` counts, then does the instruction with all its parameters. */
export function paying(counter: number, parameters: number, size: number, by: By, does: Uint8Array): Writer {
  const out = new Writer().u32(0).u8(OP.global_get).u32(counter).u8(OP.local_get).u32(size)
  if (by.most !== undefined) out.u8(OP.i32_const, 0, OP.local_get).u32(size).u8(OP.i32_const).s64(by.most).u8(OP.i32_le_u, OP.select)
  out.u8(OP.i64_extend_i32_u)
  if ('times' in by) out.u8(OP.i64_const).s64(by.times).u8(OP.i64_mul)
  else out.u8(OP.i64_const).s64(by.shift).u8(OP.i64_shr_u)
  out.u8(OP.i64_sub).u8(OP.global_set).u32(counter)
  look(out, counter)
  for (let parameter = 0; parameter < parameters; parameter++) out.u8(OP.local_get).u32(parameter)
  return out.raw(does).u8(OP.end)
}
