// Rewrites a core module of a skill so that it pays fuel for its work, start functions included,
// and its memories and tables have a maximum (W03, W04). All modules of a skill pay from one
// counter, which the host provides. Pure over untrusted bytes: an invalid module may pass if an
// engine refuses it anyway, but no code may run unpaid.

import { BinaryReader, BinaryWriter, MalformedBinary } from '../../../shared/bytes/wasm-binary.ts'
import { failure } from '../../../shared/failures.ts'
import type { Result } from '../../../shared/result.ts'
import { err, ok } from '../../../shared/result.ts'
import { type Arity, CompileBudget } from './compile-cost.ts'
import { type FuelImports, meterFunction, payingHelper, type SizePrice, shiftIndex } from './fuel.ts'
import { BULK, type Instruction, OP, readInstruction, valueType } from './instructions.ts'
import { DATA, DATA_COUNT, HEADER, SECTION, sectionsOf } from './sections.ts'
import { Splicer } from './splice.ts'

/**
 * The imports of a metered module: the counter, a mutable i64, and a function that the module calls
 * when the counter is below zero. If there is no fuel left, that function throws.
 */
export const FUEL = { module: 'countersign', counter: 'fuel', more: 'more' } as const

/** The maximum of each memory, in pages of 64 KiB, and of each table, in elements. */
export type ModuleLimits = { readonly pages: number; readonly elements: number }

/** One unit of fuel moves or fills 2^3 bytes. */
const BYTES_A_UNIT_LOG2 = 3
const PAGE_UNITS = 2_048
/** Per element of a function table; setting one may take 35 ns. */
const ELEMENT_UNITS = 16

const FUNCTION_TYPE = 0x60
/** The type of `more`: no parameters, no results. */
const MORE_TYPE = [FUNCTION_TYPE, 0, 0] as const
const I32 = 0x7f
const I64 = 0x7e
const KIND = { function: 0, table: 1, memory: 2, global: 3 } as const

export function meter(module: Uint8Array, limits: ModuleLimits): Result<Uint8Array> {
  try {
    return ok(new ModuleMetering(sectionsOf(module), limits).module())
  } catch (thrown) {
    if (!(thrown instanceof MalformedBinary)) throw thrown
    return err(failure('invalid_skill', `a module can’t be metered: ${thrown.message}`))
  }
}

/** A function that metering adds to the module. */
type Helper = { readonly number: number; readonly type: readonly number[]; readonly body: BinaryWriter }

class ModuleMetering {
  readonly #sections: ReadonlyMap<number, BinaryReader>
  readonly #limits: ModuleLimits
  readonly #types: Arity[] = []
  /** The type index of each function, imported ones first. */
  readonly #functions: number[] = []
  /**
   * Indices of our imports: the numbers of globals and functions that the module imports itself.
   */
  #counter = 0
  #more = 0
  /** The element type of each table. */
  readonly #tables: number[] = []
  readonly #helpers = new Map<string, Helper>()

  constructor(sections: ReadonlyMap<number, BinaryReader>, limits: ModuleLimits) {
    this.#sections = sections
    this.#limits = limits
  }

