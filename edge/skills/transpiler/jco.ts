// jco's bindgen, made anew for each component: one that trapped, or that a component has swollen, is never used again. The bundler puts our
// build of it (infra/jco-engine.ts) in the place of the package's.

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

/** `asking`: functions of the host that answer later. Every `run` may wait, be it for its next slice of fuel alone. */
export function generate(component: Uint8Array, asking: readonly string[]): Result<bindgen.Transpiled> {
  seedFrom(component)
  try {
    ;(bindgen as unknown as { start: () => void }).start() // our build has it instead of `$init`
    return ok(bindgen.generate(component, { ...OPTIONS, asyncMode: waiting(asking) }))
  } catch (thrown) {
    const why = thrown instanceof Error ? thrown.message : String(thrown)
    return err(failure('invalid_skill', `the component does not transpile: ${why.slice(0, 400)}`))
  }
}

const waiting = (imports: readonly string[]): bindgen.AsyncMode => ({
  tag: 'jspi',
  val: { imports: [...imports], exports: ['run'] },
})
