// What a function's code costs, and where it pays. Code is cut into parts that are entered at their beginning alone; each pays for itself
// whole when it is entered, from the one counter that all modules of a skill share. Whoever goes on for ever passes the head of a loop or
// the beginning of a function that calls: there it is seen whether anything is left. The same input costs the same on every machine,
// unless the stack runs out, whose depth is the engine's.

import { Bytes, Malformed, Writer } from '../../../shared/bytes/wasm-binary.ts'
import { type Effort, type Signatures, Stack } from './compile-cost.ts'
import { BULK, type Instruction, OP, step, valueType } from './instructions.ts'
import { Spliced } from './splice.ts'

const CALLS: ReadonlySet<number> = new Set([
  OP.call,
  OP.call_indirect,
  OP.return_call,
  OP.return_call_indirect,
])
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
  readonly kind: 'function' | 'block' | 'loop' | 'tight' | 'if'
  /** Where it was opened. */
  readonly outside: Part
  /** Whether anything jumps to its end. */
  joined: boolean
}

/** Where a module has what it pays with: its counter's number among globals, and that of the function which is asked for more. */
export type Meter = { readonly counter: number; readonly more: number }
/** How a function's code stands in its module as it will be. */
export type Around = {
  readonly signatures: Signatures
  /** What is left of it for all functions. */
  readonly effort: Effort
  readonly meter: Meter
  /** The number of the function that pays for one of these by its size and then does it. */
  readonly payingFor: (instruction: Instruction, operands: Bytes) => number
}

/** `number`'s place once ours has come between. */
export const moved = (number: number, ours: number): number => (number < ours ? number : number + 1)

export function metered(body: Bytes, parameters: number, around: Around): Writer {
  const { signatures, effort, meter } = around
  const spliced = new Spliced(body)
  const locals = localsOf(body)
  const stack = new Stack(effort, parameters + locals, signatures)
  const parts: Part[] = []
  const tight = tightLoops(body).values()
  let calls = false
  const begin = (head: Part['head'], behind: Part | undefined, again?: Uint8Array): Part => {
    const part: Part = { cost: 0, head, behind, payer: undefined }
    parts.push(part)
    spliced.insert(body.at, (out) => {
      if (again !== undefined) return payTight(out, meter, part.cost, again)
      if (part.payer !== undefined || part.cost === 0) return
      pay(out, meter, part.cost)
      if (head === 'loop' || (head === 'function' && calls)) look(out, meter)
    })
    return part
  }

  let part = begin('function', undefined)
  part.cost = 1 + Math.ceil(locals / LOCALS_A_UNIT)
  const frames: Frame[] = [{ kind: 'function', outside: part, joined: false }]
  let tightAt: number | undefined
  /** The depth as it is where a tight loop around this stands twice. */
  const jumpsTo = (depth: number): number => {
    const frame = frames.at(-1 - depth)
    if (frame !== undefined) frame.joined = true // where there is none, the engine refuses the module
    return tightAt !== undefined && frames.length - 1 - depth < tightAt ? depth + 1 : depth
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
        if (frames.length >= NESTED_MAX)
          throw new Malformed(`blocks stand inside each other more than ${NESTED_MAX} deep`)
        if (op === OP.loop) {
          const isTight = tight.next().value === true
          if (isTight) tightAt = frames.length
          frames.push({ kind: isTight ? 'tight' : 'loop', outside: part, joined: false })
          part = begin('loop', undefined, isTight ? body.slice(from, body.at) : undefined)
          part.cost = 1
        } else {
          frames.push({ kind: op === OP.block ? 'block' : 'if', outside: part, joined: false })
          if (op === OP.if) part = begin(undefined, part)
        }
        break
      case OP.else:
        part = begin(undefined, frames.at(-1)?.outside)
        break
      case OP.end: {
        const frame = frames.pop()
        if (frame === undefined || frames.length === 0) break
        if (frame.kind === 'tight') {
          tightAt = undefined // no other stands around it that is
          spliced.replace(body.at, body.at, (out) => out.u8(OP.end))
        }
        if (frame.kind !== 'block' || frame.joined) part = begin(undefined, frame.outside)
        break
      }
      default: {
        const write = rewritten(instruction, operands, around, jumpsTo)
        if (write !== undefined) spliced.replace(from, body.at, write)
      }
    }
  }
  if (!body.done) throw new Malformed(`a function goes on after its end, at byte ${body.at}`)
  share(parts)
  return spliced.result()
}

type Write = (out: Writer) => void

