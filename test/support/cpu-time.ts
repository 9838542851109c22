// The CPU time of this thread in milliseconds, for limits on computations. Neither other load on the
// machine counts, nor what the engine compiles and collects on threads of its own.

export function cpuTime(): number {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1_000
}
