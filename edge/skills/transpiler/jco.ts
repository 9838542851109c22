// Runs jco's bindgen in a new instance for each component, because a component can make it trap or
// blow up its memory. The bundler substitutes our build of it (infra/jco-engine.ts) for the
// package's.

import * as bindgen from '@bytecodealliance/jco-transpile/component'
import { failure } from '../../../shared/failures.ts'
import type { Result } from '../../../shared/result.ts'
import { err, ok } from '../../../shared/result.ts'
import { seedFrom } from './wasi.ts'

const OPTIONS: bindgen.GenerateOptions = {
  name: 'component',
  instantiation: { tag: 'sync' },
  noNodejsCompat: true,
  tlaCompat: false,
  base64Cutoff: 0,
}

/**
 * `asyncImports`: host functions that suspend the caller. `run` is always async, as it may wait for
 * fuel.
 */
export function generate(component: Uint8Array, asyncImports: readonly string[]): Result<bindgen.Transpiled> {
  seedFrom(component)
  try {
    ;(bindgen as unknown as { start: () => void }).start() // replaces `$init` in our build
    return ok(bindgen.generate(component, { ...OPTIONS, asyncMode: asyncMode(asyncImports) }))
  } catch (thrown) {
    const why = thrown instanceof Error ? thrown.message : String(thrown)
    return err(failure('invalid_skill', `the component can’t be transpiled: ${why.slice(0, 400)}`))
  }
}

const asyncMode = (imports: readonly string[]): bindgen.AsyncMode => ({
  tag: 'jspi',
  val: { imports: [...imports], exports: ['run'] },
})
