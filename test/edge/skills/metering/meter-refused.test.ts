// Promise: features that skills may not use are refused at publication by a sentence that names
// them. Bytes that an engine would read differently, code that takes hours to compile, and names
// that would become code are refused before an engine sees them.
// @project processes

import { describe, expect, test } from 'vitest'
import { meter } from '../../../../edge/skills/metering/meter.ts'
import { BinaryWriter } from '../../../../shared/bytes/wasm-binary.ts'
import { LIMITS } from '../../../../shared/limits.ts'
import { cpuTime } from '../../../support/cpu-time.ts'
import { assemble } from '../../../support/skills/skill.ts'
import * as w from '../../../support/skills/wasm.ts'

const ROOM = { pages: 16, elements: 100 }

describe('WebAssembly features', () => {
  test.each<[string, string, RegExp]>([
    ['a 64-bit memory', '(memory i64 1)', /64-bit/],
    ['a 64-bit table', '(table i64 1 funcref)', /64-bit/],
    ['a shared memory', '(memory 1 2 shared)', /shared/],
    ['pages of another size', '(memory 1 (pagesize 1))', /shared or has 64-bit addresses/],
    [
      'an atomic instruction',
      '(memory 1) (func (drop (i32.atomic.load (i32.const 0))))',
      /instruction `0xfe 0x10`|instruction `0xfe`/,
    ],
    ['catching exceptions', '(tag) (func (block (try_table (catch 0 0))))', /section of the kind 13/],
    ['throwing exceptions', '(tag (import "a" "b")) (func (throw 0))', /import of the kind 4/],
    ['catching all exceptions', '(func (block (try_table (catch_all 0))))', /instruction `0x1f`/],
    ['structures', '(type (struct (field i32)))', /is not a function type/],
    ['arrays', '(type (array i8))', /is not a function type/],
    ['recursive types', '(rec (type (func)) (type (func)))', /is not a function type/],
    ['i31 references', '(func (result i32) (i31.get_s (ref.i31 (i32.const 1))))', /instruction `0xfb`/],
    [
      'a call through a reference',
      '(type $t (func)) (func (param (ref null $t)) (call_ref $t (local.get 0)))',
      /type 0x63/,
    ],
    ['a non-null reference', '(type $t (func)) (func (param (ref $t)))', /type 0x64/],
    [
      'a table of typed references',
      '(type $t (func)) (table 1 (ref null $t))',
      /references of the type 0x63/,
    ],
    [
      'a table with an initializer',
      '(func $f) (table 1 (ref func) (ref.func $f))',
      /references of the type 0x40/,
    ],
    [
      'a vector instruction whose result depends on the machine',
      '(func (param v128) (drop (i8x16.relaxed_swizzle (local.get 0) (local.get 0))))',
      /`0xfd 0x100`/,
    ],
    [
      '128-bit arithmetic',
      '(func (result i64 i64) (i64.mul_wide_s (i64.const 1) (i64.const 2)))',
      /`0xfc 0x15`/,
    ],
    ['stack switching', '(type $f (func)) (type $c (cont $f))', /is not a function type/],
  ])('a module is refused by a message that names the feature: %s', async (_, wat, why) => {
    const refused = meter(await assemble(`(module ${wat})`), ROOM)
    expect(refused.ok ? 'no refusal' : refused.error.detail).toMatch(why)
  })
})

