// Owns the bound of the CPU time that all processes of a call take together, where its cgroup counts that. A limit of the kernel is there for
// each process alone, and a call may have many (S38). It looks no earlier than the time could be up on this host, so it costs next to nothing.

import { availableParallelism } from 'node:os'
import type { Group } from './cgroups.ts'

/** What is taken beyond the limit is at most this, times the CPUs. */
const LOOK_MS = 50

/** `onOver` is told once. Returns what ends the watching. What was used before, to set a sandbox up in advance, is not the call's. */
export function watchCpu(
  group: Pick<Group, 'cpuMs'> | undefined,
  cpu_ms: number,
  onOver: () => void,
): () => void {
  const before = group?.cpuMs()
  if (group === undefined || before === undefined) return () => undefined
  let timer: NodeJS.Timeout | undefined
  const look = (): void => {
    const left = cpu_ms - ((group.cpuMs() ?? before) - before)
    if (left < 0) onOver()
    else timer = setTimeout(look, Math.max(LOOK_MS, left / availableParallelism()))
  }
  look()
  return () => clearTimeout(timer)
}
