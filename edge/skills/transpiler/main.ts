// The transpiler, a Worker of its own beside the edge: from a component that anybody may have made to modules that an isolate can load and
// that pay for what they do. It keeps nothing, reaches nothing, and trusts nobody; each component has an engine of its own.

import { WorkerEntrypoint } from 'cloudflare:workers'
import { sha256 } from '../../../shared/bytes/json.ts'
import { failure } from '../../../shared/failures.ts'
import { LIMITS } from '../../../shared/limits.ts'
import type { SkillCapability } from '../../../shared/plan/plan.ts'
import type { Result } from '../../../shared/result.ts'
import { err, ok } from '../../../shared/result.ts'
import { readComponent } from '../component/bounds.ts'
import { askingFunctions } from '../component/world.ts'
import type { Room } from '../metering/meter.ts'
import { meter } from '../metering/meter.ts'
import { lift } from './inline-modules.ts'
import { generate } from './jco.ts'

/** `component.js` makes an instance of the others: WebAssembly, metered. */
export type Transpiled = {
  readonly capabilities: readonly SkillCapability[]
  readonly files: readonly (readonly [name: string, bytes: Uint8Array])[]
}

const refused = (why: string) => err(failure('invalid_skill', why))

export default class Transpiler extends WorkerEntrypoint {
  async transpile(component: Uint8Array, room: Room): Promise<Result<Transpiled>> {
    return transpile(component, room)
  }
}

function transpile(component: Uint8Array, room: Room): Result<Transpiled> {
  const read = readComponent(component)
  if (!read.ok) return read
  // What can't be paid for is refused before the engine sees it, which then hands out the same modules.
  const known = new Map<string, Uint8Array>()
  for (const module of read.value.modules) {
    const metered = meter(module, room)
    if (!metered.ok) return metered
    known.set(sha256(module), metered.value)
  }
  const { bytes: stripped, capabilities } = read.value
  const generated = generate(stripped, askingFunctions(capabilities))
  if (!generated.ok) return generated
  const { files } = generated.value
  const made: [string, Uint8Array][] = []
  for (const [name, bytes] of files) {
    if (name.endsWith('.d.ts')) continue
    if (!name.endsWith('.wasm'))
      made.push(
        ...lift(name, new TextDecoder().decode(bytes)).map(([file, from]): [string, Uint8Array] => [
          file,
          from,
        ]),
      )
    else {
      const metered = known.get(sha256(bytes))
      if (metered === undefined) return refused('the engine made a module of its own')
      made.push([name, metered])
    }
  }
  const size = made.reduce((sum, [, { byteLength }]) => sum + byteLength, 0)
  return size > LIMITS.skill_code_bytes
    ? refused(`it would be ${size} bytes; ${LIMITS.skill_code_bytes} are the most`)
    : ok({ capabilities, files: made })
}
