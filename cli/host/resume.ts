// Lets stopped processes go on when its standard input ends, which also happens if the process that
// started it is killed, and at the latest when the longest pause is over.

import { LIMITS } from '../../shared/limits.ts'

function resume(): never {
  for (const pid of process.argv.slice(2)) {
    try {
      process.kill(Number(pid), 'SIGCONT')
    } catch {
      // it has ended
    }
  }
  process.exit()
}

process.stdin.on('end', resume).on('error', resume).resume()
setTimeout(resume, LIMITS.backup_pause_ms)
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => undefined)
process.stdout.write('ready')
