// `npm run test:durations`: takes the times of the last run's files into test/durations.json, by which later runs order and deal out the
// files (infra/testing/order.ts). A file that did not run keeps its time; one that is gone loses it. Commit the result after `npm test` on a
// quiet machine.

import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from '../state.ts'
import { DURATIONS, type Durations, readDurations } from './order.ts'
import { keptDurations } from './report.ts'

const [before, last] = [readDurations(ROOT), keptDurations()]
const projects = [...new Set([...Object.keys(before), ...Object.keys(last)])].sort()
const durations: Durations = Object.fromEntries(
  projects.map((project) => {
    const files = Object.entries({ ...before[project], ...last[project] }).filter(([file]) =>
      existsSync(join(ROOT, file)),
    )
    return [
      project,
      Object.fromEntries(files.sort(([a], [b]) => (a < b ? -1 : 1)).map(([file, ms]) => [file, rounded(ms)])),
    ]
  }),
)
writeFileSync(join(ROOT, DURATIONS), `${JSON.stringify(durations, null, 2)}\n`)

/** To two digits, so that a new run changes few lines. */
function rounded(ms: number): number {
  return Number(ms.toPrecision(2))
}