describe('bytes that an engine would read differently', () => {
  // A type of two bytes where the meter reads one: an engine would see other instructions after it,
  // and a loop could hide there.
  const run = (code: readonly number[]): Uint8Array => w.wasm({ functions: [{ body: code, as: 'run' }] })
  const body = (code: readonly number[]): Uint8Array =>
    w.wasm({
      sections: [
        [1, [1, 0x60, 0, 0]],
        [3, [1, 0]],
        [10, [1, code.length, ...code]],
      ],
    })
  const HIDDEN: readonly (readonly [string, Uint8Array])[] = [
    ['of a block', run([0x02, 0x63, 0x70, 0xd0, 0x70, 0x0b, w.DROP])],
    ['of a loop', run([0x03, 0x63, 0x70, 0xd0, 0x70, 0x0b, w.DROP])],
    ['of an if', run([...w.i32(0), 0x04, 0x63, 0x70, 0xd0, 0x70, 0x05, 0xd0, 0x70, 0x0b, w.DROP])],
    ['of a local', body([1, 1, 0x63, 0x70, 0x0b])],
    ['of a choice', run([0xd0, 0x70, 0xd0, 0x70, ...w.i32(0), 0x1c, 1, 0x63, 0x70, w.DROP])],
    ['of elements', w.wasm({ tables: [{ min: 1 }], elements: [[5, 0x63, 0x70, 1, 0xd0, 0x70, 0x0b]] })],
  ]
  test.each(HIDDEN)(
    'W01 a type of two bytes, behind which a loop could hide, is refused: %s',
    (_, module) => {
      expect(w.validate(module)).toBe(true) // an engine accepts it
      const refused = meter(module, ROOM)
      expect(refused.ok ? 'no refusal' : refused.error.detail).toMatch(/0x63/)
    },
  )

  test.each([
    ["a'];for(;;);['", /is not a valid name/],
    ['a\\', /is not a valid name/],
    ['a\nb', /is not a valid name/],
    ['a\u2028b', /is not a valid name/],
    ['$'.concat('{for(;;);}'), /is not a valid name/],
    ['`', /is not a valid name/],
    ['__proto__', /is not a valid name/], // would pass JavaScript's `Object` as an import
    ['new WebAssembly.Module(new Uint8Array([0]))', /is not a valid name/],
    ['countersign', /imports from the reserved module `countersign`/],
  ])('W11 a name that could become code in the JavaScript glue is refused: %s', (name, why) => {
    const refusals = [
      w.wasm({ importedFunctions: [{ from: name, name: 'a' }] }),
      w.wasm({ importedFunctions: [{ name }] }),
      w.wasm({ functions: [{ body: [], as: name }] }),
    ].map((module) => meter(module, ROOM))
    expect(
      refusals.map((one) => (one.ok ? '' : one.error.detail)).filter((said) => why.test(said)).length,
    ).toBe(name === 'countersign' ? 1 : 3)
  })

  test('names as toolchains write them are accepted', () => {
    for (const name of [
      'cabi_realloc',
      'cm32p2|countersign:skill/log@0.1.0',
      '[method]a.b',
      '$imports',
      '_ZN4core3fmt',
      'a#b<c>~d/e',
      '0',
    ])
      expect(meter(w.wasm({ functions: [{ body: [], as: name }] }), ROOM).ok).toBe(true)
  })
})

