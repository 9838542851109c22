// Reads an untrusted component before any expensive tool does: bounds its size and the number of
// its parts, extracts its core modules, and checks imports and exports against the world (W10).
// Pure. Whether the parts fit together is left to jco.

import { BinaryReader, BinaryWriter, MalformedBinary } from '../../../shared/bytes/wasm-binary.ts'
import { failure } from '../../../shared/failures.ts'
import { LIMITS } from '../../../shared/limits.ts'
import type { SkillCapability } from '../../../shared/plan/plan.ts'
import type { Result } from '../../../shared/result.ts'
import { err, ok } from '../../../shared/result.ts'
import { ComponentTypes } from './type-text.ts'
import { capabilitiesOfWorld } from './world.ts'

const HEADER = [0x00, 0x61, 0x73, 0x6d, 0x0d, 0x00, 0x01, 0x00] as const
const SECTION = { custom: 0, module: 1, component: 4, alias: 6, type: 7, import: 10, export: 11 } as const
const CORE = { custom: 0, table: 4, memory: 5, export: 7, element: 9, header: 8 } as const

/** `bytes`: the component without custom sections. `modules`: its core modules. */
export type Component = {
  readonly bytes: Uint8Array
  readonly modules: readonly Uint8Array[]
  readonly capabilities: readonly SkillCapability[]
}

type Counts = {
  readonly modules: Uint8Array[]
  described: number
  memories: number
  tables: number
  exports: number
  elements: number
}

export function readComponent(component: Uint8Array): Result<Component> {
  const counts: Counts = { modules: [], described: 0, memories: 0, tables: 0, exports: 0, elements: 0 }
  const types = new ComponentTypes()
  try {
    if (component.byteLength > LIMITS.skill_component_bytes)
      throw new MalformedBinary(`it is larger than ${LIMITS.skill_component_bytes} bytes`)
    const bytes = walk(new BinaryReader(component), counts, types).bytes()
    if (counts.memories > 1) throw new MalformedBinary('it has more than one memory')
    return ok({ bytes, modules: counts.modules, capabilities: capabilitiesOfWorld(types) })
  } catch (thrown) {
    if (!(thrown instanceof MalformedBinary)) throw thrown
    return err(failure('invalid_skill', `the component can’t be a skill: ${thrown.message}`))
  }
}

function walk(all: BinaryReader, counts: Counts, types: ComponentTypes): BinaryWriter {
  if (HEADER.some((byte) => all.u8() !== byte)) throw new MalformedBinary('it is not a WebAssembly component')
  const out = new BinaryWriter().raw(HEADER)
  while (!all.done) {
    const from = all.at
    const id = all.u8()
    const section = all.part(all.u32())
    if (id === SECTION.custom) continue
    if (id === SECTION.component)
      throw new MalformedBinary('it contains other components, which a skill may not')
    if (id !== SECTION.module) counts.described += section.end - section.at
    if (counts.described > LIMITS.skill_described_bytes)
      throw new MalformedBinary(
        `its sections other than code are longer than ${LIMITS.skill_described_bytes} bytes`,
      )
    if (id === SECTION.module) countModule(section, counts)
    else if (id === SECTION.type) types.define(section)
    else if (id === SECTION.import) types.import(section)
    else if (id === SECTION.alias) types.alias(section)
    else if (id === SECTION.export) types.export(section)
    out.raw(all.slice(from, all.at))
  }
  return out
}

function countModule(module: BinaryReader, counts: Counts): void {
  counts.modules.push(module.slice(module.at, module.end))
  if (counts.modules.length > LIMITS.skill_modules)
    throw new MalformedBinary(`it holds more than ${LIMITS.skill_modules} modules`)
  const all = new BinaryReader(module.slice(0, module.end), module.at)
  all.skip(CORE.header) // metering checks the header
  while (!all.done) {
    const id = all.u8()
    const section = all.part(all.u32())
    if (id === CORE.memory) counts.memories += section.u32()
    if (id === CORE.table) counts.tables += section.u32()
    if (id === CORE.element) counts.elements += section.end - section.at
    if (id === CORE.export) counts.exports += section.u32()
    if (counts.exports > LIMITS.skill_exports)
      throw new MalformedBinary(`its modules have more than ${LIMITS.skill_exports} exports`)
    if (counts.elements > LIMITS.skill_element_bytes)
      throw new MalformedBinary(`its table elements are longer than ${LIMITS.skill_element_bytes} bytes`)
    if (counts.tables > LIMITS.skill_tables)
      throw new MalformedBinary(`it has more than ${LIMITS.skill_tables} tables`)
  }
}
