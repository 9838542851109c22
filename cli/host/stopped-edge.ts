// Stops the edge with SIGSTOP while the files that have changed are copied. The disk then holds
// what a crash of the process would leave, and the edge recovers from that. The edge continues,
// however this process ends.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { LIMITS } from '../../shared/limits.ts'
import { childEnvironment } from '../shell/config.ts'

const RESUMER = join(import.meta.dirname, 'resume.ts')

/**
 * Runs `work` while no thread of these processes runs. Returns its result, or undefined if they could
 * not be stopped, or not for long enough. `work` is synchronous and returns soon after `until`.
 */
export async function whileStopped<T>(
  pids: readonly number[],
  work: (until: number) => T | undefined,
): Promise<T | undefined> {
  const resumer = spawn(process.execPath, [RESUMER, ...pids.map(String)], {
    stdio: ['pipe', 'pipe', 'ignore'],
    env: childEnvironment(),
  })
  const gone = once(resumer, 'close')
  try {
    const ready = await Promise.race([once(resumer.stdout, 'data').then(() => true), gone.then(() => false)])
    if (!ready) return undefined
    const until = Date.now() + LIMITS.backup_pause_ms
    for (const pid of pids) process.kill(pid, 'SIGSTOP')
    while (!pids.every(isStopped) && Date.now() < until) await sleep(1)
    if (!pids.every(isStopped)) return undefined
    const result = work(until)
    return Date.now() < until && pids.every(isStopped) ? result : undefined
  } finally {
    for (const pid of pids) resume(pid) // the resumer may be gone
    resumer.stdin.end()
    await gone
  }
}

function resume(pid: number): void {
  try {
    process.kill(pid, 'SIGCONT')
  } catch {
    // It has ended.
  }
}

/** Whether each thread is stopped: one that waits for the disk stops later than the others. */
const isStopped = (pid: number): boolean => {
  const threads = globSync(`/proc/${pid}/task/*/stat`)
  return threads.length > 0 && threads.every((path) => /\) T /.test(textOf(path)))
}

function textOf(path: string): string {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return '' // the thread has ended
  }
}
