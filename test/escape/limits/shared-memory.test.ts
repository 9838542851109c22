// For a call without a cgroup, docs/threat-model.md says which memory its limit counts and which it
// does not. With a cgroup all of it counts.

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Arena, attack, attackReport, planOf } from '../arena/arena.ts'

const MiB = 1024 * 1024
/** Each kind of memory is requested at more than twice the limit. */
const [LIMIT, ASKED] = [64 * MiB, 160 * MiB]

let arena: Arena
let without: Arena
beforeAll(async () => {
  ;[arena, without] = await Promise.all([Arena.open(), Arena.open({ undelegated: true })])
})
afterAll(async () => {
  await Promise.all([arena.close(), without.close()])
})

/** `mapped` maps and fills this many bytes; POPULATE fills them at once. */
const PRELUDE = `
libc.mmap.restype = ctypes.c_void_p
libc.shmat.restype = ctypes.c_void_p
def mapped(flags, fd=-1):
    at = libc.mmap(None, ctypes.c_size_t(${ASKED}), 3, flags | 0x8000, fd, ctypes.c_long(0))
    return errno.errorcode[ctypes.get_errno()] if at in (None, ctypes.c_void_p(-1).value) else 'ok'
def segment():
    one = libc.shmget(0, ctypes.c_size_t(${ASKED}), 0o1600)
    if one < 0: return errno.errorcode[ctypes.get_errno()]
    at = libc.shmat(one, None, 0)
    ctypes.memset(at, 1, ${ASKED})
    return 'ok'
def memory():
    fd = os.memfd_create('one')
    for n in range(${ASKED / MiB}): os.write(fd, bytes(1 << 20))
`
const COUNTED = { private: 'mapped(0x22)' }
const NOT_COUNTED = {
  'shared and anonymous': 'mapped(0x21)',
  'a shared mapping of `/dev/zero`': "mapped(1, os.open('/dev/zero', os.O_RDWR))",
  'a segment of System V': 'segment()',
  'a file in memory': 'attempt(memory)',
  'a growing stack': 'mapped(0x122)',
}
const planFor = (way: string, file_bytes = 4 * ASKED) =>
  planOf(attack(`${PRELUDE}\ntell['got'] = ${way}`), { limits: { memory_bytes: LIMIT, file_bytes } })

describe('without cgroups', () => {
  test.each(Object.entries(COUNTED))(
    'D10 without cgroups, memory that is %s is refused beyond the limit',
    async (_, way) => {
      expect(attackReport(await without.launch({ plan: planFor(way) }))).toEqual({ got: 'ENOMEM' })
    },
  )

  test.each(Object.entries(NOT_COUNTED))(
    'D10 without cgroups, memory that is %s is not counted, as docs/threat-model.md says',
    async (_, way) => {
      expect(attackReport(await without.launch({ plan: planFor(way) }))).toEqual({ got: 'ok' })
    },
  )

  test('D10 without cgroups, the limit of a file also applies to a file in memory', async () => {
    const source = `import signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n${PRELUDE}\ntell['got'] = attempt(memory)`
    const plan = planOf(attack(source), { limits: { memory_bytes: LIMIT, file_bytes: 8 * MiB } })
    expect(attackReport(await without.launch({ plan }))).toEqual({ got: 'EFBIG' })
  })
})

test.each(Object.entries(NOT_COUNTED))('D10 with a cgroup, memory that is %s counts', async (_, way) => {
  expect((await arena.launch({ plan: planFor(way) })).outcome).toEqual({ kind: 'memory_cap' })
})
