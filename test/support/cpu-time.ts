// The CPU time of this process in milliseconds, for limits on computations: other load on the
// machine does not count.

export function cpuTime(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1_000
}
