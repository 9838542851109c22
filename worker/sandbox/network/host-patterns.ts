// Owns host names of egress: the only parser of `host:port`, and the resolution of a name to
// addresses that were checked. The proxy connects to exactly such an address (N05, N09).

import { isIP } from 'node:net'
import { type Destination, matchesHost } from '../../../shared/plan/egress-hosts.ts'
import type { Connection } from '../../../shared/plan/plan.ts'
import { err, ok, type Result } from '../../../shared/result.ts'
import { isPublic } from './public-address.ts'

export type ConnectionVerdict = Connection['verdict']

const HTTP_PORT = 80
/**
 * Keeps userinfo, escapes, spaces, control bytes and non-ASCII letters from the URL parser (N05,
 * N06).
 */
const AUTHORITY = /^(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})$/
const RESOLVE_WITHIN_MS = 5_000

/**
 * Parses `host:port` as WHATWG does, so that every spelling of an IPv4 address becomes the dotted
 * one before it is checked (N02).
 */
export function parseAuthority(text: string): Destination | undefined {
  const port = Number(AUTHORITY.exec(text)?.[1])
  const url = `http://${text.slice(0, text.lastIndexOf(':'))}/`
  if (!(port >= 1 && port <= 65_535) || !URL.canParse(url)) return undefined
  const host = new URL(url).hostname.replace(/^\[(.*)\]$/, '$1').replace(/\.$/, '')
  return host === '' ? undefined : { host, port }
}

export const authorityOf = ({ host, port }: Destination): string =>
  host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`

/**
 * Whether `to` may carry HTTP only: port 80 of a host whose patterns name no port. A pattern that
 * names port 80 allows any protocol there.
 */
export const isHttpAlone = (patterns: readonly string[], to: Destination): boolean =>
  to.port === HTTP_PORT && !patterns.some((pattern) => pattern.includes(':') && matchesHost(pattern, to))

export type Resolve = (host: string) => Promise<readonly string[]>

/**
 * The only addresses to connect to (N09). All answers must be public: one private answer refuses
 * the name (N04). `privateHosts` are the exact `host:port` that this worker's operator allows
 * although their addresses are private.
 */
export async function checkedAddresses(
  to: Destination,
  privateHosts: ReadonlySet<string>,
  resolve: Resolve,
): Promise<Result<readonly string[], ConnectionVerdict>> {
  const answers = isIP(to.host) === 0 ? await answersFor(to.host, resolve) : [to.host]
  if (answers.length === 0) return err('unresolvable')
  return privateHosts.has(authorityOf(to)) || answers.every(isPublic) ? ok(answers) : err('address_refused')
}

/** Empty if there is no answer, an error, or no answer in time. */
async function answersFor(host: string, resolve: Resolve): Promise<readonly string[]> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<readonly string[]>((settle) => {
    timer = setTimeout(settle, RESOLVE_WITHIN_MS, [])
  })
  try {
    return await Promise.race([resolve(host), late])
  } catch {
    return []
  } finally {
    clearTimeout(timer)
  }
}
