// `npm run bench`: starts its own stack, measures calls end to end next to the bare sandbox and
// plain HTTP, fills the store and measures again, and reports which targets are met. `--quick`
// gives a short look, `--new-runs` measures only calls in runs of their own, `--sealing` only what
// sealing makes of runs, `--evidence` only verification and the log, `--growth` only what stored calls
// cost (`--calls N`: how many, 100,000 by default), `--json FILE` writes output for machines. A missed
// target is reported, but is no error.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { pdeathsig } from '../../infra/child-process.ts'
import { userNamed, WORKER_USER } from '../../infra/packages.ts'
import { redisProgram } from '../../infra/redis.ts'
import { asWorker } from '../../infra/run-as-user.ts'
import { sayOnStderr } from '../../infra/setup.ts'
import { type Stack, startStack } from '../../infra/stack.ts'
import { ROOT } from '../../infra/state.ts'
import { isEdgePlan } from '../../shared/plan/plan.ts'
import { bearer, client } from '../../shared/routes/client.ts'
import { timeAnswers } from './answers.ts'
import { timeApprovals } from './approvals.ts'
import { timeDecisions } from './decisions.ts'
import { logFigures, logTables, timeLog } from './evidence/log.ts'
import {
  timeExports,
  timeVerification,
  verificationFigures,
  verificationTables,
} from './evidence/verification.ts'
import type { Spawns } from './floor.ts'
import { growthFigures, growthTables, timeGrowth } from './growth/growth.ts'
import type { Load } from './load.ts'
import { bundleBytes, load1, machine } from './machine.ts'
import { timeMcp } from './mcp.ts'
import { type Scale as NewRunsScale, newRunsFigures, newRunsTables, timeNewRuns } from './new-runs.ts'
import { Peer } from './peer.ts'
import { figuresOf, figuresTable, growthOf, type Name, REST_MS, type Results, reportOf } from './report.ts'
import { inRounds, type Subject } from './rounds.ts'
import { SEAL_AFTER_S, sealingFigures, sealingTables, timeSealing } from './sealing.ts'
import { type Scale as SkillScale, timeSkills } from './skills.ts'
import type { Extent, Slice } from './slice.ts'
import { CLIENTS, makeSubjects, type SubjectRequests, type Subjects } from './subjects.ts'
import { timeTraffic } from './traffic.ts'
import { timeWaiting } from './waiting.ts'

type Scale = {
  readonly rounds: number
  /**
   * At concurrency 1, before and after the store is filled; a count, so that the first measurement
   * stores little.
   */
  readonly alone: Extent
  readonly crowded: Extent
  readonly crowdedRounds: number
  /** Executed calls among the stored ones; they take time to make. */
  readonly executed: number
  /** Rounds of decisions inside the edge. */
  readonly decisions: number
  /** Calls that a human approves. */
  readonly answers: number
  /** Pages of the inbox, and updates of open consoles. */
  readonly approvals: { readonly extent: Extent; readonly updates: number }
  /** Rounds of traffic through the proxy of a call. */
  readonly traffic: number
  readonly mcp: { readonly rounds: number; readonly extent: Extent }
  readonly newRuns: NewRunsScale
  /** How long the processor time of waiting streams is measured. */
  readonly waiting_ms: number
  readonly skills: SkillScale
}
const FULL: Scale = {
  rounds: 8,
  alone: { ms: 2_000, count: 200 },
  crowded: { ms: 1_500, count: Infinity },
  crowdedRounds: 6,
  executed: 1_500,
  decisions: 300,
  answers: 100,
  approvals: { extent: { ms: 3_000, count: 300 }, updates: 20 },
  traffic: 5,
  mcp: { rounds: 8, extent: { ms: 2_000, count: 300 } },
  newRuns: {
    rounds: 8,
    alone: { ms: 2_000, count: 200 },
    crowded: { ms: 1_500, count: Number.MAX_SAFE_INTEGER },
    stored: 500,
  },
  waiting_ms: 20_000,
  skills: {
    rounds: 8,
    extent: { ms: 2_000, count: 200 },
    colds: 10,
    kernels: 60,
    burning: { ms: 10_000, count: 500 },
    crowd: 500,
  },
}
const QUICK: Scale = {
  rounds: 4,
  alone: { ms: 1_000, count: 80 },
  crowded: { ms: 700, count: Infinity },
  crowdedRounds: 2,
  executed: 300,
  decisions: 30,
  answers: 20,
  approvals: { extent: { ms: 1_000, count: 50 }, updates: 5 },
  traffic: 2,
  mcp: { rounds: 3, extent: { ms: 1_000, count: 80 } },
  newRuns: {
    rounds: 4,
    alone: { ms: 1_000, count: 80 },
    crowded: { ms: 1_000, count: Number.MAX_SAFE_INTEGER },
    stored: 200,
  },
  waiting_ms: 5_000,
  skills: {
    rounds: 3,
    extent: { ms: 1_000, count: 80 },
    colds: 5,
    kernels: 20,
    burning: { ms: 3_000, count: 100 },
    crowd: 100,
  },
}
const STORED = 10_000
const PATIENCE: Extent = { ms: 120_000, count: 0 }