  module(): Uint8Array {
    // The order matters: later sections need the indices counted in earlier ones, and code must be
    // rewritten before types and functions are written, because it determines which helpers we add.
    const types = this.#read(SECTION.type, (section) => this.#countTypes(section))
    const imports = this.#imports()
    this.#more = this.#functions.length
    const declared = this.#read(
      SECTION.function,
      (section) => void section.times(() => this.#functions.push(section.u32())),
    )
    const tables = this.#limited(SECTION.table, (section, out) => this.#table(section, out))
    const memories = this.#limited(SECTION.memory, (section, out) =>
      writeLimits(section, out, this.#limits.pages, 'pages of memory'),
    )
    const globals = this.#spliced(SECTION.global, (section, spliced) => {
      valueType(section)
      section.u8()
      this.#constant(section, spliced)
    })
    const exports = this.#spliced(SECTION.export, (section, spliced) => {
      readName(section)
      const kind = section.u8()
      const from = section.at
      const number = section.u32()
      const ours = kind === KIND.global ? this.#counter : kind === KIND.function ? this.#more : undefined
      if (ours !== undefined) spliced.replace(from, section.at, (out) => out.u32(shiftIndex(number, ours)))
    })
    const start = this.#start()
    const elements = this.#spliced(SECTION.element, (section, spliced) => this.#element(section, spliced))
    const data = this.#spliced(DATA, (section, spliced) => {
      const form = section.u32()
      if (form > 2) throw new MalformedBinary(`a data segment has the unknown form ${form}`)
      if (form === 2) section.u32()
      if (form !== 1) this.#constant(section, spliced)
      section.skip(section.u32())
    })
    const code = this.#code()
    const helpers = [...this.#helpers.values()]
    const ourTypes = [MORE_TYPE, ...helpers.map(({ type }) => type)].map((type) =>
      new BinaryWriter().raw(type),
    )
    const typeNumbers = helpers.map((_, index) => new BinaryWriter().u32(this.#types.length + 1 + index))

    const written: readonly (readonly [number, BinaryWriter | undefined])[] = [
      [SECTION.type, appendEntries(types, this.#types.length, ourTypes)],
      [SECTION.import, imports],
      [SECTION.function, appendEntries(declared, this.#functions.length - this.#more, typeNumbers)],
      [SECTION.table, tables],
      [SECTION.memory, memories],
      [SECTION.global, globals],
      [SECTION.export, exports],
      [
        SECTION.start,
        start === undefined ? undefined : new BinaryWriter().u32(shiftIndex(start, this.#more)),
      ],
      [SECTION.element, elements],
      [DATA_COUNT, this.#dataCount()],
      [SECTION.code, code],
      [DATA, data],
    ]
    const out = new BinaryWriter().raw(HEADER)
    for (const [id, section] of written) if (section !== undefined) out.u8(id).sized(section)
    return out.bytes()
  }

  get #ownImports(): FuelImports {
    return { counter: this.#counter, more: this.#more }
  }

  #start(): number | undefined {
    const section = this.#sections.get(SECTION.start)
    const start = section?.u32()
    if (section !== undefined) assertAtEnd(section, SECTION.start)
    return start
  }

  #dataCount(): BinaryWriter | undefined {
    const section = this.#sections.get(DATA_COUNT)
    return section && new BinaryWriter().raw(section.slice(section.at, section.end))
  }

  /** Reads a section that stays unchanged, and returns its bytes. */
  #read(id: number, read: (section: BinaryReader) => void): BinaryReader | undefined {
    const section = this.#sections.get(id)
    if (section === undefined) return undefined
    const whole = new BinaryReader(section.slice(0, section.end), section.at)
    read(section)
    assertAtEnd(section, id)
    return whole
  }

  #countTypes(section: BinaryReader): void {
    section.times(() => {
      if (section.u8() !== FUNCTION_TYPE) throw new MalformedBinary('a type is not a function type')
      this.#types.push({
        takes: section.times(() => valueType(section)),
        gives: section.times(() => valueType(section)),
      })
    })
  }

  #imports(): BinaryWriter {
    const section = this.#sections.get(SECTION.import)
    const out = new BinaryWriter()
    const count = section?.times(() => this.#import(section, out)) ?? 0
    if (section !== undefined) assertAtEnd(section, SECTION.import)
    const ours = new BinaryWriter().text(FUEL.module).text(FUEL.counter).u8(KIND.global, I64, 1)
    ours.text(FUEL.module).text(FUEL.more).u8(KIND.function).u32(this.#types.length)
    return new BinaryWriter()
      .u32(count + 2)
      .raw(out.bytes())
      .raw(ours.bytes())
  }

  #import(section: BinaryReader, out: BinaryWriter): void {
    const from = section.at
    if (readName(section) === FUEL.module)
      throw new MalformedBinary(`it imports from the reserved module \`${FUEL.module}\``)
    readName(section)
    const kind = section.u8()
    out.raw(section.slice(from, section.at))
    const rest = section.at
    if (kind === KIND.table) this.#table(section, out)
    else if (kind === KIND.memory) writeLimits(section, out, this.#limits.pages, 'pages of memory')
    else if (kind === KIND.function) {
      const type = section.u32()
      this.#functions.push(type)
      out.u32(type)
    } else if (kind === KIND.global) {
      this.#counter++
      valueType(section)
      section.u8()
      out.raw(section.slice(rest, section.at))
    } else throw new MalformedBinary(`a skill may not have an import of the kind ${kind}`)
  }

  #table(section: BinaryReader, out: BinaryWriter): void {
    const elementType = referenceType(section)
    this.#tables.push(elementType)
    writeLimits(section, out.u8(elementType), this.#limits.elements, 'elements of a table')
  }

  #limited(id: number, one: (section: BinaryReader, out: BinaryWriter) => void): BinaryWriter | undefined {
    const section = this.#sections.get(id)
    if (section === undefined) return undefined
    const out = new BinaryWriter()
    const count = section.times(() => one(section, out))
    assertAtEnd(section, id)
    return new BinaryWriter().u32(count).raw(out.bytes())
  }

  #spliced(id: number, one: (section: BinaryReader, spliced: Splicer) => void): BinaryWriter | undefined {
    const section = this.#sections.get(id)
    if (section === undefined) return undefined
    const spliced = new Splicer(section)
    section.times(() => one(section, spliced))
    assertAtEnd(section, id)
    return spliced.result()
  }

  /**
   * A constant expression, evaluated at instantiation. It needs no metering, because it can't loop.
   */
  #constant(section: BinaryReader, spliced: Splicer): void {
    for (;;) {
      const { op, from, operands } = readInstruction(section)
      if (op === OP.end) return
      if (op !== OP.global_get && op !== OP.ref_func) continue
      const number = new BinaryReader(section.slice(0, section.at), operands).u32()
      spliced.replace(from, section.at, (out) =>
        out.u8(op).u32(shiftIndex(number, op === OP.ref_func ? this.#more : this.#counter)),
      )
    }
  }

  /**
   * Bit 0: passive or declarative. Bit 1: has a table index, or is declarative. Bit 2: holds
   * expressions.
   */
  #element(section: BinaryReader, spliced: Splicer): void {
    const form = section.u32()
    if (form > 7) throw new MalformedBinary(`an element segment has the unknown form ${form}`)
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
      spliced.replace(from, section.at, (out) => out.u32(shiftIndex(number, this.#more)))
    })
  }

  #code(): BinaryWriter | undefined {
    const section = this.#sections.get(SECTION.code)
    const bodies = new BinaryWriter()
    const context = {
      signatures: { types: this.#types, functions: this.#functions },
      budget: new CompileBudget(section === undefined ? 0 : section.end - section.at),
      imports: this.#ownImports,
      payingFor: (instruction: Instruction, operands: BinaryReader) => this.#helper(instruction, operands),
    }
    const defined = this.#functions.slice(this.#more).map((type) => this.#types[type]?.takes ?? 0)
    const count =
      section?.times((index) =>
        bodies.sized(meterFunction(section.part(section.u32()), defined[index] ?? 0, context)),
      ) ?? 0
    if (section !== undefined) assertAtEnd(section, SECTION.code)
    if (count !== defined.length)
      throw new MalformedBinary(`it declares ${defined.length} functions, but has code for ${count}`)
    if (count === 0) return undefined
    const out = new BinaryWriter().u32(count + this.#helpers.size).raw(bodies.bytes())
    for (const { body } of this.#helpers.values()) out.sized(body)
    return out
  }

  /** The index of the helper for this instruction and its operands, which is added if it is new. */
  #helper({ op, sub, from }: Instruction, operands: BinaryReader): number {
    const instruction = operands.slice(from, operands.end)
    const key = instruction.join()
    const known = this.#helpers.get(key)
    if (known !== undefined) return known.number
    const { parameters, results, size, by } = this.#sized(op, sub, operands)
    const number = this.#functions.length + 1 + this.#helpers.size
    const type = [FUNCTION_TYPE, parameters.length, ...parameters, results.length, ...results]
    this.#helpers.set(key, {
      number,
      type,
      body: payingHelper(this.#ownImports, parameters.length, size, by, instruction),
    })
    return number
  }

  #sized(op: number, sub: number, operands: BinaryReader): SizedInstruction {
    const bytes = { shift: BYTES_A_UNIT_LOG2 }
    const each = { times: ELEMENT_UNITS }
    if (op === OP.memory_grow)
      return {
        parameters: [I32],
        results: [I32],
        size: 0,
        by: { times: PAGE_UNITS, most: this.#limits.pages },
      }
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
    const elementType = this.#tables[operands.u32()]
    if (elementType === undefined)
      throw new MalformedBinary('an instruction refers to a table that does not exist')
    return sub === BULK.table_grow
      ? {
          parameters: [elementType, I32],
          results: [I32],
          size: 1,
          by: { ...each, most: this.#limits.elements },
        }
      : { parameters: [I32, elementType, I32], results: [], size: 2, by: each }
  }
}

/** `size`: index of the parameter that holds the amount of work. */
type SizedInstruction = {
  readonly parameters: readonly number[]
  readonly results: readonly number[]
  readonly size: number
  readonly by: SizePrice
}

/** A section's entries with ours appended. */
function appendEntries(
  before: BinaryReader | undefined,
  count: number,
  added: readonly BinaryWriter[],
): BinaryWriter | undefined {
  if (before === undefined && added.length === 0) return undefined
  const out = new BinaryWriter().u32(count + added.length)
  if (before !== undefined) {
    before.u32()
    out.raw(before.slice(before.at, before.end))
  }
  for (const one of added) out.raw(one.bytes())
  return out
}

function assertAtEnd(section: BinaryReader, id: number): void {
  if (!section.done) throw new MalformedBinary(`section ${id} continues after its end`)
}

/**
 * jco writes names of imports and exports into its JavaScript glue between quotes, without escaping
 * them. Characters that could end a string or begin a template are refused, and so is the space,
 * with which a name could imitate the glue's own code. `__proto__` would set a prototype.
 */
const NAME = /^[!#-&(-[\]-_a-z|~]*$/

function readName(section: BinaryReader): string {
  const bytes = section.part(section.u32())
  const name = new TextDecoder().decode(bytes.slice(bytes.at, bytes.end))
  if (!NAME.test(name) || name === '__proto__')
    throw new MalformedBinary(
      `it imports or exports ${JSON.stringify(name.slice(0, 100))}, which is not a valid name for an import or export`,
    )
  return name
}

const REFERENCE_TYPES: ReadonlySet<number> = new Set([0x70, 0x6f])

function referenceType(code: BinaryReader): number {
  const type = code.u8()
  if (!REFERENCE_TYPES.has(type))
    throw new MalformedBinary(`a skill may not use references of the type 0x${type.toString(16)}`)
  return type
}

/** Reads the type of an element segment: expressions of a reference type, or function indices. */
function elementKind(section: BinaryReader, expressions: boolean): void {
  if (expressions) referenceType(section)
  else if (section.u8() !== 0) throw new MalformedBinary('an element segment does not hold functions')
}

/** Writes limits that always have a maximum. Refuses shared memories and 64-bit ones. */
function writeLimits(section: BinaryReader, out: BinaryWriter, most: number, what: string): void {
  const flags = section.u8()
  if (flags > 1) throw new MalformedBinary('a memory or table is shared or has 64-bit addresses')
  const least = section.u32()
  const declaredMax = flags === 1 ? section.u32() : most
  if (least > most) throw new MalformedBinary(`it begins with ${least} ${what}; the limit is ${most}`)
  out.u8(1).u32(least).u32(Math.min(declaredMax, most))
}
