// Owns the final report: the tables, and whether each target was met. Pure.

import type { Answers } from './answers.ts'
import { type Approvals, CONSOLES, WAITING } from './approvals.ts'
import type { DecisionName, Decisions } from './decisions.ts'
import type { Machine } from './machine.ts'
import { type Mcp, TOOLS } from './mcp.ts'
import { type NewRuns, newRunsFigures, newRunsTables } from './new-runs.ts'
import { type Row, rowOf } from './rounds.ts'
import { HOSTILE_LANES, type Skills, type WarmName } from './skills.ts'
import { type Figure, figure, ms, table } from './table.ts'
import { CONNECTIONS, type Traffic } from './traffic.ts'
import { STREAMS, type Waiting } from './waiting.ts'

/** Agents think between calls. Warm sandboxes start in these pauses. */
export const REST_MS = 30

export type Name =
  | 'floor'
  | 'healthz'
  | 'denial'
  | 'dry_run'
  | 'dry_run_by_token'
  | 'tier_b'
  | 'tier_c'
  | 'denial_in_full_run'
  | 'tier_c_in_full_run'
  | 'floor_rested'
  | 'tier_c_rested'

const TITLES: Readonly<Record<Name, string>> = {
  floor: 'floor: the same bwrap command',
  healthz: 'GET /healthz',
  denial: 'denied call',
  dry_run: 'allowed dry run',
  dry_run_by_token: 'allowed dry run, by a token in place of a key',
  tier_b: 'tier B call, end to end',
  tier_c: 'tier C call, end to end',
  denial_in_full_run: 'denied call, all clients in the full run',
  tier_c_in_full_run: 'tier C call, in the full run',
  floor_rested: `floor, ${REST_MS} ms after the previous`,
  tier_c_rested: `tier C call, ${REST_MS} ms after the previous`,
}
const DECISION_TITLES: Readonly<Record<DecisionName, string>> = {
  engine: 'floor: only the engine, 10 policies',
  of_10: 'allowed, 10 policies',
  of_1000: 'allowed, 1,000 policies of which 10 mention the tool',
  of_98_agents: 'allowed, 100 rules for all and one for each of 98 agents, in turn',
  denied_of_10: 'denied and explained, 10 policies',
  asked_before: 'the same decision again',
  checked_1000: 'a set of 1,000, checked strictly against 100 tools',
  set_of_1000: 'a set of 1,000, compiled once',
}

const WARM_TITLES: Readonly<Record<WarmName, string>> = {
  healthz: 'floor: GET /healthz',
  denial: 'floor: a denied call',
  small: 'a small skill, warm',
  javascript: 'a skill in JavaScript, warm',
}

type PageName = Exclude<keyof Approvals, 'update'>
const PAGE_TITLES: Readonly<Record<PageName, string>> = {
  empty: 'floor: the empty page',
  page: 'first page',
  last: 'last page',
  riskiest: 'riskiest first',
  filtered: 'filtered by agent and risk',
  listed: 'GET /v1/approvals, grouped',
}

export type Growth = {
  readonly name: Name
  readonly before: number
  readonly after: number
  readonly change: number
}
export type Results = {
  readonly machine: Machine
  readonly settings: string
  /** Measured with 1, 8 and 32 calls at a time. */
  readonly rows: readonly Row<Name>[]
  readonly approvals: Approvals
  readonly decisions: Decisions
  readonly answers: Answers
  readonly traffic: Traffic
  readonly mcp: Mcp
  readonly newRuns: NewRuns
  readonly waiting: Waiting
  readonly skills: Skills
  readonly stored: number
  readonly growth: readonly Growth[]
  readonly bundle: { readonly raw: number; readonly gzip: number }
}

