// Promise: a metered module behaves as before, pays for its work, and can't run for ever: neither
// in a call, nor in its start function, nor in one instruction. Forbidden features are refused with
// a reason.

import { describe, expect, test } from 'vitest'
import { meter } from '../../../../edge/skills/metering/meter.ts'
import * as w from '../../../support/skills/wasm.ts'

const ROOM = { pages: 16, elements: 100 }
const PLENTY = 1_000_000n

function metered(module: w.Written): Uint8Array {
  const done = meter(w.wasm(module), ROOM)
  if (!done.ok) throw new Error(done.error.detail)
  return done.value
}

function open(module: w.Written, fuel = PLENTY, host: Record<string, unknown> = {}) {
  const { counter, imports } = w.fuelled(fuel)
  const instance = new w.Instance(new w.Module(metered(module)), { ...imports, host })
  return { exports: instance.exports, left: () => BigInt(counter.value), instance }
}

const raw = (module: w.Written, host: Record<string, unknown> = {}): w.Exports =>
  new w.Instance(new w.Module(w.wasm(module)), { host }).exports

/** The result of a call, or its error. */
function outcome(run: () => unknown): unknown {
  try {
    return run()
  } catch (thrown) {
    return `${thrown}`
  }
}

const fn = (body: w.Code, more: Partial<w.Fn> = {}): w.Written => ({
  functions: [{ body, as: 'run', ...more }],
})
const FOREVER = w.loop(w.br(0))

describe('endless code', () => {
  test.each<[string, w.Written]>([
    ['W01 a loop', fn(FOREVER)],
    ['a nested loop', fn(w.loop([...w.loop([...w.i32(0), ...w.brIf(0)]), ...w.br(0)]))],
    [
      'a loop that is left and entered again',
      fn(w.loop([...w.block([...w.i32(1), ...w.brIf(0), w.UNREACHABLE]), ...w.br(0)])),
    ],
    ['a loop that jumps by a table', fn(w.loop(w.block([...w.i32(0), ...w.brTable([1], 0)])))],
    ['W05 recursion', fn(w.call(0))],
    [
      'recursion through a table',
      {
        ...fn(w.op(...w.i32(0), ...w.callIndirect(0))),
        tables: [{ min: 1 }],
        elements: [[0, ...w.i32(0), 0x0b, 1, 0]],
      },
    ],
    ['tail calls', fn(w.returnCall(0))],
    ['mutual tail calls', { functions: [{ body: w.returnCall(1), as: 'run' }, { body: w.returnCall(0) }] }],
  ])('W01 W05: %s: a module that never ends stops without fuel', (_name, module) => {
    const { exports, left } = open(module, 10_000n)
    expect(outcome(() => exports['run']?.())).toMatch(/no fuel|Maximum call stack/)
    expect(left()).toBeLessThan(10_000n)
    // Control: without fuel it does not even begin.
    const empty = open(module, 0n)
    expect(outcome(() => empty.exports['run']?.())).toMatch(/no fuel/)
    expect(empty.left()).toBeLessThan(0n)
  })

  test('W02 a start function that never ends stops without fuel', () => {
    expect(outcome(() => open({ functions: [{ body: FOREVER }], start: 0 }))).toMatch(/no fuel/)
  })

  const memory = { memory: { min: 1 } }
  const table = { tables: [{ min: 10, holds: w.EXTERNREF }, { min: 10 }] }
  const sized: readonly [string, w.Written][] = [
    [
      'memory.fill',
      { ...fn([...w.i32(0), ...w.i32(0), ...w.get(0), ...w.bulk(11, 0)], { params: [w.I32] }), ...memory },
    ],
    [
      'memory.copy',
      { ...fn([...w.i32(0), ...w.i32(0), ...w.get(0), ...w.bulk(10, 0, 0)], { params: [w.I32] }), ...memory },
    ],
    [
      'memory.init',
      {
        ...fn([...w.i32(0), ...w.i32(0), ...w.get(0), ...w.bulk(8, 0, 0)], { params: [w.I32] }),
        ...memory,
        data: [[1, 2, 7, 7]],
      },
    ],
    ['memory.grow', { ...fn([...w.get(0), ...w.op(0x40, 0), w.DROP], { params: [w.I32] }), ...memory }],
    [
      'table.fill',
      {
        ...fn([...w.i32(0), ...w.op(0xd0, w.EXTERNREF), ...w.get(0), ...w.bulk(17, 0)], { params: [w.I32] }),
        ...table,
      },
    ],
    [
      'table.copy',
      { ...fn([...w.i32(0), ...w.i32(0), ...w.get(0), ...w.bulk(14, 0, 0)], { params: [w.I32] }), ...table },
    ],
    [
      'table.grow',
      {
        ...fn([...w.op(0xd0, w.EXTERNREF), ...w.get(0), ...w.bulk(15, 0), w.DROP], { params: [w.I32] }),
        ...table,
      },
    ],
    [
      'table.init',
      {
        ...fn([...w.i32(0), ...w.i32(0), ...w.get(0), ...w.bulk(12, 0, 1)], { params: [w.I32] }),
        ...table,
        elements: [[1, 0, 1, 0]],
      },
    ],
  ]
  test.each(sized)('%s is charged by its size, before it executes', (name, module) => {
    const { exports, left } = open(module)
    const of = (size: number): bigint => {
      const before = left()
      outcome(() => exports['run']?.(size))
      return before - left()
    }
    const [none, some, more] = [of(0), of(8), of(16)]
    expect(some).toBeGreaterThan(none)
    expect(more - some).toBe(some - none)
    const before = left()
    if (name.endsWith('grow')) {
      expect(outcome(() => exports['run']?.(-1))).toBeUndefined() // growing by 4 Gi fails with -1
      expect(before - left()).toBe(none)
    } else {
      expect(outcome(() => exports['run']?.(-1))).toMatch(/no fuel/)
      expect(before - left()).toBeGreaterThan(100_000_000n)
    }
  })
})

