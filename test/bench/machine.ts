// Owns the description of the machine and of the measured system: processor, versions, size of the
// edge’s bundle, and the processor time of each process of the stack.

import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { availableParallelism, cpus, loadavg, release, totalmem } from 'node:os'
import { extname, join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { ROOT } from '../../infra/state.ts'

export type Machine = Readonly<
  Record<'cpu' | 'cores' | 'memory' | 'kernel' | 'node' | 'workerd' | 'bubblewrap' | 'redis', string>
>

const matchInOutput = (file: string, args: readonly string[], pattern: RegExp): string => {
  const text = execFileSync(file, args, { encoding: 'utf8', env: { PATH: '/usr/local/bin:/usr/bin:/bin' } })
  return pattern.exec(text)?.[0] ?? text.trim()
}
const VERSION = /[0-9]+(?:\.[0-9]+)+/

export const machine = (redis: string): Machine => ({
  cpu: cpus()[0]?.model ?? 'unknown',
  cores: `${availableParallelism()}`,
  memory: `${Math.round(totalmem() / 2 ** 30)} GiB`,
  kernel: release(),
  node: process.versions.node,
  workerd: matchInOutput(
    join(ROOT, 'node_modules/workerd/bin/workerd'),
    ['--version'],
    /[0-9]{4}-[0-9]{2}-[0-9]{2}/,
  ),
  bubblewrap: matchInOutput('bwrap', ['--version'], VERSION),
  redis: matchInOutput(redis, ['--version'], VERSION),
})

/** The load of the machine before the run. */
export const load1 = (): number => loadavg()[0] ?? 0

const MODULES = new Set(['.js', '.mjs', '.wasm', '.sql', '.cedar', '.cedarschema', '.md', '.txt', '.bin'])

/** As wrangler counts it: all modules, gzip'd as one. */
export function bundleBytes(dir: string): { raw: number; gzip: number } {
  const names = readdirSync(dir).filter((name) => MODULES.has(extname(name)))
  const all = Buffer.concat(names.map((name) => readFileSync(join(dir, name))))
  return { raw: all.byteLength, gzip: gzipSync(all).byteLength }
}

/** The kernel's unit of processor time, fixed for user space on Linux. */
const TICK_MS = 10

/** Processor time of a process and of its children that have ended, in milliseconds. */
export function cpuMs(pid: number | undefined): number {
  if (pid === undefined) throw new Error('a part of the stack does not run')
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks), 0) * TICK_MS
}

/** The same to the nanosecond, without children. */
export function cpuNanos(pid: number): number {
  const threads = readdirSync(`/proc/${pid}/task`)
  return threads.reduce(
    (sum, thread) =>
      sum + Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'latin1').split(' ')[0]),
    0,
  )
}
