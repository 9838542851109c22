// Promise: metered instructions behave as the specification says. Each case runs plain and metered:
// results, traps, memory, globals, tables and host calls are the same, and the cost is the same
// each time.

import { describe, expect, test } from 'vitest'
import { meter } from '../../../../edge/skills/metering/meter.ts'
import { assemble } from '../../../support/skills/skill.ts'
import * as w from '../../../support/skills/wasm.ts'

const ROOM = { pages: 16, elements: 100 }
const START = 1_000_000_000n

async function metered(wat: string): Promise<{ plain: Uint8Array; paying: Uint8Array }> {
  const plain = await assemble(`(module ${wat})`)
  const done = meter(plain, ROOM)
  if (!done.ok) throw new Error(done.error.detail)
  return { plain, paying: done.value }
}

const shown = (value: unknown): unknown => {
  if (typeof value === 'function') return 'a function'
  if (Array.isArray(value)) return value.map(shown)
  return Object.is(value, -0) ? '-0' : value
}

/** Everything observable from outside. `calls` are made in order on one instance. */
function seen(
  bytes: Uint8Array,
  calls: readonly Call[],
  more: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {},
) {
  const hostCalls: unknown[] = []
  const shared = new w.Global({ value: 'i64', mutable: true }, 40n)
  const host = { tell: (value: unknown) => void hostCalls.push(value), one: () => 1, shared, base: 3 }
  const attempt = (run: () => unknown): unknown => {
    try {
      return shown(run())
    } catch (thrown) {
      return `${thrown}`
    }
  }
  let exports: w.Exports = {}
  const begun = attempt(() => {
    exports = new w.Instance(new w.Module(bytes), { host, ...more }).exports
  })
  const results = calls.map(([name, ...args]) => attempt(() => exports[name]?.(...args)))
  const kept = Object.entries(
    exports as Readonly<Record<string, { buffer?: ArrayBuffer; value?: unknown; length?: number }>>,
  ).map(([name, { buffer, value, length }]) => [
    name,
    buffer && withoutTrailingZeros(Buffer.from(buffer)).toString('latin1'),
    value,
    length,
  ])
  return { begun, results, hostCalls, kept, shared: shared.value }
}

/** A pattern would try each of the 65,528 zeros before the data, which takes nine seconds. */
function withoutTrailingZeros(bytes: Buffer): Buffer {
  let end = bytes.byteLength
  while (end > 0 && bytes[end - 1] === 0) end -= 1
  return bytes.subarray(0, end)
}

type Call = readonly [name: string, ...args: unknown[]]
/** Numbers at the edges of their types. */
const EDGES = [0, 1, -1, 127, 128, 255, 32_767, 32_768, 65_535, 2_147_483_647, -2_147_483_648]
const FLOATS = [
  0,
  -0,
  0.5,
  1.5,
  2.5,
  -0.5,
  -1.5,
  2_147_483_647.5,
  4_294_967_296,
  -2_147_483_649,
  9.3e18,
  1.9e19,
  1e300,
  Infinity,
  -Infinity,
  NaN,
]
const of = (name: string, values: readonly unknown[]): Call[] => values.map((value) => [name, value])
const pairs = (name: string, values: readonly unknown[]): Call[] =>
  values.flatMap((a) => values.map((b): Call => [name, a, b]))

const OPERATORS = [
  'add',
  'sub',
  'mul',
  'div_s',
  'div_u',
  'rem_s',
  'rem_u',
  'and',
  'or',
  'xor',
  'shl',
  'shr_s',
  'shr_u',
  'rotl',
  'rotr',
]
const binary = (type: string, names: readonly string[]): string =>
  names
    .map(
      (name) =>
        `(func (export "${name}") (param ${type} ${type}) (result ${type}) (${type}.${name} (local.get 0) (local.get 1)))`,
    )
    .join('\n')
const unary = (from: string, to: string, names: readonly string[]): string =>
  names
    .map((name) => `(func (export "${name}") (param ${from}) (result ${to}) (${to}.${name} (local.get 0)))`)
    .join('\n')

