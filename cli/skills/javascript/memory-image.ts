// Writes the memory of a running engine into the engine's module as data, and drops unused exports.
// So the skill's code is parsed and evaluated once, at build time. Pure.

import { BinaryReader, BinaryWriter } from '../../../shared/bytes/wasm-binary.ts'

const SECTION = { custom: 0, memory: 5, global: 6, export: 7, start: 8, data: 11, dataCount: 12 } as const
const HEADER_BYTES = 8
const PAGE_BYTES = 65_536
/** A shorter run of zeros costs less than the header of another data segment. */
const GAP_BYTES = 12
const [I32, MUTABLE, I32_CONST, END] = [0x7f, 1, 0x41, 0x0b]

/** `stack`: the address from which the stack grows down. Nothing below it is live. */
export type Snapshot = { readonly memory: Uint8Array; readonly stack: number }

export function withImage(
  engine: Uint8Array,
  { memory, stack }: Snapshot,
  used: readonly string[],
): Uint8Array {
  const all = new BinaryReader(engine)
  const out = new BinaryWriter()
  all.skip(HEADER_BYTES)
  out.raw(engine.subarray(0, HEADER_BYTES))
  const section = (id: number, part: BinaryWriter): void => void out.u8(id).sized(part)
  while (!all.done) {
    const id = all.u8()
    const part = all.part(all.u32())
    if (id === SECTION.start)
      throw new Error('the engine’s module has a start section, which `withImage` does not support')
    if (id === SECTION.global) checkOnlyStackGlobal(part, stack)
    if (id === SECTION.custom || id === SECTION.dataCount) continue
    if (id === SECTION.memory) section(id, new BinaryWriter().u8(1, 0).u32(memory.byteLength / PAGE_BYTES))
    else if (id === SECTION.export) section(id, usedExports(engine, part, used))
    else if (id === SECTION.data) section(id, dataSegments(memory, stack))
    else section(id, new BinaryWriter().raw(engine.subarray(part.at, part.end)))
  }
  return out.bytes().slice()
}

/**
 * Fails unless the stack pointer is the engine's only global, because a snapshot of the memory has
 * no other.
 */
function checkOnlyStackGlobal(globals: BinaryReader, stack: number): void {
  const expected = new BinaryWriter().u8(1, I32, MUTABLE, I32_CONST).s64(stack).u8(END).bytes()
  if (Buffer.compare(globals.slice(globals.at, globals.end), expected) !== 0)
    throw new Error(
      'the engine’s module has other globals than the stack pointer, which the memory image does not capture',
    )
}

function usedExports(engine: Uint8Array, section: BinaryReader, used: readonly string[]): BinaryWriter {
  const kept: Uint8Array[] = []
  const names = new Set<string>()
  section.times(() => {
    const from = section.at
    const name = section.part(section.u32())
    section.skip(1)
    section.u32()
    const text = Buffer.from(engine.subarray(name.at, name.end)).toString()
    if (!used.includes(text)) return
    names.add(text)
    kept.push(engine.subarray(from, section.at))
  })
  const missing = used.find((name) => !names.has(name))
  if (missing !== undefined) throw new Error(`the engine’s module no longer exports \`${missing}\``)
  const out = new BinaryWriter().u32(kept.length)
  for (const one of kept) out.raw(one)
  return out
}

/** The data section: one segment per run of non-zero bytes. */
function dataSegments(memory: Uint8Array, stack: number): BinaryWriter {
  const found: { from: number; to: number }[] = []
  for (let at = stack; at < memory.length; at++) {
    if (memory[at] === 0) continue
    const last = found.at(-1)
    if (last !== undefined && at - last.to <= GAP_BYTES) last.to = at + 1
    else found.push({ from: at, to: at + 1 })
  }
  const out = new BinaryWriter().u32(found.length)
  for (const { from, to } of found)
    out
      .u8(0, I32_CONST)
      .s64(from)
      .u8(END)
      .u32(to - from)
      .raw(memory.subarray(from, to))
  return out
}
