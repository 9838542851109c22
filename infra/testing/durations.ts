// `npm run test:durations`: copies the durations of the last run into test/durations.json, by which
// later runs order the files and distribute them over shards (infra/testing/order.ts). A file that
// did not run keeps its duration; a deleted file is dropped. Commit the result after `npm test` on
// a quiet machine.

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

/** Rounds to two digits, so that a new run changes few lines. */
function rounded(ms: number): number {
  return Number(ms.toPrecision(2))
}
