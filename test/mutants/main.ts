// `npm run mutants`: breaks each line of the list, one at a time, in a copy of the tree, and runs
// the tests that must fail. It exits with 1 if a broken line makes no test fail. `npm run mutants
// -- PATTERN` takes the files whose path matches the expression.

import { chmodSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { installForTests } from '../../infra/packages.ts'
import { sayOnStderr as say } from '../../infra/setup.ts'
import { ROOT } from '../../infra/state.ts'
import { fail } from '../../infra/terminal.ts'
import { type Copy, copyTree } from './copy.ts'
import { laneOf } from './lanes.ts'
import { MUTANTS } from './list.ts'
import { lineAt, type Mutant, spanOf } from './mutant.ts'
import { judge, type Tests, type Verdict } from './verdict.ts'

/** Runs are parallel, each in its own copy. */
const LANES = 2
/** The slowest tests of a mutant take a minute on two busy cores. */
const LIMIT_MS = 5 * 60_000
/** For all tests together, before anything is broken. */
const GREEN_MS = 20 * 60_000

const [pattern = ''] = process.argv.slice(2)
const wanted = MUTANTS.filter(({ file }) => new RegExp(pattern).test(file))
if (wanted.length === 0) fail(say, `no file of the list matches \`${pattern}\`; test/mutants has the list`)
const ready = installForTests(say)
if (!ready.ok) fail(say, ready.error)

const began = performance.now()
const folder = mkdtempSync(join(tmpdir(), 'csm-'))
chmodSync(folder, 0o755) // the worker's user runs programs of the tree
const stopping = new AbortController()
process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => stopping.abort())
const copies = Array.from({ length: LANES }, (_, lane) => copyTree(join(folder, String(lane))))

/** Runs `work` for each item. Starts nothing more after a signal. */
async function each<T extends Tests>(
  all: readonly T[],
  work: (one: T, copy: Copy) => Promise<void>,
): Promise<void> {
  const { alone = [], withStack = [], without = [] } = Object.groupBy(all, laneOf)
  const inLane = async (copy: Copy, lane: number): Promise<void> => {
    const [first, second] = lane === 0 ? [withStack, without] : [without, withStack]
    const next = (): T | undefined => first.shift() ?? second.shift()
    for (let one = next(); one !== undefined && !stopping.signal.aborted; one = next()) await work(one, copy)
  }
  await Promise.all(copies.map(inLane))
  const [copy] = copies
  for (const one of alone) if (copy !== undefined && !stopping.signal.aborted) await work(one, copy)
  if (stopping.signal.aborted) process.exit(130)
}

const seconds = (ms: number): string => `${(ms / 1000).toFixed(1)} s`
const since = (moment: number): string => seconds(performance.now() - moment)

// Groups the tests into at most six runs: whole files or chosen titles, of each kind of lane.
const kinds = Map.groupBy(wanted, (mutant) => `${laneOf(mutant)} ${mutant.titled === undefined}`)
const unbroken = [...kinds.values()].map((mutants): Tests => {
  const titles = mutants.flatMap(({ titled }) => titled ?? [])
  return {
    tests: [...new Set(mutants.flatMap(({ tests }) => tests))],
    ...(titles.length === 0 ? {} : { titled: titles.join('|') }),
  }
})
await each(unbroken, async (tests, copy) => {
  const verdict = await judge(copy, tests, GREEN_MS, stopping.signal)
  if (verdict.kind === 'survived' || stopping.signal.aborted) return
  stopping.abort()
  fail(say, `a test fails without any mutant; fix it first: ${told(verdict)}`)
})
say(`all tests of the list pass without a mutant, after ${since(began)}`)

const counts: Record<Verdict['kind'], number> = { killed: 0, late: 0, survived: 0, broken: 0 }
await each(wanted, async (mutant: Mutant, copy) => {
  const moment = performance.now()
  const verdict = await copy.withMutant(mutant, () => judge(copy, mutant, LIMIT_MS, stopping.signal))
  if (stopping.signal.aborted) return
  counts[verdict.kind] += 1
  const source = readFileSync(join(ROOT, mutant.file), 'utf8')
  const place = `${mutant.file}:${lineAt(source, spanOf(mutant, source)?.at ?? 0)}`
  console.log(`${place.padEnd(44)} ${since(moment).padStart(7)}  ${told(verdict)}`)
  if (verdict.kind === 'survived')
    console.log(`    \`${mutant.text}\` became \`${mutant.becomes}\`. ${mutant.gains}`)
})
const { killed, late, survived, broken } = counts
console.log(
  `${wanted.length} mutants: ${killed} killed by a test, ${late} by the time limit, ${survived} survived, ${broken} not judged; ${since(began)}`,
)
process.exit(survived + broken === 0 ? 0 : 1)

function told(verdict: Verdict): string {
  switch (verdict.kind) {
    case 'killed':
      return `killed: ${verdict.by}`
    case 'late':
      return 'killed: its tests did not end in time'
    case 'survived':
      return 'SURVIVED'
    case 'broken':
      return `NOT JUDGED: ${verdict.why}`
  }
}
