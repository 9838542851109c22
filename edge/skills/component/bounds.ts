// A component as it comes from strangers, before anything heavy reads it: how large it is, the core modules in it, and that what it imports
// and exports is the world's. Pure. How its parts are joined is for jco to say; what can't be a skill of ours is refused here, cheaply.

import { Bytes, Malformed, Writer } from '../../../shared/bytes/wasm-binary.ts'
import { failure } from '../../../shared/failures.ts'
import { LIMITS } from '../../../shared/limits.ts'
import type { SkillCapability } from '../../../shared/plan/plan.ts'
import type { Result } from '../../../shared/result.ts'
import { err, ok } from '../../../shared/result.ts'
import { Types } from './type-text.ts'
import { worldly } from './world.ts'

const HEADER = [0x00, 0x61, 0x73, 0x6d, 0x0d, 0x00, 0x01, 0x00] as const
const SECTION = { custom: 0, module: 1, component: 4, alias: 6, type: 7, import: 10, export: 11 } as const
const CORE = { custom: 0, table: 4, memory: 5, export: 7, element: 9, header: 8 } as const

/** Each core module in it, what it imports, and the component without what only tells about it. */
export type Component = {
  readonly bytes: Uint8Array
  readonly modules: readonly Uint8Array[]
  readonly capabilities: readonly SkillCapability[]
}

type Found = {
  readonly modules: Uint8Array[]
  described: number
  memories: number
  tables: number
  exports: number
  elements: number
}

export function readComponent(component: Uint8Array): Result<Component> {
  const found: Found = { modules: [], described: 0, memories: 0, tables: 0, exports: 0, elements: 0 }
  const types = new Types()
  try {
    if (component.byteLength > LIMITS.skill_component_bytes)
      throw new Malformed(`it is larger than ${LIMITS.skill_component_bytes} bytes`)
    const bytes = walk(new Bytes(component), found, types).bytes()
    if (found.memories > 1) throw new Malformed('it has more than one memory')
    return ok({ bytes, modules: found.modules, capabilities: worldly(types) })
  } catch (thrown) {
    if (!(thrown instanceof Malformed)) throw thrown
    return err(failure('invalid_skill', `the component can’t be a skill: ${thrown.message}`))
  }
}

function walk(all: Bytes, found: Found, types: Types): Writer {
  if (HEADER.some((byte) => all.u8() !== byte)) throw new Malformed('it is no component of WebAssembly')
  const out = new Writer().raw(HEADER)
  while (!all.done) {
    const from = all.at
    const id = all.u8()
    const section = all.part(all.u32())
    if (id === SECTION.custom) continue
    if (id === SECTION.component) throw new Malformed('components stand inside it, which no skill has')
    if (id !== SECTION.module) found.described += section.end - section.at
    if (found.described > LIMITS.skill_described_bytes)
      throw new Malformed(`what it says beside its code is longer than ${LIMITS.skill_described_bytes} bytes`)
    if (id === SECTION.module) core(section, found)
    else if (id === SECTION.type) types.define(section)
    else if (id === SECTION.import) types.import(section)
    else if (id === SECTION.alias) types.alias(section)
    else if (id === SECTION.export) types.export(section)
    out.raw(all.slice(from, all.at))
  }
  return out
}

function core(module: Bytes, found: Found): void {
  found.modules.push(module.slice(module.at, module.end))
  if (found.modules.length > LIMITS.skill_modules)
    throw new Malformed(`it holds more than ${LIMITS.skill_modules} modules`)
  const all = new Bytes(module.slice(0, module.end), module.at)
  all.skip(CORE.header) // whose it is, metering sees
  while (!all.done) {
    const id = all.u8()
    const section = all.part(all.u32())
    if (id === CORE.memory) found.memories += section.u32()
    if (id === CORE.table) found.tables += section.u32()
    if (id === CORE.element) found.elements += section.end - section.at
    if (id === CORE.export) found.exports += section.u32()
    if (found.exports > LIMITS.skill_exports)
      throw new Malformed(`its modules export more than ${LIMITS.skill_exports} things`)
    if (found.elements > LIMITS.skill_element_bytes)
      throw new Malformed(`what it lays out in tables is longer than ${LIMITS.skill_element_bytes} bytes`)
    if (found.tables > LIMITS.skill_tables)
      throw new Malformed(`it has more than ${LIMITS.skill_tables} tables`)
  }
}
