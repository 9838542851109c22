// Measures metering itself: computing kernels with and without it, alternating in one process; and
// whether each run of a kernel costs the same. Times are those of this process’s engine, which is
// of the same kind as workerd’s.

import { meter } from '../../edge/skills/metering/meter.ts'
import { assemble } from '../support/skills/skill.ts'
import { type Exports, fuelled, Instance, Module } from '../support/skills/wasm.ts'

/**
 * `counts`: whether the target applies. A kernel that only makes calls costs most, and is only
 * reported.
 */
type Source = { readonly name: string; readonly n: number; readonly counts: boolean; readonly wat: string }

/**
 * Milliseconds of the best run, because other load only adds; units of fuel; the number of
 * different sums of fuel.
 */
export type Kernel = Pick<Source, 'name' | 'counts'> & {
  readonly plain: number
  readonly paying: number
  readonly fuel: number
  readonly sums: number
}

const SOURCES: readonly Source[] = [
  {
    name: 'primes below 2,000,000, sieved in memory',
    n: 2_000_000,
    counts: true,
    wat: `(memory 32) (func (export "run") (param $n i32) (result i32) (local $i i32) (local $j i32) (local $count i32)
      (memory.fill (i32.const 0) (i32.const 0) (local.get $n))
      (local.set $i (i32.const 2))
      (loop $next
        (if (i32.eqz (i32.load8_u (local.get $i)))
          (then
            (local.set $count (i32.add (local.get $count) (i32.const 1)))
            (local.set $j (i32.shl (local.get $i) (i32.const 1)))
            (block $done (loop $strike
              (br_if $done (i32.ge_u (local.get $j) (local.get $n)))
              (i32.store8 (local.get $j) (i32.const 1))
              (local.set $j (i32.add (local.get $j) (local.get $i)))
              (br $strike)))))
        (br_if $next (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (local.get $n))))
      (local.get $count))`,
  },
  {
    name: 'a product of matrices of 160 × 160',
    n: 160,
    counts: true,
    wat: `(memory 10) (func (export "run") (param $n i32) (result i32) (local $i i32) (local $j i32) (local $k i32) (local $sum f64) (local $size i32)
      (local.set $size (i32.shl (i32.mul (local.get $n) (local.get $n)) (i32.const 3)))
      (loop $fill
        (f64.store (local.get $i) (f64.convert_i32_u (i32.rem_u (local.get $i) (i32.const 97))))
        (f64.store (i32.add (local.get $i) (local.get $size)) (f64.convert_i32_u (i32.rem_u (local.get $i) (i32.const 89))))
        (br_if $fill (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 8))) (local.get $size))))
      (local.set $i (i32.const 0))
      (loop $rows
        (local.set $j (i32.const 0))
        (loop $columns
          (local.set $k (i32.const 0))
          (loop $dot
            (local.set $sum (f64.add (local.get $sum) (f64.mul
              (f64.load (i32.shl (i32.add (i32.mul (local.get $i) (local.get $n)) (local.get $k)) (i32.const 3)))
              (f64.load (i32.add (local.get $size) (i32.shl (i32.add (i32.mul (local.get $k) (local.get $n)) (local.get $j)) (i32.const 3)))))))
            (br_if $dot (i32.lt_u (local.tee $k (i32.add (local.get $k) (i32.const 1))) (local.get $n))))
          (br_if $columns (i32.lt_u (local.tee $j (i32.add (local.get $j) (i32.const 1))) (local.get $n))))
        (br_if $rows (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (local.get $n))))
      (i32.trunc_sat_f64_u (f64.div (local.get $sum) (f64.const 1000))))`,
  },
  {
    name: '200,000 numbers, merge-sorted',
    n: 200_000,
    counts: true,
    wat: `(memory 13) (func $sort (param $from i32) (param $to i32) (local $low i32) (local $high i32) (local $middle i32) (local $kept i32)
      (if (i32.ge_s (local.get $from) (local.get $to)) (then (return)))
      (local.set $low (local.get $from))
      (local.set $high (local.get $to))
      (local.set $middle (i32.load (i32.and (i32.shr_u (i32.add (local.get $from) (local.get $to)) (i32.const 1)) (i32.const -4))))
      (loop $part
        (block $below (loop $up
          (br_if $below (i32.ge_u (i32.load (local.get $low)) (local.get $middle)))
          (local.set $low (i32.add (local.get $low) (i32.const 4)))
          (br $up)))
        (block $above (loop $down
          (br_if $above (i32.le_u (i32.load (local.get $high)) (local.get $middle)))
          (local.set $high (i32.sub (local.get $high) (i32.const 4)))
          (br $down)))
        (if (i32.le_s (local.get $low) (local.get $high)) (then
          (local.set $kept (i32.load (local.get $low)))
          (i32.store (local.get $low) (i32.load (local.get $high)))
          (i32.store (local.get $high) (local.get $kept))
          (local.set $low (i32.add (local.get $low) (i32.const 4)))
          (local.set $high (i32.sub (local.get $high) (i32.const 4)))))
        (br_if $part (i32.le_s (local.get $low) (local.get $high))))
      (call $sort (local.get $from) (local.get $high))
      (call $sort (local.get $low) (local.get $to)))
    (func (export "run") (param $n i32) (result i32) (local $i i32) (local $seed i32)
      (local.set $seed (i32.const 7))
      (loop $fill
        (local.set $seed (i32.add (i32.mul (local.get $seed) (i32.const 1664525)) (i32.const 1013904223)))
        (i32.store (i32.shl (local.get $i) (i32.const 2)) (local.get $seed))
        (br_if $fill (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (local.get $n))))
      (call $sort (i32.const 0) (i32.shl (i32.sub (local.get $n) (i32.const 1)) (i32.const 2)))
      (i32.load (i32.shl (i32.shr_u (local.get $n) (i32.const 1)) (i32.const 2))))`,
  },
  {
    name: 'the 30th Fibonacci number, recursively',
    n: 30,
    counts: false,
    wat: `(func $fib (export "run") (param i32) (result i32)
      (if (result i32) (i32.lt_u (local.get 0) (i32.const 2))
        (then (local.get 0))
        (else (i32.add (call $fib (i32.sub (local.get 0) (i32.const 1))) (call $fib (i32.sub (local.get 0) (i32.const 2)))))))`,
  },
]