/** What stands in its place where our numbers have come between: with a look at the counter before what may not come to another one. */
function rewritten(
  instruction: Instruction,
  read: () => Bytes,
  { meter, payingFor }: Around,
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
      return jumps(read(), jumpsTo)
    case OP.global_get:
    case OP.global_set:
      return numbered(moved(read().u32(), meter.counter))
    case OP.ref_func:
      return numbered(moved(read().u32(), meter.more))
    case OP.call:
    case OP.return_call: {
      const number = read().u32()
      const call = numbered(moved(number, meter.more))
      return number < meter.more ? (out) => call(look(out, meter)) : call
    }
    case OP.call_indirect:
    case OP.return_call_indirect: {
      const [type, table] = twoOf(read())
      return (out) => void look(out, meter).u8(op).u32(type).u32(table)
    }
  }
  if (!isSized(instruction)) return undefined
  const helper = payingFor(instruction, read())
  return (out) => void out.u8(OP.call).u32(helper)
}

const twoOf = (operands: Bytes): [number, number] => [operands.u32(), operands.u32()]

function jumps(labels: Bytes, jumpsTo: (depth: number) => number): Write {
  return (out) => {
    const count = labels.u32()
    out.u8(OP.br_table).u32(count)
    for (let label = 0; label <= count; label++) out.u32(jumpsTo(labels.u32()))
  }
}

function localsOf(body: Bytes): number {
  let locals = 0
  body.times(() => {
    locals += body.u32()
    valueType(body)
  })
  if (locals > LOCALS_MAX) throw new Malformed(`a function has ${locals} locals; ${LOCALS_MAX} are the most`)
  return locals
}

const SIZED: ReadonlySet<number> = new Set(Object.values(BULK))
const isSized = ({ op, sub }: Instruction): boolean =>
  op === OP.memory_grow || (op === OP.bulk && SIZED.has(sub))

/**
 * Of each loop, in order: whether nothing in it loops or calls. Engines unroll such a loop, but not one that has a call in it, and to ask for
 * more is one: so it stands in a second loop around it.
 */
function tightLoops(body: Bytes): boolean[] {
  const code = new Bytes(body.slice(0, body.end), body.at)
  const tight: boolean[] = []
  const open: (number | undefined)[] = [undefined]
  let known = 0 // of those that are open, so many are not tight
  while (open.length > 0) {
    const instruction = step(code)
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

/** Small parts are paid for by those that come before them. */
function share(parts: readonly Part[]): void {
  for (const part of parts) {
    const payer = part.behind?.payer ?? part.behind
    if (payer === undefined || part.cost > SMALL || payer.cost + part.cost > WHOLE) continue
    part.payer = payer
    payer.cost += part.cost
  }
}

const NO_TYPE = 0x40

/** Takes `cost` from the counter. */
function pay(out: Writer, { counter }: Meter, cost: number): void {
  out.u8(OP.global_get).u32(counter).u8(OP.i64_const).s64(cost).u8(OP.i64_sub).u8(OP.global_set).u32(counter)
}

const isBelow = (out: Writer, { counter }: Meter): Writer =>
  out.u8(OP.global_get).u32(counter).u8(OP.i64_const, 0, OP.i64_lt_s)

/** A counter below zero asks for more, and who gets none comes back no more. */
function look(out: Writer, meter: Meter): Writer {
  return isBelow(out, meter).u8(OP.if, NO_TYPE, OP.call).u32(meter.more).u8(OP.end)
}

/** Behind a loop's beginning: the same loop once more, left for the outer one where more is to be asked for. */
function payTight(out: Writer, meter: Meter, cost: number, again: Uint8Array): void {
  look(out, meter)
  isBelow(out.raw(again), meter).u8(OP.br_if, 1)
  pay(out, meter, cost)
}

/** How much there is to do: `times` units for each of what is counted, or one for 2^`shift` of it; nothing for more than `most`, which is refused anyway. */
export type By = ({ readonly times: number } | { readonly shift: number }) & { readonly most?: number }

/** A function that pays by what its parameter `size` counts, then does the instruction with all its parameters. */
export function paying(meter: Meter, parameters: number, size: number, by: By, does: Uint8Array): Writer {
  const out = new Writer().u32(0).u8(OP.global_get).u32(meter.counter).u8(OP.local_get).u32(size)
  if (by.most !== undefined)
    out.u8(OP.i32_const, 0, OP.local_get).u32(size).u8(OP.i32_const).s64(by.most).u8(OP.i32_le_u, OP.select)
  out.u8(OP.i64_extend_i32_u)
  if ('times' in by) out.u8(OP.i64_const).s64(by.times).u8(OP.i64_mul)
  else out.u8(OP.i64_const).s64(by.shift).u8(OP.i64_shr_u)
  look(out.u8(OP.i64_sub).u8(OP.global_set).u32(meter.counter), meter)
  for (let parameter = 0; parameter < parameters; parameter++) out.u8(OP.local_get).u32(parameter)
  return out.raw(does).u8(OP.end)
}
