// Owns host names of egress: the one parser of `host:port`, and the resolution to a checked address. The proxy connects to exactly the
// address that was checked (N05, N09). It opens no connection.

import { isIP } from 'node:net'
import { covers, type Destination } from '../../../shared/plan/egress-hosts.ts'
import type { Connection } from '../../../shared/plan/plan.ts'
import { err, ok, type Result } from '../../../shared/result.ts'
import { isPublic } from './public-address.ts'

export type Refused = Connection['verdict']

const HTTP_PORT = 80
/** No userinfo, escape, space, control byte or letter beyond ASCII gets as far as a URL parser (N05, N06). */
const AUTHORITY = /^(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})$/
const RESOLVE_WITHIN_MS = 5_000

/** Reads `host:port` as WHATWG does, so that every spelling of an IPv4 address becomes the dotted one before it is judged (N02). */
export function parseAuthority(text: string): Destination | undefined {
  const port = Number(AUTHORITY.exec(text)?.[1])
  const url = `http://${text.slice(0, text.lastIndexOf(':'))}/`
  if (!(port >= 1 && port <= 65_535) || !URL.canParse(url)) return undefined
  const host = new URL(url).hostname.replace(/^\[(.*)\]$/, '$1').replace(/\.$/, '')
  return host === '' ? undefined : { host, port }
}

export const authorityOf = ({ host, port }: Destination): string =>
  host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`

/** Whether it is listed for the web alone, where that is HTTP: bytes of any other kind would be for a port that the pattern names. */
export const isHttpAlone = (patterns: readonly string[], to: Destination): boolean =>
  to.port === HTTP_PORT && !patterns.some((pattern) => pattern.includes(':') && covers(pattern, to))

export type Resolve = (host: string) => Promise<readonly string[]>

/**
 * The addresses to connect to, and to no other (N09). All answers must be public: a name with one private answer is refused whole (N04).
 * `privateHosts` are the exact `host:port` that this worker's operator opens although they are inside.
 */
export async function checkedAddresses(
  to: Destination,
  privateHosts: ReadonlySet<string>,
  resolve: Resolve,
): Promise<Result<readonly string[], Refused>> {
  const answers = isIP(to.host) === 0 ? await answersFor(to.host, resolve) : [to.host]
  if (answers.length === 0) return err('unresolvable')
  return privateHosts.has(authorityOf(to)) || answers.every(isPublic) ? ok(answers) : err('address_refused')
}

/** None where there is no answer, an error, or none in time. */
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
