// Promise: a metered module behaves as before: results, traps, memory, globals and host calls, in
// order. Random modules from a fixed seed.

import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import { FUEL, meter } from '../../../../edge/skills/metering/meter.ts'
import { seeded } from '../../../shared/random-json.ts'
import * as w from '../../../support/skills/wasm.ts'

const FUNCTIONS = 4
const PARAMETERS = [w.I32, w.I32]
/** Locals after the two parameters: three to compute with, then loop counters. */
const COUNTERS = 5
const LOCALS = [w.I32, w.I32, w.I32, ...new Array<number>(4).fill(w.I32)]
const BINARY = [0x6a, 0x6b, 0x6c, 0x6d, 0x6f, 0x71, 0x72, 0x73, 0x74, 0x75, 0x77, 0x46, 0x48, 0x4f]
const WIDE = [0x7c, 0x7d, 0x7e, 0x7f, 0x82, 0x83, 0x85, 0x86, 0x88, 0x8a]
const POINT = [0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5]
/**
 * Type indices: of all functions (two parameters, one result), and of one with two results that is
 * never called.
 */
const [PAIR, TWO] = [1, 1 + 4]
const UNARY = [0x45, 0x67, 0x68, 0x69, 0xc0, 0xc1]

/** Functions call only later functions, so every program ends. */
class Program {
  readonly #random: () => number
  #depth = 0
  #loops = 0

  constructor(random: () => number) {
    this.#random = random
  }

  #below(count: number): number {
    return Math.floor(this.#random() * count)
  }

  #one<T>(choices: readonly (() => T)[]): T {
    const choice = choices[this.#below(choices.length)]
    if (choice === undefined) throw new Error('a choice of nothing')
    return choice()
  }

