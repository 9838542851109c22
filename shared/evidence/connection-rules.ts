// Rules about the connections of an execution, compared with the hosts and limits of its plan. Pure.

import { DEFAULT_LIMITS } from '../limits.ts'
import { isListed } from '../plan/egress-hosts.ts'
import type { Connection, Plan } from '../plan/plan.ts'
import { isEdgePlan, MAX_LISTED_CONNECTIONS, MAX_SUMMED_CONNECTIONS } from '../plan/plan.ts'
import { below, type Context, type Contradiction } from './checks.ts'
import type { Execution } from './statement.ts'

export function* connectionFaults(
  { connections, limits }: Pick<Execution, 'connections' | 'limits'>,
  { plan, ran }: Context,
): Generator<Contradiction> {
  const proxied = plan !== null && (isEdgePlan(plan) || (plan.tier === 'C' && plan.egress.hosts.length > 0))
  if (connections.length > 0 && !(ran && proxied)) return yield { at: '', what: 'connections' }
  const allowed = connections
    .filter(({ verdict }) => verdict === 'allowed')
    .reduce((sum, { folded = 1 }) => sum + folded, 0)
  if (allowed > mostOf('net_connections', plan?.limits, plan)) yield { at: '', what: 'limits' }
  // The connection that exceeds the limit of bytes is ended, with a verdict that says so.
  const capped = connections.filter(({ verdict }) => verdict === 'cap')
  if (bytesOf(connections) > mostOf('net_bytes', limits, plan) && bytesOf(capped) === 0)
    yield { at: '', what: 'limits' }
  for (const [i, one] of connections.entries()) yield* below(`/${i}`, connected(one, i, plan))
}

type NetworkLimits = {
  readonly net_bytes?: number | undefined
  readonly net_connections?: number | undefined
}

/** A skill without this limit makes no requests; the plan of a process may be older than the limit. */
const mostOf = (name: keyof NetworkLimits, limits: NetworkLimits | undefined, plan: Plan | null): number =>
  limits?.[name] ?? (plan?.tier === 'A' ? 0 : DEFAULT_LIMITS[name])

const bytesOf = (connections: readonly Connection[]): number =>
  connections.reduce((sum, { bytes_in, bytes_out }) => sum + bytes_in + bytes_out, 0)

/**
 * Verdicts that the proxy gives after its check of the host list, and verdicts without a
 * connection.
 */
const LISTED: readonly string[] = [
  'allowed',
  'address_refused',
  'unresolvable',
  'sni_mismatch',
  'failed',
] satisfies Connection['verdict'][]
const UNCONNECTED: readonly string[] = [
  'host_not_listed',
  'address_refused',
  'unresolvable',
  'malformed',
  'unknown_client',
] satisfies Connection['verdict'][]
/** Connections before the last sums, which name no host. */
const NAMED = MAX_LISTED_CONNECTIONS + MAX_SUMMED_CONNECTIONS

/** A host may contain the mask of a secret, but never in the part that the plan names (`maskedHost`). */
function* connected(one: Connection, i: number, plan: Plan | null): Generator<Contradiction> {
  const { host, port, verdict, folded, credentials = [], address, bytes_in, bytes_out } = one
  if (folded !== undefined && i < MAX_LISTED_CONNECTIONS && verdict !== 'unknown_client')
    yield { at: '/folded', what: 'connections' }
  const isNameless = folded !== undefined && host === '' && port === 0 && i >= NAMED
  const listed = isListed(plan?.egress.hosts ?? [], { host, port })
  if (!isNameless && ((LISTED.includes(verdict) && !listed) || (verdict === 'host_not_listed' && listed)))
    yield { at: '', what: 'connections' }
  if (UNCONNECTED.includes(verdict) && (address !== '' || bytes_in + bytes_out > 0))
    yield { at: '', what: 'connections' }
  // The edge can't see the addresses of its own requests.
  if (plan !== null && isEdgePlan(plan) && address !== '') yield { at: '/address', what: 'connections' }
  const added = plan?.credentials ?? []
  if (
    !credentials.every((name) =>
      added.some((known) => known.secret === name && known.host === `${host}:${port}`),
    )
  )
    yield { at: '/credentials', what: 'connections' }
}