const MiB = 1024 * 1024
const WANTED = {
  denied_p50_ms: 0.8,
  denied_per_s: 3_000,
  tier_c_floor: 1.3,
  tier_c_rested: 1.3,
  tier_c_share: 0.8,
  growth: 0.2,
  decision_us: 120,
  slicing: 2,
  checked_s: 2,
  answered_ms: 30,
  page_ms: 20,
  update_ms: 1_000,
  proxied_mb_s: 200,
  mcp_more_ms: 0.3,
  mcp_list_ms: 5,
  mcp_same_list_ms: 1,
  mcp_waiting_mib: 50,
  mcp_waiting_percent: 2,
  skill_warm_ms: 3,
  skill_cold_ms: 25,
  javascript_warm_ms: 8,
  javascript_cold_ms: 50,
  published_s: 3,
  metering: 1.5,
  crowd: 0.2,
  beside_ms: 250,
  bundle: 3 * MiB,
} as const
/** Calls that must not become slower as the store fills. */
const GROWING: readonly Name[] = ['denial', 'denial_in_full_run', 'tier_b', 'tier_c', 'tier_c_in_full_run']

const percent = (share: number): string => `${share >= 0 ? '+' : '−'}${Math.abs(share * 100).toFixed(0)} %`

export function growthOf(before: readonly Row<Name>[], after: readonly Row<Name>[]): Growth[] {
  return after.flatMap(({ name, p50 }) => {
    // The full run did not exist in the first measurement, so it is compared with the same call in
    // an empty run.
    const base =
      before.find((row) => row.name === name) ?? before.find((row) => `${row.name}_in_full_run` === name)
    return base === undefined ? [] : [{ name, before: base.p50, after: p50, change: p50 / base.p50 - 1 }]
  })
}

export function figuresOf({
  rows,
  growth,
  approvals,
  decisions,
  answers: { answered },
  traffic,
  mcp,
  newRuns,
  waiting,
  skills,
  bundle,
  stored,
}: Results): Figure[] {
  const at = (name: Name, concurrency: number): Row<Name> => rowOf(rows, name, concurrency)
  const denied = at('denial', 1).p50
  const rate = at('denial', 32).per_s
  const ratio = at('tier_c', 1).p50 / at('floor', 1).p50
  const rested = at('tier_c_rested', 1).p50 / at('floor_rested', 1).p50
  const share = at('tier_c', 8).per_s / at('floor', 8).per_s
  const worst = Math.max(...growth.filter(({ name }) => GROWING.includes(name)).map(({ change }) => change))
  const sliced = decisions.of_1000 / decisions.of_10
  return [
    figure(
      'denied call, p50 at 1',
      `≤ ${WANTED.denied_p50_ms} ms`,
      `${ms(denied)} ms`,
      denied <= WANTED.denied_p50_ms,
    ),
    figure(
      'denied calls at 32',
      `≥ ${WANTED.denied_per_s}/s`,
      `${rate.toFixed(0)}/s`,
      rate >= WANTED.denied_per_s,
    ),
    figure(
      `tier C, ${REST_MS} ms after the previous, p50`,
      `≤ ${WANTED.tier_c_rested} × the floor`,
      `${rested.toFixed(2)} ×`,
      rested <= WANTED.tier_c_rested,
    ),
    figure(
      'tier C, one after another, p50',
      `≤ ${WANTED.tier_c_floor} × the floor`,
      `${ratio.toFixed(2)} ×`,
      ratio <= WANTED.tier_c_floor,
    ),
    figure(
      'tier C, throughput at 8',
      `≥ ${WANTED.tier_c_share * 100} % of the floor`,
      `${(share * 100).toFixed(0)} %`,
      share >= WANTED.tier_c_share,
    ),
    figure(
      `p50 with ${stored} calls stored`,
      `within ${WANTED.growth * 100} %`,
      `${percent(worst)} at worst`,
      worst <= WANTED.growth,
    ),
    figure(
      'yes → execution begins, tier C, p50',
      `≤ ${WANTED.answered_ms} ms`,
      `${ms(answered.p50)} ms`,
      answered.p50 <= WANTED.answered_ms,
    ),
    figure(
      'decision with 10 policies, p50',
      `≤ ${WANTED.decision_us} µs`,
      `${decisions.of_10.toFixed(0)} µs`,
      decisions.of_10 <= WANTED.decision_us,
    ),
    figure(
      'denied and explained with 10, p50',
      `≤ ${WANTED.decision_us} µs`,
      `${decisions.denied_of_10.toFixed(0)} µs`,
      decisions.denied_of_10 <= WANTED.decision_us,
    ),
    figure(
      'with 1,000, 10 of which mention the tool',
      `≤ ${WANTED.slicing} × with 10`,
      `${sliced.toFixed(2)} ×`,
      sliced <= WANTED.slicing,
    ),
    figure(
      '1,000 policies validated',
      `≤ ${WANTED.checked_s} s`,
      `${(decisions.checked_1000 / 1e6).toFixed(2)} s`,
      decisions.checked_1000 <= WANTED.checked_s * 1e6,
    ),
    figure(
      `inbox, first page of ${WAITING}, p50`,
      `≤ ${WANTED.page_ms} ms`,
      `${ms(approvals.page)} ms`,
      approvals.page <= WANTED.page_ms,
    ),
    figure(
      `${CONSOLES} open consoles show a new approval`,
      `≤ ${WANTED.update_ms} ms`,
      `${ms(approvals.update.worst)} ms at worst`,
      approvals.update.worst <= WANTED.update_ms,
    ),
    figure(
      'through one CONNECT',
      `≥ ${WANTED.proxied_mb_s} MB/s`,
      `${(traffic.bulk.proxied / 1e6).toFixed(0)} MB/s`,
      traffic.bulk.proxied >= WANTED.proxied_mb_s * 1e6,
    ),
    figure(
      `${CONNECTIONS} connections of one call`,
      'all answered',
      `${traffic.answered}`,
      traffic.answered === CONNECTIONS,
    ),
    ...newRunsFigures(newRuns),
    ...mcpFigures(mcp),
    ...waitingFigures(waiting),
    ...skillFigures(skills),
    figure(
      'edge bundle, gzip',
      '≤ 3 MiB',
      `${(bundle.gzip / MiB).toFixed(2)} MiB`,
      bundle.gzip <= WANTED.bundle,
    ),
  ]
}

