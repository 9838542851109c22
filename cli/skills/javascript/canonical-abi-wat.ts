// The adapter module between a skill's JavaScript engine and the world, as WebAssembly text: it
// exports `run`, and passes calls of the prelude to the granted interfaces by the canonical ABI. It
// is generated for one memory image, whose addresses it contains. It rarely frees memory, because
// an instance lives for one call. Also here: stubs for the WASI imports of the engine, which a
// skill does not get.

import type { SkillCapability } from '../../../shared/plan/plan.ts'

/**
 * The world's functions and how many words each takes. Only `clock.now` returns its result as a
 * value.
 */
const FUNCTIONS = [
  { of: 'log', name: 'write', words: 4 },
  { of: 'clock', name: 'now', words: 0 },
  { of: 'random', name: 'bytes', words: 2 },
  { of: 'http', name: 'request', words: 9 },
  { of: 'secrets', name: 'get', words: 3 },
  { of: 'kv', name: 'get', words: 3 },
  { of: 'kv', name: 'set', words: 5 },
  { of: 'kv', name: 'delete', words: 3 },
  { of: 'kv', name: 'keys', words: 3 },
  { of: 'channel', name: 'post', words: 5 },
] as const satisfies readonly { of: SkillCapability; name: string; words: number }[]

/** The granted functions; the adapter calls them by their index in this list. */
export const importsOf = (granted: readonly SkillCapability[]): string[] =>
  grantedFunctions(granted).map(({ of, name }) => `${of}.${name}`)

const grantedFunctions = (granted: readonly SkillCapability[]) =>
  FUNCTIONS.filter(({ of }) => granted.includes(of))

/** The one-letter names under which the engine calls the prelude's native functions. */
export const NATIVE = { utf8: 'u', text: 't', address: 'a', take: 'k', call: 'c' } as const
const letter = (name: keyof typeof NATIVE): number => NATIVE[name].charCodeAt(0)

/** Addresses in the engine's memory: of its context and of JavaScript values. */
export type Addresses = {
  readonly context: number
  readonly run: number
  readonly end: number
  readonly undefined: number
}

/** The functions of the engine that the adapter calls, by their exported names. */
const ENGINE = {
  qjs_call: '(param i32 i32 i32 i32) (result i32)',
  qjs_new_string: '(param i32 i32) (result i32)',
  qjs_get_string_len: '(param i32 i32) (result i32)',
  qjs_free_cstring: '(param i32)',
  qjs_new_uint8_array: '(param i32 i32) (result i32)',
  qjs_new_number: '(param f64) (result i32)',
  qjs_get_float64: '(param i32) (result f64)',
  qjs_get_undefined: '(result i32)',
  qjs_is_job_pending: '(result i32)',
  qjs_execute_pending_job: '(result i32)',
  JS_GetUint8Array: '(param i32 i32 i64) (result i32)',
  malloc: '(param i32) (result i32)',
  realloc: '(param i32 i32) (result i32)',
  free: '(param i32)',
} as const
export const ENGINE_EXPORTS: readonly string[] = ['memory', ...Object.keys(ENGINE)]

