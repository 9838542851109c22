// Owns the canaries of cgroups: programs that want more memory and more processes than their call may have, by ways that no rlimit counts.
// Only a cgroup that binds ends them. A table and pure judgements; probe.ts runs them.

import { constants } from 'node:os'
import type { Limits } from '../../../shared/plan/plan.ts'
import { answersIn, callingProgram } from '../kernel/elf.ts'
import { type Machine, numberOf } from '../kernel/syscalls.ts'
import type { Canary } from './shell-canaries.ts'
import { OWN_PROGRAM } from './shell-canaries.ts'

const MiB = 1024 * 1024
const SIGCHLD = 17
const READ_WRITE = 3
/** Shared and nobody's file: memory that counts as no process's data. Filled at once. */
const SHARED_FILLED = 0x1 | 0x20 | 0x8000
const FIX =
  'this host’s kernel counts less than it says: report it, its configuration and what it mounts in /sys/fs/cgroup'

export const GROUP_LIMITS = { memory_bytes: 24 * MiB, pids: 16 } as const satisfies Partial<Limits>

/** Tier B, where the limit of processes of the worker's user stands far above. */
export function groupCanaries(machine: Machine): readonly Canary[] {
  const [clone, mmap] = [numberOf('clone', machine), numberOf('mmap', machine)]
  const forks = Array.from({ length: GROUP_LIMITS.pids + 4 }, () => ({ number: clone, arguments: [SIGCHLD] }))
  const filled = {
    number: mmap,
    arguments: [0, 4 * GROUP_LIMITS.memory_bytes, READ_WRITE, SHARED_FILLED, -1, 0],
  }
  const own = { ability: 'B' as const, argv: () => [OWN_PROGRAM], limits: GROUP_LIMITS, fix: FIX }
  return [
    {
      ...own,
      name: 'processes together',
      program: callingProgram(machine, forks),
      judge: ({ stdout, outcome }) => {
        const answers = answersIn(Buffer.from(stdout, 'latin1'))
        const begun = answers.filter((answer) => typeof answer === 'number' && answer > 0).length
        const ok =
          outcome.kind === 'exit' && begun < GROUP_LIMITS.pids && answers.at(-1) === -constants.errno.EAGAIN
        return [
          {
            name: 'S27 a fork bomb ends at the limit of its cgroup',
            ok,
            detail: `${begun} of ${forks.length} begun, ended by ${outcome.kind}`,
          },
        ]
      },
    },
    {
      ...own,
      name: 'memory together',
      program: callingProgram(machine, [filled]),
      judge: ({ outcome }) => [
        {
          name: 'S28 who takes more memory than the cgroup has is ended',
          ok: outcome.kind === 'memory_cap',
          detail: `ended by ${outcome.kind}`,
        },
      ],
    },
  ]
}
