// The types that a component says its imports and exports have, read only so far as to know that they are small: one that is made of two of
// the one before, and so on, is short to write and takes whoever works it out hours. Pure, over bytes from strangers.

import { type Bytes, Malformed } from './wasm-bytes.ts'

const TYPE = { component: 0x41, instance: 0x42, function: 0x40, list: 0x70, result: 0x6a } as const
const DECLARES = { type: 0x01, alias: 0x02, import: 0x03, export: 0x04 } as const
const NESTED_MAX = 4

/** What the world needs of types: functions, and lists and results of what is plain. Counts the latter; all else is refused. */
export function compoundsIn(section: Bytes): number {
  let compounds = 0
  section.times(() => {
    compounds += definition(section, 0)
  })
  if (!section.done) throw new Malformed('its types go on after their end')
  return compounds
}

function definition(code: Bytes, depth: number): number {
  if (depth > NESTED_MAX) throw new Malformed('its types stand inside each other too deep')
  const kind = code.u8()
  if (isPlain(kind)) return 0
  switch (kind) {
    case TYPE.function:
      code.times(() => {
        name(code)
        value(code)
      })
      if (code.u8() === 0) value(code)
      else if (code.u8() !== 0) throw new Malformed('a function has several results')
      return 0
    case TYPE.list:
      value(code)
      return 1
    case TYPE.result:
      for (const _ of ['ok', 'error']) if (code.u8() !== 0) value(code)
      return 1
    case TYPE.component:
    case TYPE.instance: {
      let compounds = 0
      code.times(() => {
        compounds += declaration(code, depth)
      })
      return compounds
    }
  }
  throw new Malformed(`it has a type of the kind 0x${kind.toString(16)}, which the world does not`)
}

function declaration(code: Bytes, depth: number): number {
  const kind = code.u8()
  if (kind === DECLARES.type) return definition(code, depth + 1)
  if (kind === DECLARES.alias) alias(code)
  else if (kind === DECLARES.import || kind === DECLARES.export) {
    if (code.u8() > 1) throw new Malformed('a name of a kind that the world does not have')
    name(code)
    described(code)
  } else throw new Malformed(`it declares something of the kind ${kind}`)
  return 0
}

function alias(code: Bytes): void {
  if (code.u8() === 0) code.u8() // of the core: which sort
  const target = code.u8()
  code.u32()
  if (target === 2) code.u32()
  else name(code)
}

/** What is imported or exported there, by its type's number; a type is equal to another, or a resource. */
function described(code: Bytes): void {
  const sort = code.u8()
  if (sort === 0) code.u8()
  if (sort === 3 && code.u8() !== 0) throw new Malformed('it has resources, which no skill has')
  if (sort > 5) throw new Malformed(`it declares something of the sort ${sort}`)
  code.u32()
}

const name = (code: Bytes): void => code.skip(code.u32())

const isPlain = (kind: number): boolean => kind >= 0x73 && kind <= 0x7f

/** Plain, or another type by its number: a signed one that is not below zero. */
function value(code: Bytes): void {
  code.skipSigned(33)
}