export function canonicalAbiWat(granted: readonly SkillCapability[], at: Addresses): string {
  const functions = grantedFunctions(granted)
  const given = (count: number): string =>
    Array.from({ length: count }, (_, index) => `(i32.load offset=${index * 4} (local.get $at))`).join(' ')
  const asked = functions.map(({ words }, index) =>
    words === 0 ? `(i64.store ${given(1)} (call $import${index}))` : `(call $import${index} ${given(words)})`,
  )
  return `(module
  ${functions
    .map(
      ({ of, name, words }, index) =>
        `(import "countersign:skill/${of}@0.1.0" "${name}" (func $import${index} ${words === 0 ? '(result i64)' : `(param${' i32'.repeat(words)})`}))`,
    )
    .join('\n  ')}
  (import "env" "memory" (memory 0))
  ${Object.entries(ENGINE)
    .map(([name, type]) => `(import "__main_module__" "${name}" (func $${name} ${type}))`)
    .join('\n  ')}
  (global $length (mut i32) (i32.const 0))

  (func $room (param $size i32) (result i32)
    (local $room i32)
    (if (i32.eqz (local.tee $room (call $malloc (local.get $size)))) (then unreachable))
    (local.get $room))
  (func (export "cabi_realloc") (param $old i32) (param $before i32) (param $align i32) (param $size i32) (result i32)
    (local $room i32)
    (if (i32.eqz (local.tee $room (call $realloc (local.get $old) (local.get $size)))) (then unreachable))
    (local.get $room))

  (func $argument (param $arguments i32) (param $index i32) (result i32)
    (i32.load (i32.add (local.get $arguments) (i32.mul (local.get $index) (i32.const 4)))))
  (func $number (param $arguments i32) (param $index i32) (result i32)
    (i32.trunc_f64_u (call $qjs_get_float64 (call $argument (local.get $arguments) (local.get $index)))))
  (func $length_at (result i32)
    (if (i32.eqz (global.get $length)) (then (global.set $length (call $room (i32.const 4)))))
    (global.get $length))
  (func $bytes (param $value i32) (result i32)
    (call $JS_GetUint8Array (i32.const ${at.context}) (call $length_at) (i64.load (local.get $value))))

  (func (export "host_call") (param $name i32) (param $name_length i32) (param $this i32) (param $count i32) (param $arguments i32) (result i32)
    (local $what i32) (local $at i32) (local $size i32) (local $made i32)
    (local.set $what (i32.load8_u (local.get $name)))
    (if (i32.eq (local.get $what) (i32.const ${letter('utf8')})) (then
      (local.set $at (call $qjs_get_string_len (call $argument (local.get $arguments) (i32.const 0)) (call $length_at)))
      (if (i32.eqz (local.get $at)) (then unreachable))
      (local.set $made (call $qjs_new_uint8_array (local.get $at) (i32.load (call $length_at))))
      (call $qjs_free_cstring (local.get $at))
      (return (local.get $made))))
    (if (i32.eq (local.get $what) (i32.const ${letter('text')})) (then
      (local.set $at (call $bytes (call $argument (local.get $arguments) (i32.const 0))))
      (return (call $qjs_new_string (local.get $at) (i32.load (call $length_at))))))
    (if (i32.eq (local.get $what) (i32.const ${letter('address')})) (then
      (return (call $qjs_new_number (f64.convert_i32_u (call $bytes (call $argument (local.get $arguments) (i32.const 0))))))))
    (if (i32.eq (local.get $what) (i32.const ${letter('take')})) (then
      (local.set $at (call $number (local.get $arguments) (i32.const 0)))
      (local.set $size (call $number (local.get $arguments) (i32.const 1)))
      (local.set $made (call $qjs_new_uint8_array (local.get $at) (local.get $size)))
      (if (local.get $size) (then (call $free (local.get $at)))) ;; for size 0 nothing was allocated
      (return (local.get $made))))
    (local.set $at (call $bytes (call $argument (local.get $arguments) (i32.const 1)))) ;; the words of the call
    (block $asked
      ${functions
        .map((_, index) => `(block $function${index}`)
        .reverse()
        .join(' ')}
      ${functions.length === 0 ? 'unreachable' : `(br_table ${functions.map((_, index) => `$function${index}`).join(' ')} (call $number (local.get $arguments) (i32.const 0)))`}
      ${asked.map((call) => `) ${call} (br $asked)`).join('\n      ')})
    (call $qjs_get_undefined))

  (func (export "run") (param $tool i32) (param $tool_length i32) (param $input i32) (param $input_length i32) (result i32)
    (local $area i32) (local $text i32)
    (local.set $area (call $room (i32.const 12)))
    (i32.store (local.get $area) (call $qjs_new_string (local.get $tool) (local.get $tool_length)))
    (i32.store offset=4 (local.get $area) (call $qjs_new_string (local.get $input) (local.get $input_length)))
    (drop (call $qjs_call (i32.const ${at.run}) (i32.const ${at.undefined}) (i32.const 2) (local.get $area)))
    (block $idle (loop $jobs
      (br_if $idle (i32.eqz (call $qjs_is_job_pending)))
      (drop (call $qjs_execute_pending_job))
      (br $jobs)))
    ;; the first character is 0 if it returned, 1 if it failed
    (local.set $text (call $qjs_get_string_len
      (call $qjs_call (i32.const ${at.end}) (i32.const ${at.undefined}) (i32.const 0) (i32.const 0)) (call $length_at)))
    (if (i32.eqz (local.get $text)) (then unreachable))
    (i32.store (local.get $area) (i32.sub (i32.load8_u (local.get $text)) (i32.const 48)))
    (i32.store offset=4 (local.get $area) (i32.add (local.get $text) (i32.const 1)))
    (i32.store offset=8 (local.get $area) (i32.sub (i32.load (call $length_at)) (i32.const 1)))
    (local.get $area))

  (func (export "host_get_timezone_offset") (param i32 i32) (result i32) (i32.const 0))
  (func (export "host_interrupt") (result i32) (i32.const 0))
  (func (export "host_promise_rejection") (param i32 i32 i32))
  (func (export "host_module_normalize") (param i32 i32) (result i32) (i32.const 0))
  (func (export "host_module_load") (param i32 i32) (result i32) (i32.const 0))
)`
}

/** WASI stubs that trap: the prelude replaces everything in the language that would call them. */
export const NO_WASI = `(module
  (func (export "clock_time_get") (param i32 i64 i32) (result i32) unreachable)
  (func (export "fd_close") (param i32) (result i32) unreachable)
  (func (export "fd_fdstat_get") (param i32 i32) (result i32) unreachable)
  (func (export "fd_seek") (param i32 i64 i32 i32) (result i32) unreachable)
  (func (export "fd_write") (param i32 i32 i32 i32) (result i32) unreachable)
  (func (export "random_get") (param i32 i32) (result i32) unreachable)
)`
