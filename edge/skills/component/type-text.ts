// The types that a component says it has, read from its own bytes and told in one spelling each, so that what it imports and exports can
// be held against the world's to the letter before anything heavy reads it. What the world has no use for is refused where it stands: a
// type that is made of two of the one before, and so on, is short to write and takes whoever works it out hours. Pure.

import { type Bytes, Malformed } from '../../../shared/bytes/wasm-binary.ts'
import { LIMITS } from '../../../shared/limits.ts'

const PLAIN = [
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
const FIRST_PLAIN = 0x73
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
/** Of something that is another component's, or nobody's: no type of the world is made of it. */
const FOREIGN = '?'

/** In the order of their numbers, which types, imports, exports and aliases share. */
export class Types {
  readonly #known: string[] = []
  /** Each function type that stands by itself: what the component exports is of one of them. */
  readonly functions = new Set<string>()
  /** Each import by its name. */
  readonly imports = new Map<string, string>()
  /** What it exports by name, but for types. */
  readonly exports = new Set<string>()

  /** A section of types. */
  define(section: Bytes): void {
    section.times(() => {
      const type = definition(section, this.#known)
      if (type.startsWith('func(')) this.functions.add(type)
      this.#known.push(type)
    })
    ended(section)
  }

  import(section: Bytes): void {
    section.times(() => {
      const name = nameOf(section)
      if (this.imports.has(name)) throw new Malformed(`it imports \`${name}\` twice`)
      this.imports.set(name, described(section, this.#known))
    })
    ended(section)
  }

  alias(section: Bytes): void {
    section.times(() => {
      if (alias(section) === SORT.type) this.#known.push(FOREIGN)
    })
    ended(section)
  }

  /** Types that are exported have numbers of their own. */
  export(section: Bytes): void {
    section.times(() => {
      const name = nameOf(section)
      const sort = section.u8()
      if (sort !== SORT.type) this.exports.add(name)
      if (sort === SORT.core) section.u8()
      const number = section.u32()
      if (section.u8() !== 0) described(section, this.#known)
      if (sort === SORT.type) this.#known.push(this.#known[number] ?? FOREIGN)
    })
    ended(section)
  }
}

function ended(section: Bytes): void {
  if (!section.done) throw new Malformed('a section goes on after its end')
}

function definition(code: Bytes, known: readonly string[]): string {
  const kind = code.u8()
  const text =
    kind >= FIRST_PLAIN ? plain(kind) : kind === TYPE.instance ? instance(code) : made(kind, code, known)
  if (text.length > LIMITS.skill_type_chars)
    throw new Malformed(`a type of it is longer than ${LIMITS.skill_type_chars} characters`)
  return text
}

function made(kind: number, code: Bytes, known: readonly string[]): string {
  const of = (): string => value(code, known)
  const named = (): string => all(code, () => `${nameOf(code, 'plain')}:${of()}`)
  switch (kind) {
    case TYPE.function: {
      const params = named()
      if (code.u8() === 0) return `func(${params})->${of()}`
      if (code.u8() !== 0) throw new Malformed('a function has several results')
      return `func(${params})`
    }
    case TYPE.record:
      return `record{${named()}}`
    case TYPE.tuple:
      return `tuple<${all(code, of)}>`
    case TYPE.list:
      return `list<${of()}>`
    case TYPE.option:
      return `option<${of()}>`
    case TYPE.result: {
      const [good, bad] = [code.u8() === 0 ? '_' : of(), code.u8() === 0 ? '_' : of()]
      return `result<${good},${bad}>`
    }
  }
  throw new Malformed(`it has a type of the kind 0x${kind.toString(16)}, which the world does not`)
}

/** What it exports, in the order in which it says it. Its types have numbers of their own. */
function instance(code: Bytes): string {
  const known: string[] = []
  const said: string[] = []
  code.times(() => {
    const kind = code.u8()
    if (kind === DECLARES.type) known.push(definition(code, known))
    else if (kind === DECLARES.alias) {
      if (alias(code) === SORT.type) known.push(FOREIGN)
    } else if (kind === DECLARES.export) {
      const [name, type] = [nameOf(code), described(code, known)]
      if (!type.startsWith('func(')) known.push(type)
      said.push(`${name}:${type}`)
    } else throw new Malformed(`it declares something of the kind ${kind}`)
    if (known.length > LIMITS.skill_types) throw new Malformed(`it has more than ${LIMITS.skill_types} types`)
  })
  return `{${said.join(';')}}`
}

/** What it is an alias of is not followed; which sort it is, counts. */
function alias(code: Bytes): number {
  const sort = code.u8()
  if (sort === SORT.core) code.u8()
  const target = code.u8()
  code.u32()
  if (target === 2) code.u32()
  else nameOf(code, 'plain')
  return sort
}

/** What is imported or exported there: a function or an instance by its type's number, or a type that is equal to another. */
function described(code: Bytes, known: readonly string[]): string {
  const sort = code.u8()
  if (sort === SORT.type && code.u8() !== 0) throw new Malformed('it has resources, which no skill has')
  if (sort !== SORT.function && sort !== SORT.type && sort !== SORT.instance)
    throw new Malformed('it declares what no skill has')
  return known[code.u32()] ?? FOREIGN
}

function all(code: Bytes, read: () => string): string {
  const parts: string[] = []
  let length = 0
  code.times(() => {
    const part = read()
    length += part.length
    if (length > LIMITS.skill_type_chars)
      throw new Malformed(`a type of it is longer than ${LIMITS.skill_type_chars} characters`)
    parts.push(part)
  })
  return parts.join(',')
}

/** Names of imports and exports say first of which kind they are. */
function nameOf(code: Bytes, how: 'plain' | 'extern' = 'extern'): string {
  if (how === 'extern' && code.u8() > 1) throw new Malformed('a name of a kind that the world does not have')
  const bytes = code.part(code.u32())
  if (bytes.end - bytes.at > LIMITS.skill_name_bytes)
    throw new Malformed(`a name of it is longer than ${LIMITS.skill_name_bytes} bytes`)
  return new TextDecoder().decode(bytes.slice(bytes.at, bytes.end))
}

function plain(kind: number): string {
  return PLAIN[kind - FIRST_PLAIN] ?? FOREIGN
}

/** Plain, or another type by its number: a signed one that is not below zero. */
function value(code: Bytes, known: readonly string[]): string {
  const first = code.peek()
  if (first >= FIRST_PLAIN && first < 0x80) return plain(code.u8())
  return known[code.u32()] ?? FOREIGN
}