  #value(number: number): w.Code {
    if (++this.#depth > 5) {
      this.#depth--
      return this.#random() < 0.5 ? w.i32(this.#below(300) - 30) : w.get(this.#below(5))
    }
    const value = (): w.Code => this.#value(number)
    const chosen = this.#one<w.Code>([
      () => w.i32(this.#below(70_000)),
      () => w.get(this.#below(5)),
      () => w.globalGet(this.#below(2)),
      () => [...value(), ...value(), BINARY[this.#below(BINARY.length)] ?? 0x6a],
      () => [...value(), UNARY[this.#below(UNARY.length)] ?? 0x45],
      () => [...value(), ...w.i32(0x1ffff), 0x71, ...w.load()],
      () => [...value(), ...w.when(value(), value(), w.I32)],
      () => w.block([...value(), ...value(), ...w.brIf(0), 0x1a, ...value()], w.I32),
      () => [...value(), ...value(), ...value(), 0x1b],
      // 64-bit integers, floats, vectors, and blocks with two parameters and one result.
      () => [...value(), 0xac, ...value(), 0xad, WIDE[this.#below(WIDE.length)] ?? 0x7c, 0xa7],
      () => [
        ...value(),
        0xb7,
        ...value(),
        0xb8,
        POINT[this.#below(POINT.length)] ?? 0xa0,
        ...w.op(0xfc, this.#below(2) + 2),
      ],
      () => [
        ...value(),
        ...w.op(0xfd, 17),
        ...value(),
        ...w.op(0xfd, 17),
        ...w.op(0xfd, 0xae, 0x01),
        ...w.op(0xfd, 27, this.#below(4)),
      ],
      () => [...value(), ...value(), ...w.block([BINARY[this.#below(BINARY.length)] ?? 0x6a], PAIR)],
      () => [...value(), ...value(), ...w.block([...value(), ...w.brIf(0), 0x6a, ...value()], TWO), 0x73],
      () => [...w.i32(this.#below(FUNCTIONS)), ...w.op(0x25, 0), 0xd1],
      () =>
        number + 1 < FUNCTIONS
          ? [...value(), ...value(), ...w.call(1 + number + 1 + this.#below(FUNCTIONS - number - 1))]
          : value(),
      () =>
        number + 1 < FUNCTIONS
          ? [...value(), ...value(), ...w.i32(number + 1), ...w.callIndirect(1 + FUNCTIONS - 1)]
          : value(),
    ])
    this.#depth--
    return chosen
  }

  #statement(number: number): w.Code {
    if (++this.#depth > 5) {
      this.#depth--
      return w.op(0x01)
    }
    const value = (): w.Code => this.#value(number)
    const several = (): w.Code => this.#statements(number, 1 + this.#below(3))
    const chosen = this.#one<w.Code>([
      () => [...value(), ...w.set(2 + this.#below(3))],
      () => [...value(), ...w.globalSet(this.#below(2))],
      () => [...value(), ...w.i32(0xffff), 0x71, ...value(), ...w.store()],
      () => [...value(), ...w.call(0)],
      () => [...value(), ...w.when(several(), this.#random() < 0.5 ? several() : [])],
      () => w.block([...several(), ...value(), ...w.brIf(0), ...several()]),
      () =>
        w.block(
          w.block([...value(), ...w.i32(3), 0x71, ...w.brTable([0, 1], 0), ...several()]).concat(several()),
        ),
      () => this.#loop(number),
      () => [
        ...value(),
        ...w.i32(0xffff),
        0x71,
        ...value(),
        ...value(),
        ...w.i32(0xff),
        0x71,
        ...w.bulk(11, 0),
      ],
      () => [
        ...value(),
        ...w.i32(0xffff),
        0x71,
        ...value(),
        ...w.i32(0xffff),
        0x71,
        ...value(),
        ...w.i32(0xff),
        0x71,
        ...w.bulk(10, 0, 0),
      ],
      () => [...w.i32(this.#below(2)), ...w.op(0x40, 0), 0x1a],
      () => (this.#random() < 0.1 ? [...value(), 0x0f] : w.op(0x01)),
      // Unreachable code, a loop left by a table, table writes, and tail calls of later functions.
      () =>
        w.block([...value(), ...w.set(2), ...w.br(0), ...several(), ...w.i32(1), ...w.i32(2), 0x6a, 0x1a]),
      () =>
        w.block(w.loop([...value(), ...w.set(3), ...value(), ...w.i32(1), 0x71, ...w.brTable([1, 1], 1)])),
      () => [
        ...w.i32(this.#below(FUNCTIONS + 1)),
        ...w.i32(0),
        ...w.i32(this.#below(4)),
        ...w.bulk(12, 1, 0),
      ],
      () =>
        number + 1 < FUNCTIONS && this.#random() < 0.1
          ? [...value(), ...value(), ...w.returnCall(1 + number + 1)]
          : w.op(0x01),
    ])
    this.#depth--
    return chosen
  }

  /** A loop with its own counter. */
  #loop(number: number): w.Code {
    if (this.#loops === 2) return w.op(0x01)
    const counter = COUNTERS + this.#loops++
    const body = this.#statements(number, 2)
    this.#loops--
    const again = [...w.get(counter), ...w.i32(1), 0x6b, ...w.tee(counter), ...w.brIf(0)]
    return [...w.i32(1 + this.#below(4)), ...w.set(counter), ...w.loop([...body, ...again])]
  }

  #statements(number: number, count: number): w.Code {
    return Array.from({ length: count }, () => this.#statement(number)).flat()
  }

  module(): w.Written {
    const functions = Array.from({ length: FUNCTIONS }, (_, number) => ({
      params: PARAMETERS,
      results: [w.I32],
      locals: LOCALS,
      body: [...this.#statements(number, 3), ...this.#value(number)],
      ...(number === 0 ? { as: 'run' } : {}),
    }))
    return {
      importedFunctions: [{ name: 'told', params: [w.I32] }],
      functions: [
        ...functions,
        { params: PARAMETERS, results: [w.I32, w.I32], body: [...w.get(1), ...w.get(0)] },
      ],
      memory: { min: 2, max: 4, as: 'memory' },
      tables: [{ min: FUNCTIONS }],
      globals: [
        { type: w.I32, mutable: true, init: w.i32(3), as: 'first' },
        { type: w.I32, mutable: true, init: w.i32(-9), as: 'second' },
      ],
      elements: [
        [0, ...w.i32(0), 0x0b, FUNCTIONS, ...functions.map((_, number) => 1 + number)],
        [1, 0, 2, FUNCTIONS, FUNCTIONS], // the last one, which calls no other
      ],
      data: [[0, ...w.i32(8), 0x0b, 4, 1, 2, 3, 4]],
    }
  }
}

const INPUTS = [
  [0, 0],
  [1, -1],
  [70_000, 3],
] as const

/** Everything observable from outside. */
function seen(
  module: object,
  more: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {},
): unknown[] {
  const hostCalls: unknown[] = []
  const { exports } = new w.Instance(module, {
    host: { told: (value: unknown) => void hostCalls.push(value) },
    ...more,
  })
  const outcomes = INPUTS.map((input) => {
    try {
      return exports['run']?.(...input)
    } catch (thrown) {
      return `${thrown}`
    }
  })
  const { memory, first, second } = exports as unknown as {
    memory: { buffer: ArrayBuffer }
    first: { value: number }
    second: { value: number }
  } // the exports that `module` writes
  return [
    outcomes,
    hostCalls,
    createHash('sha256').update(new Uint8Array(memory.buffer)).digest('hex'),
    memory.buffer.byteLength,
    first.value,
    second.value,
  ]
}

test('random modules behave the same when metered, use the same fuel however it is handed out, and stop with less', {
  timeout: 120_000,
}, () => {
  const random = seeded(20_261_118)
  const kinds = new Set<string>()
  let stopped = 0
  for (let round = 0; round < 400; round++) {
    const bytes = w.wasm(new Program(random).module())
    const done = meter(bytes, { pages: 16, elements: 100 })
    if (!done.ok) throw new Error(done.error.detail)
    const metered = new w.Module(done.value)
    const start = 1_000_000_000_000n
    const withFuel = (fuel: bigint) => {
      const { counter, imports } = w.fuelled(fuel)
      return { all: seen(metered, imports), used: fuel - counter.value }
    }
    const plain = seen(new w.Module(bytes))
    const [once, again] = [withFuel(start), withFuel(start)]
    expect([round, once.all]).toEqual([round, plain])
    expect([round, again.used]).toEqual([round, once.used])
    for (const outcome of plain[0] as unknown[]) kinds.add(typeof outcome === 'string' ? outcome : 'a result')
    const inSlices = new w.Global({ value: 'i64', mutable: true }, 0n)
    let given = 0n
    const more = (): void => {
      given += 500n
      inSlices.value += 500n
    }
    expect(seen(metered, { [FUEL.module]: { [FUEL.counter]: inSlices, [FUEL.more]: more } })).toEqual(plain)
    expect([round, given - inSlices.value]).toEqual([round, once.used])
    // Code without loops and calls is not checked while it runs, but is charged anyway.
    const less = withFuel(once.used / 2n)
    expect(less.used).toBeGreaterThan(once.used / 2n)
    if (JSON.stringify(less.all[0]).includes('no fuel')) stopped++
    else expect(once.used).toBeLessThan(5_000n)
  }
  expect(stopped).toBeGreaterThan(200)
  // Control: the modules behaved differently.
  expect([...kinds].length).toBeGreaterThan(3)
})
