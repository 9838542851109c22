// Reads the types that a component declares and writes each in one canonical spelling, so that
// imports and exports can be compared with the world's as text, before any expensive tool reads the
// component. Refuses at once whatever the world does not need: a chain of types, each made of two
// of the one before, is short to write and takes hours to expand. Pure.

import { type BinaryReader, MalformedBinary } from '../../../shared/bytes/wasm-binary.ts'
import { LIMITS } from '../../../shared/limits.ts'

const PRIMITIVES = [
  'string',
  'char',
  'f64',
  'f32',
  'u64',
  's64',
  'u32',
  's32',
  'u16',
  's16',
  'u8',
  's8',
  'bool',
] as const
const FIRST_PRIMITIVE = 0x73
const TYPE = {
  instance: 0x42,
  function: 0x40,
  record: 0x72,
  list: 0x70,
  tuple: 0x6f,
  option: 0x6b,
  result: 0x6a,
} as const
const DECLARES = { type: 0x01, alias: 0x02, export: 0x04 } as const
const SORT = { core: 0, function: 1, value: 2, type: 3, component: 4, instance: 5 } as const
/** Stands for a type that is not defined here; no type of the world contains it. */
const FOREIGN = '?'

/**
 * Collects a component's types section by section. Types, imports, exports and aliases share one
 * index space.
 */
export class ComponentTypes {
  readonly #known: string[] = []
  /** Function types defined at the top level; the exported function has one of them. */
  readonly functions = new Set<string>()
  /** The type of each import, by its name. */
  readonly imports = new Map<string, string>()
  /** Names of all exports except types. */
  readonly exports = new Set<string>()

  /** Reads a type section. */
  define(section: BinaryReader): void {
    section.times(() => {
      const type = readType(section, this.#known)
      if (type.startsWith('func(')) this.functions.add(type)
      this.#known.push(type)
    })
    assertAtEnd(section)
  }

  import(section: BinaryReader): void {
    section.times(() => {
      const name = readName(section)
      if (this.imports.has(name)) throw new MalformedBinary(`it imports \`${name}\` twice`)
      this.imports.set(name, externType(section, this.#known))
    })
    assertAtEnd(section)
  }

  alias(section: BinaryReader): void {
    section.times(() => {
      if (readAlias(section) === SORT.type) this.#known.push(FOREIGN)
    })
    assertAtEnd(section)
  }

  /** An exported type gets a new index. */
  export(section: BinaryReader): void {
    section.times(() => {
      const name = readName(section)
      const sort = section.u8()
      if (sort !== SORT.type) this.exports.add(name)
      if (sort === SORT.core) section.u8()
      const number = section.u32()
      if (section.u8() !== 0) externType(section, this.#known)
      if (sort === SORT.type) this.#known.push(this.#known[number] ?? FOREIGN)
    })
    assertAtEnd(section)
  }
}

function assertAtEnd(section: BinaryReader): void {
  if (!section.done) throw new MalformedBinary('a section continues after its end')
}

function readType(code: BinaryReader, known: readonly string[]): string {
  const kind = code.u8()
  const text =
    kind >= FIRST_PRIMITIVE
      ? primitive(kind)
      : kind === TYPE.instance
        ? instanceType(code)
        : compositeType(kind, code, known)
  if (text.length > LIMITS.skill_type_chars)
    throw new MalformedBinary(`one of its types is longer than ${LIMITS.skill_type_chars} characters`)
  return text
}

function compositeType(kind: number, code: BinaryReader, known: readonly string[]): string {
  const of = (): string => valueType(code, known)
  const named = (): string => joinAll(code, () => `${readName(code, 'plain')}:${of()}`)
  switch (kind) {
    case TYPE.function: {
      const params = named()
      if (code.u8() === 0) return `func(${params})->${of()}`
      if (code.u8() !== 0) throw new MalformedBinary('a function has several results')
      return `func(${params})`
    }
    case TYPE.record:
      return `record{${named()}}`
    case TYPE.tuple:
      return `tuple<${joinAll(code, of)}>`
    case TYPE.list:
      return `list<${of()}>`
    case TYPE.option:
      return `option<${of()}>`
    case TYPE.result: {
      const [good, bad] = [code.u8() === 0 ? '_' : of(), code.u8() === 0 ? '_' : of()]
      return `result<${good},${bad}>`
    }
  }
  throw new MalformedBinary(`it has a type of the kind 0x${kind.toString(16)}, which the world does not use`)
}

/** The exports of an instance type, in their order. Its types have their own index space. */
function instanceType(code: BinaryReader): string {
  const known: string[] = []
  const members: string[] = []
  code.times(() => {
    const kind = code.u8()
    if (kind === DECLARES.type) known.push(readType(code, known))
    else if (kind === DECLARES.alias) {
      if (readAlias(code) === SORT.type) known.push(FOREIGN)
    } else if (kind === DECLARES.export) {
      const [name, type] = [readName(code), externType(code, known)]
      if (!type.startsWith('func(')) known.push(type)
      members.push(`${name}:${type}`)
    } else throw new MalformedBinary(`it declares something of the kind ${kind}`)
    if (known.length > LIMITS.skill_types)
      throw new MalformedBinary(`it has more than ${LIMITS.skill_types} types`)
  })
  return `{${members.join(';')}}`
}

/** Returns the sort of an alias; its target is not followed. */
function readAlias(code: BinaryReader): number {
  const sort = code.u8()
  if (sort === SORT.core) code.u8()
  const target = code.u8()
  code.u32()
  if (target === 2) code.u32()
  else readName(code, 'plain')
  return sort
}

/**
 * The type of an import or export: a function or instance given by its type's index, or an equal
 * type.
 */
function externType(code: BinaryReader, known: readonly string[]): string {
  const sort = code.u8()
  if (sort === SORT.type && code.u8() !== 0)
    throw new MalformedBinary('it has resources, which a skill may not have')
  if (sort !== SORT.function && sort !== SORT.type && sort !== SORT.instance)
    throw new MalformedBinary('it imports or exports something that is not a function, a type or an instance')
  return known[code.u32()] ?? FOREIGN
}

function joinAll(code: BinaryReader, read: () => string): string {
  const parts: string[] = []
  let length = 0
  code.times(() => {
    const part = read()
    length += part.length
    if (length > LIMITS.skill_type_chars)
      throw new MalformedBinary(`one of its types is longer than ${LIMITS.skill_type_chars} characters`)
    parts.push(part)
  })
  return parts.join(',')
}

/** Reads a name. Names of imports and exports (`extern`) begin with a byte for their kind. */
function readName(code: BinaryReader, how: 'plain' | 'extern' = 'extern'): string {
  if (how === 'extern' && code.u8() > 1)
    throw new MalformedBinary('one of its names is of a kind that the world does not have')
  const bytes = code.part(code.u32())
  if (bytes.end - bytes.at > LIMITS.skill_name_bytes)
    throw new MalformedBinary(`one of its names is longer than ${LIMITS.skill_name_bytes} bytes`)
  return new TextDecoder().decode(bytes.slice(bytes.at, bytes.end))
}

function primitive(kind: number): string {
  return PRIMITIVES[kind - FIRST_PRIMITIVE] ?? FOREIGN
}

/** A primitive, or another type by its index (encoded as a signed number that is not negative). */
function valueType(code: BinaryReader, known: readonly string[]): string {
  const first = code.peek()
  if (first >= FIRST_PRIMITIVE && first < 0x80) return primitive(code.u8())
  return known[code.u32()] ?? FOREIGN
}
