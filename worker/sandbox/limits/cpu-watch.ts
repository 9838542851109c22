// Owns the limit on the total CPU time of all processes of a call, if its cgroup counts that. The
// kernel limits only each process, and a call may have many (S38). It reads the counter no earlier
// than the limit could be reached on this host, so it costs almost nothing.

import { availableParallelism } from 'node:os'
import type { Group } from './cgroups.ts'

/** The shortest interval. A call exceeds its limit by at most this, times the number of CPUs. */
const CHECK_MS = 50

/**
 * Calls `onOver` once when the limit is exceeded. Returns a function that stops watching. CPU time
 * that a warm sandbox used before the call does not count.
 */
export function watchCpu(
  group: Pick<Group, 'cpuMs'> | undefined,
  cpu_ms: number,
  onOver: () => void,
): () => void {
  const before = group?.cpuMs()
  if (group === undefined || before === undefined) return () => undefined
  let timer: NodeJS.Timeout | undefined
  const check = (): void => {
    const left = cpu_ms - ((group.cpuMs() ?? before) - before)
    if (left < 0) onOver()
    else timer = setTimeout(check, Math.max(CHECK_MS, left / availableParallelism()))
  }
  check()
  return () => clearTimeout(timer)
}