const CASES: readonly (readonly [string, string, readonly Call[]])[] = [
  [
    'blocks, loops and branches with several parameters and results',
    `(func $swap (param i32 i64) (result i64 i32) (local.get 1) (local.get 0))
     (func (export "block") (param i32) (result i32 i32)
       (local.get 0) (i32.const 7) (block (param i32 i32) (result i32 i32) (br_if 0 (i32.eqz (local.get 0))) i32.add (i32.const 9)))
     (func (export "loop") (param i32) (result i32) (local i32)
       (local.get 0) (i32.const 0)
       (loop (param i32 i32) (result i32)
         local.set 1 local.tee 0 local.get 1 i32.add local.set 1
         local.get 0 i32.const 1 i32.sub local.tee 0 local.get 1
         (br_if 0 (local.get 0)) local.set 1 drop local.get 1))
     (func (export "if") (param i32) (result i32 i32)
       (i32.const 1) (if (param i32) (result i32 i32) (local.get 0) (then (i32.const 2)) (else (i32.const 3) i32.mul (i32.const 5))))
     (func (export "table") (param i32) (result i32 i32)
       (block (result i32 i32) (block (result i32 i32) (i32.const 1) (i32.const 2) (br_table 0 1 (local.get 0))) i32.add (i32.const 3)))
     (func (export "swap") (param i32 i64) (result i64 i32) (call $swap (local.get 0) (local.get 1)))`,
    [
      ...['block', 'loop', 'if', 'table'].flatMap((name) => of(name, [1, 2, 9])),
      ...of('block', [0]),
      ...of('table', [0]),
      ['swap', 3, 4n],
    ],
  ],
  [
    'tight loops: with parameters, left by a table, from an if, and by a return',
    `(func (export "values") (param i32) (result i32) (local i32)
       (local.get 0) (i32.const 1)
       (loop (param i32 i32) (result i32) i32.add (local.set 0) (local.set 1 (i32.add (local.get 1) (i32.const 1)))
         (local.get 0) (local.get 1) (br_if 0 (i32.lt_u (local.get 1) (i32.const 5))) i32.mul))
     (func (export "table") (param i32) (result i32)
       (block (block (loop (block
         (br_table 0 1 2 3 (local.tee 0 (i32.sub (local.get 0) (i32.const 1))))) (br 2))) (return (i32.const 1))) (i32.const 2))
     (func (export "choice") (param i32) (result i32)
       (loop (result i32) (local.set 0 (i32.add (local.get 0) (i32.const 3)))
         (if (result i32) (i32.gt_s (local.get 0) (i32.const 90)) (then (return (i32.const 7))) (else (br_if 2 (local.get 0) (i32.eq (local.get 0) (i32.const 12))) (drop) (br 1)))))`,
    [...of('values', [0, 3]), ...of('table', [1, 2, 3, 4, 9]), ...of('choice', [0, 1, 2])],
  ],
  [
    'br_table: each label, the default, beyond it, only a default, and back to a loop',
    `(func (export "labels") (param i32) (result i32)
       (block (block (block (br_table 0 1 0 2 (local.get 0))) (return (i32.const 10))) (return (i32.const 20))) (i32.const 30))
     (func (export "none") (param i32) (result i32) (block (br_table 0 (local.get 0))) (i32.const 1))
     (func (export "loop") (param i32) (result i32) (local i32)
       (block (loop (local.set 1 (i32.add (local.get 1) (i32.const 1))) (local.set 0 (i32.sub (local.get 0) (i32.const 1))) (br_table 0 1 (i32.le_s (local.get 0) (i32.const 0)))))
       (local.get 1))
     (func (export "value") (param i32) (result i32) (block (result i32) (i32.const 5) (br_table 0 0 (local.get 0))))
     (func (export "return") (param i32) (result i32) (i32.const 6) (br_table 0 0 (local.get 0)))`,
    ['labels', 'none', 'loop', 'value', 'return'].flatMap((name) => of(name, [0, 1, 2, 3, 4, -1])),
  ],
  [
    'indirect calls: right type, wrong type, empty entry, beyond the table, second table',
    `(type $one (func (result i32))) (type $to (func (param i32) (result i32)))
     (table 6 funcref) (table $other 3 funcref)
     (func $a (result i32) (i32.const 10)) (func $b (param i32) (result i32) (i32.mul (local.get 0) (i32.const 2))) (func $c (result i64) (i64.const 3))
     (elem (i32.const 0) $a $b $c) (elem (table $other) (i32.const 1) func $a) (elem $passive func $a $b) (elem declare func $c)
     (func (export "one") (param i32) (result i32) (call_indirect (type $one) (local.get 0)))
     (func (export "to") (param i32) (result i32) (call_indirect (type $to) (i32.const 21) (local.get 0)))
     (func (export "other") (param i32) (result i32) (call_indirect $other (type $one) (local.get 0)))
     (func (export "init") (table.init 0 $passive (i32.const 3) (i32.const 0) (i32.const 2)))
     (func (export "drop") (elem.drop $passive))
     (func (export "tail") (param i32) (result i32) (return_call_indirect (type $one) (local.get 0)))`,
    [
      ...['one', 'to', 'other', 'tail'].flatMap((name) => of(name, [0, 1, 2, 3, 5, 6, -1])),
      ['init'],
      ...of('one', [3]),
      ...of('to', [4]),
      ['drop'],
      ['init'],
    ],
  ],
  [
    'bulk memory: empty, inside, at the end, beyond it, overlapping, dropped',
    `(memory (export "memory") 1) (data $d "\\01\\02\\03\\04") (data (i32.const 100) "abcdefgh")
     (func (export "fill") (param i32 i32 i32) (memory.fill (local.get 0) (local.get 1) (local.get 2)))
     (func (export "copy") (param i32 i32 i32) (memory.copy (local.get 0) (local.get 1) (local.get 2)))
     (func (export "init") (param i32 i32 i32) (memory.init $d (local.get 0) (local.get 1) (local.get 2)))
     (func (export "drop") (data.drop $d))`,
    [
      ['fill', 0, 0x1ff, 4],
      ['fill', 65_536, 7, 0],
      ['fill', 65_537, 7, 0],
      ['fill', 65_530, 7, 7],
      ['fill', 10, 7, -1],
      ['copy', 102, 100, 6],
      ['copy', 98, 100, 6],
      ['copy', 65_536, 0, 0],
      ['copy', 0, 65_536, 1],
      ['init', 20, 1, 3],
      ['init', 20, 2, 3],
      ['init', 65_535, 0, 2],
      ['init', 30, 4, 0],
      ['drop'],
      ['drop'],
      ['init', 0, 0, 0],
      ['init', 0, 0, 1],
    ],
  ],
  [
    'tables: get, set, fill, copy, grow, and beyond their end',
    `(table $e (export "e") 4 externref) (table $f (export "f") 4 20 funcref) (func $x (export "x")) (elem $p func $x $x)
     (func (export "set") (param i32 externref) (table.set $e (local.get 0) (local.get 1)))
     (func (export "get") (param i32) (result externref) (table.get $e (local.get 0)))
     (func (export "fill") (param i32 externref i32) (table.fill $e (local.get 0) (local.get 1) (local.get 2)))
     (func (export "copy") (param i32 i32 i32) (table.copy $e $e (local.get 0) (local.get 1) (local.get 2)))
     (func (export "grow") (param externref i32) (result i32) (table.grow $e (local.get 0) (local.get 1)))
     (func (export "growf") (param i32) (result i32) (table.grow $f (ref.func $x) (local.get 0)))
     (func (export "size") (result i32) (table.size $e))
     (func (export "init") (param i32 i32 i32) (table.init $f $p (local.get 0) (local.get 1) (local.get 2)))
     (func (export "null") (param i32) (result i32) (ref.is_null (table.get $f (local.get 0))))`,
    [
      ['set', 0, 'a'],
      ['set', 1, 'b'],
      ['set', 4, 'z'],
      ['copy', 1, 0, 3],
      ...of('get', [0, 1, 2, 3, 4, -1]),
      ['fill', 2, 'c', 2],
      ['fill', 2, 'd', 3],
      ['fill', 4, 'd', 0],
      ['fill', 5, 'd', 0],
      ['grow', 'n', 2],
      ['grow', 'n', 0],
      ['size'],
      ...of('get', [2, 3, 5]),
      ['growf', 16],
      ['growf', 17],
      ['growf', -1],
      ['init', 0, 0, 2],
      ['init', 3, 1, 2],
      ...of('null', [0, 1, 2, 3, 4]),
    ],
  ],
  ['32-bit integers', binary('i32', OPERATORS), OPERATORS.flatMap((name) => pairs(name, EDGES))],
  [
    '64-bit integers',
    binary('i64', OPERATORS),
    OPERATORS.flatMap((name) => pairs(name, [...EDGES.map(BigInt), 2n ** 63n])),
  ],
  [
    'bit counts and sign extension',
    unary('i32', 'i32', ['clz', 'ctz', 'popcnt', 'extend8_s', 'extend16_s']),
    ['clz', 'ctz', 'popcnt', 'extend8_s', 'extend16_s'].flatMap((name) => of(name, EDGES)),
  ],
  [
    'sign extension to 64 bits',
    unary('i64', 'i64', ['extend8_s', 'extend16_s', 'extend32_s']),
    ['extend8_s', 'extend16_s', 'extend32_s'].flatMap((name) => of(name, EDGES.map(BigInt))),
  ],
  [
    'saturating and trapping conversions',
    unary('f64', 'i32', ['trunc_sat_f64_s', 'trunc_sat_f64_u', 'trunc_f64_s', 'trunc_f64_u']),
    ['trunc_sat_f64_s', 'trunc_sat_f64_u', 'trunc_f64_s', 'trunc_f64_u'].flatMap((name) => of(name, FLOATS)),
  ],
  [
    'the same conversions from 32 to 64 bits',
    unary('f32', 'i64', ['trunc_sat_f32_s', 'trunc_sat_f32_u', 'trunc_f32_s', 'trunc_f32_u']),
    ['trunc_sat_f32_s', 'trunc_sat_f32_u', 'trunc_f32_s', 'trunc_f32_u'].flatMap((name) => of(name, FLOATS)),
  ],
  [
    'floats: rounding, roots, min and max',
    `${unary('f64', 'f64', ['ceil', 'floor', 'trunc', 'nearest', 'sqrt', 'abs', 'neg'])} ${binary('f64', ['min', 'max', 'copysign', 'div'])}`,
    [
      ...['ceil', 'floor', 'trunc', 'nearest', 'sqrt', 'abs', 'neg'].flatMap((name) => of(name, FLOATS)),
      ...['min', 'max', 'copysign', 'div'].flatMap((name) => pairs(name, [0, -0, 1, -3.5, Infinity, NaN])),
    ],
  ],
  [
    'loads and stores: unaligned, at the end of memory, beyond it, with an offset beyond 4 GiB',
    `(memory (export "memory") 1) (data (i32.const 65528) "\\80\\ff\\7f\\01\\02\\03\\04\\05")
     (func (export "i32") (param i32) (result i32) (i32.load (local.get 0)))
     (func (export "i64") (param i32) (result i64) (i64.load offset=1 align=1 (local.get 0)))
     (func (export "s8") (param i32) (result i64) (i64.load8_s (local.get 0)))
     (func (export "far") (param i32) (result i32) (i32.load8_u offset=4294967295 (local.get 0)))
     (func (export "put") (param i32) (i64.store32 (local.get 0) (i64.const -2)))`,
    ['i32', 'i64', 's8', 'far', 'put'].flatMap((name) =>
      of(name, [0, 1, 65_527, 65_528, 65_532, 65_533, 65_535, 65_536, -1]),
    ),
  ],
  [
    'memory.grow: results, contents and limit',
    `(memory (export "memory") 1 4)
     (func (export "grow") (param i32) (result i32) (memory.grow (local.get 0)))
     (func (export "size") (result i32) (memory.size))
     (func (export "read") (param i32) (result i32) (i32.load (local.get 0)))`,
    [
      ['grow', 0],
      ['read', 65_536],
      ['grow', 2],
      ['size'],
      ['read', 65_536],
      ['grow', -1],
      ['grow', 2],
      ['grow', 1],
      ['size'],
      ['grow', 17],
    ],
  ],
  [
    'references: null, function, external, typed select',
    `(func $x) (elem declare func $x)
     (func (export "null") (param externref) (result i32) (ref.is_null (local.get 0)))
     (func (export "func") (result i32) (ref.is_null (ref.func $x)))
     (func (export "select") (param externref externref i32) (result externref) (select (result externref) (local.get 0) (local.get 1) (local.get 2)))
     (func (export "none") (result funcref) (ref.null func))`,
    [['null', null], ['null', 'x'], ['func'], ['select', 'a', 'b', 0], ['select', 'a', 'b', 1], ['none']],
  ],
  [
    'globals: imported, own, initialized from each other, exported, in segments',
    `(global $base (import "host" "base") i32) (global $shared (import "host" "shared") (mut i64))
     (global $copy (export "copy") i32 (i32.add (global.get $base) (i32.const 4))) (global $own (export "own") (mut f64) (f64.const 1.5))
     (memory (export "memory") 1) (data (offset (i32.add (global.get $base) (i32.const 1))) "x")
     (func (export "more") (result i64) (global.set $shared (i64.add (global.get $shared) (i64.const 1)))
       (global.set $own (f64.mul (global.get $own) (f64.const 2))) (global.get $shared))
     (func (export "copied") (result i32) (global.get $copy))`,
    [['more'], ['more'], ['copied']],
  ],
  [
    'a start function runs first, and may call the host',
    `(func $tell (import "host" "tell") (param i32)) (global $n (export "n") (mut i32) (i32.const 1))
     (func $start (call $tell (global.get $n)) (global.set $n (i32.const 2))) (start $start)
     (func (export "n2") (result i32) (global.get $n))`,
    [['n2']],
  ],
  ['a start function that traps', '(func $start (unreachable)) (start $start) (func (export "f"))', [['f']]],
  ['a segment beyond its memory', '(memory 1) (data (i32.const 65535) "ab") (func (export "f"))', [['f']]],
  [
    'unreachable code after jumps, returns and traps',
    `(func (export "jump") (param i32) (result i32) (block (result i32) (br 0 (local.get 0)) i32.add i32.const 1 i32.add (loop (br 0)) drop (i32.const 3)))
     (func (export "return") (param i32) (result i32) (return (local.get 0)) i32.mul (if (result i32) (then (i32.const 1)) (else (i32.const 2))))
     (func (export "trap") (param i32) (result i32) (if (local.get 0) (then unreachable i64.add drop)) (i32.const 4))
     (func (export "table") (param i32) (result i32) (block (br_table 0 0 (local.get 0)) f64.add drop) (i32.const 5))
     (func (export "deep") (param i32) (result i32) (i32.const 1) (i32.const 2) (i32.const 3) (return (local.get 0)))`,
    ['jump', 'return', 'trap', 'table', 'deep'].flatMap((name) => of(name, [0, 1])),
  ],
  [
    'tail calls use no stack: to itself, mutual, through a table, to the host',
    `(type $t (func (param i32) (result i32))) (func $one (import "host" "one") (result i32)) (table funcref (elem $odd $even))
     (func $self (export "self") (param i32) (result i32) (if (i32.eqz (local.get 0)) (then (return (i32.const 7)))) (return_call $self (i32.sub (local.get 0) (i32.const 1))))
     (func $even (export "even") (param i32) (result i32) (if (i32.eqz (local.get 0)) (then (return (i32.const 1)))) (return_call $odd (i32.sub (local.get 0) (i32.const 1))))
     (func $odd (param i32) (result i32) (if (i32.eqz (local.get 0)) (then (return (i32.const 0)))) (return_call_indirect (type $t) (i32.sub (local.get 0) (i32.const 1)) (i32.const 1)))
     (func (export "host") (result i32) (return_call $one))`,
    [...of('self', [0, 200_000]), ...of('even', [199_999, 200_000]), ['host']],
  ],
  [
    'host calls in order, with the values of that moment',
    `(func $tell (import "host" "tell") (param i32)) (func $next (param i32) (result i32) (call $tell (local.get 0)) (i32.add (local.get 0) (i32.const 1)))
     (func (export "order") (param i32) (result i32)
       (i32.add (call $next (local.get 0)) (i32.mul (call $next (i32.const 10)) (if (result i32) (local.get 0) (then (call $next (i32.const 20))) (else (call $next (i32.const 30)))))))`,
    of('order', [0, 1]),
  ],
  [
    'vectors: lanes, shuffles, lane loads, saturation',
    `(memory (export "memory") 1) (data (i32.const 0) "\\01\\02\\03\\04\\05\\06\\07\\08\\09\\0a\\0b\\0c\\0d\\0e\\0f\\ff")
     (func (export "sum") (param i32) (result i32) (i32x4.extract_lane 2 (i32x4.add (v128.load (i32.const 0)) (i32x4.splat (local.get 0)))))
     (func (export "saturated") (param i32) (result i32) (i8x16.extract_lane_s 15 (i8x16.add_sat_u (v128.load (i32.const 0)) (i8x16.splat (local.get 0)))))
     (func (export "shuffle") (param i32) (result i64) (i64x2.extract_lane 0 (i8x16.shuffle 15 14 13 12 0 1 2 3 16 17 18 19 31 30 29 28 (v128.load (i32.const 0)) (i32x4.splat (local.get 0)))))
     (func (export "lane") (param i32) (result i32) (i16x8.extract_lane_u 3 (v128.load16_lane 3 (local.get 0) (v128.const i32x4 1 2 3 4))))
     (func (export "bits") (param i32) (result i32) (i8x16.bitmask (i8x16.shl (v128.load (i32.const 0)) (local.get 0))))
     (func (export "root") (param i32) (result f64) (f64x2.extract_lane 1 (f64x2.sqrt (f64x2.splat (f64.convert_i32_s (local.get 0))))))
     (func (export "put") (param i32) (v128.store (local.get 0) (v128.const i64x2 -1 5)))`,
    ['sum', 'saturated', 'shuffle', 'lane', 'bits', 'root', 'put'].flatMap((name) =>
      of(name, [0, 1, 7, 2_147_483_647, -1]),
    ),
  ],
  [
    'locals are zero at each call, also many of them',
    `(func (export "zero") (param i32) (result i32) (local ${'i32 '.repeat(300)}) (local.set 299 (i32.add (local.get 299) (local.get 0))) (local.get 299))`,
    [...of('zero', [5, 6])],
  ],
]