describe('compile cost', () => {
  const times = (count: number, ...code: readonly number[]): Buffer =>
    Buffer.alloc(count * code.length, Buffer.from(code))
  const leb = (value: number): number[] => [...new BinaryWriter().u32(value).bytes()]
  const sized = (bytes: Buffer): Buffer => Buffer.concat([Buffer.from(leb(bytes.length)), bytes])
  const type = (takes: number, gives: number): Buffer =>
    Buffer.concat([
      Buffer.from([0x60, ...leb(takes)]),
      times(takes, w.I32),
      Buffer.from(leb(gives)),
      times(gives, w.I32),
    ])
  /**
   * A module of functions, each with its type index and its code without `end`; the first is
   * exported.
   */
  function module(
    types: readonly Buffer[],
    functions: readonly (readonly [type: number, code: Buffer, locals?: number])[],
  ): Buffer {
    const list = (items: readonly Buffer[]): Buffer =>
      Buffer.concat([Buffer.from(leb(items.length)), ...items])
    const bodies = functions.map(([, code, locals = 0]) =>
      sized(
        Buffer.concat([
          Buffer.from(locals === 0 ? [0] : [1, ...leb(locals), w.I32]),
          code,
          Buffer.from([0x0b]),
        ]),
      ),
    )
    const sections = [
      [1, list(types)],
      [3, list(functions.map(([number]) => Buffer.from(leb(number))))],
      [7, Buffer.from([1, 3, ...Buffer.from('run'), 0, 0])],
      [10, list(bodies)],
    ] as const
    return Buffer.concat([
      Buffer.from([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0]),
      ...sections.flatMap(([id, bytes]) => [Buffer.from([id]), sized(bytes)]),
    ])
  }
  const NONE = type(0, 0)
  const alone = (code: Buffer, locals = 0): Buffer => module([NONE], [[0, code, locals]])
  const [ZERO, DROP] = [[0x41, 0], [0x1a]] as const
  const DEEP = 900
  const labels = (from: number): number[] =>
    Array.from({ length: DEEP }, (_, depth) => leb(depth + from)).flat()

  test.each<[string, Buffer]>([
    [
      '50,000 locals, carried past 10,000 blocks',
      alone(times(10_000, 0x02, 0x40, ...ZERO, 0x0d, 0, 0x0b), 50_000),
    ],
    ['50,000 locals, carried past 10,000 loops', alone(times(10_000, 0x03, 0x40, 0x0b), 50_000)],
    ['50,000 locals, carried past 10,000 choices', alone(times(10_000, ...ZERO, 0x04, 0x40, 0x0b), 50_000)],
    [
      '50,000 values on the stack, carried past 10,000 blocks',
      alone(Buffer.concat([times(50_000, ...ZERO), times(10_000, 0x02, 0x40, 0x0b), times(50_000, ...DROP)])),
    ],
    ['a million loops', alone(times(1_000_000, 0x03, 0x40, 0x0b))],
    [
      'a million functions',
      module(
        [NONE],
        Array.from({ length: 1_000_000 }, () => [0, Buffer.alloc(0)] as const),
      ),
    ],
    [
      'calls that pass a thousand values',
      module(
        [NONE, type(0, 1_000), type(1_000, 0)],
        [
          [0, times(100_000, 0x10, 1, 0x10, 2)],
          [1, times(1_000, ...ZERO)],
          [2, Buffer.alloc(0)],
        ],
      ),
    ],
    [
      'jumps that carry a thousand values',
      module(
        [NONE, type(0, 1_000)],
        [
          [
            0,
            Buffer.concat([
              Buffer.from([0x02, 1]),
              times(1_000, ...ZERO),
              times(100_000, ...ZERO, 0x0d, 0),
              Buffer.from([0x0b]),
              times(1_000, ...DROP),
            ]),
          ],
        ],
      ),
    ],
    [
      'jump tables out of 900 blocks',
      alone(
        Buffer.concat([
          times(DEEP, 0x02, 0x40),
          ...Array.from({ length: 2_000 }, () =>
            Buffer.from([0x02, 0x40, ...ZERO, 0x0e, ...leb(DEEP), ...labels(0), 0, 0x0b]),
          ),
          times(DEEP, 0x0b),
        ]),
      ),
    ],
    [
      'long jump tables',
      alone(
        Buffer.concat(
          Array.from({ length: 60 }, () =>
            Buffer.from([0x02, 0x40, ...ZERO, 0x0e, ...leb(65_000), ...times(65_001, 0), 0x0b]),
          ),
        ),
      ),
    ],
  ])('W06 code that takes too long to compile is refused: %s', (_, bytes) => {
    expect(bytes.length).toBeLessThanOrEqual(LIMITS.skill_component_bytes)
    const begun = cpuTime()
    const refused = meter(bytes, ROOM)
    expect(refused.ok ? 'no refusal' : refused.error.detail).toContain('too long to compile')
    expect(cpuTime() - begun).toBeLessThan(10_000)
  })

  test.each([
    ['types', [1, times(1_000_000, 0x60, 0, 0)]],
    ['globals', [6, times(800_000, w.I32, 0, ...ZERO, 0x0b)]],
    ['element segments', [9, times(1_000_000, 1, 0, 0)]],
    ['data segments', [11, times(1_000_000, 1, 0)]],
  ] as const)('W06 a module with a million %s is refused', (_, [id, items]) => {
    const section = sized(Buffer.concat([Buffer.from(leb(800_000)), items]))
    const refused = meter(Buffer.concat([Buffer.from([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, id]), section]), ROOM)
    expect(refused.ok ? 'no refusal' : refused.error.detail).toMatch(/has more than 10000 entries/)
  })

  test('W06 code that passes the compile budget `skill_effort` is compiled and run quickly', () => {
    const most = LIMITS.skill_component_bytes - 200
    const third = Math.floor(most / 3)
    const largest = [
      alone(times(3_000_000, 0x01)),
      alone(times(third, ...ZERO, ...DROP)),
      alone(Buffer.concat([times(third, ...ZERO), times(third, ...DROP)])),
      alone(times(10, 0x02, 0x40, ...ZERO, 0x0d, 0, 0x0b), 14_000),
      module(
        [NONE, type(100, 0)],
        [
          [0, times(Math.floor(most / 202), ...times(100, ...ZERO), 0x10, 1)],
          [1, Buffer.alloc(0)],
        ],
      ),
    ]
    for (const bytes of largest) {
      const done = meter(bytes, ROOM)
      if (!done.ok) throw new Error(done.error.detail)
      const begun = cpuTime()
      new w.Instance(new w.Module(done.value), w.fuelled(100_000_000n).imports).exports['run']?.()
      expect(cpuTime() - begun).toBeLessThan(5_000)
    }
  })
})
