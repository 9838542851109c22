// A core module of a skill, rewritten so that it pays for what it does and takes no more than it is given: fuel from one counter that the
// host hands to all modules of the skill, memories and tables with a maximum, start functions included. Pure over bytes from strangers:
// what the engine would refuse anyway may pass here, what could run unpaid may not.

import { Bytes, Malformed, Writer } from '../../../shared/bytes/wasm-binary.ts'
import { failure } from '../../../shared/failures.ts'
import type { Result } from '../../../shared/result.ts'
import { err, ok } from '../../../shared/result.ts'
import { type Arity, Effort } from './compile-cost.ts'
import { type By, type Meter, metered, moved, paying } from './fuel.ts'
import { BULK, type Instruction, OP, step, valueType } from './instructions.ts'
import { DATA, DATA_COUNT, HEADER, SECTION, sectionsOf } from './sections.ts'
import { Spliced } from './splice.ts'

/**
 * The imports of a metered module: its counter, a mutable i64, and a function that it calls when the counter is below zero. Who has no more to
 * give does not come back from there.
 */
export const FUEL = { module: 'countersign', counter: 'fuel', more: 'more' } as const

/** In 64 KiB pages and in elements, for each memory and table. */
export type Room = { readonly pages: number; readonly elements: number }

/** Bytes that one unit of fuel moves or fills. */
const BYTES_A_UNIT_LOG2 = 3
const PAGE_UNITS = 2_048
/** Of a table of functions, each may take 35 ns. */
const ELEMENT_UNITS = 16

const FUNCTION_TYPE = 0x60
/** Takes nothing, gives nothing. */
const MORE_TYPE = [FUNCTION_TYPE, 0, 0] as const
const I32 = 0x7f
const I64 = 0x7e
const KIND = { function: 0, table: 1, memory: 2, global: 3 } as const

export function meter(module: Uint8Array, room: Room): Result<Uint8Array> {
  try {
    return ok(new Metering(sectionsOf(module), room).module())
  } catch (thrown) {
    if (!(thrown instanceof Malformed)) throw thrown
    return err(failure('invalid_skill', `a module can’t be metered: ${thrown.message}`))
  }
}

/** A function that we add. */
type Helper = { readonly number: number; readonly type: readonly number[]; readonly body: Writer }

class Metering {
  readonly #sections: ReadonlyMap<number, Bytes>
  readonly #room: Room
  readonly #types: Arity[] = []
  /** Each function's type: first of those that are imported. */
  readonly #functions: number[] = []
  /** Globals and functions that are imported: ours come next. */
  #counter = 0
  #more = 0
  /** What each table holds. */
  readonly #tables: number[] = []
  readonly #helpers = new Map<string, Helper>()

  constructor(sections: ReadonlyMap<number, Bytes>, room: Room) {
    this.#sections = sections
    this.#room = room
  }

