// Runs and reads our static executables: how one ends, and which system calls its machine code
// makes.

import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'

export type Ended = {
  readonly out: string
  readonly err: string
  readonly code: number | null
  readonly signal: string | null
}

export async function ended(child: ChildProcess): Promise<Ended> {
  let [out, err] = ['', '']
  child.stdout?.on('data', (chunk: Buffer) => (out += chunk.toString()))
  child.stderr?.on('data', (chunk: Buffer) => (err += chunk.toString()))
  const [code, signal] = await once(child, 'close')
  return { out, err, code, signal }
}

/** Numbers that are loaded into the register for the system call: `mov eax, N` and `mov x8, #N`. */
const CALLED = {
  x86_64: (code: Buffer) =>
    [...code.toString('latin1').matchAll(/(?<!\x8d)\xb8(..)\0\0/gs)].map(([, low = '']) =>
      Buffer.from(low, 'latin1').readUInt16LE(),
    ),
  aarch64: (code: Buffer) =>
    Array.from({ length: Math.floor(code.length / 4) }, (_, n) => code.readUInt32LE(n * 4))
      .filter((word) => (word & 0xffe0001f) >>> 0 === 0xd2800008)
      .map((word) => (word >>> 5) & 0xffff),
}

/** The numbers of the system calls in the text of an executable, in its order. */
export const systemCallsIn = (program: Buffer, machine: 'x86_64' | 'aarch64'): number[] =>
  CALLED[machine](program.subarray(program.readUInt32LE(24) & 0xffff)) // from its entry point
