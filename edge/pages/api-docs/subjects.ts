// The groups of operations on the page: by the part of the path that says what they are about.

import { ROUTES } from '../../../shared/routes/all.ts'
import type { Route } from '../../../shared/routes/route.ts'
import { isDescribed } from '../../http/openapi/document.ts'

export type Operation = { readonly name: string; readonly route: Route }
export type Subject = {
  readonly id: string
  readonly title: string
  readonly operations: readonly Operation[]
}

const TITLES: Readonly<Record<string, string>> = {
  calls: 'Calls',
  runs: 'Runs',
  tools: 'Tools',
  decisions: 'Decisions',
  approvals: 'Approvals',
  standing: 'Standing answers',
  sessions: 'Sessions',
  agents: 'Agents',
  operators: 'Operators',
  secrets: 'Secrets',
  policies: 'Policies',
  channels: 'Channels',
  delegations: 'Delegations',
  skills: 'Skills',
  publishers: 'Publishers of skills',
  workers: 'Workers',
  log: 'Log and keys',
  metrics: 'Metrics and health',
  tenants: 'Tenants',
}

/** Operations whose path begins with another subject's name. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  proposeCall: 'calls',
  readCall: 'calls',
  followCall: 'calls',
  readFile: 'calls',
  readAttestation: 'calls',
  readSnapshot: 'calls',
  explainCall: 'calls',
  cancelCall: 'calls',
  keys: 'log',
  attestationFormat: 'log',
  evidenceSchema: 'log',
  openapi: 'metrics',
  healthz: 'metrics',
  readyz: 'metrics',
  readInstallationJournal: 'tenants',
}

const all = Object.entries(ROUTES as Record<string, Route>).map(([name, route]) => ({ name, route }))

const subjectOf = ({ name, route }: Operation): string =>
  ELSEWHERE[name] ?? route.path.replace(/^\/v1\//, '/').split('/')[1] ?? ''

const described = Map.groupBy(
  all.filter(({ route }) => isDescribed(route)),
  subjectOf,
)

/** In the order of the titles; a subject without a title comes last, under its own name. */
export const SUBJECTS: readonly Subject[] = [
  ...new Set([...Object.keys(TITLES), ...described.keys()]),
].flatMap((id) => {
  const operations = described.get(id)
  return operations === undefined ? [] : [{ id, title: TITLES[id] ?? id, operations }]
})

/** Routes that no client calls with a key: pages, and the protocols of workers and of Slack. */
export const OTHERS: readonly Operation[] = all.filter(({ route }) => !isDescribed(route))