describe('the WebAssembly specification', () => {
  test.each(CASES)('a metered module behaves as specified: %s', async (_, wat, calls) => {
    const { plain, paying } = await metered(wat)
    const paid = () => {
      const { counter, imports } = w.fuelled(START)
      return { all: seen(paying, calls, imports), used: START - counter.value }
    }
    const [once, again, raw] = [paid(), paid(), seen(plain, calls)]
    expect(`${raw.begun}`).not.toContain('CompileError') // the case itself is not a call
    expect(once.all).toEqual(raw)
    expect(again).toEqual(once)
    expect(once.used).toBeGreaterThanOrEqual(BigInt(raw.begun === undefined ? calls.length : 0))
  })

  test('control: the comparison detects a changed module', async () => {
    const { plain } = await metered(CASES[0]?.[1] ?? '')
    const other = await metered((CASES[0]?.[1] ?? '').replace('(i32.const 9)', '(i32.const 8)'))
    const calls = CASES[0]?.[2] ?? []
    expect(seen(other.plain, calls)).not.toEqual(seen(plain, calls))
    const traps = CASES.flatMap(([, wat, all]) =>
      wat.includes('trunc_f64_s') || wat.includes('call_indirect') ? all : [],
    ).length
    expect(traps).toBeGreaterThan(50)
  })

  test('metering accepts numbers with redundant bytes', () => {
    // `i32.const 5` in five bytes, a function index in three, a local index in two.
    const body = [0x41, 0x85, 0x80, 0x80, 0x80, 0x00, 0x22, 0x80, 0x00, 0x10, 0x81, 0x80, 0x00, 0x6a]
    const module = w.wasm({
      functions: [
        { body, results: [w.I32], locals: [w.I32], as: 'run' },
        { body: w.i32(2), results: [w.I32] },
      ],
    })
    const done = meter(module, ROOM)
    if (!done.ok) throw new Error(done.error.detail)
    const { exports } = new w.Instance(new w.Module(done.value), w.fuelled(START).imports)
    expect(exports['run']?.()).toBe(7)
  })
})