function skillFigures({ rows, cold, published, kernels, crowd, beside }: Skills): Figure[] {
  const warm = (name: WarmName): number => rows.find((row) => row.name === name)?.p50 ?? Number.NaN
  const within = (what: string, value: number, most: number): Figure =>
    figure(what, `≤ ${most} ms`, `${ms(value)} ms`, value <= most)
  const dearest = Math.max(
    ...kernels.filter(({ counts }) => counts).map(({ plain, paying }) => paying / plain),
  )
  const sums = kernels.map((kernel) => kernel.sums)
  const change = crowd.many / crowd.few - 1
  const worst = Math.max(beside.denial.burning, beside.small.burning)
  return [
    within('small skill, warm, p50', warm('small'), WANTED.skill_warm_ms),
    within('small skill, cold, p50', cold.small, WANTED.skill_cold_ms),
    within('skill in JavaScript, warm, p50', warm('javascript'), WANTED.javascript_warm_ms),
    within('skill in JavaScript, cold, p50', cold.javascript, WANTED.javascript_cold_ms),
    figure(
      `${(published.bytes / 1e6).toFixed(1)} MB published`,
      `≤ ${WANTED.published_s} s`,
      `${(published.ms / 1e3).toFixed(2)} s`,
      published.ms <= WANTED.published_s * 1e3,
    ),
    figure(
      'metered kernels',
      `≤ ${WANTED.metering} × unmetered`,
      `${dearest.toFixed(2)} × at worst`,
      dearest <= WANTED.metering,
    ),
    figure(
      'fuel of each run of a kernel',
      'the same',
      sums.every((count) => count === 1) ? 'the same' : `${Math.max(...sums)} different`,
      sums.every((count) => count === 1),
    ),
    figure(
      `warm p50 with ${crowd.size} skills`,
      `within ${WANTED.crowd * 100} %`,
      percent(change),
      change <= WANTED.crowd,
    ),
    within(`p95 while ${HOSTILE_LANES} hostile calls burn`, worst, WANTED.beside_ms),
  ]
}

