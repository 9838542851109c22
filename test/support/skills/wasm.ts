// Handmade core modules for tests: sections and instructions as bytes, with names for those that
// tests use.

import { FUEL } from '../../../edge/skills/metering/meter.ts'
import { BinaryWriter } from '../../../shared/bytes/wasm-binary.ts'

type Engine = {
  readonly Module: new (bytes: Uint8Array) => object
  readonly Instance: new (
    module: object,
    imports: Readonly<Record<string, Readonly<Record<string, unknown>>>>,
  ) => { readonly exports: Exports }
  readonly Global: new (type: { value: 'i64'; mutable: true }, value: bigint) => { value: bigint }
  readonly validate: (bytes: Uint8Array) => boolean
}
export type Exports = Readonly<Record<string, (...args: readonly unknown[]) => unknown>>
/** Node's WebAssembly, which its types leave out. */
export const { Module, Instance, Global, validate } = (globalThis as unknown as { WebAssembly: Engine })
  .WebAssembly

/** The imports of a metered module: a counter, and a `more` that throws. */
export function fuelled(fuel: bigint) {
  const counter = new Global({ value: 'i64', mutable: true }, fuel)
  const none = (): never => {
    throw new Error('no fuel')
  }
  return { counter, imports: { [FUEL.module]: { [FUEL.counter]: counter, [FUEL.more]: none } } }
}

export type Code = readonly number[]

export const I32 = 0x7f
export const I64 = 0x7e
export const F64 = 0x7c
export const FUNCREF = 0x70
export const EXTERNREF = 0x6f
const EMPTY = 0x40

const u = (value: number): Code => [...new BinaryWriter().u32(value).bytes()]
const s = (value: number): Code => [...new BinaryWriter().s64(value).bytes()]

export const i32 = (value: number): Code => [0x41, ...s(value | 0)]
export const i64 = (value: number): Code => [0x42, ...s(value)]
export const get = (local: number): Code => [0x20, ...u(local)]
export const set = (local: number): Code => [0x21, ...u(local)]
export const tee = (local: number): Code => [0x22, ...u(local)]
export const globalGet = (global: number): Code => [0x23, ...u(global)]
export const globalSet = (global: number): Code => [0x24, ...u(global)]
export const call = (target: number): Code => [0x10, ...u(target)]
export const callIndirect = (type: number, table = 0): Code => [0x11, ...u(type), ...u(table)]
export const returnCall = (target: number): Code => [0x12, ...u(target)]
export const br = (depth: number): Code => [0x0c, ...u(depth)]
export const brIf = (depth: number): Code => [0x0d, ...u(depth)]
export const brTable = (labels: readonly number[], other: number): Code => [
  0x0e,
  ...u(labels.length),
  ...labels.flatMap(u),
  ...u(other),
]
export const block = (body: Code, type = EMPTY): Code => [0x02, type, ...body, 0x0b]
export const loop = (body: Code, type = EMPTY): Code => [0x03, type, ...body, 0x0b]
export const when = (then: Code, otherwise: Code = [], type = EMPTY): Code => [
  0x04,
  type,
  ...then,
  ...(otherwise.length === 0 ? [] : [0x05, ...otherwise]),
  0x0b,
]
export const load = (op = 0x28, offset = 0): Code => [op, 0, ...u(offset)]
export const store = (op = 0x36, offset = 0): Code => [op, 0, ...u(offset)]
/** Stores a value from 0 to 9 as a digit of ASCII. */
export const digit = (at: number, value: Code): Code => [
  ...i32(at),
  ...value,
  ...i32(48),
  0x6a,
  ...store(0x3a),
]
export const op = (...bytes: readonly number[]): Code => bytes
export const bulk = (sub: number, ...operands: readonly number[]): Code => [
  0xfc,
  ...u(sub),
  ...operands.flatMap(u),
]
export const RETURN = 0x0f
export const DROP = 0x1a
export const UNREACHABLE = 0x00

