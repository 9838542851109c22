// The metrics of a tenant and their Prometheus text format. Pure; approval-metrics-store.ts stores
// the counts.

import type { Approval } from '../../shared/wire/approvals.ts'
import type { ProvenWorker } from '../../shared/wire/workers.ts'

/** Upper bounds in seconds. An answer within two seconds was hardly read. */
const BOUNDS_S = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600, 14_400, 86_400] as const

/** One ended approval: `bucket` is the index of the first bound that is at least its wait. */
export type EndedApproval = { channel: string; outcome: string; bucket: number; wait_ms: number }
export type ApprovalMetrics = {
  /** By channel, outcome and bucket. */
  waits: readonly (Omit<EndedApproval, 'wait_ms'> & { n: number; total_ms: number })[]
  asks: readonly { agent: string; n: number }[]
}

/** Whether people were asked. An approval that standing answers settled alone does not count. */
export const asksPeople = ({ status, answers }: Approval): boolean =>
  (status !== 'approved' && status !== 'denied') ||
  answers.length === 0 ||
  answers.some(({ standing }) => standing === undefined)

/**
 * The time from the request to its end. `channel` is that of the last answer, or `none` if it
 * expired or was cancelled.
 */
export function measureWait(
  { status, answers, requested_at, expires_at }: Approval,
  now: number,
): EndedApproval {
  const answer =
    status === 'approved' || status === 'denied'
      ? answers.findLast(({ standing }) => standing === undefined)
      : undefined
  const wait_ms = Math.max(0, (answer?.at_ms ?? (status === 'expired' ? expires_at : now)) - requested_at)
  const bucket = BOUNDS_S.findIndex((bound) => wait_ms <= bound * 1_000)
  return {
    channel: answer?.channel ?? 'none',
    outcome: status,
    bucket: bucket < 0 ? BOUNDS_S.length : bucket,
    wait_ms,
  }
}

/** The content type of the text format of Prometheus. */
export const METRICS_TYPE = 'text/plain; version=0.0.4'

type Sample = readonly [name: string, labels: Readonly<Record<string, string>>, value: number]

function family(
  name: string,
  type: 'counter' | 'gauge' | 'histogram',
  help: string,
  samples: readonly Sample[],
): string {
  const lines = samples.map(([sample, labels, value]) => {
    const pairs = Object.entries(labels).map(
      ([label, text]) => `${label}="${text.replace(/[\\"]/g, '\\$&').replaceAll('\n', '\\n')}"`,
    )
    return `${sample}${pairs.length === 0 ? '' : `{${pairs.join(',')}}`} ${value}\n`
  })
  return `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${lines.join('')}`
}

/** Public metrics, without any names. */
export function openMetrics(ended: number, { waits, asks }: ApprovalMetrics): string {
  return [
    family('countersign_calls_ended_total', 'counter', "Calls that ended, by the tenant's log.", [
      ['countersign_calls_ended_total', {}, ended],
    ]),
    family('countersign_approvals_asked_total', 'counter', 'Approvals that people were asked for.', [
      ['countersign_approvals_asked_total', {}, asks.reduce((sum, { n }) => sum + n, 0)],
    ]),
    family(
      'countersign_approval_wait_seconds',
      'histogram',
      'Time from the request to its end, by outcome and by the channel of the answer that ended it.',
      histogram('countersign_approval_wait_seconds', waits),
    ),
  ].join('')
}

/** Metrics for operators. */
export const askMetrics = ({ asks }: ApprovalMetrics): string =>
  family(
    'countersign_agent_asks_total',
    'counter',
    'Approvals that people were asked for, by the agent that wanted them.',
    asks.map(({ agent, n }): Sample => ['countersign_agent_asks_total', { agent }, n]),
  )

/**
 * For operators: how many workers of each pool have proven each thing that a call may need. With
 * none, such calls wait and lapse.
 */
export function workerMetrics(workers: readonly ProvenWorker[], now: number): string {
  const active = workers.filter(({ status }) => status === 'active')
  const samples = [...Map.groupBy(active, ({ pool }) => pool)].flatMap(([pool, those]) => {
    const names = new Set(['B', 'C', 'egress', 'cgroups', ...those.flatMap(hasOf)])
    const has = (means: string): number => those.filter((worker) => hasOf(worker).includes(means)).length
    return [...names].map((means): Sample => ['countersign_workers', { pool, means }, has(means)])
  })
  const copied = active.filter(
    ({ doubled_at_ms }) => doubled_at_ms !== null && now - doubled_at_ms < DOUBLED_MS,
  )
  return [
    family('countersign_workers', 'gauge', 'Enrolled workers with a current proof of it, by pool.', samples),
    family(
      'countersign_workers_copied',
      'gauge',
      'Workers whose key two processes used at the same time, within the last hour.',
      [['countersign_workers_copied', {}, copied.length]],
    ),
  ].join('')
}

const DOUBLED_MS = 3_600_000

const hasOf = ({ means: { tiers, egress, cgroups, profiles } }: ProvenWorker): string[] => [
  ...tiers,
  ...(egress ? ['egress'] : []),
  ...(cgroups ? ['cgroups'] : []),
  ...profiles.map(({ name }) => `profile ${name}`),
]

function histogram(name: string, waits: ApprovalMetrics['waits']): Sample[] {
  const series = Map.groupBy(waits, ({ channel, outcome }) => `${channel} ${outcome}`)
  return [...series.values()].flatMap((rows): Sample[] => {
    const labels = { channel: rows[0]?.channel ?? '', outcome: rows[0]?.outcome ?? '' }
    const upTo = (bucket: number): number =>
      rows.reduce((sum, row) => sum + (row.bucket <= bucket ? row.n : 0), 0)
    const all = upTo(BOUNDS_S.length)
    const seconds = rows.reduce((sum, { total_ms }) => sum + total_ms, 0) / 1_000
    return [
      ...BOUNDS_S.map((bound, i): Sample => [`${name}_bucket`, { ...labels, le: String(bound) }, upTo(i)]),
      [`${name}_bucket`, { ...labels, le: '+Inf' }, all],
      [`${name}_sum`, labels, seconds],
      [`${name}_count`, labels, all],
    ]
  })
}