const PLENTY = 1_000_000_000_000n

export async function timeKernels(rounds: number): Promise<Kernel[]> {
  const found: Kernel[] = []
  for (const { name, n, counts, wat } of SOURCES) {
    const module = await assemble(`(module ${wat})`)
    const done = meter(module, { pages: 32, elements: 0 })
    if (!done.ok) throw new Error(done.error.detail)
    const { counter, imports } = fuelled(PLENTY)
    const ways = {
      plain: run(new Instance(new Module(module), {}).exports, n),
      paying: run(new Instance(new Module(done.value), imports).exports, n),
    }
    const expected = ways.plain().came
    const took = { plain: [] as number[], paying: [] as number[] }
    const sums = new Set<bigint>()
    for (let round = -WARM; round < rounds; round++) {
      for (const way of ['plain', 'paying'] as const) {
        const before = BigInt(counter.value)
        const { ms, came } = ways[way]()
        if (came !== expected) throw new Error(`${name}: ${came} is not ${expected}`)
        if (way === 'paying') sums.add(before - BigInt(counter.value))
        if (round >= 0) took[way].push(ms)
      }
    }
    found.push({
      name,
      counts,
      plain: Math.min(...took.plain),
      paying: Math.min(...took.paying),
      fuel: Number([...sums][0]),
      sums: sums.size,
    })
  }
  return found
}

/** Runs until the optimising compiler has compiled it. */
const WARM = 5

const run =
  ({ run }: Exports, n: number) =>
  () => {
    const begun = performance.now()
    const came = run?.(n)
    return { came, ms: performance.now() - begun }
  }