describe('limits of memories and tables', () => {
  const grows = (module: w.Written) =>
    open({ ...module, ...fn([...w.get(0), ...w.op(0x40, 0)], { params: [w.I32], results: [w.I32] }) })
      .exports['run']
  test.each([
    ['without a maximum', { memory: { min: 1 } }],
    ['with a larger maximum', { memory: { min: 1, max: 65_536 } }],
  ])('W03 a memory %s grows only to the limit', (_name, module) => {
    expect([grows(module)?.(15), grows(module)?.(16)]).toEqual([1, -1])
  })

  test('a memory’s smaller maximum is kept', () =>
    expect([grows({ memory: { min: 1, max: 3 } })?.(2), grows({ memory: { min: 1, max: 3 } })?.(3)]).toEqual([
      1, -1,
    ]))

  test('W04 a table grows only to the limit', () => {
    const body = [...w.op(0xd0, w.FUNCREF), ...w.get(0), ...w.bulk(15, 0)]
    const grow = () =>
      open({ ...fn(body, { params: [w.I32], results: [w.I32] }), tables: [{ min: 1 }] }).exports['run']
    expect([grow()?.(99), grow()?.(100)]).toEqual([1, -1])
  })
})

describe('forbidden features', () => {
  test.each<[string, w.Written | Uint8Array, RegExp]>([
    ['bytes that are no module', new Uint8Array([1, 2, 3]), /ends early|not a WebAssembly core module/],
    ['a component', new Uint8Array([0, 0x61, 0x73, 0x6d, 0x0d, 0, 1, 0]), /not a WebAssembly core module/],
    [
      'W03 a memory whose minimum is too large',
      { memory: { min: 17 } },
      /begins with 17 pages of memory; the limit is 16/,
    ],
    [
      'W04 a table whose minimum is too large',
      { tables: [{ min: 10_000_000 }] },
      /begins with 10000000 elements of a table; the limit is 100/,
    ],
    ['a shared memory', { sections: [[5, [1, 3, 1, 2]]] }, /shared or has 64-bit addresses/],
    ['a 64-bit memory', { sections: [[5, [1, 4, 1]]] }, /shared or has 64-bit addresses/],
    ['an atomic instruction', fn(w.op(0xfe, 0x03, 0)), /`0xfe`/],
    ['an exception', fn(w.op(0x1f, 0x40, 0, 0x0b)), /`0x1f`/],
    ['a vector instruction whose result depends on the machine', fn(w.op(0xfd, 0x80, 0x02)), /`0xfd 0x100`/],
    ['a section of tags', { sections: [[13, [1, 0, 0]]] }, /section of the kind 13/],
    ['sections out of order', { memory: { min: 1 }, sections: [[1, [0]]] }, /not in order/],
    [
      'an import of the fuel counter',
      { sections: [[2, [1, 11, ...Buffer.from('countersign'), 4, ...Buffer.from('fuel'), 3, 0x7e, 1]]] },
      /imports from the reserved module `countersign`/,
    ],
    [
      'blocks nested two thousand deep',
      fn([...new Array(2_000).fill([0x02, 0x40]).flat(), ...new Array(2_000).fill(0x0b)]),
      /nested more than 1000 deep/,
    ],
    [
      'billions of locals',
      {
        sections: [
          [1, [1, 0x60, 0, 0]],
          [3, [1, 0]],
          [10, [1, 8, 1, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x7f, 0x0b]],
        ],
      },
      /locals/,
    ],
    [
      'one local more than 50,000',
      {
        sections: [
          [1, [1, 0x60, 0, 0]],
          [3, [1, 0]],
          [10, [1, 6, 1, 0xd1, 0x86, 0x03, 0x7f, 0x0b]],
        ],
      },
      /has 50001 locals; the limit is 50000/,
    ],
    ['a count that is too large', { sections: [[3, [0xff, 0xff, 0xff, 0xff, 0x0f]]] }, /ends early/],
    ['a number that does not end', { sections: [[1, [0xff, 0xff, 0xff, 0xff, 0xff, 0x01]]] }, /too long/],
  ])('W03 W04: %s: the module is refused with a reason', (_name, module, why) => {
    const refused = meter(module instanceof Uint8Array ? module : w.wasm(module), ROOM)
    expect(refused).toMatchObject({ ok: false, error: { code: 'invalid_skill' } })
    expect(refused.ok ? '' : refused.error.detail).toMatch(why)
  })

  test('a module with any byte changed is refused by the meter, refused by the engine, or ends', () => {
    const module = w.wasm({
      ...fn(
        [
          ...w.get(0),
          ...w.when([...w.i32(0), ...w.i32(0), ...w.get(0), ...w.bulk(11, 0)]),
          ...w.globalGet(0),
          ...w.globalSet(0),
        ],
        {
          params: [w.I32],
        },
      ),
      memory: { min: 1, as: 'memory' },
      globals: [{ type: w.I64, mutable: true, init: w.i64(7) }],
      data: [[0, ...w.i32(0), 0x0b, 1, 65]],
    })
    let ran = 0
    for (let at = 0; at < module.length; at++) {
      for (let bit = 0; bit < 8; bit++) {
        const changed = Uint8Array.from(module)
        changed[at] = (changed[at] ?? 0) ^ (1 << bit)
        const done = meter(changed, ROOM)
        if (!done.ok || !w.validate(done.value)) continue
        outcome(() => {
          const { exports } = new w.Instance(new w.Module(done.value), w.fuelled(1_000n).imports)
          for (const run of Object.values(exports)) if (typeof run === 'function') run(1)
        })
        ran++
      }
    }
    expect(ran).toBeGreaterThan(100)
  })
})

