// The transpiler: a separate Worker that turns an untrusted component into metered modules that an
// isolate can load. It stores nothing and has no bindings; each component gets a new jco instance.

import { WorkerEntrypoint } from 'cloudflare:workers'
import { sha256 } from '../../../shared/bytes/json.ts'
import { failure } from '../../../shared/failures.ts'
import { LIMITS } from '../../../shared/limits.ts'
import type { SkillCapability } from '../../../shared/plan/plan.ts'
import type { Result } from '../../../shared/result.ts'
import { err, ok } from '../../../shared/result.ts'
import { readComponent } from '../component/bounds.ts'
import { asyncFunctions } from '../component/world.ts'
import type { ModuleLimits } from '../metering/meter.ts'
import { meter } from '../metering/meter.ts'
import { liftInlineModules } from './inline-modules.ts'
import { generate } from './jco.ts'

/** `component.js` instantiates the other files, which are metered WebAssembly modules. */
export type Transpiled = {
  readonly capabilities: readonly SkillCapability[]
  readonly files: readonly (readonly [name: string, bytes: Uint8Array])[]
}

const refused = (why: string) => err(failure('invalid_skill', why))

export default class Transpiler extends WorkerEntrypoint {
  async transpile(component: Uint8Array, limits: ModuleLimits): Promise<Result<Transpiled>> {
    return transpile(component, limits)
  }
}

function transpile(component: Uint8Array, limits: ModuleLimits): Result<Transpiled> {
  const read = readComponent(component)
  if (!read.ok) return read
  // Modules that can't be metered are refused before jco reads them. It returns the modules
  // unchanged.
  const meteredByDigest = new Map<string, Uint8Array>()
  for (const module of read.value.modules) {
    const metered = meter(module, limits)
    if (!metered.ok) return metered
    meteredByDigest.set(sha256(module), metered.value)
  }
  const { bytes: stripped, capabilities } = read.value
  const generated = generate(stripped, asyncFunctions(capabilities))
  if (!generated.ok) return generated
  const { files } = generated.value
  const output: (readonly [string, Uint8Array])[] = []
  for (const [name, bytes] of files) {
    if (name.endsWith('.d.ts')) continue
    if (!name.endsWith('.wasm')) output.push(...liftInlineModules(name, new TextDecoder().decode(bytes)))
    else {
      const metered = meteredByDigest.get(sha256(bytes))
      if (metered === undefined)
        return refused('the transpiler produced a module that the component does not contain')
      output.push([name, metered])
    }
  }
  const size = output.reduce((sum, [, { byteLength }]) => sum + byteLength, 0)
  return size > LIMITS.skill_code_bytes
    ? refused(`its generated code has ${size} bytes; the limit is ${LIMITS.skill_code_bytes}`)
    : ok({ capabilities, files: output })
}
