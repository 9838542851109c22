// Matches hosts with the patterns of a plan's egress: for the proxy that opens connections, and for the check of a statement's.

export type Destination = { readonly host: string; readonly port: number }

/** A pattern without a port means the ports of the web. */
const WEB_PORTS: readonly number[] = [80, 443]
/** An address, as a URL parser writes it. */
const ADDRESS = /^[0-9.]+$|:/

/**
 * `host[:port]` is that host; `.suffix[:port]` is every name below it, not itself. Compared label by label (N07), never inside an
 * address.
 */
export function covers(pattern: string, { host, port }: Destination): boolean {
  const [name = '', only] = pattern.split(':')
  if (only === undefined ? !WEB_PORTS.includes(port) : Number(only) !== port) return false
  return name.startsWith('.')
    ? !ADDRESS.test(host) && host.endsWith(name) && host.length > name.length
    : host === name
}

export const isListed = (patterns: readonly string[], to: Destination): boolean =>
  patterns.some((pattern) => covers(pattern, to))