describe('behaviour is unchanged', () => {
  const both = (
    module: w.Written,
    calls: readonly (readonly unknown[])[],
    host: Record<string, unknown> = {},
  ): void => {
    const [plain, paying] = [raw(module, host), open(module, PLENTY, host).exports]
    for (const args of calls)
      expect(outcome(() => paying['run']?.(...args))).toEqual(outcome(() => plain['run']?.(...args)))
  }

  test('metering keeps functions and blocks with several results', () => {
    const swap = {
      params: [w.I32, w.I64],
      results: [w.I64, w.I32],
      body: [...w.get(1), ...w.get(0)],
      as: 'run',
    }
    both({ functions: [swap] }, [
      [1, 2n],
      [-1, -2n],
    ])
  })

  test('metering keeps br_table, for each label and beyond the last', () => {
    const cases = w.block(
      w
        .block(w.block([...w.get(0), ...w.brTable([0, 1], 2)]).concat(w.i32(10), w.RETURN))
        .concat(w.i32(20), w.RETURN),
    )
    both(fn([...cases, ...w.i32(30)], { params: [w.I32], results: [w.I32] }), [[0], [1], [2], [-1]])
  })

  test('metering keeps indirect calls: right type, wrong type, empty entry, beyond the table', () => {
    const functions = [
      { body: [...w.get(0), ...w.callIndirect(0)], params: [w.I32], results: [w.I32], as: 'run' },
      { body: [...w.get(0), ...w.i32(1), 0x6a], params: [w.I32], results: [w.I32] },
      { body: w.i64(1), results: [w.I64] },
    ]
    // `run` uses its argument as the index in the table and passes it on.
    const module = {
      functions: [
        { ...(functions[0] as w.Fn), body: [...w.get(0), ...w.get(0), ...w.callIndirect(1)] },
        ...functions.slice(1),
      ],
      tables: [{ min: 4 }],
      elements: [[0, ...w.i32(0), 0x0b, 2, 1, 2]],
    }
    both(module, [[0], [1], [2], [9]])
  })

  test('metering keeps globals: imported, defined, exported, and in initializers', () => {
    const module: w.Written = {
      importedGlobals: [{ name: 'base', type: w.I32 }],
      globals: [
        { type: w.I32, init: w.globalGet(0), as: 'copy' },
        { type: w.I32, mutable: true, init: w.i32(5), as: 'count' },
      ],
      memory: { min: 1 },
      data: [[0, ...w.globalGet(0), 0x0b, 1, 42]],
      functions: [
        {
          body: [
            ...w.globalGet(2),
            ...w.i32(1),
            0x6a,
            ...w.globalSet(2),
            ...w.globalGet(0),
            ...w.load(0x2d),
            ...w.globalGet(2),
            0x6a,
            ...w.globalGet(1),
            0x6a,
          ],
          results: [w.I32],
          as: 'run',
        },
      ],
    }
    both(module, [[], []], { base: 3 })
    const { exports } = open(module, PLENTY, { base: 3 })
    expect([Number(exports['copy']), Number(exports['count'])]).toEqual([3, 5])
  })

  test('metering keeps bulk memory instructions: inside, at the end of and beyond memory', () => {
    const at = (sub: number, ...operands: number[]) => ({
      ...fn([...w.get(0), ...w.get(1), ...w.get(2), ...w.bulk(sub, ...operands), ...w.i32(0), ...w.load()], {
        params: [w.I32, w.I32, w.I32],
        results: [w.I32],
      }),
      memory: { min: 1 },
      data: [[1, 4, 1, 2, 3, 4]],
    })
    both(at(11, 0), [
      [0, 7, 4],
      [65_535, 7, 1],
      [65_536, 7, 0],
      [65_536, 7, 1],
      [65_530, 7, 10],
    ])
    both(at(10, 0, 0), [
      [0, 4, 4],
      [0, 65_536, 0],
      [0, 65_533, 4],
    ])
    both(at(8, 0, 0), [
      [0, 0, 4],
      [0, 2, 3],
      [0, 4, 0],
    ])
  })

  test('metering keeps sign extension, saturation, references and host functions', () => {
    both(fn([...w.get(0), 0xc0, ...w.get(0), 0xc1, 0x6a], { params: [w.I32], results: [w.I32] }), [
      [128],
      [32_768],
      [-1],
    ])
    both(fn([...w.get(0), 0xfc, 2], { params: [w.F64], results: [w.I32] }), [[1e10], [Number.NaN], [-1e10]])
    both(fn([...w.get(0), 0xd1], { params: [w.EXTERNREF], results: [w.I32] }), [[null], ['x']])
    both(
      {
        importedFunctions: [{ name: 'twice', params: [w.I32], results: [w.I32] }],
        functions: [{ body: [...w.get(0), ...w.call(0)], params: [w.I32], results: [w.I32], as: 'run' }],
      },
      [[21]],
      { twice: (n: number) => 2 * n },
    )
  })

  test('metered tail calls use no stack', () => {
    const body = [
      ...w.get(0),
      0x45,
      ...w.when([...w.i32(1), w.RETURN]),
      ...w.get(0),
      ...w.i32(1),
      0x6b,
      ...w.returnCall(0),
    ]
    both(fn(body, { params: [w.I32], results: [w.I32] }), [[50_000]])
  })
})

test('the same input uses the same fuel, and each further round of a loop the same amount', () => {
  const sum = fn(
    [
      ...w.loop([
        ...w.get(1),
        ...w.get(0),
        0x6a,
        ...w.set(1),
        ...w.get(0),
        ...w.i32(1),
        0x6b,
        ...w.tee(0),
        ...w.brIf(0),
      ]),
      ...w.get(1),
    ],
    { params: [w.I32], results: [w.I32], locals: [w.I32] },
  )
  const cost = (n: number): bigint => {
    const { exports, left } = open(sum)
    exports['run']?.(n)
    return PLENTY - left()
  }
  expect([cost(10), cost(1_000)]).toEqual([cost(10), cost(1_000)])
  expect(cost(1_000) - cost(10)).toBe(990n * (cost(2) - cost(1)))
})