  module(): Uint8Array {
    // In this order: what comes later has to know the numbers of what came before. Code comes before functions and types are written,
    // for it says which ones we add.
    const types = this.#read(SECTION.type, (section) => this.#countTypes(section))
    const imports = this.#imports()
    this.#more = this.#functions.length
    const declared = this.#read(
      SECTION.function,
      (section) => void section.times(() => this.#functions.push(section.u32())),
    )
    const tables = this.#limited(SECTION.table, (section, out) => this.#table(section, out))
    const memories = this.#limited(SECTION.memory, (section, out) =>
      limits(section, out, this.#room.pages, 'pages of memory'),
    )
    const globals = this.#spliced(SECTION.global, (section, spliced) => {
      valueType(section)
      section.u8()
      this.#constant(section, spliced)
    })
    const exports = this.#spliced(SECTION.export, (section, spliced) => {
      nameIn(section)
      const kind = section.u8()
      const from = section.at
      const number = section.u32()
      const ours = kind === KIND.global ? this.#counter : kind === KIND.function ? this.#more : undefined
      if (ours !== undefined) spliced.replace(from, section.at, (out) => out.u32(moved(number, ours)))
    })
    const start = this.#start()
    const elements = this.#spliced(SECTION.element, (section, spliced) => this.#element(section, spliced))
    const data = this.#spliced(DATA, (section, spliced) => {
      const form = section.u32()
      if (form > 2) throw new Malformed(`data of the form ${form}`)
      if (form === 2) section.u32()
      if (form !== 1) this.#constant(section, spliced)
      section.skip(section.u32())
    })
    const code = this.#code()
    const helpers = [...this.#helpers.values()]
    const ourTypes = [MORE_TYPE, ...helpers.map(({ type }) => type)].map((type) => new Writer().raw(type))
    const typeNumbers = helpers.map((_, index) => new Writer().u32(this.#types.length + 1 + index))

    const written: readonly (readonly [number, Writer | undefined])[] = [
      [SECTION.type, appended(types, this.#types.length, ourTypes)],
      [SECTION.import, imports],
      [SECTION.function, appended(declared, this.#functions.length - this.#more, typeNumbers)],
      [SECTION.table, tables],
      [SECTION.memory, memories],
      [SECTION.global, globals],
      [SECTION.export, exports],
      [SECTION.start, start === undefined ? undefined : new Writer().u32(moved(start, this.#more))],
      [SECTION.element, elements],
      [DATA_COUNT, this.#dataCount()],
      [SECTION.code, code],
      [DATA, data],
    ]
    const out = new Writer().raw(HEADER)
    for (const [id, section] of written) if (section !== undefined) out.u8(id).sized(section)
    return out.bytes()
  }

  get #meter(): Meter {
    return { counter: this.#counter, more: this.#more }
  }

  #start(): number | undefined {
    const section = this.#sections.get(SECTION.start)
    const start = section?.u32()
    if (section !== undefined) atEnd(section, SECTION.start)
    return start
  }

  #dataCount(): Writer | undefined {
    const section = this.#sections.get(DATA_COUNT)
    return section && new Writer().raw(section.slice(section.at, section.end))
  }

  /** Reads it to its end and leaves it as it is. */
  #read(id: number, read: (section: Bytes) => void): Bytes | undefined {
    const section = this.#sections.get(id)
    if (section === undefined) return undefined
    const whole = new Bytes(section.slice(0, section.end), section.at)
    read(section)
    atEnd(section, id)
    return whole
  }

  #countTypes(section: Bytes): void {
    section.times(() => {
      if (section.u8() !== FUNCTION_TYPE) throw new Malformed('a type that is none of a function')
      this.#types.push({
        takes: section.times(() => valueType(section)),
        gives: section.times(() => valueType(section)),
      })
    })
  }

  #imports(): Writer {
    const section = this.#sections.get(SECTION.import)
    const out = new Writer()
    const count = section?.times(() => this.#import(section, out)) ?? 0
    if (section !== undefined) atEnd(section, SECTION.import)
    const ours = new Writer().text(FUEL.module).text(FUEL.counter).u8(KIND.global, I64, 1)
    ours.text(FUEL.module).text(FUEL.more).u8(KIND.function).u32(this.#types.length)
    return new Writer()
      .u32(count + 2)
      .raw(out.bytes())
      .raw(ours.bytes())
  }

  #import(section: Bytes, out: Writer): void {
    const from = section.at
    if (nameIn(section) === FUEL.module) throw new Malformed(`it imports from \`${FUEL.module}\``)
    nameIn(section)
    const kind = section.u8()
    out.raw(section.slice(from, section.at))
    const rest = section.at
    if (kind === KIND.table) this.#table(section, out)
    else if (kind === KIND.memory) limits(section, out, this.#room.pages, 'pages of memory')
    else if (kind === KIND.function) {
      const type = section.u32()
      this.#functions.push(type)
      out.u32(type)
    } else if (kind === KIND.global) {
      this.#counter++
      valueType(section)
      section.u8()
      out.raw(section.slice(rest, section.at))
    } else throw new Malformed(`an import of the kind ${kind} is not among those that a skill may have`)
  }

  #table(section: Bytes, out: Writer): void {
    const holds = referenceType(section)
    this.#tables.push(holds)
    limits(section, out.u8(holds), this.#room.elements, 'elements of a table')
  }

  #limited(id: number, one: (section: Bytes, out: Writer) => void): Writer | undefined {
    const section = this.#sections.get(id)
    if (section === undefined) return undefined
    const out = new Writer()
    const count = section.times(() => one(section, out))
    atEnd(section, id)
    return new Writer().u32(count).raw(out.bytes())
  }

  #spliced(id: number, one: (section: Bytes, spliced: Spliced) => void): Writer | undefined {
    const section = this.#sections.get(id)
    if (section === undefined) return undefined
    const spliced = new Spliced(section)
    section.times(() => one(section, spliced))
    atEnd(section, id)
    return spliced.result()
  }

  /** An expression that is worked out when the module is made: it can't loop. */
  #constant(section: Bytes, spliced: Spliced): void {
    for (;;) {
      const { op, from, operands } = step(section)
      if (op === OP.end) return
      if (op !== OP.global_get && op !== OP.ref_func) continue
      const number = new Bytes(section.slice(0, section.at), operands).u32()
      spliced.replace(from, section.at, (out) =>
        out.u8(op).u32(moved(number, op === OP.ref_func ? this.#more : this.#counter)),
      )
    }
  }

  /** Bit 0: not active. Bit 1: a table's number, or declared only. Bit 2: expressions in place of functions. */
  #element(section: Bytes, spliced: Spliced): void {
    const form = section.u32()
    if (form > 7) throw new Malformed(`elements of the form ${form}`)
    const [passive, numbered, expressions] = [(form & 1) !== 0, (form & 2) !== 0, (form & 4) !== 0]
    if (!passive) {
      if (numbered) section.u32()
      this.#constant(section, spliced)
    }
    if (passive || numbered) elementKind(section, expressions)
    section.times(() => {
      if (expressions) return this.#constant(section, spliced)
      const from = section.at
      const number = section.u32()
      spliced.replace(from, section.at, (out) => out.u32(moved(number, this.#more)))
    })
  }

  #code(): Writer | undefined {
    const section = this.#sections.get(SECTION.code)
    const bodies = new Writer()
    const around = {
      signatures: { types: this.#types, functions: this.#functions },
      effort: new Effort(section === undefined ? 0 : section.end - section.at),
      meter: this.#meter,
      payingFor: (instruction: Instruction, operands: Bytes) => this.#helper(instruction, operands),
    }
    const defined = this.#functions.slice(this.#more).map((type) => this.#types[type]?.takes ?? 0)
    const count =
      section?.times((index) =>
        bodies.sized(metered(section.part(section.u32()), defined[index] ?? 0, around)),
      ) ?? 0
    if (section !== undefined) atEnd(section, SECTION.code)
    if (count !== defined.length)
      throw new Malformed(`${defined.length} functions are declared and ${count} are there`)
    if (count === 0) return undefined
    const out = new Writer().u32(count + this.#helpers.size).raw(bodies.bytes())
    for (const { body } of this.#helpers.values()) out.sized(body)
    return out
  }

  /** One for each instruction with its operands. */
  #helper({ op, sub, from }: Instruction, operands: Bytes): number {
    const does = operands.slice(from, operands.end)
    const key = does.join()
    const known = this.#helpers.get(key)
    if (known !== undefined) return known.number
    const { parameters, results, size, by } = this.#sized(op, sub, operands)
    const number = this.#functions.length + 1 + this.#helpers.size
    const type = [FUNCTION_TYPE, parameters.length, ...parameters, results.length, ...results]
    this.#helpers.set(key, { number, type, body: paying(this.#meter, parameters.length, size, by, does) })
    return number
  }

  #sized(op: number, sub: number, operands: Bytes): Sized {
    const bytes = { shift: BYTES_A_UNIT_LOG2 }
    const each = { times: ELEMENT_UNITS }
    if (op === OP.memory_grow)
      return { parameters: [I32], results: [I32], size: 0, by: { times: PAGE_UNITS, most: this.#room.pages } }
    const three = { parameters: [I32, I32, I32], results: [], size: 2 }
    switch (sub) {
      case BULK.memory_init:
      case BULK.memory_copy:
      case BULK.memory_fill:
        return { ...three, by: bytes }
      case BULK.table_init:
      case BULK.table_copy:
        return { ...three, by: each }
    }
    const holds = this.#tables[operands.u32()]
    if (holds === undefined) throw new Malformed('an instruction names a table that is not there')
    return sub === BULK.table_grow
      ? { parameters: [holds, I32], results: [I32], size: 1, by: { ...each, most: this.#room.elements } }
      : { parameters: [I32, holds, I32], results: [], size: 2, by: each }
  }
}

/** `size`: which parameter tells how much there is to do. */
type Sized = {
  readonly parameters: readonly number[]
  readonly results: readonly number[]
  readonly size: number
  readonly by: By
}

/** A list with more at its end. */
function appended(before: Bytes | undefined, count: number, added: readonly Writer[]): Writer | undefined {
  if (before === undefined && added.length === 0) return undefined
  const out = new Writer().u32(count + added.length)
  if (before !== undefined) {
    before.u32()
    out.raw(before.slice(before.at, before.end))
  }
  for (const one of added) out.raw(one.bytes())
  return out
}

function atEnd(section: Bytes, id: number): void {
  if (!section.done) throw new Malformed(`section ${id} goes on after its end`)
}

/**
 * Names of imports and exports come to stand in the glue, which is JavaScript, between quotes that nobody looks for in them: what could
 * end a string or begin a template is refused, and so is the space that would make a word of the glue's own of it. And `__proto__`, between
 * quotes or not, is no name there.
 */
const NAME = /^[!#-&(-[\]-_a-z|~]*$/

function nameIn(section: Bytes): string {
  const bytes = section.part(section.u32())
  const name = new TextDecoder().decode(bytes.slice(bytes.at, bytes.end))
  if (!NAME.test(name) || name === '__proto__')
    throw new Malformed(
      `it imports or exports ${JSON.stringify(name.slice(0, 100))}, which is no name for that`,
    )
  return name
}

const REFERENCE_TYPES: ReadonlySet<number> = new Set([0x70, 0x6f])

function referenceType(code: Bytes): number {
  const type = code.u8()
  if (!REFERENCE_TYPES.has(type))
    throw new Malformed(
      `references of the type 0x${type.toString(16)} are not among those that a skill may have`,
    )
  return type
}

/** Functions by their numbers, or expressions of one type. */
function elementKind(section: Bytes, expressions: boolean): void {
  if (expressions) referenceType(section)
  else if (section.u8() !== 0) throw new Malformed('elements that are no functions')
}

/** With a maximum, whether it had one or not. Shared memories, and those of 64 bits, are none of ours. */
function limits(section: Bytes, out: Writer, most: number, what: string): void {
  const flags = section.u8()
  if (flags > 1) throw new Malformed('a memory or table that is shared or has 64 bits')
  const least = section.u32()
  const asked = flags === 1 ? section.u32() : most
  if (least > most) throw new Malformed(`it begins with ${least} ${what}; ${most} are the most`)
  out.u8(1).u32(least).u32(Math.min(asked, most))
}
