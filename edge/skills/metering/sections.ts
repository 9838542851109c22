// The sections of a core module: which there are, in which order they stand, and how many parts they may have. Pure over bytes from strangers.

import { Bytes, Malformed } from '../../../shared/bytes/wasm-binary.ts'

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
/** Of what there is no need of more, and whose reader it would keep busy. Functions are bounded by what it takes to compile them. */
const MOST: ReadonlyMap<number, number> = new Map([
  [SECTION.type, 10_000],
  [SECTION.import, 1_000],
  [SECTION.global, 10_000],
  [SECTION.export, 10_000],
  [SECTION.element, 10_000],
  [DATA, 10_000],
])
/** The order in which they stand. */
const ORDER: readonly number[] = [1, 2, 3, 4, 5, 6, 7, 8, 9, DATA_COUNT, 10, DATA]

/** By their numbers. Custom ones are left out: names and the like change nothing. */
export function sectionsOf(module: Uint8Array): Map<number, Bytes> {
  const all = new Bytes(module)
  if (HEADER.some((byte) => all.u8() !== byte))
    throw new Malformed('it is no core module of WebAssembly, version 1')
  const sections = new Map<number, Bytes>()
  let last = -1
  while (!all.done) {
    const id = all.u8()
    const section = all.part(all.u32())
    if (id === SECTION.custom) continue
    const place = ORDER.indexOf(id)
    if (place === -1)
      throw new Malformed(`a section of the kind ${id} is not among those that a skill may have`)
    if (place <= last) throw new Malformed('its sections are not in order')
    last = place
    const most = MOST.get(id) ?? Number.POSITIVE_INFINITY
    if (new Bytes(module, section.at, section.end).u32() > most)
      throw new Malformed(`more than ${most} parts are in its section ${id}`)
    sections.set(id, section)
  }
  return sections
}