const env = { PATH: '/usr/local/bin:/usr/bin:/bin', LANG: 'C.UTF-8' }
const node = (app: string, file: string): string[] =>
  pdeathsig([join(app, 'node_modules/.bin/node'), join(app, 'test/bench', file)])

async function bench(scale: Scale, stack: Stack): Promise<Results> {
  const subjects = await makeSubjects(stack.url, stack.operator)
  const { plan: example } = subjects.example
  const plan = example === undefined || isEdgePlan(example) ? undefined : example
  if (plan === undefined || subjects.example.state !== 'succeeded')
    throw new Error(`the first call did not succeed: ${JSON.stringify(subjects.example)}`)
  const user = userNamed(WORKER_USER) ?? { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 }
  const floor = new Peer<Spawns, Slice>(
    'floor',
    asWorker(user, { app: ROOT }, ({ app }) => node(app, 'floor.ts')),
    env,
  )
  const load = new Peer<Load, Slice>('load', node(ROOT, 'load.ts'), env)
  const port = Number(new URL(stack.url).port)
  const http = (name: Exclude<Name, 'floor' | Rested>): Subject<Name> => ({
    name,
    measure: (concurrency, extent) =>
      load.ask({ port, concurrency, extent: finite(extent), ...subjects[name] }),
  })
  const bare: Subject<Name> = {
    name: 'floor',
    measure: (concurrency, extent) => floor.ask({ plan, concurrency, extent: finite(extent) }),
  }
  const all = [
    bare,
    http('healthz'),
    http('denial'),
    http('dry_run'),
    http('dry_run_by_token'),
    http('tier_b'),
    http('tier_c'),
  ]
  const parts = { edge: stack.edge, worker: stack.worker, redis: stack.redis }
  const begun = load1()
  try {
    const warm = { rounds: 1, extent: { ms: 300, count: 50 } }
    for (const concurrency of [1, 8]) await inRounds(all, { ...warm, concurrency }, parts)
    sayOnStderr('measuring at concurrency 1')
    const alone = { rounds: scale.rounds, concurrency: 1, extent: scale.alone }
    const before = await inRounds(all, alone, parts)
    sayOnStderr('measuring with pauses between calls')
    const resting: Subject<Name>[] = [rested(bare, 'floor_rested'), rested(http('tier_c'), 'tier_c_rested')]
    const paced = await inRounds(resting, { ...alone, extent: { ...scale.alone, rest_ms: REST_MS } }, parts)
    sayOnStderr(`storing ${STORED} calls`)
    await fill(load, port, subjects, scale.executed)
    sayOnStderr('measuring at concurrency 1 again')
    const after = await inRounds(
      [...all, http('denial_in_full_run'), http('tier_c_in_full_run')],
      alone,
      parts,
    )
    const crowded = []
    for (const concurrency of [8, CLIENTS]) {
      sayOnStderr(`measuring at concurrency ${concurrency}`)
      crowded.push(
        ...(await inRounds(
          [...all, http('denial_in_full_run')],
          { rounds: scale.crowdedRounds, concurrency, extent: scale.crowded },
          parts,
        )),
      )
    }
    sayOnStderr('measuring from an answer to its execution')
    const answers = await timeAnswers(scale.answers, stack.operator, (key) => client(stack.url, bearer(key)))
    sayOnStderr('measuring the inbox with 10,000 waiting approvals')
    const approvals = await timeApprovals(stack, load, scale.approvals)
    sayOnStderr('measuring traffic through the proxy of a call')
    const traffic = await timeTraffic(scale.traffic, (host) =>
      asWorker(user, { app: ROOT }, ({ app }) => [...node(app, 'traffic-peer.ts'), host]),
    )
    sayOnStderr('measuring the MCP endpoint')
    const mcp = await timeMcp(stack, load, scale.mcp)
    sayOnStderr('measuring calls in runs of their own')
    const newRuns = await timeNewRuns(stack, load, subjects, scale.newRuns)
    sayOnStderr('measuring 1,000 waiting streams')
    const waiting = await timeWaiting(scale.waiting_ms)
    sayOnStderr('measuring skills')
    const skills = await timeSkills(stack, load, subjects, scale.skills)
    sayOnStderr('measuring decisions inside the edge')
    const decisions = await timeDecisions(scale.decisions)
    return {
      machine: machine(redisProgram(stack.state) ?? 'redis-server'),
      settings: settingsOf(
        scale,
        before.reduce((sum, { name, count }) => sum + (/^(?:denial|tier_)/.test(name) ? count : 0), 0),
        begun,
      ),
      rows: [...before, ...paced, ...crowded],
      approvals,
      decisions,
      answers,
      traffic,
      mcp,
      newRuns,
      waiting,
      skills,
      stored: STORED,
      growth: growthOf(before, after),
      bundle: bundleBytes(join(stack.state.edge, 'bundle')),
    }
  } finally {
    await floor.end()
    await load.end()
  }
}

