// The canaries of cgroups: programs that take more memory and processes than their call may have,
// in ways that no rlimit counts, so that only a working cgroup ends them. probe.ts runs them.

import { constants } from 'node:os'
import type { Limits } from '../../../shared/plan/plan.ts'
import { answersIn, callingProgram } from '../kernel/elf.ts'
import { type Machine, numberOf } from '../kernel/syscalls.ts'
import type { Canary } from './shell-canaries.ts'
import { OWN_PROGRAM } from './shell-canaries.ts'

const MiB = 1024 * 1024
const SIGCHLD = 17
const READ_WRITE = 3
/** MAP_SHARED, anonymous and populated: memory that RLIMIT_DATA does not count. */
const SHARED_FILLED = 0x1 | 0x20 | 0x8000
const FIX =
  'this host’s cgroups don’t enforce their limits: report the kernel, its configuration and its mounts in /sys/fs/cgroup'

export const GROUP_LIMITS = { memory_bytes: 24 * MiB, pids: 16 } as const satisfies Partial<Limits>

/** Run in tier B, where the process limit of the worker's user is far higher. */
export function groupCanaries(machine: Machine): readonly Canary[] {
  const [clone, mmap] = [numberOf('clone', machine), numberOf('mmap', machine)]
  const forks = Array.from({ length: GROUP_LIMITS.pids + 4 }, () => ({ number: clone, arguments: [SIGCHLD] }))
  const sharedMemory = {
    number: mmap,
    arguments: [0, 4 * GROUP_LIMITS.memory_bytes, READ_WRITE, SHARED_FILLED, -1, 0],
  }
  const common = { ability: 'B' as const, argv: () => [OWN_PROGRAM], limits: GROUP_LIMITS, fix: FIX }
  return [
    {
      ...common,
      name: 'processes together',
      program: callingProgram(machine, forks),
      judge: ({ stdout, outcome }) => {
        const answers = answersIn(Buffer.from(stdout, 'latin1'))
        const startedCount = answers.filter((answer) => typeof answer === 'number' && answer > 0).length
        const ok =
          outcome.kind === 'exit' &&
          startedCount < GROUP_LIMITS.pids &&
          answers.at(-1) === -constants.errno.EAGAIN
        return [
          {
            name: 'S27 a fork bomb ends at the limit of its cgroup',
            ok,
            detail: `${startedCount} of ${forks.length} started, ended by ${outcome.kind}`,
          },
        ]
      },
    },
    {
      ...common,
      name: 'memory together',
      program: callingProgram(machine, [sharedMemory]),
      judge: ({ outcome }) => [
        {
          name: 'S28 a call that exceeds the memory of its cgroup is ended',
          ok: outcome.kind === 'memory_cap',
          detail: `ended by ${outcome.kind}`,
        },
      ],
    },
  ]
}
