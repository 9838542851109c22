// Outbound requests (N14): the addresses that may be requested, and the network that they go through. Callers check an address when it is
// stored and again before each request. The address that a name resolves to is checked by the network when it connects: infra/workerd.ts
// allows it no private address, and Cloudflare has none.

/** Names that mean something inside of a network alone. */
const INSIDE =
  /(?:^|\.)(?:localhost|local|localdomain|internal|intranet|private|corp|lan|home|home\.arpa|arpa|onion|invalid)$/

/** At least two labels, none of them empty: `localhost..` passes a check that looks only for a dot. */
const NAMED = /^(?:[a-z0-9_-]{1,63}\.)+[a-z0-9-]{1,63}$/

/** The reason why no request can ever reach a host pattern of a manifest; undefined where one can. */
export const faultInPattern = (pattern: string): string | undefined =>
  faultInAddress(`https://${pattern.startsWith('.') ? `any${pattern}` : pattern}`, false)

/** Why nothing may be sent there, or nothing. The parser has turned every notation of an IPv4 address into one. */
export function faultInAddress(text: string, loopback: boolean): string | undefined {
  if (!URL.canParse(text)) return 'the address is not a URL'
  const url = new URL(text)
  if (url.username !== '' || url.password !== '') return 'the address holds credentials'
  if (url.hash !== '') return 'the address has a fragment'
  if (loopback && url.protocol === 'http:' && url.hostname === '127.0.0.1') return undefined
  if (url.protocol !== 'https:') return 'the address is not `https`'
  const host = url.hostname.replace(/\.$/, '')
  if (host.startsWith('[') || /^[\d.]+$/.test(host)) return 'the address is an IP address; give a name'
  if (!NAMED.test(host) || INSIDE.test(host))
    return 'the address names no public host; write a name with a dot, such as `hooks.example.com`'
  return undefined
}

/** A network without private addresses, or the platform's own. */
export type Outside = { readonly fetch: (to: string, init: RequestInit) => Promise<Response> }

/** For tests: what goes to an origin goes to the one that stands in for it, on this host. */
export type StandIns = Readonly<Record<string, string>>

export function stoodInFor(to: string, standIns: StandIns): string {
  const { origin, pathname, search } = new URL(to)
  const standIn = standIns[origin]
  return standIn === undefined ? to : `${standIn}${pathname}${search}`
}