/** Only calls in runs of their own, in a stack that stores nothing else. */
const benchNewRuns = (scale: Scale, stack: Stack): Promise<string> =>
  withLoad(async (load) => {
    const subjects = await makeSubjects(stack.url, stack.operator)
    const measured = await timeNewRuns(stack, load, subjects, scale.newRuns)
    return [...newRunsTables(measured), figuresTable(newRunsFigures(measured))].join('\n\n')
  })

/** Only what stored calls cost. It restarts the stack. */
const benchGrowth = (scale: Scale, calls: number): Promise<string> =>
  withLoad(async (load) => {
    const measured = await timeGrowth(state, load, calls, scale, sayOnStderr)
    return [...growthTables(measured), figuresTable(growthFigures(measured))].join('\n\n')
  })

async function withLoad(work: (load: Peer<Load, Slice>) => Promise<string>): Promise<string> {
  const load = new Peer<Load, Slice>('load', node(ROOT, 'load.ts'), env)
  try {
    return await work(load)
  } finally {
    await load.end()
  }
}

/** Only the verification of evidence and the log, without a stack. */
async function benchEvidence(isQuick: boolean): Promise<string> {
  const verification = timeVerification(isQuick ? 200 : 1_000, isQuick ? 2 : 5)
  const exported = await timeExports(isQuick ? 4_000 : 20_000)
  const log = await timeLog(isQuick ? 100_000 : 1_000_000)
  const figures = [...verificationFigures(verification), ...logFigures(log, exported)]
  return [...verificationTables(verification), ...logTables(log), figuresTable(figures)].join('\n\n')
}

/** Only sealing, in a stack that seals runs soon. */
async function benchSealing(isQuick: boolean, stack: Stack): Promise<string> {
  const measured = await timeSealing(stack, isQuick)
  return [...sealingTables(measured), figuresTable(sealingFigures(measured))].join('\n\n')
}