export type Fn = {
  readonly params?: Code
  readonly results?: Code
  readonly locals?: Code
  readonly body: Code
  readonly as?: string
}
/** Parameters and results of `cabi_realloc`. */
export const REALLOC_SHAPE = { params: [I32, I32, I32, I32], results: [I32], as: 'cabi_realloc' } as const
type Global = { readonly type: number; readonly mutable?: boolean; readonly init: Code; readonly as?: string }
type Limits = { readonly min: number; readonly max?: number }

export type Written = {
  readonly functions?: readonly Fn[]
  /** Imported functions, which have the first indices; from the module `host` by default. */
  readonly importedFunctions?: readonly {
    readonly from?: string
    readonly name: string
    readonly params?: Code
    readonly results?: Code
  }[]
  readonly importedGlobals?: readonly {
    readonly name: string
    readonly type: number
    readonly mutable?: boolean
  }[]
  readonly memory?: Limits & { readonly as?: string }
  readonly tables?: readonly (Limits & { readonly holds?: number; readonly as?: string })[]
  readonly globals?: readonly Global[]
  readonly start?: number
  /** Complete segments as bytes. */
  readonly elements?: readonly Code[]
  readonly data?: readonly Code[]
  readonly sections?: readonly (readonly [id: number, bytes: Code])[]
}

const signature = ({ params = [], results = [] }: Pick<Fn, 'params' | 'results'>): Code => [
  0x60,
  ...list(params.map(one)),
  ...list(results.map(one)),
]
const one = (byte: number): Code => [byte]
const list = (items: readonly Code[]): Code => [...u(items.length), ...items.flat()]
const text = (value: string): Code => [...new BinaryWriter().text(value).bytes()]
const limits = ({ min, max }: Limits): Code =>
  max === undefined ? [0, ...u(min)] : [1, ...u(min), ...u(max)]

/** Each function has its own type index: imported functions first, then the others, in order. */
export function wasm(module: Written): Uint8Array {
  const {
    functions = [],
    importedFunctions = [],
    importedGlobals = [],
    tables = [],
    globals = [],
    elements = [],
    data = [],
  } = module
  const out = new BinaryWriter().raw([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0])
  const section = (id: number, items: readonly Code[]): void => {
    if (items.length > 0) out.u8(id).sized(new BinaryWriter().raw(list(items)))
  }
  section(1, [...importedFunctions, ...functions].map(signature))
  section(2, [
    ...importedFunctions.map(({ from = 'host', name }, index) => [
      ...text(from),
      ...text(name),
      0,
      ...u(index),
    ]),
    ...importedGlobals.map(({ name, type, mutable = false }) => [
      ...text('host'),
      ...text(name),
      3,
      type,
      mutable ? 1 : 0,
    ]),
  ])
  section(
    3,
    functions.map((_, index) => u(importedFunctions.length + index)),
  )
  section(
    4,
    tables.map(({ holds = FUNCREF, ...size }) => [holds, ...limits(size)]),
  )
  section(5, module.memory === undefined ? [] : [limits(module.memory)])
  section(
    6,
    globals.map(({ type, mutable = false, init }) => [type, mutable ? 1 : 0, ...init, 0x0b]),
  )
  const exported = <T extends { readonly as?: string }>(
    all: readonly T[],
    kind: number,
    first: number,
  ): Code[] =>
    all.flatMap(({ as }, index) => (as === undefined ? [] : [[...text(as), kind, ...u(first + index)]]))
  section(7, [
    ...exported(functions, 0, importedFunctions.length),
    ...exported(tables, 1, 0),
    ...exported(module.memory === undefined ? [] : [module.memory], 2, 0),
    ...exported(globals, 3, importedGlobals.length),
  ])
  if (module.start !== undefined) out.u8(8).sized(new BinaryWriter().u32(module.start))
  section(9, elements)
  if (data.length > 0) out.u8(12).sized(new BinaryWriter().u32(data.length))
  section(
    10,
    functions.map(({ locals = [], body }) => {
      const code = [...list(locals.map((type) => [1, type])), ...body, 0x0b]
      return [...u(code.length), ...code]
    }),
  )
  section(11, data)
  for (const [id, bytes] of module.sections ?? []) out.u8(id).sized(new BinaryWriter().raw(bytes))
  return out.bytes().slice()
}
