// Splits an untrusted core module into its sections, and checks their kinds, order and numbers of
// entries. Pure.

import { BinaryReader, MalformedBinary } from '../../../shared/bytes/wasm-binary.ts'

export const HEADER = [0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00] as const
export const SECTION = {
  custom: 0,
  type: 1,
  import: 2,
  function: 3,
  table: 4,
  memory: 5,
  global: 6,
  export: 7,
  start: 8,
  element: 9,
  code: 10,
} as const
export const DATA = 11
export const DATA_COUNT = 12
/**
 * The most entries per section, so that none keeps its reader busy. Functions are bounded by
 * compile cost.
 */
const MAX_ENTRIES: ReadonlyMap<number, number> = new Map([
  [SECTION.type, 10_000],
  [SECTION.import, 1_000],
  [SECTION.global, 10_000],
  [SECTION.export, 10_000],
  [SECTION.element, 10_000],
  [DATA, 10_000],
])
/** The order of sections in a module. */
const ORDER: readonly number[] = [1, 2, 3, 4, 5, 6, 7, 8, 9, DATA_COUNT, 10, DATA]

/**
 * The sections by id, without custom ones, which don't affect execution. Throws if the module is
 * malformed.
 */
export function sectionsOf(module: Uint8Array): Map<number, BinaryReader> {
  const all = new BinaryReader(module)
  if (HEADER.some((byte) => all.u8() !== byte))
    throw new MalformedBinary('it is not a WebAssembly core module of version 1')
  const sections = new Map<number, BinaryReader>()
  let last = -1
  while (!all.done) {
    const id = all.u8()
    const section = all.part(all.u32())
    if (id === SECTION.custom) continue
    const place = ORDER.indexOf(id)
    if (place === -1) throw new MalformedBinary(`a skill may not have a section of the kind ${id}`)
    if (place <= last) throw new MalformedBinary('its sections are not in order')
    last = place
    const most = MAX_ENTRIES.get(id) ?? Number.POSITIVE_INFINITY
    if (new BinaryReader(module, section.at, section.end).u32() > most)
      throw new MalformedBinary(`its section ${id} has more than ${most} entries`)
    sections.set(id, section)
  }
  return sections
}