type Rested = 'floor_rested' | 'tier_c_rested'
/** Subjects for clients that pause between calls. */
const rested = ({ measure }: Subject<Name>, name: Rested): Subject<Name> => ({ name, measure })

/** JSON knows no infinity. */
const finite = ({ count, ...extent }: Extent): Extent => ({
  ...extent,
  count: Math.min(count, Number.MAX_SAFE_INTEGER),
})

/** Stores half of the calls in one run, half in all clients' runs. */
async function fill(
  load: Peer<Load, Slice>,
  port: number,
  subjects: Subjects,
  executed: number,
): Promise<void> {
  const store = async (sent: SubjectRequests, count: number): Promise<void> => {
    const { faults } = await load.ask({ port, concurrency: CLIENTS, extent: { ...PATIENCE, count }, ...sent })
    if (faults.length > 0) throw new Error(`the store could not be filled: ${faults.join('\n')}`)
  }
  const [run, denied] = [executed / 2, (STORED - executed) / 2]
  await store(subjects.denial_in_full_run, denied)
  await store(subjects.tier_c_in_full_run, run)
  await store(subjects.denial, denied)
  await store(subjects.tier_c, run)
}

const settingsOf = ({ rounds, crowdedRounds, executed }: Scale, few: number, load: number): string =>
  [
    `Each subject has its slice in each round: ${rounds} rounds at 1, ${crowdedRounds} at 8 and ${CLIENTS}. Numbers are medians over rounds; “best p50” is the best round’s.`,
    `${CLIENTS} runs, one for each client. At 1 the store ends with ${few} calls, then ${STORED} are added (${executed} of them executed; half of all in one run); 8 and ${CLIENTS} come after.`,
    `Worker: 8 calls at a time; its processor time excludes the process that starts sandboxes, and the sandboxes. Tools run \`true\`. The machine’s load before the run: ${load.toFixed(2)}.`,
  ].join('\n')

const { values } = parseArgs({
  options: {
    json: { type: 'string' },
    quick: { type: 'boolean', default: false },
    'new-runs': { type: 'boolean', default: false },
    sealing: { type: 'boolean', default: false },
    evidence: { type: 'boolean', default: false },
    growth: { type: 'boolean', default: false },
    calls: { type: 'string', default: '100000' },
  },
})
const calls = Number(values.calls)
if (!Number.isSafeInteger(calls) || calls < 100) {
  sayOnStderr('`--calls` takes a number from 100, for example `--calls 5000`')
  process.exit(1)
}
const state = mkdtempSync(join(tmpdir(), 'countersign-bench-'))
try {
  const scale = values.quick ? QUICK : FULL
  if (values.evidence) console.log(`\n${await benchEvidence(values.quick)}\n`)
  else if (values.growth) console.log(`\n${await benchGrowth(scale, calls)}\n`)
  else await measureOn(scale)
} finally {
  rmSync(state, { recursive: true, force: true })
}

async function measureOn(scale: Scale): Promise<void> {
  const started = await startStack({
    state,
    say: sayOnStderr,
    ...(values.sealing ? { sealAfterS: SEAL_AFTER_S } : {}),
  })
  if (!started.ok) {
    sayOnStderr(started.error)
    process.exitCode = 1
    return
  }
  try {
    if (values.sealing) return console.log(`\n${await benchSealing(values.quick, started.value)}\n`)
    if (values['new-runs']) return console.log(`\n${await benchNewRuns(scale, started.value)}\n`)
    const results = await bench(scale, started.value)
    console.log(`\n${reportOf(results)}\n`)
    if (values.json !== undefined) {
      writeFileSync(
        values.json,
        `${JSON.stringify({ at: new Date().toISOString(), ...results, figures: figuresOf(results) }, null, 2)}\n`,
      )
    }
  } finally {
    await started.value.stop()
  }
}