export function reportOf(results: Results): string {
  const {
    machine,
    settings,
    rows,
    growth,
    approvals,
    decisions,
    answers,
    traffic,
    mcp,
    newRuns,
    waiting,
    skills,
    stored,
  } = results
  const description = Object.entries(machine).map(([name, value]) => `${name} ${value}`)
  const tables = [...new Set(rows.map(({ concurrency }) => concurrency))].map((concurrency) =>
    tableAt(concurrency, rows),
  )
  const grown = growth.map(({ name, before, after, change }) => [
    TITLES[name],
    ms(before),
    ms(after),
    percent(change),
  ])
  const begun = [
    ['floor: proposal of an allowed call', ms(answers.allowed.p50), ms(answers.allowed.p95)],
    ['an operator’s yes', ms(answers.answered.p50), ms(answers.answered.p95)],
  ]
  // Decisions are listed in the order of the titles.
  const decided = (Object.keys(DECISION_TITLES) as DecisionName[]).map((name) => [
    DECISION_TITLES[name],
    decisions[name].toFixed(0),
  ])
  const inbox = (Object.keys(PAGE_TITLES) as PageName[]).map((name) => [
    PAGE_TITLES[name],
    ms(approvals[name]),
  ]) // in the order of the titles
  const { p50, worst } = approvals.update
  return [
    description.join(' · '),
    settings,
    ...tables,
    `p50 at 1 with few and with ${stored} calls stored, ms\n${table(['', 'few', `${stored}`, 'change'], grown)}`,
    `from the answer or proposal until execution begins, tier C, idle worker\n${table(['', 'p50 ms', 'p95 ms'], begun)}`,
    `the inbox with ${WAITING} waiting approvals\n${table(['', 'p50 ms'], inbox)}\n  ${CONSOLES} open consoles show a new approval after ${ms(p50)} ms, ${ms(worst)} at worst`,
    `one curl, from the host and from a sandbox through its proxy\n${table(['', 'direct', 'proxied', 'ratio'], trafficRows(traffic))}`,
    ...newRunsTables(newRuns),
    mcpTable(mcp),
    waitingTable(waiting),
    ...skillTables(skills),
    `decisions inside the edge, processor time\n${table(['', 'p50 µs'], decided)}`,
    figuresTable(figuresOf(results)),
  ].join('\n\n')
}

export const figuresTable = (figures: readonly Figure[]): string =>
  `figures\n${table(
    ['', '', 'target', 'measured'],
    figures.map(({ what, wanted, got, met }) => [met ? 'met' : 'MISSED', what, wanted, got]),
  )}`

function mcpTable({ denied, list }: Mcp): string {
  const rows = [
    ['denied call over HTTP, over MCP', ms(denied.http), ms(denied.mcp)],
    [`list of ${TOOLS} tools, unchanged, after a change`, ms(list.unchanged), ms(list.changed)],
  ]
  return `the MCP endpoint\n${table(['', 'p50 ms', 'p50 ms'], rows)}`
}

const atMost = (what: string, value: number, wanted: number, unit: string): Figure =>
  figure(what, `≤ ${wanted} ${unit}`, `${value.toFixed(2)} ${unit}`, value <= wanted)

const mcpFigures = ({ denied, list }: Mcp): Figure[] => [
  atMost('tools/call over MCP instead of HTTP, p50', denied.mcp - denied.http, WANTED.mcp_more_ms, 'ms'),
  atMost(`tools/list of ${TOOLS} tools after a change`, list.changed, WANTED.mcp_list_ms, 'ms'),
  atMost('the same list again', list.unchanged, WANTED.mcp_same_list_ms, 'ms'),
]

