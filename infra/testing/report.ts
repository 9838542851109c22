// A vitest reporter that records the duration of each test file, prints the slowest ones, and
// prints how long the first test took to begin.

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Reporter, TestModule } from 'vitest/node'
import { ROOT } from '../state.ts'
import type { Durations } from './order.ts'

/** The durations of the last run of several files. */
const KEPT = join(ROOT, 'node_modules/.cache/countersign/durations.json')
const SHOWN = 15

export class FileTimes implements Reporter {
  /** The time at which the command was entered, or a change started a new run. */
  #begun = Number(process.env['COUNTERSIGN_TEST_BEGUN'])
  #waiting = this.#begun > 0

  onWatcherRerun(): void {
    this.#begun = Date.now()
    this.#waiting = true
  }

  onTestCaseReady(): void {
    if (!this.#waiting) return
    this.#waiting = false
    process.stdout.write(`the first test began after ${((Date.now() - this.#begun) / 1_000).toFixed(1)} s\n`)
  }

  onTestRunEnd(modules: readonly TestModule[]): void {
    if (modules.length < 2) return
    const files = modules.map((module) => ({
      project: module.project.name,
      file: module.relativeModuleId,
      ms: Math.round(timeOf(module)),
    }))
    const durations: Record<string, Record<string, number>> = {}
    for (const { project, file, ms } of files) durations[project] = { ...durations[project], [file]: ms }
    mkdirSync(dirname(KEPT), { recursive: true })
    writeFileSync(KEPT, JSON.stringify(durations))
    const slowest = files.sort((a, b) => b.ms - a.ms).slice(0, SHOWN)
    process.stdout.write(`\nThe slowest files:\n${slowest.map(line).join('')}\n`)
  }
}

const line = ({ project, file, ms }: { project: string; file: string; ms: number }): string =>
  `${(ms / 1_000).toFixed(1).padStart(7)} s  ${project.padEnd(9)} ${file}\n`

function timeOf(module: TestModule): number {
  const { environmentSetupDuration, prepareDuration, collectDuration, setupDuration, duration } =
    module.diagnostic()
  return environmentSetupDuration + prepareDuration + collectDuration + setupDuration + duration
}

export const keptDurations = (): Durations => JSON.parse(readFileSync(KEPT, 'utf8')) as Durations // written above
