// No system call is new to the filter. Deny-lists age: a call that a kernel adds after our review
// fails here, on the first machine whose kernel or headers have it. Until then the filter answers
// ENOSYS to it.
// @project prepared

import { readFileSync } from 'node:fs'
import { arch } from 'node:os'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  LAST_REVIEWED,
  type Machine,
  machineOf,
  syscallsOf,
} from '../../../worker/sandbox/kernel/syscalls.ts'
import { Arena, attack, attackReport, planOf } from '../arena/arena.ts'

let arena: Arena
beforeAll(async () => {
  arena = await Arena.open()
})
afterAll(() => arena.close())

/** Headers of linux-libc-dev. All younger machines, such as aarch64, use the generic table. */
const HEADERS: readonly (readonly [Machine, string])[] = [
  ['x86_64', `/usr/include/${arch() === 'x64' ? 'x86_64-linux-gnu/' : ''}asm/unistd_64.h`],
  ['aarch64', '/usr/include/asm-generic/unistd.h'],
]
const tables = HEADERS.filter(([machine]) => machine === 'aarch64' || machine === machineOf(arch()))

/** Numbers by name; the generic table writes some as `__NR3264_`. */
const numbersIn = (header: string): Map<string, number> =>
  new Map(
    [...header.matchAll(/^#define __NR(?:3264)?_(\w+)\s+(\d+)\s*$/gm)].map(([, name = '', number]) => [
      name,
      Number(number),
    ]),
  )

/** Names that are not calls: the start of a machine's own numbers, and one past the last. */
const NO_CALLS = new Set(['syscalls', 'arch_specific_syscall'])

describe.each(tables)('the headers for %s', (machine, path) => {
  const known = numbersIn(readFileSync(path, 'utf8'))

  test('the kernel headers have no system call that was not reviewed', () => {
    expect(known.size).toBeGreaterThan(250)
    expect([...known].filter(([name, number]) => number > LAST_REVIEWED && !NO_CALLS.has(name))).toEqual([])
  })

  test('the kernel headers and the filter have the same numbers of system calls', () => {
    const both = syscallsOf(machine).filter(({ call }) => known.has(call))
    expect(both.length).toBeGreaterThan(70)
    for (const { call, number } of both) expect([call, number]).toEqual([call, known.get(call)])
  })
})

test('this kernel has no system call that was not reviewed', async () => {
  const source = `
tell['known'] = number(${arch() === 'x64' ? 39 : 172})
tell['new'] = [n for n in range(${LAST_REVIEWED + 1}, ${LAST_REVIEWED + 131}) if number(n, -1, -1, -1, -1, -1, -1) != 'ENOSYS']`
  const bare = await arena.bare({ plan: planOf(attack(source)), swaps: [[['--seccomp', '4'], []]] })
  expect(attackReport(bare)).toEqual({ known: 'ok', new: [] })
})