/** Each subject beside its floor: what workerd itself takes for the same streams. */
function waitingTable({ floors: { plain, message, object }, shared, apart }: Waiting): string {
  const rows = (
    [
      ['floor: a Worker that only holds streams', plain, plain],
      ['floor: and a message to an object for each', message, plain],
      ['floor: and a row in an object of its own for each', object, plain],
      ['MCP clients that wait for approvals, in their agent’s run of the day', shared, plain],
      ['MCP clients that wait for approvals, with a session each', apart, object],
    ] as const
  ).map(([what, { mib, percentOfCore }, floor]) => [
    what,
    mib.toFixed(0),
    (mib / floor.mib).toFixed(2),
    percentOfCore?.toFixed(1) ?? '',
  ])
  return `${STREAMS} waiting streams\n${table(['', 'MiB', '× floor', '% of a core'], rows)}`
}

const waitingFigures = ({ shared }: Waiting): Figure[] => [
  atMost(`${STREAMS} waiting streams, memory`, shared.mib, WANTED.mcp_waiting_mib, 'MiB'),
  atMost(
    `${STREAMS} waiting streams, processor`,
    shared.percentOfCore ?? Number.NaN,
    WANTED.mcp_waiting_percent,
    '%',
  ),
]

function skillTables({ rows, cold, published, kernels, crowd, beside }: Skills): string[] {
  const warm = rows.map(({ name, p50, p95, best_p50, spent }) => [
    WARM_TITLES[name],
    ...[p50, p95, best_p50].map(ms),
    spent.edge.toFixed(2),
  ])
  const first = [
    ['a small skill, cold', ms(cold.small)],
    ['a skill in JavaScript, cold', ms(cold.javascript)],
    [`${published.bytes} bytes published`, ms(published.ms)],
    ['a small skill, warm, with few others', ms(crowd.few)],
    [`with ${crowd.size} others`, ms(crowd.many)],
  ]
  const metered = kernels.map(({ name, plain, paying, fuel }) => [
    name,
    ms(plain),
    ms(paying),
    (paying / plain).toFixed(2),
    `${fuel}`,
  ])
  const others = (['denial', 'small'] as const).map((name) => {
    const { quiet, burning, worst } = beside[name]
    return [WARM_TITLES[name], ms(quiet), ms(burning), worst]
  })
  return [
    `skills at concurrency 1\n${table(['', 'p50 ms', 'p95 ms', 'best p50', 'edge cpu ms'], warm)}`,
    `skills, p50\n${table(['', 'ms'], first)}`,
    `cost of metering\n${table(['', 'unmetered ms', 'metered ms', '×', 'fuel'], metered)}`,
    `p95 while ${HOSTILE_LANES} calls of a hostile skill repeatedly burn all their fuel, time or memory\n${table(['', 'quiet ms', 'burning ms', 'a skill that'], others)}`,
  ]
}

const trafficRows = ({ bulk, many }: Traffic): string[][] => [
  [
    '1 GiB through one connection, MB/s',
    ...[bulk.direct, bulk.proxied].map((value) => (value / 1e6).toFixed(0)),
    (bulk.proxied / bulk.direct).toFixed(2),
  ],
  [
    `${CONNECTIONS} connections, 50 at a time, ms`,
    many.direct.toFixed(0),
    many.proxied.toFixed(0),
    (many.proxied / many.direct).toFixed(2),
  ],
]

function tableAt(concurrency: number, all: readonly Row<Name>[]): string {
  const rows = all.filter((row) => row.concurrency === concurrency)
  const floor = rows.find(({ name }) => name === 'floor')
  const heads = [
    '',
    'p50 ms',
    'p95 ms',
    'p99 ms',
    'per s',
    '× floor p50',
    '% floor rate',
    'best p50',
    'edge cpu ms',
    'worker cpu ms',
    'redis cpu ms',
  ]
  const cells = rows.map(({ name, p50, p95, p99, per_s, best_p50, spent }) => [
    TITLES[name],
    ...[p50, p95, p99].map(ms),
    per_s.toFixed(0),
    floor === undefined ? '' : (p50 / floor.p50).toFixed(2),
    floor === undefined ? '' : ((per_s / floor.per_s) * 100).toFixed(0),
    ms(best_p50),
    ...[spent.edge, spent.worker, spent.redis].map((value) => value.toFixed(2)),
  ])
  return `concurrency ${concurrency}\n${table(heads, cells)}`
}
