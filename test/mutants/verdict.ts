// One run of vitest in a copy, and its verdict on the mutant there.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { pdeathsig } from '../../infra/child-process.ts'
import type { Copy } from './copy.ts'
import type { Mutant } from './mutant.ts'

/** Test files, and which of their tests. */
export type Tests = Pick<Mutant, 'tests' | 'titled'>

/**
 * killed: a test failed. late: the tests did not end in time. broken: a file did not load or
 * nothing ran, so no test has judged the line.
 */
export type Verdict =
  | { readonly kind: 'killed'; readonly by: string }
  | { readonly kind: 'survived' }
  | { readonly kind: 'late' }
  | { readonly kind: 'broken'; readonly why: string }

/** The part of vitest's JSON report that we read. */
type Report = { testResults: { message: string; assertionResults: { fullName: string; status: string }[] }[] }

const TERM_MS = 10_000
/**
 * Some tests break a line of ours themselves and fail if its text differs; such a failure proves
 * nothing about the line.
 */
const NO_TWIN = '^(?!.* without [^:]*:)'

export async function judge(
  { root, scratch }: Copy,
  { tests, titled = '' }: Tests,
  limit_ms: number,
  stopped: AbortSignal,
): Promise<Verdict> {
  const report = join(scratch, 'report.json')
  const log = join(scratch, 'vitest.log')
  rmSync(report, { force: true })
  const vitest = join(root, 'node_modules/.bin/vitest')
  const only = `--testNamePattern=${NO_TWIN}(?=.*(?:${titled}))`
  const options = [
    'run',
    '--project=!prepared',
    '--bail=1',
    '--reporter=json',
    `--outputFile=${report}`,
    only,
    ...tests,
  ]
  const output = openSync(log, 'w')
  const [program = '', ...argv] = pdeathsig([vitest, ...options])
  const env = { ...process.env, TMPDIR: scratch }
  const child = spawn(program, argv, { cwd: root, env, stdio: ['ignore', output, output], detached: true }) // so that its whole process group can be killed
  closeSync(output)
  const inTime = await endOf(child, limit_ms, stopped)
  if (!inTime) return { kind: 'late' }
  return verdictOf(report, log, child.exitCode === 0)
}

/** Whether it ended within its time. */
async function endOf(
  child: ReturnType<typeof spawn>,
  limit_ms: number,
  stopped: AbortSignal,
): Promise<boolean> {
  const { pid } = child
  let inTime = true
  const signal = (name: NodeJS.Signals): void => {
    try {
      if (pid !== undefined) process.kill(-pid, name)
    } catch {
      // The group has ended.
    }
  }
  const end = (): void => {
    inTime = false
    signal('SIGTERM')
    setTimeout(signal, TERM_MS, 'SIGKILL').unref()
  }
  const late = setTimeout(end, limit_ms)
  stopped.addEventListener('abort', end, { once: true })
  if (stopped.aborted) end()
  await once(child, 'exit')
  clearTimeout(late)
  stopped.removeEventListener('abort', end)
  signal('SIGKILL') // processes that it left behind
  return inTime
}

function verdictOf(report: string, log: string, green: boolean): Verdict {
  let read: Report
  try {
    read = JSON.parse(readFileSync(report, 'utf8')) as Report // vitest wrote it just now
  } catch {
    return { kind: 'broken', why: readFileSync(log, 'utf8').slice(-2_000) }
  }
  const results = read.testResults.flatMap(({ assertionResults }) => assertionResults)
  const failed = results.find(({ status }) => status === 'failed')
  if (failed !== undefined) return { kind: 'killed', by: failed.fullName }
  if (green && results.some(({ status }) => status === 'passed')) return { kind: 'survived' }
  return { kind: 'broken', why: read.testResults.map(({ message }) => message).join('\n') || 'no test ran' }
}
